"""The damped private Newton method with a late cut (docs/newton.md).

A method in the sense of `stillspace.adaptive`: it reads releases and chooses the next ones. The
notation is that of docs/newton.md; all means are over the public number of rows.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf, sqrt
from typing import ClassVar, TypeAlias

import numpy as np

from stillspace._typing import FloatArray
from stillspace.adaptive import Allowance, Answer, Ask, Outcome
from stillspace.parts.geometry import polar, top_eigenvectors
from stillspace.parts.queries import Curvature, CurvatureMatrix, Glad, Query, SecondMoment


def _nowhere() -> FloatArray:
    return np.empty((0, 0))


EARLY, LATE = 8, 10
"""Steps of the two phases."""
STEPS = EARLY + LATE
FIRST_CUT = 5
"""The step from which far rows are cut off."""
EARLY_PART = 0.2
"""What the early steps get of the gradient's share."""
FIRST_LOOK = 0.1
"""Share of the first second moment."""
MATRIX_SHARE = 0.05


@dataclass(frozen=True, slots=True, eq=False)
class Look:
    """Before the loop: the second moments released so far, averaged by share."""

    allowance: Allowance
    next_share: float
    """Share of the next release of the second moment; 0 when there is none."""
    share: float = 0.0
    moment: FloatArray = field(default_factory=_nowhere)
    sd: float = inf
    final: bool = False
    """Whether the second moment gets the whole budget: plain private PCA."""


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """In the loop: the point, and what is believed of the curvature and the error."""

    allowance: Allowance
    moment: FloatArray
    shares: tuple[float, float, float]
    """Totals for gradient, scalar curvature, curvature matrix."""
    V: FloatArray
    P: FloatArray
    """(r, r): covariance of one row of V's error."""
    k: int = 0
    s: float = 2.0
    v: float = 1.0
    c: float = 0.3
    A: FloatArray = field(default_factory=_nowhere)
    weight: float = 0.0
    squares: float = 0.0


State: TypeAlias = Look | Steps


