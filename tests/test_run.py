"""The compiled loops against the plain one, given the same draws; and who is let in."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from stillspace.exceptions import LedgerError
from stillspace.parts.geometry import EntropicMirror, Geodesic, Polar, WaterFilling
from stillspace.parts.noise import seeded_generator
from stillspace.parts.outputs import Average, Last
from stillspace.parts.queries import Glad, Reaper
from stillspace.parts.sampling import All, Poisson, WithoutReplacement, WithReplacement
from stillspace.parts.schedules import Halving, InverseSqrt
from stillspace.parts.stops import Converged
from stillspace.plans.fixed import Plan
from stillspace.plans.ledger import Ledger
from stillspace.plans.release import Release
from stillspace.plans.starts import GivenStart
from stillspace.rows import MemoryRows
from stillspace.run import executors, run
from stillspace.run.observers import Watch
from tests.conftest import random_basis

SHAPES = [(300, 7, 3), (501, 20, 2), (60, 5, 1)]
SAMPLINGS = {
    "all": lambda n: All(),
    "poisson": lambda n: Poisson(0.05),
    "without": lambda n: WithoutReplacement(min(30, n), n),
    "with": lambda n: WithReplacement(120, max(n, 120)) if n >= 120 else WithReplacement(9, n),
}
GEOMETRIES = {
    "polar": lambda D, r: (Glad(D, r), Polar(r), Halving(1.0, 10)),
    "water-filling": lambda D, r: (Reaper(D, r), WaterFilling(r), InverseSqrt(8.0)),
    "mirror": lambda D, r: (Reaper(D, r), EntropicMirror(r), InverseSqrt(8.0)),
    "rescaled mirror": lambda D, r: (Reaper(D, r), EntropicMirror(r, False), InverseSqrt(8.0)),
}


def rows_of(n, D, r, near=0.05):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, D))
    X[: n // 2, r:] *= near
    X[3] = 0.0
    return MemoryRows.prepare(X)


def plan_of(shape, geometry="polar", sampling="all", z=0.0, output=Last(), n_iter=60):
    n, D, r = shape
    query, step, schedule = GEOMETRIES[geometry](D, r)
    V = random_basis(np.random.default_rng(3), D, r)
    release = Release(query, n, z, SAMPLINGS[sampling](n))
    start = GivenStart.from_basis(V)
    return Plan("test", start, release, step, r, n_iter, schedule, output=output)


def compiled(plan, rows):
    return executors.compiled_loop(plan, rows, plan.geometry.enter(plan.start.value()))


def plain(plan, rows, draws):
    state, memory = plan.geometry.enter(plan.start.value()), None
    for k in range(len(draws)):
        G = plan.release.apply(rows, plan.geometry.point(state), draws[k])
        state = plan.geometry.step(state, G, plan.schedule.step(k))
        memory = plan.output.push(memory, plan.geometry.point(state), k)
    return memory


def difference(plan, rows, count):
    """The largest difference of what the output keeps, after `count` iterations in two chunks."""
    rng, loop = seeded_generator(1), compiled(plan, rows)
    assert loop is not None
    drawn = []
    for first, length in ((0, 2), (2, count - 2)):
        draws = plan.release.draws(first, length, rows.n_rows, rng, Ledger())
        assert loop.advance(draws, first) == length
        drawn += [draws[i] for i in range(length)]
    got = loop.average if loop.average.size else loop.point()
    return np.abs(got - plain(plan, rows, drawn)).max()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("z", [0.0, 5.0])
def test_a_compiled_loop_equals_the_plain_one_given_the_same_draws(shape, sampling, geometry, z):
    """To 1e-12 over 5 steps, to 1e-9 over 60: rounding may grow where steps are long."""
    rows = rows_of(*shape)
    for output in (Last(), Average()):
        plan = plan_of(shape, geometry, sampling, z, output)
        assert difference(plan, rows, 5) < 1e-12
        assert difference(plan, rows, 60) < 1e-9


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_rows_on_the_subspace_and_noise_that_varies(geometry):
    """Residuals at the floor, where a term's low bits are magnified by 2^26."""
    shape = (300, 7, 3)
    rows = rows_of(*shape, near=0.0)
    plan = plan_of(shape, geometry)
    release = replace(plan.release, z=tuple(np.linspace(1.0, 20.0, 60).round(0)))
    assert difference(replace(plan, release=release), rows, 5) < 1e-9
    assert difference(plan, rows, 5) < 1e-9


@pytest.mark.parametrize("dtype", [np.float32, np.int8])
def test_other_storage_runs_the_same_loop(dtype):
    X = (40 * np.random.default_rng(0).standard_normal((200, 6))).astype(dtype)
    rows = MemoryRows.prepare(X)
    assert difference(plan_of((200, 6, 2), n_iter=20), rows, 20) < 1e-11
    assert difference(plan_of((200, 6, 2), "mirror", "poisson"), rows, 20) < 1e-11


