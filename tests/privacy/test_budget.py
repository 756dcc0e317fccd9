"""The filter's arithmetic, what is refused, and a file that loses nothing."""

import copy
import math
import multiprocessing
import os
import pickle
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from fractions import Fraction

import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as rdp

from stillspace import Budget
from stillspace.exceptions import BudgetError, BudgetExceededError, NotAccountedError
from stillspace.privacy import (
    ComposedEvent,
    GaussianCurve,
    GaussianEvent,
    NonPrivateEvent,
    mu_from_budget,
)
from stillspace.privacy.filters import SAMPLER_UNIT, UNIT, charge_of, fixed_terms
from stillspace.privacy.renyi import step_divergence
from tests.privacy.conftest import change as tamper
from tests.privacy.conftest import gaussian

TAU = 2.0**-128


def poisson(sigma=10.0, rate=0.05, count=50):
    return ComposedEvent(((GaussianEvent(sigma, 1.0, 2.0, sampling="poisson", rate=rate), count),))


# Arithmetic


def test_squares_add_up_to_the_limit_and_not_beyond(budget):
    """Hand calculation: 16 fits with μ/4 each are the whole budget."""
    mu = mu_from_budget(3.0, 1e-5)
    sixteenth = gaussian(mu / 4 * (1 - 1e-14))
    for i in range(16):
        assert budget.spent() == pytest.approx(i / 16, rel=1e-12)
        assert budget.remaining() == pytest.approx(1 - i / 16, rel=1e-12)
        budget.charge(sixteenth, "replace-one")
    assert len(budget.entries()) == 16
    before = budget.head()
    with pytest.raises(BudgetExceededError, match="0 % of its budget left"):
        budget.charge(gaussian(mu * 1e-5), "replace-one")
    assert budget.head() == before


def test_one_hair_more_is_refused(path):
    mu = mu_from_budget(3.0, 1e-5)
    budget = Budget(path, 3, 1e-5)
    with pytest.raises(BudgetExceededError):
        budget.charge(gaussian(mu * (1 + 1e-13)), "replace-one")
    budget.charge(gaussian(mu * (1 - 1e-13)), "replace-one")


@pytest.mark.parametrize("epsilon", [0.01, 0.3, 1.0, 3.0, 10.0, 20.0, 50.0])
@pytest.mark.parametrize("delta", [1e-3, 1e-6, 1e-12])
def test_limits_hold_with_what_is_set_aside(epsilon, delta):
    """δ of the largest total, plus the most that the sampler may add, is at most δ."""
    for terms in (fixed_terms(epsilon, delta), fixed_terms(epsilon, delta, kind="renyi")):
        sampler = (1 + Fraction(math.exp(epsilon))) * terms.sampler_limit * SAMPLER_UNIT
        assert 0 < sampler <= Fraction(delta) / 1000
        limit = terms.limits[0] * UNIT
        if terms.kind == "gaussian":
            ideal = GaussianCurve(math.sqrt(limit)).get_delta(epsilon)
        else:
            order = terms.orders[0]
            ideal = math.exp((order - 1) * (float(limit) - epsilon)) / order
            ideal *= (1 - 1 / order) ** (order - 1)
            assert ideal == pytest.approx(delta, rel=2e-3)
        assert float(Fraction(ideal) + sampler) <= delta * (1 + 1e-13)


def test_tiny_charges_do_not_slip_under(path):
    """Each counts for at least one unit, and a thousand of them for the sum."""
    terms = fixed_terms(3, 1e-5)
    smallest = charge_of(gaussian(1e-160), "replace-one", terms)
    assert smallest.amounts == (1,)
    tiny = charge_of(gaussian(1e-3), "replace-one", terms).amounts[0]
    together = charge_of(gaussian(1e-3, count=1000), "replace-one", terms).amounts[0]
    assert together <= 1000 * tiny <= together + 1000
    assert tiny * UNIT >= Fraction(1e-3) ** 2 * (1 - Fraction(1, 10**14))


