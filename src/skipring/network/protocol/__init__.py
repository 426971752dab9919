"""How nodes pass a token on without a server: what they say, what each must not forget, and what follows from it.

A state machine without clock, network, disk or chance. `Peer` is told what happened and answers with what is to be done
(`Action`), in order; `Rules` is what all nodes agree on, `agreed_path` the order in which they are offered the token,
`Memory` what the entries of a node's journal add up to, `Fold` what adds them up, `Sight` what a node is told of the
world around it. A token's `chain` tells which hops have updated it. docs/protocol.md explains it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..._lazy import lazily
from ._presence import HOP_BYTES
from ._state import Rules
from .actions import (
    Action,
    Broke,
    Compute,
    News,
    PrepareBatch,
    Rule,
    Say,
    Send,
    SetTimer,
    StopTimer,
    Timer,
    Write,
)
from .fold import Account, Fold, Release
from .journal import Entry, Forgotten, Gone, Heard, Kept, Memory, Over, Passing, Released
from .messages import (
    Accepted,
    Agree,
    Answer,
    Ask,
    Ballot,
    Copy,
    Decided,
    Doubt,
    Final,
    FinalAccepted,
    Fine,
    Hello,
    Here,
    Kind,
    LargeParameters,
    Message,
    Moved,
    Offer,
    Outcome,
    Parameters,
    Pass,
    Place,
    Prepare,
    Promise,
    Ready,
    Refuse,
    Reject,
    Resume,
    Resumed,
    Signatures,
    Ticket,
    Token,
    WantOutcome,
    WantTicket,
)
from .numbers import field_numbers, message_number, numbered, on_wire
from .order import agreed_path, path_of
from .peer import Peer
from .seal import Seal
from .sight import FRESH, ClearSight, Sight
from .standing import Stand, Standing

if TYPE_CHECKING:
    from .chain import (
        blank_chain,
        check_chain,
        extended_chain,
        marks_of,
        sealed,
        updated_between,
        updated_hops,
        updates_of,
        wrong_way,
    )

__all__ = [
    "FRESH",
    "HOP_BYTES",
    "Accepted",
    "Account",
    "Action",
    "Agree",
    "Answer",
    "Ask",
    "Ballot",
    "Broke",
    "ClearSight",
    "Compute",
    "Copy",
    "Decided",
    "Doubt",
    "Entry",
    "Final",
    "FinalAccepted",
    "Fine",
    "Fold",
    "Forgotten",
    "Gone",
    "Heard",
    "Hello",
    "Here",
    "Kept",
    "Kind",
    "LargeParameters",
    "Memory",
    "Message",
    "Moved",
    "News",
    "Offer",
    "Outcome",
    "Over",
    "Parameters",
    "Pass",
    "Passing",
    "Peer",
    "Place",
    "Prepare",
    "PrepareBatch",
    "Promise",
    "Ready",
    "Refuse",
    "Reject",
    "Release",
    "Released",
    "Resume",
    "Resumed",
    "Rule",
    "Rules",
    "Say",
    "Seal",
    "Send",
    "SetTimer",
    "Sight",
    "Signatures",
    "Stand",
    "Standing",
    "StopTimer",
    "Ticket",
    "Timer",
    "Token",
    "WantOutcome",
    "WantTicket",
    "Write",
    "agreed_path",
    "blank_chain",
    "check_chain",
    "extended_chain",
    "field_numbers",
    "marks_of",
    "message_number",
    "numbered",
    "on_wire",
    "path_of",
    "sealed",
    "updated_between",
    "updated_hops",
    "updates_of",
    "wrong_way",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "blank_chain": "chain",
        "check_chain": "chain",
        "extended_chain": "chain",
        "marks_of": "chain",
        "sealed": "chain",
        "updated_between": "chain",
        "updated_hops": "chain",
        "updates_of": "chain",
        "wrong_way": "chain",
    },
)
