"""The stages of a private fit: what each one's outcome does to the next. None sees a row."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import pi
from typing import Any, Self

import numpy as np
import numpy.typing as npt

from stillspace._frozen import FrozenArray
from stillspace._typing import FloatArray
from stillspace.methods.pictures import length_of_map, scree_of
from stillspace.methods.spectrum import Spectrum, count_components
from stillspace.methods.standardiser import LARGEST_SCALE
from stillspace.parts.geometry import oriented
from stillspace.plans.protocol import AnyPlan
from stillspace.plans.staged import Found, Progress
from stillspace.rows.maps import (
    Clip,
    Lengths,
    Project,
    Sphere,
    View,
    affine_of,
    with_affine,
    with_bound,
    with_center,
)


@dataclass(frozen=True, slots=True)
class _Stage:
    """A plan with its share of μ², on the view as it is."""

    plan: AnyPlan
    share: float | None

    def with_plan(self, plan: AnyPlan) -> Self:
        return replace(self, plan=plan)

    def view(self, progress: Progress) -> View:
        """Rows are seen as the view says."""
        return progress.view

    def point(self, progress: Progress) -> FloatArray | None:  # noqa: ARG002
        """Only a reading has a point."""
        return None


@dataclass(frozen=True, slots=True)
class StandardiseStage(_Stage):
    """Released medians and scales of the columns become the centre and the scale of the view.

    The plan sees rows as they are. A column that was not resolved is dropped: a scale that is too
    small would ruin the fit, one that is too large costs one column.
    """

    center: bool
    """Whether the released medians are used."""
    scale: bool
    """Whether the released scales are used."""

    def view(self, progress: Progress) -> View:  # noqa: ARG002
        """Rows are counted as they are."""
        return ()

    def after(self, progress: Progress, found: Found) -> Progress:
        """Put centre and scale into the view, and remember which columns were dropped."""
        affine = affine_of(progress.view)
        center, scale = found.V
        dropped = ~np.isfinite(scale)
        if self.center:
            affine = replace(affine, center=FrozenArray.of(np.where(dropped, 0.0, center)))
        if self.scale:
            known = np.where(dropped, LARGEST_SCALE, scale)
            affine = replace(affine, scale=FrozenArray.of(known))
        after = replace(progress, view=with_affine(progress.view, affine))
        return after.knowing(dropped=dropped & self.scale)


@dataclass(frozen=True, slots=True)
class CenterStage(_Stage):
    """A geometric median within a public radius becomes the centre of the view.

    The plan sees rows clipped to twice the radius, in units of that.
    """

    radius: float

    def view(self, progress: Progress) -> View:
        """Rows are clipped instead of scaled to the sphere."""
        return with_bound(progress.view, Clip(2.0 * self.radius))

    def after(self, progress: Progress, found: Found) -> Progress:
        """Put the centre into the view."""
        center = 2.0 * self.radius * found.V
        return replace(progress, view=with_center(progress.view, center))


@dataclass(frozen=True, slots=True)
class LeaveOutStage(_Stage):
    """Rows that the plan says to leave out become zero rows for all later stages."""

    def after(self, progress: Progress, found: Found) -> Progress:
        """Put what was found behind the view."""
        after = replace(progress, view=(*progress.view, *found.through))
        return after.knowing(**found.facts)


@dataclass(frozen=True, slots=True)
class NarrowStage(_Stage):
    """Private PCA with many components: the subspace is then looked for inside their span.

    Rows are projected to the released directions and scaled to the sphere again, so that what is
    left of a row counts fully, and a later release has noise in fewer columns.
    """

    def after(self, progress: Progress, found: Found) -> Progress:
        """Let the stage of the subspace see projected rows."""
        maps: View = (Project(FrozenArray.of(found.V)), Sphere())
        after = replace(progress, narrowed=maps, moment=found.moment, n_iter=found.n_iter or 1)
        return after.knowing(narrowing_sd=_noise(self.plan))


@dataclass(frozen=True, slots=True)
class SubspaceStage(_Stage):
    """The stage that finds the subspace; it gets the rest of the budget."""

    choose_components: bool = False
    """Whether the number of components is chosen here, from the released second moment."""
    needs_units: bool = False
    """Whether the plan must know a released centre and scale: it may find them again, or fill
    missing cells."""

    def view(self, progress: Progress) -> View:
        """Rows are seen on fewer columns if a stage narrowed them."""
        return (*progress.view, *progress.narrowed)

    def point(self, progress: Progress) -> FloatArray | None:
        """Return the centre and the scale of the rows, if the plan must know them."""
        if not self.needs_units:
            return None
        affine = affine_of(progress.view)
        some = affine.center or affine.scale
        assert some is not None
        return np.stack(affine.vectors(some.shape[0]))

    def after(self, progress: Progress, found: Found) -> Progress:
        """Keep the basis, its axes turned to the components."""
        V, moment, facts = found.V, found.moment, dict(found.facts)
        if self.choose_components:
            assert moment is not None
            V = V[:, : count_components(moment, _noise(self.plan), V.shape[1])]
        if found.n_iter == 0 and moment is not None:  # private PCA: one second moment, no step
            sd = _noise(self.plan)
            facts["error_estimate"] = Spectrum.of(moment, sd, V.shape[1]).pca_error(sd)
        if progress.narrowed:
            V, moment = _widened(progress, V, moment, facts)
        dropped = facts.get("dropped", progress.facts.get("dropped"))
        if dropped is not None and dropped.any():
            V = _without(V, dropped)
        V = np.ascontiguousarray(oriented(V, moment).T)
        # Rows that were left out stay left out for the summaries; on fewer columns they cannot be
        # told apart, and all rows count.
        view = progress.view
        if found.whole:
            view = found.through
        elif not progress.narrowed:
            view = (*view, *found.through)
        n_iter = progress.n_iter + found.n_iter
        after = replace(progress, view=view, V=V, moment=moment, n_iter=n_iter)
        return after.knowing(**facts)


@dataclass(frozen=True, slots=True)
class SummaryStage(_Stage):
    """A summary of the rows at the components."""

    n_components: int
    """The number of columns that the release is planned for."""

    def point(self, progress: Progress) -> FloatArray | None:
        """Return the components that the release is planned for."""
        return _components(progress, self.n_components)

    def after(self, progress: Progress, found: Found) -> Progress:
        """Keep what was released under the summary's name; a certificate is a fact already."""
        return progress.knowing(**(found.facts or {self.plan.name: found.V}))