def test_a_sum_does_not_depend_on_the_order_of_charges(tmp_path):
    mus = [0.1, 1e-9, 0.3, 1e-5, 0.2, 1e-12]
    spent = []
    for name, order in (("a", mus), ("b", mus[::-1]), ("c", sorted(mus))):
        budget = Budget(tmp_path / name, 3, 1e-5)
        for mu in order:
            budget.charge(gaussian(mu), "replace-one")
        spent.append(sum(entry.charge.amounts[0] for entry in budget.entries()))
    assert len(set(spent)) == 1


def test_charges_are_exact_fractions_rounded_up():
    event = GaussianEvent(3.7, 1.1, 1.9, slack=1e-9, coordinates=40, sampler_error=TAU)
    charge = charge_of(ComposedEvent(((event, 7),)), "replace-one", fixed_terms(3, 1e-5))
    exact = 7 * ((Fraction(1.9) + Fraction(1e-9)) / Fraction(3.7)) ** 2
    assert exact <= charge.amounts[0] * UNIT <= exact * (1 + Fraction(1, 10**14))
    assert charge.sampler * SAMPLER_UNIT == 280 * Fraction(TAU)


@pytest.mark.parametrize(
    ("norm", "difference", "factor"),
    [(1.0, 2.0, 4), (1.0, math.sqrt(2), 2), (1.0, 1.0, 1)],
    ids=["GLAD", "REAPER, second moment", "cost"],
)
def test_add_or_remove_fits_enter_a_replace_one_ledger_re_accounted(norm, difference, factor):
    event = ComposedEvent(((GaussianEvent(5.0, norm, difference), 3),))
    replace = fixed_terms(3, 1e-5)
    remove = fixed_terms(3, 1e-5, neighboring_relation="add-or-remove-one")
    own = charge_of(event, "add-or-remove-one", remove).amounts[0]
    entered = charge_of(event, "add-or-remove-one", replace).amounts[0]
    assert entered / own == pytest.approx(factor, rel=1e-12)
    assert entered == charge_of(event, "replace-one", replace).amounts[0]
    with pytest.raises(NotAccountedError, match="ledger is for add-or-remove-one"):
        charge_of(event, "replace-one", remove)


def test_a_renyi_ledger_adds_divergences_at_its_order(path):
    budget = Budget(path, 3, 1e-5, kind="renyi", orders=[8])
    both = poisson() + gaussian(0.2, difference=2.0)
    charged = budget.charge(both, "replace-one").charge.amounts[0] * UNIT
    step = step_divergence(poisson().parts[0][0], "replace-one", 8.0)
    assert float(charged) == pytest.approx(50 * step + 8 * 0.04 / 2, rel=1e-12)


def test_a_renyi_ledger_agrees_with_dp_accounting(path):
    """Poisson, add/remove: as many fits as dp_accounting's accountant finds room for."""
    budget = Budget(
        path, 3, 1e-5, kind="renyi", orders=[10], neighboring_relation="add-or-remove-one"
    )
    (step,) = rdp._compute_rdp_poisson_subsampled_gaussian(0.05, 2.0, [10])
    count = 0
    while rdp.compute_epsilon([10], [(count + 1) * 100 * step], 1e-5)[0] <= 3:
        count += 1
    assert 3 < count < 50
    for _ in range(count):
        budget.charge(poisson(2.0, 0.05, 100), "add-or-remove-one")
    with pytest.raises(BudgetExceededError):
        budget.charge(poisson(2.0, 0.05, 100), "add-or-remove-one")


def test_several_orders_share_delta_and_one_with_room_suffices(path):
    budget = Budget(path, 3, 1e-5, kind="renyi", orders=[64, 8])
    assert budget.orders == (8.0, 64.0)
    single = [fixed_terms(3, 5e-6, kind="renyi", orders=(a,)).limits[0] for a in (8.0, 64.0)]
    assert budget._terms.limits == pytest.approx(single, rel=1e-9)
    # At order 64 this alone is above its limit, at order 8 eight of it are not.
    event = gaussian(0.25)
    assert charge_of(event, "replace-one", budget._terms).amounts[1] * 2 > single[1]
    for _ in range(5):
        budget.charge(event, "replace-one")
    amounts = [sum(e.charge.amounts[j] for e in budget.entries()) for j in (0, 1)]
    assert amounts[0] <= single[0]
    assert amounts[1] > single[1]
    assert budget.spent() == pytest.approx(amounts[0] / single[0], rel=1e-6)


