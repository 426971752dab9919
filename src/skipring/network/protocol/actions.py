"""What the protocol asks of the machine that a node runs on, in order.

Nothing that comes after a `Write` may happen before its entry is on disk.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from .journal import Entry
from .messages import Ballot, Message, Token


class Timer(StrEnum):
    """What a node waits for; of each there is one at a time."""

    OFFER = "offer"  # the node of the hop may say that it is ready
    TURN = "turn"  # this node may finish its update
    SKIP = "skip"  # an own hop that is not taken is over at once
    WAIT = "wait"  # until all nodes are greeted again, if too few answer
    BEAT = "beat"  # until the holder greets
    LEASE = "lease"  # the node that the token was sent to may confirm it
    WATCH = "watch"  # until the node that confirmed it is asked whether it still has it
    SILENCE = "silence"  # until a node without a sign of the token doubts
    HUSH = "hush"  # until a node would say that it has seen no sign of it
    AGREED = "agreed"  # a node that knows better than a majority may say so
    RECOVERY = "recovery"  # until a doubt, or a recovery, is tried again
    VOTE = "vote"  # until the final model is proposed again
    LOOKS = "looks"  # until those are asked again who have not told where they looked
    OPPOSED = "opposed"  # another token may show itself, if a final model was proposed before its time


class News(StrEnum):
    """What the protocol has to tell the people who run a node."""

    RECOVERY = "recovery"  # this node has started one
    NO_QUORUM = "no quorum"  # too few nodes answer, and the token waits here
    LATE = "late"  # this node did not finish its update in time, and passes the token on as it is
    FORK = "fork"  # the run went two ways under one ballot
    QUORUM = "quorum"  # enough answer again, and it goes on
    WISHES = "wishes"  # an owner has asked to finish the run


@dataclass(frozen=True)
class Send:
    """Send a message to a node; it may be lost, delayed or doubled."""

    to: int
    message: Message


@dataclass(frozen=True)
class SetTimer:
    """Call back after these seconds; a timer of the same name is replaced."""

    name: Timer
    seconds: float


@dataclass(frozen=True)
class StopTimer:
    """Forget a timer."""

    name: Timer


@dataclass(frozen=True)
class PrepareBatch:
    """Load what an update at this hop needs, and say when it is there."""

    ballot: Ballot
    hop: int


@dataclass(frozen=True)
class Compute:
    """Make the update of a hop (gradient, clipped; noise; step), within a time, and say what came out."""

    ballot: Ballot
    hop: int
    token: Token
    seconds: float


@dataclass(frozen=True)
class Say:
    """Tell the people who run the node; what is counted goes by `news`, never by the text."""

    text: str
    news: News


class Rule(StrEnum):
    """What no honest node does; a node that does it is named."""

    OUTCOME = "outcome"  # it says that the run is over, without the votes of a majority
    VOTE = "vote"  # its vote is not for what it was sent
    TWO_VOTES = "two votes"  # it has signed two models under one ballot: a proof
    WAY = "way"  # its token did not come along the agreed path
    STRIDE = "stride"  # its model has moved further than updates can
    STAMPS = "stamps"  # its token has updates that their nodes have not signed
    TWO_UPDATES = "two updates"  # it has signed two updates at one hop: a proof
    HOP = "hop"  # it asks about a hop that it cannot have sent
    WISH = "wish"  # it speaks of a wish that its node has not signed, or ends the run without those of a majority
    LOOKS = "looks"  # it tells of tokens and ballots what no journal says
    BALLOT = "ballot"  # it goes on under a ballot that no majority has promised


@dataclass(frozen=True)
class Broke:
    """Name a node that has broken a rule, to the people who run this node; with a proof, it is shut out."""

    node: int
    rule: Rule
    what: str
    proof: bool = False


@dataclass(frozen=True)
class Write:
    """Write an entry of the journal to disk."""

    entry: Entry


Action = Send | SetTimer | StopTimer | PrepareBatch | Compute | Say | Broke | Write
