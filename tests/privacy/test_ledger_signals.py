"""Signal handlers and forks in the middle of a ledger operation: no hang, nothing lost.

The signals and forks are real. Each test is one program of its own, with a deadline.
"""

import subprocess
import sys

import pytest

from stillspace import Budget

PATIENCE = 120.0
"""Seconds after which a program counts as hung; its work takes well below one."""

PROGRAM = """
import os, signal, sqlite3, sys, threading
from pathlib import Path
from stillspace import Budget
from stillspace.exceptions import BudgetError
from stillspace.privacy import ComposedEvent, GaussianEvent

EVENT = ComposedEvent(((GaussianEvent(10.0, 1.0, 1.0), 1),))
MOMENTS = ["BEGIN", "SELECT type", "SELECT number", "INSERT", "COMMIT"]
connect = sqlite3.connect


class Signalling(sqlite3.Connection):
    moment = ""

    def execute(self, text, *rest):  # a real signal, while a charge is at this statement
        found = None if text == "COMMIT" else super().execute(text, *rest)
        if text.startswith(self.moment):
            os.kill(os.getpid(), signal.SIGALRM)
        return super().execute(text, *rest) if text == "COMMIT" else found


def charge(budget):
    return budget.charge(EVENT, "replace-one")


def charge_with_a_signal(budget, moment):
    Signalling.moment = moment
    sqlite3.connect = lambda *a, **o: connect(*a, factory=Signalling, **o)
    try:
        return charge(budget)
    finally:
        sqlite3.connect = connect


def ledgers():
    for i, moment in enumerate(MOMENTS):
        yield moment, Budget(f"{sys.argv[1]}/{i}.db", epsilon=3, delta=1e-5, timeout=20)
"""


def run(code, folder):
    """Run a program with a deadline; return the lines that it printed."""
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", PROGRAM + code]
    done = subprocess.run(
        [*command, str(folder)], timeout=PATIENCE, check=False, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_signal_handler_that_asks_during_a_charge_is_told(tmp_path):
    said = run(
        """
def handler(*_):
    for question in (budget.spent, budget.verify, lambda: charge(budget)):
        try:
            question()
            print("answered")
        except BudgetError as error:
            print(error)
signal.signal(signal.SIGALRM, handler)
for moment, budget in ledgers():
    charge_with_a_signal(budget, moment)
    assert len(budget.entries()) == 1, moment
    assert charge(budget).number == 2
""",
        tmp_path,
    )
    assert len(said) >= 3 * 5
    assert all("cannot be used now: this thread is in the middle of" in line for line in said)
    assert [len(Budget(path).entries()) for path in tmp_path.iterdir()] == [2] * 5


def test_a_handler_that_raises_undoes_the_charge(tmp_path):
    said = run(
        """
def handler(*_):
    raise KeyboardInterrupt
signal.signal(signal.SIGALRM, handler)
for moment, budget in ledgers():
    try:
        charge_with_a_signal(budget, moment)
    except KeyboardInterrupt:
        pass  # here the traceback still holds the cursor of `Signalling.execute`
    else:
        print("not interrupted")
    print(len(budget.entries()), charge(budget).number)
""",
        tmp_path,
    )
    assert said == ["0 1"] * 5
    assert [len(Budget(path).entries()) for path in tmp_path.iterdir()] == [1] * 5


@pytest.mark.parametrize("leave", ["os._exit(0)", "return", "sys.exit(0)"])
def test_a_signal_handler_that_forks_during_a_charge(tmp_path, leave):
    """The parent's charge stands. The child can neither write nor undo it, whatever it does.

    A child that closed the inherited connection would delete the journal of the parent, which
    then had no way back after a crash.
    """
    said = run(
        f"""
def handler(*_):
    journal = Path(budget.path + "-journal")
    before = journal.exists()
    child = os.fork()
    if child:
        os.waitpid(child, 0)  # the child is done before the charge goes on
        assert journal.exists() == before
        return
    try:
        charge(budget)
    except BudgetError as error:
        print(error, flush=True)
    {leave}
signal.signal(signal.SIGALRM, handler)
me = os.getpid()
for moment, budget in ledgers():
    try:
        charge_with_a_signal(budget, moment)
    except BudgetError:
        assert os.getpid() != me
        sys.exit(0)
    assert os.getpid() == me
    assert len(budget.entries()) == 1, moment
    assert charge(budget).number == 2
""",
        tmp_path,
    )
    assert len(said) >= 5
    assert all("was forked in the middle of a ledger operation" in line for line in said)
    assert [len(Budget(path).entries()) for path in tmp_path.iterdir()] == [2] * 5


def test_a_fork_waits_for_the_operation_of_another_thread(tmp_path):
    said = run(
        """
begun, never = threading.Event(), threading.Event()
budget = Budget(sys.argv[1] + "/ledger.db", epsilon=3, delta=1e-5)
class Slow(sqlite3.Connection):
    def execute(self, text, *rest):
        if text == "COMMIT":
            begun.set()
            never.wait(0.3)
        return super().execute(text, *rest)
def slow():
    sqlite3.connect = lambda *a, **o: connect(*a, factory=Slow, **o)
    charge(budget)
thread = threading.Thread(target=slow)
thread.start()
begun.wait()
child = os.fork()
sqlite3.connect = connect
if child == 0:
    print(len(budget.entries()), charge(budget).number, flush=True)
    os._exit(0)
os.waitpid(child, 0)
thread.join()
print(len(budget.entries()))
""",
        tmp_path,
    )
    assert said == ["1 2", "2"]
