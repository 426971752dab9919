"""How nodes reach each other: gRPC over TLS 1.3, both ends with a certificate, one stream for each direction.

Messages are sent and forgotten: what is lost, the protocol asks for again. A node that cannot be reached costs nothing
but the attempts to connect. Large models travel in a call of their own, in chunks, past the small messages. Whoever is
not in the roster, speaks of another run, sends what is no message or sends too much of it, is refused.
"""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import re
import ssl
import threading
import time
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, NamedTuple, NoReturn, Protocol, TypeVar
from urllib.parse import unquote

from ...errors import InvalidInput
from ..protocol import Final, Message, Outcome, Pass, Token
from ..storage import LARGE, ModelWriter, chunks_of, digest_of, size_of
from ._calls import Allowance, Call
from .agreement import SHOWS, Agreement, shown_in
from .identity import peer_name, server_name
from .link import Link
from .roster import AddressInUse, Roster
from .wire import INLINE, PACKAGE, Done, Frame, Heading, Malformed, decode, encode

__all__ = ["Keys", "Receiver", "Shape", "Transport"]

# gRPC offers no setting for the lowest version of TLS. Nodes have ECDSA certificates, which no cipher of TLS 1.2 in
# this list can be used with, so that only TLS 1.3 is left. It must be set before gRPC is loaded.
_ONLY_TLS_1_3 = "ECDHE-RSA-AES128-GCM-SHA256"

_CHUNK = 1 << 20
_AHEAD = 8  # chunks that may wait for the disk
#: No frame is larger. gRPC itself refuses only what is far larger: it does so without a word.
_LARGEST = 2 * _CHUNK
_FAREWELL = 1.0  # seconds in which a node that leaves for good tells so: calls are made again within 100 ms
_MARKS = "skipring-marks-bin"
_THERE = 15.0  # a node that was refused so many seconds ago is still there
_NEWER = "a newer call has taken the place of this one"
_QUIET = 600.0  # seconds in which the same refusal is said once
#: How gRPC's reasons begin if somebody answers that is not who it should be.
_IMPOSTOR = re.compile("SSL_ERROR|TSI_|Peer name|[Vv]erification")
#: Numbers that stand alone: two refusals that differ only in them are of one kind.
_NUMBER = re.compile(r"(?<![\w-])\d[\d.]*(e[+-]?\d+)?(?![\w-])")

_Some = TypeVar("_Some")

_CHANNEL = [
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 5_000),  # it is also how long an attempt may take
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.http2.max_pings_without_data", 0),
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.max_receive_message_length", 4 * _LARGEST),
    ("grpc.enable_http_proxy", 0),
]
_SERVER = [
    ("grpc.max_receive_message_length", 4 * _LARGEST),
    ("grpc.max_concurrent_streams", 16),
    ("grpc.server_handshake_timeout_ms", 10_000),
    ("grpc.http2.min_ping_interval_without_data_ms", 5_000),
    ("grpc.keepalive_time_ms", 10_000),
    ("grpc.keepalive_timeout_ms", 5_000),
    ("grpc.so_reuseport", 0),
    ("grpc.compression_enabled_algorithms_bitset", 1),  # none: a small message must not become a large one
]


class Keys(NamedTuple):
    """What a node proves itself with, and the authority it believes: the contents of three files."""

    key: bytes
    certificate: bytes
    authority: bytes

    @classmethod
    def read(cls, folder: Path) -> Keys:
        """Read them from a node's folder."""
        key, certificate, authority = (folder / name for name in ("node.key", "node.crt", "ca.crt"))
        try:
            found = cls(key.read_bytes(), certificate.read_bytes(), authority.read_bytes())
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(certificate, key, password="")  # gRPC would only say that it cannot listen
            context.load_verify_locations(authority)
        except ssl.SSLError:
            reason = "node.key, node.crt and ca.crt do not fit together; `skipring network check` tells more"
            raise InvalidInput.because("FILE", folder, reason) from None
        except OSError as error:
            raise InvalidInput.because("FILE", error.filename, f"cannot be read: {error.strerror}") from None
        return found


