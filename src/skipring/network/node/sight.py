"""What a node at work sees of the others: the timeout that it has learned, and what its connections tell."""

from __future__ import annotations

from typing import Protocol

from .pace import Pace

#: However long a node has taken to be ready, it may compute for this share of the timeout, and at least for these
#: seconds: a machine that does something else for a moment must not cost a turn.
_SHARE, _LEAST = 0.125, 0.05


class Connections(Protocol):
    """What is asked of a node's connections."""

    @property
    def reachable(self) -> set[int]:
        """The nodes that messages go through to."""

    def carries_to(self, node: int | None) -> bool:
        """Say whether a large model is on its way to a node."""

    def moves_to(self, node: int) -> bool:
        """Say whether some of a large model has left for a node not long ago."""


class OwnReadiness(Protocol):
    """What is asked of a node's readiness."""

    @property
    def waited(self) -> float:
        """How long the turn that is on has waited for this node to be ready."""


class ToldTurns(Protocol):
    """What is asked of what a node knows of turns."""

    def told(self) -> bytes:
        """Return the newest turns, for the next node."""


class NodeSight:
    """What the state machine is told when it decides how long to wait (`protocol.Sight`)."""

    def __init__(self, pace: Pace, connections: Connections, readiness: OwnReadiness, turns: ToldTurns | None) -> None:
        self._pace, self._connections, self._readiness, self._turns = pace, connections, readiness, turns

    def offer_timeout(self) -> float:
        """Return how long the node of a new offer may take to be ready."""
        return self._pace.offered()

    def turn_timeout(self) -> float:
        """Return how long this node may compute at its turn."""
        timeout = self._pace.timeout
        return max(timeout - self._readiness.waited, _SHARE * timeout, _LEAST)

    @property
    def longest_turn(self) -> float:
        """How long this node may compute if it is ready at once."""
        return max(self._pace.timeout, _LEAST)

    def turns_told(self) -> bytes:
        """Return how long the newest turns took, where the timeout is learned."""
        return b"" if self._turns is None else self._turns.told()

    def reaches(self, node: int) -> bool:
        """Say whether there is a connection to a node."""
        return node in self._connections.reachable

    def carries_to(self, node: int) -> bool:
        """Say whether a large model is on its way to a node."""
        return self._connections.carries_to(node)

    def moves_to(self, node: int) -> bool:
        """Say whether some of a large model has left for a node not long ago."""
        return self._connections.moves_to(node)
