"""The same protocol between real machines: so far its state machine, which any driver can run.

`Peer` is one node: it is told what happened and answers with what is to be done. `Rules` is what all nodes agree on,
`agreed_path` the order in which they are offered the token, and `Memory` what a node's journal adds up to.
docs/protocol.md explains it.
"""

from __future__ import annotations

from .journal import Entry, Memory
from .messages import Ballot, Copy, Kind, Message, Place, Token
from .order import agreed_path
from .protocol import Action, Peer, Rules

__all__ = [
    "Action",
    "Ballot",
    "Copy",
    "Entry",
    "Kind",
    "Memory",
    "Message",
    "Peer",
    "Place",
    "Rules",
    "Token",
    "agreed_path",
]
