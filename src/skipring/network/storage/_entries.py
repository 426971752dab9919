"""Entries of a journal as bytes, and back.

A row is what was written at once: when, and the entries. Of a token it has what the newest copy before it has not: the
marks and stamps that are new. So a row does not grow with the length of the run. Its parameters are replaced by their
SHA-256, and by their size if they are in a file.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from .._packing import Packer
from ..protocol import (
    Copy,
    Entry,
    Forgotten,
    Forked,
    Gone,
    Heard,
    Kept,
    Kind,
    Over,
    Parameters,
    Passing,
    Rank,
    Released,
    Settled,
    Signatures,
    Token,
    Trail,
    Wished,
)

_DIGEST = 32
_WITHOUT, _WITH_SUM = b"\0", b"\1"  # the first byte of a row
_HEAD = 9  # bytes of that and of the time
_NEAR = 64  # bytes that are compared as numbers
_STAMP = slice(16, 48)  # where a stamp has the digest of the chain


@dataclass(frozen=True)
class _Step:
    """What a token has, or a trail, that the one before it has not.

    Parameters
    ----------
    updates : of the token.
    digest : of its chain; a number says which one of these stamps has it.
    at, marks : the bytes of its bitmap from there on are these; the others are as before. None: all of the chain.
    stamps : those that are new.
    gone : the nodes whose stamps are not there any more. None: `stamps` are all that there are.
    parameters : the SHA-256 of its parameters.
    file : their size if they are in a file.
    """

    updates: int
    digest: bytes | int
    at: int | None
    marks: bytes
    stamps: Signatures
    gone: tuple[int, ...] | None
    parameters: bytes
    file: int | None


#: What is in rows. A number is never used again for something else.
_PACKER = Packer(
    {
        Heard: 1,
        Kept: 2,
        Released: 3,
        Passing: 4,
        Gone: 5,
        Over: 6,
        Forgotten: 7,
        Forked: 8,
        Wished: 9,
        Settled: 10,
        Copy: 20,
        _Step: 21,
    }
)


@dataclass(frozen=True)
class Line:
    """An entry as it was read: when it was written, and the SHA-256 of the parameters that it brings, if it does."""

    written: float
    entry: Entry
    parameters: str = ""
    file: int | None = None  # their size if they are in a file


def token_in(entry: Entry) -> Token | None:
    """Return the token that an entry brings, if it does."""
    if isinstance(entry, Kept | Released):
        return entry.copy.token
    return entry.token if isinstance(entry, Over) else None


# Writing.


class Row:
    """What is written at once: entries are added one by one, then it is bytes."""

    def __init__(self, written: float) -> None:
        self._time, self._entries = struct.pack("<d", written), bytearray()

    def add(self, entry: Entry, base: Token, name: str = "", size: int | None = None) -> None:
        """Add an entry; `base` is the newest copy's token before it, `name` and `size` say which parameters it has."""
        instead = {
            Token: lambda token: _step(token, token.updates, base, bytes.fromhex(name), size),
            Trail: lambda trail: _step(trail, 0, base, b"", None),
        }
        self._entries += _PACKER.pack(entry, instead)

    def __len__(self) -> int:
        return len(self._entries)

    def content(self, state: bytes | None = None) -> bytes:
        """Return it as bytes, with the SHA-256 of a state that all rows up to it have added up to, if there is one."""
        head = _WITHOUT + self._time if state is None else _WITH_SUM + self._time + hashlib.sha256(state).digest()
        return head + bytes(self._entries)


def _with(entry: Entry, token: Any) -> Entry:
    if isinstance(entry, Kept | Released):
        return replace(entry, copy=replace(entry.copy, token=token))
    assert isinstance(entry, Over)
    return replace(entry, token=token)


def _step(token: Token | Trail, updates: int, base: Token, name: bytes, size: int | None) -> _Step:
    before, after = dict(base.stamps), dict(token.stamps)
    stamps = tuple((node, stamp) for node, stamp in token.stamps if before.get(node) != stamp)
    gone: tuple[int, ...] | None = tuple(node for node in before if node not in after)
    if token.stamps != tuple(sorted(after.items())):  # no honest node has written them so
        stamps, gone = token.stamps, None
    chain = token.chain
    if len(chain) != len(base.chain) or len(chain) <= _DIGEST:
        return _Step(updates, b"", None, chain, stamps, gone, name, size)
    digest: bytes | int = chain[:_DIGEST]
    digest = next((at for at, (_, stamp) in enumerate(stamps) if stamp[_STAMP] == digest), digest)
    old, new = base.chain[_DIGEST:], chain[_DIGEST:]
    first, last = _window(old, new)
    return _Step(updates, digest, first, new[first:last], stamps, gone, name, size)


