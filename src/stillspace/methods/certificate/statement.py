"""What released sums prove about a fitted subspace, at a level of confidence (theorem 3).

Let V̂ be the fitted subspace, and call rows within `cut` of it near, all others far. With P the
permeance of the near rows, A the alignment of the far rows with subspaces within the angle α of V̂,
κ the mean distance of the near rows, and S = P sin α/α − A: if S > 0, every subspace within α whose
principal angles to V̂ add up to more than 2κ/S has a larger GLAD cost than V̂ (docs/theory.md).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, fields
from math import degrees, inf, isfinite, radians, sin, sqrt
from typing import Any

import numpy as np
from scipy.special import ndtri

from stillspace._checks import checked_number
from stillspace._typing import FloatArray

ANGLES = tuple(radians(degree) for degree in range(1, 86))
"""The angles α that are tried. All bounds hold for all of them at once."""
WEIGHTS = (0.0, 0.02, 0.05, 0.1, 0.2, 0.5, 2.0)
"""Multipliers w of the bound on the far rows' spread: public, so that noise does not choose them.
"""
EVENTS = 3 + len(WEIGHTS)
"""Numbers of a certificate. Each is off on the wrong side with probability at most β/EVENTS."""
ROUNDED = 1.0 + 2.0**-20
"""Noise is drawn on a lattice of at most σ·2⁻³⁰: this covers what rounding adds to it."""


@dataclass(frozen=True, slots=True)
class Statement:
    """What is certified, except with probability `beta`; `str()` says it in words."""

    beta: float
    holds: bool
    """Whether the condition of theorem 3 holds; False means that it cannot be said."""
    angle: float
    """α: the largest angle at which the condition holds, in radians; 0 if there is none."""
    radius: float
    """The subspace of least GLAD cost within α of the fit is this close to it (radians)."""
    stability: float
    """A lower bound on S = P sin α/α − A, at `angle` or, if nothing holds, at the least angle."""
    permeance: float
    """A lower bound on P."""
    alignment: float
    """An upper bound on A at the same angle as `stability`."""

    def __str__(self) -> str:
        if not self.holds:
            reason = (
                "too few rows lie near the fitted subspace compared with the other rows"
                if self.stability <= 0.0
                else "the rows near the fitted subspace are too far from it"
            )
            return (
                "Cannot be said whether the condition of theorem 3 holds: as far as the noise of "
                f"the certificate shows, {reason} (stability at least {self.stability:.3g})."
            )
        return (
            f"The condition of theorem 3 holds with probability at least {1.0 - self.beta:.4g} "
            "over the noise of the certificate. "
            f"The stability is at least {self.stability:.3g}. Among all subspaces within "
            f"{degrees(self.angle):.3g} degrees of the fitted one, the one with the least GLAD "
            f"cost is within {degrees(self.radius):.3g} degrees of it (sum of principal angles)."
        )


@dataclass(frozen=True, slots=True)
class PrivateCertificate:
    """Released numbers about the rows near and far from a fitted subspace.

    All are functions of releases, so that statements at any confidence cost nothing more.
    `str()` is the statement at β = 0.05.
    """

    D: int
    r: int
    cut: float
    """Rows within this distance of the subspace are near."""
    permeance: float
    """λ_r of the noisy second moment of the near rows' scores."""
    permeance_sd: float
    cost: float
    """The noisy sum of the distances of the near rows over the number of rows: κ."""
    cost_sd: float
    far_share: float
    """The noisy trace of the far rows' second moment: their share."""
    spreads: tuple[tuple[float, float], ...]
    """Pairs (w, λ₁(M − wQ)) of the noisy second moment M of the far rows, Q = I − V̂V̂ᵀ."""
    far_sd: float

    @classmethod
    def of(
        cls,
        V: FloatArray,
        cut: float,
        near: tuple[FloatArray, float],
        cost: tuple[float, float],
        far: tuple[FloatArray, float],
    ) -> PrivateCertificate:
        """Reduce released sums, each with its standard deviation, to the numbers that count."""
        D, r = V.shape
        moment = far[0]
        Q = np.eye(D) - V @ V.T
        spreads = tuple((w, _largest(moment - w * Q)) for w in WEIGHTS)
        return cls(
            D=D,
            r=r,
            cut=cut,
            permeance=float(np.linalg.eigvalsh(near[0])[0]),
            permeance_sd=near[1],
            cost=cost[0],
            cost_sd=cost[1],
            far_share=float(np.trace(moment)),
            spreads=spreads,
            far_sd=far[1],
        )

    def statement(self, beta: float = 0.05) -> Statement:
        """Return what is certified, except with probability β over the noise.

        An eigenvalue of a noisy matrix bounds that of the exact one up to *one* normal: if v is
        the top eigenvector of M, then λ₁(M + W) ≥ vᵀ(M + W)v = λ₁(M) + vᵀWv, and v does not
        depend on W. In the same way the least eigenvalue of the near rows' moment is at least
        the noisy one less one normal.
        """
        beta = checked_number("beta", beta, 0.0, 1.0)
        t = -ROUNDED * float(ndtri(beta / EVENTS))
        P = max(self.permeance - self.permeance_sd * t, 0.0)
        kappa = max(self.cost + self.cost_sd * t, 0.0)
        found = None
        for angle in ANGLES:
            S = self._stability(angle, P, t)
            if S > 0.0 and 2.0 * kappa / S < angle:
                found = angle
        at = ANGLES[0] if found is None else found
        radius = inf if found is None else self._radius(at, P, kappa, t)
        S, A = self._stability(at, P, t), self._alignment(at, t)
        return Statement(beta, found is not None, found or 0.0, radius, S, P, A)

    def _stability(self, angle: float, P: float, t: float) -> float:
        """Return the lower bound on S; sin θ ≥ θ sin α/α for all angles θ up to α."""
        return P * float(np.sinc(angle / np.pi)) - self._alignment(angle, t)

    def _alignment(self, angle: float, t: float) -> float:
        """Return the upper bound on the alignment of far rows with subspaces within the angle."""
        share = max(self.far_share + self.far_sd * sqrt(self.D) * t, 0.0)
        spread = min(value + w * sin(angle) ** 2 for w, value in self.spreads)
        return sqrt(share * max(spread + self.far_sd * t, 0.0))

    def _radius(self, angle: float, P: float, kappa: float, t: float) -> float:
        """Return how close the best subspace is: what is within R is also within 2κ/S(R)."""
        radius = angle
        while True:
            closer = 2.0 * kappa / self._stability(radius, P, t)
            if not closer < 0.99 * radius:
                return min(closer, radius)
            radius = closer

    def to_dict(self) -> dict[str, Any]:
        return {**asdict(self), "spreads": [list(pair) for pair in self.spreads]}

    @classmethod
    def from_dict(cls, stored: Mapping[str, Any]) -> PrivateCertificate:
        """Return the certificate that `to_dict` wrote; ValueError if no fit can have written it."""
        names, whole = {f.name for f in fields(cls)}, {"D", "r"}
        if set(stored) != names or type(stored["spreads"]) is not list:
            raise ValueError("not the numbers of a certificate")
        if [type(pair) is list and len(pair) for pair in stored["spreads"]] != [2] * len(WEIGHTS):
            raise ValueError("the spreads of the certificate are not pairs of numbers")
        spreads = tuple((pair[0], pair[1]) for pair in stored["spreads"])
        flat = [stored[name] for name in names - whole - {"spreads"}]
        flat += [number for pair in spreads for number in pair]
        if any(type(value) is not float or not isfinite(value) for value in flat):
            raise ValueError("a number of the certificate is not a finite number")
        if any(type(stored[name]) is not int for name in whole):
            raise ValueError("not the numbers of a certificate")
        made = cls(**{**stored, "spreads": spreads})
        sds = (made.permeance_sd, made.cost_sd, made.far_sd)
        if min(sds) <= 0.0 or not 0.0 < made.cut < 1.0 or min(w for w, _ in spreads) < 0.0:
            raise ValueError("not the numbers of a certificate")
        return made

    def __str__(self) -> str:
        return str(self.statement())


