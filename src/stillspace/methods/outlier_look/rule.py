"""The constants of the look for outliers, each with its unit and its reason."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LookRule:
    """What the look spends, and what it takes for a group of outliers."""

    moment_share: float = 0.1
    """Share of μ² for the first second moment, which the fit starts from anyway, and for each
    second moment of the rows outside the groups found: the fit then starts from the last one."""
    modes_share: float = 0.02
    """Share of μ² for the fourth moments: these only propose directions."""
    angles_share: float = 0.05
    """Share of μ² for the angles, by which groups are found."""
    scatter_share: float = 0.05
    """Share of μ² for the scatter inside the caps of groups that may be left out."""
    weak: float = 4.0
    """κ̂ of the first second moment below which nothing is looked for: directions are noise."""
    more_directions: int = 4
    """Leading directions beyond the number of components: inliers and three groups have room.
    With 3, three clusters are missed more often."""
    most_modes: int = 6
    """The largest number of directions whose angles are counted: 8 find nothing more."""
    apart: float = 0.85
    """Cosine from which on two modes count as one: fourth moments resolve about 30 degrees."""
    bins: int = 36
    """Bins of the angle from 0 to 180 degrees: 5 degrees each, below the width of a tight group."""
    block: int = 2
    """Bins that are compared with the next ones: 10 degrees."""
    sure: float = 6.0
    """Standard deviations of noise and sampling by which a group exceeds the ring around it. Noise
    alone does so with probability 1.3e-6 in one of 1326 comparisons (6 directions; 3 ways to look
    at each, with 55 pairs of block and ring, and 2 ways with 28 pairs for loose groups). With 5,
    natural groups of one row in ten were cut. Half of it is what the fourth moment along a
    direction must exceed that of an elliptical law by: fewer directions leave less noise on the
    angles."""
    depth: float = 0.15
    """The largest part of the group's density that the ring around it may have: tails of skewed
    columns have more. With .2, one clean table was cut. It is also the largest part of a loose
    group's rows that the cap on its other side may have."""
    doubt: float = 1.0
    """Standard deviations of noise that are added to the ring's density, and to the rows on the
    other side of a loose group: neither may be empty by luck. As many are taken off the variance
    along a group's direction, and off its scatter, so that no group is natural by luck."""
    narrow: int = 8
    """Bins of the widest cap of a loose group, which has no empty ring: 40 degrees. Skewed tables
    have wider ones: with 45 degrees, 8 of 600 looks at clean tables left a loose group out, with 40
    it is 2 (100 tables)."""
    smallest: float = 0.02
    """The smallest share of the rows that a loose group may have. Without this limit, skewed tables
    lose some hundredths of a percent of their rows."""
    dense: float = 10.0
    """The least number of rows of a loose group, over the number that an elliptical law with the
    second moment of the other rows would put into its cap. With 5, 9 of 600 looks at clean tables
    left a loose group out, with 10 it is 2 (100 tables)."""
    minority: float = 0.48
    """The largest share of rows in all caps of one direction, and in all groups together among the
    rows that are not zero: outliers are in the minority."""
    mirrored: float = 0.5
    """Part of a group's share: if the cap on the other side holds so many rows and is no group, the
    rows lie along a line, and nothing is cut. Without it, 3 of 126 looks at clean tables cut one
    end of such a line (63 tables, ε = 1 and 4)."""
    natural: float = 0.22
    """Radians: from here on a group is natural, and stays. Signs of a natural group are multiplied:
    its share, the angle of its cap, and the square of the variance of the other rows along its
    direction, over that of an average direction. On 81 tables natural groups of a fifth of the rows
    and more, with a variance of 1 and more, had .228 and more, nearly all planted groups less."""
    one_column: float = 0.9
    """Square of the largest entry of a group's direction from which on the group lies along one
    column. A column with two clumps of values (zeros and amounts, codes) makes such a group: 27 of
    42 looks that left clean rows out did so for this reason (137 tables, 1096 looks)."""
    clumps: float = 1.7
    """What the variance along one column counts at least, over that along an average direction. So
    a group along one column is natural from .076 rad on, share times angle. A code such as 999 or a
    wrong unit puts rows nearer to the axis: about 230 of 240 such groups of a tenth of the rows are
    still left out. With 2, some tight clusters that happen to lie along a column stay."""

    wide: float = 0.1
    """Radians: a group whose rows scatter more widely than this about its axis (in the root mean
    square) is natural if they also scatter alike. Copies of one row, codes such as 999 and wrong
    units make narrower groups."""
    alike: float = 0.3
    """Of what the other rows' scatter has more than noise would have along the directions in which
    they vary most: a group that has this part of it scatters alike. Noise has 0, the same law 1. On
    113 tables 90 % of the planted groups had less than .26, and most wide groups of clean rows more
    than .5."""

    @property
    def widest(self) -> int:
        """Bins of the widest cap: 45 degrees and a block.

        Rows as far from a group's centre as the centre is from the origin are 45 degrees away from
        it.
        """
        return self.bins // 4 + self.block


LOOK_RULE = LookRule()
"""What fits use."""
