"""Fits that keep a journal: killed, resumed, copied, damaged; each answer is paid for once."""

import json
import os
import shutil
import signal
import sqlite3
import warnings
from contextlib import closing
from fractions import Fraction

import numpy as np
import pytest
from typer.testing import CliRunner

import stillspace.run as run_module
from stillspace import Budget, PrivatePCA, PrivateRobustPCA, RobustPCA
from stillspace.cli.app import app
from stillspace.datasets import make_haystack
from stillspace.exceptions import (
    BudgetError,
    BudgetExceededError,
    JournalError,
    LedgerError,
    NotAccountedError,
    ResumedWarning,
)
from stillspace.parts.noise import GaussianNoise, seeded_generator
from stillspace.parts.sampling import Poisson
from stillspace.privacy import schema
from stillspace.privacy.rights import Rights
from stillspace.rows import MemoryRows
from stillspace.run import journal_file, run
from stillspace.run.journal import Journal
from stillspace.run.journal_file import JournalFile
from tests import test_adaptive

X = make_haystack(400, 5, 2, inlier_noise=0.1, random_state=0).X
T = 5
"""Iterations of dp-ggd; its start is one answer more."""
PLAIN = {"center": None, "scale": None, "epsilon": 1.0, "delta": 1e-6}
GGD = {"algorithm": "dp-ggd", "n_iter": T, **PLAIN}
CLEAR = {**PLAIN, "epsilon": 8.0}
"""A default fit then takes 10 to 21 passes (60 fits were counted); it is broken after three."""
KINDS = {
    "full batch": GGD,
    "default": CLEAR,
    "pairs": {**CLEAR, "center": "pairs", "summaries": ("variances",)},
    "sampled": {**GGD, "algorithm": "dp-sggd", "batch_size": 40},
    "mirror": {**GGD, "algorithm": "dp-md-reap"},
    "random start": {**GGD, "algorithm_options": {"start": "random"}},
}


class Died(BaseException):
    """Stands for the end of a process, at once."""


@pytest.fixture
def budget(tmp_path):
    return Budget(tmp_path / "ledger.db", epsilon=40, delta=1e-4)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.journal"


def fit(budget, path, options=GGD, data=X):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResumedWarning)
        return PrivateRobustPCA(2, budget=budget, journal=path, **options).fit(data)


def broken(monkeypatch, budget, path, answers, options=GGD):
    """Let a fit end after so many answers were kept."""
    real = Journal._store

    def store(journal, about, values):
        if journal._number == answers:
            raise Died
        real(journal, about, values)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_store", store)
        with pytest.raises(Died):
            fit(budget, path, options)


def kept(path):
    """Return what the file holds of each answer, and the answers."""
    with closing(sqlite3.connect(path)) as connection:
        texts = connection.execute("SELECT about FROM answers ORDER BY number").fetchall()
        values = connection.execute("SELECT value FROM parts ORDER BY number, part").fetchall()
    return [json.loads(text) for (text,) in texts], [value for (value,) in values]


def squared_mus(records):
    """Σμ² of the recorded events under replace-one, by their own numbers."""
    events = [release["event"] for about in records for release in about.get("releases", ())]
    return sum(
        (Fraction(e["rows_per_person"] * e["difference_bound"] + e["slack"]) / Fraction(e["sigma"]))
        ** 2
        for e in events
    )


# Resuming


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_fit_is_charged_once_and_says_what_ran(kind, tmp_path, path, monkeypatch):
    sampled = kind == "sampled"
    ledger = Budget(
        tmp_path / "l.db", epsilon=40, delta=1e-4, kind="renyi" if sampled else "gaussian"
    )
    options = KINDS[kind]
    broken(monkeypatch, ledger, path, 3, options)
    records, answers = kept(path)
    with pytest.warns(ResumedWarning, match="3 answers come from the journal"):
        found = PrivateRobustPCA(2, budget=ledger, journal=path, **options).fit(X)
    assert len(ledger.entries()) == 1
    assert found.receipt_.number == 1
    assert found.privacy_.event == found.plan_.event()
    assert kept(path)[0][:3] == records
    assert kept(path)[1][:3] == answers
    (right,) = ledger.rights.all()
    assert (right.entry, right.resumed, right.answers) == (1, 1, len(kept(path)[0]))
    again = fit(ledger, path, options)  # nothing is left to release
    assert np.array_equal(again.components_, found.components_)
    assert len(ledger.entries()) == 1


