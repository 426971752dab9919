"""Messages between this node and one other: one connection serves both directions.

Of two nodes always the same one calls (`Roster.calls`), and calls again whenever the connection breaks. Messages that
find no connection wait for one, but not for long. Large models go their own way (`carrying`).
"""

from __future__ import annotations

import asyncio
import secrets
import ssl
import time
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Protocol

from ..protocol import FRESH, Message
from ._calls import Call
from .carrying import hand_over
from .stream import Closed, FrameKind, Refusal, Refused, Refusing, Stream
from .wire import Done

_WAITING, _WAITING_BYTES = 1000, 8 << 20  # messages that may wait for a slow link, and how long they are together
_STALLED = 60.0  # seconds: a large model of which nothing has left for so long does not move any more
_FETCHED = 30.0  # seconds in which a large model must be called for
_FIRST_PAUSE = 0.1  # seconds between two calls, more and more
_LASTING = 1.0  # seconds: a connection that has held for so long was none that is hung up at once
_OFTEN = 3  # how many times a node hangs up for one reason
_NEWER = "a newer call has taken the place of this one"


class Caller(Protocol):
    """Whose link it is: what all links of a node share."""

    #: Seconds between two calls of a node that does not answer.
    longest_pause: float

    async def call(self, node: int, purpose: str, ticket: str = "") -> Stream:
        """Return a connection to a node, which has said that it listens."""

    def frame(self, message: Message | Done) -> tuple[bytes, Iterator[bytes] | None]:
        """Return a message as bytes, and the chunks that follow it if its model is large."""

    def read(self, node: int, content: bytes | bytearray) -> None:
        """Take a message of a node, as bytes."""

    def fetch(self, node: int, ticket: str) -> None:
        """Call for a large model."""

    def arrived(self, node: int) -> None:
        """Take the news that messages to a node go through from now on."""

    def failed(self, node: int, problem: BaseException) -> None:
        """Take the news that a connection to a node has ended, or has not come about."""


