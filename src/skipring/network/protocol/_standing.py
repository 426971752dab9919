"""Where a node stands in a run: the rules, the state that a crash forgets, and the small things all is made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .journal import Entry, Memory
from .messages import Ballot, Compute, Kind, Message, Place, PrepareBatch, Say, Send, SetTimer, StopTimer, Write

__all__ = ["Action", "Rules", "Standing"]

Action = Send | SetTimer | StopTimer | PrepareBatch | Compute | Say | Write


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
    """

    nodes: int
    path: Sequence[int]
    timeout: float
    lease: float = 2.0
    silence: float = 30.0

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


#: Patience grows with the recoveries that a node has started, up to so many of them.
_SLOWEST = 8


class Standing:
    """Where a node stands: what it remembers, what it waits for, and how it sends, writes and waits."""

    def __init__(
        self,
        me: int,
        rules: Rules,
        memory: Memory,
        willing: Callable[[Place, Sequence[Place]], bool] = lambda place, ledger: True,
    ) -> None:
        self.me = me
        self.rules = rules
        self.memory = memory
        self._willing = willing
        self._actions: list[Action] = []
        # What follows is forgotten in a crash.
        self.holding = False
        self._hop = 0  # the hop that is being offered or passed
        self._stage = ""  # what the holder waits for: offered, passing, computing, deciding
        self._asked = 0
        self._alone = 0  # hops in a row without a word from anybody else
        self._heard: set[int] = set()  # who is there, if nobody answered for long
        self._quiet = False  # nobody has said for a while that the token is on its way
        self._hushed = True  # there has been no sign of the token for longer than that
        self._seen: Place = self._place()  # the furthest place that this node knows of
        self._doubted: tuple[Place, bool] | None = None  # where this node thinks that the token was lost
        self._agreed: set[int] = set()
        self._waits_for_fine = False
        self._ready_for: Place | None = None  # what this node is prepared, or preparing, for
        self._is_ready = False
        self._offered_by: int | None = None  # nobody, if it is an own hop of the holder
        self._watched: tuple[int, Place] | None = None  # whom the token was passed to, and for which hop
        self._ballot: Ballot | None = None  # of the recovery this node is leading
        self._promises: dict[int, tuple[Ballot, int, Kind]] = {}
        self._chosen: int | None = None  # who is to go on with it; once said, nobody else may be
        self._votes: set[int] = set()
        self._failures = 0
        self._recoveries = 0
        self._highest = memory.promised

    def _hold(self) -> None:
        """Go on from the newest copy, as its holder."""
        raise NotImplementedError

    def _place(self) -> Place:
        return self.memory.copy.ballot, self.memory.copy.hop

    def _others(self) -> list[int]:
        return [node for node in range(self.rules.nodes) if node != self.me]

    def _send(self, to: int, message: Message) -> None:
        self._actions.append(Send(to, message))

    def _write(self, entry: Entry) -> None:
        self.memory = self.memory.after(entry)
        self._actions.append(Write(entry))

    def _timer(self, name: str, seconds: float) -> None:
        self._actions.append(SetTimer(name, seconds))

    def _drop(self, name: str) -> None:
        self._actions.append(StopTimer(name))

    def _rest(self) -> None:
        """There was a sign of progress: wait anew, each node for another time."""
        self._failures = 0
        self._hushed = False
        if not self.holding or self._has_it:
            self._doubted = None
        self._timer("silence", self._patience)
        self._timer("hush", self.rules.silence / 2.0)

    def _late_hush(self) -> None:
        """Nobody has shown a sign of the token, though the holder greets more often than this."""
        self._hushed = True

    @property
    def _patience(self) -> float:
        """How long this node waits for a sign of progress: longer each time, for it may be the run that is slow."""
        return self.rules.silence * (1.0 + self.me / self.rules.nodes) * 1.5 ** min(self._recoveries, _SLOWEST)

    @property
    def _has_it(self) -> bool:
        """Whether this node holds the token, and has not sent it to somebody who does not answer."""
        return self.holding and self._stage != "passing"

    def _let_go(self) -> None:
        """Stop being the holder, whatever was going on."""
        self.holding, self._stage = False, ""
        self._watched = None
        for timer in ("offer", "skip", "lease", "wait", "watch", "vote"):
            self._drop(timer)

    def _done(self) -> list[Action]:
        actions, self._actions = self._actions, []
        return actions
