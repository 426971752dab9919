"""Which of two calls of a node counts: the newest of its process; another process with its key is an alarm."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from skipring.network.transport import Transport
from skipring.network.transport.connections import load_grpc


class Calling:
    """A call at its receiver's end, made by a process, the so-many-th of it."""

    def __init__(self, process: str, number: int) -> None:
        self.process, self.number, self.ended = process, number, ""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("skipring-call", f"{self.process} {self.number}"),)

    async def abort(self, code: Any, _: str) -> None:
        self.ended = code.name
        raise ConnectionAbortedError


@pytest.mark.parametrize(
    ("second", "ends", "lives"),
    [
        (("p", 8), ("ABORTED", ""), 1),
        (("p", 6), ("", "ABORTED"), 0),  # made before the first, and a busy machine let it in after it: no alarm
        (("q", 0), ("ALREADY_EXISTS", ""), 1),  # another process with the same key
    ],
)
def test_only_a_call_of_another_process_is_an_alarm(second: tuple[str, int], ends: tuple[str, str], lives: int) -> None:
    transport = Transport.__new__(Transport)
    transport.grpc, transport._left = load_grpc(), ""
    calls: Any = {}
    contexts = [Calling("p", 7), Calling(*second)]

    async def call(context: Calling) -> None:
        async with transport._newest(calls, 1, context):
            await asyncio.sleep(60.0)

    async def both() -> None:
        tasks = []
        for context in contexts:
            tasks.append(asyncio.create_task(call(context)))
            await asyncio.sleep(0)
        await asyncio.sleep(0.01)
        assert tuple(context.ended for context in contexts) == ends
        assert calls[1].number == contexts[lives].number
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    asyncio.run(both())