@dataclass(frozen=True)
class Shape:
    """What parameters look like in this run: the type of the numbers, and how many bytes they are."""

    dtype: str
    size: int


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


def load_grpc() -> Any:
    """Return gRPC, set up for this protocol, or say how to install it."""
    os.environ.setdefault("GRPC_SSL_CIPHER_SUITES", _ONLY_TLS_1_3)
    try:
        import grpc
        import grpc.aio
    except ImportError:
        raise InvalidInput.because("FEATURE", "network", "needs gRPC: pip install skipring[network]") from None
    return grpc


class Transport:
    """One node's connections to all others.

    Parameters
    ----------
    me, roster, keys : who this node is among all nodes.
    listen : the address to listen on.
    agreement, shape, steps : what all nodes agree on.
    models : a folder for large models that arrive.
    receiver : is told what arrives.
    """

    def __init__(
        self,
        me: int,
        roster: Roster,
        keys: Keys,
        *,
        listen: str,
        agreement: Agreement,
        shape: Shape,
        steps: int,
        models: Path,
        receiver: Receiver,
    ) -> None:
        self.grpc = load_grpc()
        self.me, self._roster, self._keys, self._listen = me, roster, keys, listen
        self._agreement, self._shape, self._steps, self._models = agreement, shape, steps, models
        self._receiver = receiver
        self._links = {node: Link(self, node) for node in range(len(roster)) if node != me}
        self._server: Any = None
        self._left = ""  # why this node takes no further part
        self._talks: dict[int, Call] = {}
        self._carries: dict[int, Call] = {}
        self._shows: dict[int, tuple[tuple[str, bytes], ...]] = {}  # to whom which values are shown
        self.disagreements: dict[int, tuple[float, str]] = {}  # when a node was last refused for its run, and why
        self._process, self._made = os.urandom(8).hex(), itertools.count()
        self._allowances = {node: Allowance() for node in self._links}
        self._said: dict[str, tuple[float, int]] = {}
        self._saying = threading.Lock()  # who reads gRPC's own log is another thread
        #: Bytes per second of the newest large models that arrived.
        self.carry_rates: deque[float] = deque(maxlen=20)

    async def start(self) -> None:
        """Listen, and connect to everybody."""
        grpc = self.grpc
        methods = {
            "Talk": grpc.stream_stream_rpc_method_handler(self._talk),
            "Carry": grpc.stream_unary_rpc_method_handler(self._carry),
        }
        self._server = grpc.aio.server(options=_SERVER)
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(f"{PACKAGE}.Node", methods),))
        pair = [(self._keys.key, self._keys.certificate)]
        credentials = grpc.ssl_server_credentials(pair, self._keys.authority, require_client_auth=True)
        try:
            self._server.add_secure_port(self._listen, credentials)
        except RuntimeError:
            reason = "cannot be listened on: in use, or not an address of this machine"
            raise AddressInUse.because("listen", self._listen, reason) from None
        await self._server.start()
        for link in self._links.values():
            link.start()

    async def stop(self) -> None:
        """Let messages that wait go out, then close everything."""
        await asyncio.gather(*(link.stop() for link in self._links.values()))
        if self._server is not None:
            await self._server.stop(0.2)

    async def leave(self, why: str) -> None:
        """Tell everybody for a moment why this node takes no further part: whoever calls it, or has, is refused."""
        self._left = why
        for call in (*self._talks.values(), *self._carries.values()):
            call.task.cancel()
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

    # What arrives.

    async def _admit(self, context: Any) -> int:
        """Return who is at the other end, or end the call."""
        found = context.auth_context().get("x509_pem_cert", [b""])[0]
        # ipv4:127.0.0.1:1234 or ipv6:%5B::1%5D:1234; the port is another one each time.
        where = unquote(context.peer()).partition(":")[2].rpartition(":")[0] or "somebody"
        try:
            name = peer_name(ssl.PEM_cert_to_DER_cert(found.decode()), self._roster)
        except (InvalidInput, ValueError) as problem:
            await self._refuse(context, "UNAUTHENTICATED", f"{where}: {problem}")
        node = self._roster.index(name)
        if node == self.me:
            await self._refuse(context, "PERMISSION_DENIED", f"{where} has the certificate of this very node")
        if self._left:
            await context.abort(self.grpc.StatusCode.PERMISSION_DENIED, self._left)
        if self._allowances[node].spent:
            await self._refuse(context, "RESOURCE_EXHAUSTED", f"{name} sends too much")
        given = dict(context.invocation_metadata() or ()).get("skipring-run", "")
        if given != self._agreement.digest.hex():
            await self._other_run(context, name)
        self.disagreements.pop(node, None)
        return node

    async def _other_run(self, context: Any, name: str) -> NoReturn:
        shown = shown_in(context.invocation_metadata())
        why = f"{name} speaks of another run"
        if compared := self._agreement.compared(shown):  # it was refused before, and says what it has
            why = f"{name} has another run: {compared}"
            self.disagreements[self._roster.index(name)] = time.monotonic(), compared
        marks, values = self._agreement.marks, self._agreement.shown(shown)
        trailing = [(_MARKS, json.dumps(marks).encode()), (SHOWS, json.dumps(values).encode())]
        await self._refuse(context, "FAILED_PRECONDITION", why, trailing)

    async def _refuse(self, context: Any, code: str, why: str, trailing: Sequence[tuple[str, bytes]] = ()) -> NoReturn:
        self.say_once("refused", why)
        await context.abort(getattr(self.grpc.StatusCode, code), why, tuple(trailing))
        raise AssertionError  # abort has raised

    async def _talk(self, frames: AsyncIterator[bytes], context: Any) -> None:
        """Take messages; nothing is ever answered, since answers are messages of their own."""
        sender = await self._admit(context)
        async with self._newest(self._talks, sender, context):
            await context.send_initial_metadata(())
            self._links[sender].hurry()
            async for data in frames:
                frame = await self._read(data, sender, context)
                if isinstance(frame.message, Done):
                    self._receiver.done(sender)
                elif frame.heading is not None and frame.heading.follows:
                    await self._refuse(context, "INVALID_ARGUMENT", f"{self._roster.names[sender]}: a model is missing")
                else:
                    self._receiver.received(sender, frame.message)

    @asynccontextmanager
    async def _newest(self, calls: dict[int, Call], sender: int, context: Any) -> AsyncIterator[None]:
        """Let the newest call of a node be the one that counts: an older one may have broken without noticing.

        Calls of one process are numbered: if both ends are busy, an older one may get here after a newer one.
        """
        before, mine = calls.get(sender), Call.of(context)
        if before is not None and before.is_newer_than(mine):
            await context.abort(self.grpc.StatusCode.ABORTED, _NEWER)
        calls[sender] = mine
        if before is not None:
            before.task.cancel()
        try:
            yield
        except asyncio.CancelledError:
            if self._left:
                await context.abort(self.grpc.StatusCode.PERMISSION_DENIED, self._left)
            if calls.get(sender) is mine:
                raise
            # If there is somebody at the other end, it must be told: it would go on to send what nobody reads.
            now = calls.get(sender)
            same = now is not None and now.process == mine.process
            await context.abort(getattr(self.grpc.StatusCode, "ABORTED" if same else "ALREADY_EXISTS"), _NEWER)
        finally:
            if calls.get(sender) is mine:
                del calls[sender]

    async def _read(self, data: bytes, sender: int, context: Any) -> Frame:
        name = self._roster.names[sender]
        if not self._allowances[sender].take():
            await self._refuse(context, "RESOURCE_EXHAUSTED", f"{name} sends too much")
        if len(data) > _LARGEST:
            await self._refuse(context, "INVALID_ARGUMENT", f"{name}: a frame of {len(data)} bytes")
        try:
            frame = decode(data, nodes=len(self._roster), steps=self._steps)
        except Malformed as problem:
            await self._refuse(context, "INVALID_ARGUMENT", f"{name}: {problem}")
        if frame.run != self._agreement.digest:
            await self._other_run(context, name)
        heading, shape = frame.heading, self._shape
        if heading is not None and heading.size != shape.size:
            given, wanted = f"a model of {heading.size} bytes", f"not of {shape.size}"
            await self._refuse(context, "INVALID_ARGUMENT", f"{name}: {given}, {wanted}")
        if heading is not None and heading.dtype != shape.dtype:
            await self._refuse(context, "INVALID_ARGUMENT", f"{name}: a model of other numbers than {shape.dtype}")
        return frame

    async def _carry(self, chunks: AsyncIterator[bytes], context: Any) -> bytes:
        sender = await self._admit(context)
        name = self._roster.names[sender]
        async with self._newest(self._carries, sender, context):
            incoming = aiter(chunks)
            frame = await self._read(await anext(incoming, b""), sender, context)
            message, heading = frame.message, frame.heading
            if isinstance(message, Done) or heading is None or not heading.follows:
                await self._refuse(context, "INVALID_ARGUMENT", f"{name}: no model follows its heading")
            reason = self._receiver.wants(sender, message)
            if reason:  # nothing is wrong, so nothing is said
                await context.abort(self.grpc.StatusCode.ABORTED, reason)
            assert isinstance(message, Pass | Final | Outcome)  # who has a heading has a token
            try:
                whole = await self._collect(incoming, heading, sender, context)
            except OSError as error:
                why = f"{name}: a model that cannot be written here: {error.strerror}"
                await self._refuse(context, "UNAVAILABLE", why)
            self._receiver.received(sender, replace(message, token=replace(message.token, parameters=whole)))
        return b""

    async def _collect(self, chunks: AsyncIterator[bytes], heading: Heading, sender: int, context: Any) -> Any:
        """Return the parameters that follow, once they are whole and their checksum is right."""
        started, name = time.monotonic(), self._roster.names[sender]
        with ModelWriter(self._models, keep_in_memory=heading.size < LARGE) as writer:
            # Checksum and disk are at work in a thread while the next chunks come.
            arrived: SimpleQueue[bytes | None] = SimpleQueue()
            writing = asyncio.ensure_future(asyncio.to_thread(_write_all, writer, arrived))
            received = 0
            try:
                async for chunk in chunks:
                    if not self._allowances[sender].take():
                        await self._refuse(context, "RESOURCE_EXHAUSTED", f"{name} sends too much")
                    received += len(chunk)
                    if len(chunk) > _CHUNK or received > heading.size:
                        await self._refuse(context, "INVALID_ARGUMENT", f"{name}: a model larger than it says")
                    arrived.put(chunk)
                    while arrived.qsize() > _AHEAD and not writing.done():
                        await asyncio.sleep(0.001)
                    if writing.done():
                        break  # it has failed, and says so below
            finally:
                arrived.put(None)
                await _unbroken(writing)
            if writer.size != heading.size:
                await self._refuse(context, "INVALID_ARGUMENT", f"{name}: a model that breaks off")
            self.carry_rates.append(writer.size / max(1e-9, time.monotonic() - started))
            whole = await _unbroken(asyncio.to_thread(writer.finish))
            if digest_of(whole) != heading.digest.hex():
                await self._refuse(context, "DATA_LOSS", f"{name}: a model that its checksum does not fit")
            writer.release()
        return whole

    # What links need (link.Caller).

    def metadata(self, node: int) -> tuple[tuple[str, str | bytes], ...]:
        """What every call to a node says before its first message."""
        call = f"{self._process} {next(self._made)}"
        return (("skipring-run", self._agreement.digest.hex()), ("skipring-call", call), *self._shows.get(node, ()))

    @property
    def disagreeing(self) -> dict[int, str]:
        """The nodes that are there but have another run, and where theirs differs."""
        since = time.monotonic() - _THERE
        return {node: what for node, (at, what) in self.disagreements.items() if at > since}

    def channel(self, node: int) -> Any:
        """Return a connection to a node; TLS checks that its certificate has the node's name."""
        credentials = self.grpc.ssl_channel_credentials(self._keys.authority, self._keys.key, self._keys.certificate)
        name = ("grpc.ssl_target_name_override", server_name(self._roster.names[node]))
        return self.grpc.aio.secure_channel(str(self._roster.addresses[node]), credentials, [*_CHANNEL, name])

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
        return encode(self._agreement.digest, message, heading), chunks_of(token.parameters, _CHUNK)

    def failed(self, node: int, error: Any) -> None:
        """Say once why a node does not take calls, if it is more than being away."""
        name, code = self._roster.names[node], error.code().name
        if code == "FAILED_PRECONDITION":
            marks = dict(error.trailing_metadata() or ()).get(_MARKS, b"{}")
            theirs = shown_in(error.trailing_metadata())
            try:
                keys = self._agreement.differing(json.loads(marks))
            except (ValueError, AttributeError, TypeError, RecursionError):
                keys = ()
            known = [key for key in keys if key in self._agreement.marks]
            differing = ", ".join(known) or "unknown keys"
            compared = self._agreement.compared(theirs)
            self.disagreements[node] = time.monotonic(), compared or differing
            # From the next call on it is shown what they are here, and answers what they are there.
            self._shows[node] = ((SHOWS, json.dumps(self._agreement.shown(known)).encode()),) if known else ()
            self.say_once(
                "refused", f"{name} has another run{f': {compared}' if compared else f'; differing: {differing}'}"
            )
        elif code in ("UNAUTHENTICATED", "PERMISSION_DENIED", "RESOURCE_EXHAUSTED", "INVALID_ARGUMENT", "DATA_LOSS"):
            self.say_once("refused", f"{name} does not listen: {error.details()}", f"{name} {code}")
        elif code == "ALREADY_EXISTS":
            self.say_once("refused", f"{name}: somebody else has called it with the certificate of this node")
        elif code == "UNAVAILABLE" and _IMPOSTOR.search(error.details() or ""):
            self.say_once("refused", f"{name}: whoever answers at {self._roster.addresses[node]} is not it")
        elif code == "UNAVAILABLE" and (error.details() or "").endswith("Socket closed"):
            self.say_once("refused", f"{name} hangs up; it may not accept the certificate of this node")

    def arrived(self, node: int) -> None:
        """Tell that a node can be reached."""
        self.disagreements.pop(node, None)
        self._shows.pop(node, None)
        self._receiver.connected(node)

    def say_once(self, event: str, text: str, kind: str | None = None) -> None:
        """Say something, but not again and again; if no kind is given, texts with other numbers are of the same."""
        now, (who, colon, what) = time.monotonic(), text.partition(": ")
        key = f"{event} {who}{colon}{_NUMBER.sub('#', what)}" if kind is None else f"{event} {kind}"
        shown = "".join(sign if sign.isprintable() else "?" for sign in text[:500])  # others have a say in it
        with self._saying:
            last, times = self._said.pop(key, (-_QUIET, 0))
            again = now - last < _QUIET
            self._said[key] = (last, times + 1) if again else (now, 1)
            if len(self._said) > 1000:
                del self._said[next(iter(self._said))]
        if not again:
            self._receiver.say(event, why=shown, **({"before": times} if times else {}))


def _write_all(writer: ModelWriter, arrived: SimpleQueue[bytes | None]) -> None:
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
