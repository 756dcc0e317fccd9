"""Whole loops of small problems against a researcher's numpy, and against LAPACK alone.

Each function returns (name, our seconds, the peer's seconds). Both sides take turns in one
process with one BLAS thread: at these sizes a second one only adds noise.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._measure import race
from stillspace import PrivateRobustPCA
from stillspace.datasets import make_haystack
from stillspace.parts.geometry import EntropicMirror, MirrorState, Polar, WaterFilling
from stillspace.parts.noise import secure_generator
from stillspace.parts.outputs import Average
from stillspace.parts.queries import Glad, Reaper
from stillspace.parts.sampling import All, Sampling, WithReplacement
from stillspace.parts.schedules import Halving, InverseSqrt
from stillspace.plans.fixed import Plan
from stillspace.plans.ledger import Ledger
from stillspace.plans.release import Release
from stillspace.plans.starts import GivenStart
from stillspace.rows import MemoryRows
from stillspace.run import run

Result = tuple[str, float, float]

N, D, R, B, T = 2000, 20, 2, 20, 2000


def _data(n: int, columns: int, r: int) -> tuple[np.ndarray, np.ndarray]:
    X = np.asarray(make_haystack(n, columns, r, random_state=0).X)
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X, np.linalg.qr(np.random.default_rng(1).standard_normal((columns, r)))[0]


def _glad_plan(V: np.ndarray, sampling: Sampling, z: float, n_iter: int) -> Plan:
    release = Release(Glad(D, R), N, z, sampling)
    start = GivenStart.from_basis(V)
    return Plan("glad", start, release, Polar(R), R, n_iter, Halving(1.0, 50))


def _numpy_glad(
    X: np.ndarray, V: np.ndarray, n_iter: int, batch: int | None, sigma: float
) -> np.ndarray:
    """The loop as a researcher writes it, SPEC 2 and 3."""
    rng = np.random.default_rng(0)
    n = len(X)
    for k in range(n_iter):
        x = X if batch is None else X[rng.choice(n, size=batch)]
        Y = x @ V
        residual = x - Y @ V.T
        distance = np.maximum(np.linalg.norm(residual, axis=1, keepdims=True), 1e-8)
        G = (residual / distance).T @ Y / len(x)
        if sigma > 0.0:
            G = G + rng.normal(0.0, sigma, G.shape)
        U, _, Wt = np.linalg.svd(V + 0.5 ** (k // 50) * G, full_matrices=False)
        V = U @ Wt
    return V


def _against(
    name: str,
    ours: Callable[[], Any],
    peer: Callable[[], Any],
    *,
    turns: int = 9,
    number: int = 1,
) -> Result:
    with threadpool_limits(1):
        done = race({"ours": ours, "peer": peer}, turns, budget=20, number=number)
    return name, done.seconds("ours"), done.seconds("peer")


def _glad(name: str, X: np.ndarray, sampling: Sampling, z: float, n_iter: int) -> Result:
    """Our whole run, draws and ledger included, on rows that are wrapped already."""
    points, V = _data(N, D, R)
    rows = MemoryRows.prepare(X)
    plan = _glad_plan(V, sampling, z, n_iter)
    batch = None if isinstance(sampling, All) else B
    sigma = 0.1 if z else 0.0
    return _against(
        name,
        lambda: run(plan, rows, secure_generator()),
        lambda: _numpy_glad(points, V, n_iter, batch, sigma),
        number=1 if batch is None else 5,
    )


def dp_sggd() -> Result:
    X, _ = _data(N, D, R)
    name = f"dp-sggd loop {N} × {D}, r={R}, B={B}, T={T}, no noise in either"
    return _glad(name, X, WithReplacement(B, N), 0.0, T)


def dp_sggd_with_noise() -> Result:
    X, _ = _data(N, D, R)
    name = f"dp-sggd loop {N} × {D}, r={R}, B={B}, T={T}, ours with lattice noise, numpy normals"
    return _glad(name, X, WithReplacement(B, N), 1.0, T)


def dp_sggd_fit() -> Result:
    """The whole fit, the second one of its plan, against the researcher's loop alone."""
    X, V = _data(N, D, R)
    private = PrivateRobustPCA(
        R, epsilon=1.0, algorithm="dp-sggd", batch_size=B, n_iter=T, center=None
    )
    return _against(
        f"dp-sggd fit {N} × {D}, r={R}, B={B}, T={T}, second fit of the same plan",
        lambda: private.fit(X),
        lambda: _numpy_glad(X, V, T, B, 0.1),
    )


