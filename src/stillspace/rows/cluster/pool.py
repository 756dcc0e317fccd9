"""Workers of a Dask cluster: plain tasks, pinned to the worker that keeps the part.

A task is a pure function of its part and its question. So it may be asked again, of any worker,
and gives the same bits. A worker that is lost costs time and nothing else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import count
from secrets import token_hex
from typing import Any

from stillspace.rows.cluster import worker
from stillspace.rows.cluster.worker import Answer, Missing, Sealed

TREE_BYTES = 64 * 10**6
"""From so many bytes of sums on, workers add them up among themselves first."""

BRANCHES = 8
"""Sums that one worker adds up."""

RETRIES = 5
"""Times that Dask runs a task again after its worker died; the pool then asks anew."""

Recipes = Callable[[int], tuple[Sealed, list[Any]]]


class _WorkerGoneError(Exception):
    """A worker that kept parts is no longer there: the round is asked again."""


class Pool:
    """A client, and which worker keeps which part."""

    def __init__(self, client: Any, wait: float) -> None:
        from distributed import default_client  # noqa: PLC0415

        self.client = default_client() if client is None else client  # type: ignore[no-untyped-call]
        self._wait, self._numbers = float(wait), count()
        self._kept: dict[str, str] = {}
        # Dask takes two tasks of one name for one task: no pool may use the names of another.
        self._word = token_hex(8)
        self._own = worker.proof()
        self._introduce()

    def __reduce__(self) -> tuple[Any, ...]:
        msg = "Rows on a cluster belong to one client; they are not sent to other processes."
        raise TypeError(msg)

    def size(self) -> int:
        """Return the number of workers."""
        return max(1, len(self.client.scheduler_info(n_workers=-1)["workers"]))

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
                msg = (
                    f"The worker at {address} cannot run stillspace ({type(answer).__name__}); "
                    "install the same versions of stillspace and of its libraries on all machines."
                )
                raise RuntimeError(msg) from answer
        return {k: v for k, v in found.items() if not isinstance(v, Exception)}

    def ask(
        self, keys: dict[int, str], tasks: dict[int, Sealed], recipes: Recipes, entries: int = 0
    ) -> list[Any]:
        """Return what is found for every part, in order; sums may come back added up."""
        while True:  # a round that lost a worker is asked again, without that worker
            try:
                if 16 * entries * len(tasks) > TREE_BYTES:
                    return self._by_tree(keys, tasks, recipes)
                return [answer.found for answer in self._answers(keys, tasks, recipes)]
            except _WorkerGoneError:
                continue

    def _answers(
        self, keys: dict[int, str], tasks: dict[int, Sealed], recipes: Recipes
    ) -> list[Answer]:
        """Ask; where a part is not kept, send what it is made of and ask again."""
        futures = {p: self._submit(worker.ask, keys[p], keys[p], tasks[p]) for p in tasks}
        found = dict(zip(tasks, self._gathered(list(futures.values())), strict=True))
        lost = [p for p, answer in found.items() if isinstance(answer, Missing)]
        if lost:
            again = [self._made(keys[p], tasks[p], *recipes(p)) for p in lost]
            found |= dict(zip(lost, self._gathered(again), strict=True))
        for p, answer in found.items():
            self._check(answer)
            self._kept[keys[p]] = answer.worker
        return [found[p] for p in sorted(found)]

    def _by_tree(
        self, keys: dict[int, str], tasks: dict[int, Sealed], recipes: Recipes
    ) -> list[Any]:
        """Return one sum: workers add up the sums of several parts at a time."""
        level = [self._made(keys[p], tasks[p], *recipes(p)) for p in sorted(tasks)]
        while len(level) > 1:
            groups = [level[k : k + BRANCHES] for k in range(0, len(level), BRANCHES)]
            level = [
                group[0] if len(group) == 1 else self._submit(worker.combine, "", *group)
                for group in groups
            ]
        (answer,) = self._gathered(level)
        self._check(answer)
        return [answer.found]

    def _made(self, key: str, task: Sealed, recipe: Sealed, chunks: list[Any]) -> Any:
        return self._submit(worker.make_and_ask, key, key, recipe, task, *chunks)

    def _submit(self, function: Any, part: str, *arguments: Any) -> Any:
        """Submit a task to the worker that keeps the part, or to any other if that one is gone."""
        where: dict[str, Any] = {}
        if part in self._kept:
            where = {"workers": [self._kept[part]], "allow_other_workers": True}
        # The name of a task says nothing of rows: Dask logs it and shows it.
        name = f"stillspace-{function.__name__}-{next(self._numbers)}-{self._word}"
        return self.client.submit(
            function, *arguments, key=name, pure=False, retries=RETRIES, **where
        )

    def _gathered(self, futures: list[Any]) -> list[Any]:
        """Return results; wait for a worker if none is alive, as long as was stated."""
        from distributed import wait  # noqa: PLC0415

        idle = None
        pending = list(futures)
        while pending:
            try:
                wait(pending, timeout=1.0)  # type: ignore[no-untyped-call]
                break
            except TimeoutError:
                pending = [future for future in pending if not future.done()]
            alive = set(self.client.scheduler_info(n_workers=-1)["workers"])
            self._forget_the_dead(alive, futures)
            idle = None if alive else (idle or time.monotonic())
            if idle is not None and time.monotonic() - idle > self._wait:
                msg = (
                    f"No worker was alive for {self._wait:g} seconds; start workers and fit again, "
                    "or give on_cluster a longer wait."
                )
                raise RuntimeError(msg)
        return list(self.client.gather(futures))

    def _forget_the_dead(self, alive: set[str], futures: list[Any]) -> None:
        """Have a round asked again if a worker that kept parts is gone and another one is there.

        Dask itself gives the tasks of a lost worker to others, with one exception: a task that
        was submitted for a lost worker while no worker was alive waits for that one for ever.
        """
        left = {part: worker for part, worker in self._kept.items() if worker in alive}
        if alive and len(left) < len(self._kept):
            self._kept = left
            self.client.cancel(futures, force=True)
            raise _WorkerGoneError

    def _introduce(self) -> None:
        """Have every worker prove that it computes the same bits."""
        for address, (found, versions) in self.everywhere(worker.introduced).items():
            if found != self._own:
                mine = worker.versions()
                others = [f"{k} {v}, not {mine[k]}" for k, v in versions.items() if mine[k] != v]
                why = "; ".join(others) or "its processor or its BLAS rounds otherwise"
                msg = (
                    f"The worker at {address} does not compute the same bits as this process "
                    f"({why}); give all machines the same versions and kind of processor."
                )
                raise RuntimeError(msg)

    def _check(self, answer: Answer) -> None:
        """Refuse sums of a worker that joined later and computes other bits."""
        if answer.proof != self._own:
            msg = (
                f"The worker at {answer.worker} joined during the fit and does not compute the "
                "same bits; give all machines the same versions and kind of processor."
            )
            raise RuntimeError(msg)
