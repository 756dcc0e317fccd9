"""The first fit of a new process, beyond importing scikit-learn; compiled code cached or not."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator

import numpy as np

from benchmarks._facts import named
from benchmarks._measure import spread
from benchmarks._rows import Row, Target, at_most

TOPIC = "startup"

CHILD = """
import json
import sys
from time import perf_counter
start = perf_counter()
import sklearn.decomposition
import numpy as np
imported = perf_counter()
name, n, D = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
X = np.random.default_rng(0).standard_normal((n, D))
begin = perf_counter()
import stillspace
estimator = getattr(stillspace, name)(2, **({} if sys.argv[4] == "default" else {"center": None}))
estimator.fit(X)
first = perf_counter()
estimator.fit(X)
second = perf_counter()
print(json.dumps([imported - start, first - begin, second - first]))
"""

SMALL = 2_000
"""Rows up to which a first fit is a small one."""

CENTRES = "center=None", "default"
CASES = (
    ("RobustPCA", 2_000, 20, CENTRES[0]),
    ("PrivateRobustPCA", 2_000, 20, CENTRES[0]),
    ("PrivateRobustPCA", 2_000, 20, CENTRES[1]),
    ("RobustPCA", 60_000, 100, CENTRES[0]),
)


def child(name: str, n: int, D: int, center: str, cache: str) -> tuple[float, float, float]:
    """Return the seconds of: importing scikit-learn; the first fit with our import; the second."""
    command = [sys.executable, "-c", CHILD, name, str(n), str(D), center]
    # Compiled code and bytecode are kept here, so the caches of whoever runs this are left alone.
    environment = {**os.environ, "NUMBA_CACHE_DIR": cache, "PYTHONPYCACHEPREFIX": cache}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    imported, first, second = json.loads(done.stdout.splitlines()[-1])
    return imported, first, second


def rows(quick: bool) -> Iterator[Row]:
    for name, n, D, center in CASES[:2] if quick else CASES:
        with tempfile.TemporaryDirectory() as cache:
            cold = [child(name, n, D, center, cache)]
            warm = [child(name, n, D, center, cache) for _ in range(3 if quick else 5)]
        what = f"{name} ({center}): import and first fit, {n} × {D}"
        yield row(f"{what}, cache warm", warm, at_most(0.2 if n <= SMALL else 0.5))
        yield row(f"{what}, cache cold", cold, None)


def row(what: str, times: list[tuple[float, float, float]], target: Target | None) -> Row:
    imported, first, second = np.transpose(times)
    return Row(
        TOPIC,
        what,
        f"importing {named('scikit-learn')}",
        "s",
        spread(first - second),
        target,
        float(np.median(first)),
        float(np.median(imported)),
        f"the second fit, {np.median(second) * 1e3:.0f} ms, is subtracted",
    )
