"""What a node at work sees of the others: the timeout that it has learned, and what its connections tell."""

from __future__ import annotations

from typing import Protocol

from .pace import Pace

__all__ = ["NodeSight"]


class Connections(Protocol):
    """What is asked of a node's connections."""

    @property
    def reachable(self) -> set[int]:
        """The nodes that messages go through to."""

    def carries_to(self, node: int | None) -> bool:
        """Say whether a large model is on its way to a node."""

    def moves_to(self, node: int) -> bool:
        """Say whether some of a large model has left for a node not long ago."""


class NodeSight:
    """What the state machine is told when it decides how long to wait (`protocol.Sight`)."""

    def __init__(self, pace: Pace, connections: Connections) -> None:
        self._pace, self._connections = pace, connections

    def offer_timeout(self) -> float:
        """Return how long the node of a new offer may take to be ready."""
        return self._pace.offered()

    def reaches(self, node: int) -> bool:
        """Say whether there is a connection to a node."""
        return node in self._connections.reachable

    def carries_to(self, node: int) -> bool:
        """Say whether a large model is on its way to a node."""
        return self._connections.carries_to(node)

    def moves_to(self, node: int) -> bool:
        """Say whether some of a large model has left for a node not long ago."""
        return self._connections.moves_to(node)
