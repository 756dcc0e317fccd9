"""Into how many parts a large table is divided, for passes that need not be precise."""

from __future__ import annotations

from dataclasses import dataclass

from stillspace.methods.spectrum import Moment
from stillspace.parts.queries import Query
from stillspace.parts.sampling import All, RowPart
from stillspace.plans.adaptive import Allowance
from stillspace.plans.ledger import ALL


@dataclass(frozen=True, slots=True)
class DivisionRule:
    """When passes read parts of the rows; docs/newton.md has the constants as a table."""

    least_cells: int = 2**22
    """Rows times columns from which on rows are divided: time matters."""
    most_parts: int = 8
    """Parts of the rows, at most."""
    kappa_per_part: float = 12.0
    """κ̂ per part: with more parts, a step of the first phase would have too much noise."""
    smallest_group: float = 0.02
    """Share of the rows: a group of outliers of this size must be visible in a part."""

    def first_part(
        self, allowance: Allowance, moment: Moment, r: int, *queries: Query
    ) -> All | RowPart:
        """Return the part number 0 of a division, or all rows.

        A strong signal is found in some of the rows. The queries are those that read parts.
        """
        kappa = moment.spectrum(r).kappa / moment.share**0.5
        parts = min(self.most_parts, int(kappa / self.kappa_per_part))
        small = allowance.size * len(moment.value) < self.least_cells
        if small or parts < 2 or not allowance.divides(parts, *queries):
            return ALL
        return RowPart(parts, 0)


DIVISION = DivisionRule()
"""What fits use."""
