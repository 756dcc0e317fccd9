"""Workers that are lost at awkward moments, and what a cluster gets to see of the rows."""

import logging
import os
import re
import signal
import warnings

import dask.array
import distributed
import numpy as np
import pytest

from stillspace import PrivateRobustPCA
from stillspace.exceptions import DataFileError
from stillspace.parts.queries import Glad, SecondMoment
from stillspace.rows import MemoryRows, Sphere
from stillspace.rows.cluster import on_cluster, pool, worker

N, D = 70139, 40
"""Several jobs; and a number of rows that is the number of no port."""
CELL = 8.1427364951
"""A cell that would be seen in a text."""


@pytest.fixture(scope="module")
def cells():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((N, 3)) @ rng.standard_normal((3, D)) + rng.standard_normal((N, D))
    X[::7, 5] = CELL
    return X.astype(np.float32)


@pytest.fixture
def path(tmp_path, cells):
    np.save(tmp_path / "X.npy", cells)
    return tmp_path / "X.npy"


def test_answers_that_are_lost_before_they_are_fetched_are_asked_for_again(
    client, path, cells, monkeypatch
):
    """Both workers finish their tasks and die before the coordinator has the sums."""
    rows = on_cluster(path, client, partitions=4).as_rows().through(Sphere())
    V = np.eye(D, 2)
    want = MemoryRows.of(cells).through(Sphere()).add(Glad(D, 2), V, None)
    assert np.array_equal(rows.add(Glad(D, 2), V, None), want)
    pids = list(client.run(os.getpid).values())
    real, rounds = client.gather, []

    async def gather(futures, **facts):
        if not rounds:
            await distributed.wait(futures)
            for pid in pids:
                os.kill(pid, signal.SIGKILL)
        rounds.append(len(futures))
        return await real(futures, **facts)

    with monkeypatch.context() as patch:
        patch.setattr(client, "gather", gather)
        assert np.array_equal(rows.add(Glad(D, 2), V, None), want)
    client.wait_for_workers(2, timeout=300)


class Deadly:
    """A question whose worker dies when it opens it."""

    def __reduce__(self):
        return os._exit, (1,)


def allow_failures(count, dask_scheduler):
    dask_scheduler.allowed_failures = count


def test_a_task_that_kills_its_workers_ends_in_a_sentence(client, path):
    rows = on_cluster(path, client, partitions=1).as_rows().through(Sphere())
    client.run_on_scheduler(allow_failures, 0)  # else three more workers die
    try:
        with pytest.raises(RuntimeError, match=r"Several workers died .* more partitions"):
            rows._asked(("distances", Deadly()), {0: (N,)})
    finally:
        client.run_on_scheduler(allow_failures, 3)
        client.wait_for_workers(2, timeout=300)


def test_what_only_lost_workers_held_ends_in_a_sentence(client, path, monkeypatch):
    """A round is asked again a few times, then no more."""
    rows = on_cluster(path, client, partitions=1).as_rows().through(Sphere())
    rounds = []

    async def lost(futures, **_):
        rounds.append(futures)
        raise distributed.client.FutureCancelledError(futures[0].key, "lost dependencies")

    monkeypatch.setattr(client, "gather", lost)
    with pytest.raises(RuntimeError, match="Workers lost rows that only they held"):
        rows.distances(np.eye(D, 2))
    assert len(rounds) == pool.RETRIES + 1


def test_workers_that_add_up_among_themselves_keep_their_parts(client, path, cells, monkeypatch):
    monkeypatch.setattr(pool, "TREE_BYTES", 0)
    monkeypatch.setattr(pool, "BRANCHES", 2)
    table = on_cluster(path, client, partitions=5)
    rows = table.as_rows().through(Sphere())
    query, V = Glad(D, 2), np.eye(D, 2)
    want = MemoryRows.of(cells).through(Sphere()).add(query, V, None)
    made = []
    recipe = type(rows)._recipe
    monkeypatch.setattr(type(rows), "_recipe", lambda s, p: made.append(p) or recipe(s, p))
    for _ in range(3):
        assert np.array_equal(rows.add(query, V, None), want)
    parts = sorted(made)
    assert len(parts) == len(set(parts)) > 2
    table.forget()  # as if other parts had taken their room
    assert np.array_equal(rows.add(query, V, None), want)
    assert sorted(made) == sorted(2 * parts)


@pytest.mark.parametrize(("seconds", "want"), [(600.0, [1, 2, 3, 1, 2]), (0.0, [1] * 5)])
def test_answers_of_short_rounds_are_let_go_together(client, path, monkeypatch, seconds, want):
    monkeypatch.setattr(pool, "HELD_ROUNDS", 3)
    monkeypatch.setattr(pool, "SHORT_ROUND", seconds)
    table = on_cluster(path, client, partitions=2)
    rows = table.as_rows().through(Sphere())
    held = []
    for _ in range(5):
        rows.distances(np.eye(D, 2))
        held.append(len(table.pool._held))
    assert held == want


def seen_by_the_scheduler(dask_scheduler):
    """All that a scheduler remembers of tasks, as text."""
    state = dask_scheduler
    parts = [list(state.transition_log), dict(state._broker._topics), state.task_prefixes]
    parts += [[task.__dict__ if hasattr(task, "__dict__") else repr(task) for task in state.tasks]]
    parts += [state.task_groups, state.computations, state.get_logs(), state.workers]
    return " ".join(repr(part) for part in parts)


