"""What an adversary makes of what it sees: one number per coin, larger where the coin shows 1.

The white-box score is the log-likelihood ratio of all noisy releases given the iterates, which is
the best there is (Neyman and Pearson). The adversary knows the plan, the noise, all other rows and
their selection, but not the coin, nor whether the canary was selected. That it may know the
selection of the other rows under Poisson sampling costs nothing: rows are selected independently,
and the accountant's pair of laws is the pair given all other selections.
"""

from __future__ import annotations

from functools import cached_property
from math import exp, lgamma, log, log1p, prod

import numpy as np

from stillspace._typing import FloatArray, IntArray
from stillspace.audit.neighbours import Neighbours
from stillspace.parts.queries import Query
from stillspace.parts.sampling import All, Poisson, RowPart, WithoutReplacement, WithReplacement
from stillspace.plans.release import Release
from stillspace.rows import Affine, MemoryRows, Sphere, through_view
from stillspace.rows.maps import View
from stillspace.run.observers import Observation

_LEAST = 1e-12
"""Probability of being drawn oftener than is looked at, in batches with replacement."""


def terms(query: Query, rows: FloatArray, points: FloatArray) -> FloatArray:
    """Return the terms of scaled rows (m, D) at each of some points, flat: (points, m, size)."""
    found = np.zeros((len(points), len(rows), *query.shape))
    columns = [np.ascontiguousarray(row[:, None]) for row in rows]
    with np.errstate(all="ignore"):
        for out, point in zip(found, points, strict=True):
            for i, column in enumerate(columns):
                query.add_block(column, point, out[i, ...])
    return found.reshape(*found.shape[:2], prod(query.shape))


class WhiteBox:
    """Watches one run and adds up the log-likelihood ratio of each coin.

    With several coins in a run each is judged as if the others' canaries were not there: their
    terms are nearly orthogonal, and a score need not be the best to give a valid bound.
    """

    def __init__(self, neighbours: Neighbours) -> None:
        self._neighbours = neighbours
        self._ones, self._others = neighbours.canaries
        self.scores = np.zeros(len(self._ones))
        self.information = np.zeros(len(self._ones))
        """Σ ‖difference of the terms‖²/σ², times the squared rate of a canary: what there was."""

    def __call__(self, observation: Observation) -> None:
        """Take in what iterations released."""
        if _maps_rows(observation.view):
            self._compare_tables(observation)
            return
        release, count = observation.release, len(observation.points)
        query, copies = release.query, self._copies(observation)
        base, swap = self._base(observation)
        R = observation.released.reshape(count, -1) * release.divisor - base
        t1 = copies * terms(query, self._ones, observation.points) - swap
        t0 = np.zeros_like(t1)
        if self._others is not None:
            t0 = copies * terms(query, self._others, observation.points) - swap
        weights = query.noise.precision.ravel() / _sigmas(observation)[:, None] ** 2
        times, log_odds = _times_drawn(release)
        self.scores += _log_ratio(R, t1, weights, times, log_odds)
        self.scores -= _log_ratio(R, t0, weights, times, log_odds)
        rate = 1.0 if len(times) == 1 else 1.0 - exp(log_odds[0])
        self.information += rate**2 * np.einsum("ks,kms->m", weights, (t1 - t0) ** 2)

    def _compare_tables(self, observation: Observation) -> None:
        """Take in a release of mapped rows: both tables go through the maps that were used.

        The pairing is taken as known, and so is the division of the rows into parts: this makes
        the adversary stronger than it is.
        """
        release = observation.release
        if len(self.scores) != 1 or not isinstance(release.sampling, All | RowPart):
            raise ValueError("Mapped rows are audited with one canary, and without sampling.")
        chosen = None if observation.selections is None else observation.selections[0]
        sums = []
        with np.errstate(all="ignore"):
            for table in self._tables:
                rows = through_view(MemoryRows.of(table), observation.view, observation.pairs)
                asked = [rows.add(release.query, p, chosen) for p in observation.points]
                sums.append([found.ravel() for found in asked])
        without, with_one = np.array(sums)
        R = observation.released.reshape(len(observation.points), -1) * release.divisor - without
        weights = release.query.noise.precision.ravel() / _sigmas(observation)[:, None] ** 2
        gap = with_one - without
        square = float(np.sum(weights * gap**2))
        self.scores += float(np.sum(weights * R * gap)) - 0.5 * square
        self.information += square

    @cached_property
    def _tables(self) -> tuple[FloatArray, FloatArray]:
        """The table for a coin that shows 0, and for one that shows 1."""
        table = self._neighbours.table
        return table(np.array([False])), table(np.array([True]))

    def _base(self, observation: Observation) -> tuple[FloatArray, FloatArray | float]:
        """Return the sums of the known rows, and the terms that a drawn canary replaces."""
        query, sampling = observation.release.query, observation.release.sampling
        known = self._neighbours.known
        if isinstance(sampling, All | Poisson | RowPart):
            return self._summed(observation) if known is None else self._counted(observation), 0.0
        if known is None or len(known[0]) > 1:
            raise ValueError(
                "With batches of a fixed size the known rows must be equal to each other: how many "
                "of them are drawn tells whether the canary was. Use zeros or copies."
            )
        each = terms(query, known[0], observation.points)
        return observation.release.divisor * each[:, 0], each

    def _summed(self, observation: Observation) -> FloatArray:
        """Return the sums of many different rows, as a release would add them."""
        rows, query = self._neighbours.rest_rows, observation.release.query
        with np.errstate(all="ignore"):
            sums = [
                rows.add(query, p, self._chosen(observation, k))
                for k, p in enumerate(observation.points)
            ]
        return np.array(sums).reshape(len(sums), -1)

    def _counted(self, observation: Observation) -> FloatArray:
        """Return the sums where there are few different rows, as multiples of their terms."""
        assert self._neighbours.known is not None
        rows, which = self._neighbours.known
        counts = np.empty((len(observation.points), len(rows)))
        counts[:] = np.bincount(which, minlength=len(rows))
        if observation.selections is not None:
            for k in range(len(counts)):
                counts[k] = np.bincount(which[self._chosen(observation, k)], minlength=len(rows))
        found = terms(observation.release.query, rows, observation.points)
        return np.asarray(np.einsum("km,kms->ks", counts, found))

    def _copies(self, observation: Observation) -> FloatArray:
        """Return how many rows of each coin may be read, (coins, 1)."""
        count, copies = len(self._ones), self._neighbours.copies
        read = np.full(count, float(copies))
        if isinstance(observation.release.sampling, RowPart):
            assert observation.selections is not None
            coin = (observation.selections[0] - len(self._neighbours.rest)) // copies
            read[:] = np.bincount(coin[coin >= 0], minlength=count)
        return read[:, None]

    def _chosen(self, observation: Observation, k: int) -> IntArray | None:
        """Return which known rows were drawn; whether the canary was stays secret."""
        if observation.selections is None:
            return None
        chosen = observation.selections[k]
        return np.asarray(chosen[chosen < len(self._neighbours.rest)])


