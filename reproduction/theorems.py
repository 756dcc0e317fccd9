"""The theorems' quantities on the paper's own data, and the iterations that were really needed."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from math import inf
from typing import Any, Literal

import numpy as np

from reproduction.cells import Result, checkpoints
from reproduction.columns import Setting, paper_plan
from reproduction.seeds import seed_from
from reproduction.tables import Table, number
from stillspace import __version__
from stillspace._typing import FloatArray
from stillspace.datasets import Haystack
from stillspace.metrics import chordal_gap
from stillspace.parts.noise import seeded_generator
from stillspace.plans.fixed import Plan
from stillspace.recipes import Facts, fixed_plan
from stillspace.rows import MemoryRows
from stillspace.run import run
from stillspace.run.observers import Watch
from stillspace.theory import (
    iteration_bound,
    linear_convergence,
    local_stability,
    minibatch_bound,
    pca_start,
    reaper_stability,
    sampled_minibatches,
    stability,
)

GAMMA = 1.0
"""The most favourable: stability next to L*."""
FAILURE = 0.01
PCA_GAMMA = 0.5**0.5


@dataclass(frozen=True, slots=True)
class TheoremCell:
    """Stability, start condition, F₁ to F₃, theorem 2 on one data set, and what runs needed."""

    setting: Setting
    repetition: int
    seed: int

    @property
    def cost(self) -> float:
        """Estimated seconds."""
        return 2.0

    @property
    def label(self) -> str:
        """A name for people and for the file."""
        return f"theorems-n{self.setting.n}-D{self.setting.D}-{self.repetition}"

    def key(self) -> dict[str, Any]:
        """Return everything that the result depends on, as plain JSON values."""
        return {"version": __version__, "experiment": "theorems", **asdict(self)}

    def compute(self) -> Result:
        """Return all quantities of this data set."""
        data, s = self.setting.data(self.seed, self.repetition), self.setting
        inside, outside = data.X[data.inliers], data.X[~data.inliers]
        full = stability(inside, outside, s.r, gamma=GAMMA)
        start = pca_start(inside, outside, s.r, gamma=PCA_GAMMA)
        ggd, sggd = (paper_plan(m, s, "honest") for m in ("dp-GGD", "dp-SGGD"))
        assert sggd.release is not None
        B = int(sggd.release.divisor)
        drawn = sampled_minibatches(inside, outside, s.r, B, gamma=GAMMA, batches=20)
        convex = reaper_stability(inside, outside, data.components)
        quiet = fixed_plan(
            "sggd",
            Facts(s.n, s.D, s.r),
            n_iter=s.n_iter,
            sampling="with-replacement",
            batch_size=B,
        )
        runs = {
            "F1": self._halving(data, "nggd", ggd, full.lower, full.upper),
            "F2": self._halving(data, "sggd", quiet, *drawn.mean),
            "F3": self._halving(data, "nsggd", sggd, *drawn.mean),
        }
        found: Result = {
            "permeance": full.permeance,
            "alignment_lower": full.alignment.lower,
            "alignment_upper": full.alignment.upper,
            "stability_lower": full.lower,
            "stability_upper": full.upper,
            "start_margin": start.margin / s.n,
            "start_cosine_proved": start.cosine,
            "start_cosine_found": self._pca_cosine(data),
            "batch_size": B,
            "minibatch_proved": minibatch_bound(inside, outside, s.r, B, gamma=GAMMA),
            "minibatch_lower": drawn.mean[0],
            "minibatch_upper": drawn.mean[1],
            "reaper_lower": convex.lower,
            "reaper_upper": convex.upper,
        }
        runs["linear"] = self._linear(data, ggd, inside, outside)
        for name, made in runs.items():
            found |= {f"{name}_{what}": value for what, value in made.items()}
        return found

    def _linear(
        self, data: Haystack, plan: Plan, inside: FloatArray, outside: FloatArray
    ) -> dict[str, float]:
        """Return what theorem 2 (docs/theory.md) asks for to halve d_r², and a run with its steps.

        The run has the noise of the honest dp-GGD with T iterations, and the same start.
        """
        assert plan.release is not None
        sigma = plan.release.sigma(0) / plan.release.divisor
        facts = local_stability(inside, outside, data.components)
        start = self._gaps(data, replace(plan, n_iter=1), "linear")[0]
        proved = linear_convergence(
            facts,
            start=start,
            target=start / 2.0,
            D=self.setting.D,
            r=self.setting.r,
            sigma=sigma,
            failure=FAILURE,
        )
        if proved.iterations == inf:
            return {"start": start, "bound": inf, "needed": inf, "end": inf}
        steps = Listed(tuple(proved.steps().tolist()))
        short = replace(plan, n_iter=len(steps.sizes), schedule=steps)
        gaps = self._gaps(data, short, "linear")
        return {
            "start": start,
            "bound": proved.iterations,
            "needed": _needed(gaps, start / 2.0),
            "end": gaps[short.n_iter] / start,
        }

    def _gaps(self, data: Haystack, plan: Plan, name: str) -> dict[int, float]:
        """Return d_r² of the iterates at the checkpoints of one run."""
        gaps: dict[int, float] = {}
        rng = seeded_generator(seed_from("theorems", self.seed, name, self.repetition))
        run(plan, MemoryRows.prepare(data.X), rng, watch=_gap_watch(data, plan.n_iter, gaps))
        return gaps

    def _pca_cosine(self, data: Haystack) -> float:
        components = np.linalg.svd(data.X, full_matrices=False)[2][: self.setting.r]
        return 1.0 - chordal_gap(components, data.components)

    def _halving(
        self,
        data: Haystack,
        method: Literal["nggd", "sggd", "nsggd"],
        plan: Plan,
        certified: float,
        favourable: float,
    ) -> dict[str, float]:
        """Return the start's d_r², the bound on T for half of it, and when the run got there."""
        gaps = self._gaps(data, plan, method)
        start = gaps[0]
        release = plan.release
        assert release is not None
        sigma = release.sigma(0) / release.divisor
        s = certified if certified > 0.0 else favourable
        bound = inf
        if s > 0.0:
            bound = iteration_bound(
                method,
                radius=start / 2.0,
                start=start,
                stability=s,
                D=self.setting.D,
                r=self.setting.r,
                sigma=sigma,
                failure=FAILURE,
            ).iterations
        return {"start": start, "bound": bound, "needed": _needed(gaps, start / 2.0)}


