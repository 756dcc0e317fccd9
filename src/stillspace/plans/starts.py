"""Where a loop begins: public points, private PCA, another plan, and two mechanisms.

The two are those that the paper cites. They have no guarantee here; they are for comparisons only.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.parts.bingham import sample_bingham
from stillspace.parts.geometry import top_eigenvectors
from stillspace.plans.release import Release
from stillspace.privacy import ComposedEvent
from stillspace.privacy.events import NOTHING, NonPrivateEvent

if TYPE_CHECKING:
    from stillspace.plans.fixed import Plan


def _check_share(share: float) -> None:
    if not 0.0 < share <= 1.0:
        msg = f"The start's share of the budget must lie in (0, 1], got {share}."
        raise ValueError(msg)


@dataclass(frozen=True, slots=True)
class MomentStart:
    """PCA: the top r eigenvectors of a released second moment; private if the release is noisy.

    `share` is its part of μ² when a plan is calibrated (SPEC 5).
    """

    release: Release
    share: float = 1.0

    def __post_init__(self) -> None:
        _check_share(self.share)

    def releases(self) -> Iterator[Release]:
        yield self.release

    def event(self) -> ComposedEvent:
        return ComposedEvent.of([self.release.event(0)])


@dataclass(frozen=True, slots=True)
class RunStart:
    """The answer of another plan, for example a private REAPER run (SPEC 3)."""

    plan: Plan
    share: float = 0.5

    def __post_init__(self) -> None:
        _check_share(self.share)

    def releases(self) -> Iterator[Release]:
        yield from self.plan.releases()

    def event(self) -> ComposedEvent:
        return self.plan.event()


class _ReadsNothing:
    """A start that reads no row."""

    __slots__ = ()

    def releases(self) -> Iterator[Release]:
        yield from ()

    def event(self) -> ComposedEvent:
        return NOTHING


@dataclass(frozen=True, slots=True)
class RandomStart(_ReadsNothing):
    """A uniformly random subspace: reads no row."""

    D: int
    r: int

    def value(self, rng: np.random.Generator) -> FloatArray:
        """Return a random basis (D, r)."""
        return np.linalg.qr(rng.standard_normal((self.D, self.r)))[0]


@dataclass(frozen=True, slots=True)
class PaperMatrixStart(_ReadsNothing):
    """The paper's `AᵀA`, `A_ij ~ N(1, 0.01)`, which the geometry projects to H: reads no row."""

    D: int

    def value(self, rng: np.random.Generator) -> FloatArray:
        """Return AᵀA (D, D)."""
        A = rng.normal(1.0, 0.1, (self.D, self.D))
        return np.asarray(A.T @ A)


@dataclass(frozen=True, slots=True)
class GivenStart(_ReadsNothing):
    """A basis that the user gives and asserts to be public."""

    basis: FrozenArray

    @classmethod
    def from_basis(cls, V: FloatArray) -> GivenStart:
        """Keep a copy of an orthonormal basis (D, r)."""
        if not np.allclose(V.T @ V, np.eye(V.shape[1]), atol=1e-8):
            msg = "A given start must be orthonormal; orthonormalise it first."
            raise ValueError(msg)
        return cls(FrozenArray.of(V))

    def value(self) -> FloatArray:
        """Return the basis (D, r)."""
        return self.basis.array.copy()


@dataclass(frozen=True, slots=True)
class _MechanismStart(ABC):
    """A start by a mechanism of its own on the second moment, which no accountant covers."""

    release: Release
    """The second moment, without noise."""
    epsilon: float

    def releases(self) -> Iterator[Release]:
        """Yield the second moment."""
        yield self.release

    def event(self) -> ComposedEvent:
        """Return two looks at the rows that no accountant covers: the sum, and the mechanism."""
        return ComposedEvent.of([self.release.event(0), self.not_private])

    @property
    @abstractmethod
    def not_private(self) -> NonPrivateEvent:
        """Why there is no guarantee."""


@dataclass(frozen=True, slots=True)
class WishartStart(_MechanismStart):
    """Legacy: the top r eigenvectors of `Σxxᵀ/n + W` (Jiang et al. 2016). Never with a guarantee.

    W ~ Wishart_D(D + 1, (3/2nε) I), what the paper calls private PCA. It is not differentially
    private (SPEC 9.6): W is positive definite, so no result M with M ⋡ Σxxᵀ/n is possible, and a
    neighbour's result is such a one with probability 1 − e^(−ε/3). For comparisons only.
    """

    @property
    def not_private(self) -> NonPrivateEvent:
        return NonPrivateEvent(
            "the Wishart mechanism is not differentially private: which results are possible "
            "depends on the rows"
        )

    def noise(self, rng: np.random.Generator) -> FloatArray:
        """Return W (D, D)."""
        D = self.release.query.D
        A = rng.standard_normal((D + 1, D))
        return np.asarray(1.5 / (self.release.size * self.epsilon) * (A.T @ A))

    def basis(
        self, moment: FloatArray, r: int, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray]:
        """Return a basis and the matrix that it was taken from."""
        noisy = moment + self.noise(rng)
        return top_eigenvectors(noisy, r), noisy


@dataclass(frozen=True, slots=True)
class ExponentialStart(_MechanismStart):
    """The exponential mechanism for PCA (Chaudhuri, Sarwate and Sinha 2013). Without a guarantee.

    A basis V is drawn with density ∝ exp((ε/2) Σ ‖Vᵀx‖²). A row changes the sum by at most 1, so a
    perfect sampler would be (ε, 0)-differentially private. Ours (`parts.bingham`) is exact in real
    arithmetic, but its error in floating point is not proved, and nobody accounts for it.
    """

    @property
    def not_private(self) -> NonPrivateEvent:
        return NonPrivateEvent(
            "the sampler of the exponential mechanism is exact in real arithmetic only: its "
            "floating-point error is not proved"
        )

    def basis(
        self, moment: FloatArray, r: int, rng: np.random.Generator
    ) -> tuple[FloatArray, None]:
        """Return a basis; the second moment was not released, so there is none to give back."""
        weight = 0.5 * self.epsilon * self.release.size
        return sample_bingham(weight * moment, r, rng), None


Start: TypeAlias = (
    MomentStart
    | RunStart
    | WishartStart
    | ExponentialStart
    | RandomStart
    | PaperMatrixStart
    | GivenStart
)
