"""All that was measured, in one place, and the figures that are asked of it."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from math import sqrt
from typing import Any

import numpy as np

from benchmarks.utility.contenders import CONTENDERS, GAUSSIAN, OURS
from benchmarks.utility.problems import DELTA, STRUCTURED, Regime, Table
from stillspace._typing import FloatArray
from stillspace.prediction import predict

EXACT = 1e-13
"""A d² below this counts as this: an angle of 3e-7 is as good as none."""
RECOVERS = 0.1
"""The non-private optimum is called right where its d² is below this."""
SET_ASIDE = ("fresh", "large", "noiseless")
"""Groups of regimes that were never looked at while the default was made."""
LOOKED_AT = ("facts", "drawn", "held-out")
LOSS = 1.15
"""Factor in d² that a change of the default may cost in one regime."""
STRONG = 10.0
"""κ from which steps have a signal to follow."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One problem with everything measured on it."""

    problem: Regime | Table
    contests: dict[str, dict[str, Any]]
    reference: dict[str, dict[str, float]]
    grid: dict[str, Any] | None = None
    before: dict[str, list[float]] | None = None
    """Our d² in the last run of everything, if only ours was run since."""

    def all_d2(self, contender: str, target: str = "truth") -> list[float]:
        return list(self.contests[contender]["d2"][target])

    def d2(self, contender: str, target: str = "truth") -> float | None:
        """Return the median, or None where the contender did not run."""
        if contender not in self.contests:
            return None
        return float(np.median(self.all_d2(contender, target)))

    def ours(self, target: str = "truth") -> float:
        return float(np.median(self.all_d2(OURS, target)))

    def against_gaussian(self, target: str = "truth") -> float:
        """Return our median d² over that of Gaussian-noise PCA."""
        theirs = float(np.median(self.all_d2(GAUSSIAN, target)))
        return max(self.ours(target), EXACT) / max(theirs, EXACT)

    def regret(self, contender: str = OURS) -> float | None:
        """Return the median d² over that of the best plan in hindsight."""
        measured = self.d2(contender)
        if self.grid is None or measured is None:
            return None
        return max(measured, EXACT) / max(self.grid["d2"], EXACT)

    @property
    def route(self) -> str:
        """The route that most fits took."""
        routes = [said["route"] for said in self.contests[OURS]["says"]]
        return max(set(routes), key=routes.count)


def resampled(values: Sequence[float], rng: np.random.Generator) -> FloatArray:
    """Return medians of 999 bootstrap samples."""
    drawn = rng.choice(np.maximum(values, EXACT), (999, len(values)))
    return np.asarray(np.median(drawn, axis=1))