@dataclass(frozen=True, slots=True)
class LengthStage(_Stage):
    """Counts of the lengths of the rows say how far a map of the scores reaches."""

    def view(self, progress: Progress) -> View:
        """Of a row only its length is seen; rows that were left out of the fit count again."""
        return (*with_bound(progress.view, Sphere()), Lengths())

    def point(self, progress: Progress) -> FloatArray | None:  # noqa: ARG002
        """The distance of a level to the zero subspace is the level."""
        return np.zeros((1, 1))

    def after(self, progress: Progress, found: Found) -> Progress:
        """Keep the length, in the units of the fit."""
        return progress.knowing(map_length=length_of_map(found.V, _noise(self.plan)))


@dataclass(frozen=True, slots=True)
class ScoreMapStage(_Stage):
    """A histogram of the scores at the components, of rows that are shortened, not sphered."""

    m: int
    """Scores that are counted: 1 or 2."""
    length: float | None = None
    """The norm that rows are clipped to, if the fit clips them; otherwise released before."""

    def _length(self, progress: Progress) -> float:
        return float(progress.facts["map_length"]) if self.length is None else self.length

    def view(self, progress: Progress) -> View:
        """Rows that were left out of the fit are on the map again."""
        return with_bound(progress.view, Clip(self._length(progress)))

    def point(self, progress: Progress) -> FloatArray | None:
        """Return the components whose scores are counted."""
        return _components(progress, self.m)

    def after(self, progress: Progress, found: Found) -> Progress:
        """Keep the map."""
        length = self._length(progress)
        return progress.knowing(map_shares=found.V, map_length=length, map_sd=_noise(self.plan))


@dataclass(frozen=True, slots=True)
class ScreeStage(_Stage):
    """The eigenvalues of a second moment that is released for this picture alone."""

    def point(self, progress: Progress) -> FloatArray | None:  # noqa: ARG002
        """A second moment is asked nowhere."""
        return np.empty((0, 0))

    def after(self, progress: Progress, found: Found) -> Progress:
        """Keep the eigenvalues, freed of the noise's part."""
        scree = scree_of(found.V, _noise(self.plan))
        return progress.knowing(scree=scree.values, scree_noise=scree.noise)


def _components(progress: Progress, count: int) -> FloatArray:
    """Return the first components; zero columns stand in for components that are not there."""
    assert progress.V is not None
    found = progress.V[:, :count]
    return np.pad(found, ((0, 0), (0, count - found.shape[1])))


def _noise(plan: AnyPlan) -> float:
    """Return the standard deviation of the noise on the mean that a plan releases first."""
    release = next(plan.releases())
    return release.sigma(0) / release.size


def _without(V: FloatArray, dropped: npt.NDArray[np.bool_]) -> FloatArray:
    """Return the basis without the noise that it has along dropped columns, orthonormal again."""
    kept = np.where(dropped[:, None], 0.0, V)
    if np.linalg.matrix_rank(kept) < V.shape[1]:
        return V
    left, _, right = np.linalg.svd(kept, full_matrices=False)
    return np.where(dropped[:, None], 0.0, left @ right)  # exactly zero, whatever rounding says


def _widened(
    progress: Progress, V: FloatArray, moment: FloatArray | None, facts: dict[str, Any]
) -> tuple[FloatArray, FloatArray | None]:
    """Return a basis of narrowed rows in all columns, and the second moment of its scores.

    To the error estimate is added what the projection lost, as far as noise goes.
    """
    project, r = progress.narrowed[0], V.shape[1]
    assert isinstance(project, Project)
    assert progress.moment is not None
    if "left_out" in facts:  # directions in all columns
        facts["left_out"] = tuple(
            replace(group, direction=project.basis.array @ group.direction)
            for group in facts["left_out"]
        )
    if "error_estimate" in facts:
        sd, kept = progress.facts["narrowing_sd"], project.basis.shape[1]
        lost = Spectrum.of(progress.moment, sd, r).pca_error(sd, kept=kept)
        facts["error_estimate"] = float(min(facts["error_estimate"] + lost, r * pi**2 / 4.0))
    if moment is not None and len(moment) != r:
        moment = V.T @ moment @ V
    return project.basis.array @ V, moment