def _window(old: bytes, new: bytes) -> tuple[int, int]:
    """Return where two bitmaps of the same length differ: from which byte on, and up to which.

    To compare halves, again and again, takes a hundredth of the time of comparing all as numbers.
    """
    first, last = 0, len(new)
    while last - first > _NEAR:  # the first difference lies in between, if there is one
        middle = (first + last) // 2
        if old[first:middle] == new[first:middle]:
            first = middle
        else:
            last = middle
    begin, last = first, len(new)
    while last - first > _NEAR:  # so does the last one
        middle = (first + last) // 2
        if old[middle:last] == new[middle:last]:
            last = middle
        else:
            first = middle
    ahead = _differ(old, new, begin, min(begin + _NEAR, len(new)))
    behind = _differ(old, new, first, last)
    return begin + ((ahead & -ahead).bit_length() - 1) // 8 if ahead else begin, first + -(-behind.bit_length() // 8)


def _differ(old: bytes, new: bytes, first: int, last: int) -> int:
    return int.from_bytes(old[first:last], "little") ^ int.from_bytes(new[first:last], "little")


# Reading.


class Lines(NamedTuple):
    """The entries of a row, and the newest copy's token after it."""

    lines: list[Line]
    base: Token


def sum_of(row: bytes) -> bytes | None:
    """Return the SHA-256 of what the rows up to this one add up to, if that was written down with it."""
    return row[_HEAD:][:_DIGEST] if row[:1] == _WITH_SUM else None


def lines_in(row: bytes, base: Token, models: Mapping[str, Parameters]) -> Lines:
    """Read a row; `base` is the newest copy's token before it. Entries have those parameters that are still there."""
    (written,) = struct.unpack_from("<d", row, 1)
    lines = []
    for item in _PACKER.unpack_all(row, _HEAD if sum_of(row) is None else _HEAD + _DIGEST):
        line = _line(written, item, base, models)
        lines.append(line)
        if isinstance(line.entry, Kept | Released):
            base = line.entry.copy.token
    return Lines(lines, base)


def _line(written: float, item: Any, base: Token, models: Mapping[str, Parameters]) -> Line:
    step: Any = token_in(item) if isinstance(item, Kept | Released | Over) else None
    if isinstance(item, Forgotten | Settled):
        return Line(written, replace(item, trail=_trail(item.trail, base)))
    if isinstance(item, Heard):
        return Line(written, with_kinds(item))
    if step is None:
        return Line(written, item)
    name, trail = step.parameters.hex(), _trail(step, base)
    entry = _with(item, Token(step.updates, models.get(name, b""), trail.chain, trail.stamps))
    if isinstance(entry, Kept | Released):
        entry = replace(entry, copy=replace(entry.copy, kind=Kind(entry.copy.kind)))
    return Line(written, entry, name, step.file)


def with_kinds(heard: Heard) -> Heard:
    """Return what was heard with kinds of copies, where numbers were read."""
    before = None if heard.before is None else tuple((ballot, ranked(rank)) for ballot, rank in heard.before)
    return replace(heard, start=ranked(heard.start), before=before)


def ranked(rank: Rank | None) -> Rank | None:
    """Return how far a copy is, with its kind where a number was read."""
    return None if rank is None else (rank[0], rank[1], Kind(rank[2]))


def _trail(step: Any, base: Token) -> Trail:
    stamps = step.stamps
    if step.gone is not None:
        known = {node: stamp for node, stamp in base.stamps if node not in step.gone} | dict(stamps)
        stamps = tuple(sorted(known.items()))
    if step.at is None:
        return Trail(step.marks, stamps)
    old, digest = base.chain[_DIGEST:], step.digest
    if isinstance(digest, int):
        digest = step.stamps[digest][1][_STAMP]
    bitmap = old[: step.at] + step.marks + old[step.at + len(step.marks) :]
    return Trail(digest + bitmap, stamps)
