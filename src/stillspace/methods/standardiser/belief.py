"""What is believed of one column after some noisy histograms of its cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cache
from math import inf, nextafter, sqrt
from typing import NamedTuple

import numpy as np
from scipy.special import logsumexp

from stillspace._typing import FloatArray, IntArray
from stillspace.methods.standardiser.histogram import on_simplex, spread
from stillspace.methods.standardiser.hypotheses import Hypotheses, first_hypotheses, within
from stillspace.methods.standardiser.rule import RULE
from stillspace.parts.queries.columns import octave_edges

_SMALLEST = nextafter(0.0, 1.0)


class Atom(NamedTuple):
    """A value that many cells have: between these limits, with this share of the rows."""

    low: float
    high: float
    share: float


class Range(NamedTuple):
    """What a codebook says of a column: its smallest and its largest value."""

    low: float
    high: float


class HeavyBin(NamedTuple):
    """A bin with so many cells that the median may hide in it."""

    low: float
    high: float
    share: float


@dataclass(frozen=True, slots=True, eq=False)
class Histogram:
    """One noisy histogram of a column: shares of the rows between edges, and their noise."""

    edges: FloatArray
    shares: FloatArray
    sd: float

    def bin_of(self, value: float) -> int:
        """Return the number of the bin that holds a value."""
        return int(np.searchsorted(self.edges, value, side="right"))


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """Weighed hypotheses of one column."""

    hypotheses: Hypotheses
    weights: FloatArray
    histograms: tuple[Histogram, ...]
    atoms: tuple[Atom, ...]
    present: float
    """Share of the cells that are not missing."""
    known: Range | None = None
    """The public range of the column, if it has one."""
    step: float = 1.0
    """Octaves between the scales of neighbouring hypotheses."""

    @property
    def live(self) -> float:
        """The share of cells that are neither missing nor in an atom."""
        return max(self.present - sum(atom.share for atom in self.atoms), 0.0)

    @property
    def varied(self) -> float:
        """The share of the present cells beside the most frequent value."""
        return self.present - max((atom.share for atom in self.atoms), default=0.0)

    @property
    def hopeless(self) -> bool:
        """Whether the column is constant, as far as noise tells."""
        return not self._is_clear(self.varied)

    @property
    def resolved(self) -> bool:
        """Whether centre and scale are known well enough for the last look."""
        return self.uncertainty <= RULE.resolved and self.heavy_bin() is None

    @property
    def octave(self) -> tuple[float, float]:
        """Mean and standard deviation of the logarithm of the scale, base 2."""
        mean = float(self.weights @ self.hypotheses.octave)
        return mean, sqrt(float(self.weights @ np.square(self.hypotheses.octave - mean)))

    @property
    def uncertainty(self) -> float:
        """Octaves of the scale or scales of the centre, whichever is more."""
        w, h = self.weights, self.hypotheses
        mean, sd = self.octave
        order = np.argsort(h.center)
        at = int(np.searchsorted(np.cumsum(w[order]), 0.5))
        middle = h.center[order[min(at, len(order) - 1)]]
        off = float(w @ (np.abs(h.center - middle) + h.reach / 2.0))
        return max(sd, off / float(np.exp2(mean)))

    def masses(self, histogram: Histogram, known: FloatArray | None = None) -> FloatArray:
        """Return what each hypothesis says of a histogram: (hypotheses, bins).

        `known` are the probabilities of the bins for the first hypotheses, if they are at hand.
        """
        if known is None:
            parts = self.hypotheses.masses(histogram.edges)
        else:
            parts = np.concatenate([known, self.hypotheses[len(known) :].masses(histogram.edges)])
        masses = self.live * parts
        for atom in self.atoms:
            masses[:, histogram.bin_of(atom.low)] += atom.share
        return np.asarray(masses)

    def weighed(self, known: FloatArray | None = None) -> Belief:
        """Return the belief with weights from all looks: a matched filter with misfit.

        `known` is that of `masses`, for the only histogram that there is.
        """
        found = self.hypotheses.prior.copy()
        for histogram in self.histograms:
            masses = self.masses(histogram, known)
            fit = masses @ histogram.shares - 0.5 * np.square(masses).sum(axis=1)
            found += fit / (histogram.sd**2 + RULE.misfit**2)
        return replace(self, weights=np.exp(found - logsumexp(found)))

    def heavy_bin(self) -> HeavyBin | None:
        """Return the fullest closed bin of the last look beside atoms, if that is too full."""
        histogram = self.histograms[-1]
        shares = histogram.shares[1:-1].copy()
        if len(shares) == 0:
            return None
        for atom in self.atoms:
            at = histogram.bin_of(atom.low) - 1
            if 0 <= at < len(shares):
                shares[at] -= atom.share
        at = int(np.argmax(shares))
        if shares[at] <= max(RULE.heavy * self.present, RULE.clear * histogram.sd):
            return None
        low, high = histogram.edges[at : at + 2]
        return HeavyBin(float(low), float(high), float(shares[at]))

    def next_edges(self, sd: float) -> FloatArray:
        """Return the edges of the next look: quantiles, atoms, and parts of a heavy bin."""
        bins = int(np.clip(RULE.full / sd, RULE.least_bins, RULE.most_bins))
        parts = [self.hypotheses.quantiles(self.weights, np.arange(1.0, bins) / bins)]
        parts += [np.array([atom.low, atom.high]) for atom in self.atoms]
        heavy = self.heavy_bin()
        if heavy is not None:
            parts.append(np.linspace(heavy.low, heavy.high, RULE.parts_of_heavy_bin + 1))
        edges = np.concatenate(parts)
        return np.unique(edges[np.isfinite(edges)])

    def after(self, histogram: Histogram) -> Belief:
        """Return what is believed after one more look: likely hypotheses, finer ones."""
        order = np.argsort(-self.weights, kind="stable")
        enough = int(np.searchsorted(np.cumsum(self.weights[order]), RULE.mass_kept)) + 1
        likely = self.hypotheses[order[: min(enough, RULE.most_kept)]].split(histogram.edges)
        step = self.step
        if step > RULE.finest_step:
            likely, step = likely.halved(step), step / 2.0
        histograms = (*self.histograms, histogram)
        found = replace(self, hypotheses=likely, histograms=histograms, step=step)
        return found._with_fresh().weighed()

    def with_atom(self) -> Belief:
        """Return the belief that the heavy bin of the last look is one value, if it is narrow."""
        heavy = self.heavy_bin()
        if heavy is None:
            return self
        wide = heavy.high - heavy.low > RULE.atom_width * max(abs(heavy.low), abs(heavy.high))
        if wide or not self._is_clear(self.present - heavy.share):
            return self
        atom = Atom(heavy.low, heavy.high, min(heavy.share, self.live))
        found = _first_belief(self.histograms[0], (*self.atoms, atom), self.present, self.known)
        for histogram in self.histograms[1:]:
            found = found.after(histogram)
        return found

    def center_and_scale(self) -> tuple[float, float]:
        """Return the median and the scale; an infinite scale where noise leaves it open."""
        if self.hopeless:
            return 0.0, inf
        heavy = self.heavy_bin()
        if heavy is not None and heavy.share > (1.0 - RULE.outliers) * self.present:
            return 0.0, inf
        histogram = self.histograms[-1]
        believed = self.weights @ self.masses(histogram)
        off = histogram.shares - believed
        trust = RULE.misfit**2 / (RULE.misfit**2 + histogram.sd**2)
        gain = np.where(np.abs(off) > RULE.sure * histogram.sd, 1.0, trust)
        shares = self._with_tails(on_simplex(believed + gain * off))
        found = spread(*shares, histogram.sd, RULE.doubtful)
        believed_in = self.octave[1] <= RULE.unbelieved or self.live <= self.varied / 2.0
        reach = max(found.median - histogram.edges[0], histogram.edges[-1] - found.median)
        resolved = found.doubt <= RULE.unresolved or (believed_in and found.scale <= reach)
        return found.median, found.scale if resolved and self._is_clear(found.others) else inf

    def _with_tails(self, shares: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return edges and shares of the last look, its open bins split as in the first look."""
        first, last = self.histograms[0], self.histograms[-1]
        outer = np.maximum(first.shares, 0.0)
        low = first.edges < last.edges[0]
        high = first.edges > last.edges[-1]
        below = outer[: np.count_nonzero(low) + 1]
        above = outer[len(first.edges) - np.count_nonzero(high) :]
        edges = np.concatenate([first.edges[low], last.edges, first.edges[high]])
        parts = [_divided(shares[0], below), shares[1:-1], _divided(shares[-1], above)]
        return edges, np.concatenate(parts)

    def _with_fresh(self) -> Belief:
        """Return the belief with hypotheses of laws inside a heavy bin, if there is one."""
        heavy = self.heavy_bin()
        if heavy is None:
            return self
        prior = float(logsumexp(self.hypotheses.prior)) - RULE.fresh
        fresh = within(heavy.low, heavy.high, prior)
        return replace(self, hypotheses=Hypotheses.joined([self.hypotheses, fresh]))

    def _is_clear(self, share: float) -> bool:
        return share >= max(RULE.least_live, RULE.sure * self.histograms[-1].sd)


