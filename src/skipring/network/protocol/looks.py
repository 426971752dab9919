"""What a node tells after the end of a run with recoveries: where it was gone on from, and who may have looked where.

All of it is in the node's journal: the ballots that it has heard of, each with the copy that was gone on with, if it
knows. And for each ballot it has the hops for which the node has sent a token, or may have, and of which it has taken
one.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from ...errors import InvalidInput
from .journal import Memory
from .messages import Ballot, Kind, Rank

#: The most bytes of an answer; a node that would have to say more does not answer.
MOST_PLACES = 1 << 20
#: The most that such bytes may grow to; enough for a hundred recoveries in a run of half a million hops.
_MOST_UNPACKED = 1 << 24
_BALLOT = struct.Struct(">QI")
_START = struct.Struct(">QIQB")
_LENGTH = struct.Struct(">I")


@dataclass(frozen=True)
class Told:
    """What one node tells.

    Parameters
    ----------
    starts : the ballots of recoveries that it has heard of, each with the copy that was gone on with, None if it does
        not know. A ballot of its own without one was never gone on with.
    passed : the hops of each ballot for which it has sent a token, or may have; bit h is hop h.
    taken : the hops of each ballot of which it has taken a token.
    """

    starts: Mapping[Ballot, Rank | None] = field(default_factory=dict)
    passed: Mapping[Ballot, int] = field(default_factory=dict)
    taken: Mapping[Ballot, int] = field(default_factory=dict)

    @classmethod
    def of(cls, memory: Memory) -> Told:
        """Return what a journal tells."""
        passed = {track.ballot: track.passed for track in memory.tracks}
        return cls(dict(memory.starts), passed, {track.ballot: track.taken for track in memory.tracks})

    @property
    def places(self) -> bytes:
        """The same in bytes: the ballots in order, packed."""
        parts = []
        for ballot in sorted({*self.starts, *self.passed, *self.taken}):
            start = self.starts.get(ballot)
            parts += [_BALLOT.pack(*ballot), bytes([(ballot in self.starts) + (start is not None)])]
            if start is not None:
                parts.append(_START.pack(*start[0], start[1], start[2]))
            for hops in (self.passed.get(ballot, 0), self.taken.get(ballot, 0)):
                found = hops.to_bytes(-(-hops.bit_length() // 8), "little")
                parts += [_LENGTH.pack(len(found)), found]
        return zlib.compress(b"".join(parts))

    @classmethod
    def read(cls, places: bytes, *, nodes: int, steps: int) -> Told:
        """Read it back, or refuse what no node tells; nothing else can go wrong here, even if a liar sent it."""
        unpacking = zlib.decompressobj()
        try:
            raw = unpacking.decompress(places[: MOST_PLACES + 1], _MOST_UNPACKED)
            if len(places) > MOST_PLACES or not unpacking.eof or unpacking.unused_data:
                raise ValueError("too long, or cut off")
            return cls._read(raw, nodes, steps)
        except (ValueError, struct.error, zlib.error) as error:
            raise InvalidInput.because("places", f"{len(places)} bytes", f"no node tells this ({error})") from None

    @classmethod
    def _read(cls, raw: bytes, nodes: int, steps: int) -> Told:
        starts: dict[Ballot, Rank | None] = {}
        passed: dict[Ballot, int] = {}
        taken: dict[Ballot, int] = {}
        at, last = 0, (-1, -1)
        while at < len(raw):
            ballot: Ballot = _BALLOT.unpack_from(raw, at)
            at += _BALLOT.size
            if ballot <= last or ballot[1] >= nodes:
                raise ValueError("ballots that are not those of nodes, in order")
            heard, at, last = raw[at : at + 1], at + 1, ballot
            if heard not in (b"\0", b"\1", b"\2"):
                raise ValueError("no sign of whether a ballot was heard of")
            if heard != b"\0":
                starts[ballot] = None
            if heard == b"\2":
                number, node, hop, kind = _START.unpack_from(raw, at)
                at += _START.size
                starts[ballot] = (number, node), hop, Kind(kind)
            for found in (passed, taken):
                (length,) = _LENGTH.unpack_from(raw, at)
                hops = int.from_bytes(raw[at + _LENGTH.size : at + _LENGTH.size + length], "little")
                at += _LENGTH.size + length
                if hops & 1 or hops.bit_length() > steps + 2:
                    raise ValueError(f"hops that a run of {steps} has not")
                found[ballot] = hops
        if at != len(raw):
            raise ValueError("cut off")
        return cls(starts, passed, taken)


def hops_in(hops: int) -> list[int]:
    """Return the hops of a bitmap; bit h is hop h.

    >>> hops_in(0b10110)
    [1, 2, 4]
    """
    return [hop for hop in range(1, hops.bit_length()) if hops >> hop & 1]
