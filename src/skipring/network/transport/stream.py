"""One connection between two nodes: frames in both directions, each of a kind and a length.

A frame is one byte (its kind), four (its length, the highest first) and its content. TLS is below it (`tls`), messages
are above it (`link`), and large models are cut into frames (`carrying`).
"""

from __future__ import annotations

import asyncio
import json
import ssl
import struct
from asyncio.sslproto import SSLProtocol
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from enum import IntEnum, StrEnum
from typing import Any, cast

from .tls import HANDSHAKE

#: A large model is cut into pieces of this many bytes.
CHUNK = 1 << 20
#: No frame is larger.
LARGEST = 2 * CHUNK
#: No preface and no refusal is larger.
_LARGEST_TEXT = 1 << 16
_HEADER = struct.Struct(">BI")
_SCRATCH = 1 << 14  # bytes that arrive at once, as a rule: what TLS wraps together
_AT_ONCE = 1 << 18  # and where large models do
_CLOSE = 1.0  # seconds in which the other end must agree that a connection is over
_AHEAD = 8  # frames that may wait for a reader that takes them one by one
_WRITTEN = 1 << 20  # bytes that may wait for the network before the writer is asked to wait


class FrameKind(IntEnum):
    """What a frame is; a number is never used again for something else."""

    PREFACE = 1  # who calls, about which run, and what for; and the answer to it
    REFUSAL = 2  # why the connection ends here
    MESSAGE = 3  # of the protocol (`wire`)
    PULSE = 4  # nothing: the other end is still there
    FETCH = 5  # a large model is here, to be called for
    GO_ON = 6  # a large model is wanted
    CHUNK = 7  # some of it
    TAKEN = 8  # all of it has arrived


_LIMITS = dict.fromkeys(FrameKind, 0) | {
    FrameKind.PREFACE: _LARGEST_TEXT,
    FrameKind.REFUSAL: _LARGEST_TEXT,
    FrameKind.MESSAGE: LARGEST,
    FrameKind.FETCH: 64,
    FrameKind.CHUNK: CHUNK,
}


class Refusal(StrEnum):
    """Why a node hangs up."""

    STRANGER = "stranger"  # its certificate is not one of the roster's
    UNWELCOME = "unwelcome"  # it takes part, but must not call
    LEFT = "left"  # the node that was called takes no further part itself
    FLOOD = "flood"  # it sends too much
    OTHER_RUN = "other run"
    MALFORMED = "malformed"  # it has sent what no node sends
    DAMAGED = "damaged"  # a model arrived that its checksum does not fit
    NO_ROOM = "no room"  # a model cannot be written here
    NOT_WANTED = "not wanted"  # nothing is wrong, but the model is of no use here
    REPLACED = "replaced"  # the same process has called again
    TAKEN_OVER = "taken over"  # another process with the same key has called


class Refused(Exception):
    """The other end has hung up, and has said why."""

    def __init__(self, code: Refusal, why: str, facts: Mapping[str, Any] | None = None) -> None:
        super().__init__(why)
        self.code, self.why, self.facts = code, why, dict(facts or {})


class Refusing(Refused):
    """This end hangs up, and says why; `named` is whether that says also on whom."""

    def __init__(self, code: Refusal, why: str, facts: Mapping[str, Any] | None = None, *, named: bool = True) -> None:
        super().__init__(code, why, facts)
        self.named = named


class Closed(ConnectionError):
    """The connection has ended without a word."""


class _Tls(SSLProtocol):
    """TLS of one connection: asyncio's own keeps 256 KB, with hundreds of nodes most of a node's memory."""

    max_size = _SCRATCH


#: Makes a connection for a protocol.
_Connect = Callable[[Callable[[], asyncio.BufferedProtocol]], Awaitable[tuple[asyncio.Transport, Any]]]


