"""Model files: nothing is lost, nothing secret gets in, nothing foreign gets out."""

from __future__ import annotations

import io
import json
import os
import pickle
import re
import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError

from stillspace import PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace._model_files import sealed
from stillspace.datasets import make_haystack
from stillspace.exceptions import SeededNoiseWarning
from stillspace.models import load_model, save_model
from stillspace.parts.schedules import Halving

DATA = make_haystack(731, 6, 2, inlier_noise=0.05, random_state=3)
CENTER = np.linspace(-0.1, 0.1, 6)

FITS = {
    "robust": RobustPCA(2, center=CENTER, scale=np.arange(1, 7)),
    "robust-sampled": RobustPCA(2, algorithm="sggd", max_iter=5, batch_size=8, random_state=5),
    "private-robust": PrivateRobustPCA(2, epsilon=2.0, center=CENTER),
    "private-sampled": PrivateRobustPCA(2, epsilon=2.0, algorithm="dp-sggd", n_iter=3, center=None),
    "private-add-remove": PrivateRobustPCA(
        2,
        epsilon=2.0,
        neighboring_relation="add-or-remove-one",
        public_size=800,
        center=None,
    ),
    "private-pca": PrivatePCA(3, epsilon=0.5, delta=1e-7, norm_bound=0.9, center=None),
}


def npz(**members: object) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **members)
    return buffer.getvalue()


def about(path: Path) -> dict[str, object]:
    with np.load(path, allow_pickle=False) as stored:
        return json.loads(str(stored["about"]))


def rewrite(path: Path, **changes: object) -> None:
    """Store the model again with another description or other arrays."""
    with np.load(path, allow_pickle=False) as stored:
        members = dict(stored)
    text = {**json.loads(str(members["about"])), **changes.pop("about", {})}
    path.write_bytes(sealed(npz(**{**members, "about": np.array(json.dumps(text)), **changes})))


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    path = tmp_path / "model.npz"
    save_model(PrivatePCA(2, center=None).fit(DATA.X), path)
    return path


@pytest.mark.parametrize("name", FITS)
def test_round_trip(name: str, tmp_path: Path) -> None:
    fitted = FITS[name].fit(DATA.X)
    path = tmp_path / "model.npz"
    save_model(fitted, path)
    loaded = load_model(path)

    assert type(loaded) is type(fitted)
    assert loaded.n_iter_ == fitted.n_iter_
    assert loaded.n_features_in_ == 6
    assert loaded.privacy_ == fitted.privacy_
    assert loaded.privacy_.epsilon == fitted.privacy_.epsilon
    assert loaded.plan_ == fitted.plan_
    assert loaded.plan_text_ == repr(fitted.plan_) == repr(loaded.plan_)
    assert not hasattr(loaded, "feature_names_in_")
    for array in ("components_", "center_", "scale_"):
        np.testing.assert_array_equal(getattr(loaded, array), getattr(fitted, array))
    np.testing.assert_array_equal(loaded.transform(DATA.X), fitted.transform(DATA.X))
    if name.startswith("robust"):
        assert loaded.converged_ is True
    for key, value in fitted.get_params().items():
        if key != "random_state":
            np.testing.assert_array_equal(loaded.get_params()[key], value)