@dataclass(frozen=True, slots=True)
class Listed:
    """One step size per iteration, as theorem 2 gives them."""

    sizes: tuple[float, ...]

    def step(self, k: int) -> float:
        """Return η_k."""
        return self.sizes[k]


def _needed(gaps: dict[int, float], level: float) -> float:
    """Return the first checkpoint from which on the error stays at or below a level."""
    late = max((k for k, gap in gaps.items() if gap > level), default=-1)
    return float(min((k for k in gaps if k > late), default=inf))


def _gap_watch(data: Haystack, n_iter: int, gaps: dict[int, float]) -> Watch:
    def see(done: int, memory: FloatArray, point: FloatArray) -> None:  # noqa: ARG001
        gaps[done] = chordal_gap(point.T, data.components)

    return Watch(frozenset(checkpoints(n_iter)), see)


def theorem_rows(done: list[tuple[TheoremCell, Result]]) -> Table:
    """Return one row a data set."""
    return [{"data_set": cell.repetition, **result} for cell, result in done]


def theorem_text(table: Table) -> str:
    """Say what the theorems promise on these data, by the medians over the data sets."""

    def middle(name: str) -> float:
        return float(np.median([number(row, name) for row in table]))

    stable = _verdict(table, "stability_lower", "stability_upper")
    batch = _verdict(table, "minibatch_lower", "minibatch_upper")
    convex = _verdict(table, "reaper_lower", "reaper_upper")
    bounds = ", ".join(
        f"F{i} asks for {_iterations(middle(f'F{i}_bound'))} iterations and "
        f"{_iterations(middle(f'F{i}_needed'))} were needed"
        for i in (1, 2, 3)
    )
    return (
        f"The theorems on these data (medians over {len(table)} data sets): permeance "
        f"{middle('permeance'):.3f}, alignment between {middle('alignment_lower'):.3f} and "
        f"{middle('alignment_upper'):.3f}, so S_1 lies in [{middle('stability_lower'):.3f}, "
        f"{middle('stability_upper'):.3f}] ({stable}). For batches of {int(middle('batch_size'))} "
        f"rows the mean stability lies in [{middle('minibatch_lower'):.3f}, "
        f"{middle('minibatch_upper'):.3f}] ({batch}); REAPER's in [{middle('reaper_lower'):.3f}, "
        f"{middle('reaper_upper'):.3f}] ({convex}). PCA is proved to start within cos θ ≥ "
        f"{middle('start_cosine_proved'):.3f} and is at {middle('start_cosine_found'):.4f}. To "
        f"halve d_r² of the start (λ = {FAILURE}, ν = 3/4, constants 1), with the paper's steps: "
        f"{bounds}. Theorem 2 of [theory.md](theory.md), linear convergence, asks for "
        f"{_iterations(middle('linear_bound'))} iterations with its own steps, in which "
        f"{_iterations(middle('linear_needed'))} were needed; the promise was kept in "
        f"{sum(number(row, 'linear_end') <= 0.5 for row in table)} of {len(table)} data sets."
    )


def _verdict(table: Table, lower: str, upper: str) -> str:
    if all(number(row, lower) > 0 for row in table):
        return "positive in all of them"
    if all(number(row, upper) <= 0 for row in table):
        return "not positive in any: the theorem says nothing here"
    return "its sign is not decided in all of them"


def _iterations(value: float) -> str:
    if value == inf:
        return "infinitely many"
    return f"{value:.0f}" if value < 1e5 else f"{value:.1e}"
