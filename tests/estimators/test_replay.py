"""A fit on a neighbour, shown what the first fit was shown: nothing else may differ.

A first fit is run and its releases are kept. A second fit, on rows of which one was replaced, is
given these releases in place of its own. If rows are seen through releases alone, both ask for the
same sums and end with the same attributes, to the last bit. What the sums moved by, in units of
their noise, adds up to the privacy loss of this path: the squares may not pass μ² together. And
the rows that a release reads, behind all maps, are the same but for those of one person.
"""

import warnings

import numpy as np
import pytest

from stillspace import PrivateRobustPCA
from stillspace._frozen import FrozenArray
from stillspace.estimators import _private
from stillspace.parts.geometry import top_eigenvectors
from stillspace.parts.noise import seeded_generator
from stillspace.plans.release import Release
from stillspace.privacy import mu_from_budget
from stillspace.rows import LeaveOut, Lengths, MemoryRows, Project, levels
from stillspace.run import loop
from tests.test_pair_cut import clusters, far

BUDGET = {"epsilon": 9.0, "delta": 1e-6}
D = 6
FAR = far(n=3001, D=D, distance=8.0)[0]


@pytest.fixture(autouse=True)
def _same_noise_step_by_step(monkeypatch):
    monkeypatch.setattr(_private, "generator", lambda _: seeded_generator(7))
    monkeypatch.setattr(loop, "compiled_loop", lambda *_: None)


class Replay:
    """Keeps what each release saw and showed; with `shown` it shows that instead."""

    def __init__(self, shown=None):
        self.seen, self.shown, self.real = [], shown, Release.noisy_mean
        self.read = []
        """The rows behind all maps, as each sum read them."""

    def noisy_mean(self, release, total, draw):
        assert draw.noise is not None
        asked = (release.query, draw.sigma, None if draw.selection is None else [*draw.selection])
        value = self.real(release, total, draw)
        if self.shown is not None:
            same, _, value = self.shown[len(self.seen)]
            assert asked == same
        self.seen.append((asked, np.array(total), np.array(value)))
        return np.array(value)


def replayed(monkeypatch, X, shown=None, **options):
    """Return the attributes of a fit, its warnings, what it saw of the rows, and the rows read."""
    replay, real_add = Replay(shown), MemoryRows.add

    def noisy_mean(release, total, draw):
        return replay.noisy_mean(release, total, draw)

    def add(rows, query, point, selection):
        replay.read.append(rows.sphered())
        return real_add(rows, query, point, selection)

    with monkeypatch.context() as patch, warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        patch.setattr(Release, "noisy_mean", noisy_mean)
        patch.setattr(MemoryRows, "add", add)
        fit = PrivateRobustPCA(**{"n_components": 2, "center": "pairs", **BUDGET, **options})
        held = vars(fit.fit(X))
    held = {k: v.tobytes() if isinstance(v, np.ndarray) else repr(v) for k, v in held.items()}
    return held, [str(warning.message) for warning in told], replay.seen, replay.read


def most_moved(first, second):
    """Return the largest number of rows that differ in what two fits read for the same sum."""
    pairs = zip(first, second, strict=True)  # a row that was left out has missing cells
    return max(int((~np.isclose(a, b, 0.0, 0.0, True)).any(axis=1).sum()) for a, b in pairs)


def loss(first, second):
    """Return the privacy loss of a path: the square of a Gaussian's μ."""
    return sum(
        (np.linalg.norm(one - two) / asked[1]) ** 2
        for (asked, one, _), (_, two, _) in zip(first, second, strict=True)
    )


def neighbours(X, rng, rows=1):
    """X with some rows replaced, by all that is hard to bear."""
    D = X.shape[1]
    for row in (
        np.zeros(D),
        np.full(D, np.nan),
        np.full(D, 1e300),
        np.full(D, 5e-324),
        100.0 * rng.standard_normal(D),
        rng.standard_normal(D),
        X[rng.integers(len(X))],
    ):
        other = X.copy()
        other[rng.choice(len(X), rows, replace=False)] = row
        yield other
    for size in (1.0, 100.0):  # a person's rows need not be equal
        other = X.copy()
        other[rng.choice(len(X), rows, replace=False)] = size * rng.standard_normal((rows, D))
        yield other
    # The most that a person's rows can change: all on one axis, in place of rows across it.
    other = X.copy()
    axis = np.argmin(np.abs(X).sum(axis=0))
    other[np.argsort(np.abs(X[:, axis]))[:rows]] = 50.0 * np.eye(D)[axis]
    yield other


BOTH = {"summaries": ("variances", "distances")}

PICTURES = {"summaries": ("scores", "scree")}

