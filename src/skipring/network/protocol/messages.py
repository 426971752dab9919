"""What nodes say to each other, and what the words in it mean: ballot, place, token, copy."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Protocol

from .numbers import numbered, on_wire

#: (number, node): ballots are ordered, and no two nodes choose the same.
Ballot = tuple[int, int]
#: (ballot, hop): where a run is.
Place = tuple[Ballot, int]
#: The most bytes that a token is told of how long turns took.
MOST_TURN_BYTES = 288
#: Who has signed something, and the signature of each.
Signatures = tuple[tuple[int, bytes], ...]


class LargeParameters(Protocol):
    """Parameters that are too many to be kept in memory; where they lie is not the protocol's business."""

    @property
    def digest(self) -> str:
        """The SHA-256 of their bytes."""

    def __len__(self) -> int: ...

    def chunks(self, size: int = ...) -> Iterator[bytes]:
        """Read them piece by piece."""

    def read_into(self, array: Any) -> None:
        """Fill an array with them."""


#: What a token carries.
Parameters = bytes | LargeParameters


@dataclass(frozen=True)
class Token:
    """The model on its way: its parameters, how many updates made them, and the chain of updates, signed."""

    updates: int
    parameters: Parameters
    chain: bytes
    stamps: Signatures = ()  # of each node that has made one of them (see `Stamp`)

    @property
    def trail(self) -> Trail:
        """How it came to be, without the model."""
        return Trail(self.chain, self.stamps)


@dataclass(frozen=True)
class Trail:
    """How a token came to be: the chain of its updates, and the stamps of those who made them."""

    chain: bytes
    stamps: Signatures


class Kind(IntEnum):
    """What a node has of the run; of two copies at the same place the larger one is further."""

    INITIAL = 0
    ACCEPTED = 1
    UPDATED = 2
    FINAL = 3


#: (ballot, hop, kind): how far a copy is, and, because a run goes one way per ballot, which token it has.
Rank = tuple[Ballot, int, Kind]


@dataclass(frozen=True)
class Copy:
    """The newest state of the run that a node has, and under which ballot it is valid."""

    ballot: Ballot
    hop: int
    kind: Kind
    token: Token

    @property
    def rank(self) -> Rank:
        """How far the copy is: by ballot first, because a higher ballot knew all that a majority knew."""
        return self.ballot, self.hop, self.kind


# Messages. The holder offers the token, the next node says ready, and only then the token itself is sent. A new
# message, and a new field, takes the next number that was never used.


@numbered(10)
@dataclass(frozen=True)
class Offer:
    """It is your turn at this hop: prepare, and say when you are ready."""

    ballot: Ballot = field(metadata=on_wire(1))
    hop: int = field(metadata=on_wire(2))


@numbered(11)
@dataclass(frozen=True)
class Ready:
    """Send me the token; `known` says which of its marks I have (see `_cutting`), nothing if I want all."""

    ballot: Ballot = field(metadata=on_wire(1))
    hop: int = field(metadata=on_wire(2))
    known: bytes = field(default=b"", metadata=on_wire(3))


@numbered(12)
@dataclass(frozen=True)
class Refuse:
    """I do not take part at this hop; `promised` is the lowest ballot that I still listen to."""

    ballot: Ballot = field(metadata=on_wire(1))
    hop: int = field(metadata=on_wire(2))
    promised: Ballot = field(metadata=on_wire(3))


@numbered(13)
@dataclass(frozen=True)
class Pass:
    """The token for a hop; `heard` says of each node at which hop it was last heard from (see `Presence`).

    `turns` says how long the newest turns took (see `TurnTimes`), so that nobody has to see all by itself. `since` is 0
    if the token is whole; else the first bytes of its bitmap, one less than this, are left out, and zeros at its end.
    Its receiver has said that it has them (see `_cutting`).
    """

    ballot: Ballot = field(metadata=on_wire(1))
    hop: int = field(metadata=on_wire(2))
    token: Token = field(metadata=on_wire(3))
    heard: bytes = field(default=b"", metadata=on_wire(4))
    turns: bytes = field(default=b"", metadata=on_wire(5))
    since: int = field(default=0, metadata=on_wire(6))


@numbered(14)
@dataclass(frozen=True)
class Accepted:
    """I have the token of that hop on disk, and go on with it."""

    ballot: Ballot = field(metadata=on_wire(1))
    hop: int = field(metadata=on_wire(2))


@numbered(15)
@dataclass(frozen=True)
class Ask:
    """Have you got the token of that hop?"""

    ballot: Ballot = field(metadata=on_wire(1))
    hop: int = field(metadata=on_wire(2))


@numbered(16)
@dataclass(frozen=True)
class Answer:
    """Whether I have it; if not, I shall never accept it."""

    ballot: Ballot = field(metadata=on_wire(1))
    hop: int = field(metadata=on_wire(2))
    has: bool = field(metadata=on_wire(3))


@numbered(17)
@dataclass(frozen=True)
class Moved:
    """The token that you passed to me for this hop has reached the node after me."""

    ballot: Ballot = field(metadata=on_wire(1))
    hop: int = field(metadata=on_wire(2))


@numbered(18)
@dataclass(frozen=True)
class Hello:
    """I hold the token. Are you there?"""

    ballot: Ballot = field(metadata=on_wire(1))


@numbered(19)
@dataclass(frozen=True)
class Here:
    """I am."""

    ballot: Ballot = field(metadata=on_wire(1))


