"""How nodes reach each other: TLS 1.3, both ends with a certificate, one connection for each pair of nodes.

Messages are sent and forgotten: what is lost, the protocol asks for again. A node that cannot be reached costs nothing
but the attempts to connect. Large models travel on connections of their own, past the small messages. A caller that is
not in the roster, speaks of another run, sends what is no message or sends too much, is refused.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import os
import socket
import ssl
from collections import Counter, deque
from collections.abc import Coroutine, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

from ...errors import InvalidInput
from ..protocol import Final, Message, Outcome, Pass, Token
from ..storage import chunks_of, digest_of, size_of
from ._calls import Allowance, Call
from .agreement import Agreement, shown_in
from .carrying import collect
from .identity import peer_name, server_name
from .link import Link
from .listening import listening_sockets, origin_of
from .refusals import Refusals
from .roster import Roster
from .stream import CHUNK, Closed, FrameKind, Refusal, Refused, Refusing, Stream, frame_text, json_of
from .tls import HANDSHAKE, Keys, reason_of
from .wire import INLINE, Done, Frame, Heading, Malformed, decode, encode

_FAREWELL = 1.0  # seconds in which a node that leaves for good tells so: calls are made again within 100 ms
_PULSE, _SILENT = 5.0, 15.0  # seconds: how often something is said, and how long nothing may be heard
#: Callers that have not said yet who they are: how many are waited for at once, besides two for each node.
_GUESTS = 64


@dataclass(frozen=True)
class RunShape:
    """What tokens of this run look like: the type of the parameters' numbers, their bytes, and the steps of a chain."""

    dtype: str
    size: int
    steps: int


class Receiver(Protocol):
    """Who is told what arrives."""

    def received(self, sender: int, message: Message) -> None:
        """Take a message."""

    def wants(self, sender: int, message: Message) -> str:
        """Say why the large model behind a message is not wanted; nothing if it is."""

    def done(self, sender: int) -> None:
        """Take the news that a node has the final model."""

    def connected(self, node: int) -> None:
        """Take the news that messages to a node go through from now on."""

    def say(self, event: str, **facts: object) -> None:
        """Tell the people who run the node."""