def test_the_samplers_error_has_its_own_provision(path):
    budget = Budget(path, 3, 1e-5)
    limit = budget._terms.sampler_limit * SAMPLER_UNIT
    coordinates = math.floor(limit / Fraction(TAU))
    assert coordinates > 1e12
    most = gaussian(1e-6, coordinates=coordinates, sampler_error=TAU)
    budget.charge(most, "replace-one")
    with pytest.raises(BudgetExceededError, match="error of the normal sampler"):
        budget.charge(most, "replace-one")
    budget.charge(gaussian(1e-6), "replace-one")


def test_largest_epsilon_is_what_a_fit_can_have(budget):
    budget.charge(gaussian(0.3), "replace-one")
    epsilon = budget.largest_epsilon(1e-6)
    budget.charge(gaussian(mu_from_budget(epsilon, 1e-6)), "replace-one")
    assert budget.remaining() < 1e-9
    assert budget.largest_epsilon() < 1e-3


# What is refused


@pytest.mark.parametrize(
    ("event", "error", "words"),
    [
        (ComposedEvent(((NonPrivateEvent("plain PCA"), 1),)), NotAccountedError, "plain PCA"),
        (gaussian(0.1) + poisson(), NotAccountedError, "needs a ledger of kind renyi"),
        (ComposedEvent(((GaussianEvent(0.0, 1.0, 2.0), 1),)), NotAccountedError, "no noise"),
        ((1.0, 1e-6), TypeError, "known only by its epsilon and delta"),
        (GaussianEvent(1.0, 1.0, 2.0), TypeError, "got GaussianEvent"),
    ],
)
def test_refused_by_name_and_nothing_changes(budget, event, error, words):
    with pytest.raises(error, match=words):
        budget.charge(event, "replace-one")
    with pytest.raises(NotAccountedError, match="seeded"):
        budget.charge(gaussian(0.1), "replace-one", not_private_because=["seeded"])
    with pytest.raises(ValueError, match=r"neighboring_relation must be one of .*got 'other'"):
        budget.charge(gaussian(0.1), "other")
    assert budget.entries() == ()
    assert budget.spent() == 0
    assert budget.remaining() == 1


def test_people_with_several_rows(path):
    budget = Budget(path, 3, 1e-5, rows_per_person=3)
    with pytest.raises(NotAccountedError, match="rows_per_person=3"):
        budget.charge(gaussian(0.1), "replace-one")
    budget.charge(gaussian(0.1, rows_per_person=3), "replace-one")
    assert budget.entries()[0].charge.amounts[0] * UNIT == pytest.approx(0.09, rel=1e-12)


# The file


def test_opening_again(path, budget):
    budget.charge(gaussian(0.2), "replace-one", name="first")
    again = Budget(path)
    assert again == budget
    assert hash(again) == hash(budget)
    assert again.spent() == budget.spent() > 0
    assert (again.epsilon, again.delta, again.kind) == (3.0, 1e-5, "gaussian")
    assert (again.neighboring_relation, again.rows_per_person, again.orders) == (
        "replace-one",
        1,
        (),
    )
    assert Budget(path, 3, 1e-5, kind="gaussian").path == str(path)
    (entry,) = again.entries()
    assert (entry.number, entry.name, entry.neighboring_relation) == (1, "first", "replace-one")
    assert entry.event == gaussian(0.2)
    assert "spent by 1 fit" in str(again)
    assert "(3, 1e-05)-differential privacy under replace-one" in str(again)
    assert repr(again) == f"Budget({str(path)!r})"


