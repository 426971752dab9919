"""How a token came to be: a mark for each hop that updated it, and a digest that no other chain of updates has.

A chain is 32 bytes, a SHA-256 digest, and a bitmap of all hops of the run. Bit h - 1, the least significant bit of a
byte first, says whether hop h (counted from 1) was an update on this chain.

The digest travels with the token, so it must not say more than the token does. A later observer is meant to learn about
an update through the noise of those that came after it. With a digest of the bare parameters it could check a guess of
them exactly: what the privacy proofs forbid. So each author mixes in a secret (`sealed`), and a digest is a commitment:
it binds its author, and tells others nothing.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from ...errors import InvalidInput, require_integer
from .messages import Ballot, Token

_DIGEST = 32
_ROOT = b"skipring chain"

# A token that arrives is looked at from many sides; to read the bitmap of a long run takes longer than most of them.
_REMEMBERED = 4
_read: list[tuple[tuple[bytes, int], ...]] = [()]  # the newest bitmaps; replaced as a whole, since threads read it, too


def blank_chain(steps: int, run_digest: bytes) -> bytes:
    """Return the chain of the initial model of a run: no hop has updated it."""
    require_integer("steps", steps, 1)
    return hashlib.sha256(_ROOT + run_digest).digest() + bytes(_bytes_for(steps))


def sealed(digest: bytes, secret: bytes) -> bytes:
    """Return a digest of an update's digest that tells nothing about the update to who does not know the secret.

    The secret is 32 fresh random bytes for each update; who tells it later proves which parameters it sent.
    """
    if len(digest) != _DIGEST:
        raise InvalidInput("digest", f"{len(digest)} bytes", f"{_DIGEST} bytes")
    if len(secret) != _DIGEST:
        raise InvalidInput("secret", f"{len(secret)} bytes", f"{_DIGEST} random bytes, fresh for each update")
    return hashlib.sha256(secret + digest).digest()


def extended_chain(chain: bytes, ballot: Ballot, hop: int, parameters_digest: bytes) -> bytes:
    """Return the chain with one more update, whose parameters have this digest; take one that is `sealed`.

    Hops beyond the end of the run are refused as far as the bitmap has no bit for them; `check_chain` refuses the rest.
    """
    digest, bitmap = _parts(chain)
    last = marks_of(chain).bit_length()
    require_integer("hop", hop, 1)
    if not last < hop <= 8 * len(bitmap):
        raise InvalidInput("hop", hop, f"after hop {last}, the last one of the chain, and at most {8 * len(bitmap)}")
    if len(parameters_digest) != _DIGEST:
        raise InvalidInput("parameters_digest", f"{len(parameters_digest)} bytes", f"{_DIGEST} bytes")
    if not all(0 <= part < 2**64 for part in ballot):
        raise InvalidInput("ballot", ballot, "two numbers of at least 0 that fit into 8 bytes each")
    place = b"".join(part.to_bytes(8, "big") for part in (*ballot, hop))
    extended = bytearray(bitmap)
    extended[(hop - 1) // 8] |= 1 << (hop - 1) % 8
    return hashlib.sha256(digest + place + parameters_digest).digest() + bytes(extended)


def marks_of(chain: bytes) -> int:
    """Return the bitmap as a number: bit h - 1 is hop h."""
    for known, marks in _read[0]:
        if known is chain:
            return marks
    marks = int.from_bytes(_parts(chain)[1], "little")
    _read[0] = (chain, marks), *_read[0][: _REMEMBERED - 1]
    return marks


def updates_of(chain: bytes) -> int:
    """Return how many updates a chain has.

    >>> chain = extended_chain(blank_chain(20, b"run"), (0, 3), 7, bytes(32))
    >>> chain = extended_chain(chain, (0, 3), 12, bytes(32))
    >>> updates_of(chain), updated_hops(chain)
    (2, [7, 12])
    """
    return marks_of(chain).bit_count()


def updated_hops(chain: bytes) -> list[int]:
    """Return the hops that were updates, the first one first."""
    import numpy as np  # those who only read messages do not need it

    bitmap = np.frombuffer(_parts(chain)[1], dtype=np.uint8)
    hops: list[int] = (np.flatnonzero(np.unpackbits(bitmap, bitorder="little")) + 1).tolist()
    return hops


def updated_between(chain: bytes, first: int, last: int) -> list[bool]:
    """Return for each hop from `first` to `last` whether it was an update."""
    import numpy as np

    byte = (first - 1) // 8
    bitmap = np.frombuffer(_parts(chain)[1][byte : -(-last // 8)], dtype=np.uint8)
    marks: list[bool] = (
        np.unpackbits(bitmap, bitorder="little")[first - 1 - 8 * byte : last - 8 * byte].astype(bool).tolist()
    )
    return marks


def updated_by(chain: bytes, path: Sequence[int], first: int, last: int) -> set[int]:
    """Return the nodes that made an update in the hops from `first` to `last` of a path.

    >>> chain = extended_chain(blank_chain(20, b"run"), (0, 3), 7, bytes(32))
    >>> updated_by(chain, [0, 1, 2, 3] * 5, 1, 6), updated_by(chain, [0, 1, 2, 3] * 5, 7, 9)
    (set(), {2})
    """
    byte = (first - 1) // 8
    marks = int.from_bytes(chain[_DIGEST + byte : _DIGEST - (-last // 8)], "little") >> (first - 1 - 8 * byte)
    return {path[hop - 1] for hop in range(first, last + 1) if marks >> (hop - first) & 1}


def check_chain(chain: bytes, steps: int, *, updates: int, before_hop: int) -> None:
    """Refuse a chain that no token of a run of `steps` has which made `updates` before a hop."""
    require_integer("steps", steps, 1)
    wanted = _DIGEST + _bytes_for(steps)
    if len(chain) != wanted:
        raise InvalidInput("chain", f"{len(chain)} bytes", f"{wanted} bytes for a run of {steps} steps")
    marks = marks_of(chain)
    last, made = marks.bit_length(), marks.bit_count()
    if last > steps:
        raise InvalidInput.because("chain", f"an update at hop {last}", f"the run has {steps} steps")
    if last >= before_hop:
        raise InvalidInput.because("chain", f"an update at hop {last}", f"only hops before {before_hop} can have been")
    if made != updates:
        raise InvalidInput.because("chain", f"{made} updates", f"the token says {updates}")


def wrong_way(token: Token, path: Sequence[int], *, sender: int, hop: int | None, recovered: bool = True) -> str:
    """Say why a token cannot have come along the agreed path; nothing if it may have.

    `hop` is the one for which the sender passes it on; None if all are made. Unless it was `recovered`, a token without
    updates began with the first node of the path; after a recovery any node may have begun with it.
    """
    try:
        check_chain(token.chain, len(path), updates=token.updates, before_hop=len(path) + 1 if hop is None else hop)
    except InvalidInput as problem:
        return str(problem)
    if hop is not None and not token.updates and not recovered and sender not in path[: hop - 1]:
        return "passes on a token that it never had: it has no update yet, and it was never its turn"
    if hop is not None and token.updates:
        # It was the sender's turn at the last update, or after it, without one.
        since = path[marks_of(token.chain).bit_length() - 1 : hop - 1]
        if sender not in since:
            return f"passes on a token that it never had: the last update was that of hop {hop - len(since)}"
    return ""


def _bytes_for(steps: int) -> int:
    return -(-steps // 8)


def _parts(chain: bytes) -> tuple[bytes, bytes]:
    if len(chain) <= _DIGEST:
        raise InvalidInput("chain", f"{len(chain)} bytes", f"a digest of {_DIGEST} bytes and a bitmap")
    return chain[:_DIGEST], chain[_DIGEST:]
