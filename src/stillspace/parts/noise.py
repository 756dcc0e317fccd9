"""Gaussian noise on a power-of-two lattice (SPEC 4, "Noise").

A sum is rounded to the lattice γℤ and round(σ/γ · Z) γ is added, in integers. This is the ideal
Gaussian mechanism on the rounded sum followed by rounding (post-processing: an integer passes
through the rounding of the noise), so its privacy is that of the Gaussian at a sensitivity that
grew by `slack`: rounding moves the difference of two sums by at most γ in each coordinate. No bit
of the result depends on the sum in a way that this does not cover; float64 noise added to a
float64 sum has no such proof, and leaks.
"""

from __future__ import annotations

import hashlib
import math
import secrets
from abc import ABC, abstractmethod
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from randomgen import ChaCha

from stillspace._typing import AnyArray, FloatArray, IntArray
from stillspace.kernels.lattice import TOTAL_VARIATION, draw_lattice
from stillspace.parts.laplace import draw_laplace

__all__ = [
    "SAMPLER_ERROR",
    "GaussianNoise",
    "IidGaussian",
    "SymmetricGaussian",
    "half_laplace",
    "lattice_scale",
    "lattice_spacing",
    "secure_generator",
    "seeded_generator",
]

SAMPLER_ERROR: float = TOTAL_VARIATION
"""Total-variation error of one drawn coordinate, proved in `stillspace.kernels.lattice`."""

_FINE_BITS = 30  # spacing <= sigma 2^-30
_STEP = 1 << 7  # the sampler's scale is a multiple of it
_LARGEST_INDEX = 2.0**62  # leaves room for the noise, < 2^36, in an int64
_SMALLEST, _LARGEST = 2.0**-900, 2.0**900  # keep the spacing and 2^62 spacings normal numbers


def secure_generator() -> np.random.Generator:
    """Return a ChaCha20 generator with a fresh 256-bit key of the operating system.

    Never store it: who has its state has the noise.
    """
    return np.random.Generator(ChaCha(key=secrets.randbits(256), rounds=20))


def seeded_generator(seed: int) -> np.random.Generator:
    """Return the same generator with a key hashed from `seed`: for experiments, not private.

    Equal seeds give equal draws; its `spawn` does not (numpy seeds children from the system).
    """
    if seed < 0:
        raise ValueError(f"seed must be a non-negative integer, got {seed}")
    digest = hashlib.sha256(b"stillspace seed %d" % int(seed)).digest()
    return np.random.Generator(ChaCha(key=int.from_bytes(digest, "little"), rounds=20))


@lru_cache(maxsize=4096)
def lattice_spacing(sigma: float, variance: float = 1.0) -> float:
    """Return the largest power of two <= sigma √variance 2^-30, in exact arithmetic."""
    if not _SMALLEST <= sigma <= _LARGEST:
        raise ValueError(f"sigma must be in [2**-900, 2**900], got {sigma}")
    exact = Fraction(variance) * Fraction(sigma) ** 2
    power = math.frexp(sigma * math.sqrt(variance))[1]  # rounding can make it one too large
    while Fraction(4) ** power > exact:
        power -= 1
    return math.ldexp(1.0, power - _FINE_BITS)


@lru_cache(maxsize=4096)
def lattice_scale(sigma: float, spacing: float, variance: float = 1.0) -> int:
    """Return the sampler's scale: sigma √variance / spacing, rounded up to a multiple of 2^7."""
    square = Fraction(variance) * (Fraction(sigma) / (Fraction(spacing) * _STEP)) ** 2
    above = math.ceil(square)
    root = math.isqrt(above)
    return (root if root * root == above else root + 1) * _STEP


def half_laplace(epsilon: float, rng: np.random.Generator) -> float:
    """Return one draw of the discrete Laplace law on ½ℤ, P(x) ∝ exp(−epsilon·|x|), exactly.

    For a number in ½ℤ that one person changes by at most 1 it gives pure `epsilon`-privacy, and
    its result is a half-integer, so that no low bit says anything (SPEC 9.9).
    """
    if not 0.0 < epsilon < math.inf:
        raise ValueError(f"epsilon must be a positive number, got {epsilon}")
    return draw_laplace(Fraction(epsilon) / 2, rng) / 2


