"""What needs a majority of the nodes: to recover a token that was lost, and to end a run."""

from __future__ import annotations

from dataclasses import replace

from ._standing import Standing
from .journal import Heard, Kept, Over
from .messages import (
    Agree,
    Ballot,
    Copy,
    Decided,
    Doubt,
    Final,
    FinalAccepted,
    Fine,
    Kind,
    Message,
    News,
    Outcome,
    Place,
    Prepare,
    Promise,
    Reject,
    Resume,
    Resumed,
    Say,
    Token,
    WantOutcome,
)

__all__ = ["Majority"]

#: Recoveries that fail wait longer and longer, up to so many times the first wait.
_LONGEST = 8


class Majority(Standing):
    """A node as far as it needs others to agree."""

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
        self._actions.append(Say(f"recovery with ballot {self._ballot}: {why}", News.RECOVERY))
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

    def _outdated(self, ballot: Ballot) -> None:
        """Somebody has promised a higher ballot: what is done under this one is lost, and released all the same."""
        self._let_go()
        self._ballot = None
        self._write(Heard(ballot))
        self._rest()
