"""Sending of a token's marks only those that its receiver lacks: in a long run, all would be most of a message.

A node that says ready says which marks it has: how many bytes of the bitmap, from the first hop on, and their SHA-256.
If the holder's token has the same, it leaves them out, and the zeros of the hops to come. The node that asked for the
token puts back what it had then. It gets the token as it was, byte for byte: all checks are made on that.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace

from .messages import Copy, Pass, Token

_DIGEST = 32
_SIZE = 8
#: How many bytes it takes to say which marks one has.
KNOWN_BYTES = _SIZE + _DIGEST


def marks_before(copy: Copy, short: int) -> bytes | None:
    """Return the bytes of a copy's bitmap in which nothing changes on its way; None if it is as `short` as this."""
    bitmap = copy.token.chain[_DIGEST:]
    return bitmap[: copy.hop // 8] if len(bitmap) > short else None


def known(marks: bytes | None) -> bytes:
    """Return what says which marks a node has; nothing if it wants all of them."""
    return b"" if marks is None else len(marks).to_bytes(_SIZE, "big") + hashlib.sha256(marks).digest()


def cut_marks(token: Token, told: bytes) -> tuple[Token, int]:
    """Return a token without the marks that its receiver has told it has, and `Pass.since`; whole if it has others."""
    bitmap, size = token.chain[_DIGEST:], int.from_bytes(told[:_SIZE], "big")
    if len(told) != KNOWN_BYTES or size > len(bitmap) or known(bitmap[:size]) != told:
        return token, 0
    return replace(token, chain=token.chain[:_DIGEST] + bitmap[size:].rstrip(b"\0")), size + 1


def whole(message: Pass, marks: bytes | None, steps: int) -> Pass | None:
    """Return a message with its whole token, given the marks that this node has told it has; None if it cannot be."""
    if not message.since:
        return message
    length, chain = -(-steps // 8), message.token.chain
    if marks is None or message.since != len(marks) + 1 or len(chain) < _DIGEST:
        return None
    bitmap = marks + chain[_DIGEST:]
    if len(bitmap) > length:
        return None
    return replace(message, token=replace(message.token, chain=chain[:_DIGEST] + bitmap.ljust(length, b"\0")), since=0)