def test_the_journal_is_all_that_a_replayed_fit_needs(budget, path, monkeypatch):
    options = {**PLAIN, "summaries": ("variances",)}
    found = fit(budget, path, options)

    def fail(*_, **__):
        raise AssertionError("a row was read, or noise was drawn")

    monkeypatch.setattr(MemoryRows, "add", fail)
    monkeypatch.setattr(GaussianNoise, "draws", fail)
    again = fit(budget, path, options)
    assert np.array_equal(again.components_, found.components_)
    assert np.array_equal(again.variances_, found.variances_)


def test_the_rest_has_fresh_noise(budget, path, tmp_path, monkeypatch):
    broken(monkeypatch, budget, path, 3)
    copied = tmp_path / "copy.journal"
    shutil.copy(path, copied)
    one, two = fit(budget, path), fit(budget, copied)
    first, second = kept(path)[1], kept(copied)[1]
    assert first[:3] == second[:3]
    shared = set(np.frombuffer(b"".join(first[3:]))) & set(np.frombuffer(b"".join(second[3:])))
    assert not shared  # two of 60 lattice values below 2⁻³⁰ of σ: fails with probability < 1e-6
    assert not np.array_equal(one.components_, two.components_)


def test_an_answer_is_claimed_then_written_then_used(budget, path, monkeypatch):
    log = []
    claim, append = Rights.claim, JournalFile.append

    def claimed(rights, name, number):
        claim(rights, name, number)
        log.append(("claim", number))

    def appended(file, number, *rest):
        append(file, number, *rest)
        with closing(sqlite3.connect(path)) as other:  # durable: another connection sees it
            assert other.execute("SELECT COUNT(*) FROM answers").fetchone() == (number,)
        log.append(("write", number))

    monkeypatch.setattr(Rights, "claim", claimed)
    monkeypatch.setattr(JournalFile, "append", appended)
    real = MemoryRows.add

    def read(*args):
        log.append("read")
        return real(*args)

    monkeypatch.setattr(MemoryRows, "add", read)
    fit(budget, path)
    wanted = [step for k in range(1, T + 2) for step in ("read", ("claim", k), ("write", k))]
    assert log == wanted


@pytest.mark.parametrize("moment", ["drawn", "claimed", "written"])
def test_a_process_that_is_killed(moment, budget, path):
    """kill −9 in the middle of the third answer; the charge covers what the journal holds."""
    fit(budget, path.with_name("warm"))  # compile before the fork
    child = os.fork()
    if child == 0:
        try:
            _kill_at(moment)
            fit(budget, path)
        finally:
            os._exit(3)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    charges = len(budget.entries())
    assert charges == 2
    assert len(kept(path)[0]) == (3 if moment == "written" else 2)
    found = fit(budget, path)
    assert len(kept(path)[0]) == T + 1
    # An answer that was claimed and not written may be known to others: it is paid for again.
    assert len(budget.entries()) == charges + (moment == "claimed")
    assert any("another run" in text for text in found.privacy_.assumptions) == (
        moment == "claimed"
    )


def _kill_at(moment):
    claim, append = Rights.claim, JournalFile.append

    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def claimed(rights, name, number):
        if number == 3 and moment == "drawn":
            die()
        claim(rights, name, number)
        if number == 3 and moment == "claimed":
            die()

    def appended(file, number, *rest):
        append(file, number, *rest)
        if number == 3:
            die()

    Rights.claim, JournalFile.append = claimed, appended


# Paying again


