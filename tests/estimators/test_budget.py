"""Fits that charge a ledger: before the first cell, once, and for good."""

import copy
import ctypes
import faulthandler
import json
import mmap
import os
import pickle
import signal
import sys
import warnings
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.model_selection import GridSearchCV, cross_validate
from typer.testing import CliRunner

from stillspace import Budget, PrivatePCA, PrivateRobustPCA
from stillspace.cli.app import app
from stillspace.datasets import make_haystack
from stillspace.exceptions import BudgetExceededError, NotAccountedError
from stillspace.plans.fixed import fingerprint
from stillspace.privacy.filters import UNIT

ESTIMATORS = [PrivateRobustPCA, PrivatePCA]
X = make_haystack(400, 6, 2, random_state=0).X


class Watched:
    """Rows that note each reading of their cells; shape and dtype are told without it."""

    def __init__(self, array, log):
        self._array, self._log = array, log
        self.shape, self.dtype = array.shape, array.dtype

    def __len__(self):
        return len(self._array)

    def __array__(self, dtype=None, copy=None):
        self._log.append("cell")
        return self._array

    def __getitem__(self, key):
        self._log.append("cell")
        return self._array[key]


class LoggedBudget(Budget):
    """A budget that notes when a charge has been committed."""

    log: list = []  # noqa: RUF012

    def charge(self, *args, **kwargs):
        entry = super().charge(*args, **kwargs)
        self.log.append("charge")
        return entry


@pytest.fixture
def budget(tmp_path):
    return Budget(tmp_path / "ledger.db", epsilon=3, delta=1e-5)


def words(rows):
    return rows.astype(object)


@pytest.mark.parametrize("nonfinite", ["zero", "raise"])
@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("kind", ["floats", "objects", "integers"])
def test_no_cell_is_read_before_the_charge(tmp_path, make, kind, nonfinite):
    log = []
    budget = LoggedBudget(tmp_path / "ledger.db", epsilon=3, delta=1e-5)
    LoggedBudget.log = log
    rows = {"objects": words(X), "integers": np.rint(100 * X).astype(int)}.get(kind, X)
    fit = make(2, epsilon=0.5, budget=budget, nonfinite=nonfinite)
    fit.fit(Watched(rows, log))
    assert log == ["charge", "cell"]  # and the cells are converted once


class ProtectedRows:
    """An array whose memory the processor refuses to read until it is opened."""

    def __init__(self):
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._memory = mmap.mmap(-1, -(-X.nbytes // mmap.PAGESIZE) * mmap.PAGESIZE)
        self.array = np.frombuffer(self._memory, count=X.size).reshape(X.shape)
        np.frombuffer(self._memory, count=X.size)[:] = X.ravel()
        self._protect(0)  # PROT_NONE

    def open(self):
        self._protect(mmap.PROT_READ | mmap.PROT_WRITE)

    def _protect(self, mode):
        address = ctypes.c_void_p(self.array.ctypes.data)
        assert self._libc.mprotect(address, len(self._memory), mode) == 0


def _status(work):
    """The wait status of `work` in a forked child: 0, or the signal that ended it."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        faulthandler.disable()
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitpid(child, 0)[1]


@pytest.mark.skipif(sys.platform != "linux", reason="needs mprotect and fork")
@pytest.mark.parametrize("make", ESTIMATORS)
def test_the_processor_agrees_that_no_cell_is_read_before_the_charge(tmp_path, make):
    """Any read of the rows' memory before the charge has been committed ends the process."""
    make(2).fit(X)  # warm: the child forks with compiled kernels
    budget = Budget(tmp_path / "ledger.db", epsilon=3, delta=1e-5)

    class Opening(Budget):
        rows: ProtectedRows

        def charge(self, *args, **kwargs):
            entry = super().charge(*args, **kwargs)
            assert Budget(self.path).entries()[-1] == entry
            self.rows.open()
            return entry

    def fit(ledger):
        rows = ProtectedRows()
        if isinstance(ledger, Opening):
            ledger.rows = rows
        make(2, epsilon=0.5, budget=ledger).fit(rows.array)

    opening = Opening(tmp_path / "ledger.db")
    assert _status(lambda: fit(opening)) == 0
    assert len(budget.entries()) == 1
    # The trap works: rows that nobody opens are not readable.
    assert _status(lambda: fit(budget)) == signal.SIGSEGV
    assert len(budget.entries()) == 2


@pytest.mark.parametrize("make", ESTIMATORS)
def test_nothing_is_read_when_the_fit_is_refused(budget, make):
    make(2, epsilon=2.9, delta=1e-5, budget=budget).fit(X)
    log = []
    estimator = make(2, epsilon=1.0, delta=1e-6, budget=budget)
    with pytest.raises(BudgetExceededError, match=r"has .* % of its budget left.*needs") as error:
        estimator.fit(Watched(X, log))
    assert log == []
    assert "\n" not in str(error.value)
    assert not [name for name in vars(estimator) if name.endswith("_")]
    assert len(budget.entries()) == 1


@pytest.mark.parametrize("make", ESTIMATORS)
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0, 10.0])
def test_one_fit_may_take_all_of_it(tmp_path, make, epsilon):
    budget = Budget(tmp_path / "ledger.db", epsilon=epsilon, delta=1e-5)
    make(2, epsilon=epsilon, delta=1e-5, budget=budget).fit(X)
    assert budget.spent() > 1 - 1e-9
    with pytest.raises(BudgetExceededError):
        make(2, epsilon=0.01, delta=1e-5, budget=budget).fit(X)


