"""How nodes pass a token on without a server: a state machine without clock, network, disk or chance.

`Peer` is told what happened (`begin`, `received`, `expired`, `prepared`, `computed`) and answers with what is to be
done, in order. Whoever drives it, asyncio and sockets or a test with virtual time, keeps one rule: nothing that comes
after a `Write` is done before the entry is on disk. A node that restarts is a new `Peer` with the memory of its
journal.
"""

from __future__ import annotations

from ._majority import Majority
from ._standing import Action, Rules
from .journal import Gone, Kept, Passing, Released
from .messages import (
    Accepted,
    Answer,
    Ask,
    Ballot,
    Compute,
    Copy,
    Doubt,
    Final,
    Hello,
    Here,
    Kind,
    Message,
    Moved,
    News,
    Offer,
    Outcome,
    Pass,
    Place,
    PrepareBatch,
    Ready,
    Refuse,
    Reject,
    Say,
    Token,
    WantOutcome,
)

__all__ = ["Action", "Peer", "Rules"]

#: A receiver that does not answer is asked so often before a recovery starts.
_ASKED = 3


class Peer(Majority):
    """One node of a run.

    Parameters
    ----------
    me : its number.
    rules : what all agree on.
    memory : what its journal adds up to (`Memory.blank` for a new run).
    willing : says whether the node takes part at a place, given its ledger; a node whose privacy budget is spent does
        not. It must not depend on data or parameters.
    """

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

    @property
    def decided(self) -> int:
        """Of how many hops, from the first, this node knows what became: an update, or not."""
        copy = self.memory.copy
        if self.memory.outcome is not None or copy.kind is Kind.FINAL:
            return self.rules.steps
        if self.holding and self._stage in ("offered", "passing", "computing"):
            return self._hop - 1
        if self.holding and self._stage == "waiting":
            return self._hop
        return copy.hop - (copy.kind is Kind.ACCEPTED)  # an update that was interrupted is made when it goes on

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
        self._actions.append(Say("nobody answers; waiting for a majority", News.NOBODY_ANSWERS))
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
