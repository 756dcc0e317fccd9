"""What both private estimators do with their rows: plan, charge, read, release, guarantee."""

from __future__ import annotations

import os
from collections.abc import Mapping
from math import isnan, nan
from typing import TYPE_CHECKING, Any, Self
from warnings import warn

import numpy as np
import numpy.typing as npt
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from stillspace._checks import (
    checked_bytes,
    checked_choice,
    checked_flag,
)
from stillspace._typing import FloatArray
from stillspace.estimators._base import SubspaceEstimator, generator
from stillspace.estimators._planning import USUAL_MEMORY, planned
from stillspace.estimators._source import FileTable, Source, source_of
from stillspace.estimators._summary import QUANTILES
from stillspace.estimators._tables import opened
from stillspace.estimators._validation import (
    check_labels,
    checked_budget,
    checked_journal,
    checked_public_size,
)
from stillspace.exceptions import (
    AsItIsWarning,
    LeftOutWarning,
    SeededNoiseWarning,
)
from stillspace.methods.newton.routes import RELEASED_UNITS, error_in_words
from stillspace.methods.pictures import ScoreMap, Scree
from stillspace.plans.fixed import fingerprint
from stillspace.plans.release import ROW_MARGIN
from stillspace.plans.staged import StagedPlan
from stillspace.plans.starts import GivenStart
from stillspace.privacy import RELATIONS, Guarantee
from stillspace.recipes import known_recipe
from stillspace.recipes.fits import distance_quantiles
from stillspace.rows import LabelledRows, Sketch, block_columns, label_codes, pair_block
from stillspace.rows.maps import affine_of, paired
from stillspace.rows.progress import progress
from stillspace.run import Result, most_passes, run

if TYPE_CHECKING:
    from stillspace.privacy import Budget

NONFINITE = ("center", "zero", "raise")
"""What happens to a cell that is NaN: it sits at the centre, its row counts as a zero row, or the
fit is refused."""

COLLAPSED = 0.95
"""Of the rows' second moment on the sphere: the share of one direction that calls for a word."""

_COLLAPSED = (
    "Nearly all rows point in one direction from the centre, so the other components are hardly "
    "more than noise. A column in large units or an unknown centre often causes this. Give center "
    "and scale, or leave both at 'auto'."
)
_LEFT_OUT = (
    "About {:.1%} of the rows lie close together and were left out as outliers (see left_out_). "
    "If they are a real minority, fit with groups='keep', which keeps all rows."
)
_SEEDED = "the noise was seeded by random_state: whoever knows the seed can remove it"
_AS_PRINTED = 'calibration="as-printed" is the noise that the paper prints, for reproduction only'


def _payments() -> Any:
    """Return what charges a ledger and keeps a journal: it loads a database, most fits do not."""
    from stillspace.estimators import _journal  # noqa: PLC0415

    return _journal


