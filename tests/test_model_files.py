"""The outside of model files: checksum, signature, date, ledger entry, and the older format."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest

from stillspace import Budget, PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace._model_files import RefusedError, read_model_file, sealed
from stillspace.audit import audit
from stillspace.datasets import make_haystack
from stillspace.models import KeyFileError, load_model, make_key, save_model
from stillspace.models.plans import plan_from_json, plan_to_json
from tests.plans.kinds import KINDS

X = make_haystack(300, 4, 1, inlier_noise=0.05, random_state=3).X
OLD = Path(__file__).parent / "data" / "model-format-2.npz"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One model, unsigned and signed with the first of two keys."""
    folder = tmp_path_factory.mktemp("files")
    fitted = PrivatePCA(1, epsilon=2.0, center=None).fit(X)
    for name in ("key", "other"):
        make_key(folder / name)
    save_model(fitted, folder / "model.npz")
    save_model(fitted, folder / "signed.npz", key=folder / "key")
    return folder


def test_every_changed_byte_is_refused(folder, tmp_path):
    """Each byte of a signed file, with one bit changed; without the key."""
    path = tmp_path / "m.npz"
    content = (folder / "signed.npz").read_bytes()
    path.write_bytes(content)
    accepted = []
    with path.open("r+b", buffering=0) as file:
        for place, byte in enumerate(content):
            for value in (byte ^ 1 << place % 8, byte):
                file.seek(place)
                file.write(bytes([value]))
                if value != byte and _is_whole(path):
                    accepted.append(place)
    assert accepted == []
    assert _is_whole(path)


def _is_whole(path):
    with path.open("rb") as file:
        try:
            read_model_file(file)
        except RefusedError:
            return False
    return True


def test_lost_and_added_bytes_are_refused(folder, tmp_path):
    content = (folder / "model.npz").read_bytes()
    path = tmp_path / "m.npz"
    for changed in (content[:-1], content[1:], content + b"\n", b"\0" + content, content * 2):
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="not a whole stillspace model file"):
            load_model(path)


def test_a_signature_is_checked_with_its_key(folder):
    unchecked = load_model(folder / "signed.npz")
    checked = load_model(folder / "signed.npz", key=folder / "key")
    assert "no key was given" in str(unchecked.privacy_)
    assert "whose signature is that of the given key" in str(checked.privacy_)
    assert "signed, and the signature is that" in str(checked.file_)
    for name, key in (("signed.npz", "other"), ("model.npz", "key")):
        with pytest.raises(KeyFileError, match="not signed"):
            load_model(folder / name, key=folder / key)


def test_a_deliberate_change_is_noticed_by_the_signature_alone(folder, tmp_path):
    """Ten times the noise, in the plan and in the event: the checksum can be made anew, the
    signature cannot."""
    with np.load(folder / "signed.npz", allow_pickle=False) as stored:
        members = dict(stored)
    about = json.loads(str(members["about"]))
    about["privacy"]["event"]["parts"][0]["sigma"] *= 10
    path = tmp_path / "m.npz"

    def write():
        np.savez(path, **{**members, "about": np.array(json.dumps(about))})
        path.write_bytes(sealed(path.read_bytes()))

    write()
    with pytest.raises(ValueError, match="its plan is not that of its guarantee"):
        load_model(path)
    release = about["plan"]["stages"][0]["plan"]["start"]["release"]
    release["z"] *= 10
    write()
    believed = _agreeing(path, about, write)
    assert believed.privacy_.epsilon < 0.5  # as the file says; nobody signed it
    assert "which is not signed" in str(believed.privacy_)
    with pytest.raises(KeyFileError, match="is not signed"):
        load_model(path, key=folder / "key")
    content = path.read_bytes()
    end = content.rindex(b"stillspace seal 1")
    path.write_bytes(sealed(content[:end], b"x" * 32))  # with a key of the forger's own
    with pytest.raises(KeyFileError, match="was not signed with this key"):
        load_model(path, key=folder / "key")


def _agreeing(path, about, write):
    """Put the event of the changed plan into the file, as a careful forger would."""
    plan = plan_from_json(about["plan"], np.zeros(0))
    about["privacy"]["event"] = plan.event().to_dict()
    write()
    return load_model(path)


def test_keys(tmp_path):
    key = tmp_path / "key"
    make_key(key)
    assert len(key.read_text().strip()) == 64
    assert os.name == "nt" or key.stat().st_mode & 0o077 == 0
    with pytest.raises(FileExistsError):
        make_key(key)
    make_key(tmp_path / "second")
    assert key.read_bytes() != (tmp_path / "second").read_bytes()
    (tmp_path / "short").write_bytes(b"secret\n")
    with pytest.raises(KeyFileError, match="6 bytes, and a key has 32"):
        save_model(PrivatePCA(1).fit(X), tmp_path / "m.npz", key=tmp_path / "short")
    assert not (tmp_path / "m.npz").exists()


