"""A call to a node by hand, as somebody would make it who has a node's keys and does what no node does."""

from __future__ import annotations

import json
import select
import socket
import ssl
import struct
import time
from collections.abc import Iterable
from contextlib import suppress

from skipring.network.transport.stream import FrameKind

#: Seconds in which a node that has something against a call says so.
_PATIENCE = 1.0
_HEADER = struct.Struct(">BI")


def framed(kind: int, content: bytes) -> bytes:
    """Return a frame as it travels."""
    return _HEADER.pack(kind, len(content)) + content


class RawCall:
    """One connection to a node, from TLS to how it ends."""

    def __init__(self, port: int, context: ssl.SSLContext, server: str, seconds: float = 60.0) -> None:
        self._deadline = time.monotonic() + seconds
        held = socket.create_connection(("127.0.0.1", port), 30.0)
        try:
            self._tls = context.wrap_socket(held, server_hostname=server)
        except BaseException:
            held.close()
            raise
        self._got = b""
        self.ended = ""  # how the node has ended it
        self.why = ""

    def __enter__(self) -> RawCall:
        return self

    def __exit__(self, *_: object) -> None:
        self._tls.close()

    def preface(self, purpose: str, run: str, **more: object) -> None:
        """Say what the call is for."""
        facts = {"for": purpose, "run": run, "process": "enemy", "number": 0, **more}
        self.send([framed(FrameKind.PREFACE, json.dumps(facts).encode())])

    def send(self, frames: Iterable[bytes]) -> None:
        """Send frames, as long as the node takes them."""
        for data in frames:
            if self.ended or time.monotonic() > self._deadline:
                return
            try:
                self._tls.sendall(data)
            except OSError:
                self._read_on()
                self._broke()
            self._look()

    def finish(self, *, hang_up: bool) -> str:
        """Send nothing more, and wait for a while for the node to end it; return how it did.

        If this end hangs up, below TLS, the node still reads what was sent, and says at once what it thinks of it.
        """
        if hang_up and not self.ended:
            with suppress(OSError):
                socket.socket.shutdown(self._tls, socket.SHUT_WR)
        self._deadline = min(self._deadline, time.monotonic() + _PATIENCE)
        self._read_on()
        return self.ended or "OK"

    def wait_for(self, kind: FrameKind) -> bool:
        """Wait for a frame of the node; say whether it came."""
        while not self.ended:
            found = self._next()
            if found == kind:
                return True
            if found is None and not self._receive():
                self._broke()
        return False

    def _broke(self) -> None:
        if not self.ended:
            self.ended = "reset"

    def _look(self) -> None:
        while not self.ended and (self._tls.pending() or select.select([self._tls], [], [], 0.0)[0]):
            if not self._receive():
                self._broke()
            while self._next() is not None:
                pass

    def _read_on(self) -> None:
        while not self.ended:
            while self._next() is not None:
                pass
            if not self._receive():
                return

    def _receive(self) -> bool:
        self._tls.settimeout(max(0.1, self._deadline - time.monotonic()))
        try:
            data = self._tls.recv(1 << 16)
        except OSError:
            return False
        self._got += data
        return bool(data)

    def _next(self) -> int | None:
        """Take the next frame that has arrived, and return its kind."""
        if len(self._got) < _HEADER.size:
            return None
        kind, size = _HEADER.unpack_from(self._got)
        if len(self._got) < _HEADER.size + size:
            return None
        content, self._got = self._got[_HEADER.size : _HEADER.size + size], self._got[_HEADER.size + size :]
        if kind == FrameKind.REFUSAL:
            facts = json.loads(content)
            self.ended, self.why = facts["code"], facts["why"]
        return int(kind)