def _divided(share: float, parts: FloatArray) -> FloatArray:
    """Return a share, divided as these parts are."""
    total = parts.sum()
    return share * (parts / total if total > 0.0 else np.full(len(parts), 1.0 / len(parts)))


@cache
def first_edges(known: Range | None = None) -> FloatArray:
    """Return the edges of the first look: ends of octaves, and parts of a public range."""
    octaves = octave_edges(RULE.least_octave, RULE.most_octave)
    if known is None:
        return octaves
    parts = np.linspace(known.low, known.high, RULE.parts_of_range + 1)
    return np.unique(np.concatenate([octaves, parts]))


@cache
def _first(known: Range | None) -> tuple[Hypotheses, FloatArray, FloatArray]:
    """Return the first hypotheses, their probabilities of the bins, and the sums of the squares."""
    hypotheses, edges = first_hypotheses(RULE.least_octave, RULE.most_octave), first_edges(known)
    if known is not None:  # a codebook may be wrong: what it excludes has less weight, not none
        unlikely = RULE.fresh * hypotheses.beyond(known.low, known.high)
        hypotheses = replace(hypotheses, prior=hypotheses.prior - unlikely)
        weight = float(logsumexp(hypotheses.prior))
        expected = within(known.low, known.high, weight).split(edges)
        hypotheses = Hypotheses.joined([hypotheses, expected])
    masses = hypotheses.masses(edges)
    return hypotheses, masses, np.square(masses).sum(axis=1)


