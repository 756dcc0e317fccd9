"""What docs/theory.md promises, simulated: linear convergence, and the private certificate."""

import warnings
from itertools import product
from math import sqrt
from typing import Any

import numpy as np
from tests.theory.simulate import descend, gap, tilted

from evidence._table import markdown
from stillspace import PrivateRobustPCA
from stillspace._typing import FloatArray
from stillspace.datasets import make_haystack
from stillspace.methods.certificate import PrivateCertificate
from stillspace.privacy import mu_from_budget
from stillspace.theory import exact_certificate, iteration_bound, permeance
from stillspace.theory.linear import LinearConvergence, linear_convergence
from stillspace.theory.local import local_stability
from stillspace.theory.stability import alignment_bound

# --- linear convergence --------------------------------------------------------------------

PAPER = (2000, 20, 2)
"""n, D and r of the paper's convergence experiment; half of the rows are inliers."""
SIGMA = 2.0 * sqrt(PAPER[0]) / (PAPER[0] * mu_from_budget(0.8, 1.0 / sqrt(PAPER[0])))
"""dp-GGD's honest noise for T = n iterations at ε = .8 and δ = 1/√n."""
STARTS = (1e-4, 1e-3)
DATA_SETS = 4
RUNS = 8
"""Runs per data set; about half of them start with one principal angle that is not zero."""


def linear() -> str:
    grid = product((0.0, SIGMA), (None, 20), STARTS)
    return markdown(
        "Linear convergence",
        "Theorem 2 of docs/theory.md on the paper's data (n = 2000, D = 20, r = 2, half inliers), "
        f"{DATA_SETS * RUNS} runs per line, λ = .01: iterations that are proved to halve d_r² of "
        "the start, and those after which a run with the theorem's own steps stays below half of "
        "the start. The last column counts the runs that ended above half of it.",
        ("start d_r²", "σ", "batch", "proved", "needed: median (range)", "proved over needed: "
         "median (largest)", "promise broken"),
        [_linear_row(start, sigma, batch_size) for sigma, batch_size, start in grid],
    )  # fmt: skip


def _linear_row(start: float, sigma: float, batch_size: int | None) -> tuple[Any, ...]:
    proved, needed, broken = [], [], 0
    for seed in range(DATA_SETS):
        data = make_haystack(*PAPER, inlier_ratio=0.5, random_state=seed)
        facts = local_stability(data.X[data.inliers], data.X[~data.inliers], data.components)
        noise = {"sigma": sigma, "batch_size": batch_size}
        D, r = PAPER[1:]
        found = linear_convergence(facts, start=start, target=start / 2, D=D, r=r, **noise)
        for run in range(RUNS):
            gaps = _gaps(data, found, start, np.random.default_rng((seed, run)), noise)
            proved.append(found.iterations)
            needed.append(1 + np.flatnonzero(gaps > start / 2).max())
            broken += gaps[-1] > start / 2
    ratio = np.array(proved) / np.array(needed)
    return (
        f"{start:g}",
        f"{sigma:.3f}",
        batch_size or "all rows",
        f"{np.median(proved):.0f}",
        f"{np.median(needed):.0f} ({min(needed)} to {max(needed)})",
        f"{np.median(ratio):.1f} ({ratio.max():.1f})",
        f"{broken} of {len(needed)}",
    )


def _gaps(
    data: Any,
    found: LinearConvergence,
    start: float,
    rng: np.random.Generator,
    noise: dict[str, Any],
) -> FloatArray:
    """Return d_r² of the start and of every iterate."""
    one_angle = bool(rng.integers(2))
    seen = [tilted(rng, data.components, start, all_angles=not one_angle)]
    descend(rng, data.X, seen[0], found.steps(), watch=seen.append, **noise)
    return np.array([gap(V, data.components) for V in seen])


# --- the paper's runs, repaired --------------------------------------------------------------

CERTIFIED = ((400, 4, 1, 0.95), (300, 5, 2, 0.98), (500, 6, 1, 0.9), (600, 8, 3, 0.99))
"""n, D, r and the share of inliers: tables whose certified stability is positive."""
FAR_STARTS = (1e-1, 1e-2, 1e-3, 1e-4, 1e-6, 1e-8)
NOISES = ((0.0, None), (0.02, None), (0.1, None), (0.5, None), (0.0, 200), (0.02, 50))
"""σ and batch size."""
STEPS = tuple((nu, c) for nu in (0.55, 0.75) for c in (1.0, 3.0, 10.0))
"""ν, and c₁√d₀: steps are c₁ a T^−ν."""
LONGEST = 4000
FAILURE = 0.01


def promises() -> str:
    lines = []
    for k, (n, D, r, share) in enumerate(CERTIFIED):
        data = make_haystack(n, D, r, inlier_ratio=share, random_state=0)
        known = {start: _stability(data, start) for start in FAR_STARTS}
        grid = product(known.items(), (2.0, 10.0), NOISES, STEPS)
        ends = [end for i, facts in enumerate(grid) for end in _promise(data, (k, i), *facts)]
        broken = sum(end > 1.0 for end in ends)
        shown = f"{max(ends):.2f}", f"{np.median(ends):.2g}"
        lines.append((f"{n}, {D}, {r}, {share:g}", len(ends), broken, *shown))
    return markdown(
        "Promises of iteration_bound",
        "Theorem 1 of docs/theory.md: runs of the proved length on haystacks with a positive "
        f"certified stability, by plain NumPy, λ = {FAILURE:g}. All settings of a grid with at "
        f"most {LONGEST} iterations: starts d_r² from 1e-1 to 1e-8, to a half and a tenth of it, "
        "σ from 0 to .5, all rows or batches of 50 and 200, ν = .55 and .75, three c₁. The last "
        "columns are d_r² at the end over the promised one.",
        ("n, D, r, inliers", "runs", "broken", "largest", "median"),
        lines,
    )


