"""Draw one-fit.png: one real fit of the default, pass by pass.

python docs/newton/one_fit.py
"""

import warnings
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.figure import Figure
from matplotlib.patches import Patch

from stillspace import PrivateRobustPCA, RobustPCA
from stillspace.datasets import make_haystack
from stillspace.methods.newton.rule import NEWTON_RULE
from stillspace.metrics import subspace_error
from stillspace.parts.geometry import top_eigenvectors
from stillspace.parts.noise import seeded_generator
from stillspace.privacy import ComposedEvent, full_batch_mu, mu_from_budget
from stillspace.rows import MemoryRows
from stillspace.run import run

N, D, R = 20_000, 20, 2
EPSILON, DELTA = 1.0, 1e-6
STEPS = ("units", "start", "groups of outliers", "first phase", "second phase")
FIRST_STEPS = NEWTON_RULE.first_steps
COLOURS = ("#bdbdbd", "#6baed6", "#fd8d3c", "#74c476", "#238b45")


def table() -> tuple[np.ndarray, np.ndarray]:
    """Return rows with units, a fifth of them in one cluster, and which rows are not in it."""
    data = make_haystack(
        N, D, R, inlier_ratio=0.8, inlier_noise=0.2, outliers="cluster", random_state=3
    )
    rng = np.random.default_rng(3)
    units, offsets = 10.0 ** rng.uniform(-2, 3, D), 10.0 ** rng.uniform(-1, 4, D)
    return data.X * units + offsets, data.inliers


def releases() -> tuple[list[dict[str, Any]], PrivateRobustPCA]:
    """Return, for every pass of one fit, its query, its share of μ² and the point it asks at."""
    X, inliers = table()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        est = PrivateRobustPCA(R, epsilon=EPSILON, delta=DELTA, random_state=1).fit(X)
        # what the fit looks for: the optimum of the good rows, in the units that it found
        Z = (X[inliers] - est.center_) / est.scale_
        Z /= np.linalg.norm(Z, axis=1, keepdims=True)
        best = RobustPCA(R, center=None).fit(Z).components_
    found: list[dict[str, Any]] = []
    total = mu_from_budget(epsilon=EPSILON, delta=DELTA)

    def error(V: np.ndarray) -> float:
        return subspace_error(V.T, best)

    def witness(shown: Any) -> None:
        query, point = type(shown.release.query).__name__, shown.points[-1]
        spent = full_batch_mu(ComposedEvent.of([shown.release.event(1)]), "replace-one")
        d2 = error(point) if point.shape == (D, R) else np.nan
        if query == "SecondMoment":
            S = shown.released[-1]
            d2 = error(top_eigenvectors((S + S.T) / 2.0, R))
        if query.startswith("Curvature"):  # released in the same pass as the gradient
            found[-1]["share"] += (spent / total) ** 2
        else:
            found.append({"query": query, "share": (spent / total) ** 2, "d2": d2})

    run(est.plan_, MemoryRows.of(X), seeded_generator(1), witness=witness)
    found.append({"query": "answer", "share": 0.0, "d2": error(est.components_.T)})
    return found, est


def stage_of(queries: list[str]) -> list[int]:
    """Return the step (from 0) that each pass belongs to."""
    steps = []
    for i, query in enumerate(queries):
        before = queries[:i]
        if query in {"Glad", "IncompleteRows"}:
            steps.append(3 if before.count("Glad") < FIRST_STEPS else 4)
        elif query == "SecondMoment" and query not in before:
            steps.append(1)
        else:
            steps.append(2 if "SecondMoment" in before else 0)
    return steps


def main() -> None:
    """Fit once, and draw."""
    found, _ = releases()
    steps = stage_of([f["query"] for f in found[:-1]])
    figure = Figure(figsize=(11, 4), layout="constrained")
    left, right = figure.subplots(1, 2)
    at = np.arange(1, len(steps) + 1)
    left.bar(at, [100 * f["share"] for f in found[:-1]], color=[COLOURS[s] for s in steps])
    left.set(xlabel="pass over the rows", ylabel="% of μ²", yscale="log")
    left.set_title("What each pass costs", fontsize=10)
    left.legend(
        handles=[Patch(color=c, label=name) for c, name in zip(COLOURS, STEPS, strict=True)],
        fontsize=8, loc="upper center", ncols=2,
    )  # fmt: skip
    left.set_ylim(0.02, 200)
    known = [(i + 1, f["d2"], s) for i, (f, s) in enumerate(zip(found, steps, strict=False))]
    known = [k for k in known if np.isfinite(k[1])]
    right.plot([k[0] for k in known], [k[1] for k in known], color="0.7", zorder=0)
    right.scatter(
        [k[0] for k in known], [k[1] for k in known], color=[COLOURS[k[2]] for k in known],
        edgecolor="0.3", s=36,
    )  # fmt: skip
    right.scatter(len(found), found[-1]["d2"], marker="*", s=150, color="0.1", label="the answer")
    right.set(
        xlabel="pass over the rows", ylabel="d² to the optimum of the good rows", yscale="log"
    )
    right.set_title("The estimate so far", fontsize=10)
    right.legend(fontsize=9)
    right.set_xlim(left.get_xlim())
    figure.suptitle(
        f"One fit: {N} rows, {D} columns with units, a fifth of the rows in one cluster, ε = 1",
        fontsize=10,
    )
    figure.savefig(Path(__file__).with_name("one-fit.png"), dpi=110)


if __name__ == "__main__":
    main()