@pytest.mark.parametrize("kind", ["full batch", "default", "pairs"])
def test_a_copied_journal_is_charged_for_what_remains(kind, budget, path, tmp_path, monkeypatch):
    options = KINDS[kind]
    broken(monkeypatch, budget, path, 3, options)
    copied = tmp_path / "copy.journal"
    shutil.copy(path, copied)
    fit(budget, path, options)
    assert len(budget.entries()) == 1
    found = fit(budget, copied, options)
    first, second = (Fraction(entry.charge.amounts[0], 2**100) for entry in budget.entries())
    spent = squared_mus(kept(copied)[0][:3])
    assert 0 < spent < first
    left = float((first - spent - second) / first)
    # The stage that looked at lengths of pairs has ended: what it left unused is not for sale.
    assert -1e-12 < left < (0.05 if kind == "pairs" else 1e-12)
    whole = squared_mus(kept(path)[0]) + squared_mus(kept(copied)[0][3:])
    assert whole <= (first + second) * (1 + Fraction(1, 10**12))
    assert "resumed after 3 answers" in budget.entries()[1].note
    assert any("another run" in text for text in found.privacy_.assumptions)
    assert found.receipt_.number == 2


def test_an_older_copy_is_charged_from_where_it_ends(budget, path, tmp_path, monkeypatch):
    broken(monkeypatch, budget, path, 2)
    copied = tmp_path / "copy.journal"
    shutil.copy(path, copied)
    broken(monkeypatch, budget, path, 4)
    fit(budget, path)  # 4 answers were published, and it has them
    assert len(budget.entries()) == 1
    fit(budget, copied)  # it has 2
    amounts = [entry.charge.amounts[0] for entry in budget.entries()]
    each = Fraction(amounts[0], 1)
    assert float(amounts[1] / each) == pytest.approx(
        float(1 - squared_mus(kept(path)[0][:2]) / squared_mus(kept(path)[0])), rel=1e-12
    )


def test_of_two_runs_at_the_same_time_one_is_stopped(budget, path, tmp_path, monkeypatch):
    """Both were resumed without a charge; the answer is published by one of them."""
    broken(monkeypatch, budget, path, 2)
    copied = tmp_path / "copy.journal"
    shutil.copy(path, copied)
    real, begun = Rights.claim, []

    def claim(rights, name, number):
        if not begun:
            begun.append(number)
            fit(Budget(budget.path), copied)  # the other run, in between
        real(rights, name, number)

    monkeypatch.setattr(Rights, "claim", claim)
    with pytest.raises(BudgetError, match="Answer 3 of this fit was published by another run"):
        fit(budget, path)
    assert len(kept(path)[0]) == 2
    assert len(budget.entries()) == 1
    fit(budget, path)
    assert len(budget.entries()) == 2


def test_what_remains_must_fit_into_the_budget(tmp_path, path, monkeypatch):
    budget = Budget(tmp_path / "small.db", epsilon=1.0, delta=1.2e-6)
    broken(monkeypatch, budget, path, 1)
    copied = tmp_path / "copy.journal"
    shutil.copy(path, copied)
    fit(budget, path)
    before = copied.read_bytes()
    with pytest.raises(BudgetExceededError):
        fit(budget, copied)
    assert copied.read_bytes() == before
    assert len(budget.entries()) == 1


def test_replayed_releases_count_under_a_ceiling(path, rng):
    """A method cannot spend again what the replayed answers spent."""
    plan = test_adaptive.plan_of([(0.6,), (0.6,)])
    rows = MemoryRows(test_adaptive.unit_rows(rng, test_adaptive.N, test_adaptive.D))
    header = {"kind": "private", "plan": "", "relation": ""}
    for opening in (JournalFile.create, JournalFile.open):
        journal = Journal(opening(str(path), header))
        with pytest.raises(LedgerError, match="pass the ceiling"):
            run(plan, rows, seeded_generator(0), journal=journal)
        assert len(kept(path)[0]) == 1


# What is in the file