def dp_ggd(quick: bool = False) -> Result:
    X, _ = _data(N, D, R)
    return _glad(f"dp-ggd loop {N} × {D}, r={R}, float64", X, All(), 0.0, 300 if quick else T)


def dp_ggd_float32(quick: bool = False) -> Result:
    X, _ = _data(N, D, R)
    name = f"dp-ggd loop {N} × {D}, r={R}, float32 storage, float64 arithmetic"
    return _glad(name, X.astype(np.float32), All(), 0.0, 300 if quick else T)


def _reaper(name: str, geometry: Any, columns: int, n_iter: int) -> Result:
    """Our whole run against one eigendecomposition per step, of the same matrices."""
    X, V = _data(N, columns, R)
    rows = MemoryRows.prepare(X)
    release = Release(Reaper(columns, 2), N, 0.0, WithReplacement(B, N))
    start = GivenStart.from_basis(V)
    plan = Plan("reaper", start, release, geometry, R, n_iter, InverseSqrt(8.0), output=Average())
    matrices = _decomposed(plan, rows)
    return _against(
        f"{name} loop {N} × {columns}, B={B}, against eigh alone",
        lambda: run(plan, rows, secure_generator()),
        lambda: [np.linalg.eigh(matrix) for matrix in matrices],
    )


def _decomposed(plan: Plan, rows: MemoryRows) -> list[np.ndarray]:
    """Return the matrices that a run decomposes, by the plain loop."""
    geometry, release, rng = plan.geometry, plan.release, secure_generator()
    assert release is not None
    state = geometry.enter(plan.start.value())  # type: ignore[union-attr,call-arg]
    found = []
    for k in range(plan.n_iter):
        draw = release.draw(k, rows.n_rows, rng, Ledger())
        G = release.apply(rows, geometry.point(state), draw)
        before = state.log_P if isinstance(state, MirrorState) else state
        found.append(before + plan.schedule.step(k) * G)
        state = geometry.step(state, G, plan.schedule.step(k))
    return found


def reaper_small() -> Result:
    return _reaper("SGD-REAP", WaterFilling(R), 20, 500)


def mirror_small() -> Result:
    return _reaper("SMD-REAP mirror", EntropicMirror(R), 20, 500)


def reaper_wide(quick: bool = False) -> Result:
    return _reaper("SGD-REAP", WaterFilling(R), 200, 20 if quick else 100)


def mirror_wide(quick: bool = False) -> Result:
    return _reaper("SMD-REAP mirror", EntropicMirror(R), 200, 20 if quick else 100)


def poisson_sampling() -> Result:
    """Sampling that costs what it samples: 1e-3 of 1e6 rows against one word per row."""
    from stillspace.parts.sampling import Poisson  # noqa: PLC0415

    rng, plain, sampling = secure_generator(), np.random.default_rng(0), Poisson(1e-3)
    return _against(
        "Poisson sampling, 1e6 rows at 1e-3, against a Bernoulli mask",
        lambda: sampling.draws(10**6, 1, rng),
        lambda: np.flatnonzero(plain.random(10**6) < 1e-3),
        turns=50,
    )


def main() -> None:
    for measure in (
        dp_sggd, dp_sggd_with_noise, dp_sggd_fit, dp_ggd, dp_ggd_float32, reaper_small,
        mirror_small, reaper_wide, mirror_wide, poisson_sampling,
    ):  # fmt: skip
        name, ours, peer = measure()
        print(f"{name}: {peer / ours:.1f}× faster, {ours / peer:.3f} of its time", flush=True)


if __name__ == "__main__":
    main()
