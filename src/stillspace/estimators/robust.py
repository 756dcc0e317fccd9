"""`RobustPCA`: PCA that stays right with outliers, without a privacy promise."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Self, cast
from warnings import warn

import numpy as np
import numpy.typing as npt
from scipy import sparse
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags

from stillspace._checks import checked_choice, checked_flag, described
from stillspace._typing import FloatArray
from stillspace.estimators._base import SubspaceEstimator, generator, merged_options
from stillspace.estimators._files import check_cells, robust_table
from stillspace.estimators._robust_fit import Done, Task, fitted, fitted_with_holes, shifted_center
from stillspace.estimators._sampling import (
    CENTERS,
    shifted,
)
from stillspace.estimators._tables import (
    as_array,
    check_finite,
    checked_array,
    checked_shape,
    opened,
    stated_shape,
)
from stillspace.estimators._validation import (
    checked_code,
    checked_components,
    checked_journal,
    checked_vector,
)
from stillspace.exceptions import DisagreementWarning
from stillspace.parts.geometry import oriented
from stillspace.parts.noise import seeded_generator
from stillspace.parts.stops import Never
from stillspace.privacy import Guarantee
from stillspace.recipes import Facts, fixed_plan, known_recipe
from stillspace.rows import RowTable
from stillspace.rows.progress import progress
from stillspace.search import disagreement
from stillspace.search.candidates import LOSSES, Loss
from stillspace.search.cuts import distances
from stillspace.search.missing import filled_from_subspace


class RobustPCA(SubspaceEstimator):
    """Find the subspace that most rows lie close to, whatever the other rows do.

    The fit subtracts a robust centre, scales every row to length 1, and minimises the mean distance
    of the rows to the subspace. Distances are not squared, and a row beyond a cut-off has no
    influence, so outliers cannot pull the subspace away. Each group of nearly identical rows counts
    as one row. Rows that lie far out in any direction are left out (docs/robust.md).

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Dimension of the subspace, smaller than the number of features. None means 2, or 1 if there
        are two features. "auto" increases the number of components as long as most rows come
        clearly nearer to the subspace (`profile_`).
    algorithm : str, default="auto"
        "auto" tries several starts on a sample of the rows, keeps the best one and continues from
        it by "irls". Other choices are "irls" alone, "fms", "reaper-irls", "pca" and the paper's
        "ggd", "nggd", "sggd", "nsggd", "gd-reap", "sgd-reap", "md-reap", "smd-reap".
    loss : {"redescending", "glad"}, default=None
        For "auto". None means "redescending". It minimises `mean(min(distance, cut))`, with a cut
        that follows from the nearest rows; of several starts it keeps the subspace with the least
        *median* distance. "glad" is the paper's loss: all distances count, and the start with the
        lowest mean distance is kept.
    center : "auto", "pairs", "median", array of shape (n_features,) or None, default="auto"
        What is subtracted from every row. "pairs" first fits differences of random pairs of rows,
        in which the centre cancels, and then finds the position at which most rows lie near the
        subspace. "median" is the geometric median. None subtracts nothing. "auto" is "pairs" for
        the algorithm "auto", and None for all others, which assume centred rows.
    scale : "mad", array of shape (n_features,) or None, default=None
        What every column is divided by after centring. "mad" is 1.4826 times the median absolute
        deviation of the column; units then do not matter. None leaves the columns in their units.
    missing_code : number, default=None
        A number, such as 9 or -1 in a genotype matrix, that stands for a missing cell. Such a cell
        is set to the centre of its column. NaN needs no code: "auto" fills such a cell from similar
        rows at first, and from the subspace later. All other algorithms refuse NaN.
    max_iter : int, default=None
        Largest number of passes over the rows. None means the default of the algorithm.
    tol : float, default=None
        Stop when the subspace moves by no more than this (sine of an angle), or when the cost no
        longer falls. For "auto", "irls", "fms" and "reaper-irls".
    batch_size : int, default=None
        Number of rows per step, for the stochastic algorithms.
    algorithm_options : mapping, default=None
        Further options of the algorithm: "schedule", "start", "geometry", "output", "sampling",
        "sigma", "capped", "floor", "cut". A wrong name raises an error that lists the right ones.
    journal : path, default=None
        A file that stores the sums of every pass. If the process dies, the same fit with the same
        journal continues after the last pass, with the same result (docs/resume.md). The journal
        contains sums of the rows without noise: protect it as you protect the rows.
    memory : int or str, default=None
        For rows in files: a bound on the memory for reading and adding up the rows, such as "512MB"
        or a number of bytes. None means 1 GB (docs/scale.md).
    verbose : bool, default=False
        Show the progress of a fit that takes longer than two seconds, on a terminal.
    random_state : int, RandomState, Generator or None, default=None
        Seed of the stochastic algorithms, and of the samples and starts of "auto". With None,
        "auto" draws these from a fixed seed: the same rows give the same fit.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        The principal directions: orthonormal rows, by decreasing `explained_variance_`. Within the
        subspace they are the principal axes of the rows that counted, scaled to length 1 and
        weighted as in the last pass.
    center_, scale_ : arrays of shape (n_features,)
        What was subtracted from every row, and what every column was then divided by.
    mean_ : array of shape (n_features,)
        The same as `center_`, under the name that scikit-learn's PCA gives it.
    explained_variance_ : array of shape (n_components,)
        Variance of the scores along each component, over the rows that were not left out.
    explained_variance_ratio_ : array of shape (n_components,)
        `explained_variance_` divided by the total variance of all columns (after `scale`).
    noise_variance_ : float
        Variance per dimension orthogonal to the subspace, over the rows that were not left out.
    clumps_ : tuple of Clump
        Groups of nearly identical rows, each of which counted as one row: center, radius, share.
    n_components_ : int
        Number of components.
    n_iter_ : int
        Number of passes over the rows.
    converged_ : bool
        Whether the stop rule was met. True for algorithms with a fixed number of iterations.
    costs_ : array
        The cost before each pass, for the algorithms that compute it: the mean of
        `min(distance, cut)` over the scaled rows ("auto", "irls", "fms"), or the relaxed cost
        ("reaper-irls").
    starts_ : tuple of Candidate
        For "auto": the result of each start on the sample, with its name, components, cost, median
        distance and angle to the start that was kept. A `DisagreementWarning` says when another
        start is as good.
    profile_ : DimensionProfile or None
        For n_components="auto": how the number of components was chosen.
    plan_ : Plan
        The iterations that ran after the search for a start.
    privacy_ : Guarantee
        A statement that this fit has no privacy guarantee.

    Examples
    --------
    >>> from stillspace import RobustPCA
    >>> from stillspace.datasets import make_haystack
    >>> from stillspace.metrics import subspace_error
    >>> data = make_haystack(500, 10, 2, inlier_ratio=0.4, random_state=0)
    >>> pca = RobustPCA(n_components=2).fit(data.X)
    >>> bool(subspace_error(pca.components_, data.components) < 1e-20)
    True
    """

    def __init__(
        self,
        n_components: int | str | None = None,
        *,
        algorithm: str = "auto",
        loss: str | None = None,
        center: npt.ArrayLike | str | None = "auto",
        scale: npt.ArrayLike | str | None = None,
        missing_code: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        batch_size: int | None = None,
        algorithm_options: Mapping[str, Any] | None = None,
        journal: str | os.PathLike[str] | None = None,
        memory: int | str | None = None,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.n_components = n_components
        self.algorithm = algorithm
        self.loss = loss
        self.center = center
        self.scale = scale
        self.missing_code = missing_code
        self.max_iter = max_iter
        self.tol = tol
        self.batch_size = batch_size
        self.algorithm_options = algorithm_options
        self.journal = journal
        self.memory = memory
        self.verbose = verbose
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the subspace; `y` is ignored.

        `X` is a table, or a path, a handle or a source of rows in a file (docs/scale.md).
        """
        with progress(checked_flag("verbose", self.verbose)):
            return self._fit(opened(X, self))

    def _fit(self, X: Any) -> Self:
        has_shape = isinstance(X, RowTable) or stated_shape(X) is not None
        X = X if has_shape else as_array(X)
        n, D = checked_shape(X, hidden=False)
        known_recipe(self.algorithm, private=False)  # raises unless it is a known name
        center, scale = self._checked_center(D), self._checked_scale(D)
        auto = isinstance(self.n_components, str) and self.n_components == "auto"
        r = 1 if auto else checked_components(self.n_components, D, n)
        named = {"n_iter": self.max_iter, "tol": self.tol, "batch_size": self.batch_size}
        options = merged_options(named, self.algorithm_options)
        loss, journal = self._checked_loss(), checked_journal(self.journal)
        fixed_plan(self.algorithm, Facts(n, D, r), **options)  # raises before X is read
        code = checked_code("missing_code", self.missing_code)
        X = checked_array(self, X, reset=True, min_samples=2, finite=False)
        if isinstance(X, RowTable):
            X.check_memory(n)
            X, code = robust_table(X, self.algorithm, code)
        holes = None if isinstance(X, RowTable) else self.missing_cells(X)
        if holes is not None and holes.all(axis=0).any():
            msg = "X has a column without any number (all cells are missing); drop this column."
            raise ValueError(msg)
        rng, search_rng = self._generators()
        X, offset, exponent = shifted(X)
        if not isinstance(center, str):
            center = (
                None
                if center is None and not offset.any()
                else shifted_center(center, offset, exponent)
            )
        task = Task(self.algorithm, r, loss, center, scale, options, code, auto, journal)
        if holes is None:
            done = fitted(task, X, rng, search_rng)
        else:
            done = fitted_with_holes(task, X, holes, rng, search_rng)
        self._set_fit(done, offset, exponent)
        self._warn(done.result.n_iter)
        return self

    def _set_fit(self, done: Done, offset: FloatArray, exponent: int) -> None:
        """Set what is known after the fit, in the units of X."""
        self.sketch_ = None
        self.components_ = oriented(done.result.V, done.result.moment)
        self.center_ = np.ldexp(done.center, exponent) + offset
        self.scale_ = np.ones(len(done.result.V)) if done.scale is None else done.scale.copy()
        self.n_iter_ = max(done.result.n_iter, 1)  # PCA alone is one pass
        found, unit = done.variances(self.components_), float(np.ldexp(1.0, exponent))
        if done.start is not None:  # the axes came with weights
            order = np.argsort(-found.along, kind="stable")
            self.components_ = self.components_[order]
            found = replace(found, along=found.along[order])
        self.mean_ = self.center_
        with np.errstate(over="ignore"):  # infinite if squares of the rows overflow
            self.explained_variance_ = found.along * unit * unit
            self.noise_variance_ = float(np.float64(found.noise) * unit * unit)
        self._prominence = (found.prominence, found.noise_prominence)
        self.explained_variance_ratio_ = found.along / found.total if found.total else found.along
        self.n_components_ = len(self.components_)
        self.plan_ = done.plan
        self.profile_ = done.profile
        start = done.start
        clumps = () if start is None else start.clumps
        self.clumps_ = tuple(
            replace(c, center=np.ldexp(c.center, exponent) + offset, radius=c.radius * unit)
            for c in clumps
        )
        self.starts_ = () if start is None else start.candidates
        self.costs_ = np.array(done.result.costs)
        self.converged_ = done.result.converged or isinstance(done.plan.stop, Never)
        self.privacy_ = Guarantee.from_event(
            done.result.event, "replace-one", None, not_private_because=_WHY
        )
        self._rank = done.rank

    def _warn(self, n_iter: int) -> None:
        """Say what a user should know of a fit that ended."""
        if not self.converged_:
            msg = f"The fit did not converge in {n_iter} passes; increase max_iter or tol."
            warn(msg, ConvergenceWarning, stacklevel=4)
        if self.profile_ is not None and not self.profile_.clear:
            msg = (
                "The distances do not show clearly how many components there are. "
                f"n_components='auto' chose {self.profile_.n_components}; look at profile_."
            )
            warn(msg, DisagreementWarning, stacklevel=4)
        if self._rank < self.n_components_:
            msg = (
                f"The rows span {self._rank} dimensions only, fewer than n_components="
                f"{self.n_components_}. The other components are arbitrary; use fewer components."
            )
            warn(msg, DisagreementWarning, stacklevel=4)
        sentence = self._doubt()
        if sentence is not None:
            warn(sentence, DisagreementWarning, stacklevel=4)

    def _doubt(self) -> str | None:
        """Return a sentence if nothing stands out, or if another subspace is as good."""
        if not self.starts_:
            return None
        found, noise = self._prominence
        if found > noise:
            return disagreement(self.starts_)
        return (
            f"Nothing stands out: the variance along the first component is {found:.3g} times that "
            f"of an average direction, and in pure noise of this size it is up to {noise:.3g} "
            "times. The components may be arbitrary."
        )

    def _checked_center(self, D: int) -> FloatArray | str | None:
        """Return a vector, the name of a way to find one, or None for the origin."""
        if not isinstance(self.center, str):
            return checked_vector("center", self.center, D)
        if self.center not in ("auto", *CENTERS):
            msg = (
                f"center must be None, {D} numbers, 'auto', 'pairs' or 'median', "
                f"got {described(self.center)}."
            )
            raise ValueError(msg)
        if self.center != "auto":
            return self.center
        return "pairs" if self.algorithm == "auto" else None

    def _checked_scale(self, D: int) -> FloatArray | str | None:
        """Return a vector, "mad", or None."""
        if isinstance(self.scale, str):
            if self.scale != "mad":
                msg = f"scale must be None, 'mad' or {D} numbers, got {described(self.scale)}."
                raise ValueError(msg)
            return self.scale
        return checked_vector("scale", self.scale, D, positive=True)

    def missing_cells(self, X: Any) -> npt.NDArray[np.bool_] | None:
        """Return where checked rows are NaN, or None; raise for what the fit cannot take."""
        if isinstance(X, RowTable):
            check_cells(X, self.algorithm)
            return None
        array = X.data if sparse.issparse(X) else X
        if array.dtype.kind != "f" or bool(np.isfinite(array.sum(dtype=np.float64))):
            return None
        if self.algorithm != "auto" or sparse.issparse(X):
            check_finite(X)
            return None
        if np.isinf(array).any():
            msg = "X contains infinity; remove these rows, or write NaN for a missing cell."
            raise ValueError(msg)
        holes = np.isnan(array)
        return holes if holes.any() else None

    def _checked_loss(self) -> Loss:
        """Return the loss of "auto"; the other algorithms have their own."""
        if self.loss is None:
            return LOSSES[0]
        if self.algorithm != "auto":
            msg = (
                f"loss={described(self.loss)} is for algorithm='auto'; "
                f"{self.algorithm!r} has its own."
            )
            raise ValueError(msg)
        return cast(Loss, checked_choice("loss", self.loss, LOSSES))

    def _generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        """Return generators for the algorithm and for the search.

        The search is seeded even if nobody gave a seed: the same rows give the same fit.
        """
        rng = generator(self.random_state)
        return rng, seeded_generator(0) if self.random_state is None else rng

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Return minus the mean orthogonal distance of the rows of X to the subspace."""
        X = checked_array(self, X, reset=False, min_samples=1, finite=False)
        self.missing_cells(X)
        V = self.components_.T
        total = sum(float(distances(centred, V).sum()) for centred in self._centred(X))
        return -total / int(X.shape[0])

    def _centred(self, X: Any) -> Iterator[FloatArray]:
        """Yield checked rows in the units of the fit; NaN cells are filled from the subspace."""
        for block in super()._centred(X):
            if not np.isnan(block).any():
                yield block
                continue
            V = self.components_.T
            along = getattr(self, "explained_variance_", np.ones(V.shape[1]))
            noise = getattr(self, "noise_variance_", 0.0)
            yield filled_from_subspace(block, V, along, noise)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = self.algorithm == "auto"
        return tags


_WHY = ("RobustPCA adds no noise for privacy; use PrivateRobustPCA",)
