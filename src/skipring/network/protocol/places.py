"""Where a node's updates were: a sequence of places that grows by one at a time, for as long as a run lasts."""

from __future__ import annotations

from array import array
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

from .messages import Ballot, Place


class Places(Sequence[Place]):
    """Places in the order in which they came. It never changes; `plus` returns a longer one, which shares its memory.

    A tuple would be copied for each place that is added. Here a place takes eight bytes, and to find one takes no
    longer the more there are. Under one ballot hops only go up, and where they do not, a new stretch begins.

    >>> places = Places().plus(((0, 3), 1)).plus(((0, 3), 4))
    >>> len(places), ((0, 3), 4) in places, places == (((0, 3), 1), ((0, 3), 4))
    (2, True, True)
    """

    __slots__ = ("_ballots", "_count", "_hops", "_starts")

    def __init__(self, places: Iterable[Place] = ()) -> None:
        # A stretch is of one ballot, and its hops go up. All of it may have grown since, on behalf of a longer one.
        self._ballots: list[Ballot] = []
        self._starts: list[int] = []
        self._hops = array("Q")
        self._count = 0
        for place in places:
            self._append(place)

    def _append(self, place: Place) -> None:
        ballot, hop = place
        if not self._count or self._ballots[-1] != ballot or self._hops[-1] >= hop:
            self._ballots.append(ballot)
            self._starts.append(self._count)
        self._hops.append(hop)
        self._count += 1

    def plus(self, place: Place) -> Places:
        """Return these places and one more."""
        longer = Places()
        longer._ballots, longer._starts, longer._hops = self._ballots, self._starts, self._hops
        longer._count = self._count
        if self._count < len(self._hops):  # another one has grown from here already: leave it alone
            stretches = sum(start < self._count for start in self._starts)
            longer._ballots, longer._starts = self._ballots[:stretches], self._starts[:stretches]
            longer._hops = self._hops[: self._count]
        longer._append(place)
        return longer

    def stretches(self) -> list[tuple[Ballot, str, bytes]]:
        """Return each stretch in few bytes, to be written down: ballot, and the steps from hop to hop."""
        import numpy as np  # those who only read messages do not need it

        found = []
        for ballot, first, last in self._stretches():
            steps = np.diff(np.array(self._hops[first:last], dtype=np.uint64), prepend=np.uint64(0))
            kind = next(kind for kind in ("<u1", "<u2", "<u4", "<u8") if steps.max() <= np.iinfo(kind).max)
            found.append((ballot, kind, steps.astype(kind).tobytes()))
        return found

    @classmethod
    def of(cls, stretches: Iterable[tuple[Ballot, str, bytes]]) -> Places:
        """Return the places whose `stretches` these are."""
        import numpy as np

        places = cls()
        for ballot, kind, steps in stretches:
            places._ballots.append(ballot)
            places._starts.append(places._count)
            places._hops.frombytes(np.cumsum(np.frombuffer(steps, kind), dtype=np.uint64).tobytes())
            places._count = len(places._hops)
        return places

    def _stretches(self) -> Iterator[tuple[Ballot, int, int]]:
        for at, ballot in enumerate(self._ballots):
            first = self._starts[at]
            if first >= self._count:
                return
            last = self._starts[at + 1] if at + 1 < len(self._starts) else self._count
            yield ballot, first, min(last, self._count)

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Place]:
        for ballot, first, last in self._stretches():
            for at in range(first, last):
                yield ballot, self._hops[at]

    def __contains__(self, place: object) -> bool:
        if not isinstance(place, tuple) or len(place) != 2:
            return False
        for ballot, first, last in self._stretches():
            if ballot == place[0]:
                at = bisect_left(self._hops, place[1], first, last)
                if at < last and self._hops[at] == place[1]:
                    return True
        return False

    @overload
    def __getitem__(self, at: int) -> Place: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[Place, ...]: ...
    def __getitem__(self, at: int | slice) -> Place | tuple[Place, ...]:
        return tuple(self)[at]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Places):
            return self._count == other._count and all(mine == its for mine, its in zip(self, other, strict=True))
        return tuple(self) == other if isinstance(other, tuple) else NotImplemented

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))
