"""What a node sees of the world around it: how long others may take, whom it reaches, what is still on its way.

The state machine has no clock and no network. It decides how long to wait, and is told by its driver what the decision
depends on.
"""

from __future__ import annotations

from typing import Protocol

#: Seconds that a message waits for a connection; later it may be wrong, and is dropped.
FRESH = 1.0


class Sight(Protocol):
    """What the state machine is told when it decides how long to wait."""

    def offer_timeout(self) -> float:
        """Return how long the node of a new offer may take to be ready; asked once for each offer."""

    def turn_timeout(self) -> float:
        """Return how long this node may compute at its turn: the timeout, less what it took to be ready."""

    def turns_told(self) -> bytes:
        """Return how long the newest turns took, as far as is known, for the node that is next."""

    def reaches(self, node: int) -> bool:
        """Say whether messages to a node go through, as far as is known."""

    def carries_to(self, node: int) -> bool:
        """Say whether a large model is on its way to a node."""

    def moves_to(self, node: int) -> bool:
        """Say whether a large model is on its way to a node, and some of it has left not long ago."""


class ClearSight:
    """A world in which all nodes are reached, models arrive at once, and all offers wait equally long."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout

    def offer_timeout(self) -> float:
        """Return the timeout."""
        return self._timeout

    def turn_timeout(self) -> float:
        """Return the timeout."""
        return self._timeout

    def turns_told(self) -> bytes:
        """Return nothing."""
        return b""

    def reaches(self, node: int) -> bool:
        """Say yes."""
        return True

    def carries_to(self, node: int) -> bool:
        """Say no."""
        return False

    def moves_to(self, node: int) -> bool:
        """Say no."""
        return False
