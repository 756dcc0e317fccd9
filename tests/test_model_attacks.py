"""Crafted model files: each is refused in one sentence, and unpacks nothing that is too large."""

import copy
import io
import json
import struct
import tracemalloc
import zipfile

import numpy as np
import pytest

from stillspace import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace._model_files import sealed
from stillspace.datasets import make_haystack
from stillspace.models import load_model, save_model

X = make_haystack(400, 6, 2, inlier_noise=0.05, random_state=3).X
MEMORY = 200e6
MEMBERS = ("about", "center", "components", "scale", "plan")


@pytest.fixture(scope="module")
def stored(tmp_path_factory):
    """The members of three honest files: the description as a dictionary, and the arrays."""
    folder = tmp_path_factory.mktemp("models")
    found = {}
    for name, fit in {
        "private": PrivateRobustPCA(2, epsilon=2.0, algorithm="dp-sggd", n_iter=3, center=None),
        "pca": PrivatePCA(2, epsilon=2.0, center=None),
        "robust": RobustPCA(2),
    }.items():
        path = folder / f"{name}.npz"
        save_model(fit.fit(X), path)
        with np.load(path, allow_pickle=False) as kept:
            members = dict(kept)
        members["about"] = json.loads(str(members["about"]))
        found[name] = members
    return found