@pytest.mark.parametrize("broken", [False, True])
def test_no_name_no_log_and_no_event_tells_of_rows(client, path, caplog, broken):
    """Of a fit that ends well, and of one whose file changes while it runs."""
    caplog.set_level(logging.DEBUG, logger="distributed")
    facts = {"neighboring_relation": "add-or-remove-one", "public_size": 80_000}
    private = PrivateRobustPCA(2, epsilon=1.0, center=None, scale=None, **facts)
    table = on_cluster(path, client, partitions=2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if broken:
            os.utime(path, (1, 1))
            with pytest.raises(DataFileError, match="changed while it was in use") as raised:
                private.fit(table)
            words = str(raised.value)
        else:
            words = repr(private.fit(table))
    logs = [*client.get_worker_logs().values(), client.get_scheduler_logs(), caplog.text]
    text = " ".join([words, *map(str, logs), client.run_on_scheduler(seen_by_the_scheduler)])
    assert "stillspace-make_and_ask" in text
    for secret in (str(N), f"{N:,}", f"{N - N // 2}", f"{N // 2}"):
        assert re.search(rf"(?<![\d.]){secret}(?![\d.])", text) is None
    # longer than the fraction of a time in a log that could look like it
    assert str(CELL)[:8] not in text


def test_a_task_shows_sealed_arguments_alone(client, path):
    table = on_cluster(path, client, partitions=2)
    asked = []
    real = {name: getattr(client, name) for name in ("submit", "map")}

    def seen(name):
        def call(function, *arguments, key, **facts):
            asked.append((function.__name__, repr(arguments)))
            return real[name](function, *arguments, key=key, **facts)

        return call

    for name in real:
        setattr(client, name, seen(name))
    try:
        bounded = table.as_rows().through(Sphere())
        for _ in range(2):
            bounded.add(SecondMoment(D), np.empty((0, 0)), None)
    finally:
        for name in real:
            delattr(client, name)
    assert [name for name, _ in asked] == ["ask", "make_and_ask", "make_and_ask", "ask"]
    shown = "".join(arguments for _, arguments in asked)
    assert "Sealed()" in shown
    assert "array" not in shown
    assert str(N) not in shown


FORBIDDEN = ("default_rng", "Generator", "Philox", "PCG64", "MT19937", "SFC64", "RandomState")


def draw_nothing():
    """Make every way to a random number fail in this process."""
    import secrets

    import randomgen

    from stillspace.parts import noise

    def refused(*_, **__):
        raise AssertionError("a worker drew a random number")

    for name in (*FORBIDDEN, "normal", "random", "randint", "permutation", "choice", "shuffle"):
        setattr(np.random, name, refused)
    for name in ("randbits", "randbelow", "choice"):
        setattr(secrets, name, refused)
    randomgen.ChaCha = refused
    noise.secure_generator = noise.seeded_generator = refused


def draw():
    return np.random.default_rng()


@pytest.fixture(scope="module")
def mute(tmp_path_factory, cells):
    """A table on a cluster whose one worker cannot draw a random number."""
    path = tmp_path_factory.mktemp("mute") / "X.npy"
    np.save(path, cells)
    with (
        distributed.LocalCluster(
            n_workers=1, threads_per_worker=1, processes=True, dashboard_address=":0"
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        table = on_cluster(path, client)
        client.run(draw_nothing)
        yield table
        with pytest.raises(AssertionError, match="a worker drew"):
            client.submit(draw).result()


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"center": "pairs", "scale": None},
        {"algorithm": "dp-sggd", "n_iter": 5, "batch_size": 50},
        {"summaries": ("scores", "scree")},
    ],
    ids=["default", "pairs", "sampled", "pictures"],
)
def test_workers_draw_nothing(mute, options):
    """Their processes cannot: every word of the fit comes from the coordinator."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fit = PrivateRobustPCA(2, epsilon=2.0, **options).fit(mute)
    assert fit.privacy_.private
    assert any("workers" in word for word in fit.privacy_.assumptions)


def test_a_worker_with_another_version_is_named(client, path, monkeypatch):
    """The digest of its bits differs, and the sentence says which library does."""
    found = {"tcp://a:1": ("other bits", {**worker.versions(), "numpy": "1.0.0"})}
    monkeypatch.setattr(pool.Pool, "everywhere", lambda *_: found)
    with pytest.raises(RuntimeError, match=r"tcp://a:1 .* \(numpy 1\.0\.0, not 2"):
        on_cluster(path, client)


@pytest.mark.parametrize("n", [0, 1, 3])
def test_parts_without_rows(client, tmp_path, n):
    """More partitions than rows, and empty partitions of a Dask array."""
    X = np.random.default_rng(0).standard_normal((n, D))
    np.save(tmp_path / "few.npy", X)
    V = np.eye(D, 2)
    want = MemoryRows.of(X).through(Sphere()).add(Glad(D, 2), V, None)
    parts = [dask.array.from_array(X[a:b]) for a, b in ((0, 0), (0, 2), (2, 2), (2, 3))]
    for given in (tmp_path / "few.npy", dask.array.concatenate(parts)):
        rows = on_cluster(given, client, partitions=9).as_rows().through(Sphere())
        assert np.array_equal(rows.add(Glad(D, 2), V, None), want)


@pytest.mark.parametrize("n", [0, 1, 3, 5000])
def test_the_number_of_tasks_says_nothing_of_rows_or_of_chosen_ones(client, tmp_path, n):
    """A dashboard shows it. Tables without rows, with fewer rows than partitions, and others."""
    np.save(tmp_path / "X.npy", np.ones((n, D)))
    table = on_cluster(tmp_path / "X.npy", client, partitions=4)
    rows, V = table.as_rows().through(Sphere()), np.eye(D, 2)
    for chosen in (None, np.arange(0, n, 2), np.arange(n)[:1], np.arange(0)):
        rows.add(Glad(D, 2), V, chosen)
        assert len(table.pool._asked) == 4
    for ask in (lambda: rows.distances(V), rows.sphered):
        ask()
        assert len(table.pool._asked) == 4
