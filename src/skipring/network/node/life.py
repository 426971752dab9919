"""The tasks of a node, and how they end."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

_Some = TypeVar("_Some")


class Life:
    """The tasks of a node: they end together, when it is time to or when one of them fails."""

    def __init__(self) -> None:
        self._tasks: set[asyncio.Task[Any]] = set()
        self._over = asyncio.Event()
        #: Why the node cannot go on, if it cannot.
        self.failure: Exception | None = None

    @property
    def is_over(self) -> bool:
        """Whether nothing more is to be done."""
        return self._over.is_set()

    def spawn(self, work: Coroutine[Any, Any, _Some]) -> asyncio.Task[_Some]:
        """Begin something that the node does beside other things; if it fails, the node does."""
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def end(self) -> None:
        """Let it end."""
        self._over.set()

    def fail(self, failure: Exception) -> None:
        """Let it end with a failure."""
        self.failure = failure
        self._over.set()

    async def wait(self) -> None:
        """Wait for the end."""
        await self._over.wait()

    async def close(self) -> None:
        """Cancel all tasks, and wait until they are gone."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (problem := task.exception()) is not None and self.failure is None:
            assert isinstance(problem, Exception)
            self.fail(problem)
