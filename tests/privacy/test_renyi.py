"""Rényi bounds of sampled steps against quadrature, closed forms and dp_accounting."""

import math
from functools import partial

import mpmath
import numpy as np
import pytest
from dp_accounting.rdp import rdp_privacy_accountant as rdp

from stillspace.exceptions import NotAccountedError
from stillspace.privacy import GaussianEvent
from stillspace.privacy.renyi import (
    _upper_sum,
    divergence_limit,
    step_divergence,
    usual_order,
)

CASES = [(1e-3, 0.2), (0.02, 0.5), (0.1, 0.2), (0.3, 1.0), (0.9, 0.5), (1e-3, 1.5)]
ORDERS = [1.3, 2.0, 3.7, 8.0, 20.5]
AT_TWO_ORDERS = [
    (*case, order) for i, case in enumerate(CASES) for order in (ORDERS[i % 5], ORDERS[(i + 2) % 5])
]


def poisson(q, mu, **options):
    return GaussianEvent(1 / mu, 1.0, 2.0, sampling="poisson", rate=q, **options)


def fixed(q, mu):
    """Unit: the difference bound."""
    return GaussianEvent(
        1 / mu,
        1.0,
        1.0,
        sampling="without-replacement",
        batch_size=round(1000 * q),
        population=1000,
    )


integral = partial(mpmath.quad, method="gauss-legendre")


def quadrature(P, Q, order, *, above=None):
    """log E_Q[r^a]/(a−1) in 25 digits; `above`: the mirrored pair with r > 1 beyond that point."""
    with mpmath.workdps(25):
        points = [-40, -10, -3, 0, 3, 10, 20, 40, 80, 160]
        if above is None:
            total = integral(lambda x: P(x) ** order * Q(x) ** (1 - order), points)
        else:
            points = [above, *[p for p in points if p > above]]

            def inside(x):
                r = P(x) / Q(x)
                return (r**order + r ** (1 - order) - r - 1) * Q(x)

            total = 1 + integral(inside, points)
        return float(mpmath.log(total) / (order - 1))


def phi(shift=0.0):
    return lambda x: mpmath.npdf(x, mu=shift)


def mix(q, a, b):
    return lambda x: (1 - mpmath.mpf(q)) * a(x) + q * b(x)


@pytest.mark.parametrize(("q", "mu", "order"), AT_TWO_ORDERS)
def test_bounds_are_just_above_the_divergence(q, mu, order):
    """Never below the integral in 25 digits; above it by 0.2 % at most."""
    plain, moved, back = phi(), phi(mu), phi(-mu)
    exact = {
        "add": quadrature(mix(q, plain, moved), plain, order),
        "replace": quadrature(mix(q, plain, moved), mix(q, plain, back), order),
    }
    found = {
        "add": step_divergence(poisson(q, mu), "add-or-remove-one", order),
        "replace": step_divergence(poisson(q, mu), "replace-one", order),
    }
    if round(1000 * q) == 1000 * q:
        exact["fixed"] = quadrature(mix(q, plain, moved), plain, order, above=mu / 2)
        found["fixed"] = step_divergence(fixed(q, mu), "replace-one", order)
    for name, value in exact.items():
        assert value <= found[name] <= value * 1.002, name


@pytest.mark.parametrize(("q", "mu"), CASES)
def test_the_removal_direction_is_no_larger(q, mu):
    """Mironov, Talwar and Zhang, theorem 5, at one order in numbers."""
    plain, moved = phi(), phi(mu)
    reverse = quadrature(plain, mix(q, plain, moved), 3.7)
    assert reverse <= step_divergence(poisson(q, mu), "add-or-remove-one", 3.7)


@pytest.mark.parametrize("order", [2, 8, 25])
@pytest.mark.parametrize(("q", "mu"), CASES)
def test_agrees_with_dp_accounting_at_whole_orders(q, mu, order):
    (theirs,) = rdp._compute_rdp_poisson_subsampled_gaussian(q, 1 / mu, [order])
    ours = step_divergence(poisson(q, mu), "add-or-remove-one", float(order))
    assert ours == pytest.approx(theirs, rel=1e-8)
    upper = math.log1p(math.exp(_upper_sum("amplified", q, mu, float(order)))) / (order - 1)
    assert theirs * (1 - 1e-8) <= upper <= theirs * 1.002