class PrivateEstimator(SubspaceEstimator):
    """The way of the data: public facts → plan → calibrated → charged → rows read → guarantee."""

    n_components: int | str | None
    epsilon: float
    delta: float | None
    center: npt.ArrayLike | str | None
    radius: float | None
    scale: npt.ArrayLike | str | None
    bounds: npt.ArrayLike | None
    missing_code: float | None
    sketch: int | str | Sketch | None
    summaries: tuple[str, ...]
    labels: tuple[Any, ...] | None
    neighboring_relation: str
    public_size: int | None
    rows_per_person: int
    nonfinite: str
    budget: Budget | None
    journal: str | os.PathLike[str] | None
    memory: int | str | None
    verbose: bool
    random_state: Any
    variances_: FloatArray | None

    def _fit(
        self,
        X: Any,
        y: Any,
        algorithm: str,
        options: Mapping[str, Any],
        *,
        calibration: str = "honest",
        norm_bound: float | None = None,
        cut_pairs: bool = False,
    ) -> Self:
        relation = checked_choice("neighboring_relation", self.neighboring_relation, RELATIONS)
        hidden = relation == "add-or-remove-one"
        raising = checked_choice("nonfinite", self.nonfinite, NONFINITE) == "raise"
        verbose, path = checked_flag("verbose", self.verbose), checked_journal(self.journal)
        if self.budget is not None or path is not None:
            _payments().check_payment(self.budget, path, algorithm)
        charged = self.budget is not None
        given = opened(X, self, hidden=hidden)
        source = source_of(given, hidden=hidden, finite=raising, charged=charged)
        check_labels(y, self.labels, source.shape[0], self.summaries)
        n = checked_public_size(relation, self.public_size, source.shape[0])
        epsilon, delta = checked_budget(self.epsilon, self.delta, n)
        plan = planned(
            self,
            n,
            source.shape[1],
            (epsilon, delta),
            algorithm,
            options,
            calibration,
            norm_bound,
            cut_pairs,
            self._memory_of(source),
        )
        source.check(plan)
        rng = generator(self.random_state)
        reasons = self._not_private_because(calibration)
        receipt, journal, stated = None, None, source.stated
        if self.budget is not None:
            # The event is also a ceiling of what runs. No cell was read so far; a charge stays,
            # come what may.
            about = {"name": algorithm, "delta": delta, "plan": fingerprint(plan)}
            charge = {**about, "not_private_because": reasons}
            found = _payments().paid(path, self.budget, plan, charge)
            receipt, journal = self.budget.receipt(found.entry), found.journal
            stated = (*stated, *found.stated)
        with progress(verbose, most_passes(plan)):
            rows = source.rows(self)
            if self.labels is not None:
                rows = LabelledRows(rows, label_codes(y, self.labels))
            # From here on the run alone reads rows.
            result = run(plan, rows, rng, journal=journal)
        self._set_result(result, plan)
        self.receipt_ = receipt
        self.privacy_ = Guarantee.from_event(
            result.event,
            plan.relation,
            delta,
            not_private_because=reasons,
            assumptions=self._assumptions(plan, n, block_columns(rows), stated),
        )
        if self._collapsed(result):
            warn(_COLLAPSED, AsItIsWarning, stacklevel=3)
        if self.left_out_:
            share = sum(group.share for group in self.left_out_)
            warn(_LEFT_OUT.format(share), LeftOutWarning, stacklevel=3)
        if self.random_state is not None:
            msg = (
                "random_state seeds the noise, so this fit is for experiments only and has no "
                "privacy guarantee; leave random_state out for a private fit."
            )
            warn(msg, SeededNoiseWarning, stacklevel=3)
        return self

    def _memory_of(self, source: Source) -> int:
        """Return the memory from which the widest sketch follows: a public fact."""
        if isinstance(source, FileTable):
            return source.table.memory
        return USUAL_MEMORY if self.memory is None else checked_bytes("memory", self.memory)

    def _set_result(self, result: Result, plan: StagedPlan) -> None:
        """Set what was found and what else was released, always the same attributes."""
        sketches = [row_map for row_map in result.view if isinstance(row_map, Sketch)]
        self.sketch_ = sketches[0] if sketches else None
        self.components_ = np.ascontiguousarray(result.V.T)
        D = len(result.V) if self.sketch_ is None else self.sketch_.n_features
        self.center_, self.scale_ = affine_of(result.view).vectors(D)
        self.n_iter_ = max(result.n_iter, 1)  # PCA alone is one pass
        self.plan_ = plan
        self.pair_cut_ = result.facts.get("pair_cut")
        self._set_released(result.facts)

    @staticmethod
    def _collapsed(result: Result) -> bool:
        """Whether the releases show rows along one line, in units that were not standardised."""
        affine, moment = affine_of(result.view), result.moment
        if moment is None or affine.scale is not None or result.V.shape[1] < 2:
            return False
        return bool(np.linalg.eigvalsh(moment)[-1] >= COLLAPSED * np.trace(moment))

    @property
    def error_meaning_(self) -> str:
        """What `error_estimate_` is an error to, or why it is not known."""
        check_is_fitted(self)
        words = error_in_words(self.route_, self.error_estimate_)
        stages = getattr(self.plan_, "stages", ())  # a model of an old file has no stages
        if isnan(self.error_estimate_):
            return words
        names = {stage.plan.name for stage in stages}
        if names & {"standardiser", "median"}:
            words += RELEASED_UNITS
        return words

    @property
    def n_components_(self) -> int:
        """The number of components."""
        check_is_fitted(self)
        return len(self.components_)

    @property
    def mean_(self) -> FloatArray:
        """The same as `center_`, under the name that scikit-learn's PCA gives it."""
        check_is_fitted(self)
        if isinstance(self.center, str) and self.center == "pairs":
            msg = (
                "This fit has no mean_: with center='pairs' the centre cancels. Use "
                "center='private' or center='median' to release a centre."
            )
            raise AttributeError(msg)
        return self.center_

    @property
    def explained_variance_(self) -> FloatArray:
        """`variances_`: of the rows as they were scaled, if the summary "variances" was bought."""
        check_is_fitted(self)
        if self.variances_ is None:
            msg = (
                "This private fit did not release its explained variance; fit with "
                'summaries=("variances",), which costs a part of the budget.'
            )
            raise AttributeError(msg)
        return np.asarray(self.variances_)

    @property
    def explained_variance_ratio_(self) -> FloatArray:
        """`explained_variance_` as a part of all variance: rows on the unit sphere have 1."""
        if getattr(self, "norm_bound", None) is not None:
            msg = (
                "With norm_bound there is no explained_variance_ratio_, because the total variance "
                "is not released; use explained_variance_."
            )
            raise AttributeError(msg)
        return self.explained_variance_

    def _set_released(self, facts: Mapping[str, Any]) -> None:
        self.error_estimate_ = float(facts.get("error_estimate", nan))
        self.route_ = str(facts.get("route", ""))
        self.left_out_ = tuple(facts.get("left_out", ()))
        dropped = facts.get("dropped", np.zeros(0, dtype=np.bool_))
        self.dropped_columns_ = np.flatnonzero(dropped)
        variances = facts.get("variances")
        r = len(self.components_)
        self.variances_ = None if variances is None else np.maximum(variances[:r], 0.0)
        self.certificate_ = facts.get("certificate")
        self.score_map_ = self.scree_ = None
        if "map_shares" in facts:
            numbers = facts["map_shares"], facts["map_length"], facts["map_sd"]
            self.score_map_ = ScoreMap(*numbers, tuple(self.labels or ()))
        if "scree" in facts:
            self.scree_ = Scree(facts["scree"], facts["scree_noise"])
        counts = facts.get("distances")
        levels = np.array(QUANTILES)
        self.distance_quantiles_ = None if counts is None else distance_quantiles(counts, levels)

    def _not_private_because(self, calibration: str) -> tuple[str, ...]:
        seeded = (_SEEDED,) if self.random_state is not None else ()
        printed = (_AS_PRINTED,) if calibration == "as-printed" else ()
        return seeded + printed

    def _assumptions(
        self, plan: StagedPlan, n: int, columns: int | None, source: tuple[str, ...]
    ) -> tuple[str, ...]:
        """Return what the guarantee takes for granted and what it does not cover (SPEC 4).

        `columns` is None where pairs of rows do not depend on the order of the rows.
        """
        k = self.rows_per_person
        given = isinstance(getattr(plan.main, "start", None), GivenStart)
        stated = [
            "each person owns one row" if k == 1 else f"each person owns at most {k} rows",
            f"the number of rows, {n}, is public"
            if self.neighboring_relation == "replace-one"
            else f"public_size={n} is public knowledge and there are at most {ROW_MARGIN * n} rows",
        ]
        if paired(plan.view) and pair_block(n, columns) < n:
            stated.append(
                "the order of the rows is public, because rows that are not in memory are paired "
                "by their place: the table was not sorted by what its rows hold"
            )
        given_vectors = any(
            not (v is None or isinstance(v, str)) for v in (self.center, self.scale)
        )
        named = {
            "center and scale": given_vectors,
            "radius": self.radius is not None,
            "bounds": self.bounds is not None,
            "missing_code": self.missing_code is not None,
            "the list of labels": self.labels is not None,
            "the given start": given,
        }
        some = ", ".join(name for name, there in named.items() if there)
        stated.append(
            "all parameters of the fit"
            + (f" ({some})" if some else "")
            + " are public, not computed from these rows"
        )
        if self.nonfinite == "raise":
            stated.append("it is public that no cell is NaN or infinite")
        stated += [
            *known_recipe(plan.name, private=True).stated,
            *source,
            "the names, the types and the number of the columns are public, and so is the fact "
            "that every cell is a number or missing",
            "nobody can predict the random numbers (ChaCha20, with a key from the operating "
            "system)",
            "not covered: what was done to the table before the fit, such as scaling by means of "
            "the same rows",
            "not covered: scores of private rows (transform reveals the rows that it is given)",
            *self._other_fits(),
            "not covered: the time that the fit took",
        ]
        return tuple(stated)

    def _other_fits(self) -> tuple[str, ...]:
        budget = self.budget
        if budget is None:
            return (
                "not covered: other fits on the same rows, whose privacy losses add up, and the "
                "choice among them",
            )
        return (
            f"all fits in the same ledger, and the choice among them, together satisfy "
            f"({budget.epsilon:g}, {budget.delta:g}) under {budget.neighboring_relation}",
            "not covered: fits on the same rows that were not charged to that ledger",
        )

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
