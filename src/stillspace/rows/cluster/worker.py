"""What a worker does: it keeps parts of the rows, adds queries over them, and proves its bits.

All of it are plain functions, so that a task that was lost can run again anywhere. A worker keeps
parts in a cache of its own, which Dask neither moves nor writes to disk. If a part is not there,
the answer says so, and the coordinator then sends what the part is made of.
"""

from __future__ import annotations

import pickle
import sys
from collections import OrderedDict
from copy import deepcopy
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from threading import Lock
from typing import Any

import cloudpickle  # type: ignore[import-untyped]
import numpy as np
import numpy.typing as npt
from scipy import sparse

from stillspace import kernels
from stillspace._typing import FloatArray, IntArray
from stillspace.rows.file import RowTable
from stillspace.rows.maps import Affine, Pairs, Project, Sphere, View
from stillspace.rows.memory import MemoryRows
from stillspace.rows.sketch import Sketch
from stillspace.rows.sources.protocol import OtherSource, RowSource
from stillspace.rows.sums import Job, PartSum, one_blas_thread

ByteArray = npt.NDArray[np.uint8]

KEPT_SHARE = 0.5
"""Share of a worker's memory bound that kept parts may take."""


@dataclass(frozen=True, slots=True)
class Sealed:
    """What a task is given, as bytes that the worker alone opens.

    Dask prints the arguments of a task that fails, and opens arguments on the scheduler: not these.
    """

    content: bytes

    @classmethod
    def of(cls, content: Any) -> Sealed:
        """Pack something, with functions and classes of the user's own."""
        return cls(cloudpickle.dumps(content))

    def opened(self) -> Any:
        return pickle.loads(self.content)

    def __repr__(self) -> str:
        return "Sealed()"


@dataclass(frozen=True, slots=True)
class Answer:
    """What a task found, which worker keeps its parts, and the proof of that worker."""

    found: Any
    kept: dict[str, str]
    """From the keys of parts to addresses of workers."""
    proof: str
    lost: tuple[str, ...] = ()
    """Keys of parts that the worker does not keep; then nothing was found."""

    def __repr__(self) -> str:
        return "Answer()"


@dataclass(frozen=True, slots=True)
class Recipe:
    """What a part is made of: rows `start…stop − 1` of a source or of arrays, behind a view."""

    run: str
    """A random word for the table, with which all keys of its parts begin."""
    start: int
    stop: int
    view: View
    memory: int
    source: RowSource | None = None
    pairs: IntArray | None = None
    """Pairs of rows of the whole source, in place of a stretch of rows."""
    kept: npt.NDArray[np.bool_] | None = None
    """Which of these rows are not left out."""
    begin: int = 0
    """Where the rows begin in the arrays on the cluster, if they come from there."""


class SliceSource(OtherSource):
    """A stretch of the rows of another source."""

    def __init__(self, source: RowSource, start: int, stop: int) -> None:
        super().__init__(source, stop - start)
        self._start = start

    def read(self, start: int, stop: int) -> Any:
        return self.source.read(self._start + start, self._start + stop)

    def take(self, numbers: IntArray) -> Any:
        return self.source.take(numbers + self._start)


class _Cache:
    """Parts by their keys; those that were not used for longest make room."""

    def __init__(self) -> None:
        self._parts: OrderedDict[str, tuple[MemoryRows, int]] = OrderedDict()
        self._lock = Lock()

    def get(self, key: str) -> MemoryRows | None:
        with self._lock:
            if key not in self._parts:
                return None
            self._parts.move_to_end(key)
            return self._parts[key][0]

    def put(self, key: str, rows: MemoryRows, size: int, bound: float) -> None:
        with self._lock:
            self._parts[key] = rows, size
            while len(self._parts) > 1 and sum(s for _, s in self._parts.values()) > bound:
                self._parts.popitem(last=False)

    def forget(self, run: str) -> None:
        with self._lock:
            for key in [key for key in self._parts if key.startswith(run)]:
                del self._parts[key]


_CACHE = _Cache()