@pytest.mark.parametrize("geometry", GEOMETRIES)
def test_a_whole_run_records_what_it_did(geometry, monkeypatch):
    """In chunks: what ran equals the plan's event, whatever the chunks."""
    shape = (300, 7, 3)
    rows, plan = rows_of(*shape), plan_of(shape, geometry, "poisson", 3.0)
    whole = run(plan, rows, seeded_generator(0))
    assert (whole.event, whole.n_iter, whole.converged) == (plan.event(), 60, False)
    monkeypatch.setattr(executors, "CHUNK_BYTES", 8 * 100 * 7)
    loop = compiled(plan, rows)
    assert 1 <= loop._chunk() < 60
    parts = run(plan, rows, seeded_generator(0))
    assert parts.event == plan.event()
    for V in (whole.V, parts.V):
        np.testing.assert_allclose(V.T @ V, np.eye(3), atol=1e-13)


class OtherGlad(Glad):
    """The same bounds, other terms."""

    __slots__ = ()

    def add_block(self, XT, point, out):
        out += 1.0


class OtherPolar(Polar):
    __slots__ = ()

    def step(self, state, G, eta):
        return state


class OtherRelease(Release):
    __slots__ = ()


class OtherRows(MemoryRows):
    pass


@dataclass(frozen=True, slots=True)
class OtherAverage(Average):
    pass


@dataclass(frozen=True, slots=True)
class OtherPoisson(Poisson):
    pass


def test_a_subclass_never_runs_the_stock_kernel():
    shape = (300, 7, 3)
    rows, plan = rows_of(*shape), plan_of(shape)
    release = plan.release
    assert compiled(plan, rows) is not None
    others = [
        replace(plan, release=replace(release, query=OtherGlad(7, 3))),
        replace(plan, geometry=OtherPolar(3)),
        replace(plan, geometry=Geodesic(3)),
        replace(plan, release=OtherRelease(release.query, 300, 0.0)),
        replace(plan, output=OtherAverage()),
        replace(plan, release=replace(release, sampling=OtherPoisson(0.1))),
        replace(plan, stop=Converged(1e-9)),
        replace(plan, release=replace(release, z=(0.0, *[1.0] * 59))),
        replace(plan, release=replace(release, query=Reaper(7, 2))),
    ]
    for other in others:
        assert compiled(other, rows) is None
    assert compiled(plan, OtherRows(np.ascontiguousarray(rows.sphered().T))) is None
    still = run(replace(plan, geometry=OtherPolar(3)), rows, seeded_generator(0))
    assert np.array_equal(still.V, plan.start.value())


def test_large_rows_stay_where_they_are(monkeypatch):
    shape = (300, 7, 3)
    rows, plan = rows_of(*shape), plan_of(shape)
    monkeypatch.setattr(executors, "LOOP_CELLS", 300 * 7 - 1)
    assert compiled(plan, rows) is None


def test_draws_that_were_not_used_withhold_the_result(monkeypatch):
    shape = (300, 7, 3)
    monkeypatch.setattr(executors.GladLoop, "kernel", lambda self, chunk, seen: 3)
    with pytest.raises(RuntimeError, match="used 3 of 60 draws"):
        run(plan_of(shape, z=1.0), rows_of(*shape), seeded_generator(0))


def test_a_compiled_run_that_skips_its_charge_is_withheld(monkeypatch):
    shape = (300, 7, 3)
    real = Release.draws

    def forgetful(self, first, count, n_rows, rng, ledger):
        draws = real(self, first, count, n_rows, rng, ledger)
        ledger.events.pop()
        return draws

    monkeypatch.setattr(Release, "draws", forgetful)
    with pytest.raises(LedgerError, match="withheld"):
        run(plan_of(shape, z=1.0), rows_of(*shape), seeded_generator(0))


def test_a_compiled_run_finds_the_subspace():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((600, 12))
    X[:400, 2:] = 0.0
    rows = MemoryRows.prepare(X)
    for geometry in ("polar", "water-filling", "mirror"):
        plan = plan_of((600, 12, 2), geometry, "without", n_iter=300)
        V = run(plan, rows, seeded_generator(0)).V
        assert np.linalg.norm(V[2:]) < 0.1


@pytest.mark.parametrize("geometry", GEOMETRIES)
@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("output", [Last(), Average()])
def test_a_watched_run_gives_the_bits_of_an_unwatched_one(geometry, sampling, output, monkeypatch):
    """Compiled, in chunks, and step by step; what is seen last is what the answer is made of."""
    shape = (300, 7, 3)
    rows, plan = rows_of(*shape), plan_of(shape, geometry, sampling, 3.0, output)
    monkeypatch.setattr(executors, "CHUNK_BYTES", 8 * 100 * 7)
    at = frozenset({0, 1, 2, 13, 37, 60})
    for compiled_too in (True, False):
        if not compiled_too:
            monkeypatch.setattr("stillspace.run.loop.compiled_loop", lambda *_: None)
        seen = {}

        def see(done, memory, point, seen=seen):
            seen[done] = (memory.copy(), point.copy())

        plain_run = run(plan, rows, seeded_generator(0))
        watched = run(plan, rows, seeded_generator(0), watch=Watch(at, see))
        np.testing.assert_array_equal(watched.V, plain_run.V)
        assert watched.event == plain_run.event
        assert set(seen) == at
        np.testing.assert_array_equal(plan.output.basis(seen[60][0], 3), watched.V)