def packed(members, **options):
    """Return the bytes of a model file, as `numpy.savez` makes them."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", **options) as archive:
        for name, value in members.items():
            inner = io.BytesIO()
            text = json.dumps(value) if isinstance(value, dict) else value
            np.lib.format.write_array(inner, np.asarray(text), version=(1, 0))
            archive.writestr(f"{name}.npy", inner.getvalue())
    return sealed(buffer.getvalue())


def refused(path, content):
    """Load a crafted file; return the one sentence that refuses it, and the peak of memory."""
    path.write_bytes(content)
    del content
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match="not a whole stillspace model file") as error:
            load_model(path)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    said = str(error.value)
    assert said.startswith(str(path))
    assert said.count("\n") == 0
    assert said.endswith("; give a file that stillspace fit or save_model wrote.")
    assert len(said) < len(str(path)) + 200
    assert peak < MEMORY
    return said


# A description with one value changed


NOT_COUNTS = [None, True, "3", 2.5, -1, 0, [1], {}, (1 << 40) + 1, 10**400]
NOT_NUMBERS = [None, True, "1.0", [1.0], {}, -1.0, 10**400]
NOT_TEXTS = [None, 1, True, ["a"], {}]
NOT_LISTS = [None, 1, "abc", {"a": 1}, [1], [None], [["a"]]]
NOT_FLAGS = [None, 0, 1, "true", [], "False"]
PART = ("privacy", "event", "parts", 0)
RELEASE = ("plan", "stages", 0, "plan", "start", "release")
ROOT = {
    ("private", *PART, "count"): NOT_COUNTS,
    ("private", *PART, "sigma"): [*NOT_NUMBERS, 0.0],
    ("private", *PART, "norm_bound"): [*NOT_NUMBERS, 0],
    ("private", *PART, "difference_bound"): NOT_NUMBERS,
    ("private", *PART, "slack"): NOT_NUMBERS,
    ("private", *PART, "sampler_error"): NOT_NUMBERS,
    ("private", *PART, "rate"): NOT_NUMBERS[:5],
    ("private", *PART, "rows_per_person"): NOT_COUNTS,
    ("private", *PART, "coordinates"): [v for v in NOT_COUNTS if v != 0 or v is False],
    ("private", *PART, "ceiling"): NOT_FLAGS,
    ("private", *PART, "sampling"): [*NOT_TEXTS, "some", "ALL"],
    ("private", *PART, "kind"): [*NOT_TEXTS, "laplace", "tested", "not private"],
    ("private", "privacy", "event", "parts"): [None, [], {}, "x", [1], [{}], [None]],
    ("private", "privacy", "event"): [None, [], {}, "x"],
    ("private", "privacy", "delta"): [None, True, "1e-6", 0, 2.0, -1e-6, [1e-6]],
    ("private", "privacy", "private"): NOT_FLAGS,
    ("private", "privacy", "neighboring_relation"): [*NOT_TEXTS, "other"],
    ("private", "privacy", "assumptions"): NOT_LISTS,
    ("private", "privacy", "not_private_because"): [*NOT_LISTS, ["seeded"]],
    ("private", "privacy", "format"): [None, 0, 2, "1"],
    ("private", "privacy"): [None, [], {}, "x"],
    ("private", "class"): [*NOT_TEXTS, "PCA", "RobustPCA"],
    ("robust", "class"): ["PrivatePCA", "PrivateRobustPCA"],
    ("robust", "privacy", "private"): [True],
    ("robust", "privacy", "event", "parts"): [[]],
    ("robust", *PART, "count"): [0],
    ("pca", "n_iter"): NOT_COUNTS[:8],
    ("pca", "converged"): [0, 1, "true", []],
    ("pca", "plan"): [1, True, "x", [], {}, {"is": "Plan"}, {"is": "infinity"}, {"is": ["Plan"]}],
    ("pca", "plan", "is"): ["Plan", "Budget", "stages", None, 1],
    ("pca", "plan", "n_columns"): [5, 7, "6", 6.5, True, None],
    ("pca", "plan", "name"): [1, None, ["dp-pca"]],
    ("pca", "plan", "view"): [[], [1], {"is": "Sphere"}, [{"is": "Sphere"}, {"is": "Pairs"}]],
    ("pca", "plan", "stages"): [[], [None], {}, "x"],
    ("pca", *RELEASE, "z"): [1e-3, 1e9, "1", [1.0, "x"], True],
    ("pca", *RELEASE, "size"): [1, 401, 4e2, "400", None],
    ("pca", *RELEASE, "relation"): ["add-or-remove-one", "other", 1, None],
    ("pca", *RELEASE, "query"): [None, "x", {"is": "Sphere"}, {"is": "Glad"}],
    ("pca", *RELEASE, "query", "D"): [5, 6.0, "6", None],
    ("pca", "plan_text"): NOT_TEXTS,
    ("pca", "written"): [*NOT_TEXTS, "", "yesterday", "2026-01-01T00:00:00"],
    ("pca", "receipt"): [1, "x", [], {}, {"number": 1}],
    ("pca", "released", "dropped_columns"): [None, 1, [1.0], [6], [-1], ["a"], [True]],
    ("pca", "not_stored"): NOT_LISTS,
    ("pca", "feature_names"): [1, "abcdef", ["a"], [1, 2, 3, 4, 5, 6], {"a": 1}, list("abcdefg")],
    ("pca", "parameters"): [None, [], "x", {"nonsense": 1}],
    ("pca", "released"): [None, [], "x", {}],
    ("pca", "released", "route"): NOT_TEXTS,
    ("pca", "sketch"): [1, "x", {}, [], {"width": 3}],
    ("pca", "kind"): [*NOT_TEXTS, "something"],
    ("pca", "format"): [None, True, "2", 2.0, [2]],
    ("pca", "extra"): [1],
}
CHANGES = [(where, i) for where, values in ROOT.items() for i in range(len(values))]


def test_there_are_two_hundred_changes():
    assert len(CHANGES) >= 200


@pytest.mark.parametrize("where", ROOT, ids=lambda where: ".".join(map(str, where)))
def test_a_changed_description_is_refused(where, stored, tmp_path):
    name, *keys = where
    for i, value in enumerate(ROOT[where]):
        members = copy.deepcopy(stored[name])
        place = members["about"]
        for key in keys[:-1]:
            place = place[key]
        place[keys[-1]] = value
        refused(tmp_path / f"{i}.npz", packed(members))


@pytest.fixture(scope="module")
def adaptive(tmp_path_factory):
    """The members of a file whose plan has a ceiling and tuned numbers."""
    path = tmp_path_factory.mktemp("models") / "m.npz"
    save_model(PrivateRobustPCA(2, epsilon=2.0, center=None, scale=None).fit(X), path)
    with np.load(path, allow_pickle=False) as kept:
        members = dict(kept)
    return {**members, "about": json.loads(str(members["about"]))}


RULE = ("plan", "stages", 0, "plan", "method", "rule")
CEILING = ("privacy", "event", "parts", 0)


@pytest.mark.parametrize(("where", "value", "kept"), [
    ((*RULE, "weak"), 4.0, True), ((*RULE, "forgotten"), 1.0, False),
    ((*CEILING, "coordinates"), 10**6, False),
])  # fmt: skip
def test_the_plan_of_another_version_is_not_taken_for_one_of_this(
    where, value, kept, adaptive, tmp_path
):
    """The model is read, with its plan in words."""
    members = changed(adaptive, where, value)
    (tmp_path / "m.npz").write_bytes(packed(members))
    loaded = load_model(tmp_path / "m.npz")
    assert hasattr(loaded, "plan_") == kept
    assert "DampedNewton" in loaded.plan_text_


@pytest.mark.parametrize(("where", "value"), [
    ((*RULE, "weak"), "4"), ((*CEILING, "sigma"), 1e9), ((*CEILING, "ceiling"), False),
    ((*RULE[:-1], "forgotten"), 1.0),
])  # fmt: skip
def test_any_other_change_of_a_plan_is_refused(where, value, adaptive, tmp_path):
    refused(tmp_path / "m.npz", packed(changed(adaptive, where, value)))


GROUP = {"direction": [1.0, *[0.0] * 5], "two_sided": False, "angle": 0.2, "share": 0.1, "sd": 0.01}


@pytest.mark.parametrize("loose", [None, 0, 1, 1.0, "yes", [], [1.0]])
def test_a_group_is_loose_or_not(loose, adaptive, tmp_path):
    content = packed(changed(adaptive, ("released", "left_out"), [{**GROUP, "loose": True}]))
    (tmp_path / "m.npz").write_bytes(content)
    assert load_model(tmp_path / "m.npz").left_out_[0].loose
    group = {**GROUP, "loose": loose}
    refused(tmp_path / "m.npz", packed(changed(adaptive, ("released", "left_out"), [group])))


def changed(members, where, value):
    """Return members with another value at one place of the description."""
    members = copy.deepcopy(members)
    place = members["about"]
    for key in where[:-1]:
        place = place[key]
    place[where[-1]] = value
    return members


@pytest.mark.parametrize("name", sorted({"class", "parameters", "privacy", "plan", "sketch"}))
def test_a_missing_fact_is_refused(name, stored, tmp_path):
    members = copy.deepcopy(stored["pca"])
    del members["about"][name]
    refused(tmp_path / "m.npz", packed(members))


def test_honest_members_are_loaded(stored, tmp_path):
    """The files above are refused for their change alone."""
    for name, members in stored.items():
        (tmp_path / name).write_bytes(packed(members))
        loaded = load_model(tmp_path / name)
        assert loaded.privacy_.private is (name != "robust")


# What would take too long


@pytest.mark.parametrize(
    ("parts", "sampling"), [(9, "poisson"), (300, "poisson"), (100_001, "all")]
)
def test_more_releases_than_any_fit_has_are_refused(parts, sampling, stored, tmp_path):
    members = copy.deepcopy(stored["private"])
    event = members["about"]["privacy"]["event"]
    part = event["parts"][0]
    event["parts"] = [
        {"kind": "gaussian", "count": 1, "sampling": sampling, "rate": 0.01,
         **{k: part[k] for k in ("norm_bound", "difference_bound")}, "sigma": 10.0 + i}
        for i in range(parts)
    ]  # fmt: skip
    said = refused(tmp_path / "m.npz", packed(members))
    assert "more different sampled" in said or "larger than" in said


# Sizes


def bomb(stored, **large):
    return {**stored["pca"], **large}


def test_packed_members_are_refused_before_they_are_unpacked(stored, tmp_path):
    """A zip of a few megabytes that would unpack to more than a gigabyte, and an honest one."""
    zeros = bomb(stored, components=np.zeros((2, 1 << 22)))
    for members in (zeros, stored["pca"]):
        content = packed(members, compression=zipfile.ZIP_DEFLATED)
        assert "packed" in refused(tmp_path / "m.npz", content)


@pytest.mark.parametrize("name", ["components", "center", "scale"])
def test_large_arrays_are_refused_by_their_size(name, stored, tmp_path):
    members = bomb(stored, **{name: np.zeros((1 << 23) + 1024)})
    assert "is larger than" in refused(tmp_path / "m.npz", packed(members))


def test_a_long_description_is_refused_by_its_size(stored, tmp_path):
    members = bomb(stored, about=" " * ((1 << 21) + 2048))
    assert "about.npy is larger than" in refused(tmp_path / "m.npz", packed(members))


@pytest.mark.parametrize("unit", ["[[]]", "1.5", '{"":0}'])
def test_the_most_that_a_description_can_hold_is_not_too_much(unit, stored, tmp_path):
    text = '{"a":[' + ",".join([unit] * ((1 << 21) // (len(unit) + 1) - 8)) + "]}"
    refused(tmp_path / "m.npz", packed(bomb(stored, about=text)))


def test_a_deep_description_is_refused(stored, tmp_path):
    refused(tmp_path / "m.npz", packed(bomb(stored, about="[" * 1_000_000)))


def test_a_name_that_stands_twice_is_refused(stored, tmp_path):
    text = json.dumps(stored["pca"]["about"])
    twice = text[:-1] + ', "n_iter": 5}'
    assert "twice" in refused(tmp_path / "m.npz", packed(bomb(stored, about=twice)))


@pytest.mark.parametrize(
    "shape", ["(99999999999,)", "(2, 60000000)", "(-1,)", "(7,)", "(5,)", "()"]
)
def test_a_header_that_asks_for_other_bytes_is_refused(shape, stored, tmp_path):
    content = packed(stored["pca"])
    header = f"{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}"
    begin = content.index(b"center.npy")
    place = content.index(b"{'descr'", begin)
    length = content.index(b"\n", place) - place
    changed = content[:place] + header.ljust(length).encode() + content[place + length :]
    refused(tmp_path / "m.npz", changed)


def test_many_members_are_refused_before_they_are_listed(stored, tmp_path):
    """60 000 empty members in a file of 6 MB; also when the last record says that there are 4."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for i in range(60_000):
            archive.writestr(f"{i}", b"")
    content = bytearray(buffer.getvalue())
    assert "other members" in refused(tmp_path / "m.npz", bytes(content))
    content[-14:-10] = struct.pack("<HH", 4, 4)
    assert "other members" in refused(tmp_path / "m.npz", bytes(content))