def test_a_journal_holds_public_facts_and_answers_alone(tmp_path, path, monkeypatch):
    """No noise, selection, pairing or key, in any byte of the file."""
    secrets = []

    def watch(owner, name):
        real = getattr(owner, name)

        def watched(*args, **kwargs):
            found = real(*args, **kwargs)
            secrets.append(getattr(found, "chosen", found))
            return found

        monkeypatch.setattr(owner, name, watched)

    watch(GaussianNoise, "draws")
    watch(Poisson, "draws")
    watch(run_module, "draw_pairs")
    ledger = Budget(tmp_path / "l.db", epsilon=40, delta=1e-4, kind="renyi")
    options = {**KINDS["sampled"], "center": "pairs"}
    found = fit(ledger, path, options)
    raw = path.read_bytes()
    secrets = [np.asarray(secret).ravel() for secret in secrets]
    assert len(secrets) >= 3
    for secret in secrets:
        for cells in (secret[:2], secret[-2:]):
            for dtype in (np.int64, np.int32, np.float64):
                assert cells.astype(dtype).tobytes() not in raw
    with closing(sqlite3.connect(path)) as connection:
        ((header,),) = connection.execute("SELECT content FROM header").fetchall()
        rights = connection.execute("SELECT id, entry, hash FROM rights").fetchall()
    assert set(json.loads(header)) == {"kind", "plan", "relation", "stillspace"}
    (entry,) = ledger.entries()
    assert rights == [(ledger.rights.all()[0].id, entry.number, entry.hash)]
    records, values = kept(path)
    for about, value in zip(records, values, strict=True):
        assert set(about) <= {"stage", "iteration", "releases", "start", "shapes"}
        for release in about.get("releases", ()):
            assert set(release) == {"query", "shape", "event"}
        assert len(value) == 8 * sum(int(np.prod(shape)) for shape in about["shapes"])
    assert found.privacy_.private


def test_the_file_does_not_depend_on_a_secret_number_of_rows(budget, tmp_path):
    hidden = {**GGD, "neighboring_relation": "add-or-remove-one", "public_size": 300}
    found = []
    for n in (250, 400):
        fit(budget, tmp_path / f"{n}.journal", hidden, X[:n])
        found.append(kept(tmp_path / f"{n}.journal")[0])
    assert found[0] == found[1]


# What is refused


def test_a_journal_needs_a_budget_and_more_than_one_answer(path, budget):
    with pytest.raises(NotAccountedError, match="needs a budget"):
        fit(None, path)
    with pytest.raises(NotAccountedError, match="one answer, at its end"):
        fit(budget, path, {**PLAIN, "algorithm": "ptr"})
    with pytest.raises(NotAccountedError, match="seeded"):
        fit(budget, path, {**GGD, "random_state": 0})
    with pytest.raises(TypeError, match="journal must be a path"):
        fit(budget, 3)
    with pytest.raises(JournalError, match="folder of the journal"):
        fit(budget, path / "none" / "x")
    assert not path.exists()
    assert budget.entries() == ()


def _truncated(path):
    path.write_bytes(path.read_bytes()[:-4096])


def _cut_short(path):
    path.write_bytes(path.read_bytes()[:50])


def _flipped(path):
    raw = bytearray(path.read_bytes())
    value = kept(path)[1][1]
    raw[raw.index(value[:40]) + 3] ^= 1
    path.write_bytes(bytes(raw))


