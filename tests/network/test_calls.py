"""Which of two calls of a node counts: the newest of its process; another process with its key is an alarm."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from skipring.network.transport._calls import Call
from skipring.network.transport.link import Link
from skipring.network.transport.stream import Refused, Refusing, Stream


class Wire:
    """What a stream writes to."""

    def get_extra_info(self, _: str) -> None: ...

    def set_write_buffer_limits(self, _: int) -> None: ...

    def write(self, _: bytes) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize(
    ("second", "ends", "lives"),
    [
        (("p", 8), ("replaced", ""), 1),
        (("p", 6), ("", "replaced"), 0),  # made before the first, and a busy machine let it in after it: no alarm
        (("q", 0), ("taken over", ""), 1),  # another process with the same key
    ],
)
def test_only_a_call_of_another_process_is_an_alarm(second: tuple[str, int], ends: tuple[str, str], lives: int) -> None:
    async def both() -> None:
        failed: list[object] = []
        caller: Any = SimpleNamespace(arrived=lambda node: None, failed=lambda node, problem: failed.append(problem))
        link = Link(caller, 1, calls=False)
        streams = [Stream(), Stream()]
        for stream, call in zip(streams, (Call("p", 7), Call(*second)), strict=True):
            wire: Any = Wire()
            stream.connection_made(wire)
            try:
                link.take_call(stream, call)
            except Refusing as refusing:
                stream.refuse(refusing)
        found = tuple(stream.problem.code if isinstance(stream.problem, Refused) else "" for stream in streams)
        assert found == ends
        assert link._stream is streams[lives]

    asyncio.run(both())


@pytest.mark.parametrize("preface", [{}, {"process": 5, "number": "x"}, {"number": -1}, {"number": 2**70}])
def test_a_call_that_says_nothing_of_the_kind(preface: dict[str, object]) -> None:
    assert Call.of(preface) == Call("", 0)
