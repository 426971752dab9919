"""The turns of one node in a run: which hops they are, and which part of its rows it uses at each."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Sequence


class OwnTurns:
    """The hops of the agreed path that are one node's, skipped or not; a few bytes for each.

    >>> turns = OwnTurns([0, 1, 0, 1, 0], me=0)
    >>> turns.before(5), turns.part_at(5, parts=2), turns.part_at(4, parts=2)
    (2, 0, None)
    """

    def __init__(self, path: Sequence[int], me: int) -> None:
        self._hops = array("Q", (hop for hop, node in enumerate(path, 1) if node == me))

    def before(self, hop: int) -> int:
        """Return how many there are before a hop."""
        return bisect_left(self._hops, hop)

    def part_at(self, hop: int, parts: int) -> int | None:
        """Return which of the parts is used at a hop; None if the hop is not this node's."""
        turn = self.before(hop)
        return turn % parts if turn < len(self._hops) and self._hops[turn] == hop else None