class GaussianNoise(ABC):
    """Independent centred Gaussians on a block, on one lattice.

    The noise is isotropic with standard deviation `sigma` (or more) on the space of blocks, so a
    query with sensitivity Δ has noise multiplier sigma / (Δ + slack(sigma)).
    """

    if TYPE_CHECKING:  # at run time it would shadow the dataclass field of that name

        @property
        def shape(self) -> tuple[int, ...]:
            """The shape of a block."""

    @property
    @abstractmethod
    def coordinates(self) -> int:
        """How many normals one draw takes: each adds `SAMPLER_ERROR` to the account."""

    @property
    def rounding_coordinates(self) -> int:
        """How many entries of a block are rounded: what the growth of Δ counts."""
        return math.prod(self.shape)

    @property
    def smallest_variance(self) -> float:
        """The smallest variance of an entry, as a multiple of sigma²."""
        return 1.0

    @property
    def precision(self) -> FloatArray:
        """Weights w of a block with −2 log density = Σ w x²/sigma², up to a constant."""
        return np.ones(self.shape)

    def spacing(self, sigma: float) -> float:
        """Return γ: the largest power of two <= 2^-30 of the smallest standard deviation."""
        return lattice_spacing(sigma, self.smallest_variance)

    def slack(self, sigma: float) -> float:
        """Return `γ √rounding_coordinates`, what rounding adds to the sensitivity.

        Each of two sums moves by at most γ/2 in each coordinate.
        """
        return self.spacing(sigma) * math.nextafter(math.sqrt(self.rounding_coordinates), math.inf)

    def check_range(self, bound: float, sigma: float) -> None:
        """Refuse a sigma so small that a sum within the public `bound` would be clipped."""
        limit = self.spacing(sigma) * _LARGEST_INDEX
        if not 0 <= bound < limit:
            raise ValueError(
                f"the sum is bounded by {bound:.3g}, the lattice for sigma={sigma:.3g} ends at "
                f"{limit:.3g}: use more noise or scale the rows"
            )

    @abstractmethod
    def draws(self, sigma: float, count: int, rng: np.random.Generator) -> IntArray:
        """Return the lattice indices of `count` independent blocks of noise, stacked."""

    @abstractmethod
    def in_drawn_order(self, block: AnyArray) -> AnyArray:
        """Return the independent entries of a block, flat, in the order in which they are drawn."""

    def draw(self, sigma: float, rng: np.random.Generator) -> IntArray:
        """Return the lattice indices of one block of noise."""
        return np.asarray(self.draws(sigma, 1, rng)[0])

    def release(self, total: FloatArray, indices: IntArray, sigma: float) -> FloatArray:
        """Return `(rint(total/γ) + indices) γ`; only this may be shown.

        A total function: beyond 2^62 γ the total is clipped (which moves no two sums apart) and
        NaN counts as 0, silently, as a warning would tell of the rows. `check_range` on a public
        bound rules both out beforehand.
        """
        spacing = self.spacing(sigma)
        limit = spacing * _LARGEST_INDEX
        inside = np.minimum(np.maximum(np.where(np.isnan(total), 0.0, total), -limit), limit)
        # Exact: a power of two divides; a subnormal quotient rounds to 0 as its exact value does.
        rounded = np.rint(inside / spacing).astype(np.int64)
        return np.asarray((self._arrange(rounded) + indices) * spacing)

    def _arrange(self, rounded: IntArray) -> IntArray:
        return rounded


@dataclass(frozen=True)
class IidGaussian(GaussianNoise):
    """Variance sigma² on every entry of a block of the given `shape`."""

    shape: tuple[int, ...]

    @property
    def coordinates(self) -> int:
        return math.prod(self.shape)

    def draws(self, sigma: float, count: int, rng: np.random.Generator) -> IntArray:
        scale = lattice_scale(sigma, self.spacing(sigma))
        return draw_lattice(scale, count * self.coordinates, rng).reshape(count, *self.shape)

    def in_drawn_order(self, block: AnyArray) -> AnyArray:
        """Return all entries, row by row."""
        return np.ravel(block)


@lru_cache(maxsize=64)
def _few_above_diagonal(D: int) -> tuple[IntArray, IntArray]:
    return np.triu_indices(D, 1)


def _above_diagonal(D: int) -> tuple[IntArray, IntArray]:
    """Return the rows and columns of the entries above the diagonal, row by row."""
    return _few_above_diagonal(D) if D <= _FEW else np.triu_indices(D, 1)


_FEW = 64
"""Up to this many columns the places above the diagonal are kept: finding them takes longer."""


@dataclass(frozen=True)
class SymmetricGaussian(GaussianNoise):
    """Symmetric D × D: variance sigma² on the diagonal, `off_diagonal_variance` sigma² off it.

    ½ is isotropic in the Frobenius norm (an off-diagonal entry counts twice there). The paper as
    printed has 1, more than needed; less than ½ would not have the noise that sigma claims.
    """

    D: int
    off_diagonal_variance: float = 0.5

    def __post_init__(self) -> None:
        if not 0.5 <= self.off_diagonal_variance <= 1.0:
            raise ValueError(
                f"off_diagonal_variance must be in [0.5, 1], got {self.off_diagonal_variance}"
            )

    @property
    def shape(self) -> tuple[int, ...]:
        return (self.D, self.D)

    @property
    def coordinates(self) -> int:
        return self.D * (self.D + 1) // 2

    @property
    def smallest_variance(self) -> float:
        """That of the off-diagonal entries."""
        return self.off_diagonal_variance

    @property
    def precision(self) -> FloatArray:
        """Each entry of the upper triangle once."""
        above = np.triu(np.full(self.shape, 1.0 / self.off_diagonal_variance), 1)
        return above + np.eye(self.D)

    def draws(self, sigma: float, count: int, rng: np.random.Generator) -> IntArray:
        """Return the lattice indices of `count` independent symmetric blocks, stacked."""
        spacing = self.spacing(sigma)
        off_scale = lattice_scale(sigma, spacing, self.off_diagonal_variance)
        blocks = np.empty((count, *self.shape), dtype=np.int64)
        above, left = _above_diagonal(self.D)
        drawn = draw_lattice(off_scale, count * len(above), rng).reshape(count, len(above))
        blocks[:, above, left] = drawn
        blocks[:, left, above] = drawn
        diagonal = draw_lattice(lattice_scale(sigma, spacing), count * self.D, rng)
        blocks.reshape(count, -1)[:, :: self.D + 1] = diagonal.reshape(count, self.D)
        return blocks

    def in_drawn_order(self, block: AnyArray) -> AnyArray:
        """Return the entries above the diagonal, row by row, then the diagonal."""
        return np.concatenate([block[np.triu_indices(self.D, 1)], np.diagonal(block)])

    def _arrange(self, rounded: IntArray) -> IntArray:
        above, left = _above_diagonal(self.D)
        rounded[left, above] = rounded[above, left]
        return rounded
