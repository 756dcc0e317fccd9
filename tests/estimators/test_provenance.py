"""Every secret random word of a private fit is fresh, and is used once.

One test over all estimators, stages and kinds of plan (`tests.provenance` watches a fit), and the
same for two fits and for forks, where the real generator runs.
"""

import os
import secrets
import subprocess
import sys
from contextlib import contextmanager, nullcontext
from math import comb
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from distributed import Client, LocalCluster

from stillspace import PrivatePCA, PrivateRobustPCA
from stillspace.audit.residuals import _used_twice
from stillspace.datasets import make_haystack
from stillspace.exceptions import LeftOutWarning
from stillspace.methods.division import DIVISION
from stillspace.recipes import PRIVATE
from stillspace.rows.cluster import on_cluster
from tests.methods.test_outlier_look import planted_table
from tests.provenance import HALVES, watched
from tests.test_pair_cut import far

ALARM = 1e-9
"""The rate of a false alarm for each look at equal noise."""

TABLES = {
    "file": make_haystack(900, 5, 2, inlier_ratio=0.7, random_state=1).X,
    "cluster": make_haystack(900, 5, 2, inlier_ratio=0.7, random_state=1).X,
    "clean": make_haystack(600, 6, 2, inlier_ratio=0.7, random_state=0).X,
    "exact": make_haystack(3000, 4, 1, inlier_ratio=0.9, random_state=0).X,
    "clustered": planted_table(n=900, D=6)[0],
    "far": far(n=801, D=6, distance=8.0)[0],
    "wide": np.random.default_rng(0).standard_normal((300, 160)) * np.geomspace(1.0, 0.05, 160),
}
FAR = {"epsilon": 9.0, "delta": 1e-6, "center": "pairs"}
SAMPLED = {"n_iter": 20, "batch_size": 30}
HIDDEN = {"neighboring_relation": "add-or-remove-one", "public_size": 500}
BOTH = {"summaries": ("variances", "distances")}
PICTURES = {"summaries": ("scores", "scree")}

CASES = {
    "auto": (PrivateRobustPCA, "clean", {}),
    "parts": (PrivateRobustPCA, "clean", {"epsilon": 20.0}),
    "dp-newton": (PrivateRobustPCA, "clean", {"algorithm": "dp-newton", **HIDDEN}),
    "dp-pca": (PrivateRobustPCA, "clean", {"algorithm": "dp-pca", **BOTH}),
    "ptr": (PrivateRobustPCA, "exact", {"algorithm": "ptr", "n_components": 1, "epsilon": 5.0}),
    "dp-ggd": (PrivateRobustPCA, "clean", {"algorithm": "dp-ggd", "n_iter": 20}),
    "dp-sggd": (PrivateRobustPCA, "clean", {"algorithm": "dp-sggd", **SAMPLED}),
    "dp-gd-reap": (PrivateRobustPCA, "clean", {"algorithm": "dp-gd-reap", "n_iter": 20}),
    "dp-sgd-reap": (PrivateRobustPCA, "clean", {"algorithm": "dp-sgd-reap", **SAMPLED}),
    "dp-md-reap": (PrivateRobustPCA, "clean", {"algorithm": "dp-md-reap", "n_iter": 20}),
    "dp-smd-reap": (PrivateRobustPCA, "clean", {"algorithm": "dp-smd-reap", **SAMPLED}),
    "PCA": (PrivatePCA, "clean", {}),
    "PCA, longer rows count more": (PrivatePCA, "clean", {"norm_bound": 2.0, **BOTH}),
    "PCA, r chosen": (PrivatePCA, "clean", {"n_components": "auto", **HIDDEN}),
    "PCA, sketch": (PrivatePCA, "wide", {"sketch": 40, "summaries": ("variances",)}),
    "PCA, median": (PrivatePCA, "clean", {"center": "median", "radius": 2.0}),
    "certificate": (PrivateRobustPCA, "clean", {"summaries": ("certificate", "variances")}),
    "certificate, pairs, r chosen": (
        PrivateRobustPCA,
        "far",
        {**FAR, "n_components": "auto", "summaries": ("certificate",)},
    ),
    "summaries": (PrivateRobustPCA, "clean", {"rows_per_person": 2, **BOTH}),
    "r chosen": (PrivateRobustPCA, "clean", {"n_components": "auto", **BOTH}),
    "pictures": (PrivateRobustPCA, "clean", {"center": None, "scale": None, **PICTURES}),
    "PCA, pictures": (PrivatePCA, "clean", {"norm_bound": 2.0, **HIDDEN, **PICTURES}),
    "median": (PrivateRobustPCA, "clean", {"center": "median", "radius": 2.0, **BOTH}),
    "standardised": (
        PrivateRobustPCA,
        "clean",
        {"center": "private", "scale": "private", "epsilon": 9.0, **BOTH},
    ),
    "units again": (PrivateRobustPCA, "clustered", {"epsilon": 9.0, "n_components": "auto"}),
    "groups kept": (PrivateRobustPCA, "clustered", {"groups": "keep"}),
    "file": (PrivateRobustPCA, "file", PICTURES),
    "file, sampled": (PrivateRobustPCA, "file", {"algorithm": "dp-sggd", **SAMPLED}),
    "cluster": (PrivateRobustPCA, "cluster", PICTURES),
    "cluster, sampled": (PrivateRobustPCA, "cluster", {"algorithm": "dp-sggd", **SAMPLED}),
    "cluster, pairs": (PrivatePCA, "cluster", {"center": "pairs", "scale": None}),
    "file, pairs": (PrivatePCA, "file", {"center": "pairs", "scale": None}),
    "pairs": (PrivateRobustPCA, "far", {**FAR, **BOTH}),
    "pairs, r chosen": (PrivateRobustPCA, "far", {**FAR, "n_components": "auto"}),
    "pairs, three rows": (PrivateRobustPCA, "far", {**FAR, "rows_per_person": 3, **BOTH}),
    "pairs, mirror": (PrivateRobustPCA, "far", {**FAR, "algorithm": "dp-md-reap", "n_iter": 5}),
    "pairs, sampled": (PrivateRobustPCA, "far", {**FAR, "algorithm": "dp-sggd", **SAMPLED}),
    "pairs, ptr": (
        PrivateRobustPCA,
        "exact",
        {"algorithm": "ptr", "n_components": 1, "epsilon": 9.0, "center": "pairs"},
    ),
    "narrowed": (PrivateRobustPCA, "wide", {"sketch": 128, **BOTH}),
    "narrowed pairs": (PrivateRobustPCA, "wide", {"sketch": 128, "center": "pairs"}),
    "without replacement": (
        PrivateRobustPCA,
        "clean",
        {
            "algorithm": "dp-sggd",
            "algorithm_options": {"sampling": "without-replacement"},
            **SAMPLED,
        },
    ),
    "with replacement": (
        PrivateRobustPCA,
        "clean",
        {
            "algorithm": "dp-smd-reap",
            "algorithm_options": {"sampling": "with-replacement"},
            **SAMPLED,
        },
    ),
    "start of another run": (
        PrivateRobustPCA,
        "clean",
        {"algorithm": "dp-ggd", "algorithm_options": {"start": "reaper"}, "n_iter": 5},
    ),
    "random start": (
        PrivateRobustPCA,
        "clean",
        {"algorithm": "dp-ggd", "algorithm_options": {"start": "random"}, "n_iter": 5},
    ),
}