@dataclass(frozen=True, slots=True)
class DampedNewton:
    """Private PCA start, then 18 damped Newton steps on GLAD, the later ones without far rows."""

    D: int
    r: int
    name: ClassVar[str] = "private PCA, then damped Newton steps with a late cut"

    @property
    def n_components(self) -> int:
        """r."""
        return self.r

    @property
    def n_passes(self) -> int:
        """Two second moments and the steps."""
        return 2 + STEPS

    @property
    def coordinates(self) -> int:
        """The largest number of normals that a run may draw."""
        D, r = self.D, self.r
        return D * (D + 1) + STEPS * (D * r + 1 + r * (r + 1) // 2)

    def begin(self, allowance: Allowance) -> State:
        """Return the state before the first release."""
        return Look(allowance, FIRST_LOOK)

    def ask(self, state: State) -> Ask | None:
        """Return what to release next."""
        if isinstance(state, Look):
            if state.next_share == 0.0:
                return None
            return Ask(_nowhere(), ((SecondMoment(self.D), state.next_share),))
        if state.k == STEPS:
            return None
        gradient, scalar, matrix = state.shares
        early = state.k < EARLY
        part = gradient * (EARLY_PART / EARLY if early else (1.0 - EARLY_PART) / LATE)
        cut = 3.0 / state.s if state.k >= FIRST_CUT else inf
        shares: list[tuple[Query, float]] = [
            (Glad(self.D, self.r, cut=cut), part),
            (Curvature(self.D, self.r, state.c, cut), scalar / STEPS),
        ]
        if matrix > 0.0:
            shares.append((CurvatureMatrix(self.D, self.r, state.c, cut), matrix / STEPS))
        return Ask(state.V, tuple(shares))

    def take(self, state: State, answers: tuple[Answer, ...]) -> State:
        """Return the state after a pass."""
        if isinstance(state, Look):
            return self._looked(state, answers[0])
        return self._stepped(state, answers)

    def outcome(self, state: State) -> Outcome:
        """Return the subspace; after steps with an estimate of its error d²."""
        if isinstance(state, Look):
            return Outcome(top_eigenvectors(state.moment, self.r), state.moment)
        n = state.allowance.size
        error = (self.D - self.r) * np.trace(state.P) + 0.8 * self.r**2 / (n * state.s**2)
        return Outcome(state.V, state.moment, {"error_estimate": float(error)})

    def _looked(self, state: Look, answer: Answer) -> State:
        share = state.share + state.next_share
        moment = answer.value
        if state.share > 0.0:
            old = state.share / share
            moment = old * state.moment + (1.0 - old) * answer.value
        sd = answer.sd * sqrt(state.next_share / share)
        state = replace(state, share=share, moment=moment, sd=sd, next_share=0.0)
        if state.final:
            return state
        edge = sd * sqrt(self.D / 2)
        signal = self._signal(moment, edge)
        kappa = signal / (edge * sqrt(share))
        if share == FIRST_LOOK:  # decide once
            if kappa < 4.0:
                return replace(state, next_share=1.0 - share, final=True)
            wanted = max(FIRST_LOOK, 6.0 / kappa**2)
            if wanted > share:
                return replace(state, next_share=wanted - share)
        return self._enter(state, edge, signal)

    def _signal(self, moment: FloatArray, edge: float) -> float:
        """Return λ_r of the inliers' second moment, freed of what noise adds to it."""
        values = np.linalg.eigvalsh(moment)[::-1]
        above = float(values[self.r - 1] - np.median(values[self.r :]))
        if above > 2.0 * edge:
            return (above + sqrt(above**2 - 4.0 * edge**2)) / 2.0
        return 0.7 * edge

    def _enter(self, state: Look, edge: float, signal: float) -> Steps:
        allowance = state.allowance
        scalar = float(np.clip(4000.0 / (allowance.size * allowance.mu) ** 2, 0.02, 0.15))
        matrix = MATRIX_SHARE if self.r > 1 else 0.0
        first = 0.1 / (self.D - self.r) + edge**2 / (self.D * signal**2)
        return Steps(
            allowance,
            state.moment,
            (1.0 - state.share - scalar - matrix, scalar, matrix),
            top_eigenvectors(state.moment, self.r),
            first * np.eye(self.r),
            A=np.zeros((self.r, self.r)),
        )

    def _stepped(self, state: Steps, answers: tuple[Answer, ...]) -> Steps:
        gradient, scalar = answers[:2]
        early = state.k < EARLY
        expected = state.s * state.c
        rho = scalar.sd / expected
        gain = state.v / (state.v + rho**2)
        s = state.s * max(1.0 + gain * (float(scalar.value) / expected - 1.0), 0.3)
        v = (1.0 - gain) * state.v + (0.25 if early else 0.05)
        state = replace(state, s=s, v=v)
        state, H = self._curvature(state, answers[2] if len(answers) > 2 else None)
        P = state.P
        K = np.linalg.solve(H @ P @ H + gradient.sd**2 * np.eye(self.r), H @ P)
        V = polar(state.V + gradient.value @ K)
        P = P - P @ H @ K
        P = (P + P.T) / 2.0
        if early:
            P = P + 0.15 * state.P
        c = float(np.clip(0.3 / s, 1e-7, 0.5))
        return replace(state, V=V, P=P, c=c, k=state.k + 1)

    def _curvature(self, state: Steps, answer: Answer | None) -> tuple[Steps, FloatArray]:
        """Return H (r, r) of trace s: shaped by the curvature matrix where that is significant."""
        r, s = self.r, state.s
        if answer is None:
            return state, s * np.eye(r) / r
        M = answer.value
        M = M - np.trace(M) / r * np.eye(r)
        A = 0.8 * state.A + M
        weight, squares = 0.8 * state.weight + 1.0, 0.64 * state.squares + 1.0
        state = replace(state, A=A, weight=weight, squares=squares)
        values, U = np.linalg.eigh(A / weight)
        noise = answer.sd**2 * squares / weight**2 * (r * (r + 1) / 2 - 1)
        shrink = max(0.0, 1.0 - noise / max(float(np.sum(values**2)), 1e-300))
        shaped = np.maximum(1.0 + shrink * values * r / (s * state.c), 0.1)
        return state, (U * (shaped * s / shaped.sum())) @ U.T