@pytest.mark.parametrize("change", ["twice", "missing", "renamed", "folder", "comment", "locator"])
def test_other_tables_of_contents_are_refused(change, stored, tmp_path):
    members = {name: stored["pca"][name] for name in MEMBERS}
    if change == "missing":
        del members["scale"]
    if change == "renamed":
        members["Scale"] = members.pop("scale")
    if change == "folder":
        members["x/scale"] = members.pop("scale")
    content = packed(members)
    if change == "twice":
        content = content.replace(b"center.npy", b"scale.npy\0")
    if change == "comment":
        content = content[:-2] + struct.pack("<H", 5) + b"hello"
    if change == "locator":
        locator = b"PK\6\7" + struct.pack("<LQL", 0, 0, 1)
        content = content[:-22] + locator + content[-22:]
    refused(tmp_path / "m.npz", content)


def test_a_model_that_is_too_large_is_not_written(tmp_path):
    fit = RobustPCA(2).fit(X)
    fit.components_ = np.zeros((2, (1 << 22) + 1))
    with pytest.raises(ValueError, match=r"8388610 numbers .* holds at most 8388608"):
        save_model(fit, tmp_path / "m.npz")
    assert list(tmp_path.iterdir()) == []


def test_a_parameter_that_is_too_long_is_left_out(tmp_path):
    fit = RobustPCA(2, center=np.zeros(6)).fit(X)
    fit.center = np.linspace(0.0, 1.0, 60_000)
    save_model(fit, tmp_path / "m.npz")
    with pytest.warns(UserWarning, match="could not hold these parameters: center"):
        loaded = load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.center_, fit.center_)


@pytest.mark.parametrize("error", [1e-5, 1e-3, 1.0])
def test_components_that_are_nearly_orthonormal_are_refused(error, stored, tmp_path):
    """False alarms: none; a miss has probability below 1e-15 at 1e-5."""
    components = stored["pca"]["components"].copy()
    components[0] += error * components[1]
    said = refused(tmp_path / "m.npz", packed(bomb(stored, components=components)))
    assert "not orthonormal" in said


# What a loaded guarantee says


def test_a_loaded_guarantee_is_as_stated_by_the_file(stored, tmp_path):
    fit = PrivatePCA(2, center=None).fit(X)
    save_model(fit, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz").privacy_
    assert loaded == fit.privacy_
    assert "As stated by the file, which is not signed" in str(loaded)
    assert "as stated by the file" in repr(loaded)
    for own in (str(fit.privacy_), repr(fit.privacy_)):
        assert "stated by the file" not in own
    assert "Computed from what ran" not in str(loaded)
