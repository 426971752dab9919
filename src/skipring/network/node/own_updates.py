"""Which of its own updates a journal knows: those that others show, and that it does not know, were forgotten.

Only this node makes updates at its hops, after writing them down, and it signs them. So a token with others than the
journal has says that the journal is an old copy, or a new one in place of one that was lost. The newest own update on
a token is told from another at the same hop by the chain's digest after it, which is on the node's stamp. Earlier ones
are told apart by the hops that were updates before them.

What is remembered must not grow much with a run. Updates on one way of the run are known by its marks up to the last of
them, which are also those before each of the others. So there is one bitmap for each way. And of each digest eight
bytes are kept. Who meets one that was forgotten has this node's own signature of it, made with fresh random bytes that
nobody could choose. That its digest begins with the same eight bytes as another at its hop has a chance of 2^-64.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from ..protocol import Token, Trail, marks_of, own_stamp

_KEPT = 8  # bytes of a digest


@dataclass
class KnownWay:
    """Own updates of one way that a run went: their hops, and all marks up to the last of them (bit h - 1 is hop h)."""

    own: int
    marks: int

    def has(self, hop: int, marks: int) -> bool:
        """Say whether there is one at a hop, before which these marks are."""
        return bool(self.own >> (hop - 1) & 1) and not _upto(marks ^ self.marks, hop)


class OwnUpdates:
    """The updates of one node, each known by its hop and the marks of the chain up to it.

    Parameters
    ----------
    path : the node of each hop, the first hop first.
    me : the node whose updates they are.
    """

    def __init__(self, path: Sequence[int], me: int) -> None:
        bitmap = bytearray(-(-len(path) // 8))
        for at, node in enumerate(path):
            if node == me:
                bitmap[at // 8] |= 1 << at % 8
        self._own = int.from_bytes(bitmap, "little")  # bit h - 1 is hop h, as in a chain
        self._ways: list[KnownWay] = []
        self._me = me
        self._hops = 0  # at which there is one
        # The first bytes of the digests of the chains after each of them, hop by hop; where a hop has several, of the
        # first one here and of the others there.
        self._digests = bytearray()
        self._more: dict[int, set[bytes]] = {}
        # Those that were counted because they were forgotten, or may have been, each with the digests that are known.
        self._counted: dict[tuple[int, bytes], set[bytes]] = {}

    def wrote(self, hop: int, chain: bytes) -> None:
        """Take an own update that is in the journal, and the chain right after it."""
        marks, digest, bit = _upto(marks_of(chain), hop), chain[:_KEPT], 1 << (hop - 1)
        way = self._ways[-1] if self._ways else None
        if way is not None and (last := way.own.bit_length()) < hop and not _upto(marks ^ way.marks, last):
            way.own |= bit
            way.marks = marks
        else:
            self._ways.append(KnownWay(bit, marks))
        if self._hops & bit:
            self._more.setdefault(hop, set()).add(digest)
            return
        at = _KEPT * (len(self._digests) // _KEPT if self._hops < bit else self._before(hop))
        self._digests[at:at] = digest
        self._hops |= bit

    def _before(self, hop: int) -> int:
        """Return at how many hops before this one there is an own update."""
        return _upto(self._hops, hop - 1).bit_count()

    def _has_digest(self, hop: int, digest: bytes) -> bool:
        """Say whether the journal knows an own update at a hop, with this digest of the chain after it."""
        if not self._hops >> (hop - 1) & 1:
            return False
        at, digest = _KEPT * self._before(hop), digest[:_KEPT]
        return self._digests[at : at + _KEPT] == digest or digest in self._more.get(hop, ())

    def _is_written(self, hop: int, marks: int) -> bool:
        return any(way.has(hop, marks) for way in reversed(self._ways))

    def never_made(self, marks: int) -> int:
        """Return the newest hop among marks of a chain at which the journal knows no own update at all; 0 if none."""
        return (marks & self._own & ~self._hops).bit_length()

    def unknown(self, trail: Trail | Token) -> tuple[int, ...]:
        """Return the hops of own updates on a trail that the journal does not know, the newest first.

        One that it knows was made on a chain whose own updates it knew, so that nothing before it has to be looked at.
        """
        marks = marks_of(trail.chain)
        own, found = marks & self._own, []
        stamp = own_stamp(trail, self._me)
        if own and stamp is not None and not self._has_digest(own.bit_length(), stamp.digest):
            found.append(hop := own.bit_length())
            own ^= 1 << (hop - 1)
        while own and not self._is_written(hop := own.bit_length(), marks):
            found.append(hop)
            own ^= 1 << (hop - 1)
        return tuple(found)

    def reminded(self, trail: Trail | Token) -> list[int]:
        """Return the hops of updates on a trail that have to be counted for it, and were not yet.

        These are the unknown ones, and the newest that the journal knows, back to the last update of another node. An
        old copy, or an empty journal, may have begun with the same token once more. It may then have made another
        update at the same hop, which looks like the one on the chain.
        """
        fresh = self._to_count(trail)
        for update, digest in fresh:
            self._counted.setdefault(update, set()).add(digest)
        return sorted(hop for (hop, _), _ in fresh)

    def all_counted(self, trail: Trail | Token) -> bool:
        """Say whether nothing on a trail has to be counted that was not counted before."""
        return not self._to_count(trail)

    def _to_count(self, trail: Trail | Token) -> list[tuple[tuple[int, bytes], bytes]]:
        """Return the updates to count, each with the digest after it if that is known, which it is of the newest."""
        unknown, marks = self.unknown(trail), marks_of(trail.chain)
        if not unknown:
            return []
        known = marks & self._own & ((1 << (unknown[-1] - 1)) - 1)
        others = marks & ~self._own & ((1 << known.bit_length()) - 1)
        again = [at + 1 for at in range(others.bit_length(), known.bit_length()) if known >> at & 1]
        stamp, newest = own_stamp(trail, self._me), (marks & self._own).bit_length()
        found = []
        for hop in (*unknown, *again):
            update = _update(hop, marks)
            digest = stamp.digest if stamp is not None and hop == newest else b""
            counted = self._counted.get(update, set())
            # Without its digest, it is taken for one that was counted: it was the newest when it was.
            if digest not in counted and (digest or not counted):
                found.append((update, digest))
        return found


def _upto(marks: int, hop: int) -> int:
    """Return the marks up to a hop."""
    return marks & ((1 << hop) - 1)


def _update(hop: int, marks: int) -> tuple[int, bytes]:
    return hop, sha256(_upto(marks, hop).to_bytes(-(-hop // 8), "little")).digest()
