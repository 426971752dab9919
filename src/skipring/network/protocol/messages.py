"""What nodes say to each other, what a node writes down, and what it asks of the machine it runs on."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum, IntEnum
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from .journal import Entry

__all__ = [
    "Accepted",
    "Agree",
    "Answer",
    "Ask",
    "Ballot",
    "Compute",
    "Copy",
    "Decided",
    "Doubt",
    "Final",
    "FinalAccepted",
    "Fine",
    "Hello",
    "Here",
    "Kind",
    "LargeParameters",
    "Message",
    "Moved",
    "News",
    "Offer",
    "Outcome",
    "Parameters",
    "Pass",
    "Place",
    "Prepare",
    "PrepareBatch",
    "Promise",
    "Ready",
    "Refuse",
    "Reject",
    "Resume",
    "Resumed",
    "Say",
    "Send",
    "SetTimer",
    "StopTimer",
    "Token",
    "WantOutcome",
    "Write",
]

#: (number, node): ballots are ordered, and no two nodes choose the same.
Ballot = tuple[int, int]
#: (ballot, hop): where a run is.
Place = tuple[Ballot, int]


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
    """The model on its way: its parameters, how many updates made them, and a digest of the chain of updates."""

    updates: int
    parameters: Parameters
    chain: bytes


class Kind(IntEnum):
    """What a node has of the run; of two copies at the same place the larger one is further."""

    INITIAL = 0
    ACCEPTED = 1
    UPDATED = 2
    FINAL = 3


@dataclass(frozen=True)
class Copy:
    """The newest state of the run that a node has, and under which ballot it is valid."""

    ballot: Ballot
    hop: int
    kind: Kind
    token: Token

    @property
    def rank(self) -> tuple[Ballot, int, Kind]:
        """How far the copy is: by ballot first, because a higher ballot knew all that a majority knew."""
        return self.ballot, self.hop, self.kind


# Messages. The holder offers the token, the next node says ready, and only then the token itself is sent.


@dataclass(frozen=True)
class Offer:
    """It is your turn at this hop: prepare, and say when you are ready."""

    ballot: Ballot
    hop: int


@dataclass(frozen=True)
class Ready:
    """Send me the token."""

    ballot: Ballot
    hop: int


@dataclass(frozen=True)
class Refuse:
    """I do not take part at this hop; `promised` is the lowest ballot that I still listen to."""

    ballot: Ballot
    hop: int
    promised: Ballot


@dataclass(frozen=True)
class Pass:
    """The token for a hop."""

    ballot: Ballot
    hop: int
    token: Token


@dataclass(frozen=True)
class Accepted:
    """I have the token of that hop on disk, and go on with it."""

    ballot: Ballot
    hop: int


@dataclass(frozen=True)
class Ask:
    """Have you got the token of that hop?"""

    ballot: Ballot
    hop: int


@dataclass(frozen=True)
class Answer:
    """Whether I have it; if not, I shall never accept it."""

    ballot: Ballot
    hop: int
    has: bool


@dataclass(frozen=True)
class Moved:
    """The token that you passed to me for this hop has reached the node after me."""

    ballot: Ballot
    hop: int


@dataclass(frozen=True)
class Hello:
    """I hold the token. Are you there?"""

    ballot: Ballot


@dataclass(frozen=True)
class Here:
    """I am."""

    ballot: Ballot


@dataclass(frozen=True)
class Doubt:
    """I think that the token is lost: I know of nothing beyond this place; `asked` whoever has it, and it is silent."""

    ballot: Ballot
    hop: int
    asked: bool


@dataclass(frozen=True)
class Agree:
    """I know of nothing either."""

    ballot: Ballot
    hop: int


@dataclass(frozen=True)
class Fine:
    """It is not lost."""

    ballot: Ballot
    hop: int


@dataclass(frozen=True)
class Prepare:
    """Promise to listen to no ballot below this one, and tell how far you are."""

    ballot: Ballot


@dataclass(frozen=True)
class Promise:
    """I listen to no lower ballot from now on; my newest copy is of this rank."""

    ballot: Ballot
    rank: tuple[Ballot, int, Kind]


@dataclass(frozen=True)
class Reject:
    """I have promised a higher ballot."""

    promised: Ballot


@dataclass(frozen=True)
class Resume:
    """A majority has promised this ballot, and your copy is the furthest: go on with it."""

    ballot: Ballot
    rank: tuple[Ballot, int, Kind]


@dataclass(frozen=True)
class Resumed:
    """I go on."""

    ballot: Ballot


@dataclass(frozen=True)
class Final:
    """All steps are made; this would be the final model."""

    ballot: Ballot
    token: Token


@dataclass(frozen=True)
class FinalAccepted:
    """I have written it down."""

    ballot: Ballot


@dataclass(frozen=True)
class Decided:
    """A majority has written it down: it is final."""

    ballot: Ballot


@dataclass(frozen=True)
class WantOutcome:
    """Is the run over?"""


@dataclass(frozen=True)
class Outcome:
    """The run is over; this is its model, and the ballot it was decided under."""

    token: Token
    ballot: Ballot


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
)


# What the protocol asks of the machine, in order: nothing that comes after a Write may happen before it is on disk.


@dataclass(frozen=True)
class Send:
    """Send a message to a node; it may be lost, delayed or doubled."""

    to: int
    message: Message


@dataclass(frozen=True)
class SetTimer:
    """Call back after so many seconds; a timer of the same name is replaced."""

    name: str
    seconds: float


@dataclass(frozen=True)
class StopTimer:
    """Forget a timer."""

    name: str


@dataclass(frozen=True)
class PrepareBatch:
    """Load what an update at this hop needs, and say when it is there."""

    ballot: Ballot
    hop: int


@dataclass(frozen=True)
class Compute:
    """Make the update of a hop (gradient, clipped; noise; step), and say what came out."""

    ballot: Ballot
    hop: int
    token: Token


class News(Enum):
    """What the protocol has to tell the people who run a node."""

    RECOVERY = "recovery"  # this node has started one
    NOBODY_ANSWERS = "nobody answers"


@dataclass(frozen=True)
class Say:
    """Tell the people who run the node; what is counted goes by `news`, never by the text."""

    text: str
    news: News


@dataclass(frozen=True)
class Write:
    """Write an entry of the journal to disk."""

    entry: Entry