def _largest(moment: FloatArray) -> float:
    return float(np.linalg.eigvalsh(moment)[-1])


def best_cut(counts: FloatArray, sd: float, cuts: Iterable[float], D: int, r: int) -> float:
    """Return the cut for which theorem 3 is likely to say most, from noisy counts of distances.

    A guess, but no statement is wrong if the guess is: every cut gives a true one. The guess takes
    rows as evenly spread over the r directions of the subspace and over the D − r others.
    """
    edges = np.array(tuple(cuts))
    shares = np.maximum(counts, 0.0)
    middles = (np.append(edges, 1.0) + np.insert(edges, 0, 0.0)) / 2.0
    inside, outside = shares * (1.0 - middles**2) / r, shares * middles**2 / (D - r)
    kappa = np.cumsum(shares * middles)[:-1] + 2.0 * sd * edges

    def beyond(part: FloatArray) -> FloatArray:
        return np.asarray(np.maximum(part.sum() - np.cumsum(part)[:-1], 0.0))

    spread = np.maximum(beyond(inside), beyond(outside))
    S = np.cumsum(inside)[:-1] - np.sqrt(beyond(shares) * spread)
    score = np.where(S > 0.0, kappa / np.maximum(S, 1e-300), inf)
    if np.isfinite(score).any():
        return float(edges[np.argmin(score)])
    return float(edges[np.argmax(S)])
