"""Every tuned number of the damped Newton method, with its unit and its reason.

They were chosen on drawn data; docs/newton.md has them as a table. An ablation is another rule:
`DampedNewton(D, r, rule=replace(NEWTON_RULE, cut=4.0))`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class NewtonRule:
    """Shares of the budget, numbers of steps, and the limits by which a fit chooses its way."""

    weak: float = 4.0
    """κ̂; below it steps could not be guided, and the second moment gets everything."""
    top_up: float = 6.0
    """The start gets the share top_up/κ̂² of μ², if that is more than the first look's."""
    curvature_share: float = 0.03
    """Of μ²: the curvature, in all steps together. For r > 1 its matrix gets as much."""
    most_curvature: float = 0.25
    """Of what is left of μ² when the steps begin: the curvature gets no more than that, and neither
    does its matrix. This matters where units were found again with little budget: hardly anything
    is left then, and the gradient needs most of it."""
    holes_share: float = 0.005
    """Of μ²: the count of rows with missing cells, in fits that could fill these cells."""
    first_steps: int = 8
    """Steps of the first phase, at least: it finds the basin."""
    most_first_steps: int = 20
    """Steps of the first phase, at most: a start that a cluster caught needs time to escape."""
    first_part: float = 0.1
    """Of the gradient's share: what `first_steps` of the first phase take."""
    divided: float = 0.25
    """Of what the first phase would cost over all rows: what it costs over parts of the rows."""
    last_steps: int = 10
    """Steps of the second phase, over which the rest is shared equally."""
    settled: int = 3
    """Steps after which the curvature is known: in the first phase it then tells a noisy table, in
    the second one whether it has grown."""
    sharper: float = 1.5
    """Factor; a curvature that has grown by it is a sign of nearly noiseless inliers."""
    more_steps: int = 40
    """Steps that then follow: each one gains digits."""
    last_few: int = 2
    """Steps that follow otherwise: a few precise steps find as much, and each reads all rows."""
    cut_from: int = 5
    """Steps after which far rows are left out."""
    cut: float = 3.0
    """In units of 1/s, about the typical distance of inliers: rows at cut/s or more are far."""
    doubt: float = 0.05
    """Of d² over D − r: the doubt about V that the start has beside its noise. The same is added
    when the optimum moves: with the first cut, with filled cells, and from some rows to all."""
    least_cap: float = 1e-7
    """Distance: the smallest cap; nearer, rounding decides."""
    largest_cap: float = 0.5
    """Distance: the largest cap."""
    drift: float = 0.1
    """Relative variance that the curvature gains per step, because the point moves. It is also the
    part of their weight that older curvature matrices lose per step."""
    least_fall: float = 0.3
    """Factor by which the curvature falls in one step, at most: noise must not empty it."""
    least_shape: float = 0.1
    """Of the mean eigenvalue: the smallest eigenvalue of the curvature H that is believed. Of H,
    too: the least curvature along a direction across the subspace."""
    leading: int = 4
    """Directions across the subspace, the strongest ones, whose curvature counts by itself."""
    largest_part: float = 0.3
    """Share of the rows: the largest share of near rows from which on the curvature can grow."""
    alone: float = 1.25
    """Times the first eigenvalue: rows along one direction alone must not make it grow."""
    sure: float = 3.0
    """Standard deviations that noise alone does not pass: neither must it make the curvature grow,
    nor a phase go on, nor a direction look as if other rows held it, nor complete rows look as if
    cells were missing."""
    hopeless: float = 0.01
    """The d² above which steps on a noisy table could show nothing. With .003 and with .03 clean
    tables come out worse."""
    compared_at: int = 10
    """Steps after which a noisy table's steps are compared with private PCA."""
    split: float = 0.3
    """Of the mean weight: a direction below it is held by other rows than the others."""
    slight: float = 0.1
    """Of the mean signal: unless the direction has less than this, so that inliers hardly vary."""
    reliable: float = 10.0
    """κ̂ from which on the steps' own estimate of their error is right to a factor of about two."""
    flattest: float = 0.2
    """Of what the steps assume: the least curvature along any direction that this needs."""

    def cap(self, part: float, s: float) -> float:
        """Return the distance part/s, within limits: nearer rows count as if they were there."""
        return min(max(part / s, self.least_cap), self.largest_cap)

    @property
    def most_steps(self) -> int:
        """Steps of both phases, at most, with the first one over all rows between them."""
        return self.most_first_steps + 1 + self.settled + self.more_steps


NEWTON_RULE = NewtonRule()