def forget(run: str) -> None:
    """Drop the parts of one table."""
    _CACHE.forget(run)


def ask(key: str, question: Sealed, task: Sealed) -> Answer:
    """Answer a question about a part that is kept here; `task` is what this part is asked."""
    rows = _CACHE.get(key)
    return Answer(None, {}, proof(), (key,)) if rows is None else _answer(key, rows, question, task)


def make_and_ask(key: str, question: Sealed, task: Sealed, recipe: Sealed, *chunks: Any) -> Answer:
    """Make a part, keep it, and answer a question about it."""
    rows = _CACHE.get(key)
    if rows is None:
        plan: Recipe = recipe.opened()
        rows, size = _made(plan, chunks)
        _CACHE.put(key, rows, size, plan.memory * KEPT_SHARE)
    return _answer(key, rows, question, task)


def combine(*answers: Answer) -> Answer:
    """Add sums of consecutive parts, in their order.

    The answers stay as they are: a task that runs a second time must not add a part twice.
    """
    lost = tuple(key for answer in answers for key in answer.lost)
    total: Any = None if lost else deepcopy(answers[0].found)
    for answer in () if lost else answers[1:]:
        total.merge(answer.found)
    proofs = {answer.proof for answer in answers}
    kept = {key: place for answer in answers for key, place in answer.kept.items()}
    return Answer(total, kept, proofs.pop() if len(proofs) == 1 else "they differ", lost)


def _answer(key: str, rows: MemoryRows, question: Sealed, task: Sealed) -> Answer:
    what, *shared = question.opened()
    with one_blas_thread():
        found = _TASKS[what](rows, *shared, *task.opened())
    return Answer(found, {key: _address()}, proof())


def _add(
    rows: MemoryRows, query: Any, point: FloatArray, jobs: list[Job], first: int, marks: ByteArray
) -> PartSum:
    chosen = np.flatnonzero(np.unpackbits(marks))
    return rows.partial(query, point, jobs, first=first, index=chosen)


def marked(numbers: IntArray) -> ByteArray:
    """Return ascending row numbers as one bit per row up to the last one: a short message."""
    marks = np.zeros(int(numbers[-1]) + 1 if len(numbers) else 0, dtype=np.bool_)
    marks[numbers] = True
    return np.packbits(marks)


_TASKS: dict[str, Any] = {
    "add": _add,
    "mapped": MemoryRows.sphered,
    "distances": lambda rows, V, count: rows.distances(V)[:count],
}
"""What can be asked: functions of the rows of a part, of the question and of the part's task."""


def _made(plan: Recipe, chunks: tuple[Any, ...]) -> tuple[MemoryRows, int]:
    """Return the rows of a part behind its view, and how much memory they add."""
    rows, size = _given(plan, chunks)
    for row_map in plan.view:
        if isinstance(row_map, Pairs):
            assert plan.pairs is not None
            rows = rows.paired(plan.pairs)
        else:
            rows = rows.through(row_map)
        size += 8 * rows.n_rows
        if isinstance(row_map, Project | Sketch):
            size += 8 * rows.n_rows * rows.n_columns
    return (rows if plan.kept is None else rows.only(plan.kept)), size


def _given(plan: Recipe, chunks: tuple[Any, ...]) -> tuple[MemoryRows, int]:
    """Return rows as they are: in memory if they fit there, else read again for every pass."""
    if plan.pairs is not None:
        assert plan.source is not None
        return RowTable(plan.source, plan.memory).as_rows(), plan.pairs.nbytes
    key = f"{plan.run}-rows-{plan.start}-{plan.stop}"  # no key of a part behind a view
    rows = _CACHE.get(key)
    if rows is not None:
        return rows, 0
    if plan.source is None:
        array = _joined(chunks, plan.begin, plan.begin + plan.stop - plan.start)
    else:
        part = SliceSource(plan.source, plan.start, plan.stop)
        size = part.shape[0] * part.shape[1] * part.dtype.itemsize
        if size > plan.memory * KEPT_SHARE:
            return RowTable(part, plan.memory).as_rows(), 0
        array = part.read(0, part.shape[0])
    rows = MemoryRows.of(array)
    _CACHE.put(key, rows, _bytes(array), plan.memory * KEPT_SHARE)
    return rows, 0