def test_the_largest_epsilon_is_admitted(budget):
    PrivatePCA(2, epsilon=1.0, budget=budget, center=None).fit(X)
    largest = budget.largest_epsilon(1e-6)
    with pytest.raises(BudgetExceededError):
        PrivatePCA(2, epsilon=largest * 1.001, delta=1e-6, budget=budget, center=None).fit(X)
    PrivatePCA(2, epsilon=largest, delta=1e-6, budget=budget, center=None).fit(X)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_what_is_charged_is_what_ran(budget, make):
    fit = make(2, epsilon=0.7, budget=budget).fit(X)
    (entry,) = budget.entries()
    assert entry.event == fit.privacy_.event == fit.plan_.event()
    assert entry.name == fit.plan_.name
    mu2 = sum(n * (Fraction(e.sensitivity("replace-one")) / Fraction(e.sigma)) ** 2
              for e, n in entry.event)  # fmt: skip
    assert entry.charge.amounts[0] * UNIT == pytest.approx(mu2, rel=1e-12)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_a_charge_stays_when_the_fit_fails_later(budget, make):
    bad = words(X)
    bad[3, 2] = "a word"
    with pytest.raises(TypeError, match="does not convert"):
        make(2, budget=budget).fit(bad)
    with pytest.raises(ValueError, match="NaN or infinity"):
        make(2, budget=budget, nonfinite="raise").fit(np.where(X > 0, np.nan, X))
    assert len(budget.entries()) == 2


@pytest.mark.parametrize(
    "options",
    [{"n_components": 6}, {"epsilon": -1}, {"center": [1.0]}, {"rows_per_person": 0}],
)
@pytest.mark.parametrize("make", ESTIMATORS)
def test_wrong_parameters_and_shapes_are_not_charged(budget, make, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        make(**options, budget=budget).fit(X)
    for rows in (X[0], X[:1], X[:, :1], X + 1j):
        with pytest.raises(ValueError, match=r"2-d|minimum|Complex"):
            make(budget=budget).fit(rows)
    mixed = pd.DataFrame(X, columns=["a", "b", "c", "d", "e", 6])
    with pytest.raises(TypeError, match="string"):
        make(budget=budget).fit(mixed)
    assert budget.entries() == ()


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"random_state": 0}, "seeded"),
        ({"calibration": "as-printed", "algorithm": "dp-ggd", "n_iter": 5}, "as-printed"),
        ({"algorithm": "dp-sggd", "n_iter": 5}, "kind renyi"),
    ],
)
def test_fits_that_a_ledger_does_not_take(budget, options, reason):
    log = []
    with pytest.raises(NotAccountedError, match=reason):
        PrivateRobustPCA(2, **options, budget=budget).fit(Watched(X, log))
    assert log == []
    assert budget.entries() == ()


