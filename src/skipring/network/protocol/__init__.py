"""How nodes pass a token on without a server: what they say, what each must not forget, and what follows from it.

A state machine without clock, network, disk or chance. `Peer` is told what happened and answers with what is to be done
(`Action`), in order. `Rules` is what all nodes agree on, and `agreed_path` the order in which they are offered the
token. `Memory` is what the entries of a node's journal add up to, and `Fold` adds them up. `Sight` is what a node is
told of the world around it. A token's `chain` tells which hops have updated it. docs/protocol.md explains it.
"""

from __future__ import annotations

from ._cutting import KNOWN_BYTES
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
from .fold import Account, Fold, Release, Resumable
from .forks import Parted, parted, settled
from .journal import (
    Entry,
    Forgotten,
    Forked,
    Gone,
    Heard,
    Kept,
    Memory,
    Over,
    Passing,
    Released,
    Settled,
    Starts,
    Track,
    Wished,
)
from .looks import MOST_PLACES, Told
from .messages import (
    MOST_TURN_BYTES,
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
    Fork,
    Hello,
    Here,
    Kind,
    LargeParameters,
    Looks,
    Message,
    Moved,
    Offer,
    Outcome,
    Parameters,
    Pass,
    Place,
    Prepare,
    Promise,
    Rank,
    Ready,
    Refuse,
    Reject,
    Resume,
    Resumed,
    Signatures,
    Ticket,
    Token,
    Trail,
    WantLooks,
    WantOutcome,
    WantTicket,
    WishesKnown,
)
from .numbers import field_numbers, message_number, numbered, on_wire
from .order import agreed_path
from .peer import Peer
from .places import Places
from .seal import Seal
from .sight import FRESH, ClearSight, Sight
from .stamps import Stamp, own_stamp, stamped, turns_of
from .standing import Stand, Standing, asked_in_words
