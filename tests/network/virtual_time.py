"""An event loop with a clock of its own: it never sleeps, but goes to the next moment at which something happens."""

from __future__ import annotations

import asyncio
import random
import selectors
from collections.abc import Callable
from typing import Any, TypeVar

from world import Broken

_Some = TypeVar("_Some")


class _NoSockets(selectors.DefaultSelector):
    """Waits for nothing: the loop's clock is put forward instead."""

    loop: VirtualLoop

    def select(self, timeout: float | None = None) -> list[Any]:
        if timeout is None:
            raise Broken("6: nothing will ever happen again")
        self.loop.now += max(0.0, timeout)
        return []


class VirtualLoop(asyncio.SelectorEventLoop):
    """An event loop whose time goes on only when all that can be done at one moment has been done."""

    def __init__(self) -> None:
        self.now = 0.0
        self.rng = random.Random(0)
        #: How often a thread takes for long, and how long that is.
        self.slow, self.long = 0.0, 0.0
        selector = _NoSockets()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self.now

    def run_in_executor(  # type: ignore[override] # a future of this loop is what asyncio makes of a thread's, too
        self, executor: Any, func: Callable[..., _Some], *args: Any
    ) -> asyncio.Future[_Some]:
        """Do the work of a thread in one moment, which comes a little later."""
        made: asyncio.Future[_Some] = self.create_future()

        def work() -> None:
            if not made.done():
                try:
                    made.set_result(func(*args))
                except Exception as error:  # as of a thread: whoever waits for the result is told
                    made.set_exception(error)

        late = self.rng.random() < self.slow
        self.call_later(self.rng.expovariate(1.0) * (self.long if late else 0.05), work)
        return made