def test_a_loaded_model_can_be_saved_again_unchanged(stored: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.npz"
    save_model(load_model(stored), again)
    assert again.read_bytes() == stored.read_bytes()


def test_a_loaded_model_can_be_fitted_again(stored: Path) -> None:
    again = load_model(stored).fit(DATA.X)
    assert again.privacy_.private
    assert again.plan_.name == "dp-pca"


def test_feature_names_come_back(tmp_path: Path) -> None:
    frame = pd.DataFrame(DATA.X, columns=["a", "β", "c", "d", "e", "f"])
    save_model(RobustPCA(2).fit(frame), tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    assert list(loaded.feature_names_in_) == list(frame.columns)
    assert loaded.transform(frame).shape == (731, 2)
    with pytest.raises(ValueError, match="feature names"):
        loaded.transform(frame.rename(columns={"a": "z"}))


def test_the_secret_number_of_rows_stays_out(tmp_path: Path) -> None:
    save_model(FITS["private-add-remove"].fit(DATA.X), tmp_path / "m.npz")
    save_model(FITS["private-add-remove"].fit(DATA.X[:300]), tmp_path / "fewer.npz")
    description, fewer = about(tmp_path / "m.npz"), about(tmp_path / "fewer.npz")
    for name in ("n_iter", "released", "written"):  # which follow from releases, and the date
        del description[name], fewer[name]
    assert description == fewer
    assert re.search(r"\b800\b", json.dumps(description))
    assert not re.search(r"(?<![.\d])731\b", json.dumps(description))


def test_a_file_of_a_private_fit_holds_only_what_is_public(tmp_path: Path) -> None:
    seeded = PrivateRobustPCA(2, random_state=np.random.default_rng(987654321), center=None)
    with pytest.warns(SeededNoiseWarning):
        seeded.fit(DATA.X)
    seeded.leak_ = DATA.X  # an attribute that nobody asked for
    save_model(seeded, tmp_path / "m.npz")
    with np.load(tmp_path / "m.npz", allow_pickle=False) as stored:
        assert sorted(stored.files) == ["about", "center", "components", "plan", "scale"]
        assert stored["plan"].size == 0
        assert sum(stored[k].size for k in ("center", "components", "scale")) == 24
    description = about(tmp_path / "m.npz")
    assert "random_state" not in description["parameters"]
    assert "987654321" not in json.dumps(description)
    assert "leak_" not in json.dumps(description)
    loaded = load_model(tmp_path / "m.npz")
    assert loaded.random_state is None
    assert not loaded.privacy_.private  # the seed is gone, that it was seeded is not


def test_what_json_cannot_hold_is_named(tmp_path: Path) -> None:
    options = {"schedule": Halving(1.0, every=5)}
    fitted = RobustPCA(2, algorithm="ggd", max_iter=3, algorithm_options=options).fit(DATA.X)
    save_model(fitted, tmp_path / "m.npz")
    with pytest.warns(UserWarning, match="algorithm_options"):
        loaded = load_model(tmp_path / "m.npz")
    assert loaded.algorithm_options is None
    assert "Halving(" in loaded.plan_text_


def test_a_failed_write_leaves_the_old_file(stored: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = stored.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        save_model(RobustPCA(2).fit(DATA.X), stored)
    assert stored.read_bytes() == before
    assert os.listdir(stored.parent) == ["model.npz"]


def test_a_link_is_followed(stored: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.npz"
    link.symlink_to(stored)
    save_model(RobustPCA(2).fit(DATA.X), link)
    assert link.is_symlink()
    assert isinstance(load_model(stored), RobustPCA)


@pytest.mark.parametrize("estimator", [object(), type("Mine", (RobustPCA,), {})(2)])
def test_only_our_estimators_are_stored(estimator: object, tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="save_model stores PrivatePCA"):
        save_model(estimator, tmp_path / "m.npz")
    assert os.listdir(tmp_path) == []


def test_an_unfitted_estimator_is_refused(tmp_path: Path) -> None:
    with pytest.raises(NotFittedError):
        save_model(RobustPCA(2), tmp_path / "m.npz")
    assert os.listdir(tmp_path) == []


def zipped(name: str, content: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        archive.writestr(name, content)
    return buffer.getvalue()


FOREIGN = {
    "empty": b"",
    "text": b"a,b\n1,2\n",
    "zip of text": zipped("readme.txt", b"hello"),
    "other npz": npz(x=np.eye(3)),
    "description only": npz(about=np.array("{}")),
    "pickled model": pickle.dumps({"components": np.eye(2, 3)}),
}


@pytest.mark.parametrize("kind", FOREIGN)
def test_foreign_files_get_one_sentence(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    path.write_bytes(FOREIGN[kind])
    with pytest.raises(ValueError, match="not a whole stillspace model file"):
        load_model(path)


class Bomb:
    """Pickled, it makes a folder when it is loaded."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.mkdir, (self.path,)


def test_pickles_inside_an_npz_are_never_run(stored: Path, tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    rewrite(stored, center=np.array([Bomb(str(trap))], dtype=object))
    with np.load(stored, allow_pickle=True) as member, pytest.raises(TypeError):
        member["center"] + 1.0  # the trap does work where pickles are allowed
    assert trap.exists()
    trap.rmdir()
    with pytest.raises(ValueError, match="not a whole stillspace model file"):
        load_model(stored)
    assert not trap.exists()


@pytest.mark.parametrize("share", [0.2, 0.9, 0.999])
def test_a_cut_off_file_is_refused(share: float, stored: Path) -> None:
    content = stored.read_bytes()
    stored.write_bytes(content[: int(len(content) * share)])
    with pytest.raises(ValueError, match="not a whole stillspace model file"):
        load_model(stored)


@pytest.mark.parametrize(
    "change",
    [
        {"components": np.ones((2, 6))},
        {"components": np.eye(2, 6) * np.nan},
        {"components": np.eye(2, 5)},
        {"components": np.eye(6)},
        {"scale": np.zeros(6)},
        {"extra": np.zeros(1)},
        {"about": {"class": "PCA"}},
        {"about": {"kind": "something"}},
        {"about": {"parameters": {"nonsense": 1}}},
        {"about": {"privacy": {}}},
        {"about": {"not_stored": None}},
        {"about": {"feature_names": ["a"]}},
    ],
    ids=str,
)
def test_damaged_models_are_refused(change: dict[str, object], stored: Path) -> None:
    rewrite(stored, **change)
    with pytest.raises(ValueError, match="not a whole stillspace model file"):
        load_model(stored)


@pytest.fixture
def summed_up(tmp_path: Path) -> Path:
    path = tmp_path / "model.npz"
    fit = PrivateRobustPCA(2, center="pairs", summaries=("variances", "distances")).fit(DATA.X)
    fit.pair_cut_ = 3.0
    save_model(fit, path)
    return path


NO_NUMBERS = [-1.0, float("nan"), float("inf"), True, "1", [1.0], {}]


@pytest.mark.parametrize("value", NO_NUMBERS, ids=str)
@pytest.mark.parametrize("name", ["pair_cut", "error_estimate", "variances", "distance_quantiles"])
def test_numbers_that_no_fit_releases_are_refused(name, value, summed_up) -> None:
    released = about(summed_up)["released"]
    assert load_model(summed_up).pair_cut_ == 3.0
    several = isinstance(released[name], list)
    damaged = [value, *released[name][1:]] if several else value
    rewrite(summed_up, about={"released": {**released, name: damaged}})
    with pytest.raises(ValueError, match="not a whole stillspace model file"):
        load_model(summed_up)


@pytest.mark.parametrize(
    "change",
    [
        *({"n_iter": value} for value in [0, 1.5, None, *NO_NUMBERS]),
        *({"parameters": {"epsilon": value}} for value in NO_NUMBERS[1:3]),
    ],
    ids=str,
)
def test_other_damaged_numbers_are_refused(change, stored) -> None:
    rewrite(stored, about=change)
    with pytest.raises(ValueError, match="not a whole stillspace model file"):
        load_model(stored)


@pytest.mark.parametrize("change", [{"pair_cut": 0.0}, {"variances": [1.0]}], ids=str)
def test_a_zero_cut_and_a_missing_variance_are_refused(change, summed_up) -> None:
    rewrite(summed_up, about={"released": {**about(summed_up)["released"], **change}})
    with pytest.raises(ValueError, match="not a whole stillspace model file"):
        load_model(summed_up)


def test_an_endless_number_is_refused(summed_up) -> None:
    with np.load(summed_up, allow_pickle=False) as kept:
        members = dict(kept)
    text = str(members["about"]).replace('"pair_cut": 3.0', '"pair_cut": 1e999')
    summed_up.write_bytes(sealed(npz(**{**members, "about": np.array(text)})))
    with pytest.raises(ValueError, match="not a whole stillspace model file"):
        load_model(summed_up)


def test_quantiles_of_which_nothing_is_known_come_back(tmp_path: Path) -> None:
    fit = PrivatePCA(2, summaries=("distances",), center=None).fit(DATA.X)
    fit.distance_quantiles_ = np.full(6, np.nan)  # as when all noisy counts are negative
    save_model(fit, tmp_path / "m.npz")
    np.testing.assert_array_equal(
        load_model(tmp_path / "m.npz").distance_quantiles_, np.full(6, np.nan)
    )


def test_another_format_is_named(stored: Path) -> None:
    rewrite(stored, about={"format": 99, "stillspace": "7.0"})
    said = r"format 99, written by stillspace '7.0'; .* format 2 and 3"
    with pytest.raises(ValueError, match=said):
        load_model(stored)


def test_a_missing_file_is_missing(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        load_model(tmp_path / "none.npz")


def test_groups_that_were_left_out_are_kept(tmp_path):
    """A tight cluster of a third of the rows; its description comes back to the last bit."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((6000, 2)) @ np.linalg.qr(rng.standard_normal((12, 2)))[0].T
    X += 0.1 * rng.standard_normal(X.shape)
    X[:2000] = rng.standard_normal(12) + 0.01 * rng.standard_normal((2000, 12))
    fit = PrivateRobustPCA(2, epsilon=4.0, center=None, scale=None).fit(X)
    (group,) = fit.left_out_
    assert abs(group.share - 1 / 3) < 0.05
    save_model(fit, tmp_path / "m.npz")
    (again,) = load_model(tmp_path / "m.npz").left_out_
    assert np.array_equal(again.direction, group.direction)
    assert (again.angle, again.share, again.sd) == (group.angle, group.share, group.sd)
    fit.left_out_ = (replace(group, loose=True),)
    save_model(fit, tmp_path / "loose.npz")
    assert load_model(tmp_path / "loose.npz").left_out_[0].loose