@numbered(30)
@dataclass(frozen=True)
class Doubt:
    """I think that the token is lost: I know of nothing beyond this place; `asked` its holder, which is silent."""

    ballot: Ballot = field(metadata=on_wire(1))
    hop: int = field(metadata=on_wire(2))
    asked: bool = field(metadata=on_wire(3))


@numbered(31)
@dataclass(frozen=True)
class Agree:
    """I know of nothing either."""

    ballot: Ballot = field(metadata=on_wire(1))
    hop: int = field(metadata=on_wire(2))


@numbered(32)
@dataclass(frozen=True)
class Fine:
    """It is not lost."""

    ballot: Ballot = field(metadata=on_wire(1))
    hop: int = field(metadata=on_wire(2))


@numbered(20)
@dataclass(frozen=True)
class Prepare:
    """Promise to listen to no ballot below this one, and tell how far you are."""

    ballot: Ballot = field(metadata=on_wire(1))


@numbered(21)
@dataclass(frozen=True)
class Promise:
    """I listen to no lower ballot from now on, which I sign; my newest copy is of this rank.

    `places` has the ballots that I have heard of before (`Told`).
    """

    ballot: Ballot = field(metadata=on_wire(1))
    rank: Rank = field(metadata=on_wire(2))
    signature: bytes = field(metadata=on_wire(3))
    places: bytes = field(default=b"", metadata=on_wire(4))


@numbered(22)
@dataclass(frozen=True)
class Reject:
    """I have promised a higher ballot."""

    promised: Ballot = field(metadata=on_wire(1))


@numbered(23)
@dataclass(frozen=True)
class Resume:
    """A majority has promised this ballot, as they have signed, and your copy is the furthest: go on with it."""

    ballot: Ballot = field(metadata=on_wire(1))
    rank: Rank = field(metadata=on_wire(2))
    promises: Signatures = field(metadata=on_wire(3))
    places: bytes = field(default=b"", metadata=on_wire(4))


@numbered(24)
@dataclass(frozen=True)
class Resumed:
    """I go on."""

    ballot: Ballot = field(metadata=on_wire(1))


@numbered(25)
@dataclass(frozen=True)
class Final:
    """All steps are made, or a majority wishes the run to end (`wishes`); this would be the final model."""

    ballot: Ballot = field(metadata=on_wire(1))
    token: Token = field(metadata=on_wire(2))
    wishes: Signatures = field(default=(), metadata=on_wire(3))


@numbered(26)
@dataclass(frozen=True)
class FinalAccepted:
    """I have written it down, and this is my vote for it."""

    ballot: Ballot = field(metadata=on_wire(1))
    vote: bytes = field(metadata=on_wire(2))


@numbered(27)
@dataclass(frozen=True)
class Decided:
    """A majority has written it down: it is final, and these are their votes."""

    ballot: Ballot = field(metadata=on_wire(1))
    votes: Signatures = field(metadata=on_wire(2))


@numbered(28)
@dataclass(frozen=True)
class WantOutcome:
    """Is the run over?"""


@numbered(29)
@dataclass(frozen=True)
class Outcome:
    """The run is over; this is its model, the ballot it was decided under, and the votes of a majority for it.

    If it ended before its last hop, `wishes` are those of the majority that asked for it.
    """

    token: Token = field(metadata=on_wire(1))
    ballot: Ballot = field(metadata=on_wire(2))
    votes: Signatures = field(metadata=on_wire(3))
    wishes: Signatures = field(default=(), metadata=on_wire(4))


@numbered(33)
@dataclass(frozen=True)
class Ticket:
    """A majority has promised this ballot, as they have signed: a node that has a token of a lower one lets it go.

    It is gone on with from the copy of this rank, and from no other. `places` has all lower ballots that may have been
    gone on under, as those who promised know them (`Told`).
    """

    ballot: Ballot = field(metadata=on_wire(1))
    promises: Signatures = field(metadata=on_wire(2))
    rank: Rank = field(metadata=on_wire(3))
    places: bytes = field(default=b"", metadata=on_wire(4))


@numbered(34)
@dataclass(frozen=True)
class WantTicket:
    """You speak of this ballot: has a majority promised it?"""

    ballot: Ballot = field(metadata=on_wire(1))


@numbered(35)
@dataclass(frozen=True)
class Fork:
    """Under one ballot the run went two ways: these two trails, each of them signed, are not on one."""

    one: Trail = field(metadata=on_wire(1))
    other: Trail = field(metadata=on_wire(2))


@numbered(36)
@dataclass(frozen=True)
class WishesKnown:
    """The owners of these nodes wish the run to end, as the nodes have signed."""

    wishes: Signatures = field(metadata=on_wire(1))


@numbered(40)
@dataclass(frozen=True)
class WantLooks:
    """The run is over, and there were recoveries: which tokens have you sent to whom, and from where did you go on?"""


@numbered(41)
@dataclass(frozen=True)
class Looks:
    """From where I have seen the run go on, and for which hops I have, or may have, sent or taken a token (`Told`)."""

    places: bytes = field(metadata=on_wire(1))


Message = (
    Offer
    | Ready
    | Refuse
    | Pass
    | Accepted
    | Ask
    | Answer
    | Moved
    | Hello
    | Here
    | Prepare
    | Promise
    | Reject
    | Resume
    | Resumed
    | Final
    | FinalAccepted
    | Decided
    | WantOutcome
    | Outcome
    | Doubt
    | Agree
    | Fine
    | Ticket
    | WantTicket
    | Fork
    | WishesKnown
    | WantLooks
    | Looks
)
