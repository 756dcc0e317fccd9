"""`python -m benchmarks.limit`: our error beside the lower bound of docs/theory.md.

Writes docs/limit.csv and docs/limit.png. It takes about a minute.
"""

from __future__ import annotations

import csv
import warnings
from pathlib import Path

import numpy as np

from stillspace import PrivatePCA, PrivateRobustPCA
from stillspace.datasets import make_haystack
from stillspace.metrics import subspace_error
from stillspace.plots._figure import BLUE, GREY, INK, ORANGE, new_figure, png
from stillspace.theory import lower_bound

DOCS = Path(__file__).parents[1] / "docs"
D, R, SHARE, EPSILON, DELTA = 20, 2, 0.5, 1.0, 1e-6
NOISES = (0.1, 0.5)
SIZES = (1000, 4000, 16_000, 64_000)
RUNS = 20
METHODS = {"PrivateRobustPCA": PrivateRobustPCA, "PrivatePCA": PrivatePCA}


def bounds(n: int, noise: float) -> dict[str, float]:
    """Return both lower bounds of a setting."""
    found = lower_bound(n, D, R, SHARE, noise, epsilon=EPSILON, delta=DELTA)
    return {"limit_sampling": found.sampling, "limit_private": found.private}


def measure(n: int, noise: float, runs: int = RUNS) -> dict[str, float]:
    """Return the mean d² of each method over fresh tables; centre and units are known."""
    errors: dict[str, list[float]] = {name: [] for name in METHODS}
    for seed in range(runs):
        data = make_haystack(n, D, R, inlier_ratio=SHARE, inlier_noise=noise, random_state=seed)
        for name, kind in METHODS.items():
            rng = np.random.default_rng(seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # seeded noise: nothing here is published
                fit = kind(
                    R, epsilon=EPSILON, delta=DELTA, center=None, scale=None, random_state=rng
                ).fit(data.X)
            errors[name].append(subspace_error(fit.components_, data.components))
    return {name: float(np.mean(found)) for name, found in errors.items()}


def main() -> None:
    """Measure, write the table and draw it."""
    rows = [
        {"noise": noise, "n": n, "runs": RUNS, **bounds(n, noise), **measure(n, noise)}
        for noise in NOISES
        for n in SIZES
    ]
    with open(DOCS / "limit.csv", "w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(
            {k: f"{v:.4g}" if isinstance(v, float) else v for k, v in row.items()} for row in rows
        )
    draw(rows)


def draw(rows: list[dict[str, float]]) -> None:
    """Draw errors and bounds over n, one panel per inlier noise."""
    figure = new_figure(8.0, 3.4, dpi=110)
    axes = figure.subplots(1, len(NOISES), sharey=True)
    looks = {
        "PrivateRobustPCA": {"color": BLUE, "marker": "o"},
        "PrivatePCA": {"color": ORANGE, "marker": "s"},
        "limit_private": {"color": INK, "linestyle": "--", "label": "limit: privacy"},
        "limit_sampling": {"color": GREY, "linestyle": ":", "label": "limit: sampling"},
    }
    for ax, noise in zip(axes, NOISES, strict=True):
        mine = [row for row in rows if row["noise"] == noise]
        for name, look in looks.items():
            ax.loglog([r["n"] for r in mine], [r[name] for r in mine], **{"label": name, **look})
        limit = [max(r["limit_private"], r["limit_sampling"]) for r in mine]
        ax.fill_between([r["n"] for r in mine], limit, 1e-9, color=GREY, alpha=0.15, linewidth=0)
        ax.set(xlabel="n", ylim=(1e-8, 1e-1))
        ax.set_title(f"inlier noise {noise:g}", loc="left", fontsize=9)
    axes[0].set_ylabel("mean d²")
    axes[1].legend(fontsize=8, frameon=False)
    figure.set_layout_engine("constrained")
    (DOCS / "limit.png").write_bytes(png(figure))


if __name__ == "__main__":
    main()
