import numpy as np
import pytest

from stillspace.parts.outputs import Average, Last
from stillspace.parts.schedules import Constant, Geometric, Halving, InverseSqrt, Restarts
from stillspace.parts.stops import Converged, Never, Settled
from tests.conftest import random_basis


def steps(schedule, n):
    return [schedule.step(k) for k in range(n)]


def test_the_papers_schedules():
    assert steps(Halving(), 151)[::50] == [1, 0.5, 0.25, 0.125]
    assert Halving().step(49) == 1
    np.testing.assert_allclose(steps(InverseSqrt(), 4), [8, 8 / 2**0.5, 8 / 3**0.5, 4])
    assert Constant(0.3).step(7) == 0.3


def test_geometric_runs_from_first_to_last():
    eta = np.array(steps(Geometric(1.0, 0.01, 30), 30))
    assert eta[0] == 1.0
    assert eta[-1] == pytest.approx(0.01)
    np.testing.assert_allclose(eta[1:] / eta[:-1], 0.01 ** (1 / 29))
    assert Geometric(0.5, 0.1, 1).step(0) == 0.5


def test_restarts_halve_after_each_run():
    schedule = Restarts(c1=2.0, a=0.5, nu=0.75, first_length=16, length=4)
    eta = steps(schedule, 28)
    assert eta[:16] == [0.125] * 16  # 2 · .5 · 16^-.75
    assert eta[16:20] == [0.0625] * 4
    assert eta[20:24] == [0.03125] * 4


@pytest.mark.parametrize("nu", [0.5, 1.0])
def test_restarts_need_a_rate_between_a_half_and_one(nu):
    with pytest.raises(ValueError, match="nu"):
        Restarts(1.0, 1.0, nu, 10, 10)


def test_restarts_need_lengths():
    with pytest.raises(ValueError, match="length"):
        Restarts(1.0, 1.0, 0.7, 0, 10)


def test_average_is_the_average_and_last_the_last(rng):
    points = [random_basis(rng, 6, 2) for _ in range(5)]
    memory = None
    for k, V in enumerate(points):
        memory = Average().push(memory, V, k)
    np.testing.assert_allclose(memory, np.mean([V @ V.T for V in points], axis=0), atol=1e-14)
    basis = Average().basis(memory, 2)
    top = np.linalg.eigh(memory)[1][:, -2:]
    np.testing.assert_allclose(basis @ basis.T, top @ top.T, atol=1e-12)
    assert Last().push(points[0], points[1], 1) is points[1]


def test_stops(rng):
    V = random_basis(rng, 6, 2)
    W = np.linalg.qr(V + 1e-6 * rng.standard_normal((6, 2)))[0]
    turned = V @ np.linalg.qr(rng.standard_normal((2, 2)))[0]
    assert not Never()(V, V, [1.0, 1.0])
    assert Converged(1e-12)(V, turned, [])  # the same subspace
    assert Converged(1e-4)(V, W, [])
    assert not Converged(1e-9)(V, W, [2.0, 1.0])
    assert Converged(1e-4)(V @ V.T, W @ W.T, [])
    assert not Converged(1e-9)(V @ V.T, W @ W.T, [1.0])
    assert Converged(1e-9)(V, W, [2.0, 1.0, 1.0])  # the cost stalls


def test_settled_compares_the_gradient_with_its_sampling_error(rng):
    """At cost .6 and 400 rows in 6 dimensions the error per dimension is √(.64/400/6)."""
    V = random_basis(rng, 6, 2)
    away = np.linalg.qr(np.column_stack([V, rng.standard_normal(6)]))[0][:, 2:]
    error = np.sqrt(0.64 / 400 / 6)
    moved = random_basis(rng, 6, 2)
    stop = Settled(1e-9, n_rows=400, part=0.3)
    for size, wanted in ((0.29, True), (0.31, False)):
        direction = 5.0 * V + size * error * away @ np.ones((1, 2)) / np.sqrt(2.0)
        assert stop(V, moved, [0.6], direction) is wanted
    assert stop(V, V, [0.6], 5.0 * V + away @ np.ones((1, 2)))  # it did not move
    wide = Settled(1e-9, n_rows=3, part=0.3)  # three rows span three dimensions
    assert wide(V, moved, [0.6], V + 0.29 * np.sqrt(0.64 / 9) * away @ np.array([[1.0, 0.0]]))
    assert not wide(V, moved, [0.6], V + 0.31 * np.sqrt(0.64 / 9) * away @ np.array([[1.0, 0.0]]))


@pytest.mark.parametrize(
    "make",
    [
        lambda: Halving(1.0, every=0),
        lambda: Halving(-1.0),
        lambda: Constant(float("nan")),
        lambda: InverseSqrt(float("inf")),
        lambda: Geometric(0.0, 0.1, 30),
        lambda: Geometric(1.0, -1.0, 30),
        lambda: Geometric(1.0, 0.1, 0),
        lambda: Restarts(0.0, 1.0, 0.7, 10, 10),
    ],
)
def test_steps_are_positive_and_finite(make):
    with pytest.raises(ValueError, match="of a schedule must be"):
        make()
