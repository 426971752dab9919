"""The same protocol between real machines.

Its heart is a state machine without I/O: `Peer` is told what happened and answers with what is to be done; `Rules` is
what all nodes agree on, `agreed_path` the order in which they are offered the token, `Memory` what a node's journal
adds up to. Around it, each in a file of its own and imported from there, since they need the extra ``network``:

- who takes part: `roster`, `identity`, `checks`, `config`
- what all agree on: `agreed_run`, `agreement`, `order`
- how messages travel: `messages`, `wire`, `transport`
- what is remembered: `journal`, `journal_file`, `model_file`
- what a node computes, and what it costs: `learner`, `noise`, `chain`, `ledger`, `given_away`
- running it: `setup`, `pace`, `node`, `process`, `monitor`, `local`

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
