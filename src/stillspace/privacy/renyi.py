"""Rényi divergence of one sampled step: upper bounds at a fixed order (for `Budget`, SPEC 4).

For a pair (P, Q) and r = dP/dQ, D_a(P‖Q) = log E_Q[r^a] / (a − 1), a > 1. r^a is convex: a linear
function plus a positive mixture of (r − α)⁺, α > 0. So E_Q[r^a] is a positive mixture of
hockey-stick divergences, and a pair that dominates a step at every α (`profiles`) has at least
its Rényi divergence. With t = r − 1, E_Q[t] = 0 and

    E_Q[r^a] − 1 = E_Q[g_a(t)],      g_b(t) = (1+t)^b − 1 − bt >= 0  (b >= 1 or b <= 0),

which is a sum of non-negative terms: nothing cancels, however weak the step is.

- *Poisson, add/remove*: P = (1−q)N(0,1) + qN(μ,1), Q = N(0,1), μ = norm bound/σ. The reverse
  order is never larger (Mironov, Talwar and Zhang 2019, theorem 5). Whole orders: their sum
  E[r^a] − 1 = Σ_k C(a,k) q^k (1−q)^(a−k) (e^(k(k−1)μ²/2) − 1), exact.
- *Poisson, replace-one*: (1−q)N(0) + qN(μ) against (1−q)N(0) + qN(−μ), its own mirror image.
- *Fixed size without replacement, replace-one*: H(α) of P = (1−γ)N(0,1) + γN(μ,1) against N(0,1)
  for α >= 1, mirrored below 1 (μ = difference bound/σ). The mirrored half has the mass of Q at
  r^−1, and an atom at r = 1 holds the rest, so that
  E[r^a] − 1 = ∫_{r>1} (r^a + r^(1−a) − r − 1) dQ = ∫_{r>1} (g_a(t) + g_(1−a)(t)) dQ.

The integrals are bounded by upper sums. In all three r increases with the output x, and the
integrand G(r(x)) falls until r = 1 and rises afterwards: on a cell it is at most the larger of
its two ends, and the normal density at most that of the cell's point nearest its mean. Tails are
bounded in closed form. The sums lie some 0.1 % above the integral, never below it. The rounding
of each G is below 1e-6 of it and is added.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from scipy.special import gammaln, log_ndtr, logsumexp

from stillspace._typing import FloatArray
from stillspace.exceptions import NotAccountedError
from stillspace.privacy.accounting import check_accounted
from stillspace.privacy.events import GaussianEvent, Relation

SMALLEST_ORDER, LARGEST_ORDER = 1.001, 1e5
_BULK, _FAR = 12.0, 40.0  # fine cells up to here, coarse ones up to there
_CELLS, _COARSE = 1 << 17, 1 << 12
_ROUNDING = 1e-6
_WIDEST = 600.0  # log r on the grid: no overflow below it


def step_divergence(event: GaussianEvent, relation: Relation, order: float) -> float:
    """Return an upper bound on the Rényi divergence of `order` of one sampled step.

    Neighbours in either order, any earlier outputs. Infinite without noise.
    """
    check_order(order)
    check_accounted(event, relation)
    if event.sampling not in ("poisson", "without-replacement"):
        raise NotAccountedError(
            f"{event.sampling} sampling has no Rényi bound here; use poisson or "
            "without-replacement sampling, or all rows."
        )
    sensitivity = event.sensitivity(relation)
    fixed = event.sampling == "without-replacement"
    rate = event.batch_size / event.population if fixed else event.rate
    if sensitivity == 0 or rate == 0:
        return 0.0
    mu = sensitivity / event.sigma * (1 + 1e-15) if event.sigma > 0 else math.inf
    rate = min(rate * (1 + 1e-15), 1.0)
    poisson = "antipodal" if relation == "replace-one" else "amplified"
    return _divergence("mirrored" if fixed else poisson, rate, mu, order)


def check_order(order: float) -> None:
    """Refuse an order for which the bounds here are not made."""
    if not SMALLEST_ORDER <= order <= LARGEST_ORDER:
        raise ValueError(
            f"order is {order!r}; a Rényi order must lie in "
            f"[{SMALLEST_ORDER:g}, {LARGEST_ORDER:g}]."
        )


@lru_cache(maxsize=4096)
def _divergence(shape: str, rate: float, mu: float, order: float) -> float:
    # Without amplification: a mixture is never farther apart than its parts (quasi-convexity).
    reach = 2 * mu if shape == "antipodal" else mu
    plain = order * reach * reach / 2 * (1 + 1e-14)
    if not reach * (order * reach + _FAR + mu) < _WIDEST:
        return plain
    if shape == "amplified" and order == math.floor(order):
        log_excess = _whole_order(rate, mu, int(order))
    else:
        log_excess = _upper_sum(shape, rate, mu, order)
    # log E = log(1 + excess), rounded up.
    log_moment = math.log1p(math.exp(log_excess)) if log_excess < 500 else log_excess + 1e-200
    return min(plain, log_moment / (order - 1) * (1 + 1e-12))


def _whole_order(rate: float, mu: float, order: int) -> float:
    """log(E[r^a] − 1) by the binomial sum of Mironov, Talwar and Zhang."""
    if rate == 1.0:
        return float(_log_expm1(np.array([order * (order - 1) * mu * mu / 2]))[0]) + 1e-12
    k = np.arange(2, order + 1, dtype=np.float64)
    log_choose = gammaln(order + 1) - gammaln(k + 1) - gammaln(order - k + 1)
    log_terms = log_choose + k * math.log(rate) + (order - k) * math.log1p(-rate)
    log_terms += _log_expm1(k * (k - 1) * mu * mu / 2)
    # gammaln(order) loses a few units of its own size, at most 1e6.
    return float(logsumexp(log_terms)) + 1e-12 + 1e-15 * float(gammaln(order + 2))


def _log_expm1(x: FloatArray) -> FloatArray:
    """log(e^x − 1), x > 0, also where e^x overflows."""
    with np.errstate(divide="ignore"):
        return np.where(x > 30, x, np.log(np.expm1(np.minimum(x, 30.0)))) + 1e-13


def _upper_sum(shape: str, rate: float, mu: float, order: float) -> float:
    """log of an upper bound on ∫ G(r(x)) dQ(x)."""
    reach = 2 * mu if shape == "antipodal" else mu
    x = _grid(shape, mu, order * reach)
    t = _ratio_less_one(shape, x, rate, mu)
    log_G = _log_g(t, order)
    if shape == "mirrored":
        log_G = np.logaddexp(log_G, _log_g(t, 1 - order))
    log_cells = np.maximum(log_G[:-1], log_G[1:]) + np.log(np.diff(x)) + _log_density(x)
    if shape == "antipodal":
        # Q = (1−q)N(0,1) + qN(−μ,1).
        other = _log_density(x + mu) - _log_density(x)
        log_cells += np.log1p(rate * np.expm1(other))
    tails = [_right_tail(shape, rate, mu, order), math.log(order) + float(log_ndtr(-_FAR))]
    return float(logsumexp(np.concatenate([log_cells, tails]))) + _ROUNDING


def _right_tail(shape: str, rate: float, mu: float, order: float) -> float:
    """log of a bound on ∫ G dQ over x > X = a·reach + 40, where dQ <= φ(x)dx and G <= 2r^a.

    Two bounds on r, the better counts: r <= e^(reach·x), and r <= 1 + cy with y = e^(μx), of
    which r^a <= 2^a (1 + c^a y^a). ∫_X e^(sx) φ(x)dx = e^(s²/2) Φ(s − X). (On the left, below
    −40 − μ, −1 < t < 0 and g_a(t) <= a.)
    """
    reach = 2 * mu if shape == "antipodal" else mu
    end = order * reach + _FAR
    steep = (order * reach) ** 2 / 2 + float(log_ndtr(-_FAR))
    others = 1 - rate if shape == "antipodal" else 1.0
    if others <= 0:
        return math.log(2) + steep
    log_c = math.log(rate / others)
    drawn = order * log_c + (order * mu) ** 2 / 2 + float(log_ndtr(order * mu - end))
    flat = order * math.log(2) + float(np.logaddexp(log_ndtr(-end), drawn))
    return math.log(2) + min(steep, flat)


def _grid(shape: str, mu: float, centre: float) -> FloatArray:
    """Cells that cover [−40 − μ, centre + 40] (mirrored: from r = 1, x = μ/2, on)."""
    fine = np.linspace(-_BULK - mu, centre + _BULK, _CELLS)
    below = np.linspace(-_FAR - mu, -_BULK - mu, _COARSE)
    above = np.linspace(centre + _BULK, centre + _FAR, _COARSE)
    x = np.concatenate([below[:-1], fine, above[1:]])
    if shape == "mirrored":
        x = np.concatenate([[mu / 2], x[x > mu / 2]])
    return x


def _ratio_less_one(shape: str, x: FloatArray, rate: float, mu: float) -> FloatArray:
    """t = dP/dQ − 1 at outputs x, without cancellation."""
    if shape == "antipodal":
        c = rate * math.exp(-mu * mu / 2)
        return np.asarray(2 * c * np.sinh(mu * x) / ((1 - rate) + c * np.exp(-mu * x)))
    return np.asarray(rate * np.expm1(mu * (x - mu / 2)))


def _log_g(t: FloatArray, b: float) -> FloatArray:
    """log g_b(t), rounded up: by Lagrange's remainder b(b−1)/2 t² ξ^(b−2) where t is small."""
    with np.errstate(all="ignore"):
        power = b * np.log1p(np.maximum(t, -1 + 1e-300))
        bound = math.log(b * (b - 1) / 2) + 2 * np.log(np.abs(t))
        near = bound + np.maximum(0.0, (b - 2) * np.log1p(t))
        direct = np.log(np.maximum(np.expm1(np.minimum(power, 500.0)) - b * t, 0.0))
        far = np.where(power > 500.0, power, direct)
        return np.where(np.abs(b * t) < 1e-6, near, far)


