"""Whole fits against scikit-learn, pymanopt, MinCovDet and plain numpy."""

import warnings
from collections.abc import Iterator
from itertools import count
from typing import Any

from benchmarks._facts import named, version
from benchmarks._measure import race, spread
from benchmarks._peers import (
    Kept,
    min_cov_det,
    numpy_fms,
    pymanopt_fit,
    sklearn_incremental,
    sklearn_pca,
)
from benchmarks._rows import Row, at_least, at_most
from stillspace import PrivateRobustPCA, RobustPCA
from stillspace.datasets import Haystack, make_haystack
from stillspace.metrics import subspace_error

TOPIC = "fits"


def rows(quick: bool) -> Iterator[Row]:
    yield from against_pca(quick)
    yield from against_pymanopt(quick)
    yield from against_min_cov_det(quick)
    yield from overhead()


def robust(X: Any, r: int) -> Any:
    return RobustPCA(r, center=None).fit(X).components_


def private(X: Any, r: int, **options: Any) -> Any:
    return PrivateRobustPCA(r, epsilon=1.0, center=None, **options).fit(X).components_


def d2(data: Haystack, **contestants: Kept) -> str:
    """Return each contestant's d² to the truth: speed at another accuracy is no comparison."""
    shown = (
        f"{name} {subspace_error(kept.answer, data.components):.2g}"
        for name, kept in contestants.items()
    )
    return "d²: " + ", ".join(shown)


def against_pca(quick: bool) -> Iterator[Row]:
    n, D, r = (30_000 if quick else 300_000), 256, 10
    data = make_haystack(n, D, r, inlier_noise=0.05, random_state=0)
    X, where = data.X, f"{n:.0e} × {D}, r={r}".replace("e+0", "e")
    sklearn = named("scikit-learn")
    exact, randomized = f"{sklearn} PCA covariance_eigh", f"{sklearn} PCA randomized"
    incremental, full = f"{sklearn} IncrementalPCA", f"{sklearn} PCA full"
    entries = {
        "robust": Kept(robust, X, r),
        "private30": Kept(private, X, r, algorithm="dp-ggd", n_iter=30),
        exact: Kept(sklearn_pca, X, r, "covariance_eigh"),
        randomized: Kept(sklearn_pca, X, r, "randomized"),
    }
    done = race(entries, turns=5, budget=10 if quick else 40)
    pca = entries[exact]
    note = d2(data, ours=entries["robust"], PCA=pca)
    name = f"RobustPCA.fit {where}"
    yield done.row(TOPIC, name, "robust", exact, target=at_most(2), note=note)
    yield done.row(TOPIC, name, "robust", randomized, faster=True, target=at_least(1))
    label = f"PrivateRobustPCA(epsilon=1, center=None).fit {where}, dp-ggd, T=30"
    note = d2(data, ours=entries["private30"], PCA=pca)
    yield done.row(TOPIC, label, "private30", exact, target=at_most(8), note=note)
    slow = {"robust": entries["robust"], incremental: Kept(sklearn_incremental, X, r)}
    if not quick:
        slow[full] = Kept(sklearn_pca, X, r, "full")
    done = race(slow, turns=1, warm_up=False)
    for peer in list(slow)[1:]:
        note = d2(data, ours=slow["robust"], peer=slow[peer])
        yield done.row(TOPIC, name, "robust", peer, faster=True, note=note)


def against_pymanopt(quick: bool) -> Iterator[Row]:
    """Both sides stop by their own rules; with noisy inliers both then stand at the optimum."""
    n, D, r = (10_000 if quick else 100_000), 100, 5
    data = make_haystack(n, D, r, inlier_noise=0.05, random_state=0)
    what = f"RobustPCA.fit haystack {n:.0e} × {D}, r={r}, to equal d".replace("e+0", "e")
    entries = {"robust": Kept(robust, data.X, r)}
    wanted = {}
    for short, optimizer in (("CG", "ConjugateGradient"), ("SD", "SteepestDescent")):
        for start in ("own random", "PCA"):
            peer = f"{named('pymanopt')} {short}, {start} start"
            wanted[peer] = at_least(20) if short == "CG" else None
            if version("pymanopt"):
                pca = start == "PCA"
                entries[peer] = Kept(pymanopt_fit, data.X, r, optimizer, pca=pca)
    entries[f"{named('numpy')}, FMS as a researcher writes it"] = Kept(numpy_fms, data.X, r)
    done = race(entries, turns=5, budget=15 if quick else 50)
    for peer, target in wanted.items():
        if peer in entries:
            note = d2(data, ours=entries["robust"], peer=entries[peer])
            yield done.row(TOPIC, what, "robust", peer, faster=True, target=target, note=note)
        else:
            note = "pymanopt is not installed: pip install .[bench]"
            yield Row(TOPIC, what, peer, "× faster", None, target, note=note)
    peer = list(entries)[-1]
    note = d2(data, ours=entries["robust"], peer=entries[peer])
    yield done.row(TOPIC, what, "robust", peer, faster=True, note=note)


def against_min_cov_det(quick: bool) -> Iterator[Row]:
    """Smaller data: its cost grows with n D² a concentration step, from many starts."""
    n, D, r = (1_000 if quick else 10_000), 30, 3
    data = make_haystack(n, D, r, inlier_ratio=0.7, inlier_noise=0.05, random_state=0)
    peer = f"{named('scikit-learn')} MinCovDet + eigh"
    entries = {"robust": Kept(robust, data.X, r), peer: Kept(min_cov_det, data.X, r)}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # its determinant may rise by rounding, and it says so
        done = race(entries, turns=3, budget=30)
    note = d2(data, ours=entries["robust"], peer=entries[peer])
    what = f"RobustPCA.fit {n} × {D}, r={r}, 70 % inliers"
    yield done.row(TOPIC, what, "robust", peer, faster=True, note=note)


def overhead() -> Iterator[Row]:
    """The whole small fit: validation, planning, calibration, scaling, and the loop as well."""
    from stillspace.parts.noise import secure_generator  # noqa: PLC0415
    from stillspace.rows import MemoryRows  # noqa: PLC0415
    from stillspace.run import run  # noqa: PLC0415

    data = make_haystack(2_000, 20, 2, inlier_noise=0.05, random_state=0)
    fitted = PrivateRobustPCA(2, epsilon=1.0, center=None).fit(data.X)
    plan = fitted.plan_
    table = MemoryRows.of(data.X)
    budgets = count()
    loop = "its plan alone"
    done = race(
        {  # a new ε a call: nothing comes from the calibration's cache
            "fit": lambda: PrivateRobustPCA(2, epsilon=1 + 1e-6 * next(budgets), center=None).fit(
                data.X
            ),
            loop: lambda: run(plan, table, secure_generator()),
        },
        turns=15,
        number=3,
    )
    what = f"PrivateRobustPCA.fit 2000 × 20, full batch, {fitted.n_iter_} passes included"
    note = "a new ε each time, so that no calibration is cached"
    times = done.seconds("fit"), done.seconds(loop)
    yield Row(TOPIC, what, loop, "s", spread(done.times["fit"]), at_most(0.02), *times, note)