def test_the_date_is_that_of_the_fit_s_first_file(folder, tmp_path):
    loaded = load_model(folder / "model.npz")
    written = datetime.fromisoformat(loaded.file_.written)
    assert written.utcoffset().total_seconds() == 0
    assert abs((datetime.now(UTC) - written).total_seconds()) < 3600
    loaded.file_ = type(loaded.file_)(3, "2020-02-02T00:00:00+00:00", "0.0.1", "x", "")
    save_model(loaded, tmp_path / "again.npz")
    again = load_model(tmp_path / "again.npz")
    assert (again.file_.written[:4], again.file_.version) == ("2020", "0.0.1")
    loaded.fit(X)  # a new fit has a new date
    save_model(loaded, tmp_path / "new.npz")
    assert load_model(tmp_path / "new.npz").file_.written >= str(written)[:10]


def test_a_charged_fit_has_its_ledger_entry(tmp_path):
    budget = Budget(tmp_path / "ledger.db", epsilon=3, delta=1e-5)
    PrivatePCA(1, epsilon=0.5, delta=1e-6, budget=budget).fit(X)
    fitted = PrivatePCA(1, epsilon=1.0, delta=1e-6, budget=budget).fit(X)
    save_model(fitted, tmp_path / "m.npz")
    with pytest.warns(UserWarning, match="could not hold these parameters: budget"):
        receipt = load_model(tmp_path / "m.npz").receipt_
    entry = budget.entries()[1]
    assert receipt == fitted.receipt_
    assert (receipt.number, receipt.hash, receipt.plan) == (2, entry.hash, entry.plan)
    assert receipt.share == pytest.approx(budget.shares()[1], rel=1e-12)
    content = (tmp_path / "m.npz").read_bytes().replace(b"\0", b"")
    assert str(tmp_path).encode() not in content
    assert PrivatePCA(1).fit(X).receipt_ is None


def test_a_file_of_format_2_still_loads(folder):
    """It was written by stillspace 0.1.0."""
    loaded = load_model(OLD)
    assert isinstance(loaded, PrivateRobustPCA)
    assert loaded.components_.shape == (2, 5)
    assert loaded.privacy_.epsilon == pytest.approx(2.0, abs=1e-6)
    assert loaded.transform(np.ones((3, 5))).shape == (3, 2)
    assert (loaded.file_.format, loaded.file_.written, loaded.file_.sha256) == (2, "", "")
    assert "StagedPlan" in loaded.plan_text_
    assert not hasattr(loaded, "plan_")
    assert loaded.variances_.shape == (2,)
    with pytest.raises(KeyFileError, match="is not signed"):
        load_model(OLD, key=folder / "key")


def test_a_file_of_version_0_2_0_still_loads(tmp_path):
    """Its method has other tuned numbers than today's: the plan is there in words alone."""
    loaded = load_model(OLD.with_name("model-0.2.0.npz"))
    assert isinstance(loaded, PrivateRobustPCA)
    assert loaded.components_.shape == (2, 20)
    assert loaded.privacy_.epsilon == pytest.approx(8.0, abs=1e-6)
    assert (loaded.file_.format, loaded.file_.version) == (3, "0.2.0")
    assert "DampedNewton" in loaded.plan_text_
    assert not hasattr(loaded, "plan_")
    (group,) = loaded.left_out_
    assert not group.loose
    save_model(loaded, tmp_path / "again.npz")
    assert load_model(tmp_path / "again.npz").plan_text_ == loaded.plan_text_


def test_a_seal_does_not_make_format_2_a_format_3(tmp_path):
    (tmp_path / "m.npz").write_bytes(sealed(OLD.read_bytes()))
    with pytest.raises(ValueError, match="other members"):
        load_model(tmp_path / "m.npz")


@pytest.mark.parametrize("name", KINDS)
def test_plans_of_every_kind_come_back(name):
    plan = KINDS[name].plan
    text, numbers = plan_to_json(plan)
    again = plan_from_json(json.loads(json.dumps(text, allow_nan=False)), numbers)
    assert again == plan
    assert repr(again) == repr(plan)


def test_the_plan_of_a_file_can_be_audited(folder):
    loaded = load_model(folder / "model.npz")
    report = audit(loaded.plan_, delta=1e-6, runs=40, random_state=0)
    assert report.claim.epsilon == pytest.approx(2.0, abs=1e-3)
    assert not report.refuted


def test_a_given_start_is_kept_as_numbers(tmp_path):
    options = {"start": np.eye(4)[:1]}
    fitted = RobustPCA(1, algorithm="ggd", max_iter=50, algorithm_options=options).fit(X)
    save_model(fitted, tmp_path / "m.npz")
    loaded = load_model(tmp_path / "m.npz")
    np.testing.assert_array_equal(loaded.plan_.start.value(), fitted.plan_.start.value())