@pytest.mark.parametrize(
    "other",
    [
        {"epsilon": 2},
        {"delta": 1e-6},
        {"kind": "renyi"},
        {"neighboring_relation": "add-or-remove-one"},
        {"rows_per_person": 2},
        {"orders": [8]},
    ],
)
def test_other_terms_at_reopening_are_refused(path, budget, other):
    (name,) = other
    with pytest.raises(BudgetError, match=f"has {name}=.*terms never change"):
        Budget(path, **other)
    assert Budget(path) == budget


@pytest.mark.parametrize("given", [{}, {"epsilon": 1}, {"delta": 1e-6}])
def test_missing_terms_at_creation(path, given):
    with pytest.raises(BudgetError, match=r"There is no ledger at .*give epsilon and delta"):
        Budget(path, **given)
    assert not path.exists()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"epsilon": 0}, "epsilon must be a number .*got 0"),
        ({"epsilon": math.nan}, "epsilon must be a number .*got nan"),
        ({"epsilon": 51}, "epsilon must be at most 50, got 51"),
        ({"epsilon": "much"}, "epsilon must be a number .*got 'much'"),
        ({"epsilon": "1"}, "epsilon must be a number .*got '1'"),
        ({"epsilon": True}, "epsilon must be a number .*got True"),
        ({"epsilon": 10**400}, r"epsilon must be a number .*got a whole number of 2\*\*62 or more"),
        ({"delta": "1e-6"}, "delta must be a number .*got '1e-6'"),
        ({"delta": 10**400}, r"delta must be a number .*got a whole number of 2\*\*62 or more"),
        ({"delta": 1e-305}, "delta must be at least 1e-300, got 1e-305"),
        ({"kind": "renyi", "orders": ["8"]}, "order must be a number .*got '8'"),
        ({"kind": "renyi", "orders": [10**400]}, "order must be a number .*got a whole number"),
        ({"rows_per_person": 10**400}, "rows_per_person must be a whole number .*below"),
        ({"rows_per_person": "1"}, "rows_per_person must be a whole number .*got '1'"),
        ({"delta": 0}, "delta must be a number .*got 0"),
        ({"delta": 1}, "delta must be a number .*got 1"),
        ({"kind": "pld"}, "one of 'gaussian', 'renyi'"),
        ({"orders": [8]}, "orders are for kind='renyi'"),
        ({"kind": "renyi", "orders": []}, "orders is empty"),
        ({"kind": "renyi", "orders": [1.5, 8]}, "the order 1.5 cannot give"),
        ({"kind": "renyi", "orders": [1]}, "Rényi order must lie in"),
        ({"neighboring_relation": "other"}, "neighboring_relation must be one of .*got 'other'"),
        ({"rows_per_person": 0}, "rows_per_person must be a whole number of at least 1, got 0"),
    ],
)
def test_bad_terms_make_no_file(path, options, words):
    with pytest.raises(ValueError, match=words):
        Budget(path, **{"epsilon": 3, "delta": 1e-5, **options})
    assert list(path.parent.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path):
    with pytest.raises(BudgetError, match=r"folder .* does not exist"):
        Budget(tmp_path / "no" / "ledger.db", 3, 1e-5)


@pytest.mark.skipif(os.getuid() == 0, reason="root may write anywhere")
def test_a_read_only_folder_can_be_looked_at(path, budget):
    budget.charge(gaussian(0.2), "replace-one")
    path.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with pytest.raises(BudgetError, match="cannot be written"):
            budget.charge(gaussian(0.2), "replace-one")
        with pytest.raises(BudgetError, match="No ledger could be made"):
            Budget(path.parent / "other.db", 3, 1e-5)
        assert len(budget.entries()) == 1
    finally:
        path.parent.chmod(stat.S_IRWXU)


def test_a_file_that_cannot_be_written(path, budget, monkeypatch):
    """As above, also for root: SQLite is told that the file is read-only."""
    connect = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda name, **o: connect(name.replace("mode=rw", "mode=ro"), **o)
    )
    with pytest.raises(BudgetError, match=r"cannot be written .*nothing was charged"):
        budget.charge(gaussian(0.2), "replace-one")
    assert budget.entries() == ()


