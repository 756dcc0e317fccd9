"""Row maps: what is done to a row before a query sees it, as data.

A row map acts on one row (or on one difference of two rows). It knows public facts and earlier
releases, never other rows. So replacing one row of the table replaces one row behind the maps, and
the sensitivity of a query is the same before and after them (docs/privacy.md, "Row maps").

A view is a tuple of row maps, applied from left to right. `Sphere` and `Clip` bound the length of a
row; queries rely on that bound. What follows the last of them may only shorten a row or make it a
zero row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from scipy import sparse

from stillspace._frozen import FrozenArray
from stillspace._typing import AnyArray, FloatArray
from stillspace.rows.sketch import Sketch

BLOCK_CELLS = 2**20
"""Cells that are converted at a time outside a fit."""


@dataclass(frozen=True, slots=True)
class Affine:
    """`(x − center) / scale`, cell by cell; a missing cell sits at the centre.

    A cell is missing if it equals `missing`, or with `holes` if it is NaN. What is None does
    nothing.
    """

    center: FrozenArray | None = None
    scale: FrozenArray | None = None
    missing: float | None = None
    holes: bool = False

    @classmethod
    def of(
        cls,
        center: FloatArray | None = None,
        scale: FloatArray | None = None,
        missing: float | None = None,
        *,
        holes: bool = False,
    ) -> Affine:
        """Keep copies of the vectors."""
        return cls(
            None if center is None else FrozenArray.of(center),
            None if scale is None else FrozenArray.of(scale),
            missing,
            holes,
        )

    def __str__(self) -> str:
        parts = ["subtract the centre"] if self.center is not None else []
        parts += ["divide by the scale"] if self.scale is not None else []
        has_missing = self.missing is not None or self.holes
        parts += ["put missing cells at the centre"] if has_missing else []
        return ", ".join(parts) or "leave the cells as they are"

    def vectors(self, D: int) -> tuple[FloatArray, FloatArray]:
        """Return copies of centre and scale: zeros and ones where they do nothing."""
        center, scale = self.center, self.scale
        return (
            np.zeros(D) if center is None else center.array.copy(),
            np.ones(D) if scale is None else scale.array.copy(),
        )

    def blocks(self, X: Any) -> Iterator[AnyArray]:
        """Yield the mapped rows of an array or a sparse matrix, a block of rows at a time."""
        n, D = X.shape
        center = 0.0 if self.center is None else self.center.array
        step = max(1, BLOCK_CELLS // max(1, D))
        for start in range(0, max(n, 1), step):
            block = X[start : start + step]
            block = block.toarray() if sparse.issparse(block) else block
            mapped = block - center
            if self.scale is not None:
                mapped = mapped / self.scale.array
            if self.missing is not None:
                mapped[block == self.missing] = 0.0
            if self.holes:
                mapped[np.isnan(block)] = 0.0
            yield mapped


@dataclass(frozen=True, slots=True)
class Fill:
    """A missing cell gets the value that the row's other cells tell in a released basis V (D, r).

    It follows `Affine`. The scores y of a row are those of least squares over its present cells O,
    and its missing cells become those of `Vy`. Its weight `r/tr((V_OᵀV_O)⁻¹)` is the precision of
    these scores, over that of a complete row; it is 0 if the present cells do not tell the scores.
    In a row with a weight below ½ missing cells stay at the centre, and so they do in sparse rows.
    """

    basis: FrozenArray
    weighed: bool = False
    """Whether rows count by their weights instead: every row is filled whose scores can be told,
    and behind the bound it is multiplied by its weight."""

    def __str__(self) -> str:
        weighed = ", and shorten rows by what is missing" if self.weighed else ""
        return f"fill missing cells from {self.basis.shape[1]} released directions{weighed}"


@dataclass(frozen=True, slots=True)
class Pairs:
    """Differences of disjoint random pairs of rows, in which an unknown centre cancels.

    A run draws the pairing from its secret generator before it reads a row. No field, text, hash or
    file holds the pairing. A row is in at most one pair.
    """

    def __str__(self) -> str:
        return "take differences of random pairs of rows"


@dataclass(frozen=True, slots=True)
class Sphere:
    """Scale a row to length 1. A zero row, and a row that is not finite, becomes a zero row."""

    def __str__(self) -> str:
        return "scale each row to length 1"


@dataclass(frozen=True, slots=True)
class Clip:
    """Shorten a row to a public norm, and measure it in units of that norm."""

    norm: float

    def __str__(self) -> str:
        return f"shorten rows that are longer than {self.norm:g}"


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """A row of this length or longer, measured before `Sphere`, becomes a zero row."""

    length: float

    def __str__(self) -> str:
        return f"leave out rows of length {self.length:.4g} or more"


@dataclass(frozen=True, slots=True)
class Caps:
    """A row within an angle of a direction becomes a zero row: x with c·x ≥ t, for one (c, t).

    Whether a row is inside is decided by the bits of its own scores, which no other row touches.
    """

    directions: FrozenArray
    """(D, m), unit vectors as columns."""
    cosines: FrozenArray
    """(m,), positive: a zero row is in no cap."""

    def __str__(self) -> str:
        return f"leave out rows around {self.directions.shape[1]} released directions"


@dataclass(frozen=True, slots=True)
class Without:
    """A row that `caps` leaves out, seen through `affine` and `Sphere`, loses all its cells.

    All its cells are missing from here on: counts of cells have it in the bin of missing cells, and
    behind a bound it is a zero row. It comes first in a view, so that a group that was found in
    one centre and scale stays left out in another one.
    """

    affine: Affine
    caps: Caps

    def __str__(self) -> str:
        return f"{self.caps}, seen in an earlier centre and scale"


@dataclass(frozen=True, slots=True)
class Project:
    """The scores `Vᵀx` of a row in a released basis V (D, width). Follow it by `Sphere`."""

    basis: FrozenArray

    def __str__(self) -> str:
        return f"project to {self.basis.shape[1]} released directions"


OCTAVE = 2.0**-12
"""What a level grows by when a length doubles: all levels then lie in (0, 1)."""

TOP = 1100
"""The level of an inverse length `m · 2^e`, ½ ≤ m < 1, is TOP − (e + 2m) octaves; e ≤ 1024."""


def levels(inverses: FloatArray) -> FloatArray:
    """Return the levels of rows with these inverse lengths; 0 for zero rows, whose inverse is 0.

    It grows with the length, linearly in its inverse between powers of two: near its logarithm.
    `log2` of a library may round one way in a vector and another way beside it. The binary exponent
    and mantissa of a float are its bits, so a level belongs to its row alone (SPEC 4 a).
    """
    mantissa, exponent = np.frexp(inverses)
    return np.where(inverses > 0.0, (TOP - (exponent + 2.0 * mantissa)) * OCTAVE, 0.0)


@dataclass(frozen=True, slots=True)
class Lengths:
    """One column in place of the row: the level of its length before `Sphere` (`levels`)."""

    def __str__(self) -> str:
        return "keep the length of each row alone"


RowMap: TypeAlias = (
    Affine | Fill | Pairs | Sketch | Sphere | Clip | LeaveOut | Caps | Without | Project | Lengths
)
View: TypeAlias = tuple[RowMap, ...]

SPHERE: View = (Sphere(),)
"""What a plan without a view of its own does to rows that have no bound yet."""

BOUNDS = (Sphere, Clip)
_AFTER_BOUND = (*BOUNDS, LeaveOut, Caps, Project, Lengths)
_NO_BOUND = "A view must bound the length of a row (Sphere or Clip)"


def checked_view(view: View) -> View:
    """Return a view whose rows are bounded at the end, or raise ValueError.

    Behind the first bound only maps follow that shorten rows, or a projection and a new bound. A
    length is known behind a bound only, and a row is bounded once: its length is measured from the
    cells of the table or from the scores of a projection.
    """
    bounded = begun = False
    for place, row_map in enumerate(view):
        if isinstance(row_map, Without):
            allowed = place == 0
        elif isinstance(row_map, Affine):
            allowed = not begun and not any(isinstance(m, Affine) for m in view[:place])
        elif isinstance(row_map, Fill):  # it must know which cells are missing, and ends the cells
            after = view[place + 1 : place + 2]
            allowed = place > 0 and isinstance(view[place - 1], Affine)
            allowed = allowed and len(after) == 1 and isinstance(after[0], BOUNDS)
        elif isinstance(row_map, BOUNDS):
            allowed, bounded, begun = not bounded, True, True
        elif isinstance(row_map, Project):
            allowed, bounded = True, False
        else:
            allowed = bounded if isinstance(row_map, _AFTER_BOUND) else not begun
        if not allowed:
            msg = (
                f"The map '{row_map}' has no place here: bound the length of a row once (Sphere or "
                f"Clip), and again after a projection alone: {view_text(view)}."
            )
            raise ValueError(msg)
    if not bounded:
        ended = "A projection must be followed by Sphere" if begun else _NO_BOUND
        msg = f"{ended}: {view_text(view)}."
        raise ValueError(msg)
    return view


def view_text(view: View) -> str:
    """Return what happens to a row, in words."""
    return ", then ".join(str(row_map) for row_map in view) or "nothing"


def with_center(view: View, center: FloatArray) -> View:
    """Return the view with a centre that a release found, in the units of its scaled rows."""
    affine = affine_of(view)
    cells = center if affine.scale is None else center * affine.scale.array
    return with_affine(view, replace(affine, center=FrozenArray.of(cells)))


def affine_of(view: View) -> Affine:
    """Return the centre and the scale of a view."""
    for row_map in view:
        if isinstance(row_map, Affine):
            return row_map
    msg = "This view has no place for a centre: it has no Affine."
    raise ValueError(msg)


def with_affine(view: View, affine: Affine) -> View:
    """Return the view with another centre and scale."""
    return tuple(affine if isinstance(row_map, Affine) else row_map for row_map in view)


def with_bound(view: View, bound: Sphere | Clip) -> View:
    """Return the view up to its first bound, with another one in its place; no row is left out."""
    before = [m for m in view if not isinstance(m, (*_AFTER_BOUND, Without))]
    return (*before, bound)


def paired(view: View) -> bool:
    """Whether the rows of a view are differences of pairs."""
    return any(isinstance(row_map, Pairs) for row_map in view)


def bounded(view: View) -> bool:
    """Whether rows behind a view have length at most 1, if they had no bound before it."""
    last = [m for m in view if not isinstance(m, LeaveOut | Caps)][-1:]
    return any(isinstance(row_map, (*BOUNDS, Lengths)) for row_map in last)


def width(view: View, columns: int) -> int:
    """Return the number of columns behind a view of rows with so many columns."""
    for row_map in view:
        if isinstance(row_map, Sketch):
            columns = row_map.n_components
        elif isinstance(row_map, Project):
            columns = row_map.basis.shape[1]
        elif isinstance(row_map, Lengths):
            columns = 1
    return columns