@pytest.mark.parametrize("sampling", ["poisson", "without-replacement"])
def test_a_renyi_ledger_takes_stochastic_fits(tmp_path, sampling):
    budget = Budget(tmp_path / "ledger.db", epsilon=3, delta=1e-5, kind="renyi")
    options = {"algorithm": "dp-sggd", "n_iter": 20, "algorithm_options": {"sampling": sampling}}
    PrivateRobustPCA(2, epsilon=0.5, **options, budget=budget).fit(X)
    PrivatePCA(2, epsilon=0.5, budget=budget, center=None).fit(X)
    assert 0 < budget.spent() < 0.5
    options["algorithm_options"] = {"sampling": "with-replacement"}
    with pytest.raises(NotAccountedError, match="with-replacement sampling has no Rényi bound"):
        PrivateRobustPCA(2, **options, budget=budget).fit(X)
    assert len(budget.entries()) == 2


@pytest.mark.parametrize(("make", "factor"), [(PrivatePCA, 2), (PrivateRobustPCA, None)])
def test_relations(tmp_path, make, factor):
    hidden = {"neighboring_relation": "add-or-remove-one", "public_size": 500}
    replace = Budget(tmp_path / "replace.db", 3, 1e-5)
    remove = Budget(tmp_path / "remove.db", 3, 1e-5, neighboring_relation="add-or-remove-one")
    for ledger in (replace, remove):
        make(2, epsilon=0.3, **hidden, budget=ledger).fit(X)
    entered, own = (ledger.entries()[0].charge.amounts[0] for ledger in (replace, remove))
    if factor is not None:
        assert entered / own == pytest.approx(factor, rel=1e-6)
    assert 2 * (1 - 1e-6) <= entered / own <= 4 * (1 + 1e-6)
    assert replace.entries()[0].neighboring_relation == "add-or-remove-one"
    with pytest.raises(NotAccountedError, match="ledger is for add-or-remove-one"):
        make(2, budget=remove).fit(X)


@pytest.mark.parametrize("make", ESTIMATORS)
def test_the_file_holds_no_row_and_no_secret_number_of_rows(tmp_path, make):
    contents = []
    for n in (137, 399):
        budget = Budget(tmp_path / f"{n}.db", 3, 1e-5, neighboring_relation="add-or-remove-one")
        hidden = {"neighboring_relation": "add-or-remove-one", "public_size": 500}
        make(2, epsilon=0.3, **hidden, budget=budget).fit(X[:n])
        (entry,) = budget.entries()
        contents.append((entry.event_json, entry.charge, entry.name))
        stored = (tmp_path / f"{n}.db").read_bytes()
        assert not any(X[i].tobytes() in stored or repr(float(X[i, 0])).encode() in stored
                       for i in range(n))  # fmt: skip
    assert contents[0] == contents[1]


@pytest.mark.parametrize("make", ESTIMATORS)
def test_the_guarantee_says_what_the_ledger_covers(budget, make):
    told = str(make(2, budget=budget).fit(X).privacy_)
    assert "all fits in the same ledger" in told
    assert "(3, 1e-05) under replace-one" in told
    assert "not charged to that ledger" in told
    assert "whose privacy losses add up" not in told
    assert "whose privacy losses add up" in str(make(2).fit(X).privacy_)


def test_clones_grids_and_workers_charge_one_ledger(budget):
    estimator = PrivatePCA(2, epsilon=0.1, delta=1e-6, budget=budget, center=None)
    assert clone(estimator).budget is budget
    assert copy.deepcopy(estimator).budget is budget
    pickle.loads(pickle.dumps(estimator)).fit(X)
    assert len(budget.entries()) == 1

    def nothing(estimator, X, y=None):
        return 0.0

    cross_validate(estimator, X, cv=3, scoring=nothing)
    assert len(budget.entries()) == 4
    GridSearchCV(estimator, {"n_components": [1, 2]}, scoring=nothing, cv=2).fit(X)
    assert len(budget.entries()) == 4 + 4 + 1


def _zero(estimator, X, y=None):
    return 0.0


