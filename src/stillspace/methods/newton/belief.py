"""What is believed of a basis and of the curvature around it, and how a noisy gradient changes it.

Near the optimum V* of GLAD the gradient at V is `(V* − V)H`, H (r, r) the curvature. The error
V* − V is believed to have independent rows of covariance P. A gradient with noise of standard
deviation σ on each entry then has the Kalman gain `K = (HPH + σ²I)⁻¹HP`.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import sqrt
from typing import NamedTuple

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.newton.rule import NEWTON_RULE, NewtonRule
from stillspace.methods.newton.spread import Across, Axes
from stillspace.parts.geometry import identity, polar
from stillspace.plans.adaptive import Answer

ROUNDING = 2.0**-50
"""Of the largest eigenvalue of a small matrix: smaller ones are not known."""


class Step(NamedTuple):
    """What a pass changed."""

    belief: Belief
    axes: Axes
    """The curvature that the step took."""
    gain: FloatArray
    """(k + 1, r, r), K."""
    surprise: float
    """How many standard deviations the gradient was off 0."""


@dataclass(frozen=True, slots=True, eq=False)
class Belief:
    """The point V (D, r), its error's covariance P, and the curvature."""

    V: FloatArray
    P: FloatArray
    """(k + 1, r, r): along the k leading directions across the subspace, and along each other."""
    s: float
    """Trace of the curvature."""
    v: float
    """Relative variance of s."""
    part: float
    cap: float
    """Distances below cap = part/s count as cap in the curvature: it is that of nearly all rows.

    The curvature of inliers on the subspace can grow only while their share is above `part`.
    """
    shape: FloatArray
    """Weighed sum of the traceless curvature matrices released so far, each over its trace."""
    weight: float = 0.0
    variance: float = 0.0
    """Weighed sum of the variances of an entry of their noise."""
    across: Across = field(default_factory=Across)
    squares: FloatArray | None = None
    """(r,), mean y² along each direction of the start: H is in proportion to them, unless the
    matrices show another shape. None: all directions are alike."""
    rule: NewtonRule = NEWTON_RULE

    @property
    def weakest(self) -> float:
        """The smallest eigenvalue of the curvature, at most: `sure` standard deviations above."""
        r = len(self.shape)
        if self.weight == 0.0:
            return self.s / r
        noise = sqrt(r * self.variance) / self.weight
        least = float(np.linalg.eigvalsh(self.shape / self.weight)[0])
        return self.s * (1.0 / r + least + self.rule.sure * noise)

    @classmethod
    def at(
        cls, V: FloatArray, P: FloatArray, part: float, across: Across, squares: FloatArray,
        rule: NewtonRule,
    ) -> Belief:  # fmt: skip
        """Start at V with an error of the given covariance.

        The curvature is believed to be the one at which a gradient tells as much as a second
        moment: twice the mean squares of the rows along V.
        """
        shape = np.zeros((V.shape[1], V.shape[1]))
        s = 2.0 * float(squares.sum())
        start = s, 1.0, part, rule.cap(part, s)
        return cls(V, P, *start, shape, across=across, squares=squares, rule=rule)

    def reopened(self) -> Belief:
        """Return the belief with more doubt about V."""
        D, r = self.V.shape
        return replace(self, P=self.P + self.rule.doubt / (D - r) * identity(r))

    def after(self, answers: tuple[Answer, ...]) -> Step:
        """Return the belief after a pass.

        `answers` are gradient, curvature and, for r > 1, the curvature matrix, at this V.
        """
        gradient, *others = answers
        G = gradient.value - self.V @ (self.V.T @ gradient.value)
        updated = self._curved(*others)
        axes = updated.axes
        C = self.across.curvatures(axes, self.rule.least_shape)
        # With P = BBᵀ, BᵀC²B = W diag(m) Wᵀ and Z = BW, P − PCK is Z diag(σ²/(σ² + m)) Zᵀ: nothing
        # is subtracted, so rounding makes it neither negative nor larger than P.
        values, U = np.linalg.eigh(self.P)
        B = U * np.sqrt(np.maximum(values, 0.0))[:, None, :]
        CB = C @ B
        m, W = np.linalg.eigh(_transposed(CB) @ CB)
        Z = B @ W
        variance = gradient.sd**2
        m = np.maximum(m, ROUNDING * m[:, -1:]) + variance
        inverse = (Z / m[:, None, :]) @ _transposed(Z)
        K, left = C @ inverse, variance * inverse
        cap = self.rule.cap(updated.part, updated.s)
        V = polar(self.V + self.across.steps(G, K))
        D, r = V.shape
        free = (D - r) * r
        surprise = (float(np.vdot(G, G)) / variance - free) / sqrt(2.0 * free)
        return Step(replace(updated, V=V, P=left, cap=cap), axes, K, surprise)

    def _curved(self, scalar: Answer, *matrix: Answer) -> Belief:
        """Return the belief after a release of the curvature, and of its matrix if there is one.

        s follows a filter in relative terms. The matrix has the trace s·cap, which changes from
        step to step.
        """
        expected, rule = self.s * self.cap, self.rule
        noise = (scalar.sd / expected) ** 2
        gain = self.v / (self.v + noise)
        s = self.s * max(1.0 + gain * (float(scalar.value) / expected - 1.0), rule.least_fall)
        v = (1.0 - gain) * self.v + rule.drift
        shape, weight, variance = self.shape, self.weight, self.variance
        kept = 1.0 - rule.drift
        for answer in matrix:
            r, trace = len(shape), s * self.cap
            traceless = answer.value - answer.value.trace() / r * identity(r)
            shape = kept * shape + traceless / trace
            weight = kept * weight + 1.0
            variance = kept**2 * variance + (answer.sd / trace) ** 2
        return replace(self, s=s, v=v, shape=shape, weight=weight, variance=variance)

    @property
    def axes(self) -> Axes:
        """The curvature of trace s, shaped as far as the matrices stand out of their noise."""
        r = len(self.shape)
        shape = np.zeros((r, r))
        if self.squares is not None:
            shape = np.diag(self.squares / self.squares.sum() - 1.0 / r)
        if self.weight > 0.0:
            other = self.shape / self.weight - shape
            noise = self.variance / self.weight**2 * (r * (r + 1) / 2 - 1)
            shape = (
                shape + max(0.0, 1.0 - noise / max(float(np.vdot(other, other)), 1e-300)) * other
            )
        values, U = np.linalg.eigh(shape)
        shaped = np.maximum(1.0 + r * values, self.rule.least_shape)
        return Axes(shaped * (self.s / shaped.sum()), U)


def _transposed(matrices: FloatArray) -> FloatArray:
    return matrices.transpose(0, 2, 1)
