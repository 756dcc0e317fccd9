"""Workers of a Dask cluster: plain tasks, pinned to the worker that keeps the part.

A task is a pure function of its part and its question. So it may be asked again, of any worker,
and gives the same bits. A worker that is lost costs time and nothing else.
"""

from __future__ import annotations

import time
from asyncio import CancelledError as AsyncCancelledError
from asyncio import ensure_future, run_coroutine_threadsafe, wait
from collections.abc import Callable
from concurrent.futures import CancelledError
from contextlib import suppress
from itertools import count
from secrets import token_hex
from typing import Any

from dask.base import annotate

from stillspace.rows.cluster import worker
from stillspace.rows.cluster.worker import Answer, Sealed

TREE_BYTES = 64 * 10**6
"""From so many bytes per round on, sums and questions travel between workers, not through us."""

BRANCHES = 8
"""Sums that one worker adds up."""

RETRIES = 5
"""Times that Dask runs a task again after its worker died; the pool then asks anew."""

SHORT_ROUND, HELD_ROUNDS = 0.05, 16
"""Answers of earlier rounds are let go while a round runs, after so many seconds; those of shorter
rounds are let go together, after so many rounds. Dask holds tasks up for 10 ms behind the messages
that let go of others, and it computes answers that are not let go again if their worker dies."""

LOOK = 1.0
"""Seconds after which a round that is still running is looked at: are its workers alive?"""

Recipes = Callable[[int], tuple[Sealed, list[Any]]]
"""From a part to what it is made of: a recipe, and arrays on the cluster."""
Submit = Callable[[Any], list[Any]]
"""From a question (or a future of it) to the futures of a round."""


_KILLED = (
    "Several workers died while they did one and the same task, perhaps because they ran out of "
    "memory; give on_cluster more partitions or a smaller memory, and fit again."
)
_LOST = (
    "Workers lost rows that only they held; give on_cluster a path that every worker can read, "
    "and fit again."
)


class _WorkerGoneError(Exception):
    """A worker that kept parts is no longer there: the round is asked again."""