def _first_belief(
    histogram: Histogram, atoms: tuple[Atom, ...], present: float, known: Range | None
) -> Belief:
    """Return what is believed after the first look, with these atoms set aside."""
    hypotheses, masses, squares = _first(known)
    live = max(present - sum(atom.share for atom in atoms), 0.0)
    shares = histogram.shares.copy()
    for atom in atoms:
        shares[histogram.bin_of(atom.low)] -= atom.share
    fit = live * (masses @ shares) - 0.5 * live**2 * squares
    score = hypotheses.prior + fit / (histogram.sd**2 + RULE.misfit**2)
    kept = _largest(score, 4 * RULE.most_kept)
    found = Belief(hypotheses[kept], np.empty(0), (histogram,), atoms, present, known)
    return found._with_fresh().weighed(masses[kept])


def _largest(score: FloatArray, count: int) -> IntArray:
    """Return the places of the largest scores, the largest first, as a stable sort has them."""
    if len(score) > count:
        least = np.partition(score, -count)[-count]
        places = np.flatnonzero(score >= least)
    else:
        places = np.arange(len(score))
    return np.asarray(places[np.argsort(-score[places], kind="stable")][:count])


def belief_after_first(histogram: Histogram, missing: float, known: Range | None) -> Belief:
    """Return what is believed of a column after the first look; a noisy share is missing."""
    zeros = float(histogram.shares[histogram.bin_of(0.0)])
    present = 1.0 - (min(missing, 1.0) if missing > RULE.sure * histogram.sd else 0.0)
    atoms: tuple[Atom, ...] = ()
    if zeros > max(RULE.heavy * present, RULE.clear * histogram.sd):
        atoms = (Atom(0.0, _SMALLEST, min(zeros, present)),)
    return _first_belief(histogram, atoms, present, known)
