"""Which rows a step reads (SPEC 3). Selections are secret: they never leave a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from stillspace._typing import IntArray
from stillspace.privacy.events import SamplingName


class Sampling(Protocol):
    """A random selection of rows with public parameters."""

    name: ClassVar[SamplingName]

    def expected_size(self, size: int) -> float:
        """Return the public divisor: the mean number of rows read when `size` are assumed."""

    def event_facts(self) -> dict[str, Any]:
        """Return what an accountant must know of the selection."""

    def draw(self, n_rows: int, rng: np.random.Generator) -> IntArray | None:
        """Return the selected row numbers, sorted, or None for all rows."""


@dataclass(frozen=True, slots=True)
class All:
    """Every row, every step."""

    name: ClassVar[SamplingName] = "all"

    def expected_size(self, size: int) -> float:
        """Return `size`."""
        return float(size)

    def event_facts(self) -> dict[str, Any]:
        """Nothing beyond the name."""
        return {"sampling": self.name}

    def draw(self, n_rows: int, rng: np.random.Generator) -> IntArray | None:  # noqa: ARG002
        """Return None: all rows."""
        return None


@dataclass(frozen=True, slots=True)
class Poisson:
    """Each row on its own with probability `rate`."""

    rate: float
    name: ClassVar[SamplingName] = "poisson"

    def __post_init__(self) -> None:
        if not 0.0 < self.rate <= 1.0:
            msg = f"rate must lie in (0, 1], got {self.rate}."
            raise ValueError(msg)

    def expected_size(self, size: int) -> float:
        """Return `rate · size`, whatever the number of rows drawn: that number is secret."""
        return self.rate * size

    def event_facts(self) -> dict[str, Any]:
        """Name and rate."""
        return {"sampling": self.name, "rate": self.rate}

    def draw(self, n_rows: int, rng: np.random.Generator) -> IntArray | None:
        """Compare one random word a row with ⌊rate · 2⁶⁴⌋: exact, and never above the rate."""
        if self.rate == 1.0:
            return np.arange(n_rows)
        words = rng.integers(0, 1 << 64, size=n_rows, dtype=np.uint64)
        return np.flatnonzero(words < np.uint64(int(self.rate * 2.0**64)))


@dataclass(frozen=True, slots=True)
class _FixedSize:
    batch_size: int
    population: int
    name: ClassVar[SamplingName]

    def __post_init__(self) -> None:
        if not 1 <= self.batch_size <= self.population:
            msg = (
                f"batch_size must lie in 1…{self.population} (the number of rows), "
                f"got {self.batch_size}."
            )
            raise ValueError(msg)

    def expected_size(self, size: int) -> float:  # noqa: ARG002
        """Return the batch size."""
        return float(self.batch_size)

    def event_facts(self) -> dict[str, Any]:
        """Name, batch size and population."""
        return {
            "sampling": self.name,
            "batch_size": self.batch_size,
            "population": self.population,
        }


@dataclass(frozen=True, slots=True)
class WithoutReplacement(_FixedSize):
    """`batch_size` different rows of `population`, uniformly."""

    name: ClassVar[SamplingName] = "without-replacement"

    def draw(self, n_rows: int, rng: np.random.Generator) -> IntArray | None:
        """Draw by NumPy's exact bounded integers."""
        return np.sort(rng.choice(n_rows, self.batch_size, replace=False, shuffle=False))


@dataclass(frozen=True, slots=True)
class WithReplacement(_FixedSize):
    """`batch_size` draws from `population` rows, each uniform and on its own (the paper's)."""

    name: ClassVar[SamplingName] = "with-replacement"

    def draw(self, n_rows: int, rng: np.random.Generator) -> IntArray | None:
        """Draw by NumPy's exact bounded integers."""
        return np.sort(rng.integers(n_rows, size=self.batch_size))
