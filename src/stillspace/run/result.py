"""What a run gives back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from stillspace._typing import FloatArray
from stillspace.privacy.events import NOTHING, ComposedEvent
from stillspace.rows.maps import View


@dataclass(frozen=True, slots=True)
class Result:
    """The basis (or whatever else a plan finds), and what the run did with the rows."""

    V: FloatArray
    n_iter: int
    converged: bool
    event: ComposedEvent = NOTHING
    moment: FloatArray | None = None
    """The second moment that the start released, if it did: free for post-processing."""
    costs: tuple[float, ...] = ()
    """The cost at the point before each iteration, where the query carries it (never private)."""
    facts: Mapping[str, Any] = field(default_factory=lambda: MappingProxyType({}))
    """What else was learnt from releases, by name."""
    through: View = ()
    """Row maps that the plan suggests for later stages."""
    whole: bool = False
    """Whether these take the place of the view."""
    view: View = ()
    """What was done to a row in the end, for a staged plan."""
