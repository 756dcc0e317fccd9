"""One pass over large data against numpy as a researcher writes it, and against the roofline.

Each function returns (name, our seconds, the peer's seconds, note), or a list of such. Contestants
take turns, and the medians are those of the turns. "Equal threads" means that BLAS is limited to
the same number for both; our passes keep to that limit too.
"""

from collections.abc import Callable
from functools import partial
from time import process_time
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from benchmarks._measure import race
from stillspace.parts.queries import Glad
from stillspace.rows import MemoryRows

Answer = tuple[str, float, float, str]
FLOOR = 2.0**-26


def two_pass(X: Any, V: Any) -> Any:
    """The sum of GLAD terms in plain numpy; X holds unit rows.

    The weights go to the narrow factor: dividing R instead would cost numpy one more n × D array,
    and make us look 1.2 to 1.4 times faster than we are.
    """
    Y = X @ V
    R = X - Y @ V.T
    distance = np.linalg.norm(R, axis=1)
    return R.T @ (Y / np.maximum(distance, FLOOR)[:, None])


def _gemm_peak(size: int = 1500) -> Callable[[], Any]:
    A = np.random.default_rng(0).standard_normal((size, size))
    return lambda: A @ A


def _unit_rows(n: int, D: int, dtype: Any) -> Any:
    X = np.random.default_rng(0).standard_normal((n, D), dtype=np.float32).astype(dtype)
    X /= np.linalg.norm(X, axis=1)[:, None]
    return X


def gradient(quick: bool = False) -> list[Answer]:
    """Full-batch gradient, 4e5 × 256, r = 10, on one and two threads."""
    n, D, r = (50_000 if quick else 400_000), 256, 10
    V = np.linalg.qr(np.random.default_rng(1).standard_normal((D, r)))[0]
    answers: list[Answer] = []
    for dtype in (np.float64, np.float32):
        X = _unit_rows(n, D, dtype)
        rows = MemoryRows.prepare(X)
        for threads in (1, 2):
            answers += _gradient(X, rows, V, threads)
        del X, rows
    return answers


def _gradient(X: Any, rows: MemoryRows, V: Any, threads: int) -> list[Answer]:
    (n, D), r = X.shape, V.shape[1]
    query, single = Glad(D, r), V.astype(X.dtype)
    size = 1500
    with threadpool_limits(threads):
        done = race(
            {
                "ours": lambda: rows.add(query, V, None),
                "numpy": lambda: two_pass(X, single),
                "gemm": _gemm_peak(size),
                "read": lambda: np.add.reduce(X.reshape(-1).view(np.uint64)),
            },
            turns=5,
            budget=20,
        )
    ours, peer = done.seconds("ours"), done.seconds("numpy")
    flops = n * D * (4 * r + 2)  # scores and products, and the squares
    at_peak = flops * done.seconds("gemm") / (2 * size**3)
    read = done.seconds("read") / threads
    where = f"{n:.0e} × {D}, r={r}, {X.dtype}, {threads} threads".replace("e+0", "e")
    bound = "flops at float64 GEMM speed" if at_peak > read else "one read of X"
    return [
        (f"full-batch gradient {where}", ours, peer, "two-pass numpy at equal threads"),
        (f"gradient against the roofline, {where}", ours, max(at_peak, read), bound),
    ]


def scattered(quick: bool = False) -> list[Answer]:
    """A pass over an eighth of the rows, drawn at random, against an eighth of a whole pass."""
    answers: list[Answer] = []
    for n, D, r, dtype in ((1_000_000, 20, 5, np.float32), (300_000, 256, 10, np.float64)):
        count = n // 10 if quick else n
        rng = np.random.default_rng(0)
        rows = MemoryRows.prepare(_unit_rows(count, D, dtype))
        V = np.linalg.qr(rng.standard_normal((D, r)))[0]
        chosen = np.sort(rng.choice(count, count // 8, replace=False))
        query = Glad(D, r)
        with threadpool_limits(1):
            done = race(
                {
                    "chosen": partial(rows.add, query, V, chosen),
                    "all": partial(rows.add, query, V, None),
                },
                turns=7,
                budget=10,
                timer=process_time,
            )
        name = f"gradient of an eighth of the rows, scattered rows, {count} × {D}, r={r}"
        note = "an eighth of the CPU time of a pass over all rows, one thread"
        answers.append((name, done.seconds("chosen"), done.seconds("all") / 8.0, note))
    return answers


def genotypes(quick: bool = False) -> list[Answer]:
    """A gradient on int8 calls, centred on the fly, against numpy on centred floats; r = 2."""
    n, D, r = (600 if quick else 2387), 10_000, 2
    rng = np.random.default_rng(0)
    calls = rng.integers(0, 3, (n, D), dtype=np.int8)
    rows = MemoryRows.prepare(calls, center=np.ones(D), missing=9)
    V = np.linalg.qr(rng.standard_normal((D, r)))[0]
    X = rows.sphered()
    single = X.astype(np.float32)
    done = race(
        {
            "ours": lambda: rows.add(Glad(D, r), V, None),
            "float32": lambda: two_pass(single, V.astype(np.float32)),
            "float64": lambda: two_pass(X, V),
        },
        turns=11,
        budget=30,
        number=3,
    )
    note = "numpy gets rows that are centred and scaled already, at 4 and 8 times the memory"
    return [
        (
            f"genotype gradient int8 {n} × {D}, r={r}, against {peer} naive",
            done.seconds("ours"),
            done.seconds(peer),
            note,
        )
        for peer in ("float32", "float64")
    ]