def _maps_rows(view: View) -> bool:
    """Whether a view does more than scale rows to the sphere."""
    return any(row_map not in (Affine(), Sphere()) for row_map in view)


def _sigmas(observation: Observation) -> FloatArray:
    release, count = observation.release, len(observation.points)
    if not isinstance(release.z, tuple):
        return np.full(count, release.sigma(observation.first))
    return np.array([release.sigma(k) for k in range(observation.first, observation.first + count)])


def _log_ratio(
    R: FloatArray, t: FloatArray, weights: FloatArray, times: FloatArray, log_odds: FloatArray
) -> FloatArray:
    """Return log of density of R with a canary of term t over that without it, for each coin.

    Drawn k times with probability p_k, it moves the mean by k·t:
    log Σ_k p_k exp((2k R·t − k² t·t)/2σ²), added up over the iterations.
    """
    linear = np.einsum("ks,kms->mk", weights * R, t)
    square = np.einsum("ks,kms->mk", weights, t * t)
    gains = times * linear[..., None] - 0.5 * times**2 * square[..., None] + log_odds
    top = gains.max(axis=-1)
    return np.asarray(np.sum(top + np.log(np.exp(gains - top[..., None]).sum(axis=-1)), axis=1))


def _times_drawn(release: Release) -> tuple[FloatArray, FloatArray]:
    """Return how often a canary may be drawn in a step, and the logarithms of the probabilities."""
    sampling = release.sampling
    if isinstance(sampling, Poisson):
        return _once(sampling.rate)
    if isinstance(sampling, WithoutReplacement):
        return _once(sampling.batch_size / sampling.population)
    if isinstance(sampling, WithReplacement):
        B, n = sampling.batch_size, sampling.population
        k = np.arange(min(B, 40) + 1.0)
        choose = np.array([lgamma(B + 1) - lgamma(i + 1) - lgamma(B - i + 1) for i in k])
        log_odds = choose - k * log(n) + (B - k) * (log1p(-1 / n) if n > 1 else -np.inf)
        kept = int(np.argmax(np.cumsum(np.exp(log_odds)) > 1.0 - _LEAST)) + 1
        return k[: max(kept, 2)], log_odds[: max(kept, 2)]
    return np.ones(1), np.zeros(1)


def _once(rate: float) -> tuple[FloatArray, FloatArray]:
    if rate >= 1.0:
        return np.ones(1), np.zeros(1)
    return np.array([0.0, 1.0]), np.array([log1p(-rate), log(rate)])


def fit_score(neighbours: Neighbours, V: FloatArray) -> FloatArray:
    """Return how much better a basis fits each canary than what may stand in its place.

    ‖Vᵀx₁‖² − ‖Vᵀx₀‖², a function of the subspace alone.
    """
    better = np.sum((neighbours.ones @ V) ** 2, axis=1)
    if neighbours.others is None:
        return np.asarray(better)
    return np.asarray(better - np.sum((neighbours.others @ V) ** 2, axis=1))
