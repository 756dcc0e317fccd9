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

    Outliers do not pull the components away, and you may publish `components_`: `privacy_` limits
    what anyone can learn from them about a single person in the data. The fit finds the centre and
    the scale of every column privately, unless you give them. It scales every row to length 1.
    Each iteration releases a sum over the rows with calibrated Gaussian noise. `components_` are
    directions of the rows after centring and scaling.

    Below, n is the number of rows, D the number of columns and r the number of components.

    Parameters
    ----------
    n_components : int or "auto", default=None
        Dimension of the subspace, smaller than the number of features. None means 2, or 1 if there
        are two features. "auto" chooses the number, up to 10, from the noisy second moment that
        "auto", "dp-newton" and "dp-pca" release anyway, so the choice costs no privacy.
    epsilon : float, default=1.0
        Privacy loss ε of this fit. Smaller is more private and less accurate.
    delta : float, default=None
        The second number δ of the guarantee. It should be far below 1/n. None means
        `min(n^−1.5, 1e-6)`.
    algorithm : str, default="auto"
        "auto" is "dp-newton" (docs/newton.md). "dp-pca" is private PCA. "ptr" is
        propose-test-release, for nearly noiseless inliers; it may release nothing, and an error
        then says so. The algorithms of the paper are "dp-ggd", "dp-sggd", "dp-gd-reap",
        "dp-sgd-reap", "dp-md-reap" and "dp-smd-reap".
    center : array of shape (n_features,), "auto", "private", "pairs", "median" or None, \
            default="auto"
        What is subtracted from every row.

        - An array is a *public* vector.
        - None subtracts nothing: the subspace goes through the origin.
        - "private" finds the median of every column from private histograms, with a part of the
          budget (docs/standardiser.md). You do not need to know bounds.
        - "auto" is "private" if the number of rows is large enough for the budget and the number of
          columns: κ = μn/√D ≥ 40, where μ is the Gaussian privacy parameter of (ε, δ). Otherwise
          it is None, and a warning says so. "auto" is also None if `scale` is neither "auto" nor
          "private".
        - "pairs" fits differences of random disjoint pairs of rows. An unknown centre cancels in
          them, and `center_` is zero. A twentieth of the budget shows whether long differences come
          from outliers far away; if so, the fit leaves these differences out (docs/newton.md, "An
          unknown centre").
        - "median" finds a private geometric median with a tenth of the budget, and needs `radius`.
          A cluster of outliers away from the inliers' centre pulls this median away.
    radius : float, default=None
        For "median": a *public* bound on the distance of the centre from the origin.
    scale : array of shape (n_features,), "auto", "private" or None, default="auto"
        What every column is divided by after centring. An array is a *public* vector. None divides
        by nothing. "private" finds the spread of every column from the same private histograms as
        the centre. "auto" is "private" or None, as for `center`; it is None if `center` is neither
        "auto" nor "private".
    bounds : array of shape (n_features, 2), default=None
        *Public* ranges of the columns, such as a codebook gives. They help to find a private centre
        and scale. Write NaN for a range that you do not know. Ranges are expectations, not limits:
        cells outside them are not clipped.
    missing_code : number, default=None
        A *public* number, such as 9 or -1 in a genotype matrix, that stands for a missing cell.
        Such a cell is set to the centre of its column.
    sketch : "auto", int, Sketch or None, default="auto"
        A public random projection to fewer columns before the fit. "auto" projects only if there
        are more columns than rows, to a width that suits the budget. `components_` are then
        directions in the sketch, and `transform` takes rows with all columns. "auto" and
        "dp-newton" narrow the rows of a wide sketch further, to directions that a first release
        finds (docs/wide.md).
    summaries : tuple of {"variances", "distances", "scores", "scree", "certificate"}, default=()
        Further private releases, which may be published. Each costs a twentieth of the budget,
        "certificate" a fifth. "variances" are along the components (zero rows count), "distances"
        are quantiles of the orthogonal distance, "scores" is a map (two-dimensional histogram) of
        the scores, "scree" is the spectrum of a second moment. All but the map refer to rows scaled
        to length 1. "certificate" says whether the rows satisfy the model of the theory
        (docs/theory.md, "A private certificate"). The scores of single rows are never private.
    labels : tuple of str or numbers, default=None
        With the summary "scores": a *public* list of labels. `fit(X, y)` then takes the label of
        every row, and one map per label is released. The label of a row is private, like its
        cells. Labels that are not listed are counted together.
    n_iter : int, default=None
        Exact number of iterations. None means the default of the algorithm. The paper uses n.
    batch_size : int, default=None
        Expected number of rows per step, for the stochastic algorithms. With center="pairs" it
        counts pairs of rows. None means the batch size of the paper.
    algorithm_options : mapping, default=None
        Further options of the algorithm: "schedule", "start", "share", "geometry", "output",
        "sampling", "capped". A wrong name raises an error that lists the right ones. "start" is
        "pca", "random", an array of public components, or a private run of "gd-reap", "sgd-reap",
        "md-reap" or "smd-reap". "sampling" is "poisson" (the default), "without-replacement" or
        "with-replacement". The privacy bound for "with-replacement" is far from tight, so this
        sampling needs more noise than the others.
    neighboring_relation : {"replace-one", "add-or-remove-one"}, default="replace-one"
        Which data sets must be hard to distinguish. Under "replace-one" the number of rows is
        public. "add-or-remove-one" keeps it secret and needs `public_size`.
    public_size : int, default=None
        A rough number of rows that is public, for "add-or-remove-one".
    rows_per_person : int, default=1
        The largest number of rows that belong to one person. The guarantee protects all of them.
    calibration : {"honest", "as-printed"}, default="honest"
        "honest" adds the noise that (ε, δ) needs. "as-printed" adds the noise that the paper
        prints; the fit then counts as not private, and reports the ε that this noise really gives.
    groups : {"leave-out", "keep"}, default="leave-out"
        What to do with groups of rows that lie close together. "leave-out"
        treats them as outliers; `left_out_` and a warning say so. "keep" keeps all rows: use it if
        a group may be a real minority. Clusters of bad rows then spoil the fit.
    nonfinite : {"center", "zero", "raise"}, default="center"
        What to do with NaN, which stands for a missing cell. "center" sets such a cell to the
        centre of its column; later steps of the default algorithm fill it from the other cells of
        its row and the current subspace. "zero" counts the whole row as a zero row. "raise" refuses
        the fit; it treats the fact that all cells are finite as public. A row with an infinite cell
        is a zero row, unless "raise" refuses it.
    budget : Budget, default=None
        A ledger that all fits on these rows share. The fit is charged before a cell is read, and
        stays charged. If too little is left, the fit is refused and nothing is read.
    journal : path, default=None
        A file that stores every released answer before the fit uses it. Needs `budget`. If the
        process dies, the same fit with the same journal continues after the last answer
        (docs/resume.md). If the fit was already continued from a copy of the journal, the remaining
        releases are charged again.
    memory : int or str, default=None
        For rows in files: a bound on the memory for reading and adding up the rows, such as "512MB"
        or a number of bytes. None means 1 GB (docs/scale.md).
    verbose : bool, default=False
        Show the progress of a fit that takes longer than two seconds, on a terminal.
    random_state : int, RandomState, Generator or None, default=None
        None draws the noise from a cryptographic generator seeded by the system. Any other value
        is for experiments: the fit then says that it is not private.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The principal directions: orthonormal rows.
    privacy_ : Guarantee
        The guarantee, computed from what ran. `print(est.privacy_)` prints it in words.
    plan_ : StagedPlan
        The plan of the whole fit, as it ran: what happens to a row, and every stage. It contains
        only public facts. `print(est.plan_.in_words())` prints it in words.
    n_iter_ : int
        Number of passes over the rows for the subspace. It follows from public facts and releases.
    center_, scale_ : arrays of shape (n_features,)
        What was subtracted from every row, and what every column was then divided by.
    sketch_ : Sketch or None
        The random projection that was used.
    error_estimate_ : float
        For "auto" and "dp-pca": an estimate of the squared error d² (the sum of the squared
        principal angles) that the noise causes. It is at most r·π²/4. It cannot detect that a fit
        converged to a wrong subspace. It is NaN if the error is not known.
    error_meaning_ : str
        The subspace that `error_estimate_` refers to, or why the error is not known.
    route_ : str
        For "auto": which steps the fit took. The releases decide this (docs/newton.md).
    left_out_ : tuple of LeftOut
        For "auto": groups of rows that lie close together and were left out. Each has a direction
        (in the units of the fit), an angle around it, and its share of the rows with the standard
        deviation of the noise on that share. `loose` says whether the group has other rows around
        it instead of an empty gap. A real minority may be left out in the same way, so check this
        before you trust a fit.
    dropped_columns_ : array of int
        With scale="private": indices of the columns whose scale could not be found. They take no
        part in the fit.
    receipt_ : Receipt or None
        With `budget`: the entry in the ledger for this fit.
    variances_ : array of shape (n_components,) or None
        With the summary "variances": the variance along each component.
    distance_quantiles_ : array or None
        With the summary "distances": 25, 50, 75, 90, 95 and 97.5 % quantiles, over the rows that
        are not zero rows.
    certificate_ : PrivateCertificate or None
        With the summary "certificate". `print(est.certificate_)` says one of two things. Either the
        condition of theorem 3 of docs/theory.md holds with probability at least 95 %, and the
        robust optimum is at most a stated distance from the fit; or nothing can be said.
        `est.certificate_.statement(beta=0.01)` says the same at another level.
    score_map_ : ScoreMap or None
        With the summary "scores": shares of the rows in the cells of a grid over the first two
        scores, with the standard deviation of their noise (`plots.draw_score_map`). Rows beyond
        the edge of the map, which is released too, are drawn at the edge. With `labels` there is
        one map per label, and one for all other labels.
    scree_ : Scree or None
        With the summary "scree": variances along the leading directions, and how much noise
        inflates them.
    pair_cut_ : float or None
        With center="pairs": differences of this length (after `scale` and `sketch`) or more were
        left out, that is, counted as zero rows. None if no difference was left out.

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

    Use it for tables with much noise and no outliers: the whole budget is spent on one release, the
    second moment of the rows. Use `PrivateRobustPCA` if some rows may be outliers.

    Parameters
    ----------
    n_components : int or "auto", default=None
        Dimension of the subspace, smaller than the number of features. None means 2, or 1 if there
        are two features. "auto" chooses the number as for `PrivateRobustPCA`.
    epsilon : float, default=1.0
        Privacy loss ε of this fit. Smaller is more private and less accurate.
    delta : float, default=None
        The second number δ of the guarantee. It should be far below 1/n, for n rows. None means
        `min(n^−1.5, 1e-6)`.
    norm_bound : float, default=None
        None scales every row to length 1. A *public* number clips longer rows to that length and
        leaves the others as they are, so that longer rows have more influence.
    center, radius, scale, bounds, missing_code, sketch, summaries, labels, \
    neighboring_relation, public_size, rows_per_person, nonfinite, budget, journal, memory, \
    verbose, random_state
        As for `PrivateRobustPCA`, but "pairs" leaves no difference out.

    Attributes
    ----------
    components_, privacy_, plan_, n_iter_, center_, scale_, sketch_, dropped_columns_, receipt_, \
    error_estimate_, error_meaning_, variances_, distance_quantiles_, score_map_, scree_, \
    certificate_
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
