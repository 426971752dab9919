"""Messages to one node: a stream that is opened again whenever it breaks, and large models in calls of their own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Protocol

from ..protocol import FRESH, Message
from .wire import PACKAGE, Done

__all__ = ["Caller", "Link"]

_WAITING = 1000  # messages that may wait for a slow link
_STALLED = 60.0  # a large model of which nothing has left for so many seconds does not move any more
_AWAY = 5.0  # after so many seconds without a connection it is asked why


class Caller(Protocol):
    """Whose link it is: what all links of a node share."""

    grpc: Any

    def channel(self, node: int) -> Any:
        """Return a connection to a node."""

    def metadata(self, node: int) -> tuple[tuple[str, str | bytes], ...]:
        """Return what every call to a node says before its first message."""

    def frame(self, message: Message | Done) -> tuple[bytes, Iterator[bytes] | None]:
        """Return a message as bytes, and the chunks that follow it if its model is large."""

    def arrived(self, node: int) -> None:
        """Take the news that messages to a node go through from now on."""

    def failed(self, node: int, error: Any) -> None:
        """Take the news that a node does not take a call."""


class Link:
    """Messages to one node: a stream that is opened again whenever it breaks."""

    def __init__(self, caller: Caller, node: int) -> None:
        self._caller, self._node = caller, node
        self._waiting: asyncio.Queue[tuple[float, bytes | None]] = asyncio.Queue(_WAITING)
        self._carried: dict[bytes, asyncio.Task[None]] = {}
        self._carrying = asyncio.Lock()  # one large model after the other: the receiver listens to the newest alone
        self._task: asyncio.Task[None] | None = None
        self._channel: Any = None
        self._hurried = 0.0
        self._moved = 0.0  # when the last chunk of a large model has left
        self.connected = False

    def start(self) -> None:
        """Connect, and stay connected."""
        self._channel = self._caller.channel(self._node)
        self._hurried = time.monotonic()
        self._task = asyncio.create_task(self._keep_up())

    async def stop(self) -> None:
        """Let messages that wait go out, then close everything."""
        if self._task is None:
            return
        for _ in range(20):  # what was said last should get out: it may be that the token was accepted
            if not self.connected or self._waiting.empty():
                break
            await asyncio.sleep(0.01)
        for task in (self._task, *self._carried.values()):
            task.cancel()
        await asyncio.gather(self._task, *self._carried.values(), return_exceptions=True)
        await self._channel.close()

    @property
    def carries(self) -> bool:
        """Whether a large model is on its way."""
        return bool(self._carried)

    @property
    def moves(self) -> bool:
        """Whether a large model is on its way, and some of it has left not long ago."""
        return self.carries and time.monotonic() - self._moved < _STALLED

    def send(self, message: Message | Done) -> None:
        """Send a message; it is lost if the node cannot be reached."""
        data, chunks = self._caller.frame(message)
        if chunks is None:
            if self._waiting.full():
                self._waiting.get_nowait()  # the oldest is worth the least
            self._waiting.put_nowait((time.monotonic(), data))
        elif self.connected and data not in self._carried:  # it is on its way already
            task = asyncio.create_task(self._carry(data, chunks))
            self._carried[data] = task
            task.add_done_callback(lambda _: self._carried.pop(data, None))

    async def _carry(self, data: bytes, chunks: Iterator[bytes]) -> None:
        async def parts() -> AsyncIterator[bytes]:
            self._moved = time.monotonic()
            yield data
            for chunk in chunks:
                self._moved = time.monotonic()
                yield chunk

        call = self._channel.stream_unary(f"/{PACKAGE}.Node/Carry")
        try:
            async with self._carrying:
                await call(parts(), metadata=self._caller.metadata(self._node))
        except OSError:
            pass  # the file has gone: something newer has taken its place
        except self._caller.grpc.aio.AioRpcError as error:
            self._caller.failed(self._node, error)

    def hurry(self) -> None:
        """Connect now: the node has called, so it is there, and an answer to it should not get lost."""
        now = time.monotonic()
        if self.connected or self._task is None or now - self._hurried < 1.0:
            return
        self._hurried = now
        self._task.cancel()
        self._task = asyncio.create_task(self._start_again(self._task))

    async def _start_again(self, before: asyncio.Task[None]) -> None:
        """Use a new channel: one that has failed waits before it tries again."""
        await asyncio.gather(before, return_exceptions=True)
        old, self._channel = self._channel, self._caller.channel(self._node)
        await old.close()
        await self._keep_up()

    async def _keep_up(self) -> None:
        grpc = self._caller.grpc
        talk: Callable[..., Any] = self._channel.stream_stream(f"/{PACKAGE}.Node/Talk")
        pause, patient = 0.1, True
        while True:
            call = talk(metadata=self._caller.metadata(self._node), wait_for_ready=patient)
            call.add_done_callback(lambda _: self._wake())
            limit, patient = _AWAY if patient else None, True
            try:
                async with asyncio.timeout(limit):
                    await call.initial_metadata()
                if not call.done():
                    pause = 0.1
                    self.connected = True
                    self._caller.arrived(self._node)
                while not call.done():
                    since, data = await self._waiting.get()
                    if data is not None and time.monotonic() - since < FRESH:
                        await call.write(data)
                code = await call.code()
                if code is not grpc.StatusCode.OK:
                    raise grpc.aio.AioRpcError(
                        code, await call.initial_metadata(), await call.trailing_metadata(), await call.details()
                    )
            except TimeoutError:
                pause, patient = 0.1, False  # a call that waits for a connection never learns why there is none
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError) as error:
                if isinstance(error, grpc.aio.AioRpcError):
                    self._caller.failed(self._node, error)
            finally:
                self.connected = False
                call.cancel()
            await asyncio.sleep(pause)
            pause = min(2.0 * pause, 2.0)

    def _wake(self) -> None:
        if not self._waiting.full():
            self._waiting.put_nowait((0.0, None))
