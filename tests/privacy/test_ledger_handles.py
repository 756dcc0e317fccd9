"""A ledger that changes under a live handle; what a charge costs; modes of opening."""

import os
import pickle
import sqlite3
import threading

import pytest

from stillspace import Budget
from stillspace.exceptions import BudgetError
from stillspace.privacy import ledger
from tests.privacy.conftest import change, charge

PATIENCE = 60.0
"""Seconds after which a thread counts as hung; a charge takes a few thousandths."""


# The file changes under a live handle


def test_a_rollback_under_a_live_handle_is_noticed(path, budget):
    for _ in range(3):
        charge(budget)
    older = path.read_bytes()
    charge(budget)
    other = Budget(path)
    sent = pickle.dumps(budget)
    path.write_bytes(older)
    for handle in (budget, other, pickle.loads(sent)):
        for operation in (handle.spent, handle.verify, handle.entries, lambda h=handle: charge(h)):
            with pytest.raises(BudgetError, match=r"has lost entries: this handle saw 4 of them"):
                operation()
    assert path.read_bytes() == older


def test_a_rollback_that_was_filled_up_again_is_noticed(path, budget):
    older = path.read_bytes()
    charge(budget, note="one")
    path.write_bytes(older)
    charge(Budget(path), note="another")
    with pytest.raises(BudgetError, match="has lost entries"):
        charge(budget)


def test_a_rollback_with_the_old_times_and_counter_is_noticed(path, budget, monkeypatch):
    """Also if the file's stamp is forged: the last entry is looked at in every operation."""
    older = path.read_bytes()
    charge(budget)
    path.write_bytes(older)
    known = budget._ledger._known
    monkeypatch.setattr(ledger, "_checked_stamp", lambda _: known.stamp)
    with pytest.raises(BudgetError, match="has lost entries"):
        charge(budget)


def test_other_handles_may_go_ahead(path, budget):
    other = Budget(path)
    for _ in range(3):
        charge(budget)
        charge(other)
    assert budget.spent() == other.spent() > 0
    assert [entry.number for entry in other.entries()] == [1, 2, 3, 4, 5, 6]


# What a charge costs


def whole_checks(statements):
    found = sum("quick_check" in text for text in statements)
    statements.clear()
    return found


def test_a_charge_looks_at_the_last_entry_only(path, budget, statements):
    charge(budget)
    whole_checks(statements)
    for _ in range(5):
        charge(budget)
        budget.spent()
        entries = [text for text in statements if "FROM entries" in text]
        assert len(entries) == 3  # the last one before, the new one, and again for `spent`
        assert all("WHERE number >=" in text for text in entries)
        assert whole_checks(statements) == 0
    charge(Budget(path))  # checks everything when it opens, not when it charges
    assert whole_checks(statements) == 1
    charge(budget)  # somebody else wrote
    assert whole_checks(statements) == 1
    charge(budget)
    assert whole_checks(statements) == 0
    budget.verify()
    assert whole_checks(statements) == 1


def test_an_older_entry_changed_under_a_live_handle_is_seen_at_the_next_charge(path, budget):
    for _ in range(3):
        charge(budget)
    ((made,),) = _read(path, "SELECT sql FROM sqlite_master WHERE name = 'entries_UPDATE'")
    change(path, "DROP TRIGGER entries_UPDATE", "UPDATE entries SET name = 'x' WHERE number = 1")
    change(path, made)
    with pytest.raises(BudgetError, match=r"damaged \(entry 1 is not what was written\)"):
        charge(budget)


def _read(path, query):
    connection = sqlite3.connect(path)
    rows = connection.execute(query).fetchall()
    connection.close()
    return rows


def test_another_process_that_writes_between_is_not_missed(path, budget, monkeypatch):
    """The stamp is taken before the transaction begins: a commit in the gap makes it too old."""
    other = Budget(path)
    charge(budget)
    take = ledger._checked_stamp

    def late(name):
        stamp = take(name)
        monkeypatch.setattr(ledger, "_checked_stamp", take)
        ledger_file = ledger.LedgerFile(str(path), 60.0)
        _outside_of_turns(lambda: ledger_file.append(lambda _: proposal))
        return stamp

    entry = budget.entries()[0]
    proposal = ("other", "replace-one", entry.charge, entry.event_json, entry.about_json)
    monkeypatch.setattr(ledger, "_checked_stamp", late)
    charge(budget)
    assert [e.name for e in budget.entries()] == ["", "other", ""]
    assert other.spent() == budget.spent() == pytest.approx(3 * Budget(path).shares()[0])


def _outside_of_turns(work):
    """Run `work` in a forked child, as another process would."""
    child = os.fork()
    if child == 0:
        from stillspace.privacy.turns import _Process

        _Process.inside = False  # the child has no connection open
        try:
            work()
        finally:
            os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


def test_a_thread_does_not_wait_for_good(path):
    budget = Budget(path, 3, 1e-5)
    impatient = Budget(path, timeout=0.2)
    inside, done = threading.Event(), threading.Event()

    def decide(_):
        inside.set()
        done.wait(PATIENCE)
        raise BudgetError("no charge")

    def slow():
        with pytest.raises(BudgetError, match="no charge"):
            budget._ledger.append(decide)

    thread = threading.Thread(target=slow)
    thread.start()
    inside.wait(PATIENCE)
    try:
        with pytest.raises(BudgetError, match="another thread of this process is in the middle"):
            impatient.spent()
    finally:
        done.set()
        thread.join()
    assert impatient.spent() == 0


# Modes


def test_open_only_never_makes_a_ledger(path):
    with pytest.raises(BudgetError, match=r"There is no ledger at .*mode='open' makes none"):
        Budget(path, 3, 1e-5, mode="open")
    assert list(path.parent.iterdir()) == []
    Budget(path, 3, 1e-5)
    assert Budget(path, mode="open").epsilon == 3
    with pytest.raises(BudgetError, match=r"has epsilon=3\.0, not 4"):
        Budget(path, 4, 1e-5, mode="open")


def test_create_only_never_opens_a_ledger(path):
    charge(Budget(path, 3, 1e-5, mode="create"))
    content = path.read_bytes()
    for _ in range(2):
        with pytest.raises(BudgetError, match=r"exists already.*mode='create' only makes new"):
            Budget(path, 3, 1e-5, mode="create")
    assert path.read_bytes() == content
    with pytest.raises(BudgetError, match="give epsilon and delta"):
        Budget(path.with_name("other.db"), mode="create")


def test_two_that_create_at_once_get_one_ledger(path, monkeypatch):
    """The other one is first, between the look and the making."""
    make = ledger.create

    def second(*arguments):
        monkeypatch.setattr(ledger, "create", make)
        Budget(path, 3, 1e-5)
        return make(*arguments)

    monkeypatch.setattr(ledger, "create", second)
    with pytest.raises(BudgetError, match="exists already"):
        Budget(path, 3, 1e-5, mode="create")


@pytest.mark.parametrize("mode", ["w", "", None, 1])
def test_other_modes_are_refused(path, mode):
    with pytest.raises(ValueError, match=r"mode must be one of 'open-or-create', 'open', 'create'"):
        Budget(path, 3, 1e-5, mode=mode)
    assert not path.exists()


@pytest.mark.parametrize("timeout", [-1, float("nan")])
def test_other_timeouts_are_refused(path, timeout):
    with pytest.raises(ValueError, match=r"timeout is .* seconds, 0 or more"):
        Budget(path, 3, 1e-5, timeout=timeout)
    assert not path.exists()
