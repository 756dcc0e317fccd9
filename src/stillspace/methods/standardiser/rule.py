"""Every tuned number of the private standardiser, with its unit and its reason."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from math import sqrt
from statistics import NormalDist


@dataclass(frozen=True, slots=True)
class StandardiserRule:
    """Numbers that were chosen on the development tables of the utility benchmark.

    An ablation changes one of them: `Standardiser(D, rule=replace(STANDARDISER_RULE, heavy=0.5))`.
    docs/standardiser.md has all of them as a table.
    """

    least_kappa: float = 25.0
    """κ = μn/√D below which a private centre or scale is refused …"""
    safe_kappa: float = 40.0
    """… and below which it must be asked for: some columns are dropped."""
    share: float = 2.74
    """The standardiser's part of μ², times √κ: more where the rows are few …"""
    least_share: float = 0.3
    """… and at least this: on real tables units that are off cost more than noise on the steps."""
    all_zooms_share: float = 0.4
    """Of the standardiser's μ²: all closer looks together. The first look gets half of the rest,
    and the last look what is left then."""
    most_zooms: int = 6
    """Closer looks, at most. If all columns take part in each of them, they get equal shares."""
    octaves: int = 50
    """The first look tells octaves apart from 2 to the minus this, to 2 to the plus this."""
    familiar: float = 8.0
    """Octaves: people choose units in which numbers are near 1. The prior of the octave is a Cauchy
    law around 0 with this width."""
    relative: int = 4
    """Octaves of the scale relative to the centre, down and up. A narrower column makes an octave a
    heavy bin, which brings hypotheses of its own; a wider one looks as if its centre were 0."""
    misfit: float = 0.05
    """Share of the rows by which a real column differs from a t law, in a bin."""
    sure: float = 3.0
    """Standard deviations of the noise that make a count certain."""
    clear: float = 4.0
    """Standard deviations of the noise that make a full bin clear. With 3, one of the thousands of
    bins of a small table is full by noise, and its column gets a scale that is far too small."""
    most_bins: int = 48
    """Bins of a closer look between quantiles of what is believed, at most; and parts into which
    the first look divides a public range of a column."""
    least_bins: int = 16
    """Bins of a closer look, at least. With 5 to 10, as noise alone would have it in the smallest
    tables, most columns are dropped there."""
    full: float = 0.6
    """Bins of a closer look, times the noise of one bin: more noise, fewer bins."""
    parts_of_heavy_bin: int = 256
    """Bins into which a heavy bin is split, and parts into which the box of centres of a hypothesis
    is split at most. Hypotheses of a heavy bin have scales down to the width of such a part. A
    heavy bin that is narrower, relative to its place, than the square of such a part is one
    repeated value."""
    heavy: float = 0.4
    """Share of the present cells from which on one bin is heavy: it may hide the median."""
    fresh: float = 3.0
    """What the logarithm of the prior loses for hypotheses that a heavy bin brings, and for those
    that a public range excludes."""
    most_kept: int = 64
    """Hypotheses that are kept after a look, at most …"""
    mass_kept: float = 0.9995
    """… and the posterior mass that is enough. A bin of the first look decides nothing if no likely
    hypothesis gives it more than the rest of this mass. It is left out then, which saves time."""
    resolved: float = 0.5
    """Octaves of the scale, and scales of the centre, within which a column is resolved; and the
    octaves between the scales of neighbouring hypotheses, in the end."""
    level: float = 0.55
    """Share of the present cells within the spread of the median. At .5 the spread would be the
    MAD, which tells less of a column with many repeated values; at .6 the subspace is farther from
    that in units of the MAD."""

    @property
    def first_share(self) -> float:
        """Of the standardiser's μ²: the first look at all columns."""
        return (1.0 - self.all_zooms_share) / 2.0

    @property
    def zoom_share(self) -> float:
        """Of the standardiser's μ²: one closer look, if all columns take part in it."""
        return self.all_zooms_share / self.most_zooms

    @property
    def atom_width(self) -> float:
        """Width of a bin, relative to its place, below which a heavy bin is a repeated value."""
        return 1.0 / self.parts_of_heavy_bin**2

    @property
    def negligible(self) -> float:
        """Share of the rows that decides nothing in a bin of the first look."""
        return 1.0 - self.mass_kept

    @property
    def depth(self) -> int:
        """Octaves of the scale, below the width of a heavy bin, that its hypotheses have."""
        return self.parts_of_heavy_bin.bit_length() - 1

    @property
    def depth_at_end(self) -> int:
        """The same of hypotheses around an end of a heavy bin.

        Quantiles of the belief gather at the end, so one look tells more octaves apart than equal
        parts do: as many as there are down to the width of a repeated value.
        """
        return 2 * self.depth

    def share_of(self, kappa: float) -> float:
        """Return the standardiser's part of μ² in a table with this κ."""
        return max(self.share / sqrt(kappa), self.least_share)

    @property
    def to_sd(self) -> float:
        """What makes the standard deviation of a normal law of its spread at `level`."""
        return 1.0 / NormalDist().inv_cdf((1.0 + self.level) / 2.0)


STANDARDISER_RULE = StandardiserRule()
"""What fits use."""

LARGEST_SCALE = sys.float_info.max
"""The scale of a dropped column: its cells come out as good as zero, whatever they hold."""