def test_a_file_system_that_refuses(path, budget, monkeypatch):
    """What a full or read-only disk looks like from SQLite, also for root."""

    def fail(*_):
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(os, "link", fail)
    with pytest.raises(BudgetError, match=r"No ledger could be made .* read-only file system"):
        Budget(path.parent / "other.db", 3, 1e-5)
    assert [p.name for p in path.parent.iterdir()] == ["ledger.db"]


@pytest.mark.parametrize("content", [b"", b"not a database, but long enough to be one" * 100])
def test_foreign_files_are_left_alone(path, content):
    path.write_bytes(content)
    for options in ({}, {"epsilon": 3, "delta": 1e-5}):
        with pytest.raises(BudgetError, match="is not a stillspace ledger"):
            Budget(path, **options)
    assert path.read_bytes() == content


def test_foreign_databases_and_folders_are_left_alone(path, tmp_path):
    tamper(path, "PRAGMA journal_mode=WAL", "CREATE TABLE entries (number)")
    content = path.read_bytes()
    with pytest.raises(BudgetError, match="is not a stillspace ledger"):
        Budget(path, 3, 1e-5)
    assert path.read_bytes() == content
    with pytest.raises(BudgetError, match="cannot be opened"):
        Budget(tmp_path, 3, 1e-5)


def test_a_later_format_is_refused(path, budget):
    tamper(path, "PRAGMA user_version=4")
    with pytest.raises(BudgetError, match="has format 4; this version of stillspace reads 2 and 3"):
        budget.charge(gaussian(0.2), "replace-one")


def _rows(path, query):
    connection = sqlite3.connect(path, isolation_level=None)
    rows = connection.execute(query).fetchall()
    connection.close()
    return rows


def test_a_damaged_header_is_no_ledger(path, budget):
    path.write_bytes(path.read_bytes()[:50])
    with pytest.raises(BudgetError, match="is not a stillspace ledger"):
        budget.charge(gaussian(0.2), "replace-one")


