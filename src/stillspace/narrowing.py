"""Wide rows on fewer columns: the leading directions of a second moment that was released."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import pi

import numpy as np

from stillspace._typing import FloatArray
from stillspace.methods.spectrum import Spectrum
from stillspace.parts.geometry import top_eigenvectors
from stillspace.plans.release import Ledger, Release
from stillspace.privacy import ComposedEvent
from stillspace.rows import Rows
from stillspace.run import Result


@dataclass(frozen=True, slots=True)
class Narrowing:
    """Fewer columns: a released second moment's leading eigenvectors, many more than components.

    Rows are projected to them and scaled to the sphere again, so that what is left of a row counts
    fully, and a later release has noise in `width` columns only. A projection that was released
    treats each row by itself, so the bounds of later releases hold as before (docs/privacy.md).
    """

    release: Release
    width: int

    def event(self) -> ComposedEvent:
        """Return the event of the release."""
        return ComposedEvent.of([self.release.event(0)])

    def find(
        self, rows: Rows, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, ComposedEvent]:
        """Return the basis (D, width), the released second moment, and what ran."""
        ledger = Ledger()
        draw = self.release.draw(0, rows.n_rows, rng, ledger)
        moment = self.release.apply(rows, np.empty((0, 0)), draw)
        basis = top_eigenvectors(moment, self.width)
        return basis, moment, ComposedEvent.of(ledger.events)

    def widened(self, result: Result, basis: FloatArray, moment: FloatArray) -> Result:
        """Return a result of narrowed rows in all columns.

        To its error estimate is added what the projection lost, as far as noise goes.
        """
        V = result.V
        worst = V.shape[1] * pi**2 / 4.0
        inside = result.moment
        if inside is not None and len(inside) != V.shape[1]:
            inside = V.T @ inside @ V
        facts = dict(result.facts)
        if "error_estimate" in facts:
            sd = self.release.sigma(0) / self.release.size
            lost = Spectrum.of(moment, sd, V.shape[1], kept=self.width).pca_error
            facts["error_estimate"] = float(np.minimum(facts["error_estimate"] + lost, worst))
        return replace(result, V=basis @ V, moment=inside, facts=facts)