def interval(above: Sequence[float], below: Sequence[float]) -> tuple[float, float]:
    """Return a 90 % bootstrap interval for the ratio of two medians."""
    rng = np.random.default_rng(0)
    ratios = resampled(above, rng) / resampled(below, rng)
    low, high = np.quantile(ratios, [0.05, 0.95])
    return float(low), float(high)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure that is asked for, and what was measured."""

    what: str
    asked: str
    measured: str
    met: bool | None
    note: str = ""


@dataclass(slots=True)
class Results:
    entries: list[Entry]
    affine: dict[str, dict[str, Any]] = field(default_factory=dict)
    """By centring and outliers: d² of ours, and of `RobustPCA` without privacy."""
    answers: list[dict[str, Any]] = field(default_factory=list)
    """Of the neighbours: problem, neighbour, d2 or the reason why there is none."""
    missing: list[str] = field(default_factory=list)
    """Neighbours that could not be installed."""
    cpu_seconds: float = 0.0
    others: dict[str, Any] | None = None
    """Facts of the run in which others were measured, if it was an earlier one."""

    def regimes(self, *groups: str) -> list[Entry]:
        wanted = groups or (*LOOKED_AT, *SET_ASIDE)
        return [entry for entry in self.entries if entry.problem.group in wanted]

    def tables(self) -> list[Entry]:
        return [entry for entry in self.entries if isinstance(entry.problem, Table)]

    def figures(self) -> list[Figure]:
        return [
            *self._regrets(),
            *self._contaminated(),
            *self._on_tables(),
            *self._few(),
            *self._beyond_glad(),
            *self._predictions(),
            *self._affine(),
            *self._since(),
        ]

    # --- each figure -----------------------------------------------------------------------

    def _regrets(self) -> Iterator[Figure]:
        for groups, asked in ((SET_ASIDE, True), (LOOKED_AT, False)):
            entries = [e for e in self.regimes(*groups) if _strong(e) and e.grid is not None]
            noisy = [e for e in entries if e.problem.noise > 0]  # type: ignore[union-attr]
            right = [e for e in noisy if _right(e)]
            where = "fresh" if asked else "named, drawn and held-out (not asked)"
            if right:
                values = np.array([e.regret() for e in right])
                middle, high, worst = np.quantile(values, [0.5, 0.9, 1.0])
                met = bool(middle <= 1.1 and high <= 1.5 and worst <= 5.0) if asked else None
                yield Figure(
                    f"regret of auto, {where} regimes, κ ≥ 10, noisy inliers, GLAD optimum right",
                    "median ≤ 1.1, 90 % ≤ 1.5, worst ≤ 5",
                    f"{middle:.2f} / {high:.2f} / {worst:.2f} ({len(right)} regimes)",
                    met,
                    _worst(right, values),
                )
            wrong = [e for e in noisy if e not in right]
            if wrong and asked:
                values = np.array([e.regret() for e in wrong])
                yield Figure(
                    f"the same, {where} regimes where the GLAD optimum is wrong",
                    "–",
                    f"{np.median(values):.2f} / worst {values.max():.3g} ({len(wrong)} regimes)",
                    None,
                    _worst(wrong, values),
                )
            noiseless = [e for e in entries if e not in noisy]
            if noiseless:
                values = np.array([e.regret() for e in noiseless])
                yield Figure(
                    f"regret of auto, {where} regimes, κ ≥ 10, noiseless inliers",
                    "worst ≤ 10",
                    f"worst {values.max():.3g} ({len(noiseless)} regimes)",
                    bool(values.max() <= 10.0) if asked else None,
                    f"{_worst(noiseless, values)}; d² below {EXACT:g} counts as {EXACT:g}",
                )

    def _contaminated(self) -> Iterator[Figure]:
        entries = [e for e in self.regimes() if e.problem.noise <= 0.2]  # type: ignore[union-attr]
        dirty = [e for e in entries if e.problem.contaminated]  # type: ignore[union-attr]
        if not dirty:
            return
        gains = np.array([1.0 / e.against_gaussian() for e in dirty])
        strong = [g for g, e in zip(gains, dirty, strict=True) if _strong(e)]
        yield Figure(
            "against Gaussian-noise PCA, inlier noise ≤ .2, contaminated regimes",
            "median ≥ 10× smaller d²",
            f"{np.median(gains):.3g}× ({len(dirty)} regimes)",
            bool(np.median(gains) >= 10.0),
            f"κ ≥ 10: {np.median(strong):.3g}× ({len(strong)})" if strong else "",
        )
        ratios = np.array([e.against_gaussian() for e in entries])
        yield Figure(
            "the same, all regimes with inlier noise ≤ .2",
            "nowhere more than 1.2× worse",
            f"worst {ratios.max():.2f}× ({len(entries)} regimes)",
            bool(ratios.max() <= 1.2),
            f"{_worst_pair(entries, ratios)}; {_where_right(entries, ratios)}",
        )

    def _on_tables(self) -> Iterator[Figure]:
        noisy = [e for e in self.regimes() if _noise(e) > 0.2]
        yield from _against_gaussian("inlier noise .2 to 1", noisy)
        for target in ("PCA", "GLAD"):
            what = f"real tables, distance to the {target} optimum of the clean table"
            yield from _against_gaussian(what, self.tables(), target)

    def _few(self) -> Iterator[Figure]:
        entries = self.regimes("few")
        if not entries:
            return
        gains = np.array([1.0 / e.against_gaussian() for e in entries])
        regrets = np.array([regret for e in entries if (regret := e.regret()) is not None])
        yield Figure(
            "inliers in the minority (.1 to .5, noise ≤ .2), unstructured outliers: Gaussian-noise "
            "PCA's d² over ours",
            "–",
            f"{gains.min():.3g} … {gains.max():.3g}, median {np.median(gains):.3g} "
            f"({len(entries)} regimes)",
            None,
            f"regret median {np.median(regrets):.2f}, worst {regrets.max():.3g}"
            if len(regrets)
            else "",
        )

    def _beyond_glad(self) -> Iterator[Figure]:
        asked = [e for e in self.regimes("facts") if _structured(e) and e.problem.epsilon == 1.0]
        others = [
            e
            for e in self.regimes("drawn", "held-out", *SET_ASIDE)
            if _structured(e) and e.problem.epsilon >= 1.0 and _right(e) and _noise(e) > 0
        ]
        for entries, what, judged in (
            (asked, "named regimes, ε = 1", True),
            (others, "all others, ε ≥ 1, noisy inliers", False),
        ):
            if not entries:
                continue
            gains = np.array([e.reference["GLAD"]["truth"] / e.ours() for e in entries])
            yield Figure(
                f"n ≥ 20 000, structured outliers: d² of the non-private GLAD optimum over ours, "
                f"{what}",
                "> 1 (rule A: 10–20)" if judged else "–",
                f"{gains.min():.3g} … {gains.max():.3g}, median {np.median(gains):.3g} "
                f"({len(entries)} regimes)",
                bool(gains.min() > 1.0) if judged else None,
            )

    def _predictions(self) -> Iterator[Figure]:
        entries = [e for e in self.regimes() if _strong(e) and _noise(e) > 0 and _right(e)]
        if not entries:
            return
        for uneven, given in (
            (False, "share and noise of inliers"),
            (True, "share, noise and anisotropy of inliers"),
        ):
            ratios = np.array([predicted(e.problem, uneven) / e.ours() for e in entries])  # type: ignore[arg-type]
            close = (ratios > 0.5) & (ratios < 2.0)
            held = np.array([e.problem.group in SET_ASIDE for e in entries])
            note = f"median ratio {np.median(ratios):.2f}, 5–95 % "
            note += "–".join(f"{q:.2f}" for q in np.quantile(ratios, [0.05, 0.95]))
            if held.any():
                note += f"; fresh regimes alone: {close[held].mean():.0%}"
            yield Figure(
                f"predicted d² (given {given}) over measured, κ ≥ 10, GLAD optimum right",
                "–" if uneven else "within 2× in 90 %",
                f"within 2× in {close.mean():.0%} of {len(entries)} regimes",
                None if uneven else bool(close.mean() >= 0.9),
                note,
            )

    def _affine(self) -> Iterator[Figure]:
        for name, found in self.affine.items():
            values = found["d2"]
            yield Figure(
                f"affine data, unknown centre, {name}",
                "d² < 1e-3",
                f"median {np.median(values):.2g}, worst {max(values):.2g} ({len(values)} runs)",
                bool(np.median(values) < 1e-3),
                f"without privacy {found['not_private']:.2g}",
            )

    def _since(self) -> Iterator[Figure]:
        """What became of our own error since the last run of everything."""
        entries = [e for e in self.entries if e.before and _strong(e) and _right(e)]
        if not entries:
            return
        then = [e.before["truth"] for e in entries]  # type: ignore[index]
        pairs = [(e.all_d2(OURS), old) for e, old in zip(entries, then, strict=True)]
        ratios = np.array([_middle(now) / _middle(old) for now, old in pairs])
        beyond = [i for i, (now, old) in enumerate(pairs) if interval(now, old)[0] > LOSS]
        names = (f"{entries[i].problem.name} {ratios[i]:.2f}" for i in beyond)
        yield Figure(
            "our d² over that in the last run of everything, κ ≥ 10, GLAD optimum right",
            f"median ≤ 1.02, nowhere above {LOSS:g} beyond chance",
            f"median {np.median(ratios):.2f}, largest {ratios.max():.3g} ({len(entries)} regimes)",
            bool(np.median(ratios) <= 1.02 and not beyond),
            f"above {LOSS:g} by a 90 % bootstrap interval: {', '.join(names) or 'none'}",
        )


def predicted(regime: Regime, uneven: bool) -> float:
    """Return the d² that `stillspace plan` would say, given the truth about the rows.

    Noise is spread over all D directions; what counts there is the part off the subspace. Only if
    `uneven`, the anisotropy is told too.
    """
    within = regime.r / regime.D
    noise = regime.noise * sqrt((1.0 - within) / (1.0 + within * regime.noise**2))
    return predict(
        regime.n,
        regime.D,
        regime.r,
        epsilon=regime.epsilon,
        delta=DELTA,
        inlier_share=regime.share,
        inlier_noise=noise,
        inlier_anisotropy=regime.anisotropy if uneven else 1.0,
        known_units=True,
    ).error


def _never_much_worse(what: str, entries: Sequence[Entry], target: str = "truth") -> Figure:
    """Return the figure that nowhere we are much worse than Gaussian-noise PCA.

    On a table where ours is Gaussian-noise PCA the ratio is 1 but for chance, so "at most equal" is
    judged by the lower end of an interval for the median ratio.
    """
    ratios = np.array([entry.against_gaussian(target) for entry in entries])
    rng = np.random.default_rng(0)

    def medians(contender: str) -> FloatArray:
        return np.array([resampled(e.all_d2(contender, target), rng) for e in entries])

    chance = np.median(medians(OURS) / medians(GAUSSIAN), axis=0)
    low, high = np.quantile(chance, [0.05, 0.95])
    return Figure(
        what,
        "nowhere more than 1.3× worse than Gaussian-noise PCA, median at most equal",
        f"worst {ratios.max():.2f}×, median {np.median(ratios):.2f}× ({low:.2f}–{high:.2f} by "
        f"bootstrap; {len(entries)} problems)",
        bool(ratios.max() <= 1.3 and low <= 1.0),
        _worst_pair(entries, ratios, target),
    )


def _against_gaussian(
    what: str, entries: Sequence[Entry], target: str = "truth"
) -> Iterator[Figure]:
    """Yield a judged figure where the robust optimum is right, and one that is not where not."""
    right = [e for e in entries if _right(e)]
    if right:
        yield _never_much_worse(f"{what}, GLAD optimum right", right, target)
    wrong = [e for e in entries if not _right(e)]
    if not wrong:
        return
    ratios = np.array([entry.against_gaussian(target) for entry in wrong])
    yield Figure(
        f"{what}, where the GLAD optimum of the rows is itself wrong (d² ≥ .1)",
        "–",
        f"median {np.median(ratios):.2f}×, worst {ratios.max():.2f}× ({len(wrong)} problems)",
        None,
        _worst_pair(wrong, ratios, target),
    )


def _middle(values: Sequence[float]) -> float:
    return max(float(np.median(values)), EXACT)


def _noise(entry: Entry) -> float:
    return float(getattr(entry.problem, "noise", 0.0))


def _strong(entry: Entry) -> bool:
    return isinstance(entry.problem, Regime) and entry.problem.kappa >= STRONG


def _right(entry: Entry) -> bool:
    """Whether GLAD's optimum is near the truth; on a table, near that of the clean table."""
    found = entry.reference["GLAD"]
    return found["truth" if "truth" in found else "GLAD"] < RECOVERS


