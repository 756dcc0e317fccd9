"""Every tuned number of the private standardiser, with its unit and its reason."""

from __future__ import annotations

import sys
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Rule:
    """Numbers that were chosen on the development tables of the utility benchmark."""

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
    parts_of_range: int = 32
    """Parts into which the first look divides a public range of a column."""
    misfit: float = 0.05
    """Share of the rows by which a real column differs from a t law, in a bin."""
    least_live: float = 0.03
    """Share of the cells beside the most frequent value below which a column counts as constant."""
    sure: float = 3.0
    """Standard deviations of the noise that make a count certain."""
    clear: float = 4.0
    """Standard deviations of the noise that make a full bin clear."""
    most_bins: int = 48
    """Bins of a closer look between quantiles of what is believed, at most."""
    least_bins: int = 16
    """The same, at least."""
    full: float = 0.6
    """Bins of a closer look, times the noise of one bin: more noise, fewer bins."""
    parts_of_heavy_bin: int = 256
    """Bins into which a heavy bin is split."""
    heavy: float = 0.4
    """Share of the present cells from which on one bin is heavy: it may hide the median."""
    outliers: float = 0.25
    """A bin with all but this share of the present cells is not resolved: they may be outliers."""
    fresh: float = 3.0
    """What the logarithm of the prior loses for hypotheses that a heavy bin brings, and for those
    that a public range excludes."""
    atom_width: float = 2.0**-16
    """Width of a bin, relative to its place, below which a heavy bin is one repeated value."""
    most_kept: int = 100
    """Hypotheses that are kept after a look, at most …"""
    mass_kept: float = 0.9995
    """… and the posterior mass that is enough."""
    finest_step: float = 0.25
    """Octaves between the scales of neighbouring hypotheses, in the end."""
    resolved: float = 0.5
    """Octaves of the scale, and scales of the centre, within which a column is resolved."""
    doubtful: float = 4.0
    """Standard deviations of the noise within which the scale is read a second and third time."""
    unresolved: float = 2.5
    """Octaves between these two scales above which counts do not tell the scale …"""
    unbelieved: float = 1.5
    """… and octaves of uncertainty above which the belief does not, either. Then the column is
    dropped: a scale that is too small ruins a fit, a column less costs one column."""


RULE = Rule()


@dataclass(frozen=True, slots=True)
class Share:
    """The standardiser's part of μ²: `factor · √(reference/κ)`, between two bounds."""

    factor: float = 0.25
    reference: float = 120.0
    least: float = 0.15
    most: float = 0.5


SHARE = Share()

LARGEST_SCALE = sys.float_info.max
"""The scale of a dropped column: its cells come out as good as zero, whatever they hold."""

LEAST_KAPPA, SAFE_KAPPA = 25.0, 40.0
"""κ = μn/√D: below the first the standardiser refuses, below the second it warns."""
