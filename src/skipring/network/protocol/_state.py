"""Where a node stands in a run: what it is doing with the token, and what goes on beside it.

`State.doing` is one value, and says everything about the token. Another node has it (`Idle`, `Watching`), or this node
has it (`Offering`, `Computing`, `Waiting`, `Deciding`). Or this node has sent it and does not know whether it arrived
(`Unconfirmed`), or needs it no more (`Ended`). An invitation, a doubt and a recovery may go on beside any of them, and
are values of their own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field

from .journal import Memory
from .looks import Told
from .messages import Ballot, Place, Rank, Token

#: Patience grows with the recoveries that a node has started, up to this many of them.
_SLOWEST = 8


@dataclass(frozen=True)
class Rules:
    """What all nodes of a run agree on, as far as passing the token is concerned.

    Parameters
    ----------
    nodes : how many there are; they are numbered from 0.
    path : the node of each hop, the first hop first.
    timeout : how long a node is waited for.
    lease : how long an answer may take that has nothing to wait for; after some of them a node counts as silent.
    silence : after so long without a sign of progress a node starts a recovery; each node a little later than the last.
    quorum : how many nodes must have been heard from in the last two rounds, or the holder waits; never fewer than a
        majority.
    needed : nodes that must be among them.
    names : what people call the nodes; without any, they are told their numbers.
    short : a bitmap of at most this many bytes is sent whole, whatever its receiver has.
    """

    nodes: int
    path: Sequence[int]
    timeout: float
    lease: float = 2.0
    silence: float = 30.0
    quorum: int = 0
    needed: frozenset[int] = frozenset()
    names: Sequence[str] = ()
    short: int = 1024

    @property
    def beat(self) -> float:
        """How long nobody may have greeted before the holder does: often enough that nobody loses patience."""
        return self.silence / 4.0

    @property
    def steps(self) -> int:
        """The number of hops of the whole run."""
        return len(self.path)

    @property
    def majority(self) -> int:
        """The least number of nodes that is more than half of them."""
        return self.nodes // 2 + 1

    @property
    def two_rounds(self) -> int:
        """The number of hops after which a node that was not heard from may be dead."""
        return 2 * self.nodes

    def is_quorum(self, nodes: Set[int]) -> bool:
        """Say whether these nodes are enough for the run to go on."""
        return len(nodes) >= max(self.majority, self.quorum) and self.needed <= nodes

    def name_of(self, node: int) -> str:
        """Return what people call a node."""
        return self.names[node] if self.names else f"node {node}"

    def node_of(self, hop: int) -> int:
        """Return the node that a hop is offered to."""
        return self.path[hop - 1]

    def patience(self, node: int, recoveries: int) -> float:
        """Return how long a node waits for a sign of progress: longer each time, for it may be the run that is slow."""
        return self.silence * (1.0 + node / self.nodes) * 1.5 ** min(recoveries, _SLOWEST)


# What a node is doing with the token.


@dataclass(frozen=True)
class Idle:
    """Another node has the token."""


@dataclass(frozen=True)
class Watching:
    """The token was passed to a node, which has confirmed it and is asked now and then whether it still has it."""

    node: int
    place: Place
    asked: int = 0


@dataclass(frozen=True)
class Offering:
    """This node has the token, and waits for the node of a hop, perhaps itself, to be ready."""

    hop: int


@dataclass(frozen=True)
class Unconfirmed:
    """The token was sent for a hop, or may have been; until its node says what became of it, it goes nowhere else."""

    hop: int
    asked: int = 0


@dataclass(frozen=True)
class Computing:
    """This node has the token, and makes its update for a hop."""

    hop: int


@dataclass(frozen=True)
class Waiting:
    """This node has the token, and too few were heard from: after this hop it waits until a quorum has answered.

    `heard` are this node and those that have answered since it waits; `greeted` counts how often it has asked all.
    """

    hop: int
    heard: frozenset[int]
    greeted: int = 0


@dataclass(frozen=True)
class Deciding:
    """This node has the final model, and collects the votes of a majority for it."""

    votes: Mapping[int, bytes]
    tries: int = 0


@dataclass(frozen=True)
class Ended:
    """This node knows the outcome of the run."""


#: The token is here, or was sent and may still have to be sent elsewhere.
Holding = Offering | Unconfirmed | Computing | Waiting | Deciding
Doing = Idle | Watching | Holding | Ended


# What may go on beside it.


@dataclass(frozen=True)
class Invitation:
    """A place that this node prepares for, or is ready for.

    There is one for each node that has offered the token, the newest (`State.invitations`). A node that has no token to
    send, and offers it nevertheless, must not take the place of the holder, however often it does.
    """

    place: Place
    ready: bool = False
    marks: bytes | None = None  # those that this node has said it has, when it said that it is ready


@dataclass(frozen=True)
class Doubted:
    """Where this node thinks that the token was lost, whether it `asked` the node that had it, and who agrees."""

    place: Place
    asked: bool
    agreed: frozenset[int]


@dataclass(frozen=True)
class Recovering:
    """The recovery that this node leads: its ballot, who promised it, and who is to go on; nobody else may then be."""

    ballot: Ballot
    promises: Mapping[int, Rank]
    signed: Mapping[int, bytes]
    told: Mapping[int, Told]  # what those who promised know of lower ballots
    chosen: int | None = None


@dataclass
class State:
    """All that a node forgets in a crash."""

    seen: Place  # the furthest place that this node knows of
    highest: Ballot  # the highest ballot that it has heard of
    doing: Doing
    invitations: dict[int, Invitation] = field(default_factory=dict)  # by whom; an own hop is this node's own
    preparing: Place | None = None  # what the batch is being loaded for
    doubted: Doubted | None = None
    waits_for_fine: bool = False  # a majority agrees with a doubt, and the others have a moment to know better
    recovering: Recovering | None = None
    heard: dict[int, int] = field(default_factory=dict)  # the hop at which each node was last known to be there
    signs: int = 0  # of progress, so far
    quiet: bool = False  # nobody has said for a while that the token is on its way
    hushed: bool = True  # there has been no sign of the token for longer than that
    new: bool = True  # it has just started, and has not waited for a sign of the token yet
    failures: int = 0  # doubts and recoveries since the last sign of progress
    agreed: frozenset[int] = frozenset()  # those whose doubt this node shares, since the last sign of the token
    against: frozenset[int] = frozenset()  # those who do not listen to the ballot of this holder
    granted: tuple[int, ...] = ()  # those who were promised a ballot on their word alone, each time
    shunned: frozenset[int] = frozenset()  # those who were to go on after a recovery, and did not
    shut_out: frozenset[int] = frozenset()  # those who are proven to lie
    turn: Place | None = None  # the last own hop that was offered to this node
    proposed: tuple[frozenset[int], Token] | None = None  # who proposed which final model before its time
    unopposed: bool = False  # and nobody else has shown a token for long
    recoveries: int = 0  # that this node has started since it took the token

    @classmethod
    def after_a_start(cls, memory: Memory) -> State:
        """Return what a node knows that has just started, and has only its journal."""
        copy = memory.copy
        doing = Idle() if memory.outcome is None else Ended()
        return cls(seen=(copy.ballot, copy.hop), highest=memory.promised, doing=doing)

    @property
    def holds(self) -> bool:
        """Whether this node has the token, or has sent it and does not know that it arrived."""
        return isinstance(self.doing, Holding)

    @property
    def has_it(self) -> bool:
        """Whether this node has the token, and has not sent it to a node that does not answer."""
        return isinstance(self.doing, Holding) and not isinstance(self.doing, Unconfirmed)