def _structured(entry: Entry) -> bool:
    problem = entry.problem
    return (
        isinstance(problem, Regime)
        and problem.n >= 20_000
        and problem.contaminated
        and problem.kind in STRUCTURED
    )


def _worst(entries: Sequence[Entry], values: Any) -> str:
    order = np.argsort(values)[::-1][:3]
    return "worst: " + ", ".join(f"{entries[i].problem.name} {values[i]:.2f}" for i in order)


def _worst_pair(entries: Sequence[Entry], ratios: Any, target: str = "truth") -> str:
    """Return the worst ratio's problem, with the interval that chance leaves it."""
    worst = entries[int(np.argmax(ratios))]
    low, high = interval(worst.all_d2(OURS, target), worst.all_d2(GAUSSIAN, target))
    return f"worst: {worst.problem.name}, 90 % bootstrap interval {low:.2f}–{high:.2f}"


def _where_right(entries: Sequence[Entry], ratios: FloatArray) -> str:
    """Return the worst ratio among problems that a robust optimum can solve at all."""
    right = [ratio for entry, ratio in zip(entries, ratios, strict=True) if _right(entry)]
    worst = f"{max(right):.2f}×" if right else "–"
    return f"where the GLAD optimum is right ({len(right)}) {worst}"


def ran_somewhere(entries: Iterable[Entry]) -> list[str]:
    """Return the contenders that ran on one of these, in their order."""
    seen = {name for entry in entries for name in entry.contests}
    return [name for name in CONTENDERS if name in seen]
