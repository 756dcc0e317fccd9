"""`PrivateRobustPCA` and `PrivatePCA`: the estimators with a privacy guarantee."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

import numpy.typing as npt

from stillspace._checks import checked_choice, checked_positive
from stillspace.estimators._base import merged_options
from stillspace.estimators._private import PrivateEstimator
from stillspace.recipes import GROUPS, known_recipe
from stillspace.recipes.facts import CALIBRATIONS
from stillspace.rows import Sketch

if TYPE_CHECKING:
    from stillspace.privacy import Budget


class PrivateRobustPCA(PrivateEstimator):
    """Find the subspace that most rows lie close to, with (ε, δ)-differential privacy.

    Outliers do not pull the components away, and `components_` may be published: `privacy_` limits
    what anyone can learn from them about a single person in the data. The centre and the scale of
    every column are found privately, unless you give them. Then every row is scaled to length 1,
    and each iteration releases a sum over the rows with calibrated Gaussian noise. `components_`
    are directions of the rows after centring and scaling.

    Parameters
    ----------
    n_components : int or "auto", default=None
        Dimension of the subspace, below the number of features; None means 2 (1 for two
        features). "auto" takes the number, up to 10, that stands out of the noisy second moment
        with which "auto", "dp-newton" and "dp-pca" begin: it costs nothing.
    epsilon : float, default=1.0
        Privacy loss ε of this fit. Smaller is more private and less accurate.
    delta : float, default=None
        The second number δ of the guarantee; it should be far below 1/n. None means
        `min(n^−1.5, 1e-6)`.
    algorithm : str, default="auto"
        "auto", which is "dp-newton" (docs/newton.md); "dp-pca"; "ptr", propose-test-release for
        nearly noiseless inliers, which may release nothing (an error says so); or one of the
        paper's: "dp-ggd", "dp-sggd", "dp-gd-reap", "dp-sgd-reap", "dp-md-reap", "dp-smd-reap".
    center : array of shape (n_features,), "auto", "private", "pairs", "median" or None, \
            default="auto"
        What is subtracted from every row. An array is a *public* vector. None takes the rows as
        they are: the subspace then goes through the origin. "private" finds the median of every
        column from private histograms (docs/standardiser.md) with a part of the budget; it needs
        no bounds. "auto" is "private" if the number of rows is large enough for the budget and the
        number of columns (κ = μn/√D ≥ 40, public facts); otherwise it is None, and a warning says
        so. If you give `scale` something other than "private", "auto" is None. "pairs" fits
        differences of random disjoint pairs of rows, in which an unknown centre cancels
        (`center_` stays zero); where a twentieth of the budget shows that
        long differences come from outliers far away, it leaves them out (docs/newton.md, "An
        unknown centre"). "median" buys a private geometric median with a tenth of the budget, and
        needs `radius`; outliers that sit together away from the inliers' centre lead it astray.
    radius : float, default=None
        For "median": a *public* bound on the distance of the centre from the origin.
    scale : array of shape (n_features,), "auto", "private" or None, default="auto"
        What every row is divided by after centring. An array is a *public* vector; None means 1.
        "private" finds the spread of every column from the same private histograms. "auto" is
        "private" or None, as for `center`; if you give `center` something other than "private",
        "auto" is None.
    bounds : array of shape (n_features, 2), default=None
        *Public* ranges of the columns, as a codebook gives them, which help to find a private
        centre and scale. NaN where a range is not known. They are expectations, not limits: cells
        outside them are not clipped.
    missing_code : number, default=None
        A *public* number, such as 9 or -1 in a genotype matrix, that stands for a missing cell.
        Such a cell sits at the centre.
    sketch : "auto", int, Sketch or None, default="auto"
        A public random projection to fewer columns before the fit. "auto" projects only where
        there are more columns than rows, to a width that suits the budget. `components_` then
        live in the sketch; `transform` takes rows as they are. "auto" and "dp-newton" narrow the
        rows of a wide sketch further, to directions that a first release finds (docs/wide.md).
    summaries : tuple of {"variances", "distances", "scores", "scree", "certificate"}, default=()
        Further private releases, a twentieth of the budget each: variances along the components
        (zero rows count), quantiles of the orthogonal distance, a map (two-dimensional histogram)
        of the scores, and the spectrum of a second moment. All but the map are of rows scaled to
        the sphere. The map and the spectrum may be published: the scores of the rows may not.
        "certificate" takes a fifth of the budget and says whether the rows fit the model of the
        theory (docs/theory.md, "A private certificate").
    labels : tuple of str or numbers, default=None
        With the summary "scores": a *public* list of labels. `fit(X, y)` then takes the label of
        every row, and the map is released per label. A row's own label is private, like its cells;
        labels that are not listed are counted together.
    n_iter : int, default=None
        Exact number of iterations; None means the algorithm's own. The paper uses n.
    batch_size : int, default=None
        Expected number of rows per step, for the stochastic algorithms (of pairs of rows with
        center="pairs"); None means the paper's.
    algorithm_options : mapping, default=None
        Further options of the algorithm: "schedule", "start", "share", "geometry", "output",
        "sampling", "capped". A wrong name lists the right ones. "start" is "pca", "random", an
        array of public components, or a private run of "gd-reap", "sgd-reap", "md-reap" or
        "smd-reap". "sampling" is "poisson" (the
        default), "without-replacement" or "with-replacement". The accountant's bound for
        "with-replacement" is far from tight, so that it costs more noise than the others.
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
    groups : {"leave-out", "keep"}, default="leave-out"
        What to do with groups of rows that sit together, away from the others. "leave-out" takes
        them for outliers; `left_out_` and a warning say so. "keep" keeps all rows, for tables in
        which a group may be a real minority; clusters of bad rows then spoil the fit.
    nonfinite : {"center", "zero", "raise"}, default="center"
        What to do with NaN, which stands for a missing cell. "center": such a cell sits at the
        centre; later steps of the default algorithm fill it from the other cells of its row and
        the subspace found so far. "zero": its whole row counts as a zero row. "raise": the fit is
        refused; that no cell is NaN or infinite is then taken to be public. A row with an infinite
        cell is a zero row, unless "raise" refuses it.
    budget : Budget, default=None
        A ledger that all fits on these rows share. The fit is charged to it before a cell is
        read, and stays charged; if too little is left, it is refused and nothing is read.
    journal : path, default=None
        A file that keeps every answer before it is used; needs `budget`. If the process dies,
        the same fit with the same journal goes on after the last answer (docs/resume.md). A
        journal whose fit was continued elsewhere is charged for the releases that remain.
    memory : int or str, default=None
        For rows in files: a bound on the memory that reading them and adding them up takes, such
        as "512MB" or a number of bytes; None means 1 GB (docs/scale.md).
    verbose : bool, default=False
        Show the progress of a fit that is longer than two seconds, on a terminal.
    random_state : int, RandomState, Generator or None, default=None
        None draws the noise from a cryptographic generator seeded by the system. Anything else
        is for experiments: the fit then says that it is not private.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Orthonormal rows.
    privacy_ : Guarantee
        What is promised, computed from what ran; `print(est.privacy_)` says it in words.
    plan_ : StagedPlan
        The plan of the whole fit, as it ran: what happens to a row, and every stage. It holds
        public facts alone; `print(est.plan_.in_words())` says it in words.
    n_iter_ : int
        Passes over the rows for the subspace; it follows from public facts and releases.
    center_, scale_ : arrays of shape (n_features,)
    sketch_ : Sketch or None
    error_estimate_ : float
        For "auto" and "dp-pca": what the releases tell of the squared error d² that noise made. It
        is at most r·π²/4, cannot see that a fit went to a wrong subspace, and is NaN where nothing
        is known.
    error_meaning_ : str
        What `error_estimate_` is an error to, or why it is not known.
    route_ : str
        For "auto": which way its releases made it go.
    left_out_ : tuple of LeftOut
        For "auto": groups of rows that sit together away from the subspace, and were left out.
        Each has a direction (in the units of the fit), an angle around it, and its share of the
        rows with the standard deviation of the noise on that share. A real minority behind an
        empty gap is left out in the same way: look at this before you trust a fit.
    dropped_columns_ : array of int
        With scale="private": numbers of the columns whose scale could not be resolved. They do not
        take part in the fit.
    receipt_ : Receipt or None
        With `budget`: the entry of the ledger that this fit was charged as.
    variances_ : array of shape (n_components,) or None
        With the summary "variances".
    distance_quantiles_ : array or None
        With the summary "distances": 25, 50, 75, 90, 95 and 97.5 % quantiles, over the rows that
        are not zero rows.
    certificate_ : PrivateCertificate or None
        With the summary "certificate". `print(est.certificate_)` says either that the condition of
        theorem 3 of docs/theory.md holds, with probability at least 95 %, and how far the robust
        optimum can be from the fit; or that this cannot be said.
        `est.certificate_.statement(beta=0.01)` says it at another level.
    score_map_ : ScoreMap or None
        With the summary "scores": shares of the rows in the cells of a grid over the first two
        scores, with the standard deviation of their noise (`plots.draw_score_map`). Rows beyond
        the map's length, which is released too, are drawn at its rim. With `labels` there is one
        map per label, and one for all other labels.
    scree_ : Scree or None
        With the summary "scree": variances along the leading directions, and how far noise lifts
        them.
    pair_cut_ : float or None
        With center="pairs": the length (after `scale` and `sketch`) from which differences were
        left out, that is, counted as zero rows; None where none were.

    Examples
    --------
    >>> from stillspace import PrivateRobustPCA
    >>> from stillspace.datasets import make_haystack
    >>> from stillspace.metrics import subspace_error
    >>> data = make_haystack(5000, 20, 2, inlier_noise=0.05, random_state=0)
    >>> est = PrivateRobustPCA(n_components=2, epsilon=1.0, center=None).fit(data.X)
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
        center: npt.ArrayLike | str | None = "auto",
        radius: float | None = None,
        scale: npt.ArrayLike | str | None = "auto",
        bounds: npt.ArrayLike | None = None,
        missing_code: float | None = None,
        sketch: int | str | Sketch | None = "auto",
        summaries: tuple[str, ...] = (),
        labels: tuple[Any, ...] | None = None,
        n_iter: int | None = None,
        batch_size: int | None = None,
        algorithm_options: Mapping[str, Any] | None = None,
        neighboring_relation: str = "replace-one",
        public_size: int | None = None,
        rows_per_person: int = 1,
        calibration: str = "honest",
        groups: str = "leave-out",
        nonfinite: str = "center",
        budget: Budget | None = None,
        journal: str | os.PathLike[str] | None = None,
        memory: int | str | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.algorithm = algorithm
        self.center = center
        self.radius = radius
        self.scale = scale
        self.bounds = bounds
        self.missing_code = missing_code
        self.sketch = sketch
        self.summaries = summaries
        self.labels = labels
        self.n_iter = n_iter
        self.batch_size = batch_size
        self.algorithm_options = algorithm_options
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.rows_per_person = rows_per_person
        self.calibration = calibration
        self.groups = groups
        self.nonfinite = nonfinite
        self.budget = budget
        self.journal = journal
        self.memory = memory
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the subspace. The budget (epsilon, delta) is spent by this call.

        `X` is a table (an array, sparse matrix, data frame or list of rows), a path, a handle or a
        source of rows in a file (docs/scale.md), or any `stillspace.rows.Rows`
        (docs/extending.md). `y` holds the label of each row; ignored unless `labels` is given.
        """
        keeps = checked_choice("groups", self.groups, tuple(GROUPS)) == "keep"
        named: dict[str, Any] = {"n_iter": self.n_iter, "batch_size": self.batch_size}
        named["groups"] = self.groups if keeps else None
        options = merged_options(named, self.algorithm_options)
        known_recipe(self.algorithm, private=True)  # raises unless it is a known name
        # Neither the paper nor propose-test-release has a place for further releases.
        honest = checked_choice("calibration", self.calibration, CALIBRATIONS) == "honest"
        cut = honest and self.algorithm != "ptr" and not keeps
        return self._fit(X, y, self.algorithm, options, calibration=self.calibration, cut_pairs=cut)


class PrivatePCA(PrivateEstimator):
    """PCA with Gaussian noise on the second moment, (ε, δ)-differentially private.

    A good choice for tables with much noise and no outliers: the whole budget buys one release, the
    second moment of the rows. Use `PrivateRobustPCA` when some rows may be outliers.

    Parameters
    ----------
    n_components : int, default=None
        Dimension of the subspace, below the number of features; None means 2 (1 for two
        features).
    epsilon : float, default=1.0
        Privacy loss ε of this fit. Smaller is more private and less accurate.
    delta : float, default=None
        The second number δ of the guarantee; it should be far below 1/n. None means
        `min(n^−1.5, 1e-6)`.
    norm_bound : float, default=None
        None scales every row to the unit sphere; a *public* number clips rows to that norm, so
        that longer rows count more.
    center, radius, scale, bounds, missing_code, sketch, summaries, labels, \
    neighboring_relation, public_size, rows_per_person, nonfinite, budget, journal, random_state
        As for `PrivateRobustPCA`, but "pairs" leaves no difference out.

    Attributes
    ----------
    components_, privacy_, plan_, n_iter_, center_, scale_, sketch_, variances_, error_estimate_, \
    error_meaning_, certificate_
        As for `PrivateRobustPCA`.

    Examples
    --------
    >>> from stillspace import PrivatePCA
    >>> from stillspace.datasets import make_haystack
    >>> data = make_haystack(5000, 20, 2, inlier_ratio=1.0, inlier_noise=0.5, random_state=0)
    >>> PrivatePCA(n_components=2, epsilon=1.0, center=None).fit(data.X).components_.shape
    (2, 20)
    """

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        epsilon: float = 1.0,
        delta: float | None = None,
        norm_bound: float | None = None,
        center: npt.ArrayLike | str | None = "auto",
        radius: float | None = None,
        scale: npt.ArrayLike | str | None = "auto",
        bounds: npt.ArrayLike | None = None,
        missing_code: float | None = None,
        sketch: int | str | Sketch | None = "auto",
        summaries: tuple[str, ...] = (),
        labels: tuple[Any, ...] | None = None,
        neighboring_relation: str = "replace-one",
        public_size: int | None = None,
        rows_per_person: int = 1,
        nonfinite: str = "center",
        budget: Budget | None = None,
        journal: str | os.PathLike[str] | None = None,
        memory: int | str | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.epsilon = epsilon
        self.delta = delta
        self.norm_bound = norm_bound
        self.center = center
        self.radius = radius
        self.scale = scale
        self.bounds = bounds
        self.missing_code = missing_code
        self.sketch = sketch
        self.summaries = summaries
        self.labels = labels
        self.neighboring_relation = neighboring_relation
        self.public_size = public_size
        self.rows_per_person = rows_per_person
        self.nonfinite = nonfinite
        self.budget = budget
        self.journal = journal
        self.memory = memory
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:
        """Fit the subspace. The budget (epsilon, delta) is spent by this call.

        `X` is a table (an array, sparse matrix, data frame or list of rows), a path, a handle or a
        source of rows in a file (docs/scale.md), or any `stillspace.rows.Rows`
        (docs/extending.md). `y` holds the label of each row; ignored unless `labels` is given.
        """
        bound = self.norm_bound
        if bound is not None:
            bound = checked_positive("norm_bound", bound)
        return self._fit(X, y, "dp-pca", {}, norm_bound=bound)
