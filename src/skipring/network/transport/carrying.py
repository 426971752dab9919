"""Large models, each on a connection of its own, past the small messages: in chunks, checked, and into a file.

The sender says which message it is, and waits until it is told to go on. Then come the chunks, and at the end the
receiver says that it has all of them.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from ..protocol import Parameters
from ..storage import LARGE, ModelWriter, digest_of
from .stream import Closed, FrameKind, Refusal, Refusing, Stream
from .wire import Heading

_AHEAD = 8  # chunks that may wait for the disk
_STALLED = 60.0  # seconds in which some of a large model must arrive

_Some = TypeVar("_Some")


async def hand_over(stream: Stream, data: bytes, chunks: Iterator[bytes], moved: Callable[[], None]) -> None:
    """Send a message whose model is large, and all of the model; `moved` is called when some of it has left."""
    stream.write(FrameKind.MESSAGE, data)
    await _answer(stream, FrameKind.GO_ON)
    for chunk in chunks:
        stream.write(FrameKind.CHUNK, chunk)
        await stream.drained()
        moved()
    await _answer(stream, FrameKind.TAKEN)


async def _answer(stream: Stream, wanted: FrameKind) -> None:
    kind, _ = await stream.read()
    if kind is not wanted:
        raise Closed("the other end does not say what it should")


async def collect(
    stream: Stream, heading: Heading, folder: Path, name: str, is_allowed: Callable[[], bool]
) -> tuple[Parameters, float]:
    """Return the parameters that follow, once they are whole and their checksum is right, and their bytes per second.

    `name` is that of the sender, and `is_allowed` says whether it may send one more frame.
    """
    started = time.monotonic()
    stream.widen()
    stream.write(FrameKind.GO_ON)
    # Checksum and disk are at work in a thread while the next chunks come: in one of its own, for those that all work
    # of a node shares are few, and senders who stall could hold them all.
    with (
        ThreadPoolExecutor(1, "model") as thread,
        ModelWriter(folder, keep_in_memory=heading.size < LARGE) as writer,
    ):
        in_thread = partial(asyncio.get_running_loop().run_in_executor, thread)
        arrived: SimpleQueue[bytes | bytearray | None] = SimpleQueue()
        writing = in_thread(_write_all, writer, arrived)
        received = 0
        try:
            while received < heading.size:
                async with asyncio.timeout(_STALLED):
                    kind, chunk = await stream.read()
                if not is_allowed():
                    raise Refusing(Refusal.FLOOD, f"{name} sends too much")
                if kind is not FrameKind.CHUNK or not chunk:
                    raise Refusing(Refusal.MALFORMED, f"{name}: a model that breaks off")
                received += len(chunk)
                if received > heading.size:
                    raise Refusing(Refusal.MALFORMED, f"{name}: a model larger than it says")
                arrived.put(chunk)
                while arrived.qsize() > _AHEAD and not writing.done():
                    await asyncio.sleep(0.001)
                if writing.done():
                    break  # it has failed, and says so below
        finally:
            arrived.put(None)
            await _unbroken(writing)
        rate = received / max(1e-9, time.monotonic() - started)
        whole = await _unbroken(in_thread(writer.finish))
        if digest_of(whole) != heading.digest.hex():
            raise Refusing(Refusal.DAMAGED, f"{name}: a model that its checksum does not fit")
        writer.release()
    return whole, rate


def _write_all(writer: ModelWriter, arrived: SimpleQueue[bytes | bytearray | None]) -> None:
    while (chunk := arrived.get()) is not None:
        writer.write(chunk)


async def _unbroken(work: Awaitable[_Some]) -> _Some:
    """Wait for work in another thread to its end, even if the call that needs it is over."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.gather(task, return_exceptions=True)
        raise
