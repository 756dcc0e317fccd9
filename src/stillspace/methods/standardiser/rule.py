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
    """… at least: on real tables units that are off cost more than noise on the steps …"""
    most_share: float = 0.5
    """… and at most."""
    first_share: float = 0.3
    """Of the standardiser's μ²: the first look at all columns."""
    zoom_share: float = 0.07
    """Of the standardiser's μ²: one closer look, if all columns take part in it."""
    all_zooms_share: float = 0.4
    """Of the standardiser's μ²: all closer looks together; the last look gets the rest."""
    most_zooms: int = 8
    """Closer looks, at most."""
    least_octave: int = -40
    """The first look tells octaves apart from 2^this …"""
    most_octave: int = 60
    """… to 2^this."""
    familiar: float = 3.0
    """Octave: people choose units in which numbers are near 2^this. The prior of the octave is a
    Cauchy law around it …"""
    familiar_width: float = 8.0
    """… with this width, in octaves."""
    relative: int = 4
    """Octaves of the scale relative to the centre, down and up. A narrower column makes an octave a
    heavy bin, which brings hypotheses of its own; a wider one looks as if its centre were 0."""
    parts_of_range: int = 32
    """Parts into which the first look divides a public range of a column."""
    misfit: float = 0.05
    """Share of the rows by which a real column differs from a t law, in a bin."""
    least_live: float = 0.03
    """Share of the cells beside the most frequent value below which a column counts as constant."""
    sure: float = 3.0
    """Standard deviations of the noise that make a count certain."""
    clear: float = 4.0
    """Standard deviations of the noise that make a full bin clear, and within which the scale is
    read a second and a third time. With 3, one of the thousands of bins of a small table is full by
    noise, and its column gets a scale that is far too small."""
    most_bins: int = 48
    """Bins of a closer look between quantiles of what is believed, at most."""
    least_bins: int = 16
    """The same, at least."""
    full: float = 0.6
    """Bins of a closer look, times the noise of one bin: more noise, fewer bins."""
    parts_of_heavy_bin: int = 256
    """Bins into which a heavy bin is split, and parts into which the box of centres of a hypothesis
    is split at most. Hypotheses of a heavy bin have scales down to the width of such a part."""
    heavy: float = 0.4
    """Share of the present cells from which on one bin is heavy: it may hide the median."""
    outliers: float = 0.25
    """A bin with all but this share of the present cells is not resolved: they may be outliers."""
    fresh: float = 3.0
    """What the logarithm of the prior loses for hypotheses that a heavy bin brings, and for those
    that a public range excludes."""
    atom: float = 0.5
    """Share of the present cells from which on the bin of the median is one repeated value: the
    scale is then that of the other cells."""
    atom_width: float = 2.0**-16
    """Width of a bin, relative to its place, below which a heavy bin is one repeated value."""
    negligible: float = 2.0**-12
    """Share of the rows: a bin of the first look to which no likely hypothesis gives more decides
    nothing and is not looked at again, which saves a tenth of the time of a fit."""
    most_kept: int = 64
    """Hypotheses that are kept after a look, at most …"""
    mass_kept: float = 0.9995
    """… and the posterior mass that is enough."""
    finest_step: float = 0.25
    """Octaves between the scales of neighbouring hypotheses, in the end."""
    resolved: float = 0.5
    """Octaves of the scale, and scales of the centre, within which a column is resolved."""
    level: float = 0.55
    """Share of the present cells within the spread of the median. At .5 the spread would be the
    MAD, which tells less of a column with many repeated values; at .6 the subspace is farther from
    that in units of the MAD."""
    unresolved: float = 2.5
    """Octaves between the second and the third scale above which counts do not tell the scale …"""
    unbelieved: float = 1.5
    """… and octaves of uncertainty above which the belief does not, either. Then the column is
    dropped: a scale that is too small ruins a fit, a column less costs one column."""

    @property
    def depth(self) -> int:
        """Octaves of the scale, below the width of a heavy bin, that its hypotheses have."""
        return self.parts_of_heavy_bin.bit_length() - 1

    def share_of(self, kappa: float) -> float:
        """Return the standardiser's part of μ² in a table with this κ."""
        return min(max(self.share / sqrt(kappa), self.least_share), self.most_share)

    @property
    def to_sd(self) -> float:
        """What makes the standard deviation of a normal law of its spread at `level`."""
        return 1.0 / NormalDist().inv_cdf((1.0 + self.level) / 2.0)


STANDARDISER_RULE = StandardiserRule()
"""What fits use."""

LARGEST_SCALE = sys.float_info.max
"""The scale of a dropped column: its cells come out as good as zero, whatever they hold."""
