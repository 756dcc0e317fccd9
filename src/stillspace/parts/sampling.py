"""Which rows are read by a step (SPEC 3). Selections are secret: they never leave a release."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

import numpy as np

from stillspace._typing import IntArray
from stillspace.kernels.choice import draw_binomial, draw_subsets
from stillspace.privacy.events import SamplingName


@dataclass(frozen=True, slots=True)
class Selections:
    """The row numbers of several iterations, one after the other.

    Samplings draw their order at random, too, and rows are added up in it. So the law of such a sum
    does not depend on the order of the table, to the last bit. The rows of a part ascend: there
    rounding is charged (`CeilingLedger`).
    """

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


@dataclass(frozen=True, slots=True)
class All:
    """Every row, every step."""

    name: ClassVar[SamplingName] = "all"

    def expected_size(self, size: int) -> float:
        return float(size)

    def event_facts(self) -> dict[str, Any]:
        return {"sampling": self.name}

    def draws(self, n_rows: int, count: int, rng: np.random.Generator) -> Selections | None:  # noqa: ARG002
        return None


@dataclass(frozen=True, slots=True)
class RowPart:
    """One of `parts` disjoint parts of the rows. Which rows it has is secret (`Division`).

    A row outside the part has the term 0, so the sum has the bounds of a sum over all rows.
    There is no amplification. Releases of different parts compose in parallel (`CeilingLedger`).
    """

    parts: int
    """At most 256."""
    number: int
    """0 … parts − 1."""
    name: ClassVar[SamplingName] = "all"

    def __post_init__(self) -> None:
        if not 2 <= self.parts <= 256 or not 0 <= self.number < self.parts:
            msg = f"A part needs 2 to 256 parts and a number below that: {self!r}."
            raise ValueError(msg)

    def expected_size(self, size: int) -> float:
        """Return `size / parts`: how many rows the part has is secret."""
        return size / self.parts

    def event_facts(self) -> dict[str, Any]:
        """As for all rows: what is charged does not count on the secret."""
        return {"sampling": self.name}

    def draws(self, n_rows: int, count: int, rng: np.random.Generator) -> Selections | None:  # noqa: ARG002
        """Refuse: which rows a part has is drawn once per run, not once per release."""
        msg = "A part of the rows needs the division of its run."
        raise ValueError(msg)


_CHUNK = 2**16
"""Rows whose parts are looked at together."""


class Division:
    """In which part each row lies: secret, drawn once per run, without looking at a row.

    Each row's part is uniform and independent of all others. So the law of the parts does not
    depend on the order of the rows, and a row that is added or removed moves no other.
    """

    __slots__ = ("_labels", "_last", "parts")

    def __init__(self, parts: int, n_rows: int, rng: np.random.Generator) -> None:
        self.parts = parts
        self._labels = rng.integers(parts, size=n_rows, dtype=np.uint8)
        self._last: tuple[int, IntArray] | None = None

    def numbers(self, part: RowPart) -> IntArray:
        """Return the numbers of the rows of a part, ascending."""
        if part.parts != self.parts:
            msg = f"The rows are divided into {self.parts} parts; this is one of {part.parts}."
            raise ValueError(msg)
        if self._last is None or self._last[0] != part.number:
            self._last = None  # before memory for the next numbers is taken
            self._last = part.number, self._found(part.number)
        return self._last[1]

    def _found(self, number: int) -> IntArray:
        """Return the numbers of a part's rows: what lies beside them is as short as a chunk."""
        chunks = [
            (at, self._labels[at : at + _CHUNK]) for at in range(0, self._labels.size, _CHUNK)
        ]
        found = np.empty(sum(np.count_nonzero(some == number) for _, some in chunks), np.int64)
        end = 0
        for at, some in chunks:
            numbers = np.flatnonzero(some == number)
            end += len(numbers)
            np.add(numbers, at, out=found[end - len(numbers) : end])
        return found


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
