"""The releases behind a private certificate: counts of distances, then sums at the chosen cut."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.methods.certificate.statement import PrivateCertificate, best_cut
from stillspace.parts.queries import DistanceCounts, FarMoment, NearCost, NearMoment
from stillspace.plans.adaptive import Allowance, Answer, Ask, Outcome

CUTS: tuple[float, ...] = tuple(float(cut) for cut in np.geomspace(0.01, 0.9, 14))
"""Distances on the unit sphere among which the cut is chosen: each is 1.41 times the one before."""


@dataclass(frozen=True, slots=True)
class CertificateRule:
    """Parts of this stage's μ²: they add up to 1."""

    counts: float = 0.07
    """The counts of distances, which only choose the cut."""
    near: float = 0.25
    """The second moment of the near rows' scores."""
    cost: float = 0.08
    """The cost of the near rows: one number."""
    far: float = 0.6
    """The second moment of the far rows, which has D(D + 1)/2 entries."""


CERTIFICATE_RULE = CertificateRule()
"""What fits use."""


@dataclass(frozen=True, slots=True, eq=False)
class CertificateState:
    """What was released so far."""

    cut: float | None = None
    certificate: PrivateCertificate | None = None


@dataclass(frozen=True, slots=True)
class CertificateMethod:
    """Releases what theorem 3 needs, at a subspace that earlier releases gave.

    `basis` (D, r) is that subspace. Zero columns stand in where a fit chose fewer components than
    it was planned for.
    """

    D: int
    r: int
    basis: FrozenArray | None = None
    rule: CertificateRule = CERTIFICATE_RULE
    """All tuned numbers."""
    name: ClassVar[str] = "a certificate of the fitted subspace"
    n_components: ClassVar[int] = 0
    n_passes: ClassVar[int] = 2
    """The counts, then the three sums."""

    @property
    def coordinates(self) -> int:
        return sum(query.noise.coordinates for query in (self._counts, *self._sums(CUTS[0])))

    def at(self, point: FloatArray) -> CertificateMethod:
        return replace(self, basis=FrozenArray.of(point))

    def begin(self, allowance: Allowance) -> CertificateState:  # noqa: ARG002
        return CertificateState()

    def ask(self, state: CertificateState) -> Ask | None:
        if state.certificate is not None:
            return None
        if state.cut is None:
            return Ask(self._point, ((self._counts, self.rule.counts),))
        parts = (self.rule.near, self.rule.cost, self.rule.far)
        return Ask(self._point, tuple(zip(self._sums(state.cut), parts, strict=True)))

    def take(self, state: CertificateState, answers: tuple[Answer, ...]) -> CertificateState:
        point = self._point
        V = point[:, point.any(axis=0)]
        r = V.shape[1]
        if state.cut is None:
            counts = answers[0]
            cut = best_cut(counts.value, counts.sd, CUTS, self.D, max(r, 1))
            return replace(state, cut=cut)
        near, cost, far = answers
        made = PrivateCertificate.of(
            V,
            state.cut,
            (near.value[:r, :r], near.sd),
            (state.cut * float(cost.value), state.cut * cost.sd),
            (far.value, far.sd),
        )
        return replace(state, certificate=made)

    def outcome(self, state: CertificateState) -> Outcome:
        return Outcome(self._point, facts={"certificate": state.certificate})

    @property
    def _point(self) -> FloatArray:
        if self.basis is None:  # before a fit there is no subspace, and any point costs the same
            return np.eye(self.D, self.r)
        return self.basis.array

    @property
    def _counts(self) -> DistanceCounts:
        return DistanceCounts(self.D, self.r, CUTS)

    def _sums(self, cut: float) -> tuple[NearMoment, NearCost, FarMoment]:
        facts = (self.D, self.r, cut)
        return NearMoment(*facts), NearCost(*facts), FarMoment(*facts)