def _log_density(x: FloatArray) -> FloatArray:
    """log of the largest standard normal density on each cell."""
    nearest = np.where(x[:-1] * x[1:] <= 0, 0.0, np.minimum(np.abs(x[:-1]), np.abs(x[1:])))
    return np.asarray(-nearest * nearest / 2 - 0.5 * math.log(2 * math.pi))


def divergence_limit(epsilon: float, delta: float, order: float) -> float:
    """Return the largest Rényi divergence of `order` that gives (ε, δ), rounded down.

    δ = e^((a−1)(D−ε)) (1−1/a)^(a−1) / a (Canonne, Kamath and Steinke 2020, proposition 12).
    Negative: this order cannot give (ε, δ).
    """
    check_order(order)
    parts = (math.log(delta) + math.log(order)) / (order - 1), math.log1p(-1 / order)
    return epsilon + parts[0] - parts[1] - 1e-14 * (epsilon + abs(parts[0]) + abs(parts[1]))


def usual_order(epsilon: float, delta: float) -> float:
    """Return the whole order that lets full-batch fits spend the most: argmax D(a)/a."""
    orders = np.unique(np.rint(np.geomspace(2, LARGEST_ORDER, 2000)))
    return float(max(orders, key=lambda a: divergence_limit(epsilon, delta, float(a)) / a))