class Link:
    """What goes to and fro between this node and another one.

    Parameters
    ----------
    caller : what all links of a node share.
    node : the other one.
    calls : whether it is this node that calls.
    """

    def __init__(self, caller: Caller, node: int, *, calls: bool) -> None:
        self._caller, self._node, self._calls = caller, node, calls
        self._stream: Stream | None = None
        self._call: Call | None = None
        self._waiting: deque[tuple[float, bytes]] = deque()  # the oldest is worth the least
        self._waiting_bytes = 0
        # One large model after the other, for the receiver listens to one alone; the newest waits, older ones are lost.
        self._carried: tuple[bytes, asyncio.Task[None]] | None = None
        self._next: tuple[bytes, Iterator[bytes]] | None = None
        self._offered: tuple[str, asyncio.Future[Stream]] | None = None  # a model that is to be called for
        self._task: asyncio.Task[None] | None = None
        self._moved = 0.0  # when the last chunk of a large model has left

    def start(self) -> None:
        """Connect, if it is this node that calls, and stay connected."""
        if self._calls:
            self._task = asyncio.create_task(self._keep_up())

    async def stop(self) -> None:
        """Let messages that wait go out, then close everything."""
        self._next = None
        tasks = [task for task in (self._task, self._carried and self._carried[1]) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._stream is not None:
            stream = self._stream
            stream.close()  # what was said last gets out: it may be that the token was accepted
            await asyncio.wait([stream.closed], timeout=0.5)

    @property
    def connected(self) -> bool:
        """Whether messages go through."""
        return self._stream is not None

    @property
    def carries(self) -> bool:
        """Whether a large model is on its way."""
        return self._carried is not None

    @property
    def moves(self) -> bool:
        """Whether a large model is on its way, and some of it has left not long ago."""
        return self.carries and time.monotonic() - self._moved < _STALLED

    # What goes out.

    def send(self, message: Message | Done) -> None:
        """Send a message; it is lost if the node cannot be reached."""
        data, chunks = self._caller.frame(message)
        if chunks is None:
            if self._stream is not None and self._stream.has_room and not self._waiting:
                self._stream.write(FrameKind.MESSAGE, data)
            else:
                self._let_wait(data)
        elif self.connected and self._carried is None:
            self._carry(data, chunks)
        elif self._carried is not None and self._carried[0] != data:  # else it is on its way already
            self._next = data, chunks
            if not self.moves:
                self._carried[1].cancel()

    def _let_wait(self, data: bytes) -> None:
        self._waiting.append((time.monotonic(), data))
        self._waiting_bytes += len(data)
        while len(self._waiting) > _WAITING or self._waiting_bytes > _WAITING_BYTES or self._is_stale():
            self._next_waiting()

    def _next_waiting(self) -> bytes:
        _, data = self._waiting.popleft()
        self._waiting_bytes -= len(data)
        return data

    def _is_stale(self) -> bool:
        return time.monotonic() - self._waiting[0][0] >= FRESH

    def _flush(self) -> None:
        while self._waiting and self._stream is not None and self._stream.has_room:
            stale, data = self._is_stale(), self._next_waiting()
            if not stale:
                self._stream.write(FrameKind.MESSAGE, data)

    def refuse(self, why: str) -> None:
        """Tell the other node why this one takes no further part."""
        if self._stream is not None:
            self._stream.refuse(Refusing(Refusal.LEFT, why))

    def _carry(self, data: bytes, chunks: Iterator[bytes]) -> None:
        def ended(_: object) -> None:
            following, self._carried, self._next = self._next, None, None
            if following is not None and self.connected:
                self._carry(*following)

        self._moved = time.monotonic()
        task = asyncio.create_task(self._hand_over(data, chunks))
        task.add_done_callback(ended)
        self._carried = data, task

    async def _hand_over(self, data: bytes, chunks: Iterator[bytes]) -> None:
        def moved() -> None:
            self._moved = time.monotonic()

        stream = None
        try:
            stream = await (self._caller.call(self._node, "carry") if self._calls else self._called_for())
            await hand_over(stream, data, chunks, moved)
        except Refused as refused:
            self._caller.failed(self._node, refused)
        except OSError:
            pass  # the connection has ended; or the file has gone: something newer has taken its place
        except asyncio.CancelledError:
            if stream is not None:
                stream.abort()  # nothing of it moves: nobody waits until it has left
            raise
        finally:
            if stream is not None:
                stream.close()

    async def _called_for(self) -> Stream:
        """Have the other node call for a model: only it can call."""
        if self._stream is None:
            raise Closed("there is nobody to call for it")
        ticket, called = secrets.token_hex(8), asyncio.get_running_loop().create_future()
        self._offered = ticket, called
        try:
            self._stream.write(FrameKind.FETCH, ticket.encode())
            return await asyncio.wait_for(called, _FETCHED)
        finally:
            self._offered = None

    def hand_out(self, stream: Stream, ticket: str) -> bool:
        """Give the model of a ticket to the node that has called for it; say whether there is one."""
        offered = self._offered
        if offered is None or offered[0] != ticket or offered[1].done():
            return False
        offered[1].set_result(stream)
        return True

    # The connection.

    def take_call(self, stream: Stream, call: Call) -> None:
        """Use the connection that the other node has made, unless it has made a newer one."""
        before, old = self._call, self._stream
        if old is not None and before is not None:
            if before.is_newer_than(call):
                raise Refusing(Refusal.REPLACED, _NEWER)
            # If there is a node at the other end of the old one, it must be told: nobody listens there any more.
            same = before.process == call.process
            old.refuse(Refusing(Refusal.REPLACED if same else Refusal.TAKEN_OVER, _NEWER))
        self._call = call
        stream.write(FrameKind.PREFACE, b"{}")
        self._use(stream)

    def _use(self, stream: Stream) -> None:
        self._stream = stream
        self._caller.arrived(self._node)
        stream.hand_to(partial(self._take, stream), self._flush, partial(self._ended, stream))
        self._flush()

    def _take(self, stream: Stream, kind: FrameKind, content: bytes | bytearray) -> None:
        try:
            if kind is FrameKind.MESSAGE:
                self._caller.read(self._node, content)
            elif kind is FrameKind.FETCH:
                self._caller.fetch(self._node, content.decode("ascii", "replace"))
            else:
                raise Refusing(Refusal.MALFORMED, "a frame that nobody waits for", named=False)
        except Refusing as refusing:
            stream.refuse(refusing)

    def _ended(self, stream: Stream, problem: BaseException) -> None:
        if self._stream is stream:
            self._stream = None
            if self._offered is not None and not self._offered[1].done():
                self._offered[1].set_exception(Closed("there is nobody to call for it"))
        if isinstance(problem, Refused):
            self._caller.failed(self._node, problem)

    async def _keep_up(self) -> None:
        pause, hung_up = _FIRST_PAUSE, 0
        while True:
            try:
                stream = await self._caller.call(self._node, "talk")
            except (Refused, ssl.SSLError) as problem:
                self._caller.failed(self._node, problem)
            except (Closed, ConnectionResetError) as problem:
                hung_up += 1
                if hung_up >= _OFTEN:  # once or twice: it was about to stop
                    self._caller.failed(self._node, Closed(str(problem)))
            except (OSError, TimeoutError):
                hung_up = 0  # it is away
            except Exception as problem:
                # Nothing else ever calls this node again: what nobody has thought of must cost one call, is said, and
                # not end the link for good, as an answer that was no refusal of ours once did.
                self._caller.failed(self._node, problem)
            else:
                hung_up, since = 0, time.monotonic()
                self._use(stream)
                await asyncio.wait([stream.closed])
                if time.monotonic() - since > _LASTING:
                    pause = _FIRST_PAUSE
            await asyncio.sleep(pause)
            pause = min(2.0 * pause, self._caller.longest_pause)
