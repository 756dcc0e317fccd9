"""`PrivateRobustPCA` and `PrivatePCA`: subspaces under differential privacy."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self
from warnings import warn

import numpy.typing as npt
from sklearn.utils import Tags

from stillspace.estimators._base import SubspaceEstimator, generator, merged_options
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
from stillspace.exceptions import SeededNoiseWarning
from stillspace.plan import GivenStart, Plan, fingerprint
from stillspace.privacy import Budget, Guarantee
from stillspace.recipes import Facts, make_plan
from stillspace.release import ROW_MARGIN
from stillspace.rows import MemoryRows
from stillspace.run import run

_SEEDED = "the noise was seeded by random_state: whoever knows the seed can remove it"
_AS_PRINTED = 'calibration="as-printed" is the noise that the paper prints, for reproduction only'


class _PrivateEstimator(SubspaceEstimator):
    """The way of the data: public facts → plan → calibrated → charged → rows read → guarantee."""

    n_components: int | None
    epsilon: float
    delta: float | None
    center: npt.ArrayLike | None
    scale: npt.ArrayLike | None
    missing_code: float | None
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
    ) -> Self:
        hidden = self.neighboring_relation == "add-or-remove-one"
        raising = checked_choice("nonfinite", self.nonfinite, ("zero", "raise")) == "raise"
        checked_choice("calibration", calibration, ("honest", "as-printed"))
        X = self._with_shape(X)
        told, D = checked_shape(X, hidden=hidden)
        n = checked_public_size(self.neighboring_relation, self.public_size, told)
        epsilon, delta = checked_budget(self.epsilon, self.delta, n)
        center = checked_vector("center", self.center, D)
        scale = checked_vector("scale", self.scale, D, positive=True)
        missing = checked_code("missing_code", self.missing_code)
        facts = Facts(
            n=n,
            D=D,
            r=checked_components(self.n_components, D, n),
            epsilon=epsilon,
            delta=delta,
            relation=self.neighboring_relation,  # type: ignore[arg-type]
            rows_per_person=checked_count("rows_per_person", self.rows_per_person),
            calibration=calibration,  # type: ignore[arg-type]
        )
        plan = make_plan(algorithm, facts, **options)
        rng = generator(self.random_state)
        reasons = self._not_private_because(calibration)
        if self.budget is not None:
            # The event is also a ceiling of what runs. (Shares that depend on releases would be
            # charged their ceiling here.) No cell was read so far; a charge stays, come what may.
            self.budget.charge(
                plan.event(),
                facts.relation,
                name=plan.name,
                delta=delta,
                plan=fingerprint(plan),
                not_private_because=reasons,
            )
        X = checked_array(self, X, reset=True, min_samples=0 if hidden else 2, finite=raising)
        if X.shape != (told, D):
            msg = "X did not have the shape that it told; pass a plain array."
            raise ValueError(msg)
        # From here on a row is read only through a Release.
        rows = MemoryRows.prepare(
            X, center=center, scale=scale, norm_bound=norm_bound, missing=missing
        )
        result = run(plan, rows, rng)
        self._set_subspace(result, center, scale)
        self.plan_ = plan
        self.privacy_ = Guarantee.from_event(
            result.event,
            facts.relation,
            delta,
            not_private_because=reasons,
            assumptions=self._assumptions(plan, n),
        )
        if self.random_state is not None:
            msg = "random_state seeds the noise: this fit is for experiments and promises nothing."
            warn(msg, SeededNoiseWarning, stacklevel=3)
        return self

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

    def _assumptions(self, plan: Plan, n: int) -> tuple[str, ...]:
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
            + (", missing_code" if self.missing_code is not None else "")
            + (", the given start" if isinstance(plan.start, GivenStart) else "")
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
    n_components : int, default=None
        Dimension of the subspace, below the number of features; None means 2 (1 for two
        features).
    epsilon : float, default=1.0
    delta : float, default=None
        None means `min(n^−1.5, 1e-6)`.
    algorithm : str, default="auto"
        "auto", "dp-ggd", "dp-sggd", "dp-gd-reap", "dp-sgd-reap", "dp-md-reap", "dp-smd-reap" or
        "dp-pca".
    center, scale : array of shape (n_features,), default=None
        *Public* vectors, subtracted from and divided into every row. None means the origin: the
        subspace goes through it, so give a public centre where the data has another one.
    missing_code : number, default=None
        A *public* number, such as 9 or -1 in a genotype matrix, that stands for a missing cell.
        Such a cell sits at the centre.
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
    center_, scale_ : arrays of shape (n_features,)

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
        n_components: int | None = None,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        algorithm: str = "auto",
        center: npt.ArrayLike | None = None,
        scale: npt.ArrayLike | None = None,
        missing_code: float | None = None,
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
        self.scale = scale
        self.missing_code = missing_code
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
        return self._fit(X, self.algorithm, options, calibration=self.calibration)


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
    center, scale, missing_code, neighboring_relation, public_size, rows_per_person : as there
    nonfinite, budget, random_state
        As for `PrivateRobustPCA`.

    Attributes
    ----------
    components_, privacy_, plan_, n_iter_, center_, scale_
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
        n_components: int | None = None,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        norm_bound: float | None = None,
        center: npt.ArrayLike | None = None,
        scale: npt.ArrayLike | None = None,
        missing_code: float | None = None,
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
        self.scale = scale
        self.missing_code = missing_code
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
