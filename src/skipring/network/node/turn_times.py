"""How long turns take, of all nodes: what one node sees of it is little, so it travels with the token.

A turn is what a node takes to be ready, as the node that offered it the token saw it, and to compute. Of one that was
given up, or that came to nothing, it is known that it takes longer. Nothing else is told: neither of what, nor how many
rows there were.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable

from ..protocol import MOST_TURN_BYTES
from .pace import Pace

_TURN = struct.Struct("<If?")
_MOST = MOST_TURN_BYTES // _TURN.size
#: No turn that is told of took longer, in seconds.
_LONGEST = 1e6
#: Messages are taken to add at most these seconds to what a node has measured itself.
_MESSAGES = 1.0


class TurnTimes:
    """The newest turns that a node knows of; what is new among them is what its timeout is learned from.

    What the node has seen itself is always learned from, and counts for more than what a token claims.

    Parameters
    ----------
    pace : learns from them.
    keep : is called now and then, when much was learned.
    """

    def __init__(self, pace: Pace, keep: Callable[[], None] = lambda: None) -> None:
        self._pace, self._keep = pace, keep
        self._news = 0
        self._turns: dict[int, tuple[float, bool]] = {}
        self._ready: tuple[int, float] | None = None  # the hop that was last seen to be ready, and after how long

    def was_ready(self, hop: int, seconds: float) -> None:
        """Take note of how long the node of a hop took to say that it is ready."""
        self._ready = hop, seconds

    def took(self, hop: int, seconds: float, *, ready_after: float = 0.0, in_time: bool) -> None:
        """Take note of a turn that this node has made, and how long it took once it was ready, or that it gave up."""
        own = True
        if self._ready is not None and self._ready[0] == hop:
            own = self._ready[1] <= ready_after + _MESSAGES  # more than messages take is a claim, and counts as one
            ready_after = max(ready_after, self._ready[1])  # as the other side saw it, with what messages took
        turn = min(max(ready_after + seconds, 0.0), _LONGEST), in_time
        self._turns[hop] = turn  # whatever a token has claimed about it
        self._learn(turn, own=own)
        self._forget()

    def heard(self, told: bytes, hop: int) -> None:
        """Take note of what came with the token of a hop; what makes no sense is left out.

        Only turns before that hop can have been; what is known of later ones is of a way that a recovery has given up.
        Turns at hops to come would otherwise be the newest for ever, and nothing would be learned from any other.
        """
        found = {}
        self._turns = {number: turn for number, turn in self._turns.items() if number < hop}
        for at in range(0, len(told) - _TURN.size + 1, _TURN.size):
            number, seconds, in_time = _TURN.unpack_from(told, at)
            if number <= hop and math.isfinite(seconds) and 0.0 <= seconds <= _LONGEST:
                found[number] = seconds, in_time
        if hop in found:
            self._ready = hop, found.pop(hop)[0]
        oldest = min(self._turns) if len(self._turns) == _MOST else 0
        for number in sorted(found.keys() - self._turns.keys()):
            if number > oldest:  # what came before the newest ones was counted when it was new
                self._turns[number] = found[number]
                self._learn(found[number], own=False)
        self._forget()

    def told(self) -> bytes:
        """Return the newest turns, for the next node, and how long it took that node to be ready."""
        known = self._turns if self._ready is None else {**self._turns, self._ready[0]: (self._ready[1], True)}
        return b"".join(_TURN.pack(hop, *turn) for hop, turn in sorted(known.items())[-_MOST:])

    def _learn(self, turn: tuple[float, bool], *, own: bool) -> None:
        self._pace.saw(*turn, own=own)
        self._news += 1

    def _forget(self) -> None:
        """Keep the newest turns, and write down now and then what was learned."""
        self._turns = dict(sorted(self._turns.items())[-_MOST:])
        if self._news >= _MOST:
            self._news = 0
            self._keep()