class Transport:
    """One node's connections to all others.

    Parameters
    ----------
    me, roster, keys : who this node is among all nodes.
    listen : the address to listen on; None if the node only calls others.
    agreement, shape : what all nodes agree on.
    models : a folder for large models that arrive.
    receiver : is told what arrives.
    """

    def __init__(
        self,
        me: int,
        roster: Roster,
        keys: Keys,
        *,
        listen: str | None,
        agreement: Agreement,
        shape: RunShape,
        models: Path,
        receiver: Receiver,
    ) -> None:
        self.me, self._roster, self._keys, self._listen = me, roster, keys, listen
        self._agreement, self._shape, self._models = agreement, shape, models
        self._receiver = receiver
        others = [node for node in range(len(roster)) if node != me]
        self._links = {node: Link(self, node, calls=roster.calls(me, node)) for node in others}
        self._listening: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()
        self._guests: dict[asyncio.Task[None], str] = {}  # from where; the oldest first
        self._streams: set[Stream] = set()
        self._left = ""  # why this node takes no further part
        self._carries: dict[int, tuple[Call, Stream]] = {}
        self._fetches: dict[int, asyncio.Task[None]] = {}  # one for each node: the newest that it has offered
        self._refusals = Refusals(roster, agreement, receiver.say)
        self._process, self._made = os.urandom(8).hex(), itertools.count()
        self._allowances = {node: Allowance() for node in self._links}
        #: Seconds between two calls of a node that does not answer: hundreds of nodes must not wear each other out.
        self.longest_pause = max(1.0, len(roster) / 32.0)
        #: Bytes per second of the newest large models that arrived.
        self.carry_rates: deque[float] = deque(maxlen=20)

    async def start(self) -> None:
        """Listen, and connect to all other nodes."""
        self._calling, self._answering = self._keys.calling(), self._keys.listening()
        if self._listen is not None:
            self._listening = listening_sockets(self._listen)
        for each in self._listening:
            self._spawn(self._accept(each))
        self._spawn(self._keep_pulse())
        for link in self._links.values():
            link.start()

    async def stop(self) -> None:
        """Let messages that wait go out, then close everything."""
        await asyncio.gather(*(link.stop() for link in self._links.values()))
        for task in (*self._tasks, *self._guests):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._guests, return_exceptions=True)
        for listening in self._listening:
            listening.close()
        for stream in list(self._streams):
            stream.abort()

    async def leave(self, why: str) -> None:
        """Tell all nodes for a moment why this one takes no further part: a node that calls it, or has, is refused."""
        self._left = why
        for link in self._links.values():
            link.refuse(why)
        for _, stream in list(self._carries.values()):
            stream.refuse(Refusing(Refusal.LEFT, why))
        await asyncio.sleep(_FAREWELL)

    @property
    def reachable(self) -> set[int]:
        """The nodes that messages go through to."""
        return {node for node, link in self._links.items() if link.connected}

    @property
    def receives(self) -> bool:
        """Whether a large model is arriving."""
        return bool(self._carries)

    def carries_to(self, node: int | None) -> bool:
        """Say whether a large model is on its way to a node."""
        return node is not None and self._links[node].carries

    def moves_to(self, node: int) -> bool:
        """Say whether a large model is on its way to a node, and some of it has left not long ago."""
        return self._links[node].moves

    def send(self, node: int, message: Message | Done) -> None:
        """Send a message; it is lost if the node cannot be reached."""
        self._links[node].send(message)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    def _watch(self, stream: Stream) -> None:
        self._streams.add(stream)
        stream.closed.add_done_callback(lambda _: self._streams.discard(stream))

    async def _keep_pulse(self) -> None:
        """Say something on each connection now and then, and give up those on which nothing is heard."""
        clock = asyncio.get_running_loop().time
        while True:
            due = clock() + _PULSE
            await asyncio.sleep(_PULSE)
            asleep = clock() - due > _PULSE  # this process itself: others may well have said something
            for stream in list(self._streams):
                if asleep or stream.is_paused:
                    stream.heard = clock()
                elif clock() - stream.heard > _SILENT:
                    stream.abort()
                if clock() - stream.wrote > 0.8 * _PULSE:
                    stream.write(FrameKind.PULSE)

    # Who calls.

    async def _accept(self, listening: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        most = _GUESTS + 2 * len(self._roster)
        while True:
            try:
                held, caller = await loop.sock_accept(listening)
            except OSError as error:  # too many open files, for instance
                self.say_once("refused", f"a caller, while connecting: {error.strerror}")
                await asyncio.sleep(0.1)
                continue
            if len(self._guests) >= most:
                self._turn_one_away()
            guest = asyncio.create_task(self._welcome(held))
            self._guests[guest] = origin_of(caller[0])
            guest.add_done_callback(lambda done: self._guests.pop(done, None))

    def _turn_one_away(self) -> None:
        """Hang up on the oldest guest of the address that has most of them: a crowd makes way for its own alone."""
        crowds = Counter(self._guests.values())
        most = max(crowds.values())
        guest, source = next((one, source) for one, source in self._guests.items() if crowds[source] == most)
        del self._guests[guest]
        guest.cancel()
        self.say_once("refused", f"{source}: too many calls that do not say who they are; its oldest makes way")

    async def _welcome(self, held: socket.socket) -> None:
        """Find out who has called and what for, and let it in."""
        loop, stream = asyncio.get_running_loop(), None
        try:
            async with asyncio.timeout(HANDSHAKE):
                stream = await Stream.secured(lambda tls: loop.connect_accepted_socket(tls, held), self._answering)
                kind, content = await stream.read()
            self._let_in(stream, kind, json_of(content))
        except ssl.SSLError as error:
            self.say_once("refused", f"a caller, while connecting: {reason_of(error)}")
        except Refusing as refusing:
            assert stream is not None
            stream.refuse(refusing)
            self._refusals.refusing(refusing)
        except (OSError, TimeoutError, Refused, asyncio.CancelledError) as error:
            if stream is not None:
                stream.abort()
            held.close()
            if isinstance(error, asyncio.CancelledError):
                raise

    def _let_in(self, stream: Stream, kind: FrameKind, preface: dict[str, Any]) -> None:
        node = self._admitted(stream, preface)
        name = stream.name = self._roster.names[node]
        purpose, ticket, call = preface.get("for"), preface.get("ticket"), Call.of(preface)
        if kind is not FrameKind.PREFACE or purpose not in ("talk", "carry", "collect"):
            raise Refusing(Refusal.MALFORMED, f"{name}: a call of a kind that nobody knows")
        if purpose == "talk":
            self._links[node].take_call(stream, call)
        elif purpose == "carry":
            stream.write(FrameKind.PREFACE, b"{}")
            self._spawn(self._receive(node, stream, call))
        elif isinstance(ticket, str) and self._links[node].hand_out(stream, ticket):
            stream.write(FrameKind.PREFACE, b"{}")
        else:
            raise Refusing(Refusal.NOT_WANTED, "there is no such model here")
        self._watch(stream)

    def _admitted(self, stream: Stream, preface: dict[str, Any]) -> int:
        """Return who is at the other end, or refuse it."""
        try:
            name = peer_name(stream.certificate, self._roster)
        except (InvalidInput, ValueError) as problem:
            raise Refusing(Refusal.STRANGER, f"{stream.host}: {problem}") from None
        node = self._roster.index(name)
        if node == self.me:
            raise Refusing(Refusal.UNWELCOME, f"{stream.host} has the certificate of this very node")
        if self._left:
            raise Refusing(Refusal.LEFT, self._left)
        if not self._roster.calls(node, self.me):
            raise Refusing(Refusal.UNWELCOME, f"{name} has called, and is to be called instead")
        if self._allowances[node].spent:
            raise Refusing(Refusal.FLOOD, f"{name} sends too much")
        if preface.get("run") != self._agreement.digest.hex():
            raise self._refusals.other_run(node, shown_in(preface.get("shows")))
        self._refusals.agreed(node)
        return node

    # What arrives.

    def read(self, node: int, content: bytes | bytearray) -> None:
        """Take a message of a node, or refuse it."""
        frame = self._frame(node, content)
        if isinstance(frame.message, Done):
            self._receiver.done(node)
        elif frame.heading is not None and frame.heading.follows:
            raise Refusing(Refusal.MALFORMED, f"{self._roster.names[node]}: a model is missing")
        else:
            self._receiver.received(node, frame.message)

    def _frame(self, node: int, content: bytes | bytearray) -> Frame:
        name = self._roster.names[node]
        if not self._allowances[node].take():
            raise Refusing(Refusal.FLOOD, f"{name} sends too much")
        try:
            frame = decode(bytes(content), nodes=len(self._roster), steps=self._shape.steps)
        except Malformed as problem:
            raise Refusing(Refusal.MALFORMED, f"{name}: {problem}") from None
        if frame.run != self._agreement.digest:
            raise self._refusals.other_run(node, {})
        heading, shape = frame.heading, self._shape
        if heading is not None and heading.size != shape.size:
            given, wanted = f"a model of {heading.size} bytes", f"not of {shape.size}"
            raise Refusing(Refusal.MALFORMED, f"{name}: {given}, {wanted}")
        if heading is not None and heading.dtype != shape.dtype:
            raise Refusing(Refusal.MALFORMED, f"{name}: a model of other numbers than {shape.dtype}")
        return frame

    def fetch(self, node: int, ticket: str) -> None:
        """Call for a large model that a node has for this one."""
        if not self._allowances[node].take():
            raise Refusing(Refusal.FLOOD, f"{self._roster.names[node]} sends too much")
        if self._roster.calls(self.me, node):
            if node in self._fetches:
                self._fetches[node].cancel()
            self._fetches[node] = self._spawn(self._call_for(node, ticket))

    async def _call_for(self, node: int, ticket: str) -> None:
        number = next(self._made)
        try:
            stream = await self.call(node, "collect", ticket)
        except Refused as refused:
            self.failed(node, refused)
        except (OSError, TimeoutError):
            pass  # it will be offered again
        else:
            await self._receive(node, stream, Call(self._process, number))

    async def _receive(self, sender: int, stream: Stream, call: Call) -> None:
        """Take a large model; the newest that a node sends is the one that counts."""
        before = self._carries.get(sender)
        try:
            if before is not None:
                if before[0].is_newer_than(call):
                    raise Refusing(Refusal.REPLACED, "a newer one has taken its place")
                before[1].refuse(Refusing(Refusal.REPLACED, "a newer one has taken its place"))
            self._carries[sender] = call, stream
            message = await self._carried(sender, stream)
            stream.write(FrameKind.TAKEN)
            self._receiver.received(sender, message)
        except Refusing as refusing:
            stream.refuse(refusing)
            self.failed(sender, refusing)
        except Refused as refused:
            self.failed(sender, refused)
        except OSError:
            pass  # the connection has broken
        finally:
            if self._carries.get(sender) == (call, stream):
                del self._carries[sender]
            stream.close()

    async def _carried(self, sender: int, stream: Stream) -> Message:
        name, allowance = self._roster.names[sender], self._allowances[sender]
        kind, content = await stream.read()
        frame = self._frame(sender, content)
        message, heading = frame.message, frame.heading
        if kind is not FrameKind.MESSAGE or isinstance(message, Done) or heading is None or not heading.follows:
            raise Refusing(Refusal.MALFORMED, f"{name}: no model follows its heading")
        reason = self._receiver.wants(sender, message)
        if reason:
            raise Refusing(Refusal.NOT_WANTED, reason)
        assert isinstance(message, Pass | Final | Outcome)  # who has a heading has a token
        try:
            whole, rate = await collect(stream, heading, self._models, name, allowance.take)
        except (ConnectionError, TimeoutError):
            raise
        except OSError as error:
            why = f"{name}: a model that cannot be written here: {error.strerror}"
            raise Refusing(Refusal.NO_ROOM, why) from None
        self.carry_rates.append(rate)
        return replace(message, token=replace(message.token, parameters=whole))

    # What links need (link.Caller).

    async def call(self, node: int, purpose: str, ticket: str = "") -> Stream:
        """Return a connection to a node, which has said that it listens."""
        loop, name, address = asyncio.get_running_loop(), self._roster.names[node], self._roster.addresses[node]
        assert address is not None  # nobody calls a node that has none
        preface = {
            "for": purpose,
            "run": self._agreement.digest.hex(),
            "process": self._process,
            "number": next(self._made),
            "shows": self._refusals.shows.get(node, {}),
            "ticket": ticket,
        }
        async with asyncio.timeout(HANDSHAKE):
            stream = await Stream.secured(
                lambda tls: loop.create_connection(tls, address.host, address.port), self._calling, server_name(name)
            )
            try:
                with contextlib.suppress(InvalidInput, ValueError):  # no certificate, or one that cannot be read
                    stream.name = peer_name(stream.certificate, self._roster)
                if stream.name != name:
                    raise ssl.SSLCertVerificationError("not the certificate that the roster has")
                stream.write(FrameKind.PREFACE, frame_text(preface))
                kind, _ = await stream.read()
                if kind is not FrameKind.PREFACE:
                    raise Closed("it does not say that it listens")
            except BaseException:
                stream.abort()
                raise
        self._watch(stream)
        return stream

    def frame(self, message: Message | Done) -> tuple[bytes, Iterator[bytes] | None]:
        """Return a message as bytes, and the chunks that follow it if its model is large."""
        token: Token | None = getattr(message, "token", None)
        if token is None:
            return encode(self._agreement.digest, message), None
        size = size_of(token.parameters)
        if size <= INLINE:
            return encode(self._agreement.digest, message, Heading(self._shape.dtype, size)), None
        digest = bytes.fromhex(digest_of(token.parameters))
        heading = Heading(self._shape.dtype, size, digest)
        return encode(self._agreement.digest, message, heading), chunks_of(token.parameters, CHUNK)

    def arrived(self, node: int) -> None:
        """Tell that a node can be reached."""
        self._refusals.arrived(node)
        self._receiver.connected(node)

    def failed(self, node: int, problem: BaseException) -> None:
        """Say why a connection to a node has ended or not come about, if it is more than being away."""
        self._refusals.failed(node, problem)

    @property
    def disagreeing(self) -> dict[int, str]:
        """The nodes that are there but have another run, and where theirs differs."""
        return self._refusals.disagreeing

    def say_once(self, event: str, text: str) -> None:
        """Say something, but not again and again."""
        self._refusals.say_once(event, text)
