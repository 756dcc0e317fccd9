"""What the paper says of its convergence experiment, judged from the tables."""

from __future__ import annotations

from functools import partial
from math import inf

import numpy as np

from reproduction.cells import TOLERANCE
from reproduction.columns import (
    FULL_BATCH,
    HALVING,
    NONCONVEX,
    PRINTED,
    REAPER_START,
    SIX,
    STOCHASTIC,
    base_of,
)
from reproduction.statements import (
    VIEWS,
    Mark,
    Statement,
    by_share,
    columns_in,
    error,
    judged,
    rows_of,
)
from reproduction.tables import Row, Table, number, one, pick


def convergence_statements(
    final: Table, rates: Table, traces: Table, ours: str
) -> tuple[Statement, ...]:
    """Return every statement of the experiment with its marks."""
    leads = tuple(
        judged(
            f"The convex methods lead {nonconvex} at first, for about {stated} iterations.",
            "For at least one of the two convex methods of the same kind, the last iteration at "
            f"which its median error is the smaller one lies between {stated // 2} and "
            f"{2 * stated}.",
            traces,
            partial(_lead_mark, nonconvex=nonconvex, stated=stated),
            ours,
        )
        for nonconvex, stated in LEADS.items()
    )
    start = judged(
        "If D is not large, it may be beneficial to start dp-(S)GGD from the dp-REAP method of its "
        "kind instead of dp-PCA.",
        "The median error after the first 50 iterations is smaller than with the start by "
        "dp-PCA, for dp-GGD from dp-GD-REAP and from dp-MD-REAP, and for dp-SGGD from dp-SGD-REAP "
        "and from dp-SMD-REAP.",
        traces,
        _start_mark,
        "Does not apply: the start is a part of the method.",
    )
    return (
        _rate_statement(rates, "dp-GGD and dp-SGGD converge linearly.", NONCONVEX, _LINEAR, ours),
        _rate_statement(
            rates,
            "The four convex methods converge sublinearly.",
            tuple(m for m in SIX if m not in NONCONVEX),
            _SUBLINEAR,
            ours,
        ),
        judged(
            "dp-(S)GGD ends far below the convex methods.",
            "Each nonconvex method against the two convex ones of its kind: its upper quartile of "
            "the final error lies below their lower quartile, in all four pairs.",
            final,
            _order_mark,
            ours,
        ),
        judged(
            "The nonconvex methods are faster in time (the paper's contributions).",
            "Each nonconvex method against the two convex ones of its kind: its median error stays "
            f"below {TOLERANCE:g} from an earlier processor time on, in all four pairs. Who does "
            "not get there is the slower one; two that do not are no pair.",
            traces,
            _time_mark,
            _ours_time_text(final),
        ),
        *leads,
        start,
        _noise_statement(final),
    )


LEADS = {"dp-SGGD": 600, "dp-GGD": 100}
"""How long the convex methods lead, as the paper says."""
_LINEAR = (
    "The exponential law fits better than a power of k, and the error falls by at least log10 2 "
    "decades per halving of the step, by the end of its 95 % interval."
)
_SUBLINEAR = "None of the four converges linearly by the rule of the first statement."


def _rate_statement(
    rates: Table, claim: str, methods: tuple[str, ...], rule: str, ours: str
) -> Statement:
    judge = _is_linear if rule == _LINEAR else _is_sublinear
    marks: dict[str, dict[str, Mark]] = {}
    for column in columns_in(rates):
        marks[column] = {}
        for view, words in VIEWS.items():
            rows = [r for r in rows_of(rates, column) if r["view"] == words]
            mine = [row for row in rows if row["method"] in methods]
            true = sum(judge(row) for row in mine)
            marks[column][view] = by_share(true, len(mine), 1.0)
    return Statement(claim, rule, marks, ours)


def _is_linear(row: Row) -> bool:
    """Whether the error at least halves with every halving of the step, by the interval's end."""
    return bool(row["better_law"] == "exponential" and row["decades_a_unit_high"] <= -np.log10(2))


def _is_sublinear(row: Row) -> bool:
    return not _is_linear(row)


def kinds() -> tuple[tuple[str, tuple[str, ...]], ...]:
    """Return each nonconvex method with the convex ones of its kind."""
    return (("dp-SGGD", STOCHASTIC[1:]), ("dp-GGD", FULL_BATCH[1:]))


