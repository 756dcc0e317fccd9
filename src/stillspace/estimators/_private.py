"""What both private estimators do with their rows: plan, charge, read, release, guarantee."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import nan
from typing import Any, Self
from warnings import warn

import numpy as np
import numpy.typing as npt
from sklearn.utils import Tags

from stillspace._shown import checked_words
from stillspace._typing import FloatArray
from stillspace.estimators._base import SubspaceEstimator, generator, oriented
from stillspace.estimators._validation import (
    as_array,
    checked_array,
    checked_budget,
    checked_choice,
    checked_code,
    checked_components,
    checked_count,
    checked_positive,
    checked_public_size,
    checked_shape,
    checked_type,
    checked_vector,
    told_shape,
)
from stillspace.estimators._view import (
    NARROWED_WIDTH,
    SKETCH_WIDTH,
    View,
    chosen_sketch,
    narrowed_width,
)
from stillspace.exceptions import NotAccountedError, SeededNoiseWarning
from stillspace.plans.fixed import GivenStart, fingerprint
from stillspace.plans.release import ROW_MARGIN, checked_event
from stillspace.privacy import RELATIONS, Budget, Guarantee, mu_from_budget
from stillspace.privacy.events import NOTHING
from stillspace.recipes import Facts
from stillspace.recipes.facts import AnyPlan
from stillspace.rows import draw_pairs
from stillspace.rows.sketch import Sketch
from stillspace.run import Result
from stillspace.stages import SUMMARIES, distance_quantiles, plan_stages

LARGEST_RADIUS = 1e300
MOST_COMPONENTS = 10
"""The largest number of components that n_components="auto" may choose."""

NARROWS = ("auto", "dp-newton")
"""Algorithms that narrow the rows of a sketch before they look for the subspace."""

QUANTILES = (0.25, 0.5, 0.75, 0.9, 0.95, 0.975)
"""Levels of `distance_quantiles_`."""

_SEEDED = "the noise was seeded by random_state: whoever knows the seed can remove it"
_AS_PRINTED = 'calibration="as-printed" is the noise that the paper prints, for reproduction only'


class PrivateEstimator(SubspaceEstimator):
    """The way of the data: public facts → plan → calibrated → charged → rows read → guarantee."""

    n_components: int | str | None
    epsilon: float
    delta: float | None
    center: npt.ArrayLike | str | None
    radius: float | None
    scale: npt.ArrayLike | None
    missing_code: float | None
    sketch: int | str | Sketch | None
    summaries: tuple[str, ...]
    neighboring_relation: str
    public_size: int | None
    rows_per_person: int
    nonfinite: str
    budget: Budget | None
    random_state: Any

    def _fit(
        self,
        X: Any,
        algorithm: str,
        options: Mapping[str, Any],
        *,
        calibration: str = "honest",
        norm_bound: float | None = None,
        cut_pairs: bool = False,
    ) -> Self:
        relation = checked_choice("neighboring_relation", self.neighboring_relation, RELATIONS)
        hidden = relation == "add-or-remove-one"
        raising = checked_choice("nonfinite", self.nonfinite, ("zero", "raise")) == "raise"
        X = self._with_shape(X)
        told, D = checked_shape(X, hidden=hidden)
        n = checked_public_size(relation, self.public_size, told)
        epsilon, delta = checked_budget(self.epsilon, self.delta, n)
        view = self._view(D, n, mu_from_budget(epsilon, delta), narrows=algorithm in NARROWS)
        facts = self._facts(view, epsilon, delta, calibration)
        narrows = algorithm in NARROWS and view.sketch is not None
        stages = plan_stages(
            algorithm,
            facts,
            options,
            median=view.radius is not None,
            cut=cut_pairs and view.paired,
            narrowed=narrowed_width(view.n_columns, facts.r) if narrows else None,
            summaries=checked_words("summaries", self.summaries, tuple(SUMMARIES)),
        )
        rng = generator(self.random_state)
        reasons = self._not_private_because(calibration)
        if self.budget is not None:
            # The event is also a ceiling of what runs. No cell was read so far; a charge stays,
            # come what may.
            self.budget.charge(
                stages.event(),
                stages.main.relation,
                name=algorithm,
                delta=delta,
                plan=fingerprint(stages if stages.several else stages.main),
                not_private_because=reasons,
            )
        pairs = draw_pairs(told, rng) if view.paired else None
        least = 0 if hidden else 2
        X = checked_array(self, X, reset=True, min_samples=least, finite=raising, hidden=hidden)
        if X.shape != (told, D):
            msg = "X did not have the shape that it told; pass a plain array."
            raise ValueError(msg)
        # From here on a row is read only through a Release.
        event = NOTHING
        if stages.median is not None:
            assert view.radius is not None
            wide = 2.0 * view.radius
            found = stages.find_center(view.rows(X, norm_bound=wide), rng)
            view = replace(view, center=view.in_cells(wide * found.V))
            event += found.event
        rows = view.rows(X, norm_bound=norm_bound, pairs=pairs)
        rows, pair_cut, ran = stages.leave_out(rows, rng)
        event += ran
        result = stages.find_subspace(rows, rng)
        event += result.event
        components = oriented(result.V, result.moment)
        summaries, ran = stages.summarize(rows, components.T, rng)
        event = checked_event(event + ran, stages.event())
        self._set_subspace(result, view.center, view.scale, view.sketch)
        self._set_released(result, summaries)
        self.pair_cut_ = pair_cut
        self.plan_ = stages.main
        self.privacy_ = Guarantee.from_event(
            event,
            stages.main.relation,
            delta,
            not_private_because=reasons,
            assumptions=self._assumptions(stages.main, n),
        )
        if self.random_state is not None:
            msg = "random_state seeds the noise: this fit is for experiments and promises nothing."
            warn(msg, SeededNoiseWarning, stacklevel=3)
        return self

    def _view(self, D: int, n: int, mu: float, *, narrows: bool) -> View:
        """Return how rows are seen, from public facts alone."""
        paired = isinstance(self.center, str) and self.center == "pairs"
        median = isinstance(self.center, str) and self.center == "median"
        if paired and self.neighboring_relation != "replace-one":
            msg = (
                "center='pairs' is private under replace-one only (a row more would change all "
                "pairs); use neighboring_relation='replace-one' or another centre."
            )
            raise NotAccountedError(msg)
        radius = None
        if median:
            if self.radius is None:
                msg = (
                    "center='median' needs radius, a public bound on the distance of the centre "
                    "from the origin (after scale)."
                )
                raise ValueError(msg)
            radius = checked_positive("radius", self.radius)
            if radius > LARGEST_RADIUS:
                msg = f"radius must be at most {LARGEST_RADIUS:g}, got {radius:g}."
                raise ValueError(msg)
        elif self.radius is not None:
            msg = "radius is for center='median'; leave it out."
            raise ValueError(msg)
        factor = NARROWED_WIDTH if narrows else SKETCH_WIDTH
        sketch = chosen_sketch(self.sketch, D, n // 2 if paired else n, mu, factor)
        if median and sketch is not None:
            msg = (
                "center='median' of so many columns would be noise alone; use center='pairs', a "
                "public vector, or sketch=None."
            )
            raise ValueError(msg)
        words = ("pairs", "median")
        found = paired or median
        return View(
            center=None if found else checked_vector("center", self.center, D, words=words),
            scale=checked_vector("scale", self.scale, D, positive=True),
            missing=checked_code("missing_code", self.missing_code),
            sketch=sketch,
            n_rows=n // 2 if paired else n,
            n_columns=D if sketch is None else sketch.n_components,
            paired=paired,
            radius=radius,
        )

    def _facts(self, view: View, epsilon: float, delta: float, calibration: str) -> Facts:
        """Return the public facts that all plans depend on."""
        choose = isinstance(self.n_components, str) and self.n_components == "auto"
        most = min(MOST_COMPONENTS, view.n_columns - 1, view.n_rows)
        wanted = most if choose else self.n_components
        unit = "pairs of rows" if view.paired else "rows"
        return Facts(
            n=view.n_rows,
            D=view.n_columns,
            r=checked_components(wanted, view.n_columns, view.n_rows, unit),
            choose_components=choose,
            epsilon=epsilon,
            delta=delta,
            relation=self.neighboring_relation,  # type: ignore[arg-type]
            rows_per_person=checked_count("rows_per_person", self.rows_per_person),
            calibration=calibration,  # type: ignore[arg-type]
            unit=unit,
        )

    def _set_released(self, result: Result, summaries: Mapping[str, FloatArray]) -> None:
        """Set what else was released, always the same attributes."""
        self.error_estimate_ = float(result.facts.get("error_estimate", nan))
        self.route_ = str(result.facts.get("route", ""))
        variances = summaries.get("variances")
        r = len(self.components_)
        self.variances_ = None if variances is None else np.maximum(variances[:r], 0.0)
        counts = summaries.get("distances")
        levels = np.array(QUANTILES)
        self.distance_quantiles_ = None if counts is None else distance_quantiles(counts, levels)

    def _with_shape(self, X: Any) -> Any:
        """Return X, converted if its shape cannot be told otherwise and no budget forbids it."""
        checked_type("budget", self.budget, Budget)
        if told_shape(X) is not None:
            return X
        if self.budget is not None:
            msg = (
                f"the shape of a {type(X).__name__} cannot be told without reading it, and with a "
                "budget nothing is read before it is charged; pass an array or a data frame."
            )
            raise TypeError(msg)
        return as_array(X)

    def _not_private_because(self, calibration: str) -> tuple[str, ...]:
        seeded = (_SEEDED,) if self.random_state is not None else ()
        printed = (_AS_PRINTED,) if calibration == "as-printed" else ()
        return seeded + printed

    def _assumptions(self, plan: AnyPlan, n: int) -> tuple[str, ...]:
        """Return what the guarantee takes for granted and what it does not cover (SPEC 4)."""
        k = self.rows_per_person
        stated = [
            "each person owns one row" if k == 1 else f"each person owns at most {k} rows",
            f"the number of rows, {n}, is public"
            if self.neighboring_relation == "replace-one"
            else f"public_size={n} is public knowledge and there are at most {ROW_MARGIN * n} rows",
        ]
        stated.append(
            "all parameters of the fit"
            + (", center and scale" if self.center is not None or self.scale is not None else "")
            + (", radius" if self.radius is not None else "")
            + (", missing_code" if self.missing_code is not None else "")
            + (", the given start" if isinstance(getattr(plan, "start", None), GivenStart) else "")
            + " are public, not computed from these rows"
        )
        if self.nonfinite == "raise":
            stated.append("that no entry is NaN or infinite is public")
        stated += [
            "the names, types and number of the columns are public, and that every cell reads as a "
            "number or is missing",
            "the words of the ChaCha20 generator, keyed by the system, are as good as random",
            "not covered: what was done to X before fit, such as a scaler fitted on the rows",
            "not covered: the scores of private rows (transform shows the rows it is given)",
            *self._other_fits(),
            "not covered: the time that the fit took",
        ]
        return tuple(stated)

    def _other_fits(self) -> tuple[str, ...]:
        budget = self.budget
        if budget is None:
            return (
                "not covered: other fits on the same rows (their losses add up), choosing among "
                "them",
            )
        return (
            f"all fits charged to its ledger, and the choice among them, are covered together: "
            f"({budget.epsilon:g}, {budget.delta:g}) under {budget.neighboring_relation}",
            "not covered: fits on the same rows that were not charged to that ledger",
        )

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
