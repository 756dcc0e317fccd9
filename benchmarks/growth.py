"""How time and memory of a private fit grow with n, D, r and T: fitted exponents and a plot."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks._measure import exponent, race
from benchmarks._peak import fill, fit, peak_beyond
from benchmarks._rows import Row, Spread, at_most

TOPIC = "growth"
BASE = {"n": 20_000, "D": 64, "r": 4, "T": 30}
"""All curves are of dp-ggd: the default takes fewer passes where it goes back to private PCA."""
SIZES = {
    "n": (10_000, 20_000, 40_000, 80_000, 160_000, 320_000),
    "D": (16, 32, 64, 128, 256, 512),
    "r": (1, 2, 4, 8, 16, 32),
    "T": (10, 20, 40, 80, 160, 320),
}
DEFAULT = {
    "n": ({"D": 20, "r": 5}, (100_000, 316_000, 1_000_000, 3_160_000, 10_000_000)),
    "D": ({"n": 5_000, "r": 5}, (125, 250, 500, 1_000, 2_000)),
}
"""The default algorithm on larger tables: what is fixed, and the sizes of the other axis."""
TIME_LIMITS = {"n": 1.1, "D": 2.0, "r": 1.1, "T": 1.1}
LARGE = {"n": 1_000_000, "D": 100, "r": 5, "T": 0}
"""800 MB, the default algorithm (T = 0): what does not grow with n is then below a tenth."""
LONG = {"n": 10_000_000, "D": 20, "r": 5, "T": 0}
"""1.6 GB in long columns, where numbers per row count most."""
_LEAST = 2**20
"""Peaks below 1 MiB are the allocator's, not ours."""


@dataclass(frozen=True, slots=True)
class Curve:
    """Seconds and bytes against one size, the others as in `BASE`."""

    axis: str
    sizes: tuple[int, ...]
    seconds: tuple[float, ...]
    memory: tuple[int, ...]

    def tail(self, values: tuple[float, ...]) -> float:
        """Return the exponent over the upper half, where fixed costs matter least."""
        half = len(self.sizes) // 2
        return exponent(self.sizes[half:], values[half:])


def measure(axis: str, quick: bool) -> Curve:
    sizes = SIZES[axis][:4] if quick else SIZES[axis]
    shapes = {str(size): {**BASE, axis: size} for size in sizes}
    X = {key: data(s["n"], s["D"], s["r"]) for key, s in shapes.items()}
    runners = {key: partial(fit, X[key], s["r"], s["T"]) for key, s in shapes.items()}
    done = race(runners, turns=2, budget=4 if quick else 15)
    memory = tuple(max(peak_beyond(**s), _LEAST) for s in shapes.values())
    return Curve(axis, sizes, tuple(done.seconds(key) for key in shapes), memory)


def of_default(axis: str, quick: bool) -> Row:
    """Return how the time of the default algorithm grows: each size once, the largest last."""
    fixed, sizes = DEFAULT[axis]
    sizes = sizes[:3] if quick else sizes
    seconds = []
    for size in sizes:
        shape = {**fixed, axis: size}
        X = data(shape["n"], shape["D"], shape["r"])
        run = partial(fit, X, shape["r"], 0)
        seconds.append(race({"fit": run}, turns=1, warm_up=size == sizes[0]).seconds("fit"))
    half = len(sizes) // 2
    slope = Spread.exactly(exponent(sizes[half:], seconds[half:]))
    others = ", ".join(f"{k}={v}" for k, v in fixed.items())
    what = f"time, {axis} = {sizes[0]} … {sizes[-1]} (default, {others})"
    note = "seconds: " + ", ".join(f"{s:.3g}" for s in seconds)
    limit = at_most(1.1 if axis == "n" else 2.2)
    return Row(TOPIC, what, f"{axis}^k", "exponent", slope, limit, seconds[-1], note=note)


def data(n: int, D: int, r: int) -> np.ndarray:
    X = np.empty((n, D))
    fill(X, r)
    return X


def rows(quick: bool, picture: Path | None = None) -> Iterator[Row]:
    curves = [measure(axis, quick) for axis in SIZES]
    for curve in curves:
        others = ", ".join(f"{k}={v}" for k, v in BASE.items() if k != curve.axis)
        span = f"{curve.axis} = {curve.sizes[0]} … {curve.sizes[-1]} (dp-ggd, {others})"
        time = Spread.exactly(curve.tail(curve.seconds))
        limit = at_most(TIME_LIMITS[curve.axis])
        top = curve.seconds[-1]
        yield Row(TOPIC, f"time, {span}", f"{curve.axis}^k", "exponent", time, limit, top)
        memory = Spread.exactly(curve.tail(curve.memory))
        note = f"{curve.memory[-1] / 2**20:.0f} MiB beyond X at the largest"
        yield Row(TOPIC, f"peak, {span}", f"{curve.axis}^k", "exponent", memory, note=note)
    yield from (of_default(axis, quick) for axis in DEFAULT)
    if not quick:
        yield large()
        peak = peak_beyond(**LONG) / 2**20
        what = f"peak beyond X, {LONG['n']:.0e} × {LONG['D']} float64, default".replace("e+0", "e")
        note = f"one number per row would take {8 * LONG['n'] / 2**20:.0f} MiB"
        yield Row(TOPIC, what, "", "MiB", Spread.exactly(peak), at_most(32), note=note)
    if picture is not None:
        plot(curves, picture)


def large() -> Row:
    size = 8 * LARGE["n"] * LARGE["D"]
    peak = peak_beyond(**LARGE)
    what = f"peak beyond X, {LARGE['n']:.0e} × {LARGE['D']} float64".replace("e+0", "e")
    note = f"{peak / 2**20:.0f} MiB beside {size / 2**20:.0f} MiB of data"
    measured = Spread.exactly(peak / size)
    return Row(TOPIC, what, "size of X", "× X", measured, at_most(0.1), note=note)


def plot(curves: list[Curve], path: Path) -> None:
    from matplotlib.figure import Figure  # noqa: PLC0415 (an extra)

    figure = Figure(figsize=(12, 5.5), layout="constrained")
    axes = figure.subplots(2, len(curves), sharey="row")
    for column, curve in zip(axes.T, curves, strict=True):
        mebibytes = tuple(m / 2**20 for m in curve.memory)
        for panel, values in zip(column, (curve.seconds, mebibytes), strict=True):
            slope = curve.tail(values)
            sizes = np.asarray(curve.sizes, dtype=float)
            panel.loglog(sizes, values, "o", color="#1b6ca8")
            line = values[-1] * (sizes / sizes[-1]) ** slope
            panel.loglog(sizes, line, "-", color="#999999", label=f"{curve.axis}^{slope:.2f}")
            panel.legend(frameon=False)
            panel.grid(alpha=0.3)
            panel.set_xticks(curve.sizes[::2], [f"{size:,}" for size in curve.sizes[::2]])
            panel.set_xticks([], minor=True)
        column[-1].set_xlabel(curve.axis)
    axes[0, 0].set_ylabel("seconds")
    axes[1, 0].set_ylabel("peak beyond X, MiB")
    base = ", ".join(f"{k}={v}" for k, v in BASE.items())
    title = f"One private fit, dp-ggd, ε=1; where not varied: {base}"
    figure.suptitle(title)
    figure.savefig(path, dpi=110, metadata={"Software": None})