def _order_mark(rows: Table, view: str) -> Mark:
    true = cells = 0
    for nonconvex, convex in kinds():
        mine = number(one(rows, method=nonconvex), f"q75_log10_error{view}")
        for method in convex:
            cells += 1
            true += mine < number(one(rows, method=method), f"q25_log10_error{view}")
    return by_share(true, cells, 1.0)


def settled(trace: Table, view: str) -> float:
    """Return the processor time from which on the median error is at most 1e-2, ∞ if never."""
    late = [row["iteration"] for row in trace if error(row, view) > np.log10(TOLERANCE)]
    after = [row["seconds"] for row in trace if row["iteration"] > max(late, default=-1)]
    return float(min(after, default=inf))


def _time_mark(rows: Table, view: str) -> Mark:
    true = cells = 0
    texts = []
    for nonconvex, convex in kinds():
        times = {m: settled(pick(rows, method=m), view) for m in (nonconvex, *convex)}
        texts += [f"{m} {_time_text(time)}" for m, time in times.items()]
        for method in convex:
            if min(times[nonconvex], times[method]) < inf:
                cells += 1
                true += times[nonconvex] < times[method]
    mark = by_share(true, cells, 1.0)
    return Mark(mark.holds, f"{mark.count}: {', '.join(texts)}")


def _time_text(seconds: float) -> str:
    if seconds == inf:
        return "never"
    return f"{1000 * seconds:.0f} ms" if seconds > 0.01 else f"{1000 * seconds:.2g} ms"


def _ours_time_text(final: Table) -> str:
    parts = [
        f"{row['method']} {_time_text(seconds)}"
        for row in pick(final, column="ours")
        if (seconds := number(row, "seconds_to_reach")) > 0.0
    ]
    return f"Time of the whole fit: {', '.join(parts)}."


def leads(traces: Table, nonconvex: str, view: str) -> dict[str, int]:
    """Return, for each convex method of a kind, the last iteration at which it is ahead."""
    mine = {r["iteration"]: error(r, view) for r in pick(traces, method=nonconvex)}
    found = {}
    for method in dict(kinds())[nonconvex]:
        theirs = {r["iteration"]: error(r, view) for r in pick(traces, method=method)}
        ahead = (k for k in mine if k and theirs[k] < mine[k])
        found[method] = int(max(ahead, default=0))
    return found


def _lead_mark(rows: Table, view: str, *, nonconvex: str, stated: int) -> Mark:
    found = leads(rows, nonconvex, view)
    text = ", ".join(f"{method} until {until}" for method, until in found.items())
    return Mark(any(stated // 2 <= until <= 2 * stated for until in found.values()), text)


def _start_mark(rows: Table, view: str) -> Mark:
    at = max(row["iteration"] for row in rows if row["iteration"] <= HALVING)
    errors = {
        m: error(one(rows, method=m, iteration=at), view) for m in (*NONCONVEX, *REAPER_START)
    }
    true = sum(errors[m] < errors[base_of(m)] for m in REAPER_START)
    return by_share(true, len(REAPER_START), 1.0)


def _noise_statement(final: Table) -> Statement:
    """Judge whether sampling needs less noise, at equal true ε."""
    marks: dict[str, dict[str, Mark]] = {}
    for column in columns_in(final):
        rows = rows_of(final, column)
        pairs = ((m, one(rows, method=FULL_BATCH[i])) for i, m in enumerate(STOCHASTIC))
        ratios = [number(one(rows, method=m), "sigma") / number(r, "sigma") for m, r in pairs]
        true = sum(ratio < 1.0 for ratio in ratios)
        text = f"{true} of 3, σ ratios {', '.join(f'{ratio:.4g}' for ratio in ratios)}"
        holds = None if column in PRINTED else true == len(ratios)
        marks[column] = dict.fromkeys(VIEWS, Mark(holds, text))
    return Statement(
        "Stochastic gradients need less noise.",
        "At the same ε (start included), σ of each stochastic method is below that of its "
        "full-batch version. Printed columns show their ratios but stay open, because the true ε "
        "of the two versions differ.",
        marks,
        "Does not apply: at this size every release of the default reads all rows.",
    )
