"""`RobustPCA`: PCA that stays right with outliers, without a privacy promise."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Self, cast
from warnings import warn

import numpy as np
import numpy.typing as npt
from sklearn.exceptions import ConvergenceWarning

from stillspace._shown import shown
from stillspace._typing import FloatArray
from stillspace.estimators._base import SubspaceEstimator, generator, merged_options
from stillspace.estimators._sampling import (
    CENTERS,
    counted,
    profiled,
    sampled,
)
from stillspace.estimators._validation import (
    as_array,
    checked_array,
    checked_choice,
    checked_code,
    checked_components,
    checked_shape,
    checked_vector,
    told_shape,
)
from stillspace.exceptions import DisagreementWarning
from stillspace.parts.noise import seeded_generator
from stillspace.parts.queries import ScoreMoment
from stillspace.parts.stops import Converged, Never
from stillspace.plan import MomentStart, Plan
from stillspace.privacy import ComposedEvent, Guarantee
from stillspace.recipes import Facts, fixed_plan, known_recipe
from stillspace.release import Draw, Release
from stillspace.rows import MemoryRows
from stillspace.run import Result, run
from stillspace.search import (
    Candidate,
    Clump,
    chosen,
    disagreement,
    filtered_search,
    outside,
    recentred,
)
from stillspace.search.candidates import LOSSES, Loss


class RobustPCA(SubspaceEstimator):
    """Find the subspace that most rows lie close to, whatever the other rows do.

    Rows are taken about a robust centre and scaled to the unit sphere. The mean distance to the
    subspace is minimised, unsquared, and up to a cut beyond which a row does not count
    (docs/robust.md).

    Parameters
    ----------
    n_components : int, "auto" or None, default=None
        Dimension of the subspace, below the number of features; None means 2 (1 for two
        features). "auto" follows a low quantile of the distances over the number of components and
        stops where they stop falling (`profile_`).
    algorithm : str, default="auto"
        "auto" follows several starts on a sample of the rows, keeps the best and solves from there
        by "irls". Also "irls" itself, "fms", "reaper-irls", "pca" and the paper's "ggd", "nggd",
        "sggd", "nsggd", "gd-reap", "sgd-reap", "md-reap", "smd-reap".
    loss : {"redescending", "glad"}, default=None
        For "auto". "redescending" (None means this) minimises `mean(min(distance, cut))`, the cut
        set by the rows that lie near; of several starts it keeps the subspace with the least
        *median* distance. "glad" is the paper's: all distances count, the lowest mean wins.
    center : "auto", "pairs", "median", array of shape (n_features,) or None, default="auto"
        Subtracted from every row. "pairs" fits differences of random pairs of rows first, in which
        the centre cancels, and then finds the position that the near rows agree on; "median" is the
        geometric median; None is the origin. "auto" is "pairs" for the algorithm "auto" and None
        for the named ones, which assume centred data.
    scale : array of shape (n_features,), default=None
        Divided into every row, after the centre.
    missing_code : number, default=None
        A number, such as 9 or -1 in a genotype matrix, that stands for a missing cell. Such a cell
        sits at the centre. NaN is refused: impute it, or put a code in its place.
    max_iter : int, default=None
        Largest number of passes; None means the algorithm's own.
    tol : float, default=None
        Stop when the subspace moves by no more than this (sine of an angle) or the cost no longer
        falls; for "auto", "irls", "fms" and "reaper-irls".
    batch_size : int, default=None
        Rows a step, for the stochastic algorithms.
    algorithm_options : mapping, default=None
        Further options of the algorithm: "schedule", "start", "geometry", "output", "sampling",
        "sigma", "capped", "floor", "cut". A wrong name lists the right ones.
    random_state : int, RandomState, Generator or None, default=None
        For the stochastic algorithms, and for the samples and starts of "auto"; these are drawn
        from a fixed seed if None is given, so that the same rows give the same fit.

    Attributes
    ----------
    components_ : array of shape (n_components, n_features)
        Orthonormal rows, by decreasing variance along them of the scaled rows that counted.
    center_, scale_ : arrays of shape (n_features,)
    n_components_ : int
    n_iter_ : int
    converged_ : bool
        Whether the stop rule was met; True for algorithms with a fixed number of iterations.
    costs_ : array
        The cost before each pass, for the algorithms that know it: the mean over the scaled rows of
        `min(distance, cut)` ("auto", "irls", "fms"; for "reaper-irls" the relaxed cost).
    starts_ : tuple of Candidate
        Where each start of "auto" ended on the sample: name, components, cost, median, angle to the
        one that was kept. A `DisagreementWarning` says when another one is as good.
    profile_ : DimensionProfile or None
        For n_components="auto".
    plan_ : Plan
        What ran, after the search.
    privacy_ : Guarantee
        Says that nothing is promised.

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
        scale: npt.ArrayLike | None = None,
        missing_code: float | None = None,
        max_iter: int | None = None,
        tol: float | None = None,
        batch_size: int | None = None,
        algorithm_options: Mapping[str, Any] | None = None,
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
        self.random_state = random_state

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Fit the subspace; `y` is ignored."""
        X = X if told_shape(X) is not None else as_array(X)
        n, D = checked_shape(X, hidden=False)
        known_recipe(self.algorithm, private=False)  # a word, then, from here on
        center = self._checked_center(D)
        scale = checked_vector("scale", self.scale, D, positive=True)
        auto = isinstance(self.n_components, str) and self.n_components == "auto"
        r = 1 if auto else checked_components(self.n_components, D, n)
        named = {"n_iter": self.max_iter, "tol": self.tol, "batch_size": self.batch_size}
        options = merged_options(named, self.algorithm_options)
        loss = self._checked_loss()
        fixed_plan(
            self.algorithm, Facts(n, D, r), **options
        )  # what is wrong is said before X is read
        missing = checked_code("missing_code", self.missing_code)
        X = checked_array(self, X, reset=True, min_samples=2, finite=True)
        rng, search_rng = self._generators()
        searching = self.algorithm == "auto" and "start" not in options
        self.profile_ = None
        sample = None
        if searching or isinstance(center, str) or isinstance(scale, str):
            sample = sampled(X, scale, missing, search_rng)
            scale = sample.unit
        if auto:
            self.profile_ = profiled(X, center, loss, scale, missing, search_rng)
            r = self.profile_.n_components
        candidates: list[Candidate] = []
        clumps: list[Clump] = []
        if sample is not None and (searching or isinstance(center, str)):
            around = center if isinstance(center, str) else sample.inside(center)
            found = filtered_search(sample.few(), r, loss, around, search_rng)
            clumps = found.clumps
            point = found.center
            if isinstance(center, str):
                point = recentred(
                    sample.rows[outside(sample.rows, clumps)],
                    point,
                    chosen(found.candidates).components.T,
                    chosen(found.candidates).reach,
                )
                center = sample.in_cells(point)
            clumps = [replace(c, center=sample.in_cells(c.center)) for c in clumps]
            candidates = found.candidates
        rows = MemoryRows.prepare(X, center=center, scale=scale, missing=missing)
        if searching:
            best = chosen(candidates)
            rows = counted(X, rows, best, clumps, np.ones(D) if scale is None else scale, missing)
            options = {**options, "start": best.components}
            if best.cut < 1.0:
                options["cut"] = best.cut
        self.clumps_ = tuple(clumps)
        plan = fixed_plan(self.algorithm, Facts(n, D, r), **options)
        result = _exactly_oriented(run(plan, rows, rng), plan, rows)
        self._set_subspace(result, center, scale)
        self.n_components_ = r
        self.plan_ = plan
        self.starts_ = tuple(candidates) if searching else ()
        self.costs_ = np.array(result.costs)
        self.converged_ = result.converged or isinstance(plan.stop, Never)
        self.privacy_ = Guarantee.from_event(
            result.event, "replace-one", None, not_private_because=_WHY
        )
        self._warn(result.n_iter)
        return self

    def _warn(self, n_iter: int) -> None:
        """Say what a user should know of a fit that ended."""
        if not self.converged_:
            msg = f"No convergence in {n_iter} passes; raise max_iter or tol."
            warn(msg, ConvergenceWarning, stacklevel=3)
        if self.profile_ is not None and not self.profile_.clear:
            msg = (
                f"The distances do not say clearly how many components there are; "
                f"n_components='auto' took {self.profile_.n_components}: look at profile_."
            )
            warn(msg, DisagreementWarning, stacklevel=3)
        sentence = disagreement(self.starts_) if self.starts_ else None
        if sentence is not None:
            warn(sentence, DisagreementWarning, stacklevel=3)

    def _checked_center(self, D: int) -> FloatArray | str | None:
        """Return a vector, the name of a way to find one, or None for the origin."""
        if not isinstance(self.center, str):
            return checked_vector("center", self.center, D)
        if self.center not in ("auto", *CENTERS):
            msg = (
                f"center must be None, {D} numbers, 'auto', 'pairs' or 'median', "
                f"got {shown(self.center)}."
            )
            raise ValueError(msg)
        if self.center != "auto":
            return self.center
        return "pairs" if self.algorithm == "auto" else None

    def _checked_loss(self) -> Loss:
        """Return the loss of "auto"; the other algorithms have their own."""
        if self.loss is None:
            return LOSSES[0]
        if self.algorithm != "auto":
            msg = (
                f"loss={shown(self.loss)} is for algorithm='auto'; {self.algorithm!r} has its own."
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
        X = checked_array(self, X, reset=False, min_samples=1, finite=True)
        total = 0.0
        for centred in self._centred(X):
            residual = centred - centred @ self.components_.T @ self.components_
            total += float(np.linalg.norm(residual, axis=1).sum())
        return -total / int(X.shape[0])


def _exactly_oriented(result: Result, plan: Plan, rows: MemoryRows) -> Result:
    """Return the result with the second moment of all rows' scores where the start had none of it.

    Otherwise the axes inside the subspace would be those of a sample, or of nothing.
    """
    if isinstance(plan.start, MomentStart) or not isinstance(plan.stop, Converged):
        return result
    D, r = result.V.shape
    release = Release(ScoreMoment(D, r), rows.n_rows, z=0.0)
    moment = release.apply(rows, result.V, Draw(None, None, 0.0))
    return replace(result, moment=moment, event=result.event + ComposedEvent.of([release.event(0)]))


_WHY = ("RobustPCA adds no noise for privacy; use PrivateRobustPCA",)