def _stability(data: Any, start: float) -> float:
    """Return the certified stability in the ball that a run from this start needs, or 0."""
    r, D = data.components.shape
    room = 1.0 - 2.0 * min(r, D - r) * start * (2.0 - start)
    if room <= 0.0:
        return 0.0
    P = permeance(data.X[data.inliers], r, len(data.X))
    return sqrt(room) * P - alignment_bound(data.X[~data.inliers]) / len(data.X)


def _promise(
    data: Any,
    seed: tuple[int, int],
    start_and_stability: tuple[float, float],
    part: float,
    noise: tuple[float, int | None],
    steps: tuple[float, float],
) -> list[float]:
    """Return d_r² at the end over the promised one; nothing if nothing is promised."""
    (start, S), (sigma, batch_size), (nu, c) = start_and_stability, noise, steps
    r, D = data.components.shape
    if S <= 0.0:
        return []
    bound = iteration_bound(
        "nggd" if batch_size is None else "nsggd",
        radius=start / part,
        start=start,
        stability=S,
        D=D,
        r=r,
        sigma=sigma,
        batch_size=batch_size or 1,
        failure=FAILURE,
        nu=nu,
        c1=c / sqrt(start),
    )
    if bound.iterations > LONGEST:
        return []
    rng = np.random.default_rng(seed)
    V = tilted(rng, data.components, start, all_angles=bool(rng.integers(2)))
    sizes = [bound.step] * int(bound.iterations)
    V = descend(rng, data.X, V, sizes, sigma=sigma, batch_size=batch_size)
    return [gap(V, data.components) * part / start]


# --- the private certificate ---------------------------------------------------------------

BUDGET = (1.0, 1e-6)
BETA = 0.05
FITS = 200
LEAST_KAPPA, LEAST_STABILITY = 50, 0.2
TABLES = (
    # n, D, r, share of inliers, inlier noise
    (800, 5, 1, 0.5, 0.0),
    (1500, 10, 1, 0.41, 0.0),
    (2250, 20, 1, 0.4, 0.0),
    (1450, 6, 2, 0.7, 0.0),
    (2700, 20, 2, 0.7, 0.0),
    (5100, 50, 2, 0.6, 0.0),
    (3900, 50, 2, 0.8, 0.02),
    (20_000, 20, 2, 0.7, 0.05),
    (20_000, 20, 2, 0.7, 0.07),
    (20_000, 20, 2, 0.7, 0.1),
    (20_000, 20, 2, 0.7, 0.15),
    (2000, 6, 2, 0.45, 0.0),
    (3500, 10, 2, 0.3, 0.0),
)


def certificate() -> str:
    lines = [_certificate_row(*facts) for facts in TABLES]
    return markdown(
        "The private certificate",
        f"{FITS} whole fits per line: PrivateRobustPCA with ε = {BUDGET[0]:g}, δ = {BUDGET[1]:g} "
        "and summaries=(\"certificate\",), centre and units known, noise seeded. Stability: P − A "
        "of the labelled rows, certified. κ: as in docs/newton.md, for the whole budget. "
        f"Asked: κ ≥ {LEAST_KAPPA} and stability ≥ {LEAST_STABILITY:g}; there the certificate "
        "should say \"holds\" in at least half of the fits, if that is true. "
        "True: how often the condition of theorem 3 holds at the fitted subspace and cut, by the "
        "sums without noise. \"Holds\": how often the certificate says so at β = "
        f"{BETA:g}. Wrong: how often it says so although it is not true.",
        ("n, D, r, inliers, noise", "κ", "stability", "asked", "true", "\"holds\"", "wrong"),
        lines,
    )  # fmt: skip


def _certificate_row(n: int, D: int, r: int, share: float, noise: float) -> tuple[Any, ...]:
    data = make_haystack(n, D, r, inlier_ratio=share, inlier_noise=noise, random_state=0)
    X = data.X / np.linalg.norm(data.X, axis=1, keepdims=True)
    kappa = np.linalg.eigvalsh(X.T @ X / n)[-r] * mu_from_budget(*BUDGET) * n / sqrt(D)
    certified = permeance(X[data.inliers], r, n) - alignment_bound(X[~data.inliers]) / n
    holds = wrong = true = 0
    for seed in range(FITS):
        made, components = _certified_fit(X, r, seed)
        said = made.statement(BETA).holds
        exact = exact_certificate(X, components, made.cut).statement().holds
        holds, true, wrong = holds + said, true + exact, wrong + (said and not exact)
    facts = f"{n}, {D}, {r}, {share:g}, {noise:g}"
    asked = "yes" if kappa >= LEAST_KAPPA and certified >= LEAST_STABILITY else "no"
    shares = (f"{true / FITS:.0%}", f"{holds / FITS:.0%}", f"{wrong} of {FITS}")
    return facts, f"{kappa:.0f}", f"{certified:.2f}", asked, *shares


def _certified_fit(X: FloatArray, r: int, seed: int) -> tuple[PrivateCertificate, FloatArray]:
    est = PrivateRobustPCA(
        r,
        epsilon=BUDGET[0],
        delta=BUDGET[1],
        center=None,
        scale=None,
        summaries=("certificate",),
        random_state=np.random.default_rng(seed),
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of seeded noise and rows left out
        est.fit(X)
    return est.certificate_, est.components_
