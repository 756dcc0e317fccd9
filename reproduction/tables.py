"""Tables: what the cells of one setting say together, written as CSV."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from math import nan
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np

from reproduction.cells import TOLERANCE, Cell, Result
from stillspace._files import write_atomically

Row: TypeAlias = dict[str, Any]
Table: TypeAlias = list[Row]

TINIEST = 1e-40
"""Errors below count as this: their logarithm stays finite."""

OUTPUT, ITERATE = "", "_of_iterate"
"""Endings of column names: what a method returns (REAPER: the average), and its last iterate."""

TIME = "seconds"
"""Columns that start with this hold times: the only ones that differ from run to run."""


def log10(errors: Iterable[float]) -> np.ndarray[Any, np.dtype[np.float64]]:
    """Return the decimal logarithms of errors."""
    logs: np.ndarray[Any, np.dtype[np.float64]] = np.log10(np.maximum(list(errors), TINIEST))
    return logs


def summary(done: Iterable[tuple[Cell, Result]]) -> Table:
    """Return one row a setting, method and column, over all its runs, in the order of the cells."""
    groups: dict[Any, list[tuple[Cell, Result]]] = defaultdict(list)
    for cell, result in done:
        groups[cell.setting, cell.method, cell.column].append((cell, result))
    return [_row(parts) for parts in groups.values()]


def _row(parts: Sequence[tuple[Cell, Result]]) -> Row:
    cell, result = parts[0]
    runs = [run for _, part in parts for run in part["runs"]]
    reached = [run for run in runs if run["reached"] is not None]
    by_iterate = [run for run in runs if run.get("iterate_reached", run["reached"]) is not None]
    return {
        **asdict(cell.setting),
        "method": cell.method,
        "column": cell.column,
        "runs": len(runs),
        "sigma": result.get("sigma"),
        "first_step": result.get("first_step"),
        "true_epsilon": result["epsilon"],
        "true_epsilon_of_loop": result.get("epsilon_loop"),
        "epsilon_is": result.get("epsilon_is"),
        **_errors([run["error"] for run in runs], OUTPUT),
        **_errors([run.get("iterate_error", run["error"]) for run in runs], ITERATE),
        f"share_reached{OUTPUT}": len(reached) / len(runs),
        f"share_reached{ITERATE}": len(by_iterate) / len(runs),
        "iterations_to_reach": _median(run["reached"] for run in reached),
        f"{TIME}_per_run": _median(run["seconds"] for run in runs),
        f"{TIME}_to_reach": _median(run["seconds_to_reach"] for run in reached),
    }


def _errors(errors: Sequence[float], view: str) -> Row:
    logs = log10(errors)
    low, middle, high = np.quantile(logs, [0.25, 0.5, 0.75])
    return {
        f"median_log10_error{view}": float(middle),
        f"q25_log10_error{view}": float(low),
        f"q75_log10_error{view}": float(high),
        f"mean_log10_error{view}": float(logs.mean()),
        f"share_good{view}": float(np.mean(np.asarray(errors) <= TOLERANCE)),
    }


def _median(values: Iterable[float]) -> float | None:
    found = list(values)
    return float(np.median(found)) if found else None


def write_csv(table: Table, path: Path) -> None:
    """Write a table; numbers to six digits, nothing where there is none."""
    buffer = io.StringIO(newline="")
    writer = csv.DictWriter(buffer, list(table[0]), lineterminator="\n")
    writer.writeheader()
    for row in table:
        writer.writerow({name: _shown(value) for name, value in row.items()})
    write_atomically(path, buffer.getvalue().encode())


def read_csv(path: Path) -> Table:
    """Read a table; what looks like a number is one, an empty cell is None."""
    with open(path, encoding="utf-8", newline="") as file:
        return [{name: _value(text) for name, text in row.items()} for row in csv.DictReader(file)]


def _shown(value: Any) -> Any:
    if value is None:
        return ""
    return f"{value:.6g}" if isinstance(value, float) else value


def _value(text: str) -> Any:
    if text == "":
        return None
    try:
        return float(text)
    except ValueError:
        return text


def pick(table: Table, **facts: Any) -> Table:
    """Return the rows with these values."""
    return [row for row in table if all(row.get(name) == value for name, value in facts.items())]


def one(table: Table, **facts: Any) -> Row:
    """Return the only row with these values."""
    found = pick(table, **facts)
    if len(found) != 1:
        msg = f"{len(found)} rows of the table have {facts}; one was expected."
        raise ValueError(msg)
    return found[0]


def values(table: Table, name: str) -> list[Any]:
    """Return the different values of a column, ascending."""
    return sorted({row[name] for row in table})


def number(row: Mapping[str, Any], name: str) -> float:
    """Return a number of a row; NaN where there is none."""
    value = row[name]
    return nan if value is None else float(value)
