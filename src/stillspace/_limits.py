"""Public limits and words that the command checks before it imports a library."""

from __future__ import annotations

from typing import Literal, TypeAlias

Relation: TypeAlias = Literal["replace-one", "add-or-remove-one"]
RELATIONS: tuple[Relation, ...] = ("replace-one", "add-or-remove-one")

LARGEST_EPSILON = 50.0
"""Up to this ε the sampler's error, (1 + e^ε) τ per coordinate, stays far below any usual δ."""

SMALLEST_DELTA = 1e-30
"""Below this δ the error of the sampler (about 1e-36 for a small fit) would count."""
