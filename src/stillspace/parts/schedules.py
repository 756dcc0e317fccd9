"""Step sizes η_k, k counted from 0 (SPEC 3). They depend on public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Protocol

from stillspace._checks import checked_number


def _check(name: str, value: float, least: float = 0.0) -> None:
    """Raise unless `value` is finite and above 0, and at least `least`."""
    checked_number(f"{name} of a schedule", value, least, inside=least == 0.0)


class Schedule(Protocol):
    """A step size for each iteration."""

    def step(self, k: int) -> float:
        """Return η_k."""

    def __hash__(self) -> int:
        """Equal schedules have equal steps."""


@dataclass(frozen=True, slots=True)
class Constant:
    """`η_k = step_size`; 1 for solvers whose geometry takes the new point as it is."""

    step_size: float = 1.0

    def __post_init__(self) -> None:
        _check("step_size", self.step_size)

    def step(self, k: int) -> float:  # noqa: ARG002
        return self.step_size


@dataclass(frozen=True, slots=True)
class Halving:
    """`η_k = first / 2^⌊k/every⌋` (the paper's for GGD, with every = 50)."""

    first: float = 1.0
    every: int = 50

    def __post_init__(self) -> None:
        _check("first", self.first)
        _check("every", self.every, least=1)

    def step(self, k: int) -> float:
        return self.first * 0.5 ** (k // self.every)


@dataclass(frozen=True, slots=True)
class InverseSqrt:
    """`η_k = scale / √(k+1)` (the paper's for REAPER, with scale = 8, k from 1)."""

    scale: float = 8.0

    def __post_init__(self) -> None:
        _check("scale", self.scale)

    def step(self, k: int) -> float:
        return self.scale / sqrt(k + 1)


@dataclass(frozen=True, slots=True)
class Geometric:
    """From `first` to `last` by a constant factor over `n_iter` iterations."""

    first: float
    last: float
    n_iter: int

    def __post_init__(self) -> None:
        _check("first", self.first)
        _check("last", self.last)
        _check("n_iter", self.n_iter, least=1)

    def step(self, k: int) -> float:
        if self.n_iter == 1:
            return self.first
        return float(self.first * (self.last / self.first) ** (k / (self.n_iter - 1)))


@dataclass(frozen=True, slots=True)
class Restarts:
    """The restarts of the paper's linear-convergence theorem.

    `η = c₁ a T₁^−ν`, ½ < ν < 1, for T₁ = `first_length` iterations, then half of it for each
    further restart of `length` iterations. `a` is the radius aimed at by the first run.
    """

    c1: float
    a: float
    nu: float
    first_length: int
    length: int

    def __post_init__(self) -> None:
        if not 0.5 < self.nu < 1.0:
            msg = f"nu must lie in (0.5, 1), got {self.nu}."
            raise ValueError(msg)
        _check("c1", self.c1)
        _check("a", self.a)
        _check("first_length", self.first_length, least=1)
        _check("length", self.length, least=1)

    def step(self, k: int) -> float:
        restart = 0 if k < self.first_length else 1 + (k - self.first_length) // self.length
        return float(self.c1 * self.a * self.first_length**-self.nu * 0.5**restart)