def story_of(monkeypatch, case):
    """Return the fit, and the story of its randomness."""
    make, table, options = CASES[case]
    fit, X = make(**{"n_components": 2, **options}), TABLES[table]
    with TemporaryDirectory() as folder:
        if table in ("file", "cluster"):
            np.save(os.path.join(folder, "X.npy"), X)
            X = os.path.join(folder, "X.npy")
        place = rows_on_a_cluster(X) if table == "cluster" else nullcontext(X)
        with place as given, divided(case), watched(monkeypatch) as story:
            fit.fit(given)
    return fit, story


@contextmanager
def divided(case):
    """In the case with parts the rows of a small table are divided, too."""
    usual = DIVISION.least_cells
    object.__setattr__(DIVISION, "least_cells", 0 if case == "parts" else usual)
    yield
    object.__setattr__(DIVISION, "least_cells", usual)


@contextmanager
def rows_on_a_cluster(path):
    """Its workers are threads of this process, so that what they draw would be seen, too."""
    facts = {"threads_per_worker": 1, "processes": False, "dashboard_address": ":0"}
    with LocalCluster(n_workers=2, **facts) as cluster, Client(cluster) as client:
        yield on_cluster(path, client)


def least_outside(case):
    """The fewest halves of words that the pairing, a random start and ptr take."""
    _, table, options = CASES[case]
    n, D = TABLES[table].shape
    algorithm, paired = options.get("algorithm", "auto"), options.get("center") == "pairs"
    words = (n - 1) * paired
    if algorithm == "ptr":  # the order of rows, the offsets, and at least one word of Laplace noise
        words += (n // 2 if paired else n) - 1 + HALVES * comb(D + 1, 2) + HALVES
    if algorithm.endswith("-reap"):
        words += HALVES * D * D
    if case == "start of another run":
        words += HALVES * D * D
    if case == "random start":
        words += HALVES * D * 2
    if case == "parts":  # a byte per row
        words += n // 4
    return words


def test_every_algorithm_is_watched():
    assert set(PRIVATE) <= {options.get("algorithm", "auto") for _, _, options in CASES.values()}


@pytest.mark.parametrize("case", ["auto", "PCA", "file", "dp-sggd"])
def test_the_default_centre_and_scale_are_watched(case):
    """These cases name neither, so that their first stage is the private standardiser."""
    make, table, options = CASES[case]
    plan = make(**{"n_components": 2, **options}).fit(TABLES[table]).plan_
    assert plan.stages[0].plan.name == "standardiser"


def test_units_that_are_found_again_are_watched():
    make, table, options = CASES["units again"]
    with pytest.warns(LeftOutWarning):
        fit = make(**options).fit(TABLES[table])
    assert fit.left_out_


def test_parts_of_the_rows_are_watched(monkeypatch):
    stories = [story_of(monkeypatch, "parts")[1].parts for _ in range(2)]
    assert all(len(parts) >= 2 for parts in stories)
    assert not stories[0] & stories[1]


LOOPS = [case for case, (_, _, options) in CASES.items() if "n_iter" in options]


@pytest.mark.parametrize(
    ("case", "compiled"), [*((case, True) for case in CASES), *((case, False) for case in LOOPS)]
)
def test_every_word_comes_from_the_one_generator_of_this_fit(monkeypatch, case, compiled):
    if not compiled:
        monkeypatch.setattr("stillspace.run.loop.compiled_loop", lambda *_: None)
    fit, story = story_of(monkeypatch, case)
    check_nothing_shared(story, *(story_of(monkeypatch, case)[1] for _ in range(compiled)))
    assert fit.privacy_.private
    drawn = len(story.noise)
    event = fit.privacy_.event
    coordinates = sum(getattr(part, "coordinates", 0) * count for part, count in event)
    assert drawn == coordinates or (drawn < coordinates and any(e.ceiling for e, _ in event))
    least = least_outside(case)
    outside = story.words - story.inside
    assert least <= outside <= 3 * least + 100 * (least > 0)
    assert (drawn == 0) == ("ptr" in case)


def check_nothing_shared(story, *others):
    """No noise is used twice, in one fit or in two; two fits share neither keys nor selections."""
    assert _used_twice(np.concatenate([s.noise for s in (story, *others)]), ALARM) == []
    large = {chosen for chosen in story.selections if len(chosen) > 8 * 8}
    for other in others:
        assert story.keys != other.keys
        assert not large & set(other.selections)


FORKS = """
import os, sys
import numpy as np
from stillspace.parts.noise import secure_generator
from tests.estimators.test_provenance import CASES, TABLES

def fitted(case):
    make, table, options = CASES[case]
    fit = make(**{"n_components": 2, **options}).fit(TABLES[table])
    return fit.components_.tobytes().hex()

def words():
    return secure_generator().integers(0, 2**64, size=4, dtype=np.uint64).tobytes().hex()

def forked(work):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(reader)
        with os.fdopen(writer, "w") as file:
            file.write(work())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader) as file:
        found = file.read()
    assert os.waitpid(child, 0)[1] == 0
    return found

for case in sys.argv[1:]:
    work = words if case == "words" else lambda: fitted(case)
    found = [work(), forked(work), forked(work), work(), forked(work)]
    print(case, len(set(found)), len(found), all(found))
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forks_share_no_noise():
    """Children of one process publish other numbers than one another and than their parent.

    ptr publishes the centre of a cell, which differs by the offset of the lattice alone.
    """
    cases = ["words", "PCA", "auto", "dp-sggd", "pairs", "ptr", "narrowed"]
    found = subprocess.run(
        [sys.executable, "-c", FORKS, *cases],
        capture_output=True,
        text=True,
        check=True,
        cwd=os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))),
        env={**os.environ, "NUMBA_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
    )
    lines = [line.split() for line in found.stdout.splitlines()]
    assert [line[0] for line in lines] == cases
    assert all(line[1:] == ["5", "5", "True"] for line in lines), found.stdout


def test_the_secure_generator_is_new_each_time(monkeypatch):
    from stillspace.parts import noise

    keys = []
    real = secrets.randbits

    def randbits(bits):
        keys.append((bits, real(bits)))
        return keys[-1][1]

    monkeypatch.setattr(secrets, "randbits", randbits)
    made = [noise.secure_generator() for _ in range(20)]
    assert len({id(generator) for generator in made}) == 20
    assert len({id(generator.bit_generator) for generator in made}) == 20
    assert [bits for bits, _ in keys] == [256] * 20
    assert len({value for _, value in keys}) == 20
    words = np.concatenate([g.integers(0, 2**64, 50, dtype=np.uint64) for g in made])
    assert len(np.unique(words)) == 1000  # two of 1000 words are equal with probability 3e-14
