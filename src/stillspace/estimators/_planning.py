"""From the parameters of a private fit to its plan: public facts alone, no row.

The centre and the scale are given, found privately, or neither; wide rows are looked at through a
sketch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple
from warnings import warn

import numpy as np
import numpy.typing as npt

from stillspace._checks import (
    bytes_in_words,
    checked_positive,
    checked_whole,
    checked_words,
    described,
    is_whole,
)
from stillspace._frozen import FrozenArray
from stillspace.estimators._validation import checked_code, checked_components, checked_vector
from stillspace.exceptions import AsItIsWarning, NotAccountedError
from stillspace.methods.standardiser import STANDARDISER_RULE, kappa_of
from stillspace.plans.staged import StagedPlan
from stillspace.privacy import mu_from_budget
from stillspace.recipes import Facts
from stillspace.recipes.fits import SUMMARIES, Standardised, plan_fit
from stillspace.rows import Affine, Clip, Pairs, Sketch, Sphere
from stillspace.rows.maps import View
from stillspace.rows.maps import width as width_behind

if TYPE_CHECKING:
    from stillspace.estimators._private import PrivateEstimator

LARGEST_RADIUS = 1e300
"""Of a private centre: twice of it is still a number."""
MOST_COMPONENTS = 10
"""The largest number of components that n_components="auto" may choose."""

NARROWS = ("auto", "dp-newton")
"""Algorithms that narrow the rows of a sketch before they look for the subspace."""


@dataclass(frozen=True, slots=True)
class SketchRule:
    """How wide a sketch is, and how far its rows are narrowed (docs/wide.md)."""

    width: float = 0.36
    """Columns of a sketch for each unit of nμ, where one release must do with them. A sketch of m
    columns blurs a direction of variance λ by about λ/√m in each other direction, noise by
    1/(nμ), so that m grows with nμ …"""
    narrowed_width: float = 0.8
    """… and where rows are narrowed further."""
    least_width: int = 32
    """Columns, at least: of a sketch, and of its narrowed rows."""
    narrowing: int = 4
    """Rows of a sketch are narrowed to so many times fewer columns …"""
    least_per_component: int = 8
    """… if there are so many columns for each component."""
    nonzeros: int = 8
    """Entries per column of a sketch of a given width, at most."""


SKETCH_RULE = SketchRule()
"""What fits use."""
SEED = 0
"""Of the sketch, which is public."""

COPIES_OF_MOMENT = 6
"""Arrays of the size of a second moment that a release and its eigenvectors hold at once."""

USUAL_MEMORY = 8 * 10**9
"""Bytes from which the widest sketch follows, for rows in memory without a bound of their own."""


def auto_width(n: int, mu: float, factor: float = SKETCH_RULE.narrowed_width) -> int:
    """Return the width of a sketch that suits the budget."""
    return max(SKETCH_RULE.least_width, round(factor * n * mu))


def widest(memory: int) -> int:
    """Return the width of a sketch whose second moment takes at most half of the memory."""
    return max(SKETCH_RULE.least_width, int(sqrt(memory / 2 / (8 * COPIES_OF_MOMENT))))


def too_narrow(width: int, limit: int) -> str:
    """Return what a sketch loses by a limit on memory, as a sentence."""
    needed = bytes_in_words(2 * 8 * COPIES_OF_MOMENT * width**2)
    return (
        f"sketch='auto' takes {limit} columns instead of {width}, because memory is limited: it "
        f"blurs directions {sqrt(width / limit):.1f} times as much. All columns need about "
        f"memory='{needed.replace(' ', '')}'."
    )


def narrowed_width(columns: int, r: int) -> int | None:
    """Return to how many columns rows of a sketch are narrowed; None if there are too few."""
    rule = SKETCH_RULE
    width = columns // rule.narrowing
    return width if width >= max(rule.least_width, rule.least_per_component * r) else None


def chosen_sketch(
    sketch: Any,
    D: int,
    n: int,
    mu: float,
    factor: float = SKETCH_RULE.width,
    memory: int = USUAL_MEMORY,
) -> Sketch | None:
    """Return the sketch that a user asked for, or that wide rows need.

    "auto" projects where there are more columns than rows, to `factor` · nμ columns, or to as many
    as `memory` allows; a warning then says what that costs. All of this follows from public facts.
    """
    if sketch is None:
        return None
    if type(sketch) is Sketch:  # a subclass might mix rows
        if sketch.n_features != D:
            msg = (
                f"The sketch is made for {sketch.n_features} columns, but X has {D}; make a Sketch "
                f"for {D} columns."
            )
            raise ValueError(msg)
        return sketch
    if _is(sketch, "auto"):
        wanted, limit = auto_width(n, mu, factor), widest(memory)
        width = min(wanted, limit)
        if n >= D or 2 * width > D:
            return None
        if width < wanted:
            warn(too_narrow(wanted, limit), UserWarning, stacklevel=5)
        return Sketch(D, width, SEED)
    if not is_whole(sketch) or not 2 <= sketch < D:
        msg = (
            "sketch must be None, 'auto', a Sketch, or a whole number of columns below the number "
            f"of features, got {described(sketch)}."
        )
        raise ValueError(msg)
    return Sketch(D, int(sketch), SEED, nonzeros=min(SKETCH_RULE.nonzeros, int(sketch)))


WORDS = ("auto", "private")


class Units(NamedTuple):
    """Centre and scale as a fit takes them: a vector, a word other than "auto", or None."""

    center: Any
    scale: Any


def chosen_units(
    center: Any, scale: Any, *, mu: float, n: int, D: int, wide: bool, plain: bool
) -> Units:
    """Return what "auto" stands for; only public facts decide.

    "auto" is "private", unless the other of the two is given as something else: then it is None.
    Where a private centre and scale cannot be expected to work (few rows for the budget, or rows so
    `wide` that they are sketched) both are None, and a warning says so. `plain` fits have no place
    for a further stage: the paper's own noise, propose-test-release, and a start in the units of
    the table.
    """
    if not (_is(center, "auto") or _is(scale, "auto")):
        return Units(center, scale)
    others = [value for value in (center, scale) if not _is(value, "auto")]
    if plain or not all(_is(value, "private") for value in others):
        return Units(*(None if _is(value, "auto") else value for value in (center, scale)))
    kappa, needed = kappa_of(mu, n, D), STANDARDISER_RULE.safe_kappa
    if others or (kappa >= needed and not wide):
        return Units("private", "private")
    reason = (
        "it has more columns than rows"
        if wide
        else f"kappa = mu * n / sqrt(columns) is {kappa:.3g}, and {needed:g} is needed"
    )
    msg = (
        f"This table is too small to find center and scale privately ({reason}). So the columns "
        "keep their own units and offsets. If these differ, give center and scale as public "
        "numbers. If not, center=None and scale=None silence this warning."
    )
    warn(msg, AsItIsWarning, stacklevel=5)
    return Units(None, None)


def checked_bounds(bounds: npt.ArrayLike | None, D: int) -> FrozenArray | None:
    """Return public ranges of the columns, an array (D, 2); NaN where nothing is known."""
    if bounds is None:
        return None
    try:
        found = np.array(bounds, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        found = np.empty(0)
    if found.shape != (D, 2):
        got = f"shape {found.shape}" if found.size > 0 else described(bounds)
        msg = (
            f"bounds must hold two numbers (smallest, largest) per column, that is, be an array of "
            f"shape ({D}, 2), got {got}."
        )
        raise ValueError(msg)
    known = np.asarray(np.isfinite(found).all(axis=1))
    wrong = np.flatnonzero(known & ~(found[:, 0] < found[:, 1]))
    if len(wrong) > 0:
        low, high = found[wrong[0]]
        msg = (
            f"bounds of column {wrong[0]} must have the smaller number first, got ({low:g}, "
            f"{high:g}); use NaN where a range is not known."
        )
        raise ValueError(msg)
    return FrozenArray.of(np.where(known[:, None], found, np.nan))


def _is(value: Any, word: str) -> bool:
    """Whether a parameter, which may be an array, is this word."""
    return isinstance(value, str) and value == word


def planned(
    est: PrivateEstimator,
    n: int,
    D: int,
    budget: tuple[float, float],
    algorithm: str,
    options: Mapping[str, Any],
    calibration: str,
    norm_bound: float | None,
    cut_pairs: bool,
    memory: int = USUAL_MEMORY,
) -> StagedPlan:
    """Return the plan of the whole fit, from public facts alone."""
    pairs = _is(est.center, "pairs")
    size, mu = n // 2 if pairs else n, mu_from_budget(*budget)
    narrows = algorithm in NARROWS
    factor = SKETCH_RULE.narrowed_width if narrows else SKETCH_RULE.width
    sketch = chosen_sketch(est.sketch, D, size, mu, factor, memory)
    # a basis that the user gives to start from is in the units of the table
    given_start = not isinstance(options.get("start"), str | None)
    plain = algorithm == "ptr" or calibration != "honest" or given_start
    units = chosen_units(
        est.center, est.scale, mu=mu, n=size, D=D, wide=sketch is not None, plain=plain
    )
    view = _view(est, units, D, sketch, pairs, norm_bound)
    columns = width_behind(view, D)
    facts = _facts(est, size, columns, *budget, calibration, pairs)
    return plan_fit(
        algorithm,
        facts,
        options,
        view,
        D,
        standardised=_standardised(est, units, D, pairs, sketch),
        radius=_checked_radius(est, sketch),
        cut_pairs=cut_pairs,
        narrowed=narrowed_width(columns, facts.r) if narrows and sketch is not None else None,
        summaries=checked_words("summaries", est.summaries, SUMMARIES),
    )


def _view(
    est: PrivateEstimator,
    units: Units,
    D: int,
    sketch: Sketch | None,
    pairs: bool,
    norm_bound: float | None,
) -> View:
    """Return what is done to a row, as far as it is known before the fit."""
    if pairs and est.neighboring_relation != "replace-one":
        msg = (
            "center='pairs' is private only under replace-one, because one additional row would "
            "change all pairs; use neighboring_relation='replace-one' or another center."
        )
        raise NotAccountedError(msg)
    found = pairs or _is(est.center, "median") or _is(units.center, "private")
    scale = None if _is(units.scale, "private") else units.scale
    words = (*WORDS, "pairs", "median")
    affine = Affine.of(
        None if found else checked_vector("center", units.center, D, words=words),
        checked_vector("scale", scale, D, positive=True, words=WORDS),
        checked_code("missing_code", est.missing_code),
        holes=est.nonfinite == "center",
    )
    bound = Sphere() if norm_bound is None else Clip(norm_bound)
    middle = (Pairs(),) if pairs else ()
    return (affine, *middle, *(() if sketch is None else (sketch,)), bound)


def _standardised(
    est: PrivateEstimator, units: Units, D: int, pairs: bool, sketch: Sketch | None
) -> Standardised | None:
    """Return what is to be found privately for every column, if anything is."""
    bounds = checked_bounds(est.bounds, D)
    wanted = Standardised(_is(units.center, "private"), _is(units.scale, "private"), bounds)
    if not wanted.center and not wanted.scale:
        if bounds is not None and not (_is(est.center, "auto") and _is(est.scale, "auto")):
            msg = (
                "bounds are only for center='private' or scale='private'; ask for one of these, or "
                "leave bounds out."
            )
            raise ValueError(msg)
        return None
    if pairs or sketch is not None or _is(est.center, "median"):
        other = "a sketch" if sketch is not None else f"center={est.center!r}"
        msg = (
            f"scale='private' does not go with {other}; use center='private' and "
            "sketch=None, or give the scale as public numbers."
        )
        raise ValueError(msg)
    return wanted


def _checked_radius(est: PrivateEstimator, sketch: Sketch | None) -> float | None:
    """Return the public bound on the centre's distance, if the centre is to be found."""
    if not _is(est.center, "median"):
        if est.radius is not None:
            msg = "radius is only for center='median'; ask for it, or leave radius out."
            raise ValueError(msg)
        return None
    if est.radius is None:
        msg = (
            "center='median' needs radius, a public bound on the distance of the centre "
            "from the origin (after scale)."
        )
        raise ValueError(msg)
    radius = checked_positive("radius", est.radius)
    if radius > LARGEST_RADIUS:
        msg = f"radius must be at most {LARGEST_RADIUS:g}, got {radius:g}."
        raise ValueError(msg)
    if sketch is not None:
        msg = (
            "center='median' of this many columns would be nothing but noise; use center='pairs', "
            "a public vector, or sketch=None."
        )
        raise ValueError(msg)
    return radius


def _facts(
    est: PrivateEstimator,
    size: int,
    columns: int,
    epsilon: float,
    delta: float,
    calibration: str,
    pairs: bool,
) -> Facts:
    """Return the public facts that all plans depend on."""
    choose = _is(est.n_components, "auto")
    most = min(MOST_COMPONENTS, columns - 1, size)
    wanted = most if choose else est.n_components
    unit = "pairs of rows" if pairs else "rows"
    return Facts(
        n=size,
        D=columns,
        r=checked_components(wanted, columns, size, unit),
        choose_components=choose,
        epsilon=epsilon,
        delta=delta,
        relation=est.neighboring_relation,  # type: ignore[arg-type]
        rows_per_person=checked_whole("rows_per_person", est.rows_per_person),
        calibration=calibration,  # type: ignore[arg-type]
        unit=unit,
        n_labels=0 if est.labels is None else len(est.labels),
    )
