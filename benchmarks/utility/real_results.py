"""Figures about real tables, from the cells that were measured."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.utility.drawn_rows import Classic, Flags, MissingCells
from benchmarks.utility.planted import CLEAN, KINDS
from benchmarks.utility.results import Figure
from benchmarks.utility.table_fits import DEFAULT, PCA, UNITS, RobustFit, TableFit

CAPTURED = 0.5
"""d² in rad² from which on a robust fit counts as captured by the planted rows."""
EASY = ("tight 20 %", "two opposite 20 %", "far 15 %")
HARD = ("line 10 %", "three clusters 21 %", "loose 20 %")
LARGE_TABLE = 2900
"""Rows from which on bad rows must be found."""
ROBUST_ASKED = ("far 15 %", "far 25 %", "tight 20 %", "tight 30 %", "line 10 %")


CURVE = (10, 15, 25, 40, 60, 100, 160, 250, 500, 1000)
"""κ to which development tables are cut, by a random choice of rows."""


def nominal(kappa: float) -> int:
    """Return the κ that was asked for: a few rows or columns may make it a little larger."""
    return min(CURVE, key=lambda k: abs(np.log(k / kappa)))


@dataclass(frozen=True, slots=True)
class Measured:
    """A cell and its result."""

    cell: Any
    result: dict[str, Any]

    def median(self, what: str) -> float:
        return float(np.median(self.result[what]))


@dataclass(frozen=True, slots=True)
class RealResults:
    """Everything measured, by part."""

    parts: dict[str, list[Measured]]

    def fits(self, part: str, **fields: Any) -> list[Measured]:
        """Return the fits of a part whose cells have these fields, over all rows of a table.

        Of unseen tables a choice of rows stands for all.
        """
        wanted = {"r": 2, **fields} if part == "unseen" else {"rows": None, "r": 2, **fields}
        return [
            m
            for m in self.parts.get(part, [])
            if isinstance(m.cell, TableFit)
            and all(getattr(m.cell, name) == value for name, value in wanted.items())
        ]

    def by_table(self, part: str, **fields: Any) -> dict[str, Measured]:
        return {m.cell.table: m for m in self.fits(part, **fields)}

    def figures(self) -> list[Figure]:
        found: list[Figure] = []
        for part in ("development", "set aside", "unseen"):
            if self.parts.get(part):
                found += [*self._captured(part), *self._standardiser(part), *self._planted(part)]
                found += [*self._clean(part), *self._missing_tables(part)]
        for part in ("robust", "robust set aside"):
            found += self._robust(part)
        return [*found, *self._drawn()]

    # --- private fits ---------------------------------------------------------------------------

    def _captured(self, part: str) -> Iterator[Figure]:
        fits = self.fits(part, kind=CLEAN, method=DEFAULT, epsilon=1.0)
        for what, chosen, least, worst in (
            ("κ ≥ 40", lambda m: m.result["kappa"] >= 40, 0.9, 0.5),
            ("n ≥ 1500√D", lambda m: m.result["n"] >= 1500 * m.result["D"] ** 0.5, 0.95, None),
        ):
            values = [(m.median("captured"), m.cell.table) for m in fits if chosen(m)]
            if not values:
                continue
            shares = np.array([v for v, _ in values])
            met = np.median(shares) >= least and (worst is None or shares.min() >= worst)
            yield Figure(
                f"{part}: captured share, nothing known, ε = 1, {what}: median / worst",
                f"≥ {least:g}" + (f" / ≥ {worst:g}" if worst else ""),
                f"{np.median(shares):.3f} / {shares.min():.3f} ({len(shares)} tables)",
                bool(met),
                "least: " + ", ".join(f"{name} {v:.2f}" for v, name in sorted(values)[:3]),
            )

    def _standardiser(self, part: str) -> Iterator[Figure]:
        found = self.by_table(part, kind=CLEAN, method="standardised", epsilon=1.0)
        known = self.by_table(part, kind=CLEAN, method="standardised, known", epsilon=1.0)
        large = [t for t, m in found.items() if m.result["kappa"] >= 120 and t in known]
        if not large:
            return
        cost = [1 - found[t].median("captured") / known[t].median("captured") for t in large]
        yield Figure(
            f"{part}: cost of the standardiser on standardised tables, κ ≥ 120, ε = 1, median",
            "≤ 3 % of the captured share",
            f"{np.median(cost):.1%}, mean {np.mean(cost):.1%}, worst {max(cost):.1%} "
            f"({len(large)} tables)",
            bool(np.median(cost) <= 0.03),
            f"worst: {large[int(np.argmax(cost))]}",
        )

    def successes(self, part: str, method: str, kind: str, epsilon: float) -> list[bool]:
        """Return, per large table, whether d² is within 2 × that of the clean table + .02."""
        ideal = self.by_table(part, kind=CLEAN, method=method, epsilon=epsilon)
        fits = self.fits(part, kind=kind, method=method, epsilon=epsilon)
        return [
            m.median("d2") <= 2.0 * ideal[m.cell.table].median("d2") + 0.02
            for m in fits
            if m.result["n"] >= LARGE_TABLE and m.cell.table in ideal
        ]

    def _planted(self, part: str) -> Iterator[Figure]:
        for kinds, epsilon, least in ((EASY, 4.0, 0.9), (EASY, 1.0, 0.8), (HARD, 4.0, 0.5)):
            for method in (UNITS, DEFAULT):
                shares = {k: self.successes(part, method, k, epsilon) for k in kinds}
                if not all(shares.values()):
                    continue
                values = {kind: float(np.mean(found)) for kind, found in shares.items()}
                yield Figure(
                    f"{part}: {', '.join(kinds)}; ε = {epsilon:g}, n ≥ {LARGE_TABLE}, {method}: "
                    "share of tables with d² ≤ 2 × clean + .02",
                    f"≥ {least:g} each",
                    " / ".join(f"{v:.2f}" for v in values.values())
                    + f" ({len(shares[kinds[0]])} tables)",
                    bool(min(values.values()) >= least),
                )

    def _clean(self, part: str) -> Iterator[Figure]:
        ratios = []
        for target in ("d2", "d2 to PCA"):
            for epsilon in (1.0, 2.0, 4.0):
                ours = self.by_table(part, kind=CLEAN, method=UNITS, epsilon=epsilon)
                pca = self.by_table(part, kind=CLEAN, method=PCA, epsilon=epsilon)
                for t in ours.keys() & pca.keys():
                    ratio = ours[t].median(target) / pca[t].median(target)
                    cut = any(ours[t].result["groups"])
                    ratios.append((target, ratio, t, epsilon, cut))
        for target, name in (("d2", "the robust optimum"), ("d2 to PCA", "PCA's optimum")):
            values = [r[1:] for r in ratios if r[0] == target]
            if not values:
                continue
            plain = np.array([v[0] for v in values])
            mean, worst = float(np.exp(np.log(plain).mean())), max(values)
            kept = max((v for v in values if not v[3]), default=worst)
            asked = target == "d2"
            yield Figure(
                f"{part}: clean tables, units given, d² to {name} over that of private PCA, all ε",
                "worst ≤ 1.3, geometric mean ≤ .9" if asked else "–",
                f"worst {worst[0]:.2f}, geometric mean {mean:.2f} ({len(plain)} pairs)",
                bool(worst[0] <= 1.3 and mean <= 0.9) if asked else None,
                f"{np.mean(plain > 1.3):.0%} above 1.3; worst: {worst[1]}, ε = {worst[2]:g}; "
                f"where no fit left a group out: {kept[0]:.2f} ({kept[1]}, ε = {kept[2]:g})",
            )
        cut: dict[str, int] = {}
        total = 0
        for method in (DEFAULT, UNITS):
            for m in self.fits(part, kind=CLEAN, method=method):
                total += len(m.result["groups"])
                for groups in m.result["groups"]:
                    cut[m.cell.table] = cut.get(m.cell.table, 0) + (groups > 0)
        count = sum(cut.values())
        if total:
            where = ", ".join(f"{t} {k}" for t, k in cut.items() if k)
            yield Figure(
                f"{part}: clean tables, fits that leave out a group",
                "≤ 1 %",
                f"{count} of {total} ({count / total:.1%})",
                bool(count <= 0.01 * total),
                where,
            )

    def _missing_tables(self, part: str) -> Iterator[Figure]:
        for method in (DEFAULT, UNITS):
            complete = self.by_table(part, kind=CLEAN, method=method, epsilon=4.0)
            holes = self.by_table(part, kind=CLEAN, method=f"{method}, 10 % missing", epsilon=4.0)
            if not holes.keys() & complete.keys():
                continue
            both = holes.keys() & complete.keys()
            ratios = [holes[t].median("d2") / complete[t].median("d2") for t in both]
            shares = [holes[t].median("captured") for t in both]
            yield Figure(
                f"{part}: 10 % missing cells, ε = 4, {method}: d² over that of complete rows",
                "–",
                f"median {np.median(ratios):.2f}, worst {max(ratios):.3g}; captured share median "
                f"{np.median(shares):.3f}, worst {min(shares):.2f} ({len(ratios)} tables)",
                None,
            )

    # --- without privacy, and drawn rows --------------------------------------------------------

    def robust(self, part: str, method: str) -> dict[str, dict[str, float]]:
        """Return d² by kind and table."""
        found: dict[str, dict[str, float]] = {}
        for m in self.parts.get(part, []):
            if isinstance(m.cell, RobustFit) and m.cell.method == method:
                for kind, d2 in m.result["d2"].items():
                    found.setdefault(kind, {})[m.cell.table] = d2
        return found

    def _robust(self, part: str) -> Iterator[Figure]:
        d2 = self.robust(part, "RobustPCA")
        if not d2:
            return
        lost = {k: [t for t, v in d2[k].items() if v > CAPTURED] for k in ROBUST_ASKED}
        where = "development" if part == "robust" else "set aside"
        yield Figure(
            f"{where}: RobustPCA, tables captured by {', '.join(ROBUST_ASKED)}",
            "≤ 1 each (of 12)",
            ", ".join(str(len(names)) for names in lost.values()) + f" of {len(d2['line 10 %'])}",
            max(map(len, lost.values())) <= 1,
            "; ".join(f"{kind}: {', '.join(names)}" for kind, names in lost.items() if names),
        )

    def _drawn(self) -> Iterator[Figure]:
        drawn = self.parts.get("drawn", [])
        for kind, make in (
            (Classic, _classic), (MissingCells, _missing), (Flags, _flags),
        ):  # fmt: skip
            found = [m for m in drawn if isinstance(m.cell, kind)]
            if found:
                yield from make(found)

    # --- for the page and the file ----------------------------------------------------------------

    def document(self, known: dict[str, Any]) -> dict[str, Any]:
        every = [m for part in self.parts.values() for m in part]
        return {
            "schema": 1,
            "facts": known,
            "cells": len(every),
            "cpu_seconds": round(sum(m.result["cpu_seconds"] for m in every)),
            "figures": [asdict(figure) for figure in self.figures()],
            "successes": self._success_table(),
            "fits": {
                part: [_short(m) for m in found if isinstance(m.cell, TableFit)]
                for part, found in self.parts.items()
            },
            "robust": {
                part: {name: self.robust(part, name) for name in _robust_names(self.parts[part])}
                for part in ("robust", "robust set aside")
                if part in self.parts
            },
            "drawn": [{"cell": asdict(m.cell), **m.result} for m in self.parts.get("drawn", [])],
        }

    def _success_table(self) -> list[dict[str, Any]]:
        found = []
        for part in ("development", "set aside"):
            for method in (UNITS, DEFAULT):
                for epsilon in (1.0, 2.0, 4.0):
                    for kind in KINDS:
                        won = self.successes(part, method, kind, epsilon)
                        row = {"part": part, "method": method, "epsilon": epsilon, "kind": kind}
                        found.append({**row, "won": sum(won), "of": len(won)})
        return found


def _classic(found: Sequence[Measured]) -> Iterator[Figure]:
    last = found[0].result["lines"][-1]
    recall, alarms = (float(word.strip(",")) for word in (last.split()[2], last.split()[-1]))
    yield Figure(
        "classic outlier sets, RobustPCA: recall / false alarms",
        "≥ .95 / ≤ .07",
        f"{recall:.2f} / {alarms:.2f}",
        recall >= 0.95 and alarms <= 0.07,
        "lists of outliers in robust_tables.py",
    )


def _missing(found: Sequence[Measured]) -> Iterator[Figure]:
    for m in found:
        ratio = np.array(m.result["missing"]) / np.array(m.result["complete"])
        private = m.cell.epsilon is not None
        limit = 10.0 if private else 1.5
        who = f"private, ε = {m.cell.epsilon:g}" if private else "RobustPCA"
        yield Figure(
            f"drawn rows, 2000 × 30, inlier noise {m.cell.noise:g}, 10 % missing cells, {who}: "
            "d² over that of complete rows",
            f"≤ {limit:g}",
            f"{np.median(ratio):.2f} (d² {m.median('missing'):.2g} and {m.median('complete'):.2g})",
            bool(np.median(ratio) <= limit),
        )


def _flags(found: Sequence[Measured]) -> Iterator[Figure]:
    rates = {m.cell.n: [v for k, v in m.result.items() if k.startswith("D=")] for m in found}
    means = {n: float(np.mean(v)) for n, v in rates.items()}
    every = [v for values in rates.values() for v in values]
    yield Figure(
        f"clean rows flagged at a nominal 2.5 %, n = {', '.join(map(str, means))}",
        "1.5 to 4 % everywhere",
        ", ".join(f"{v:.1%}" for v in means.values()),
        all(0.015 <= v <= 0.04 for v in every),
        f"means over five shapes; single shapes {min(every):.1%} to {max(every):.1%}",
    )


def _robust_names(found: Sequence[Measured]) -> list[str]:
    return list(dict.fromkeys(m.cell.method for m in found))


def _short(m: Measured) -> dict[str, Any]:
    """Return what the file keeps of a fit, to four digits."""
    cell, result = m.cell, m.result
    round4: Callable[[list[float]], list[float]] = lambda v: [float(f"{x:.4g}") for x in v]  # noqa: E731
    return {
        "table": cell.table, "kind": cell.kind, "method": cell.method, "epsilon": cell.epsilon,
        "r": cell.r, "n": result["n"], "D": result["D"], "kappa": round(result["kappa"], 1),
        "captured": round4(result["captured"]), "d2": round4(result["d2"]),
        "groups": result["groups"], "dropped": result["dropped"],
    }  # fmt: skip
