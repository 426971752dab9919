"""What a node signs, so that others need not take one node's word for what many have said.

The state machine knows no keys. It is given a `Seal`, which signs for this node, and checks what others have signed;
`transport.Notary` is one with the nodes' own keys. There is none that trusts every node.
"""

from __future__ import annotations

from typing import Protocol

from .messages import Ballot, Token


class Seal(Protocol):
    """Signs for one node of a run, and checks what all nodes of that run have signed."""

    def vote(self, ballot: Ballot, token: Token) -> bytes:
        """Sign that this node has written down a final model under a ballot."""

    def promise(self, ballot: Ballot) -> bytes:
        """Sign that this node listens to no lower ballot."""

    def stamp(self, what: bytes) -> bytes:
        """Sign an update of this node."""

    def wish(self) -> bytes:
        """Sign that the owner of this node wishes the run to end."""

    def is_wish(self, node: int, wish: bytes) -> bool:
        """Say whether a node has signed that its owner wishes this run to end."""

    def is_stamp(self, node: int, what: bytes, signature: bytes) -> bool:
        """Say whether a node has signed an update."""

    def is_promise(self, node: int, ballot: Ballot, promise: bytes) -> bool:
        """Say whether a node has signed that it listens to no lower ballot than this one."""

    def is_vote(self, node: int, ballot: Ballot, token: Token, vote: bytes) -> bool:
        """Say whether a node has signed that it has written down this final model under this ballot."""
