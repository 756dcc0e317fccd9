"""The constants of the look for outliers, each with its unit and its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LookRule:
    """What the look spends, and what it takes for a group of outliers."""

    moment_share: float = 0.1
    """Share of μ² for the first second moment, which the fit starts from anyway."""
    modes_share: float = 0.01
    """Share of μ² for the fourth moments: these only propose directions."""
    angles_share: float = 0.05
    """Share of μ² for the angles, on which every decision rests."""
    rest_share: float = 0.1
    """Share of μ² for the second moment without the groups found; nothing if there are none. It
    is then what the fit starts from."""
    weak: float = 4.0
    """κ̂ of the first second moment below which nothing is looked for: directions are noise."""
    more_directions: int = 4
    """Leading directions beyond the number of components: inliers and three groups have room."""
    most_modes: int = 6
    """The largest number of directions whose angles are counted."""
    apart: float = 0.85
    """|cos| from which on two modes count as one: fourth moments resolve about 30 degrees."""
    proposed: float = 2.0
    """Standard deviations of noise above an elliptical law that a mode must have."""
    bins: int = 36
    """Bins of the angle from 0 to 180 degrees: 5 degrees each, below the width of a tight group."""
    block: int = 2
    """Bins that are compared with the next ones: 10 degrees."""
    widest: int = 8
    """Bins of the widest cap: at 40 degrees from its direction a row still has more than half of
    its square along it."""
    sure: float = 5.0
    """Standard deviations by which a group exceeds the ring around it. In the 126 comparisons
    of 6 directions, 3 ways to look at each and 7 caps, noise alone does so in 4e-5 of the fits."""
    depth: float = 0.15
    """The largest part of the group's density that the ring around it may have: tails of skewed
    columns have more."""
    minority: float = 0.48
    """The largest share of rows in all caps of one direction: outliers are in the minority."""
    native: float = 0.5
    """‖V_restᵀu‖² from which on a group's direction u belongs to the inliers, whose subspace
    V_rest is found without the group: natural groups had .57 to .87, planted ones at most .48."""


STANDARD = LookRule()
"""What fits use."""
