"""How nodes pass a token on without a server: a state machine without clock, network, disk or chance.

`Peer` is told what happened (`begin`, `received`, `expired`, `prepared`, `computed`) and answers with what is to be
done, in order. Whoever drives it, asyncio and sockets or a test with virtual time, keeps one rule: nothing that comes
after a `Write` is done before the entry is on disk. A node that restarts is a new `Peer` with the memory of its
journal.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from .journal import Entry, Gone, Heard, Kept, Memory, Over, Passing, Released
from .messages import (
    Accepted,
    Agree,
    Answer,
    Ask,
    Ballot,
    Compute,
    Copy,
    Decided,
    Doubt,
    Final,
    FinalAccepted,
    Fine,
    Hello,
    Here,
    Kind,
    Message,
    Moved,
    Offer,
    Outcome,
    Pass,
    Place,
    Prepare,
    PrepareBatch,
    Promise,
    Ready,
    Refuse,
    Reject,
    Resume,
    Resumed,
    Say,
    Send,
    SetTimer,
    StopTimer,
    Token,
    WantOutcome,
    Write,
)

__all__ = ["Action", "Peer", "Rules"]

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


#: A receiver that does not answer is asked so often before a recovery starts.
_ASKED = 3
#: Recoveries that fail wait longer and longer, up to so many times the first wait.
_LONGEST = 8
#: Patience grows with the recoveries that a node has started, up to so many of them.
_SLOWEST = 8


class Peer:
    """One node of a run.

    Parameters
    ----------
    me : its number.
    rules : what all agree on.
    memory : what its journal adds up to (`Memory.blank` for a new run).
    willing : says whether the node takes part at a place, given its ledger; a node whose privacy budget is spent does
        not. It must not depend on data or parameters.
    """

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

    # What happened.

    def begin(self) -> list[Action]:
        """Start, or start again after a crash."""
        if self.memory.outcome is not None:
            return self._done()
        self._rest()
        self._hushed = True
        self._timer("beat", self.rules.beat)
        copy = self.memory.copy
        resumed = copy.ballot == self.memory.promised and copy.kind is not Kind.INITIAL
        first = copy.kind is Kind.INITIAL and copy.ballot == self.memory.promised
        if resumed or (first and (copy.ballot[0] > 0 or self.me == self.rules.path[0])):
            if copy.kind is not Kind.FINAL and self.memory.passing is not None:
                # The token may have been sent before the crash, or not: only its receiver knows.
                self.holding = True
                self._hop, self._stage, self._asked = self.memory.passing[1], "passing", 0
                self._ask()
            else:
                self._hold()
        for node in self._others():
            self._send(node, WantOutcome())
        return self._done()

    def received(self, sender: int, message: Message) -> list[Action]:
        """Take a message."""
        if self.memory.outcome is not None:
            self._after_the_end(sender, message)
            return self._done()
        if isinstance(message, Outcome):
            self._end(message.token, message.ballot)
        elif isinstance(message, WantOutcome):
            pass
        else:
            ballot = message.promised if isinstance(message, Reject) else message.ballot
            self._highest = max(self._highest, ballot)
            if isinstance(message, Offer | Pass):
                self._seen = max(self._seen, (message.ballot, message.hop))
            if isinstance(message, Offer | Hello | Ask | Pass | Final | Doubt) and ballot > self.memory.promised:
                self._outdated(ballot)  # only who goes on under it, after a recovery, says so
            # Each kind of message, and each timer, has a method of its name.
            getattr(self, f"_on_{type(message).__name__.lower()}")(sender, message)
        return self._done()

    def expired(self, timer: str) -> list[Action]:
        """Take the end of a timer."""
        if self.memory.outcome is None:
            getattr(self, f"_late_{timer}")()
        return self._done()

    def prepared(self, ballot: Ballot, hop: int) -> list[Action]:
        """Take the news that the batch of a hop is there."""
        if self.memory.outcome is None and self._ready_for == (ballot, hop) and ballot >= self.memory.promised:
            self._is_ready = True
            if self.holding and self._stage == "offered" and self._hop == hop and self._place()[0] == ballot:
                self._accept_own()
            elif not self.holding and self._offered_by is not None:
                self._send(self._offered_by, Ready(ballot, hop))
        return self._done()

    def computed(self, ballot: Ballot, hop: int, token: Token) -> list[Action]:
        """Take an update that was asked for; it counts only if nothing has overtaken it."""
        copy = self.memory.copy
        wanted = self.holding and self._stage == "computing" and (copy.ballot, copy.hop) == (ballot, hop)
        if self.memory.outcome is None and wanted and ballot == self.memory.promised:
            self._write(Released(Copy(ballot, hop, Kind.UPDATED, token)))
            self._offer(hop + 1)
        return self._done()

    # What a driver may ask, for what it measures and for what it need not let in.

    @property
    def is_ready(self) -> bool:
        """Whether this node has said ready, and the token may be on its way to it."""
        return self._is_ready and not self.holding

    @property
    def computing(self) -> bool:
        """Whether this node makes an update."""
        return self.holding and self._stage == "computing"

    @property
    def offers_to(self) -> int | None:
        """The other node that the holder waits for to be ready, if it does."""
        waits = self.holding and self._stage == "offered" and self.rules.path[self._hop - 1] != self.me
        return self.rules.path[self._hop - 1] if waits else None

    def waits_for(self, node: int, hop: int) -> bool:
        """Say whether the holder waits for this node to be ready at this hop."""
        return self.offers_to == node and self._hop == hop

    @property
    def passed_to(self) -> int | None:
        """The node that the token was sent to and that has not answered yet, if there is one."""
        return self.rules.path[self._hop - 1] if self.holding and self._stage == "passing" else None

    def asks(self, node: int, hop: int) -> bool:
        """Say whether this node has been sent the token of this hop, and has not answered yet."""
        return self.passed_to == node and self._hop == hop

    def expects(self, place: Place) -> bool:
        """Say whether the token of a place would be taken."""
        return self._is_ready and self._ready_for == place and self._is_new(place)

    # Holding the token.

    def _place(self) -> Place:
        return self.memory.copy.ballot, self.memory.copy.hop

    def _hold(self) -> None:
        """Go on from the newest copy, as its holder."""
        self.holding = True
        self._drop("watch")
        self._watched = None
        if self._quiet:
            self._greet()
        copy = self.memory.copy
        if copy.kind is Kind.ACCEPTED and self._willing(self._place(), self.memory.ledger):
            self._stage, self._hop = "computing", copy.hop
            self._actions.append(Compute(copy.ballot, copy.hop, copy.token))
        elif copy.kind is Kind.FINAL:
            self._announce()
        else:  # also where a recovery has made an update too dear that was affordable when the token came
            self._offer(copy.hop + 1)

    def _offer(self, hop: int) -> None:
        if hop > self.rules.steps:
            ballot = self.memory.copy.ballot
            self._write(Kept(Copy(ballot, hop, Kind.FINAL, self.memory.copy.token)))
            self._announce()
            return
        if self._quiet:
            self._greet()
        self._stage, self._hop = "offered", hop
        node, ballot = self.rules.path[hop - 1], self.memory.copy.ballot
        self._timer("offer", self.rules.timeout)
        if node != self.me:
            # Written before the offer and not before the token itself: on the disk together with the update before it.
            self._write(Passing(ballot, hop))
            self._send(node, Offer(ballot, hop))
        elif self._willing((ballot, hop), self.memory.ledger):
            self._ready_for, self._is_ready, self._offered_by = (ballot, hop), False, None
            self._actions.append(PrepareBatch(ballot, hop))
        else:  # there is nobody to wait for
            self._drop("offer")
            self._timer("skip", 0.0)

    def _late_skip(self) -> None:
        self._late_offer()

    def _late_offer(self) -> None:
        """Nobody said ready in time: the hop is skipped."""
        if self.holding and self._stage == "offered":
            self._skip()

    def _skip(self) -> None:
        self._drop("offer")
        self._alone += 1
        if self._alone < 2 * self.rules.nodes:
            self._offer(self._hop + 1)
            return
        # Hops must not be used up while there is nobody to pass the token to. Who is out there?
        self._actions.append(Say("nobody answers; waiting for a majority"))
        self._stage, self._heard = "waiting", {self.me}
        self._late_wait()

    def _late_wait(self) -> None:
        if self.holding and self._stage == "waiting":
            for node in self._others():
                self._send(node, Hello(self.memory.copy.ballot))
            self._timer("wait", self.rules.lease)

    def _greet(self) -> None:
        """Let everybody know that the token is on its way: in a large ring a node's turn comes seldom."""
        self._quiet = False
        self._timer("beat", self.rules.beat)
        for node in self._others():
            self._send(node, Hello(self.memory.copy.ballot))

    def _late_beat(self) -> None:
        """Nobody has greeted for a while: the holder does it, whoever it is by now."""
        self._quiet = True
        if self._has_it:
            self._greet()

    def _on_hello(self, sender: int, message: Hello) -> None:
        if message.ballot >= self.memory.promised:
            if self.holding and not self._has_it:
                self._let_go()  # it was passed on: somebody else has it
            self._quiet = False
            self._timer("beat", self.rules.beat)
            self._rest()
            self._send(sender, Here(message.ballot))
        else:
            self._send(sender, Reject(self.memory.promised))

    def _on_here(self, sender: int, message: Here) -> None:
        if self.holding and self._stage == "waiting" and message.ballot == self.memory.copy.ballot:
            self._heard.add(sender)
            if len(self._heard) >= self.rules.majority:
                self._drop("wait")
                self._alone = 0
                self._offer(self._hop + 1)

    def _on_ready(self, sender: int, message: Ready) -> None:
        current = self.holding and self._stage == "offered" and message.hop == self._hop
        if current and message.ballot == self.memory.copy.ballot and sender == self.rules.path[self._hop - 1]:
            self._alone = 0
            self._drop("offer")
            self._stage, self._asked = "passing", 0
            self._send(sender, Pass(message.ballot, message.hop, self.memory.copy.token))
            self._timer("lease", self.rules.lease)

    def _on_refuse(self, sender: int, message: Refuse) -> None:
        if message.promised > self.memory.promised:
            self._outdated(message.promised)
            return
        current = self.holding and self._stage == "offered" and message.hop == self._hop
        if current and message.ballot == self.memory.copy.ballot and sender == self.rules.path[self._hop - 1]:
            self._alone = 0
            self._skip()

    def _outdated(self, ballot: Ballot) -> None:
        """Somebody has promised a higher ballot: what is done under this one is lost, and released all the same."""
        self._let_go()
        self._ballot = None
        self._write(Heard(ballot))
        self._rest()

    def _accept_own(self) -> None:
        """Take the token for an own hop: nothing is sent, and the update is made at once."""
        ballot = self.memory.copy.ballot
        self._drop("offer")
        self._write(Kept(Copy(ballot, self._hop, Kind.ACCEPTED, self.memory.copy.token), self.memory.sender))
        self._hold()

    # Having passed it: until the receiver says what became of it, it goes nowhere else.

    def _ask(self) -> None:
        self._asked += 1
        ballot = self.memory.copy.ballot
        self._send(self.rules.path[self._hop - 1], Ask(ballot, self._hop))
        self._timer("lease", self.rules.lease)

    def _late_lease(self) -> None:
        if self.holding and self._stage == "passing":
            if self._asked < _ASKED:
                self._ask()
            else:
                self._doubt((self.memory.copy.ballot, self._hop), asked=True)

    def _on_accepted(self, sender: int, message: Accepted) -> None:
        current = self.holding and self._stage == "passing" and message.hop == self._hop
        if current and message.ballot == self.memory.copy.ballot and sender == self.rules.path[self._hop - 1]:
            self._drop("lease")
            self._let_go()
            self._watched = sender, (message.ballot, message.hop)
            self._asked = 0
            self._timer("watch", self.rules.silence)
            if self.memory.sender is not None:
                self._send(self.memory.sender, Moved(*self._place()))

    def _on_answer(self, sender: int, message: Answer) -> None:
        if self._watched == (sender, (message.ballot, message.hop)) and message.has:
            self._asked = 0
            self._timer("watch", self.rules.silence)
            return
        current = self.holding and self._stage == "passing" and message.hop == self._hop
        if current and message.ballot == self.memory.copy.ballot and sender == self.rules.path[self._hop - 1]:
            if message.has:
                self._on_accepted(sender, Accepted(message.ballot, message.hop))
            else:
                self._drop("lease")
                self._skip()

    def _on_moved(self, sender: int, message: Moved) -> None:
        if self._watched is not None and self._watched[0] == sender and self._watched[1][0] == message.ballot:
            self._watched = None
            self._drop("watch")

    def _late_watch(self) -> None:
        """Ask whoever has the token whether it is still there."""
        if self._watched is None:
            return
        node, (ballot, hop) = self._watched
        self._asked += 1
        if self._asked > _ASKED:
            self._watched = None
            self._doubt((ballot, hop), asked=True)
        else:
            self._send(node, Ask(ballot, hop))
            self._timer("watch", self.rules.lease)

    # Being offered the token, and taking it.

    def _on_offer(self, sender: int, message: Offer) -> None:
        place = message.ballot, message.hop
        if self.holding and not self._has_it and place > (self.memory.copy.ballot, self._hop):
            self._let_go()  # the token has moved on; whoever said so may have been overtaken by this offer
        mine = 1 <= message.hop <= self.rules.steps and self.rules.path[message.hop - 1] == self.me
        new = message.ballot >= self.memory.promised and self._is_new(place)
        if not (mine and new and not self.holding and self._willing(place, self.memory.ledger)):
            self._send(sender, Refuse(message.ballot, message.hop, self.memory.promised))
            return
        self._rest()
        self._offered_by = sender
        if self._ready_for != place:
            self._ready_for, self._is_ready = place, False
            self._actions.append(PrepareBatch(*place))
        elif self._is_ready:
            self._send(sender, Ready(*place))

    def _is_new(self, place: Place) -> bool:
        """Say whether a place is beyond all that this node has, or has said that it has not."""
        return place > self._place() and (self.memory.gone is None or place > self.memory.gone)

    def _on_pass(self, sender: int, message: Pass) -> None:
        place = message.ballot, message.hop
        if message.ballot < self.memory.promised:
            self._send(sender, Reject(self.memory.promised))
        elif place == self._place() and self.memory.copy.kind is not Kind.INITIAL and self.memory.sender == sender:
            self._send(sender, Accepted(*place))
        elif self._is_new(place) and self._ready_for == place and self._is_ready:
            self._let_go()
            self._recoveries = 0  # the run goes on; patience need not grow any more
            self._write(Kept(Copy(message.ballot, message.hop, Kind.ACCEPTED, message.token), sender))
            self._send(sender, Accepted(*place))
            self._rest()
            self._alone = 0
            self._hold()

    def _on_ask(self, sender: int, message: Ask) -> None:
        place = message.ballot, message.hop
        if message.ballot < self.memory.promised:
            self._send(sender, Reject(self.memory.promised))
        has = self._place() >= place and self.memory.copy.kind is not Kind.INITIAL and self._had(place)
        if not has and self._is_new(place):
            self._write(Gone(*place))  # it may still be on its way, and the sender will go on without it
        self._send(sender, Answer(message.ballot, message.hop, has))

    def _had(self, place: Place) -> bool:
        """Say whether the token of a place was accepted here, and is the copy or was updated since."""
        return place == self._place() or place in self.memory.ledger or place in self.memory.unchanged

    # Recovery. It stops whoever has the token, and makes all releases before it count in full: so a majority must think
    # that the token is lost before anybody takes a higher ballot. A node that was cut off, or away, disturbs nobody.

    def _doubt(self, place: Place, *, asked: bool) -> None:
        """Ask the others whether they know of the token."""
        if self._doubted != (place, asked):
            self._doubted, self._agreed = (place, asked), {self.me}
        self._failures += 1
        for node in self._others():
            self._send(node, Doubt(*place, asked))
        self._timer("recovery", self.rules.lease * min(2**self._failures, _LONGEST))
        self._agreement()

    def _on_doubt(self, sender: int, message: Doubt) -> None:
        place = message.ballot, message.hop
        known = self._seen > place if message.asked else not self._hushed
        if self._has_it or known:
            self._send(sender, Fine(*place))
        else:
            self._send(sender, Agree(*place))

    def _on_agree(self, sender: int, message: Agree) -> None:
        if self._doubted is not None and self._doubted[0] == (message.ballot, message.hop):
            self._agreed.add(sender)
            self._agreement()

    def _agreement(self) -> None:
        if self._doubted is None or len(self._agreed) < self.rules.majority:
            return
        if len(self._agreed) == self.rules.nodes:
            self._late_agreed()
        elif not self._waits_for_fine:  # one node that knows better is worth a moment
            self._waits_for_fine = True
            self._timer("agreed", self.rules.lease)

    def _late_agreed(self) -> None:
        self._waits_for_fine = False
        if self._doubted is not None and len(self._agreed) >= self.rules.majority:
            _, asked = self._doubted
            self._recover("whoever has the token is silent" if asked else "no sign of the token")

    def _on_fine(self, sender: int, message: Fine) -> None:
        if self._doubted is not None and self._doubted[0] == (message.ballot, message.hop):
            self._let_go()
            self._rest()

    def _recover(self, why: str) -> None:
        """Ask all for a promise; with those of a majority, the furthest copy goes on under a new ballot."""
        self._let_go()
        self._doubted = None
        self._ballot = (max(self._highest[0], self.memory.promised[0]) + 1, self.me)
        self._highest = self._ballot
        self._write(Heard(self._ballot))
        self._promises = {self.me: self.memory.copy.rank}
        self._chosen = None
        self._actions.append(Say(f"recovery with ballot {self._ballot}: {why}"))
        for node in self._others():
            self._send(node, Prepare(self._ballot))
        self._failures += 1
        self._recoveries += 1
        self._timer("recovery", self.rules.lease * min(2**self._failures, _LONGEST))
        self._timer("silence", self._patience)
        self._lead()

    def _on_prepare(self, sender: int, message: Prepare) -> None:
        if message.ballot < self.memory.promised:
            self._send(sender, Reject(self.memory.promised))
            return
        if message.ballot > self.memory.promised:
            self._let_go()
            self._ballot = None
            self._write(Heard(message.ballot))
            self._rest()
        self._send(sender, Promise(message.ballot, self.memory.copy.rank))

    def _on_promise(self, sender: int, message: Promise) -> None:
        if message.ballot == self._ballot:
            self._promises[sender] = message.rank
            self._lead()

    def _lead(self) -> None:
        if self._ballot is None or len(self._promises) < self.rules.majority or self.memory.promised != self._ballot:
            return
        if self._chosen is not None:
            return
        rank, owner = max((rank, -node) for node, rank in self._promises.items())
        self._chosen = -owner
        if -owner == self.me:
            self._resume(self._ballot, rank)
            self._ballot = None
        else:
            self._send(-owner, Resume(self._ballot, rank))

    def _on_resume(self, sender: int, message: Resume) -> None:
        if message.ballot < self.memory.promised:
            self._send(sender, Reject(self.memory.promised))
        elif message.ballot == self.memory.promised:
            self._resume(message.ballot, message.rank)
            self._send(sender, Resumed(message.ballot))

    def _resume(self, ballot: Ballot, rank: tuple[Ballot, int, Kind]) -> None:
        copy = self.memory.copy
        if copy.rank != rank:  # it has gone on already
            return
        self._let_go()
        # The same bytes under a new ballot: nothing new is released.
        self._write(Kept(replace(copy, ballot=ballot), None))
        self._failures = 0
        self._rest()
        self._alone = 0
        self._hold()

    def _on_resumed(self, sender: int, message: Resumed) -> None:
        if message.ballot == self._ballot:
            self._ballot = None
            self._drop("recovery")
            self._rest()

    def _on_reject(self, sender: int, message: Reject) -> None:
        """Somebody has promised more: a recovery with a lower ballot has no use."""
        if message.promised > self.memory.promised:
            self._outdated(message.promised)
        if self._ballot is not None and message.promised > self._ballot:
            self._ballot = None

    def _late_recovery(self) -> None:
        if self._doubted is not None:
            place, asked = self._doubted
            self._doubt(place, asked=asked)
        elif self._ballot is not None:
            self._ballot = None
            self._doubt(max(self._seen, self._place()), asked=False)

    def _late_silence(self) -> None:
        """There has been no sign of progress for long."""
        if self._has_it:
            self._rest()
        elif self._doubted is None and not self.holding:
            self._doubt(max(self._seen, self._place()), asked=False)
        else:  # whoever was sent the token is being asked, or everybody is
            self._timer("silence", self._patience)

    # The end: written down by a majority, then told to all.

    def _announce(self) -> None:
        self.holding = True
        self._stage = "deciding"
        self._votes = {self.me}
        self._propose()

    def _propose(self) -> None:
        copy = self.memory.copy
        for node in self._others():
            if node not in self._votes:
                self._send(node, Final(copy.ballot, copy.token))
        self._timer("vote", self.rules.lease)
        self._count()

    def _late_vote(self) -> None:
        if self.holding and self._stage == "deciding":
            self._propose()

    def _on_final(self, sender: int, message: Final) -> None:
        if message.ballot < self.memory.promised:
            self._send(sender, Reject(self.memory.promised))
            return
        copy, had = Copy(message.ballot, self.rules.steps + 1, Kind.FINAL, message.token), self.memory.copy
        if had != copy and (had.ballot, had.kind) == (copy.ballot, Kind.FINAL):
            return  # one model per ballot, whatever went wrong elsewhere
        if had != copy:
            self._let_go()
            self._write(Kept(copy, sender))
        self._rest()
        self._send(sender, FinalAccepted(message.ballot))

    def _on_finalaccepted(self, sender: int, message: FinalAccepted) -> None:
        if self.holding and self._stage == "deciding" and message.ballot == self.memory.copy.ballot:
            self._votes.add(sender)
            self._count()

    def _count(self) -> None:
        if len(self._votes) >= self.rules.majority:
            ballot, voters = self.memory.copy.ballot, sorted(self._votes)
            token = self.memory.copy.token
            self._end(token, ballot)
            for node in self._others():
                self._send(node, Decided(ballot) if node in voters else Outcome(token, ballot))

    def _on_decided(self, sender: int, message: Decided) -> None:
        copy = self.memory.copy
        if copy.kind is Kind.FINAL and copy.ballot == message.ballot:
            self._end(copy.token, message.ballot)
        else:
            self._send(sender, WantOutcome())

    def _end(self, token: Token, ballot: Ballot) -> None:
        self._let_go()
        self._write(Over(token, ballot))
        for timer in ("silence", "recovery", "vote", "beat", "hush", "agreed"):
            self._drop(timer)

    def _after_the_end(self, sender: int, message: Message) -> None:
        """Tell everybody who does not know it yet."""
        token, ballot = self.memory.outcome, self.memory.decided
        if token is not None and ballot is not None and not isinstance(message, Outcome | Decided | FinalAccepted):
            self._send(sender, Outcome(token, ballot))

    # Small things.

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
