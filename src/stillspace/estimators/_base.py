"""What the three estimators share: transform, orientation of components, tags."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, cast

import numpy as np
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import Tags, check_array, estimator_html_repr
from sklearn.utils.validation import check_is_fitted

from stillspace._checks import described
from stillspace._html import facts_in_html, facts_in_text
from stillspace._typing import AnyArray, FloatArray
from stillspace.estimators._files import blocks
from stillspace.estimators._summary import facts_of
from stillspace.estimators._tables import check_kind, checked_array
from stillspace.estimators._validation import checked_code
from stillspace.parts.noise import secure_generator, seeded_generator
from stillspace.privacy import Guarantee
from stillspace.rows import Affine, MemoryRows, RowTable, Sketch


class SubspaceEstimator(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """A fitted subspace: `components_` (r, D), `center_` and `scale_`, with both transforms."""

    components_: FloatArray
    center_: FloatArray
    scale_: FloatArray
    sketch_: Sketch | None
    privacy_: Guarantee
    n_features_in_: int
    missing_code: float | None

    def transform(self, X: Any) -> AnyArray:
        """Return the scores `((X − center_) / scale_) @ components_.T`.

        Cells that hold `missing_code` sit at the centre, and in private fits so does NaN. Sparse
        and int8 rows are converted a block at a time.
        The scores of private rows are not covered by a privacy guarantee: they show the rows.
        """
        check_is_fitted(self)
        finite = not self.__sklearn_tags__().input_tags.allow_nan
        X = checked_array(self, X, reset=False, min_samples=1, finite=finite)
        if self.sketch_ is not None:
            parts = blocks(X) if isinstance(X, RowTable) else [X]
            return np.concatenate([self._sketched(part, self.sketch_) for part in parts])
        return np.concatenate([block @ self.components_.T for block in self._centred(X)])

    def _sketched(self, X: Any, sketch: Sketch) -> AnyArray:
        rows = MemoryRows.of(X).through(self._affine).through(sketch)
        return np.asarray(rows.sphered() @ self.components_.T)

    def inverse_transform(self, X: Any) -> AnyArray:
        """Return the points of the subspace that have these scores, in the original units."""
        check_is_fitted(self)
        if self.sketch_ is not None:
            msg = (
                "A subspace of a sketch has no points in the original columns; fit with "
                "sketch=None for inverse_transform."
            )
            raise ValueError(msg)
        check_kind(X)
        X = check_array(X, dtype=[np.float64, np.float32], ensure_all_finite=False)
        if X.shape[1] != len(self.components_):
            msg = (
                f"X must have {len(self.components_)} columns, one per component, got {X.shape[1]}."
            )
            raise ValueError(msg)
        return cast(AnyArray, X @ self.components_ * self.scale_ + self.center_)

    def summary(self) -> str:
        """Return what was found, in a few lines: public facts and releases for a private fit."""
        check_is_fitted(self)
        return facts_in_text(type(self).__name__, facts_of(self))

    def _repr_html_inner(self) -> str:
        return self._html_repr()

    def _repr_mimebundle_(self, **options: Any) -> dict[str, str]:
        bundle: dict[str, str] = super()._repr_mimebundle_(**options)
        if "text/html" in bundle:
            bundle["text/html"] = self._html_repr()
        return bundle

    def _html_repr(self) -> str:
        """Return the diagram of scikit-learn and, after a fit, what was found."""
        diagram = str(estimator_html_repr(self))
        if not hasattr(self, "components_"):
            return diagram
        warning = "" if self.privacy_.private else "No privacy is promised."
        facts = facts_in_html(f"{type(self).__name__}, fitted", facts_of(self), warning=warning)
        return diagram + facts

    def _centred(self, X: Any) -> Iterator[AnyArray]:
        """Yield checked rows in the units of the fit, a block of rows at a time."""
        return self._affine.blocks(X)

    @property
    def _affine(self) -> Affine:
        """What is done to a cell before the subspace is looked at."""
        missing = checked_code("missing_code", self.missing_code)
        holes = getattr(self, "nonfinite", None) == "center"
        return Affine.of(self.center_, self.scale_, missing, holes=holes)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)


def merged_options(named: dict[str, Any], options: Any) -> dict[str, Any]:
    """Return the recipe's options: parameters with a name of their own, then the others."""
    if options is None:
        return named
    if not isinstance(options, Mapping):
        msg = f"algorithm_options must be a mapping of names to values, got {described(options)}."
        raise TypeError(msg)
    for name in options:
        if name in named:
            msg = (
                f"{described(name)} has a parameter of its own; leave it out of algorithm_options."
            )
            raise ValueError(msg)
    return {**named, **options}


def generator(random_state: Any) -> np.random.Generator:
    """Return a secure generator for None, else one seeded from an int or a NumPy generator."""
    if random_state is None:
        return secure_generator()
    if isinstance(random_state, np.random.Generator | np.random.RandomState):
        return seeded_generator(int.from_bytes(random_state.bytes(32), "little"))
    whole = isinstance(random_state, int | np.integer) and not isinstance(
        random_state,
        np.timedelta64,  # NumPy counts durations as whole numbers
    )
    if not whole or not 0 <= int(random_state) < 2**256:
        msg = (
            "random_state must be None, a whole number of at least 0 and below 2**256, a "
            f"RandomState or a Generator, got {described(random_state)}."
        )
        raise ValueError(msg)
    return seeded_generator(int(random_state))