def _sql(*statements):
    def change(path):
        with closing(sqlite3.connect(path, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return change


DAMAGE = {
    "truncated": (_truncated, "is damaged"),
    "fifty bytes": (_cut_short, "not a journal|is damaged"),
    "a flipped bit": (_flipped, "answer 2 is not what was written"),
    "an edited answer": (
        _sql("UPDATE parts SET value = zeroblob(LENGTH(value)) WHERE number = 2"),
        "answer 2 is not what was written",
    ),
    "an answer less": (_sql("DELETE FROM answers WHERE number = 1"), "answer 1 is not"),
    "a shorter answer": (_sql("UPDATE parts SET value = x'00' WHERE number = 3"), "answer 3"),
    "other words": (_sql("UPDATE answers SET about = '[]' WHERE number = 1"), "is damaged"),
    "no words": (_sql("UPDATE answers SET about = 'x' WHERE number = 1"), "is damaged"),
    "a trigger": (
        _sql("CREATE TRIGGER t AFTER INSERT ON answers BEGIN DELETE FROM answers; END"),
        "its tables are not those",
    ),
    "no payer": (_sql("DELETE FROM rights"), "does not say who paid"),
    "a later format": (_sql("PRAGMA user_version=9"), "has format 9"),
    "another program's": (_sql("PRAGMA application_id=1"), "not a journal of stillspace"),
    "text": (lambda path: path.write_text("my notes\n" * 30), "not a journal of stillspace"),
    "another version": (
        _sql("UPDATE header SET content = replace(content, '\"0.', '\"9.')"),
        "belongs to another fit \\(stillspace 9",
    ),
    "no header": (_sql("DELETE FROM header"), "header cannot be read"),
}


@pytest.fixture(scope="module")
def interrupted(tmp_path_factory):
    """A ledger and a journal of three answers."""
    folder = tmp_path_factory.mktemp("interrupted")
    budget = Budget(folder / "ledger.db", epsilon=40, delta=1e-4)
    with pytest.MonkeyPatch.context() as patch:
        broken(patch, budget, folder / "fit.journal", 3)
    return folder


@pytest.mark.parametrize("kind", DAMAGE)
def test_a_damaged_journal_is_refused_and_left_alone(kind, interrupted, tmp_path):
    for name in ("ledger.db", "fit.journal"):
        shutil.copy(interrupted / name, tmp_path / name)
    budget, path = Budget(tmp_path / "ledger.db"), tmp_path / "fit.journal"
    change, words = DAMAGE[kind]
    change(path)
    before = path.read_bytes()
    with pytest.raises(JournalError, match=words) as error:
        fit(budget, path)
    assert "\n" not in str(error.value)
    assert str(path) in str(error.value)
    assert path.read_bytes() == before
    assert len(budget.entries()) == 1
    assert budget.rights.all()[0].resumed == 0


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"epsilon": 2.0}, "another plan"),
        ({"n_iter": T + 1}, "another plan"),
        ({"neighboring_relation": "add-or-remove-one", "public_size": 400}, "another plan"),
        ({"algorithm": "dp-gd-reap"}, "another plan"),
    ],
)
def test_another_fit_is_refused(changed, words, interrupted):
    with pytest.raises(JournalError, match=words):
        fit(Budget(interrupted / "ledger.db"), interrupted / "fit.journal", {**GGD, **changed})


def test_another_ledger_is_refused(interrupted, budget):
    with pytest.raises(JournalError, match="did not pay for the journal"):
        fit(budget, interrupted / "fit.journal")
    fit(budget, interrupted.with_name("other.journal"))  # this ledger knows journals now
    with pytest.raises(JournalError, match="did not pay for the journal"):
        fit(budget, interrupted / "fit.journal")


def test_an_older_ledger_is_refused(budget, path, tmp_path, monkeypatch):
    broken(monkeypatch, budget, path, 2)
    older = tmp_path / "older.db"
    shutil.copy(budget.path, older)
    broken(monkeypatch, budget, path, 4)
    with pytest.raises(BudgetError, match="knows of 2 answers of this fit, and its journal"):
        fit(Budget(older), path)


def test_an_answer_that_belongs_to_another_question_is_refused(budget, path, monkeypatch):
    """As if a library had changed: the plan is the same, a question is not."""
    broken(monkeypatch, budget, path, 3)
    monkeypatch.setattr(journal_file, "_checked_chain", lambda *_: ("", 3))
    change = """UPDATE answers SET about = replace(about, '"iteration": 1', '"iteration": 7')"""
    _sql(change)(path)
    with pytest.raises(JournalError, match=r"Answer 3 .* belongs to another question"):
        fit(budget, path)


def test_a_full_disk_is_seen_before_the_answer_is_claimed(budget, path, monkeypatch):
    real = shutil.disk_usage

    def full(folder):
        found = real(folder)
        return found._replace(free=10) if len(kept(path)[0]) == 2 else found

    with monkeypatch.context() as patch:
        patch.setattr(journal_file.shutil, "disk_usage", full)
        with pytest.raises(JournalError, match=r"disk of the journal .* is full"):
            fit(budget, path)
    assert budget.rights.all()[0].answers == 2
    fit(budget, path)
    assert len(budget.entries()) == 1


