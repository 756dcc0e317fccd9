"""What is believed of the columns after some noisy histograms of their cells."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import inf, nextafter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.methods.standardiser.hypotheses import (
    Hypotheses,
    astride,
    first_hypotheses,
    log_sum,
    within,
)
from stillspace.methods.standardiser.looks import Look, Range, first_edges
from stillspace.methods.standardiser.reading import Counts, on_simplex, spread
from stillspace.methods.standardiser.rule import StandardiserRule

_SMALLEST = nextafter(0.0, 1.0)
_AT_ONCE = 64
"""Columns that are handled at once."""
_CELLS = 2**16
"""Probabilities that are computed at once: they stay in a core's second cache."""
_SELDOM = 8
"""Tables of first hypotheses that are kept in memory: one for each public range, 6 MB each."""


class Beliefs(NamedTuple):
    """Weighed hypotheses of all D columns. Arrays have one row per column."""

    laws: Hypotheses
    weights: FloatArray
    first: Look
    """The first look, at all columns."""
    outline: Look
    """The first look, without bins that decide nothing."""
    looks: tuple[Look, ...]
    """The closer looks so far, each at some columns."""
    atoms: FloatArray
    """(D, atoms, 3): values that many cells have, between two limits, with a share of the rows;
    filled up with shares of 0."""
    heavy: FloatArray
    """(D, 3): limits and share of the fullest closed bin of the column's last look, beside atoms,
    if the median may hide in it; NaN if none is so full."""
    present: FloatArray
    """Share of the cells that are not missing."""
    sd: FloatArray
    """The noise of the column's last look."""
    step: FloatArray
    """Octaves between the scales of neighbouring hypotheses."""
    known: tuple[Range | None, ...]
    """The public range of a column, if it has one."""
    rule: StandardiserRule

    @property
    def live(self) -> FloatArray:
        """The share of cells that are neither missing nor in an atom."""
        return np.asarray(np.maximum(self.present - self.atoms[:, :, 2].sum(axis=1), 0.0))

    @property
    def varied(self) -> FloatArray:
        """The share of the present cells beside the most frequent value."""
        return np.asarray(self.present - self.atoms[:, :, 2].max(axis=1, initial=0.0))

    @property
    def hopeless(self) -> npt.NDArray[np.bool_]:
        """Whether a column is constant, as far as the noise of the first look tells."""
        return np.asarray(self.varied < self.rule.sure * self.first.sd)

    @property
    def resolved(self) -> npt.NDArray[np.bool_]:
        """Whether centre and scale are known well enough for the last look."""
        return (self.uncertainty <= self.rule.resolved) & np.isnan(self.heavy[:, 2])

    @property
    def octave(self) -> tuple[FloatArray, FloatArray]:
        """Mean and standard deviation of the logarithm of the scale, base 2."""
        octave = self.laws.octave
        mean = np.sum(self.weights * octave, axis=1)
        variance = np.sum(self.weights * np.square(octave - mean[:, None]), axis=1)
        return mean, np.sqrt(variance)

    @property
    def uncertainty(self) -> FloatArray:
        """Octaves of the scale or scales of the centre, whichever is more."""
        w, laws = self.weights, self.laws
        mean, sd = self.octave
        order = np.argsort(laws.center, axis=1)
        below = np.cumsum(np.take_along_axis(w, order, axis=1), axis=1)
        at = np.minimum(np.count_nonzero(below < 0.5, axis=1), w.shape[1] - 1)
        rows = np.arange(len(w))
        middle = laws.center[rows, order[rows, at]]
        off = np.sum(w * (np.abs(laws.center - middle[:, None]) + laws.reach / 2.0), axis=1)
        return np.asarray(np.maximum(sd, off / np.exp2(mean)))

    def is_clear(self, share: FloatArray) -> npt.NDArray[np.bool_]:
        """Whether a share of the rows, one per column, stands out of the noise."""
        return np.asarray(share >= self.rule.sure * self.sd)

    def masses(self, look: Look, laws: Hypotheses) -> AnyArray:
        """Return what hypotheses of the columns say of a look at them, atoms included."""
        masses = laws.masses(look.edges)
        columns = look.columns
        atoms = self.atoms[columns]
        live = np.maximum(self.present[columns] - atoms[:, :, 2].sum(axis=1), 0.0)
        masses *= live[:, None, None].astype(np.float32)
        for low, high, share in self._atoms(columns):
            masses[np.arange(len(columns)), :, look.fullest(low, high)] += share[:, None]
        return masses

    def next_edges(self, columns: IntArray, sd: float, last: bool) -> list[FloatArray]:
        """Return the edges of the next look: quantiles, atoms, and parts of a heavy bin.

        In the last look every other quantile is one of the first look's counts: a belief that took
        a repeated value for a narrow column would leave all other cells in two bins.
        """
        bins = int(np.clip(self.rule.full / sd, self.rule.least_bins, self.rule.most_bins))
        levels = np.arange(1.0, bins) / bins
        believed, counted = (levels[::2], levels[1::2]) if last else (levels, levels[:0])
        found = []
        for some in _some(columns):
            found += self.laws[some].quantiles(self.weights[some], believed)
        for i, column in enumerate(columns):
            parts = [atom[:2] for atom in self.atoms[column] if atom[2] > 0.0]
            parts.append(self.first.quantiles(column, counted, self.rule.sure))
            low, high, share = self.heavy[column]
            if share > 0.0:
                parts.append(np.linspace(low, high, self.rule.parts_of_heavy_bin + 1))
            edges = np.concatenate([found[i], *parts])
            found[i] = np.unique(edges[np.isfinite(edges)])
        return found

    def after(self, look: Look) -> Beliefs:
        """Return what is believed after one more look: likely hypotheses, finer ones.

        A heavy bin that is narrow is one repeated value: the columns that have one are weighed
        anew, with that value set aside.
        """
        found = self._replace(looks=(*self.looks, look))
        for columns in _some(look.columns):
            found = found._refined(look, columns)
        repeated = look.columns[found._has_narrow_bin(look.columns)]
        return found if len(repeated) == 0 else found._with_atoms(repeated)

    def centers_and_scales(self) -> FloatArray:
        """Return medians and scales (2, D); an infinite scale where noise leaves it open."""
        found = np.array([np.zeros(len(self.weights)), np.full(len(self.weights), inf)])
        tried = np.full(len(self.weights), False)
        for look in reversed(self.looks):
            at = np.flatnonzero(~(self.hopeless | tried)[look.columns])
            if len(at) > 0:
                last = look.some(at)
                tried[last.columns] = True
                found[:, last.columns] = self._read_off(last)
        return found

    def _read_off(self, look: Look) -> FloatArray:
        """Return medians and scales from a look that is the last one at its columns."""
        columns, rule = look.columns, self.rule
        masses = self.masses(look, self.laws[columns])
        believed = np.einsum("ck,cke->ce", self.weights[columns], masses)
        off = look.shares - believed
        trust = rule.misfit**2 / (rule.misfit**2 + look.sd**2)
        trusted = np.where(np.abs(off) > rule.sure * look.sd, 1.0, trust)
        shares, noise = believed + trusted * off, np.square(trusted * look.sd)
        found = np.array([np.zeros(len(columns)), np.full(len(columns), inf)])
        for i, column in enumerate(columns):
            edges = look.own_edges(i)
            there = self.present[column]  # median and spread are those of the present cells
            some = slice(len(edges) + 1)
            counts = Counts(edges, on_simplex(shares[i, some] / there), noise[i, some] / there**2)
            outer_edges = self.first.own_edges(column)
            outer = on_simplex(self.first.shares[column, : len(outer_edges) + 1] / there)
            read = spread(counts.with_tails(outer_edges, outer), rule)
            reach = max(read.median - edges[0], edges[-1] - read.median)
            varies = read.others >= rule.sure * look.sd
            if varies and 0.0 < read.scale <= rule.to_sd * reach:
                found[:, i] = read.median, read.scale
        return found

    def _atoms(self, columns: IntArray) -> Iterator[tuple[FloatArray, FloatArray, FloatArray]]:
        """Yield limits and shares of the first atom of all columns, of the second one, …"""
        for i in range(self.atoms.shape[1]):
            low, high, share = self.atoms[columns, i].T
            if share.any():
                yield low, high, share

    def _refined(self, look: Look, columns: IntArray) -> Beliefs:
        """Return the belief after one more look at some of the columns."""
        part, finest = look.some(look.places(columns)), self.rule.resolved
        step, laws = self.step[columns], self.laws[columns]
        changed = self._changed(columns, step=np.maximum(step / 2.0, finest))
        laws = laws.split(part.edges, self.rule.parts_of_heavy_bin).halved(step, finest)
        return changed._weighed(columns, *changed._with_fresh(part, laws), look.sd)

    def _with_fresh(self, look: Look, laws: Hypotheses) -> tuple[Hypotheses, FloatArray]:
        """Return hypotheses, with laws in heavy bins or around their ends, and these bins."""
        columns, rows, rule = look.columns, np.arange(len(look.columns)), self.rule
        shares = np.where(look.closed, look.shares, -inf)
        for low, high, share in self._atoms(columns):
            shares[rows, look.fullest(low, high)] -= share
        at = np.argmax(shares, axis=1)
        most = shares[rows, at]
        is_heavy = most > np.maximum(rule.heavy * self.present[columns], rule.clear * look.sd)
        heavy = np.full((len(columns), 3), np.nan)
        if not is_heavy.any():
            return laws, heavy
        here, bins = rows[is_heavy], at[is_heavy]
        heavy[here] = np.column_stack(
            [look.edges[here, bins - 1], look.edges[here, bins], most[here]]
        )
        prior = log_sum(laws.prior) - rule.fresh
        low, high = heavy[:, 0], heavy[:, 1]
        before, after = (shares[rows, np.clip(at + i, 0, shares.shape[1] - 1)] for i in (-1, 1))
        fresh = [within(low, high, prior, rule.depth)]
        for end, below, above in ((low, before, most), (high, most, after)):
            fresh.append(astride(end, below, above, high - low, prior, rule.depth_at_end))
        return Hypotheses.joined([laws, *fresh]), heavy

    def _weighed(
        self, columns: IntArray, laws: Hypotheses, heavy: FloatArray, sd: float
    ) -> Beliefs:
        """Return the belief with weights from all looks (a matched filter with misfit).

        The most likely hypotheses of each column are kept. `sd` is the noise of the last look.
        """
        found = np.full(laws.prior.shape, -inf)
        for rows, k in _alike(laws, self.looks[-1] if self.looks else self.outline, columns):
            found[rows, :k] = self._logarithms(columns[rows], laws[rows, :k])
        found -= found.max(axis=1, keepdims=True)
        weights = np.exp(found)
        weights /= weights.sum(axis=1, keepdims=True)
        order = np.argsort(-weights, axis=1, kind="stable")[:, : self.rule.most_kept]
        weights, laws = np.take_along_axis(weights, order, axis=1), laws.taken(order)
        likely = np.cumsum(weights, axis=1) - weights < self.rule.mass_kept
        weights = np.where(likely, weights, 0.0)
        weights /= weights.sum(axis=1, keepdims=True)
        laws = replace(laws, prior=np.where(likely, laws.prior, -inf))
        noise = np.full(len(columns), sd)
        return self._changed(columns, laws=laws, weights=weights, heavy=heavy, sd=noise)

    def _logarithms(self, columns: IntArray, laws: Hypotheses) -> FloatArray:
        """Return the logarithms of the weights of hypotheses, up to a constant."""
        found = laws.prior.copy()
        for look in (self.outline, *self.looks):
            at = look.places(columns)
            here = at >= 0
            if here.any():
                part = look.some(at[here])
                masses = self.masses(part, laws if here.all() else laws[here])
                off = part.shares[:, None, :].astype(np.float32) - np.float32(0.5) * masses
                fit = np.einsum("cke,cke->ck", masses, off)
                found[here] += fit / (look.sd**2 + self.rule.misfit**2)
        return found

    def _changed(self, columns: IntArray, **facts: FloatArray | Hypotheses) -> Beliefs:
        """Return the belief with other facts of some columns."""
        found: dict[str, Any] = {}
        for name, value in facts.items():
            old = getattr(self, name)
            if isinstance(value, Hypotheses):
                names = Hypotheses.__slots__
                pairs = ((getattr(old, n), getattr(value, n)) for n in names)
                found[name] = Hypotheses(*(_put(a, columns, b) for a, b in pairs))
            else:
                found[name] = _put(old, columns, value)
        return self._replace(**found)

    def _has_narrow_bin(self, columns: IntArray) -> npt.NDArray[np.bool_]:
        """Whether the heavy bin of a column is one value, beside which there are other cells."""
        low, high, share = self.heavy[columns].T
        narrow = high - low <= self.rule.atom_width * np.maximum(np.abs(low), np.abs(high))
        clear = self.is_clear(self.present - np.nan_to_num(self.heavy[:, 2]))[columns]
        return np.asarray(narrow & clear & (share > 0.0))

    def _with_atoms(self, columns: IntArray) -> Beliefs:
        """Return the belief with the heavy bins of these columns as atoms, weighed anew."""
        low, high, share = self.heavy[columns].T
        atoms = np.zeros((len(self.atoms), self.atoms.shape[1] + 1, 3))
        atoms[:, :-1] = self.atoms
        atoms[columns, -1] = np.column_stack([low, high, np.minimum(share, self.live[columns])])
        found = self._replace(atoms=atoms, looks=()).begun(columns)
        for look in self.looks:
            found = found._replace(looks=(*found.looks, look))
            at = look.places(columns)
            for some in _some(columns[at >= 0]):
                found = found._refined(look, some)
        return found

    def begun(self, columns: IntArray) -> Beliefs:
        """Return the belief with these columns as they are after the first look."""
        found = self._changed(columns, step=np.ones(len(columns)))
        for known in dict.fromkeys(self.known[j] for j in columns):
            same = np.array([j for j in columns if self.known[j] == known])
            for some in _some(same):
                found = found._begun(some, known)
        return found

    def _begun(self, columns: IntArray, known: Range | None) -> Beliefs:
        hypotheses, masses, squares = _first(known, self.rule)
        look = self.first.some(columns)
        shares = look.shares.astype(np.float32)
        for low, high, share in self._atoms(columns):
            shares[np.arange(len(columns)), look.fullest(low, high)] -= share
        live = self.live[columns, None].astype(np.float32)
        score = live * (shares @ masses.T)
        score -= 0.5 * live**2 * squares
        score /= np.float32(look.sd**2 + self.rule.misfit**2)
        score += hypotheses.prior.astype(np.float32)
        likely = _largest(score, self.rule.most_kept)
        laws, heavy = self._with_fresh(look, hypotheses[likely])
        ends = self.atoms[columns, :, :2].reshape(len(columns), -1)
        needed = np.concatenate([heavy[:, :2], ends], axis=1)
        outline = look.outline(masses[likely].max(axis=1), needed, self.rule.negligible)
        found = self._replace(outline=self.outline.with_columns(outline))
        return found._weighed(columns, laws, heavy, look.sd)


