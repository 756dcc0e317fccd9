"""What the tests of ledgers share."""

import sqlite3

import pytest

from stillspace import Budget
from stillspace.privacy import ComposedEvent, GaussianEvent


def gaussian(mu, *, count=1, norm=1.0, difference=1.0, **options):
    """Releases with Δ_replace/σ = mu each."""
    event = GaussianEvent(difference / mu, norm, difference, **options)
    return ComposedEvent(((event, count),))


def charge(budget, **options):
    return budget.charge(gaussian(0.1), "replace-one", **options)


def change(path, *statements):
    """Change the file of a ledger behind its back."""
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "ledger.db"


@pytest.fixture
def budget(path):
    return Budget(path, epsilon=3, delta=1e-5)


@pytest.fixture
def statements(monkeypatch):
    """All that SQLite is told from now on."""
    seen = []
    connect = sqlite3.connect

    def traced(*args, **options):
        connection = connect(*args, **options)
        connection.set_trace_callback(seen.append)
        return connection

    monkeypatch.setattr(sqlite3, "connect", traced)
    return seen
