"""A thread for work that may take long, or never end: the process need not wait for it."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any


class Worker(Executor):
    """Does one thing after the other in one thread, which ends with the process, whatever it is doing.

    A pool of the standard library would keep the process until a user's function has returned, which it may never do.
    """

    def __init__(self, name: str) -> None:
        self._name, self._waiting = name, queue.SimpleQueue[Callable[[], None] | None]()
        self._thread: threading.Thread | None = None

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        """Do something once everything before it is done."""
        future: Future[Any] = Future()

        def work() -> None:
            if not future.set_running_or_notify_cancel():
                return
            try:
                future.set_result(fn(*args, **kwargs))
            except Exception as error:  # the caller that waits for the result is told
                future.set_exception(error)
            except BaseException as error:  # a user's function may want to end the process, which is not its to end
                future.set_exception(RuntimeError(f"{type(error).__name__}: {error}"))

        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self._waiting.put(work)
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """End once everything is done; nobody waits for it."""
        self._waiting.put(None)

    def _run(self) -> None:
        while (work := self._waiting.get()) is not None:
            work()
