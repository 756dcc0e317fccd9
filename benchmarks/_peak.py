"""Peak memory of one private fit beyond its data, in a process of its own.

A process's peak only ever rises, so the data are made in place and a small fit warms everything
up: what the peak rises by afterwards is the fit's own.
"""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np


def peak_beyond(n: int, D: int, r: int, T: int) -> int:
    """Return the bytes that a fit of a new (n, D) float64 array needs beside the array."""
    command = [sys.executable, "-m", "benchmarks._peak", *map(str, (n, D, r, T))]
    root = Path(__file__).parents[1]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=True)
    return int(json.loads(done.stdout.splitlines()[-1]))


def fit(X: np.ndarray, r: int, T: int) -> None:
    """Fit by the default algorithm, or by dp-ggd with T iterations if T is not 0."""
    from stillspace import PrivateRobustPCA  # noqa: PLC0415 (not before the data are made)

    options = {"algorithm": "dp-ggd", "n_iter": T} if T else {}
    PrivateRobustPCA(r, epsilon=1.0, center=None, **options).fit(X)


def fill(X: np.ndarray, r: int) -> None:
    """Fill with half inliers near r coordinates, so that the default takes its steps."""
    rng = np.random.default_rng(0)
    for start in range(0, len(X), 1_000):  # no temporary of the size of X
        part = X[start : start + 1_000]
        part[:] = rng.random(part.shape) - 0.5
        part[::2, r:] *= 0.05


def high_water() -> int:
    """Return the peak of resident memory so far, in bytes.

    Linux: VmHWM, which starts anew with the program. `ru_maxrss` there starts at the size of the
    process that forked this one, which is larger than what we look for.
    """
    status = Path("/proc/self/status")
    if status.exists():
        line = next(x for x in status.read_text().splitlines() if x.startswith("VmHWM"))
        return 1024 * int(line.split()[1])
    import resource  # noqa: PLC0415 (not on Windows)

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def main(n: int, D: int, r: int, T: int) -> None:
    X = np.empty((n, D))
    fill(X, r)
    fit(X[: min(n, 2_000)], r, min(T, 2))
    before = high_water()
    fit(X, r, T)
    print(json.dumps(high_water() - before))


if __name__ == "__main__":
    main(*map(int, sys.argv[1:]))
