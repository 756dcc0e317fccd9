"""`python -m benchmarks.scale`: rows in files, and the cost model of docs/scale.md.

Passes are measured in CPU seconds of one thread, so that other programs on the machine matter
little. `--peak` also reads a file of 4 GB under memory="512MB" in a process of its own and reports
the peak of its memory. `--cluster` also times rounds on a Dask cluster (benchmarks/cluster.py).
`--write` puts all of it into benchmarks/scale.json, and the tables into docs/scale.md.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from math import log
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks._peak import high_water
from stillspace.parts.queries import Glad
from stillspace.rows import FileRows, MemoryRows, Sphere

HERE = Path(__file__).parent
MODEL_SHAPES = (
    (40_000, 256, 2),
    (40_000, 256, 10),
    (10_000, 1000, 4),
    (60_000, 150, 4),
    (90_000, 96, 6),
)
"""(rows, columns, components) from which the constants are fitted."""
CHECK_SHAPES = ((70_000, 128, 5), (18_000, 600, 3))
"""Other shapes, on which the model is checked."""
FORMATS = ("npy", "parquet", "bed")
REPEATS = 9
DOCS = HERE.parent / "docs" / "scale.md"
CLUSTERS = (
    ("1e9 × 1e3 Parquet float32", 1e9, 1e3, "parquet", 4.0),
    ("5e5 × 1e6 .bed", 5e5, 1e6, "bed", 0.25),
)
"""Tables that are far larger than this machine: name, rows, columns, format, bytes per cell."""
WORKERS, COMPONENTS = (10, 100), 10
DISK, NETWORK = 0.5e9, 1.25e9
"""Bytes per second of storage per worker, and of the coordinator's network, in the model."""
TREE = 64e6
"""Bytes of sums per round from which on workers add them up among themselves."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--peak", action="store_true")
    parser.add_argument("--cluster", action="store_true")
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
    if options.cluster:
        from benchmarks.cluster import measured  # noqa: PLC0415

        found["cluster"] = measured()
    print(json.dumps(found, indent=2))
    if options.write:
        known = json.loads((HERE / "scale.json").read_text(encoding="utf-8"))
        known.update(found)  # what was not measured now stays
        (HERE / "scale.json").write_text(json.dumps(known, indent=2) + "\n", encoding="utf-8")
        text = DOCS.read_text(encoding="utf-8")
        DOCS.write_text(with_tables(text, known), encoding="utf-8")


def constants(folder: Path) -> dict[str, float]:
    """Return nanoseconds: per cell, per cell and component, per row, and per cell of a format."""
    rows, times = [], []
    reads: dict[str, list[float]] = {name: [] for name in FORMATS}
    for n, D, r in MODEL_SHAPES:
        memory, *files = pass_times(folder, n, D, r)
        cells = n * D * 1e-9
        rows.append([1.0, float(r), 1.0 / D])
        times.append(memory / cells)
        for name, seconds in zip(FORMATS, files, strict=True):
            reads[name].append((seconds - memory) / cells)
    (cell, component, row), *_ = np.linalg.lstsq(np.array(rows), np.array(times), rcond=None)
    found = {"cell_ns": float(cell), "component_ns": float(component), "row_ns": float(row)}
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


def predicted(known: dict[str, float], n: float, D: float, r: int, storage: str) -> float:
    """Return the CPU seconds of one pass by the model."""
    per_cell = known["cell_ns"] + r * known["component_ns"] + known[f"{storage}_ns"]
    return n * (D * per_cell + known["row_ns"]) * 1e-9


def with_tables(text: str, found: dict[str, Any]) -> str:
    """Return the page with the tables of these measurements between its marks."""
    for name, table in tables(found).items():
        mark = f"<!-- {name} -->\n"
        before, _, rest = text.partition(mark)
        text = f"{before}{mark}{table}{mark}{rest.partition(mark)[2]}"
    return text


def tables(found: dict[str, Any]) -> dict[str, str]:
    """Return the tables of docs/scale.md."""
    known, cluster = found["constants"], found["cluster"]
    constants = [
        ("a, arithmetic", known["cell_ns"]),
        ("b, per component", known["component_ns"]),
        ("c, `.npy` float32 in the cache of the system", known["npy_ns"]),
        ("c, Parquet float32", known["parquet_ns"]),
        ("c, `.bed`", known["bed_ns"]),
        ("e, per row", known["row_ns"]),
    ]
    checks = [
        (
            "{} × {}, {}".format(*row["shape"]),
            row["format"],
            f"{row['seconds']:.3f}",
            f"{row['model']:.3f}",
            f"{row['model'] / row['seconds'] - 1:+.0%}",
        )
        for row in found["check"]
    ]
    rounds = []
    for table in CLUSTERS:
        for workers in WORKERS:
            work, tasks, sums = cluster_round(
                known, cluster["round_ms"] * 1e-3, *table[1:], workers
            )
            name = f"{table[0]}, r = {COMPONENTS}"
            total = f"{work + tasks + sums:.3g} s"
            rounds.append(
                (name, workers, f"{work:.3g} s", f"{tasks:.2f} s", f"{sums:.2f} s", total)
            )
    shape = "check on another shape (rows × columns, components)"
    return {
        "constants": _table(("constant", "ns"), [(k, f"{v:.2f}") for k, v in constants]),
        "check": _table((shape, "format", "CPU seconds", "model", "off by"), checks),
        "rounds": _table(
            ("table", "workers", "adding up or reading", "scheduler", "sums", "one round"), rounds
        ),
    }


def _table(head: tuple[str, ...], rows: list[tuple[Any, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "".join("| " + " | ".join(map(str, line)) + " |\n" for line in lines)


def cluster_round(
    known: dict[str, float],
    task: float,
    n: float,
    D: float,
    storage: str,
    size: float,
    workers: int,
) -> tuple[float, float, float]:
    """Return the seconds of a round: of the slower of adding up and reading, of tasks, of sums."""
    adding = predicted(known, n / workers, D, COMPONENTS, storage)
    cells = n * D / workers
    total, hops = 16 * D * COMPONENTS, workers
    if total * workers > TREE:
        hops = max(1.0, log(workers, 8))
    sums = (total + total / 2) * hops / NETWORK  # sums come back, the point goes out
    return max(adding, cells * size / DISK), task * workers / 2, sums


def pass_times(folder: Path, n: int, D: int, r: int) -> list[float]:
    """Return CPU seconds of one pass: in memory, and from each format; taken in turns.

    The cells of a .bed file are genotypes; what it takes beyond memory is that of other cells.
    """
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, D), dtype=np.float32)
    np.save(folder / "X.npy", X)
    columns = {f"c{j}": X[:, j] for j in range(D)}
    pq.write_table(pa.table(columns), folder / "X.parquet", row_group_size=8_192)
    V = np.linalg.qr(rng.standard_normal((D, r)))[0]
    write_bed(folder, rng.integers(0, 256, (n, -(-D // 4)), dtype=np.uint8), D)
    kinds = [MemoryRows.of(X), *(FileRows.open(folder / f"X.{name}") for name in FORMATS)]
    bounded = [kind.through(Sphere()) for kind in kinds]
    takes: list[list[float]] = [[] for _ in bounded]
    sums = []
    for _ in range(REPEATS):
        for rows, seconds in zip(bounded, takes, strict=True):
            seconds.append(timed(lambda rows=rows: sums.append(rows.add(Glad(D, r), V, None))))
    same = [total for k, total in enumerate(sums) if k % len(bounded) < 3]  # of the same cells
    assert all(np.array_equal(total, sums[0]) for total in same)
    return [min(seconds) for seconds in takes]


def write_bed(folder: Path, calls: Any, D: int) -> None:
    """Write an individual-major .bed file without missing calls."""
    with (folder / "X.bed").open("wb") as file:
        file.write(b"\x6c\x1b\x00")
        (calls | (calls & 0x55) << 1).tofile(file)  # code 1, a missing call, becomes 3
    (folder / "X.fam").write_text("i i 0 0 0 0\n" * len(calls))
    (folder / "X.bim").write_text("1 v 0 0 A C\n" * D)


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
    imports = high_water() / 2**20
    begin = process_time()
    FileRows.open(path, memory="512MB").through(Sphere()).add(Glad(256, 5), V, None)
    return {
        "imports_mb": imports,
        "fit_mb": high_water() / 2**20,
        "cpu_seconds": process_time() - begin,
    }


if __name__ == "__main__":
    main()
