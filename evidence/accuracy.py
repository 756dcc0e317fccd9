"""Accuracy of robust and private fits (seeded noise, so that the tables can be made again)."""

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from evidence._table import markdown
from stillspace import PrivateRobustPCA, RobustPCA
from stillspace.datasets import Haystack, make_haystack
from stillspace.exceptions import PrivacyWarning, SeededNoiseWarning
from stillspace.metrics import subspace_error
from stillspace.parts.schedules import Halving
from stillspace.recipes import PRIVATE


def errors(make: Callable[[int], Any], data: Callable[[int], Haystack], seeds: int) -> np.ndarray:
    """d² of a fit for each seed."""
    found = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SeededNoiseWarning)
        warnings.simplefilter("ignore", PrivacyWarning)
        for seed in range(seeds):
            sample = data(seed)
            found.append(subspace_error(make(seed).fit(sample.X).components_, sample.components))
    return np.array(found)


def recovery() -> str:
    rows = []
    for D, r, ratio in [(20, 2, 0.5), (20, 2, 0.3), (20, 2, 0.2), (20, 2, 0.1), (100, 5, 0.5),
                        (100, 5, 0.2)]:  # fmt: skip
        d = np.sqrt(
            errors(
                lambda seed, r=r: RobustPCA(r, random_state=seed),
                lambda seed, a=(D, r), q=ratio: make_haystack(
                    2000, *a, inlier_ratio=q, random_state=seed
                ),
                10,
            )
        )
        rows.append((D, r, ratio, f"{np.median(d):.1e}", f"{d.max():.1e}", d.max() < 1e-10))
    return markdown(
        "Exact recovery without privacy",
        "`RobustPCA()` (irls) on noiseless haystacks, n = 2000, 10 seeds: distance d to the truth.",
        ["D", "r", "inlier ratio", "median d", "largest d", "all < 1e-10"],
        rows,
    )


def noiseless() -> str:
    d2 = errors(
        lambda seed: PrivateRobustPCA(
            2,
            epsilon=0.8,
            delta=1e-5,
            algorithm="dp-ggd",
            n_iter=400,
            algorithm_options={"schedule": Halving(1.0, every=10)},
            random_state=seed,
            center=None,
        ),
        lambda seed: make_haystack(2000, 20, 2, random_state=seed),
        20,
    )
    return markdown(
        "Exponential convergence under honest noise",
        "dp-ggd at ε = 0.8, δ = 1e-5 on noiseless haystacks, n = 2000, D = 20, r = 2; steps halved "
        "every 10, T = 400; d² over 20 seeds.",
        ["median", "quartiles", "largest", "median < 1e-12"],
        [(f"{np.median(d2):.1e}", f"{np.quantile(d2, 0.25):.1e}, {np.quantile(d2, 0.75):.1e}",
          f"{d2.max():.1e}", np.median(d2) < 1e-12)],
    )  # fmt: skip


REGIMES = [
    (2000, 20, 2, {"inlier_ratio": 0.5}, 6.2e-5),
    (20000, 100, 5, {"inlier_ratio": 0.5}, 3.6e-5),
    (20000, 50, 3, {"inlier_ratio": 0.7, "outliers": "low-rank", "outlier_rank": 5}, 3.3e-6),
    (20000, 50, 3, {"inlier_ratio": 0.8, "outliers": "cluster"}, 2.9e-6),
]


def default_plan() -> str:
    rows = []
    for n, D, r, options, before in REGIMES:
        d2 = errors(
            lambda seed, r=r: PrivateRobustPCA(
                r, epsilon=1.0, delta=1e-6, random_state=seed, center=None
            ),
            lambda seed, a=(n, D, r), o=options: make_haystack(
                *a, inlier_noise=0.05, random_state=seed, **o
            ),
            15,
        )
        median = float(np.median(d2))
        described = ", ".join(f"{key} {value}" for key, value in options.items())
        rows.append(
            (n, D, r, described, f"{median:.1e}", f"{before:.1e}", f"{median / before:.2f}")
        )
    return markdown(
        "The default plan",
        "`PrivateRobustPCA(epsilon=1, delta=1e-6, center=None)`, inlier noise .05: median d² "
        "over 15 seeds, next to the prototype of its first version (rule A).",
        ["n", "D", "r", "data", "median d²", "prototype", "ratio (≤ 2 wanted)"],
        rows,
    )


def large_epsilon() -> str:
    """Every dp algorithm approaches its non-private twin as ε grows."""
    rows = []
    for name in [n for n in PRIVATE if n not in {"auto", "dp-newton", "ptr"}]:
        medians = [_gap_to_twin(name, epsilon) for epsilon in (0.5, 2.0, 8.0, 32.0)]
        rows.append((name, *(f"{m:.1e}" for m in medians), medians == sorted(medians)[::-1]))
    return markdown(
        "Growing ε",
        "Median d² between a private fit and its non-private twin (same data, start and steps), "
        "n = 5000, D = 10, r = 2, T = 60, 11 seeds. 32 is far beyond any sensible budget.",
        ["algorithm", "ε = 0.5", "2", "8", "32", "falls"],
        rows,
    )


def _gap_to_twin(name: str, epsilon: float) -> float:
    gaps = []
    for seed in range(11):
        X = make_haystack(5000, 10, 2, inlier_noise=0.1, random_state=seed).X
        options = {} if name == "dp-pca" else {"start": np.eye(10)[:2]}
        steps = {} if name == "dp-pca" else {"n_iter": 60}
        if name.startswith("dp-s"):
            options |= {"sampling": "without-replacement"}
            steps |= {"batch_size": 5000}
        twin = RobustPCA(
            2,
            algorithm=name.removeprefix("dp-"),
            max_iter=steps.get("n_iter"),
            batch_size=steps.get("batch_size"),
            algorithm_options=options,
        ).fit(X)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SeededNoiseWarning)
            warnings.simplefilter("ignore", PrivacyWarning)
            fit = PrivateRobustPCA(
                2,
                epsilon=epsilon,
                delta=1e-6,
                algorithm=name,
                algorithm_options=options,
                random_state=seed,
                **steps,
            ).fit(X)
        gaps.append(subspace_error(fit.components_, twin.components_))
    return float(np.median(gaps))