def _joined(chunks: tuple[Any, ...], start: int, stop: int) -> Any:
    """Return one array in memory of its own: what Dask moved is not aligned for kernels."""
    if sparse.issparse(chunks[0]):
        return sparse.vstack(chunks, format="csr")[start:stop]
    found, at = [], 0
    for chunk in map(np.asarray, chunks):
        found.append(chunk[max(start - at, 0) : stop - at])
        at += len(chunk)
    return np.concatenate(found)


def _bytes(array: Any) -> int:
    if sparse.issparse(array):
        return int(array.data.nbytes + array.indices.nbytes + array.indptr.nbytes)
    return int(array.nbytes)


def _address() -> str:
    """Return the address of this worker, or a word if there is none."""
    from distributed import get_worker  # noqa: PLC0415

    try:
        return str(get_worker().address)
    except ValueError:
        return "here"


PROOF_ROWS, PROOF_COLUMNS = 300, 37
"""Shape of the public test block."""
_NEAR = 0.25
"""Squared distance that divides the rows of the test block, so that both ways of a pass are run."""


@dataclass(frozen=True, slots=True)
class _Tested:
    """The terms of GLAD (D, 2), or a second moment (D, D), which compiled kernels add."""

    shape: tuple[int, int]
    norm_bound = 1.0

    def add_block(self, XT: FloatArray, point: FloatArray, out: FloatArray) -> None:
        kernels.add_block(self.terms(point, out), XT)

    def terms(self, point: FloatArray, out: FloatArray) -> kernels.Terms:
        D, width = self.shape
        if width == D:
            return kernels.moment_terms(D, out)
        more = np.empty((*out.shape[:-2], 0))
        return kernels.Terms(kernels.GLAD, point, 2.0**-26, out, more, np.inf, np.inf, _NEAR)


@cache
def proof() -> str:
    """Return a digest of the terms of a public test block: the same for the same bits.

    The block has rows on and near the subspace, so that floors and clips take part.
    """
    words = np.random.Philox(key=7).random_raw((PROOF_ROWS + 2) * PROOF_COLUMNS)
    cells = (words >> np.uint64(11)).astype(np.float64) * 2.0**-52 - 1.0
    table = cells.reshape(-1, PROOF_COLUMNS)
    X, V = table[2:].copy(), _basis(table[:2])
    X[:100] = X[:100] @ V @ V.T + 1e-9 * X[:100]
    rows = MemoryRows.of(X).through(Affine.of(np.full(PROOF_COLUMNS, 0.125))).through(Sphere())
    found = sha256()
    for width in (2, PROOF_COLUMNS):
        total = rows.add(_Tested((PROOF_COLUMNS, width)), V, None)
        found.update(np.ascontiguousarray(total).tobytes())
    return found.hexdigest()


def _basis(rows: FloatArray) -> FloatArray:
    """Return two orthonormal columns, by operations that are rounded in one way everywhere."""
    a = rows[0] / np.sqrt(sum(x * x for x in rows[0].tolist()))
    b = rows[1] - sum(x * y for x, y in zip(a.tolist(), rows[1].tolist(), strict=True)) * a
    return np.stack([a, b / np.sqrt(sum(x * x for x in b.tolist()))], axis=1)


def versions() -> dict[str, str]:
    """Return the versions that matter for the bits of a sum."""
    import numba  # noqa: PLC0415
    import scipy  # noqa: PLC0415

    return {
        "stillspace": sys.modules["stillspace"].__version__,
        "python": ".".join(map(str, sys.version_info[:2])),
        "numpy": np.__version__,
        "numba": numba.__version__,
        "scipy": scipy.__version__,
    }


def introduced() -> tuple[str, dict[str, str]]:
    """Return proof and versions of this worker."""
    return proof(), versions()