def test_joblib_workers(budget):
    estimator = PrivatePCA(2, epsilon=0.1, delta=1e-6, budget=budget, center=None)
    cross_validate(estimator, X, cv=4, n_jobs=2, scoring=_zero)
    assert len(budget.entries()) == 4


def test_a_model_that_was_fitted_with_a_budget_is_a_model(budget):
    fit = PrivatePCA(2, budget=budget, center=None).fit(X)
    again = pickle.loads(pickle.dumps(fit))
    assert again.budget == budget
    np.testing.assert_array_equal(again.transform(X), fit.transform(X))


@pytest.mark.parametrize(
    "rows", [X.tolist(), [row.tolist() for row in X], list(X), pd.DataFrame(X)]
)
def test_other_containers(budget, rows):
    if isinstance(rows, pd.DataFrame):
        rows.columns = list("abcdef")
    PrivatePCA(2, epsilon=0.1, budget=budget, center=None).fit(rows)
    assert len(budget.entries()) == 1


def test_what_cannot_tell_its_shape_is_refused(budget):
    class Mystery:
        def __array__(self, dtype=None, copy=None):
            raise AssertionError("read")

    with pytest.raises(TypeError, match="shape of a Mystery is not known"):
        PrivatePCA(2, budget=budget, center=None).fit(Mystery())
    assert budget.entries() == ()


def test_a_shape_that_was_not_true_is_charged_and_refused(budget):
    log = []
    liar = Watched(X, log)
    liar.shape = (500, 6)
    with pytest.raises(ValueError, match="changed its shape between two reads"):
        PrivatePCA(2, budget=budget, center=None).fit(liar)
    assert len(budget.entries()) == 1


def test_something_else_as_budget():
    with pytest.raises(TypeError, match=r"budget must be a stillspace.Budget or None, got str"):
        PrivatePCA(2, budget="ledger.db", center=None).fit(X)


def test_kill_nine(tmp_path):
    kills = pytest.importorskip("evidence.kills")
    assert kills.kills(6, tmp_path).total() == 6


def test_an_entry_tells_plan_guarantee_and_note(tmp_path):
    budget = Budget(tmp_path / "ledger.db", epsilon=3, delta=1e-5, note="first look")
    X = np.random.default_rng(0).standard_normal((200, 4))
    fits = [
        PrivateRobustPCA(
            2, epsilon=e, delta=1e-6, algorithm="dp-ggd", n_iter=n, budget=budget, center=None
        )
        for e, n in ((0.3, 3), (0.3, 3), (0.2, 4))
    ]
    for fit in fits:
        fit.fit(X)
    entries = Budget(tmp_path / "ledger.db").entries()
    assert [entry.note for entry in entries] == ["first look"] * 3
    assert entries[0].plan == fingerprint(fits[0].plan_)
    assert entries[0].plan == entries[1].plan != entries[2].plan
    for entry, fit in zip(entries, fits, strict=True):
        assert entry.guarantee.epsilon == fit.privacy_.epsilon
        assert entry.guarantee.delta == 1e-6
    assert pickle.loads(pickle.dumps(budget))._note == "first look"


def test_verify_and_export(tmp_path):
    path, out = tmp_path / "ledger.db", tmp_path / "ledger.json"
    budget = Budget(path, epsilon=3, delta=1e-5)
    PrivatePCA(1, epsilon=0.5, delta=1e-6, budget=budget, center=None).fit(np.eye(20)[:, :4])
    shown = CliRunner().invoke(app, ["budget", "export", str(path), "--out", str(out)])
    assert shown.exit_code == 0, shown.output
    stored = json.loads(out.read_text())
    assert stored["entries"][0]["guarantee"]["epsilon"] == pytest.approx(0.5, rel=1e-6)
    assert stored["head"] == budget.head() == stored["entries"][0]["hash"]
    for head, code, words in (
        ("", 0, "complete"),
        (budget.head(), 0, "given head"),
        ("x", 1, "lost"),
    ):
        shown = CliRunner().invoke(app, ["budget", "verify", str(path), "--head", head])
        assert shown.exit_code == code
        assert words in shown.output