def _alike(laws: Hypotheses, look: Look, columns: IntArray) -> Iterator[tuple[IntArray, int]]:
    """Yield rows with about as many hypotheses and edges, and the number of hypotheses."""
    k = np.max(np.where(np.isneginf(laws.prior), 0, np.arange(1, laws.prior.shape[1] + 1)), axis=1)
    edges = np.isfinite(look.edges).sum(axis=1)[look.places(columns)]
    sizes = np.ceil(np.log2(k)) * 64.0 + np.ceil(np.log2(edges + 1.0))
    for size in np.unique(sizes):
        rows = np.flatnonzero(sizes == size)
        most = int(k[rows].max())
        for some in _some(rows, max(_CELLS // (most * int(edges[rows].max() + 1)), 1)):
            yield some, most


def _largest(score: AnyArray, count: int) -> IntArray:
    """Return the places of the largest scores of each column."""
    return np.argpartition(-score, count, axis=1)[:, :count]


def _put(old: FloatArray, columns: IntArray, new: FloatArray) -> FloatArray:
    found = old.copy()
    found[columns] = new
    return found


def _some(columns: IntArray, count: int = _AT_ONCE) -> Iterator[IntArray]:
    for at in range(0, len(columns), count):
        yield columns[at : at + count]


@lru_cache(maxsize=_SELDOM)
def _first(known: Range | None, rule: StandardiserRule) -> tuple[Hypotheses, AnyArray, FloatArray]:
    """Return the first hypotheses, their probabilities of the bins, and the sums of the squares."""
    hypotheses, edges = first_hypotheses(rule), first_edges(rule, known)
    if known is not None:  # a codebook may be wrong: what it excludes has less weight, not none
        unlikely = rule.fresh * hypotheses.beyond(known.low, known.high)
        hypotheses = replace(hypotheses, prior=hypotheses.prior - unlikely)
        ends = np.array([known.low]), np.array([known.high])
        expected = within(*ends, log_sum(hypotheses.prior)[None], rule.depth)
        expected = expected.split(edges[None], rule.parts_of_heavy_bin)
        hypotheses = Hypotheses.joined([hypotheses, expected[0]])
    masses = hypotheses.masses(edges)
    return hypotheses, masses, np.square(masses).sum(axis=1)


def beliefs_after_first(
    look: Look,
    missing: FloatArray,
    known: tuple[Range | None, ...],
    rule: StandardiserRule,
) -> Beliefs:
    """Return what is believed of all columns after the first look; noisy shares are missing."""
    D, rows = len(known), np.arange(len(known))
    zeros = look.shares[rows, look.bins_of(np.zeros(D))]
    present = 1.0 - np.where(missing > rule.sure * look.sd, np.minimum(missing, 1.0), 0.0)
    is_atom = zeros > np.maximum(rule.heavy * present, rule.clear * look.sd)
    share = np.where(is_atom, np.minimum(zeros, present), 0.0)
    atoms = np.column_stack([np.zeros(D), np.full(D, _SMALLEST), share])[:, None, :]
    none = np.zeros((D, rule.most_kept))
    empty = Look(look.columns, np.empty((D, 0)), np.zeros((D, 1)), look.sd)
    laws, one = Hypotheses(none, none, none, none, none), np.ones(D)
    heavy = np.full((D, 3), np.nan)
    found = Beliefs(laws, none, look, empty, (), atoms, heavy, present, one, one, known, rule)
    return found.begun(rows)
