"""What is believed of a basis and of the curvature around it, and how a noisy gradient changes it.

Near the optimum V* of GLAD the gradient at V is `(V* − V)H`, H (r, r) the curvature. The error
V* − V is believed to have independent rows of covariance P. A gradient with noise of standard
deviation σ on each entry then has the Kalman gain `K = (HPH + σ²I)⁻¹HP`.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import sqrt

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.newton.rule import NEWTON_RULE, NewtonRule
from stillspace.methods.newton.spread import Across
from stillspace.parts.geometry import polar
from stillspace.plans.adaptive import Answer


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
    gain: FloatArray | None = None
    """(k + 1, r, r), K of the last step."""
    H: FloatArray | None = None
    """The curvature, if it is computed already."""
    across: Across = Across()
    rule: NewtonRule = NEWTON_RULE

    @property
    def weakest(self) -> float:
        """The smallest eigenvalue of the curvature, at most: three standard deviations above."""
        r = self.V.shape[1]
        if self.weight == 0.0:
            return self.s / r
        noise = sqrt(r * self.variance) / self.weight
        least = float(np.linalg.eigvalsh(self.shape / self.weight)[0])
        return self.s * (1.0 / r + least + 3.0 * noise)

    @classmethod
    def at(
        cls, V: FloatArray, P: FloatArray, part: float, across: Across, rule: NewtonRule
    ) -> Belief:
        """Start at V with an error of the given covariance."""
        shape = np.zeros((V.shape[1], V.shape[1]))
        start = rule.first_curvature, 1.0, part, rule.first_cap
        return cls(V, P, *start, shape, across=across, rule=rule)

    def reopened(self, variance: float) -> Belief:
        """Return the belief with more doubt about V."""
        return replace(self, P=self.P + variance * np.eye(self.V.shape[1]))

    @property
    def error(self) -> float:
        """The trace of the error's covariance over all directions."""
        D, r = self.V.shape
        each = np.einsum("ijj->i", self.P)
        return float(each[:-1].sum() + (D - r - len(each) + 1) * each[-1])

    def after(self, answers: tuple[Answer, ...]) -> tuple[Belief, float]:
        """Return the belief after a pass, and how many standard deviations the gradient is off 0.

        `answers` are gradient, curvature and, for r > 1, the curvature matrix, at this V.
        """
        gradient, scalar = answers[:2]
        G = gradient.value - self.V @ (self.V.T @ gradient.value)
        updated = self._curvature(scalar)
        if len(answers) > 2:
            updated = updated._shaped(answers[2])
        H, P, sigma = updated.curvature, self.P, gradient.sd
        r = len(H)
        C = self.across.curvatures(H, self.rule.least_shape)
        # not solve: whatever was released, there must be an answer
        K = np.linalg.pinv(C @ P @ C + sigma**2 * np.eye(r), hermitian=True) @ C @ P
        left = P - P @ C @ K
        left = (left + left.transpose(0, 2, 1)) / 2.0
        cap = updated.part / updated.s
        updated = replace(
            updated,
            V=polar(self.V + self.across.steps(G, K)),
            P=left,
            cap=float(np.clip(cap, self.rule.least_cap, self.rule.largest_cap)),
            gain=K,
            H=H,
        )
        free = (len(self.V) - r) * r
        surprise = (float(np.sum(G * G)) / sigma**2 - free) / sqrt(2.0 * free)
        return updated, surprise

    def _curvature(self, answer: Answer) -> Belief:
        """Return the belief with s after a scalar release: a filter in relative terms."""
        expected = self.s * self.cap
        noise = (answer.sd / expected) ** 2
        gain = self.v / (self.v + noise)
        s = self.s * max(1.0 + gain * (float(answer.value) / expected - 1.0), self.rule.least_fall)
        v = (1.0 - gain) * self.v + self.rule.drift
        return replace(self, s=s, v=v, H=None)

    def _shaped(self, answer: Answer) -> Belief:
        """Return the belief with one more curvature matrix, released with this cap.

        Its trace is s·cap, which changes from step to step.
        """
        r, trace = len(self.shape), self.s * self.cap
        traceless = answer.value - np.trace(answer.value) / r * np.eye(r)
        return replace(
            self,
            shape=self.rule.memory * self.shape + traceless / trace,
            weight=self.rule.memory * self.weight + 1.0,
            variance=self.rule.memory**2 * self.variance + (answer.sd / trace) ** 2,
            H=None,
        )

    @property
    def curvature(self) -> FloatArray:
        """H of trace s, shaped as far as the matrices stand out of their noise."""
        r = len(self.shape)
        if self.H is not None:
            return self.H
        if self.weight == 0.0:
            return self.s / r * np.eye(r)
        values, U = np.linalg.eigh(self.shape / self.weight)
        noise = self.variance / self.weight**2 * (r * (r + 1) / 2 - 1)
        kept = max(0.0, 1.0 - noise / max(float(np.sum(values**2)), 1e-300))
        shaped = np.maximum(1.0 + kept * r * values, self.rule.least_shape)
        return np.asarray((U * (shaped * self.s / shaped.sum())) @ U.T)
