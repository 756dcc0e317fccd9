"""Export of an event to dp_accounting, for people who want to check a guarantee elsewhere."""

from __future__ import annotations

from typing import Any

from stillspace.privacy.accounting import check_accounted
from stillspace.privacy.events import (
    ComposedEvent,
    GaussianEvent,
    Relation,
    SingleEvent,
    check_relation,
)


def to_dp_accounting(event: ComposedEvent, relation: Relation) -> Any:
    """Return a dp_accounting `DpEvent` that stands for `event` under `relation`.

    Give it to `PLDAccountant` with the same neighbouring relation; fixed-size sampling is only
    known to `RdpAccountant` (without replacement). What dp_accounting means by a noise multiplier
    depends on the accountant:

    - all rows: its PLD accountant doubles the sensitivity under REPLACE_ONE, whatever the query,
      so that the exported multiplier is 2σ/Δ_replace there and σ/Δ_add under ADD_OR_REMOVE_ONE;
    - Poisson: σ/(norm bound) under both, as there;
    - fixed size: σ/Δ_replace, the unit of the substitution that is amplified.

    The sampler's total-variation error has no counterpart and is left out.
    """
    check_relation(relation)
    dp_event = _dp_event_module()
    parts = [
        dp_event.SelfComposedDpEvent(_single(single, relation, dp_event), int(count))
        for single, count in event
        if count
    ]
    return dp_event.ComposedDpEvent(parts)


def _dp_event_module() -> Any:
    try:
        from dp_accounting import dp_event  # noqa: PLC0415 (optional, and slow to import)
    except ImportError as error:
        raise ImportError(
            "to_dp_accounting needs dp-accounting; install it with "
            "`pip install 'stillspace[accounting]'`."
        ) from error
    return dp_event


def _single(event: SingleEvent, relation: Relation, dp_event: Any) -> Any:
    if not isinstance(event, GaussianEvent):
        return dp_event.NonPrivateDpEvent()
    check_accounted(event, relation)
    z = event.noise_multiplier(relation)
    if event.sampling == "all":
        return dp_event.GaussianDpEvent(2 * z if relation == "replace-one" else z)
    inner = dp_event.GaussianDpEvent(z)
    if event.sampling == "poisson":
        return dp_event.PoissonSampledDpEvent(event.rate, inner)
    fixed = (
        dp_event.SampledWithoutReplacementDpEvent
        if event.sampling == "without-replacement"
        else dp_event.SampledWithReplacementDpEvent
    )
    return fixed(event.population, event.batch_size, inner)
