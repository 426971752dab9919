"""The end of a run: the final model is written down by a majority, then told to all."""

from __future__ import annotations

from ._core import Core
from ._state import Deciding, Ended
from .actions import Timer
from .journal import Kept, Over
from .messages import (
    Ballot,
    Copy,
    Decided,
    Final,
    FinalAccepted,
    Kind,
    Message,
    Outcome,
    Reject,
    Token,
    WantOutcome,
)

__all__ = ["Ending"]


class Ending:
    """A node's part in ending a run."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def announce(self) -> None:
        """Propose the newest copy as the final model."""
        self.core.state.doing = Deciding(frozenset({self.core.me}))
        self._propose(frozenset({self.core.me}))

    def _propose(self, votes: frozenset[int]) -> None:
        core, copy = self.core, self.core.memory.copy
        for node in core.others:
            if node not in votes:
                core.send(node, Final(copy.ballot, copy.token))
        core.wait(Timer.VOTE, core.rules.lease)
        self.count(votes)

    def on_vote_late(self) -> None:
        """Ask those again who have not answered."""
        if isinstance(self.core.state.doing, Deciding):
            self._propose(self.core.state.doing.votes)

    def on_final(self, sender: int, message: Final) -> None:
        """Write down the model that a holder proposes, unless a higher ballot was promised."""
        core = self.core
        if message.ballot < core.memory.promised:
            core.send(sender, Reject(core.memory.promised))
            return
        copy, had = Copy(message.ballot, core.rules.steps + 1, Kind.FINAL, message.token), core.memory.copy
        if had != copy and (had.ballot, had.kind) == (copy.ballot, Kind.FINAL):
            return  # one model per ballot, whatever went wrong elsewhere
        if had != copy:
            core.let_go()
            core.write(Kept(copy, sender))
        core.rest()
        core.send(sender, FinalAccepted(message.ballot))

    def on_final_accepted(self, sender: int, message: FinalAccepted) -> None:
        """Count a vote."""
        state = self.core.state
        if isinstance(state.doing, Deciding) and message.ballot == self.core.memory.copy.ballot:
            votes = state.doing.votes | {sender}
            state.doing = Deciding(votes)
            self.count(votes)

    def count(self, votes: frozenset[int]) -> None:
        """End the run if a majority has the model on disk."""
        core = self.core
        if len(votes) >= core.rules.majority:
            ballot, token = core.memory.copy.ballot, core.memory.copy.token
            self.end(token, ballot)
            for node in core.others:
                core.send(node, Decided(ballot) if node in votes else Outcome(token, ballot))

    def on_decided(self, sender: int, message: Decided) -> None:
        """Take the news that what this node wrote down is final; a node that has not got it asks for it."""
        copy = self.core.memory.copy
        if copy.kind is Kind.FINAL and copy.ballot == message.ballot:
            self.end(copy.token, message.ballot)
        else:
            self.core.send(sender, WantOutcome())

    def end(self, token: Token, ballot: Ballot) -> None:
        """Write down the outcome, and stop."""
        core = self.core
        core.let_go()
        core.write(Over(token, ballot))
        core.stop(Timer.SILENCE, Timer.RECOVERY, Timer.VOTE, Timer.BEAT, Timer.HUSH, Timer.AGREED)
        core.state.doing = Ended()

    def after_the_end(self, sender: int, message: Message) -> None:
        """Tell everybody who does not know it yet."""
        token, ballot = self.core.memory.outcome, self.core.memory.decided
        if token is not None and ballot is not None and not isinstance(message, Outcome | Decided | FinalAccepted):
            self.core.send(sender, Outcome(token, ballot))