def test_a_ledger_without_journals_keeps_its_format(budget, path):
    PrivatePCA(2, budget=budget, **PLAIN).fit(X)
    with closing(sqlite3.connect(budget.path)) as connection:
        assert schema.version_of(connection) == schema.VERSION
    assert budget.rights.all() == ()
    fit(budget, path)
    with closing(sqlite3.connect(budget.path)) as connection:
        assert schema.version_of(connection) == schema.WITH_JOURNALS
        for change in ("answers = 0", "entry = 1", "id = 'x'"):
            with pytest.raises(sqlite3.IntegrityError, match="only grow"):
                connection.execute(f"UPDATE journals SET {change}")
        with pytest.raises(sqlite3.IntegrityError, match="append-only"):
            connection.execute("DELETE FROM journals")
    assert Budget(budget.path).spent() == budget.spent()


def test_a_large_answer_is_stored_in_pieces(path, monkeypatch):
    monkeypatch.setattr(journal_file, "PART_BYTES", 64)
    header = {"kind": "robust", "plan": "", "relation": ""}
    values = [np.arange(20.0).reshape(4, 5), np.array([np.nan, -np.inf, -0.0])]
    JournalFile.create(str(path), header).append(1, {"stage": 0}, values)
    about, found = JournalFile.open(str(path), header).read(1)
    assert about == {"stage": 0, "shapes": [[4, 5], [3]]}
    for value, same in zip(values, found, strict=True):
        assert value.tobytes() == same.tobytes()


# Robust fits and the command


@pytest.mark.filterwarnings("ignore::stillspace.exceptions.DisagreementWarning")
@pytest.mark.parametrize("holes", [False, True])
def test_a_robust_fit_goes_on_with_the_same_bits(holes, path, monkeypatch):
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((900, 20)) * np.geomspace(1.0, 0.7, 20) + 5.0
    Z[:90] += 5.0 * rng.standard_normal((90, 20))
    if holes:
        Z[::7, 3] = np.nan
    plain = RobustPCA(3, tol=1e-6).fit(Z)
    real = Journal._store

    def store(journal, about, values):
        if journal._number == 3:
            raise Died
        real(journal, about, values)

    with monkeypatch.context() as patch:
        patch.setattr(Journal, "_store", store)
        with pytest.raises(Died):
            RobustPCA(3, tol=1e-6, journal=path).fit(Z)
    with pytest.warns(ResumedWarning, match="3 answers"):
        found = RobustPCA(3, tol=1e-6, journal=path).fit(Z)
    assert len(kept(path)[0]) > 3
    for name in ("components_", "center_", "explained_variance_", "costs_", "n_iter_"):
        assert np.array_equal(getattr(plain, name), getattr(found, name))
    with pytest.raises(JournalError, match="other rows"):
        RobustPCA(3, tol=1e-6, journal=path).fit(Z + 1.0)


def test_the_command_keeps_a_journal(tmp_path):
    np.savetxt(tmp_path / "x.csv", X, delimiter=",")
    call = CliRunner().invoke
    fitting = ["fit", str(tmp_path / "x.csv"), "-r", "2", "--epsilon", "1", "--no-header"]
    fitting += ["--out", str(tmp_path / "m.npz"), "--journal", str(tmp_path / "j"), "--force"]
    refused = call(app, fitting)
    assert refused.exit_code
    assert "--journal needs --budget" in refused.output
    ledger = ["budget", "create", str(tmp_path / "l.db"), "--epsilon", "3", "--delta", "1e-5"]
    assert not call(app, ledger).exit_code
    for _ in range(2):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResumedWarning)
            done = call(app, [*fitting, "--budget", str(tmp_path / "l.db")])
        assert not done.exit_code, done.output
    shown = call(app, ["budget", "show", str(tmp_path / "l.db"), "--json"])
    found = json.loads(shown.output)
    assert len(found["entries"]) == 1
    assert found["journals"][0]["resumed"] == 1