@pytest.mark.parametrize("order", [2, 8, 25])
@pytest.mark.parametrize(("q", "mu"), CASES)
def test_fixed_size_is_below_the_bound_of_wang_balle_kasiviswanathan(q, mu, order):
    (theirs,) = rdp._compute_rdp_sample_wor_gaussian(q, 1 / mu, [order])
    if round(1000 * q) == 1000 * q:
        assert step_divergence(fixed(q, mu), "replace-one", float(order)) <= theirs * 1.001


def test_no_sampling_is_the_gaussian():
    for order in (1.5, 4.0):
        add = step_divergence(poisson(1.0, 0.3), "add-or-remove-one", order)
        replaced = step_divergence(poisson(1.0, 0.3), "replace-one", order)
        assert order * 0.09 / 2 <= add <= order * 0.09 / 2 * 1.002
        assert order * 0.36 / 2 <= replaced <= order * 0.36 / 2 * 1.002


def test_extremes():
    assert step_divergence(poisson(0.0, 1.0), "replace-one", 2.0) == 0
    assert step_divergence(poisson(0.5, 1e-9), "replace-one", 2.0) > 0
    for mu in (30.0, 1e6, 1e150):
        strong = step_divergence(poisson(0.5, mu), "replace-one", 100.0)
        assert strong == pytest.approx(100 * (2 * mu) ** 2 / 2, rel=1e-9)
    noiseless = GaussianEvent(0.0, 1.0, 2.0, sampling="poisson", rate=0.5)
    assert step_divergence(noiseless, "replace-one", 2.0) == math.inf
    assert 0 < step_divergence(poisson(1e-9, 1e-6), "add-or-remove-one", 1e5) < 1e-20
    assert 0 < step_divergence(poisson(1e-9, 1e-6), "replace-one", 1e5) < 1e-20


@pytest.mark.parametrize("order", [1.0, 0.5, math.nan, 1e6])
def test_orders_outside_the_range_are_refused(order):
    with pytest.raises(ValueError, match="Rényi order must lie in"):
        step_divergence(poisson(0.1, 0.1), "replace-one", order)


def test_what_has_no_bound_is_refused_by_name():
    paper = GaussianEvent(5.0, 1.0, 2.0, sampling="with-replacement", batch_size=10, population=100)
    with pytest.raises(NotAccountedError, match="with-replacement sampling has no Rényi bound"):
        step_divergence(paper, "replace-one", 2.0)
    with pytest.raises(NotAccountedError, match="add-or-remove-one"):
        step_divergence(fixed(0.1, 0.1), "add-or-remove-one", 2.0)
    with pytest.raises(NotAccountedError, match="rows_per_person=2"):
        step_divergence(poisson(0.1, 0.1, rows_per_person=2), "replace-one", 2.0)


@pytest.mark.parametrize("order", [1.5, 2.0, 8.0, 22.0, 500.0])
@pytest.mark.parametrize(("epsilon", "delta"), [(3.0, 1e-5), (0.5, 1e-6), (20.0, 1e-9)])
def test_limits_invert_dp_accountings_conversion(epsilon, delta, order):
    limit = divergence_limit(epsilon, delta, order)
    if limit <= 0:
        return
    back, _ = rdp.compute_epsilon([order], [limit], delta)
    assert back <= epsilon
    # Theirs may be better (it also tries a bound by total variation), never by the formula.
    if limit > 0.1:
        assert back == pytest.approx(epsilon, rel=1e-10)


def test_the_usual_order_is_the_best_for_full_batches():
    best = usual_order(1.0, 1e-6)
    value = divergence_limit(1.0, 1e-6, best) / best
    for order in np.arange(2.0, 200.0):
        assert divergence_limit(1.0, 1e-6, float(order)) / order <= value * (1 + 1e-12)