OPTIONS = {
    "auto, summaries": {"summaries": ("variances", "distances")},
    "auto, r chosen": {"n_components": "auto", "summaries": ("distances",)},
    "sketch": {"sketch": 5},
    "certificate": {"summaries": ("certificate",)},
    "certificate, three rows": {
        "rows_per_person": 3,
        "center": None,
        "summaries": ("certificate",),
    },
    "scale, missing": {"scale": np.arange(1.0, D + 1), "missing_code": 1.0},
    "REAPER": {"algorithm": "dp-md-reap", "n_iter": 4},
    "PCA": {"algorithm": "dp-pca"},
    "three rows a person": {"rows_per_person": 3, **BOTH},
    "four rows a person, r chosen": {"rows_per_person": 4, "n_components": "auto", **BOTH},
    "two rows a person, no pairs": {"rows_per_person": 2, "center": None, **BOTH},
    "two rows a person, median": {"rows_per_person": 2, "center": "median", "radius": 3.0, **BOTH},
    "three rows a person, PCA": {"rows_per_person": 3, "algorithm": "dp-pca", **BOTH},
    "three rows a person, REAPER": {
        "rows_per_person": 3,
        "algorithm": "dp-md-reap",
        "n_iter": 4,
        **BOTH,
    },
    "no pairs": {"center": None, "summaries": ("distances",)},
    "standardised": {"center": "private", "scale": "private", "summaries": ("variances",)},
    "median": {"center": "median", "radius": 3.0},
    "pictures": {"center": None, "scale": None, **PICTURES},
    "pictures, two rows a person": {"center": "private", "rows_per_person": 2, **PICTURES},
}


@pytest.mark.parametrize("case", OPTIONS)
@pytest.mark.parametrize("X", [FAR, clusters(n=1000, D=D)[0]], ids=["far", "clusters"])
def test_a_neighbour_with_the_same_releases_has_the_same_fit(monkeypatch, rng, X, case):
    options = OPTIONS[case]
    held, first, seen, read = replayed(monkeypatch, X, **options)
    assert all("were left out as outliers" in text for text in first)  # it follows from releases
    if X is FAR and case in ("auto, summaries", "auto, r chosen", "sketch", "REAPER", "PCA"):
        assert held["pair_cut_"] != "None"
    people = options.get("rows_per_person", 1)
    for other in neighbours(X, rng, people):
        again, told, others, also = replayed(monkeypatch, other, seen, **options)
        assert again == held
        assert told == first
        assert most_moved(read, also) <= people
        assert loss(seen, others) <= mu_from_budget(*BUDGET.values()) ** 2


@pytest.mark.parametrize(("center", "rows"), [(None, 3), ("pairs", 1)])
def test_narrowed_rows_of_a_neighbour(monkeypatch, rng, center, rows):
    X = rng.standard_normal((300, 160)) @ np.diag(np.geomspace(1.0, 0.05, 160))
    options = {
        "center": center,
        "sketch": 128,
        "rows_per_person": rows,
        "summaries": ("variances",),
    }
    held, _, seen, read = replayed(monkeypatch, X, **options)
    widths = [asked[0].D for asked, _, _ in seen]
    assert widths[-1] == 128
    assert 32 in widths
    for other in neighbours(X, rng, rows):
        again, _, others, also = replayed(monkeypatch, other, seen, **options)
        assert again == held
        assert most_moved(read, also) <= rows
        assert loss(seen, others) <= mu_from_budget(*BUDGET.values()) ** 2


def test_sampled_steps_take_the_same_path(monkeypatch, rng):
    """Their loss is that of a mixture; the path and the attributes are compared here."""
    options = {"algorithm": "dp-sggd", "n_iter": 4}
    held, _, seen, read = replayed(monkeypatch, FAR, **options)
    for other in neighbours(FAR, rng):
        again, _, _, also = replayed(monkeypatch, other, seen, **options)
        assert again == held
        assert most_moved(read, also) <= 1


def test_a_look_past_the_releases_is_seen(monkeypatch):
    """A cut at the mean length, a basis of the rows themselves, lengths in units of the longest."""
    other = FAR.copy()
    other[5] = 1e6
    real = MemoryRows.through
    with monkeypatch.context() as patch:

        def at_the_mean(self, row_map):
            if isinstance(row_map, LeaveOut):
                row_map = LeaveOut(float(np.mean(self.lengths())))
            return real(self, row_map)

        patch.setattr(MemoryRows, "through", at_the_mean)
        _, _, seen, read = replayed(monkeypatch, FAR)
        _, _, others, also = replayed(monkeypatch, other, seen)
        assert most_moved(read, also) > 1
        assert loss(seen, others) > mu_from_budget(*BUDGET.values()) ** 2
    with monkeypatch.context() as patch:

        def exact_basis(self, row_map):
            if isinstance(row_map, Project):
                sphered = self.sphered()
                V = top_eigenvectors(sphered.T @ sphered, row_map.basis.shape[1])
                V = V[:, np.argsort(sphered[5] @ V)]  # one row turns the basis
                row_map = Project(FrozenArray.of(V))
            return real(self, row_map)

        patch.setattr(MemoryRows, "through", exact_basis)
        wide = np.random.default_rng(0).standard_normal((400, 160)) * np.geomspace(1, 0.01, 160)
        options = {"center": None, "sketch": 128}
        _, _, seen, read = replayed(monkeypatch, wide, **options)
        moved = wide.copy()
        moved[5] *= -1.0
        _, _, others, also = replayed(monkeypatch, moved, seen, **options)
        assert most_moved(read, also) > 1
        assert loss(seen, others) > mu_from_budget(*BUDGET.values()) ** 2
    with monkeypatch.context() as patch:

        def in_units_of_the_longest(self, row_map):
            if not isinstance(row_map, Lengths):
                return real(self, row_map)
            return MemoryRows(levels(self._factors / self._factors[self._factors > 0].min())[None])

        patch.setattr(MemoryRows, "through", in_units_of_the_longest)
        _, _, seen, read = replayed(monkeypatch, FAR)
        _, _, others, also = replayed(monkeypatch, other, seen)
        assert most_moved(read, also) > 1
        assert loss(seen, others) > mu_from_budget(*BUDGET.values()) ** 2