class Pool:
    """A client, and which worker keeps which part."""

    def __init__(self, client: Any, wait: float) -> None:
        from distributed import default_client  # noqa: PLC0415

        self.client = default_client() if client is None else client  # type: ignore[no-untyped-call]
        self._wait, self._numbers = float(wait), count()
        self._kept: dict[str, str] = {}
        self._asked: list[Any] = []
        self._held: list[list[Any]] = []
        self._losses = 0
        self._idle: float | None = None
        # Dask takes two tasks of one name for one task: no pool may use the names of another.
        self._word = token_hex(8)
        self._own = worker.proof()
        self._introduce()

    def __reduce__(self) -> tuple[Any, ...]:
        msg = "Rows on a cluster belong to one client; they are not sent to other processes."
        raise TypeError(msg)

    def size(self) -> int:
        return max(1, sum(map(int, self.client.nthreads().values())))

    def futures_of(self, collection: Any) -> list[Any]:
        """Return the futures of the chunks of a persisted array, in order."""
        from distributed import futures_of  # noqa: PLC0415

        found = futures_of(collection)  # type: ignore[no-untyped-call]
        by_key = {future.key: future for future in found}
        return [by_key[key] for row in collection.__dask_keys__() for key in row]

    def everywhere(self, function: Any, *arguments: Any) -> dict[str, Any]:
        """Call a function on every worker that is there now; one that dies meanwhile is left out.

        Such a worker keeps nothing any more, and one that joins later proves its bits with its
        first answer.
        """
        found = self.client.run(function, *arguments, on_error="return")
        for address, answer in found.items():
            if isinstance(answer, Exception) and not isinstance(answer, OSError):
                raise RuntimeError(
                    f"The worker at {address} cannot run stillspace ({type(answer).__name__}); "
                    "install the same versions of stillspace and of its libraries on all machines."
                ) from answer
        return {k: v for k, v in found.items() if not isinstance(v, Exception)}

    def ask(
        self,
        keys: dict[int, str],
        question: Sealed,
        tasks: dict[int, Sealed],
        recipes: Recipes,
        entries: int = 0,
    ) -> list[Any]:
        """Return what is found for every part, in order; sums may come back added up.

        A round that lost a worker, or parts that a worker kept, is asked again without them.
        """
        tree = 16 * entries * len(tasks) > TREE_BYTES
        while True:
            new = {p: recipes(p) for p in tasks if keys[p] not in self._kept}

            def asked(shared: Any, new: dict[int, Any] = new) -> list[Any]:
                futures = self._asked_of_keepers(keys, shared, tasks)
                for p, (recipe, chunks) in new.items():
                    facts = keys[p], shared, tasks[p], recipe, *chunks
                    futures[p] = self._submit(worker.make_and_ask, *facts)
                level = [futures[p] for p in sorted(futures)]
                return self._added_up(level) if tree else level

            with suppress(_WorkerGoneError):
                found = self._round(asked, question, len(tasks))
                lost = [key for answer in found for key in answer.lost]
                for key in lost:
                    self._kept.pop(key, None)
                if not lost:
                    return [self._checked(answer).found for answer in found]

    def _asked_of_keepers(
        self, keys: dict[int, str], question: Any, tasks: dict[int, Sealed]
    ) -> dict[int, Any]:
        """Submit tasks for the parts that workers keep, each to its worker, all in one message."""
        kept = [p for p in tasks if keys[p] in self._kept]
        names = [self._name(worker.ask) for _ in kept]
        where = {name: [self._kept[keys[p]]] for name, p in zip(names, kept, strict=True)}
        given = [keys[p] for p in kept], [question] * len(kept), [tasks[p] for p in kept]
        with annotate(workers=where.get, allow_other_workers=True):
            found = self.client.map(worker.ask, *given, key=names, pure=False, retries=RETRIES)
        return dict(zip(kept, found, strict=True))

    def _added_up(self, level: list[Any]) -> list[Any]:
        """Submit tasks in which workers add up the sums of several parts; return the last one."""
        while len(level) > 1:
            groups = [level[k : k + BRANCHES] for k in range(0, len(level), BRANCHES)]
            level = [
                group[0] if len(group) == 1 else self._submit(worker.combine, *group)
                for group in groups
            ]
        return level

    def _submit(self, function: Any, *arguments: Any) -> Any:
        return self.client.submit(
            function, *arguments, key=self._name(function), pure=False, retries=RETRIES
        )

    def _name(self, function: Any) -> str:
        """Return the name of a task. It says nothing of rows: Dask logs it and shows it."""
        return f"stillspace-{function.__name__}-{next(self._numbers)}-{self._word}"

    def _round(self, asked: Submit, question: Sealed, parts: int) -> list[Answer]:
        """Have tasks submitted and return their results, or raise if a worker is gone.

        All of it happens in the thread of the client, so that the tasks of a round are one message.
        """
        from distributed import KilledWorker  # noqa: PLC0415

        loop = self.client.loop.asyncio_loop
        results = run_coroutine_threadsafe(self._results(asked, question, parts), loop)
        while True:
            try:
                found = list(results.result(timeout=LOOK))
            except TimeoutError:
                self._look_for_workers()
            except (CancelledError, AsyncCancelledError):  # it needed what a lost worker held
                self._count_a_loss()
            except KilledWorker:
                raise RuntimeError(_KILLED) from None
            else:
                self._losses = 0
                return found

    async def _results(self, asked: Submit, question: Sealed, parts: int) -> list[Any]:
        shared: Any = question
        if len(question.content) * parts > TREE_BYTES:  # workers then get it from one another
            (shared,) = await self.client.scatter([question], hash=False, asynchronous=True)
        self._asked = asked(shared)
        self._held.append(self._asked)
        answers = ensure_future(self.client.gather(self._asked, asynchronous=True))
        done, _ = await wait([answers], timeout=SHORT_ROUND)
        if not done or len(self._held) > HELD_ROUNDS:
            del self._held[:-1]
        return list(await answers)

    def _count_a_loss(self) -> None:
        """Have a round asked again, a few times: what a task needed may be lost for good."""
        self._losses += 1
        if self._losses > RETRIES:
            raise RuntimeError(_LOST)
        self._look_for_workers()
        raise _WorkerGoneError

    def _look_for_workers(self) -> None:
        """Have a round asked again if a worker that kept parts is gone and another one is there.

        Dask itself gives the tasks of a lost worker to others, with one exception: a task that
        was submitted for a lost worker while no worker was alive waits for that one for ever.
        """
        alive = set(self.client.scheduler_info(n_workers=-1)["workers"])
        left = {part: worker for part, worker in self._kept.items() if worker in alive}
        if alive and len(left) < len(self._kept):
            self._kept = left
            self.client.cancel(self._asked, force=True)
            raise _WorkerGoneError
        self._idle = None if alive else (self._idle or time.monotonic())
        if self._idle is not None and time.monotonic() - self._idle > self._wait:
            raise RuntimeError(
                f"No worker was alive for {self._wait:g} seconds; start workers and fit again, "
                "or give on_cluster a longer wait."
            )

    def _introduce(self) -> None:
        """Have every worker prove that it computes the same bits."""
        for address, (found, versions) in self.everywhere(worker.introduced).items():
            if found != self._own:
                mine = worker.versions()
                others = [f"{k} {v}, not {mine[k]}" for k, v in versions.items() if mine[k] != v]
                why = "; ".join(others) or "its processor or its BLAS rounds otherwise"
                raise RuntimeError(
                    f"The worker at {address} does not compute the same bits as this process "
                    f"({why}); give all machines the same versions and kind of processor."
                )

    def _checked(self, answer: Answer) -> Answer:
        """Refuse sums of a worker that joined later and computes other bits."""
        if answer.proof != self._own:
            raise RuntimeError(
                f"The worker at {', '.join(set(answer.kept.values()))} joined during the fit and "
                "does not compute the same bits; give all machines the same versions and kind of "
                "processor."
            )
        self._kept |= answer.kept
        return answer
