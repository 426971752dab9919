"""What gRPC has to say about callers that never got as far as a call: it writes it to standard error, and only there.

A caller without a certificate, or with another authority's, is refused while the connection is made; no Python code is
told. gRPC's own log has a line about it, if asked for. So a process that is a node and nothing else has its standard
error read by a thread: those lines become a refusal that is said once, and everything else goes on to where it was
going.
"""

from __future__ import annotations

import atexit
import os
import re
import sys
import threading
from collections.abc import Callable
from contextlib import suppress

__all__ = ["watch_native_log"]

_REFUSED = re.compile(r"Handshake failed.*?OPENSSL_internal:([A-Z0-9_]+)(?:: (.*))?|Handshake failed.*?: (.*)")
_OWN = re.compile(r"([IWE])\d{4} [\d:.]+ +\d+ (\S+\.cc):\d+\] (.*)")
_LONGEST = 1 << 16  # of a line that is read at once
#: OpenSSL's words in ours.
_WORDS = {
    "PEER_DID_NOT_RETURN_A_CERTIFICATE": "has no certificate",
    "NO_SHARED_CIPHER": "does not know TLS 1.3",
    "UNSUPPORTED_PROTOCOL": "does not know TLS 1.3",
    "HTTP_REQUEST": "does not speak TLS",
    "WRONG_VERSION_NUMBER": "does not speak TLS",
    "certificate has expired": "has a certificate that has expired",
    "certificate is not yet valid": "has a certificate that is not yet valid",
    "unable to get local issuer certificate": "has a certificate of another authority",
    "certificate signature failure": "has a forged certificate",
}


def reason_in(line: str) -> str | None:
    """Return why a connection was not made, if a line of gRPC's log tells that.

    >>> reason_in("Handshake failed with error SSL_ERROR_SSL: error:1:SSL routines:OPENSSL_internal:NO_SHARED_CIPHER")
    'does not know TLS 1.3'
    """
    found = _REFUSED.search(line)
    if found is None:
        return None
    kind, detail, other = (part.strip()[:80] if part else "" for part in found.groups())
    if kind != "CERTIFICATE_VERIFY_FAILED":
        detail = kind or other
    return _WORDS.get(detail) or detail.lower().replace("_", " ") or "certificate verify failed"


def watch_native_log(refused: Callable[[str], None]) -> int:
    """Read this process's standard error from now on; return a file to write own messages to instead.

    It must be called before gRPC is loaded. `refused` is called in the thread that reads.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "INFO")
    real = os.dup(2)
    reading, writing = os.pipe()
    os.dup2(writing, 2)
    os.close(writing)

    def take(line: bytes) -> None:
        text = line.decode("utf-8", "replace").rstrip("\n")
        reason = reason_in(text)
        if reason is not None:
            refused(f"somebody, while connecting: {reason}")
        elif (own := _OWN.match(text)) is None:
            while line:
                line = line[os.write(real, line) :]
        elif own[1] == "E" and own[2] != "add_port.cc":  # a port that is in use is said elsewhere
            refused(f"gRPC: {own[3]}")

    def read() -> None:
        with os.fdopen(reading, "rb") as lines:
            for line in iter(lambda: lines.readline(_LONGEST), b""):
                with suppress(Exception):  # if nobody read on, whoever writes to standard error would wait for ever
                    take(line)

    reader = threading.Thread(target=read, name="standard error", daemon=True)
    reader.start()

    def restore() -> None:
        """Let what was said last get out: why the process ends, for instance."""
        with suppress(Exception):
            sys.stderr.flush()
        os.dup2(real, 2)
        reader.join(2.0)

    atexit.register(restore)
    return real
