"""`python -m benchmarks.scale`: rows in files, and the cost model of docs/scale.md.

Everything is measured in CPU seconds of one thread, so that other programs on the machine matter
little. `--peak` also fits a file of 4 GB under memory="512MB" in a process of its own and reports
the peak of its memory. `--write` puts the constants into benchmarks/scale.json.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from stillspace.parts.queries import Glad
from stillspace.rows import FileRows, MemoryRows, Sphere

HERE = Path(__file__).parent
MODEL_SHAPES = ((16_000, 256, 2), (16_000, 256, 10), (4_000, 1000, 4))
"""(rows, columns, components) from which the constants are fitted."""
CHECK_SHAPES = ((30_000, 128, 5), (8_000, 600, 3))
"""Other shapes, on which the model is checked."""
FORMATS = ("npy", "parquet")
REPEATS = 3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peak", action="store_true")
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--one-peak", metavar="FILE", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.one_peak:
        print(json.dumps(peak_of(options.one_peak)))
        return
    with tempfile.TemporaryDirectory() as folder:
        found: dict[str, Any] = {"constants": constants(Path(folder))}
        found["check"] = checked(Path(folder), found["constants"])
        if options.peak:
            found["peak"] = peak(Path(folder))
    print(json.dumps(found, indent=2))
    if options.write:
        (HERE / "scale.json").write_text(json.dumps(found, indent=2) + "\n", encoding="utf-8")


def constants(folder: Path) -> dict[str, float]:
    """Return nanoseconds per cell: of a term (fixed part and part per component), of a format."""
    rows, times = [], []
    reads: dict[str, list[float]] = {name: [] for name in FORMATS}
    for n, D, r in MODEL_SHAPES:
        memory, *files = pass_times(folder, n, D, r)
        cells = n * D * 1e-9
        rows.append([1.0, float(r)])
        times.append(memory / cells)
        for name, seconds in zip(FORMATS, files, strict=True):
            reads[name].append((seconds - memory) / cells)
    (fixed, each), *_ = np.linalg.lstsq(np.array(rows), np.array(times), rcond=None)
    found = {"cell_ns": float(fixed), "component_ns": float(each)}
    return found | {f"{name}_ns": float(np.median(values)) for name, values in reads.items()}


def checked(folder: Path, known: dict[str, float]) -> list[dict[str, Any]]:
    """Compare the model with other shapes."""
    found = []
    for n, D, r in CHECK_SHAPES:
        _, *files = pass_times(folder, n, D, r)
        for name, seconds in zip(FORMATS, files, strict=True):
            said = predicted(known, n, D, r, name)
            found.append({"shape": [n, D, r], "format": name, "seconds": seconds, "model": said})
    return found


def predicted(known: dict[str, float], n: int, D: int, r: int, storage: str) -> float:
    """Return the CPU seconds of one pass by the model."""
    per_cell = known["cell_ns"] + r * known["component_ns"] + known[f"{storage}_ns"]
    return n * D * per_cell * 1e-9


def pass_times(folder: Path, n: int, D: int, r: int) -> list[float]:
    """Return CPU seconds of one pass: in memory, from .npy, from Parquet; taken in turns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D), dtype=np.float32)
    np.save(folder / "X.npy", X)
    columns = {f"c{j}": X[:, j] for j in range(D)}
    pq.write_table(pa.table(columns), folder / "X.parquet", row_group_size=4_096)
    V = np.linalg.qr(rng.standard_normal((D, r)))[0]
    kinds = [MemoryRows.of(X), *(FileRows.open(folder / f"X.{name}") for name in FORMATS)]
    bounded = [kind.through(Sphere()) for kind in kinds]
    takes: list[list[float]] = [[] for _ in bounded]
    sums = []
    for _ in range(REPEATS):
        for rows, seconds in zip(bounded, takes, strict=True):
            seconds.append(timed(lambda rows=rows: sums.append(rows.add(Glad(D, r), V, None))))
    assert all(np.array_equal(total, sums[0]) for total in sums)
    return [min(seconds) for seconds in takes]


def timed(work: Callable[[], Any]) -> float:
    begin = process_time()
    work()
    return process_time() - begin


def peak(folder: Path) -> dict[str, float]:
    """Write a file of 4 GB and fit it in a process of its own."""
    path, n, D = folder / "large.npy", 4_000_000, 256
    rng = np.random.default_rng(1)
    block = rng.standard_normal((20_000, D), dtype=np.float32)
    with path.open("wb") as file:
        header = {"descr": "<f4", "fortran_order": False, "shape": (n, D)}
        np.lib.format.write_array_header_1_0(file, header)
        for _ in range(n // len(block)):
            block.tofile(file)
    command = [sys.executable, "-m", "benchmarks.scale", "--one-peak", str(path)]
    done = subprocess.run(command, check=True, capture_output=True, env=os.environ, text=True)
    found: dict[str, float] = json.loads(done.stdout)
    return found


def peak_of(path: str) -> dict[str, float]:
    """Return the peak of memory after imports, and after two passes over a file."""
    V = np.eye(256, 5)
    MemoryRows(np.zeros((256, 64))).add(Glad(256, 5), V, None)
    imports = _peak()
    begin = process_time()
    FileRows.open(path, memory="512MB").through(Sphere()).add(Glad(256, 5), V, None)
    return {"imports_mb": imports, "fit_mb": _peak(), "cpu_seconds": process_time() - begin}


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


if __name__ == "__main__":
    main()
