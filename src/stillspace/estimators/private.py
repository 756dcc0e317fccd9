"""`PrivateRobustPCA` and `PrivatePCA`: subspaces under differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import nan
from typing import Any, Self
from warnings import warn

import numpy as np
import numpy.typing as npt
from sklearn.utils import Tags

from stillspace._typing import FloatArray
from stillspace.estimators._base import SubspaceEstimator, generator, merged_options, oriented
from stillspace.estimators._validation import (
    as_array,
    checked_array,
    checked_budget,
    checked_choice,
    checked_code,
    checked_components,
    checked_count,
    checked_names,
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
from stillspace.plan import GivenStart, fingerprint
from stillspace.privacy import Budget, Guarantee, mu_from_budget
from stillspace.privacy.events import NOTHING
from stillspace.recipes import Facts
from stillspace.recipes.facts import AnyPlan
from stillspace.release import ROW_MARGIN, checked_event
from stillspace.rows import draw_pairs
from stillspace.run import Result
from stillspace.sketch import Sketch
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


class _PrivateEstimator(SubspaceEstimator):
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
        hidden = self.neighboring_relation == "add-or-remove-one"
        raising = checked_choice("nonfinite", self.nonfinite, ("zero", "raise")) == "raise"
        checked_choice("calibration", calibration, ("honest", "as-printed"))
        X = self._with_shape(X)
        told, D = checked_shape(X, hidden=hidden)
        n = checked_public_size(self.neighboring_relation, self.public_size, told)
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
            summaries=checked_names("summaries", self.summaries, tuple(SUMMARIES)),
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


class PrivateRobustPCA(_PrivateEstimator):
    """Find the subspace that most rows lie close to, with (ε, δ)-differential privacy.

    What is published, `components_`, hardly depends on any single row: an outlier among them,
    or a person. Rows are scaled to the unit sphere; each iteration releases a gradient with
    calibrated Gaussian noise. Rows with NaN or infinity count as zero rows, silently.

    Parameters
    ----------
    n_components : int or "auto", default=None
        Dimension of the subspace, below the number of features; None means 2 (1 for two
        features). "auto" takes the number, up to 10, that stands out of the noisy second moment
        with which "auto", "dp-newton" and "dp-pca" begin: it costs nothing.
    epsilon : float, default=1.0
    delta : float, default=None
        None means `min(n^−1.5, 1e-6)`.
    algorithm : str, default="auto"
        "auto", which is "dp-newton" (docs/newton.md); "dp-pca"; "ptr", propose-test-release for
        nearly noiseless inliers, which may release nothing (an error says so); or one of the
        paper's: "dp-ggd", "dp-sggd", "dp-gd-reap", "dp-sgd-reap", "dp-md-reap", "dp-smd-reap".
    center : array of shape (n_features,), "pairs", "median" or None, default=None
        A *public* vector, subtracted from every row; None means the origin, through which the
        subspace then goes. "pairs" fits differences of random disjoint pairs of rows, in which an
        unknown centre cancels (`center_` stays zero); where a twentieth of the budget shows that
        long differences come from outliers far away, it leaves them out (docs/newton.md, "An
        unknown centre"). "median" buys a private geometric median with a tenth of the budget, and
        needs `radius`; outliers that sit together away from the inliers' centre lead it astray.
        Take "pairs" unless you need `center_`, or know that outliers lie on all sides.
    radius : float, default=None
        For "median": a *public* bound on the distance of the centre from the origin.
    scale : array of shape (n_features,), default=None
        A *public* vector, divided into every row after centring.
    missing_code : number, default=None
        A *public* number, such as 9 or -1 in a genotype matrix, that stands for a missing cell.
        Such a cell sits at the centre.
    sketch : "auto", int, Sketch or None, default="auto"
        A public random projection to fewer columns before the fit. "auto" projects only where
        there are more columns than rows, to a width that suits the budget. `components_` then
        live in the sketch; `transform` takes rows as they are. "auto" and "dp-newton" narrow the
        rows of a wide sketch further, to directions that a first release finds (docs/wide.md).
    summaries : tuple of {"variances", "distances"}, default=()
        Further private releases, a twentieth of the budget each: variances along the components
        (zero rows count), quantiles of the orthogonal distance. Both are of rows scaled to the
        sphere.
    n_iter : int, default=None
        Exact number of iterations; None means the algorithm's own. The paper uses n.
    batch_size : int, default=None
        Expected rows a step, for the stochastic algorithms; None means the paper's.
    algorithm_options : mapping, default=None
        Further options of the algorithm: "schedule", "start", "share", "geometry", "output",
        "sampling", "capped". A wrong name lists the right ones.
    neighboring_relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Which data sets must be hard to tell apart. Under "replace-one" the number of rows is
        public; "add-or-remove-one" keeps it secret and needs `public_size`.
    public_size : int, default=None
        A public, rough number of rows, for "add-or-remove-one".
    rows_per_person : int, default=1
        Protect people who own up to this many rows.
    calibration : {"honest", "as-printed"}, default="honest"
        "as-printed" reproduces the paper's noise; it promises nothing and says what it would
        really give.
    nonfinite : {"zero", "raise"}, default="zero"
    budget : Budget, default=None
        A ledger that all fits on these rows share. The fit is charged to it before a cell is
        read, and stays charged; if too little is left, it is refused and nothing is read.
    random_state : int, RandomState, Generator or None, default=None
        None draws the noise from a cryptographic generator seeded by the system. Anything else
        is for experiments: the fit then says that it is not private.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Orthonormal rows.
    privacy_ : Guarantee
        What is promised, computed from what ran; `print(est.privacy_)` says it in words.
    plan_ : Plan
        What ran, public facts only.
    n_iter_ : int
        Passes over the rows for the subspace; it follows from public facts and releases.
    center_, scale_ : arrays of shape (n_features,)
    sketch_ : Sketch or None
    error_estimate_ : float
        For "auto": what the releases tell of the squared error d², for subspaces near the right
        one; it cannot see that a fit went to a wrong one. NaN where nothing is known.
    route_ : str
        For "auto": which way its releases made it go.
    variances_ : array of shape (n_components,) or None
        With the summary "variances".
    distance_quantiles_ : array or None
        With the summary "distances": 25, 50, 75, 90, 95 and 97.5 % quantiles, over the rows that
        are not zero rows.
    pair_cut_ : float or None
        With center="pairs": the length (after `scale` and `sketch`) from which differences were
        left out, that is, counted as zero rows; None where none were.

    Examples
    --------
    >>> from stillspace import PrivateRobustPCA
    >>> from stillspace.datasets import make_haystack
    >>> from stillspace.metrics import subspace_error
    >>> data = make_haystack(5000, 20, 2, inlier_noise=0.05, random_state=0)
    >>> est = PrivateRobustPCA(n_components=2, epsilon=1.0).fit(data.X)
    >>> est.privacy_.private, est.privacy_.epsilon <= 1.0
    (True, True)
    >>> bool(subspace_error(est.components_, data.components) < 0.01)
    True
    """

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        algorithm: str = "auto",
        center: npt.ArrayLike | str | None = None,
        radius: float | None = None,
        scale: npt.ArrayLike | None = None,
        missing_code: float | None = None,
        sketch: int | str | Sketch | None = "auto",
        summaries: tuple[str, ...] = (),
        n_iter: int | None = None,
        batch_size: int | None = None,
        algorithm_options: Mapping[str, Any] | None = None,
        neighboring_relation: str = "replace-one",
        public_size: int | None = None,
        rows_per_person: int = 1,
        calibration: str = "honest",
        nonfinite: str = "zero",
        budget: Budget | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.algorithm = algorithm
        self.center = center
        self.radius = radius
        self.scale = scale
        self.missing_code = missing_code
        self.sketch = sketch
        self.summaries = summaries
        self.n_iter = n_iter
        self.batch_size = batch_size
        self.algorithm_options = algorithm_options
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.rows_per_person = rows_per_person
        self.calibration = calibration
        self.nonfinite = nonfinite
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the subspace; `y` is ignored. The budget (epsilon, delta) is spent by this call."""
        named = {"n_iter": self.n_iter, "batch_size": self.batch_size}
        options = merged_options(named, self.algorithm_options)
        # Neither the paper nor propose-test-release has a place for further releases.
        cut = self.calibration == "honest" and self.algorithm != "ptr"
        return self._fit(X, self.algorithm, options, calibration=self.calibration, cut_pairs=cut)


class PrivatePCA(_PrivateEstimator):
    """PCA with Gaussian noise on the second moment, (ε, δ)-differentially private.

    One release. A good choice for clean and noisy tables; use `PrivateRobustPCA` when some rows
    may be outliers.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the subspace, below the number of features; None means 2 (1 for two
        features).
    epsilon : float, default=1.0
    delta : float, default=None
        None means `min(n^−1.5, 1e-6)`.
    norm_bound : float, default=None
        None scales every row to the unit sphere; a *public* number clips rows to that norm, so
        that longer rows count more.
    center, radius, scale, missing_code, sketch, summaries, neighboring_relation, public_size, \
    rows_per_person, nonfinite, budget, random_state
        As for `PrivateRobustPCA`, but "pairs" leaves no difference out.

    Attributes
    ----------
    components_, privacy_, plan_, n_iter_, center_, scale_, sketch_, variances_
        As for `PrivateRobustPCA`.

    Examples
    --------
    >>> from stillspace import PrivatePCA
    >>> from stillspace.datasets import make_haystack
    >>> data = make_haystack(5000, 20, 2, inlier_ratio=1.0, inlier_noise=0.5, random_state=0)
    >>> PrivatePCA(n_components=2, epsilon=1.0).fit(data.X).components_.shape
    (2, 20)
    """

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        norm_bound: float | None = None,
        center: npt.ArrayLike | str | None = None,
        radius: float | None = None,
        scale: npt.ArrayLike | None = None,
        missing_code: float | None = None,
        sketch: int | str | Sketch | None = "auto",
        summaries: tuple[str, ...] = (),
        neighboring_relation: str = "replace-one",
        public_size: int | None = None,
        rows_per_person: int = 1,
        nonfinite: str = "zero",
        budget: Budget | None = None,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.center = center
        self.radius = radius
        self.scale = scale
        self.missing_code = missing_code
        self.sketch = sketch
        self.summaries = summaries
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.rows_per_person = rows_per_person
        self.nonfinite = nonfinite
        self.budget = budget
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the subspace; `y` is ignored. The budget (epsilon, delta) is spent by this call."""
        bound = self.norm_bound
        if bound is not None:
            bound = checked_positive("norm_bound", bound)
        return self._fit(X, "dp-pca", {}, norm_bound=bound)