def test_damage_is_seen(path, budget):
    for _ in range(60):
        budget.charge(gaussian(0.01), "replace-one")
    whole = path.read_bytes()
    for cut in (len(whole) // 2, len(whole) - 4096):
        path.write_bytes(whole[:cut])
        with pytest.raises(BudgetError, match="damaged"):
            budget.charge(gaussian(0.2), "replace-one")
    scribbled = bytearray(whole)
    scribbled[len(whole) // 2 : len(whole) // 2 + 200] = b"x" * 200
    path.write_bytes(bytes(scribbled))
    with pytest.raises(BudgetError, match="damaged"):
        budget.charge(gaussian(0.2), "replace-one")
    path.write_bytes(whole)
    assert len(budget.entries()) == 60


@pytest.mark.parametrize(
    "change",
    [
        "DELETE FROM entries WHERE number = 1",
        "DELETE FROM entries WHERE number = 2",
        "UPDATE entries SET amounts = '[\"1\"]' WHERE number = 3",
        "UPDATE entries SET event = '{}' WHERE number = 3",
        "UPDATE entries SET amounts = '[\"-5\"]' WHERE number = 3",
        "UPDATE entries SET number = 9 WHERE number = 3",
        "UPDATE terms SET content = replace(content, '3.0', '4.0')",
        "DELETE FROM terms",
        "UPDATE terms SET content = 'x'",
    ],
)
def test_entries_are_append_only_and_chained(path, budget, change):
    for _ in range(3):
        budget.charge(gaussian(0.2), "replace-one")
    with pytest.raises(sqlite3.DatabaseError, match="append-only"):
        tamper(path, change)
    table = change.split()[1 if change.startswith("UPDATE") else 2]
    trigger = f"{table}_{change.split()[0]}"
    ((made,),) = _rows(path, f"SELECT sql FROM sqlite_master WHERE name = '{trigger}'")
    tamper(path, f"DROP TRIGGER {trigger}", change, made)  # the schema is as it was
    with pytest.raises(BudgetError, match="damaged"):
        Budget(path).entries()
    with pytest.raises(BudgetError, match="damaged"):
        budget.charge(gaussian(0.2), "replace-one")


def test_a_head_kept_elsewhere_shows_an_older_copy(path, budget):
    assert budget.head() == ""
    budget.charge(gaussian(0.2), "replace-one")
    older = path.read_bytes()
    budget.charge(gaussian(0.2), "replace-one")
    head = budget.head()
    budget.charge(gaussian(0.2), "replace-one")
    budget.verify(head)
    path.write_bytes(older)
    reopened = Budget(path)
    reopened.verify()  # whole in itself
    with pytest.raises(BudgetError, match="another ledger, or it lost entries"):
        reopened.verify(head)


def test_another_ledger_in_its_place_is_seen(path, budget):
    path.unlink()
    Budget(path, 3, 1e-5)
    with pytest.raises(BudgetError, match="another ledger than the one that was opened"):
        budget.charge(gaussian(0.2), "replace-one")
    path.unlink()
    with pytest.raises(BudgetError, match="There is no ledger"):
        budget.charge(gaussian(0.2), "replace-one")
    assert not path.exists()


def test_locked_too_long(path):
    budget = Budget(path, 3, 1e-5, timeout=0.3)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    begin = time.monotonic()
    with pytest.raises(BudgetError, match=r"locked by another process for 0.3 s"):
        budget.charge(gaussian(0.2), "replace-one")
    assert 0.2 < time.monotonic() - begin < 5
    other.execute("ROLLBACK")
    other.close()
    budget.charge(gaussian(0.2), "replace-one")
    assert len(budget.entries()) == 1


def test_a_ledger_put_into_wal_mode_is_taken_back(path, budget):
    """A committed charge stands in the one file."""
    tamper(path, "PRAGMA journal_mode=WAL")
    budget.charge(gaussian(0.2), "replace-one")
    assert [p.name for p in path.parent.iterdir()] == ["ledger.db"]
    copied = path.with_name("copy.db")
    copied.write_bytes(path.read_bytes())
    assert len(Budget(copied).entries()) == 1


def test_every_connection_is_durable(budget, statements):
    """EXTRA (3) and a rollback journal, and the commit is the last thing done before returning."""
    budget.charge(gaussian(0.2), "replace-one")
    assert "PRAGMA synchronous=EXTRA" in statements
    assert "PRAGMA journal_mode=DELETE" in statements
    begin = statements.index("BEGIN IMMEDIATE")
    assert statements.index("PRAGMA synchronous=EXTRA") < begin
    assert statements[-1] == "COMMIT"
    assert sum(text.startswith("INSERT INTO entries") for text in statements[begin:]) == 1


def test_a_link_to_a_ledger_is_that_ledger(path, budget, tmp_path):
    link = tmp_path / "link.db"
    link.symlink_to(path)
    Budget(link).charge(gaussian(0.2), "replace-one")
    assert len(budget.entries()) == 1


# A handle


def test_copies_and_pickles_charge_the_same_file(budget, monkeypatch, tmp_path):
    assert copy.copy(budget) is budget
    assert copy.deepcopy(budget) is budget
    assert copy.deepcopy({"budget": [budget]})["budget"][0] is budget
    monkeypatch.chdir(tmp_path)
    for handle in (copy.deepcopy(budget), pickle.loads(pickle.dumps(budget))):
        assert handle == budget
        handle.charge(gaussian(0.2), "replace-one")
    assert len(budget.entries()) == 2


def test_a_relative_path_stays_where_it_was(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    budget = Budget("ledger.db", 3, 1e-5)
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    budget.charge(gaussian(0.2), "replace-one")
    assert len(Budget(tmp_path / "ledger.db").entries()) == 1


def test_threads(budget):
    """20 threads want a tenth each."""
    tenth = gaussian(mu_from_budget(3.0, 1e-5) / math.sqrt(10) * (1 - 1e-12))
    outcomes = []

    def work():
        try:
            budget.charge(tenth, "replace-one")
            outcomes.append(True)
        except BudgetExceededError:
            outcomes.append(False)

    threads = [threading.Thread(target=work) for _ in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(outcomes) == 10
    assert len(outcomes) == 20
    assert len(budget.entries()) == 10


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_forks_while_threads_charge(budget):
    """No fork happens inside an operation, so that no child inherits half a lock."""
    stop = threading.Event()

    def busy():
        while not stop.is_set():
            budget.charge(gaussian(1e-4), "replace-one")

    thread = threading.Thread(target=busy)
    thread.start()
    try:
        for _ in range(10):
            child = os.fork()
            if child == 0:
                try:
                    budget.charge(gaussian(1e-4), "replace-one", name="child")
                finally:
                    os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
    finally:
        stop.set()
        thread.join()
    assert sum(entry.name == "child" for entry in budget.entries()) == 10


def _charge_from_elsewhere(budget):
    budget.charge(gaussian(0.01), "replace-one", name="worker")


@pytest.mark.parametrize("method", ["spawn", "forkserver"])
def test_workers(budget, method):
    context = multiprocessing.get_context(method)
    process = context.Process(target=_charge_from_elsewhere, args=(budget,))
    process.start()
    process.join()
    assert process.exitcode == 0
    assert [entry.name for entry in budget.entries()] == ["worker"]


def test_a_crash_after_the_charge_leaves_it(path):
    code = (
        "import os, sys; from stillspace import Budget\n"
        "from stillspace.privacy import ComposedEvent, GaussianEvent\n"
        f"Budget({str(path)!r}, 3, 1e-5).charge("
        "ComposedEvent(((GaussianEvent(9.0, 1.0, 2.0), 1),)), 'replace-one')\n"
        "os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == -9
    assert len(Budget(path).entries()) == 1


def test_races_for_the_last_of_the_budget(tmp_path):
    kills = pytest.importorskip("evidence.kills")
    found = kills.race(tmp_path, 8)
    assert set(found) == {"all of it spent, exactly", "never over the limit"}


def test_a_charge_reads_and_writes_in_one_transaction(budget, statements):
    """Nobody else can write between the tally that is judged and the entry that is made."""
    budget.charge(gaussian(0.01), "replace-one")
    begin = statements.index("BEGIN IMMEDIATE")
    write = next(i for i, text in enumerate(statements) if text.startswith("INSERT"))
    between = statements[begin + 1 : write]
    assert any(text.startswith("SELECT") for text in between)
    assert not any(text.startswith(("COMMIT", "BEGIN", "ROLLBACK", "END")) for text in between)
    assert "COMMIT" in statements[write:]


@pytest.mark.parametrize("name", ["epsilon", "delta", "kind", "rows_per_person"])
def test_an_array_as_a_term_of_a_known_ledger_is_refused_without_its_cells(tmp_path, name):
    path = tmp_path / "ledger.db"
    Budget(path, 1.0, 1e-6)
    with pytest.raises((BudgetError, ValueError), match=rf"{name}.* a value of type ndarray") as no:
        Budget(path, **{name: np.array([1.0, 77.5])})
    assert "77" not in str(no.value)


def test_terms_are_kept_as_numbers_whatever_their_type(tmp_path):
    """The terms of a new ledger are those of the handle that made it: no error after the fact."""
    path = tmp_path / "ledger.db"
    given = {"epsilon": Fraction(31, 10), "delta": np.float32(1e-6), "rows_per_person": np.int8(2)}
    made = Budget(path, **given, kind="renyi", orders=(np.float64(32), 16))
    assert (made.epsilon, made.rows_per_person, made.orders) == (3.1, 2, (16.0, 32.0))
    assert Budget(path, **given, orders=[16, 32]).delta == float(np.float32(1e-6))


@pytest.mark.parametrize("name", ["epsilon", "delta", "rows_per_person"])
def test_an_array_as_a_term_of_a_new_ledger_is_refused_without_its_cells(tmp_path, name):
    terms = {"epsilon": 1.0, "delta": 1e-6, name: np.array([1.0, 77.5])}
    with pytest.raises((TypeError, ValueError)) as refused:
        Budget(tmp_path / "ledger.db", **terms)
    assert "ndarray" in str(refused.value)
    assert "77" not in str(refused.value)