class Stream(asyncio.BufferedProtocol):
    """A connection, from the moment that TLS stands.

    What arrives is read frame by frame (`read`), or from some moment on handed over (`hand_to`). Pulses are kept from
    the reader; `heard` is when something has last arrived.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.transport: asyncio.Transport | None = None
        self._tls: _Tls | None = None
        self._scratch = memoryview(bytearray(_SCRATCH))
        self._have = 0
        self._large: bytearray | None = None
        self._large_kind, self._filled = FrameKind.CHUNK, 0
        self._arrived: deque[tuple[FrameKind, bytes | bytearray]] = deque()
        self._waiter: asyncio.Future[None] | None = None
        self._take: Callable[[FrameKind, bytes | bytearray], None] | None = None
        self._paused = False
        self._room = asyncio.Event()
        self._room.set()
        self._resumed: Callable[[], None] = lambda: None
        self._ended: Callable[[BaseException], None] = lambda _: None
        #: Why the connection has ended: it was refused, or it broke; None as long as it stands.
        self.problem: BaseException | None = None
        self.closed: asyncio.Future[None] = self._loop.create_future()
        self.heard = self.wrote = self._loop.time()
        #: The certificate of the other end, which has shown that it has the key; and where it is.
        self.certificate, self.host = b"", ""
        #: The node at the other end, once it is known.
        self.name = "a caller"

    @classmethod
    async def secured(cls, connect: _Connect, context: ssl.SSLContext, called: str | None = None) -> Stream:
        """Return a connection once TLS stands on the one that `connect` makes; `called` is whom this end calls."""
        stream, stands = cls(), asyncio.get_running_loop().create_future()
        seconds: Any = HANDSHAKE  # asyncio takes a float, and says that it takes none

        def tls() -> _Tls:
            stream._tls = _Tls(
                stream._loop,
                stream,
                context,
                stands,
                server_side=called is None,
                server_hostname=called,
                ssl_handshake_timeout=seconds,
                ssl_shutdown_timeout=_CLOSE,
            )
            return stream._tls

        below, _ = await connect(tls)
        try:
            await stands
        except BaseException:
            below.abort()
            raise
        return stream

    # What asyncio calls.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the connection."""
        self.transport = cast(asyncio.Transport, transport)
        self.transport.set_write_buffer_limits(_WRITTEN)
        tls, place = (self.transport.get_extra_info(what) for what in ("ssl_object", "peername"))
        self.certificate = (tls.getpeercert(binary_form=True) if tls else None) or b""
        self.host = str(place[0]) if place else "a caller"

    def connection_lost(self, error: Exception | None) -> None:
        """Take the end of it."""
        self._fail(error if error is not None else Closed("the connection was closed"))
        if not self.closed.done():
            self.closed.set_result(None)

    def eof_received(self) -> None:
        """Take the news that the other end sends nothing more: then it is over."""

    def pause_writing(self) -> None:
        """Take the news that the network takes no more for now."""
        self._room.clear()

    def resume_writing(self) -> None:
        """Take the news that the network takes more again."""
        self._room.set()
        self._resumed()

    def get_buffer(self, _: int) -> memoryview:
        """Return where the next bytes go."""
        if self._large is not None:
            return memoryview(self._large)[self._filled :]
        return self._scratch[self._have :]

    def buffer_updated(self, count: int) -> None:
        """Take bytes: hand over each frame that is whole."""
        self.heard = self._loop.time()
        if self._large is not None:
            self._filled += count
            if self._filled == len(self._large):
                whole, self._large = self._large, None
                self._arrive(self._large_kind, whole)
            return
        self._have += count
        at, scratch = 0, self._scratch
        while self.problem is None and self._have - at >= _HEADER.size:
            number, size = _HEADER.unpack_from(scratch, at)
            kind = FrameKind(number) if number in _LIMITS else None
            if kind is None or size > _LIMITS[kind]:
                what = f"a frame of {size} bytes" if kind is not None else "a frame of a kind that nobody knows"
                self.refuse(Refusing(Refusal.MALFORMED, what, named=False))
                return
            body = at + _HEADER.size
            if body + size <= self._have:
                at = body + size
                self._arrive(kind, bytes(scratch[body:at]))
            elif _HEADER.size + size > len(scratch):
                self._large, self._large_kind, self._filled = bytearray(size), kind, self._have - body
                self._large[: self._filled] = scratch[body : self._have]
                at = self._have
            else:
                break
        scratch[: self._have - at] = bytes(scratch[at : self._have])
        self._have -= at

    def _arrive(self, kind: FrameKind, content: bytes | bytearray) -> None:
        if self.problem is not None or kind is FrameKind.PULSE:
            return
        if kind is FrameKind.REFUSAL:
            self._was_refused(json_of(content))
        elif self._take is not None:
            self._take(kind, content)
        else:
            self._arrived.append((kind, content))
            if len(self._arrived) > _AHEAD and self.transport is not None and not self._paused:
                self._paused = True
                self.transport.pause_reading()
            self._wake()

    def _was_refused(self, facts: dict[str, Any]) -> None:
        given, why = facts.get("code"), facts.get("why")
        code = Refusal(given) if isinstance(given, str) and given in set(Refusal) else Refusal.UNWELCOME
        self._fail(Refused(code, why if isinstance(why, str) else "", facts))
        self.close()

    def _fail(self, problem: BaseException) -> None:
        if self.problem is None:
            self.problem = problem
            self._wake()
            self._room.set()
            self._ended(problem)

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # What its owner calls.

    @property
    def is_paused(self) -> bool:
        """Whether nothing is read at present, because too much waits to be taken."""
        return self._paused

    @property
    def has_room(self) -> bool:
        """Whether the network takes what is written."""
        return self._room.is_set()

    async def read(self) -> tuple[FrameKind, bytes | bytearray]:
        """Return the next frame; raise what has ended the connection."""
        while not self._arrived:
            if self.problem is not None:
                raise self.problem
            self._waiter = self._loop.create_future()
            await self._waiter
        found = self._arrived.popleft()
        if self._paused and len(self._arrived) <= _AHEAD // 2 and self.transport is not None:
            self._paused = False
            self.transport.resume_reading()
        return found

    def widen(self) -> None:
        """Read much at once from now on: what comes is large."""
        if self._tls is not None:
            self._tls.max_size = _AT_ONCE  # type: ignore[misc] # of this connection alone

    def hand_to(
        self,
        take: Callable[[FrameKind, bytes | bytearray], None],
        resumed: Callable[[], None],
        ended: Callable[[BaseException], None],
    ) -> None:
        """Hand each frame over from now on, tell when there is room to write again, and when it has ended."""
        self._take, self._resumed, self._ended = take, resumed, ended
        while self._arrived and self.problem is None:
            take(*self._arrived.popleft())
        if self._paused and self.transport is not None:
            self._paused = False
            self.transport.resume_reading()
        if self.problem is not None:
            ended(self.problem)

    def write(self, kind: FrameKind, content: bytes = b"") -> None:
        """Send a frame."""
        if self.problem is None and self.transport is not None:
            self.wrote = self._loop.time()
            if len(content) <= _SCRATCH:
                self.transport.write(_HEADER.pack(kind, len(content)) + content)
            else:
                self.transport.write(_HEADER.pack(kind, len(content)))
                self.transport.write(content)

    async def drained(self) -> None:
        """Wait until the network takes more; raise what has ended the connection."""
        await self._room.wait()
        if self.problem is not None:
            raise self.problem

    def refuse(self, refusing: Refusing) -> None:
        """Say why the connection ends here, and end it."""
        facts = {"code": refusing.code, "why": refusing.why[:500]} | refusing.facts
        self.write(FrameKind.REFUSAL, frame_text(facts))
        self._fail(refusing)
        self.close()

    def close(self) -> None:
        """End it, after what is on its way."""
        self._fail(Closed("it was closed here"))
        if self.transport is not None:
            self.transport.close()

    def abort(self) -> None:
        """End it at once."""
        self._fail(Closed("nothing was heard any more"))
        if self.transport is not None:
            self.transport.abort()


def json_of(content: bytes | bytearray) -> dict[str, Any]:
    """Return the JSON object in a frame; what is none is an empty one."""
    try:
        found = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def frame_text(facts: Mapping[str, Any]) -> bytes:
    """Return facts as the content of a frame."""
    return json.dumps(facts).encode()
