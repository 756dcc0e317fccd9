"""Privacy curves by brute force, sharing no code with the library."""

import math

import mpmath as mp
import numpy as np
from scipy.stats import binom, norm


def gaussian_delta(epsilon, mu):
    """Balle and Wang's formula as printed, with digits to spare."""
    with mp.workdps(700 if mu < 1e-40 else 120):
        epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
        a, b = mu / 2 - epsilon / mu, -mu / 2 - epsilon / mu
        root = mp.sqrt(2)
        return mp.erfc(-a / root) / 2 - mp.exp(epsilon) * mp.erfc(-b / root) / 2


def densities(kind, x, q, z):
    """Densities (p, q) of one Poisson step."""
    zero, plus, minus = (norm.pdf(x, m, z) for m in (0, 1, -1))
    mixed = (1 - q) * zero + q * plus
    return {
        "remove": (mixed, zero),
        "add": (zero, mixed),
        "replace": (mixed, (1 - q) * zero + q * minus),
    }[kind]


def hockey_stick(kind, alpha, q, z, points=400_001):
    """H(α) of one Poisson step, by the trapezoid rule."""
    x = np.linspace(-1 - 12 * z, 1 + 12 * z, points)
    p, r = densities(kind, x, q, z)
    return float(np.sum(np.maximum(p - alpha * r, 0)) * (x[1] - x[0]))


def hockey_stick_twice(kind, alpha, q, z, points=3001):
    """H(α) of two independent Poisson steps, by a product rule in the plane."""
    x = np.linspace(-1 - 9 * z, 1 + 9 * z, points)
    p, r = densities(kind, x, q, z)
    step = x[1] - x[0]
    total = 0.0
    for i in range(0, points, 500):
        rows = slice(i, i + 500)
        total += np.maximum(np.outer(p[rows], p) - alpha * np.outer(r[rows], r), 0).sum()
    return float(total * step * step)


def gauss(alpha, mu):
    """Gaussian H(α) for α >= 1."""
    epsilon = np.log(alpha)
    return norm.cdf(mu / 2 - epsilon / mu) - alpha * norm.cdf(-mu / 2 - epsilon / mu)


def fixed_size(alpha, n, batch, mu, replacement):
    """The bound of Balle, Barthe and Gaboardi for α >= 1, extended below 1."""
    alpha = np.asarray(alpha, dtype=float)
    up = np.where(alpha >= 1, alpha, 1 / alpha)
    if replacement:
        rate = 1 - (1 - 1 / n) ** batch
        base = 1 + (up - 1) / rate
        h = sum(binom.pmf(k, batch, 1 / n) * gauss(base, k * mu) for k in range(1, batch + 1))
    else:
        rate = batch / n
        h = rate * gauss(1 + (up - 1) / rate, mu)
    return np.where(alpha >= 1, h, 1 - alpha + alpha * h)


def fixed_size_twice(alpha, n, batch, mu, replacement):
    """H2(α) = E_P H(αe^−L), the law of L read off H: the slope of H changes by Q's mass."""
    half = np.geomspace(1e-7, 8.0, 20_000)
    losses = np.concatenate([-half[::-1], half])
    a = np.exp(losses)
    h = fixed_size(a, n, batch, mu, replacement)
    p_mass = a[1:-1] * np.diff(np.diff(h) / np.diff(a))
    inner = p_mass * fixed_size(alpha / a[1:-1], n, batch, mu, replacement)
    return float(inner.sum() + h[-1])


def close_above(value, exact, relative):
    """An upper bound that is not far above."""
    return exact * (1 - 1e-6) <= value <= exact * (1 + relative) and math.isfinite(value)
