"""`python -m benchmarks.bed [ROWS COLUMNS]`: fits of a .bed file that is larger than `memory`.

Genotypes of six groups (5000 × 200 000 calls by default) are written to a file. A private and a
robust fit read it, each in a process of its own with one thread, which reports its CPU seconds and
the peak of its memory. scikit-learn's randomized PCA of the same cells in memory (8 bytes per
cell) says which variance five components can explain.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import warnings
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

import numpy as np

from benchmarks._peak import high_water

GROUPS, COMPONENTS = 6, 5
SPREAD = 0.08
"""Standard deviation of the difference between the allele frequencies of two groups, over √2."""
STRETCH = 100
"""Rows that are made at once."""
FITS = ("private", "robust", "randomized")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("shape", nargs="*", type=int, default=[5000, 200_000])
    parser.add_argument("--fits", nargs="+", choices=FITS, default=FITS)
    parser.add_argument("--one", nargs=3, metavar=("FIT", "FILE", "OUT"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one:
        print(json.dumps(one(options.one[0], Path(options.one[1]), Path(options.one[2]))))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        write(folder / "X.bed", *options.shape)
        for fit in options.fits:
            print(json.dumps(in_its_own_process(fit, folder)), flush=True)
        known = {fit: np.load(folder / f"{fit}.npy") for fit in options.fits}
        explained = explained_variance(folder / "X.bed", known) if "randomized" in known else {}
    for fit, variance in explained.items():
        print(f"{fit}: {variance / explained['randomized']:.6f} of the variance of randomized PCA")


def write(path: Path, n: int, D: int) -> None:
    """Write an individual-major .bed file of `n` people from `GROUPS` groups."""
    rng = np.random.default_rng(0)
    common = rng.uniform(0.1, 0.9, D)
    frequencies = np.clip(common + rng.normal(0, SPREAD, (GROUPS, D)), 0.02, 0.98)
    codes = np.array([3, 2, 0], dtype=np.uint8)  # of 0, 1 and 2 copies of the first allele
    with path.open("wb") as file:
        file.write(b"\x6c\x1b\x00")
        for start in range(0, n, STRETCH):
            group = rng.integers(0, GROUPS, min(STRETCH, n - start))
            calls = np.zeros((len(group), -(-D // 4) * 4), dtype=np.uint8)
            for _ in range(2):  # chromosomes
                calls[:, :D] += rng.random((len(group), D), dtype=np.float32) < frequencies[group]
            four = codes[calls].reshape(len(group), -1, 4)
            (four << np.array([0, 2, 4, 6], dtype=np.uint8)).sum(axis=2, dtype=np.uint8).tofile(
                file
            )
    path.with_suffix(".fam").write_text("i i 0 0 0 0\n" * n)
    path.with_suffix(".bim").write_text("1 v 0 0 A C\n" * D)


def in_its_own_process(fit: str, folder: Path) -> dict[str, Any]:
    """Return what one fit took."""
    threads = dict.fromkeys(("OMP", "OPENBLAS", "NUMBA"), "1")
    env = os.environ | {f"{name}_NUM_THREADS": count for name, count in threads.items()}
    given = ["--one", fit, str(folder / "X.bed"), str(folder / f"{fit}.npy")]
    command = [sys.executable, "-m", "benchmarks.bed", *given]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, env=env, text=True)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def one(fit: str, path: Path, out: Path) -> dict[str, Any]:
    """Fit, keep the components, and return seconds and the peak of memory."""
    warnings.simplefilter("ignore")  # that the sketch is limited by memory is known here
    cells = in_memory(path) if fit == "randomized" else None
    wall, cpu = perf_counter(), process_time()
    if cells is not None:
        from sklearn.decomposition import PCA  # noqa: PLC0415

        est: Any = PCA(COMPONENTS, svd_solver="randomized", random_state=0).fit(cells)
    elif fit == "private":
        from stillspace import PrivateRobustPCA  # noqa: PLC0415

        est = PrivateRobustPCA(COMPONENTS, epsilon=4.0, center="pairs", memory="512MB").fit(path)
    else:
        from stillspace import RobustPCA  # noqa: PLC0415

        est = RobustPCA(COMPONENTS, memory="1GB").fit(path)
    took = {"fit": fit, "cpu_seconds": process_time() - cpu, "seconds": perf_counter() - wall}
    np.save(out, est.components_)
    return took | {"peak_mb": high_water() / 2**20}


def in_memory(path: Path) -> Any:
    """Return all cells as float32."""
    from stillspace.rows.sources import open_source  # noqa: PLC0415

    source = open_source(path)
    X = np.empty(source.shape, dtype=np.float32)
    for start in range(0, len(X), STRETCH):
        X[start : start + STRETCH] = source.read(start, min(start + STRETCH, len(X)))
    return X


def explained_variance(path: Path, known: dict[str, Any]) -> dict[str, float]:
    """Return the variance of the scores in each basis, by one pass over the file."""
    from stillspace.rows.sources import open_source  # noqa: PLC0415

    source = open_source(path)
    wide = {fit: C for fit, C in known.items() if C.shape[1] == source.shape[1]}
    basis = np.concatenate(list(wide.values())).T.astype(np.float32)
    n = source.shape[0]
    blocks = (source.read(at, min(at + STRETCH, n)) for at in range(0, n, STRETCH))
    scores = np.concatenate([block.astype(np.float32) @ basis for block in blocks])
    variances = scores.var(axis=0, dtype=np.float64).reshape(len(wide), -1).sum(axis=1)
    return dict(zip(wide, variances.tolist(), strict=True))


if __name__ == "__main__":
    main()
