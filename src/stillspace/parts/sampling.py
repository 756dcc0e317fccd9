"""Which rows are read by a step (SPEC 3). Selections are secret: they never leave a release."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, ClassVar, Protocol

import numpy as np
import numpy.typing as npt

from stillspace._typing import IntArray
from stillspace.kernels.choice import draw_binomial, draw_subsets
from stillspace.privacy.events import SamplingName


@dataclass(frozen=True, slots=True)
class Selections:
    """The row numbers of several iterations, one after the other, in no order."""

    offsets: IntArray
    """Iteration i has `chosen[offsets[i]:offsets[i + 1]]`."""
    chosen: IntArray

    def __getitem__(self, i: int) -> IntArray:
        return self.chosen[self.offsets[i] : self.offsets[i + 1]]

    def part(self, low: int, high: int) -> Selections:
        """Return the selections of iterations low…high−1 of these, as views."""
        return Selections(self.offsets[low : high + 1], self.chosen)


class Sampling(Protocol):
    """A random selection of rows with public parameters."""

    name: ClassVar[SamplingName]

    def expected_size(self, size: int) -> float:
        """Return the public divisor: the mean number of rows read when `size` are assumed."""

    def event_facts(self) -> dict[str, Any]:
        """Return what an accountant must know of the selection."""

    def draws(self, n_rows: int, count: int, rng: np.random.Generator) -> Selections | None:
        """Return `count` independent selections, or None for all rows."""

    def draw(self, n_rows: int, rng: np.random.Generator) -> IntArray | None:
        """Return the selected row numbers, sorted, or None for all rows."""


class _Drawn:
    """One selection is the first of one, sorted: cold storage is read from front to back."""

    __slots__ = ()

    def draw(self: Sampling, n_rows: int, rng: np.random.Generator) -> IntArray | None:
        selections = self.draws(n_rows, 1, rng)
        return None if selections is None else np.sort(selections[0])


@dataclass(frozen=True, slots=True)
class All(_Drawn):
    """Every row, every step."""

    name: ClassVar[SamplingName] = "all"

    def expected_size(self, size: int) -> float:
        return float(size)

    def event_facts(self) -> dict[str, Any]:
        return {"sampling": self.name}

    def draws(self, n_rows: int, count: int, rng: np.random.Generator) -> Selections | None:  # noqa: ARG002
        return None


BLOCK_ROWS = 64
"""Consecutive rows that lie in the same `RowPart`."""


@dataclass(frozen=True, slots=True)
class RowPart(_Drawn):
    """One of `parts` disjoint parts of the rows, by row number: nothing of it is secret.

    Of every `parts` blocks of 64 consecutive rows each part has one. A row outside the part has the
    term 0, so the sum has the bounds of a sum over all rows. There is no amplification. Releases of
    different parts compose in parallel (`CeilingLedger`). Only under replace-one does a row keep
    its number.
    """

    parts: int
    number: int
    """0 … parts − 1."""
    seed: int
    """Public, or made from an earlier release: in which order the parts share the blocks out."""
    population: int
    """The public number of rows."""
    name: ClassVar[SamplingName] = "all"

    def __post_init__(self) -> None:
        if self.parts < 2 or not 0 <= self.number < self.parts or not 0 <= self.seed < 2**64:
            msg = f"A part needs parts ≥ 2, a number below it and a seed below 2**64: {self!r}."
            raise ValueError(msg)

    @property
    def division(self) -> tuple[int, int, int]:
        """What the parts of one division of the rows share."""
        return self.parts, self.seed, self.population

    def expected_size(self, size: int) -> float:
        """Return the number of rows that are read."""
        return float(len(self.numbers(size)))

    def event_facts(self) -> dict[str, Any]:
        """As for all rows: what is read is public."""
        return {"sampling": self.name}

    def draws(self, n_rows: int, count: int, rng: np.random.Generator) -> Selections | None:  # noqa: ARG002
        """Return the same rows `count` times; no randomness is used."""
        numbers = self.numbers(n_rows)
        every = numbers if count == 1 else np.tile(numbers, count)
        return Selections(np.arange(count + 1) * len(numbers), every)

    def numbers(self, n_rows: int) -> IntArray:
        """Return the numbers of the rows that are read, ascending."""
        if n_rows != self.population:
            msg = f"This is a part of {self.population} rows; there are {n_rows}."
            raise ValueError(msg)
        return _row_numbers(self)


@lru_cache(maxsize=2)
def _row_numbers(part: RowPart) -> IntArray:
    parts, n_rows = np.uint64(part.parts), part.population
    blocks = -(-n_rows // BLOCK_ROWS)
    groups = np.arange(-(-blocks // part.parts), dtype=np.uint64)
    place = (_mixed(groups, part.seed) % parts + np.uint64(part.number)) % parts
    first = (groups * parts + place).astype(np.int64) * BLOCK_ROWS
    found = (first[:, None] + np.arange(BLOCK_ROWS)).reshape(-1)
    found = found[found < n_rows]
    found.flags.writeable = False
    return found


def _mixed(numbers: npt.NDArray[np.uint64], seed: int) -> npt.NDArray[np.uint64]:
    """Return one word per number, as SplitMix64 makes them: the same on every machine."""
    word = (numbers + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(seed)
    word = (word ^ (word >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    word = (word ^ (word >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return word ^ (word >> np.uint64(31))


@dataclass(frozen=True, slots=True)
class Poisson(_Drawn):
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
        return {"sampling": self.name, "rate": self.rate}

    def draws(self, n_rows: int, count: int, rng: np.random.Generator) -> Selections | None:
        """Draw how many from the binomial law, then which: it costs what it draws.

        The subset is exact. The count is within 2⁻¹²⁸ of its law in total variation (proof in
        `kernels.choice`); the event charges it as one more normal (`inexact_draws`).
        """
        if self.rate == 1.0:
            sizes = np.full(count, n_rows, dtype=np.int64)
        else:
            sizes = draw_binomial(n_rows, self.rate, count, rng)
        return Selections(*draw_subsets(n_rows, sizes, rng))


@dataclass(frozen=True, slots=True)
class _FixedSize(_Drawn):
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

    def draws(self, n_rows: int, count: int, rng: np.random.Generator) -> Selections | None:
        """Draw uniform subsets, exactly (`kernels.choice`)."""
        sizes = np.full(count, self.batch_size, dtype=np.int64)
        return Selections(*draw_subsets(n_rows, sizes, rng))


@dataclass(frozen=True, slots=True)
class WithReplacement(_FixedSize):
    """`batch_size` draws from `population` rows, each uniform and on its own (the paper's).

    The known bound for this sampling is far from tight: the δ that it states was up to 3.7e5 times
    the δ of the worst pair that is known. The promise is true, but Poisson sampling gives the same
    promise with less noise. Use this sampling to compare with the paper.
    """

    name: ClassVar[SamplingName] = "with-replacement"

    def draws(self, n_rows: int, count: int, rng: np.random.Generator) -> Selections | None:
        """Draw by NumPy's exact bounded integers."""
        offsets = np.arange(count + 1) * self.batch_size
        return Selections(offsets, rng.integers(n_rows, size=count * self.batch_size))
