"""Which of its own updates a journal knows: those that others show, and that it does not know, were forgotten.

Only this node makes updates at its hops, after writing them down. So a token whose chain has others than the journal
says that the journal is an old copy, or a new one in place of one that was lost; or that somebody has forged the chain.
An update is told from another at the same hop by the hops that were updates before it.
"""

from __future__ import annotations

from collections.abc import Sequence
from hashlib import sha256

__all__ = ["OwnUpdates"]


class OwnUpdates:
    """The updates of one node, each known by its hop and the marks of the chain up to it.

    Parameters
    ----------
    path : the node of each hop, the first hop first.
    me : the node whose updates they are.
    """

    def __init__(self, path: Sequence[int], me: int) -> None:
        self._own = sum(1 << at for at, node in enumerate(path) if node == me)  # bit h - 1 is hop h, as in a chain
        self._written: set[tuple[int, bytes]] = set()
        self._hops = 0  # at which there is one
        self._counted: set[tuple[int, bytes]] = set()  # of those that were forgotten, or may have been

    def wrote(self, hop: int, marks: int) -> None:
        """Take an own update that is in the journal."""
        self._written.add(_update(hop, marks))
        self._hops |= 1 << (hop - 1)

    def never_made(self, marks: int) -> int:
        """Return the newest hop among marks of a chain at which the journal knows no own update at all; 0 if none."""
        return (marks & self._own & ~self._hops).bit_length()

    def unknown(self, marks: int) -> tuple[int, ...]:
        """Return the hops of own updates among the marks of a chain that the journal does not know, the newest first.

        One that it knows was made on a chain whose own updates it knew, so that nothing before it has to be looked at.
        """
        own, found = marks & self._own, []
        while own and _update(hop := own.bit_length(), marks) not in self._written:
            found.append(hop)
            own ^= 1 << (hop - 1)
        return tuple(found)

    def reminded(self, marks: int) -> list[int]:
        """Return the hops of updates among the marks of a chain that have to be counted for it, and were not yet.

        These are the unknown ones, and the newest that the journal knows, back to the last update of another node: an
        old copy, or an empty journal, may have begun with the same token once more, and made another update at the
        same hop, which looks like the one on the chain.
        """
        fresh = self._to_count(marks) - self._counted
        self._counted |= fresh
        return sorted(hop for hop, _ in fresh)

    def all_counted(self, marks: int) -> bool:
        """Say whether nothing on a chain has to be counted that was not counted before."""
        return self._to_count(marks) <= self._counted

    def _to_count(self, marks: int) -> set[tuple[int, bytes]]:
        unknown = self.unknown(marks)
        if not unknown:
            return set()
        known = marks & self._own & ((1 << (unknown[-1] - 1)) - 1)
        others = marks & ~self._own & ((1 << known.bit_length()) - 1)
        again = [at + 1 for at in range(others.bit_length(), known.bit_length()) if known >> at & 1]
        return {_update(hop, marks) for hop in (*unknown, *again)}


def _update(hop: int, marks: int) -> tuple[int, bytes]:
    before = marks & ((1 << hop) - 1)
    return hop, sha256(before.to_bytes(-(-hop // 8), "little")).digest()
