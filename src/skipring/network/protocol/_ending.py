"""The end of a run: the final model is written down by a majority, then told to all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ._core import Core
from ._state import Deciding, Ended
from ._wishing import Wishing
from .actions import Rule, Timer
from .journal import Kept, Over
from .messages import (
    Ballot,
    Copy,
    Decided,
    Final,
    FinalAccepted,
    Kind,
    Looks,
    Message,
    Outcome,
    Reject,
    Signatures,
    Token,
    WantLooks,
    WantOutcome,
)


class Ending:
    """A node's part in ending a run."""

    def __init__(self, core: Core, wishing: Wishing) -> None:
        self.core, self._wishing = core, wishing

    def announce(self) -> None:
        """Propose the newest copy as the final model."""
        copy = self.core.memory.copy
        votes = {self.core.me: self.core.seal.vote(copy.ballot, copy.token)}
        self.core.state.doing = Deciding(votes)
        self._propose(votes)

    def _propose(self, votes: Mapping[int, bytes]) -> None:
        core, copy = self.core, self.core.memory.copy
        for node in core.others:
            if node not in votes:
                core.send(node, Final(copy.ballot, copy.token, core.wished))
        core.wait(Timer.VOTE, core.rules.lease)
        self.count(votes)

    def on_vote_late(self) -> None:
        """Ask those again who have not answered."""
        doing = self.core.state.doing
        if isinstance(doing, Deciding):
            self.core.state.doing = replace(doing, tries=doing.tries + 1)
            self._propose(doing.votes)

    def on_final(self, sender: int, message: Final) -> None:
        """Write down the model that a holder proposes, unless a higher ballot was promised, and vote for it."""
        core = self.core
        if message.ballot < core.memory.promised:
            core.send(sender, Reject(core.memory.promised))
            return
        if message.wishes and not self._wishing.learn(sender, message.wishes):
            core.broke(sender, Rule.WISH, f"ends the run with {len(message.wishes)} wishes, which are no majority's")
            return
        copy, had = Copy(message.ballot, core.rules.steps + 1, Kind.FINAL, message.token), core.memory.copy
        if had != copy and (had.ballot, had.kind) == (copy.ballot, Kind.FINAL):
            core.send(sender, Reject(core.memory.promised))
            return  # one model per ballot, whatever went wrong elsewhere
        if had != copy:
            if not self.is_in_time(sender, message):
                return
            core.let_go()
            core.write(Kept(copy, sender))
        core.rest()
        core.send(sender, FinalAccepted(message.ballot, core.seal.vote(message.ballot, message.token)))

    def is_in_time(self, sender: int, message: Final) -> bool:
        """Say whether a final model may come now: this node was offered its last turn, or nobody objects for long.

        A node that has, or sees, a token that is still on its way would end the run with an old model. The holder of
        the token greets more often than this node waits here (`Core.oppose` forgets the proposal then). If there was no
        other token, and the offers were lost, the end is merely later by that time.
        """
        core, state = self.core, self.core.state
        last = core.last_turn
        if last == 0 or (state.turn is not None and state.turn >= (message.ballot, last)):
            return True
        if message.wishes:
            return self.is_newest(sender, message)
        if state.proposed is not None and state.proposed[1] == message.token:
            state.proposed = state.proposed[0] | {sender}, message.token
            return state.unopposed
        state.proposed, state.unopposed = (frozenset({sender}), message.token), False
        core.wait(Timer.OPPOSED, core.rules.silence)
        return False

    def is_newest(self, sender: int, message: Final) -> bool:
        """Say whether a final model that a majority has wished for is the newest that was proposed for a moment.

        The holder has been told of the wishes, too, and its token has more updates than any that a node has kept from
        before. Updates are signed, so that nobody can make up a newer one. Of two that are equally new the first one
        counts, or who proposes others again and again would divide the votes.
        """
        core, state = self.core, self.core.state
        if state.proposed is not None and state.proposed[1] == message.token:
            return state.unopposed
        if state.proposed is not None and state.proposed[1].updates >= message.token.updates:
            return False
        state.proposed, state.unopposed = (frozenset({sender}), message.token), False
        core.wait(Timer.OPPOSED, core.rules.lease / 2.0)
        return False

    def on_opposed_late(self) -> None:
        """Nobody has shown a sign of another token since a final model was proposed before its time.

        If it was wished for, and its proposer is silent from then on, others are listened to again.
        """
        core, state = self.core, self.core.state
        if core.wished and state.unopposed:
            state.proposed, state.unopposed = None, False
            return
        state.unopposed = True
        if core.wished:
            core.wait(Timer.OPPOSED, core.rules.silence)

    def on_final_accepted(self, sender: int, message: FinalAccepted) -> None:
        """Count a vote."""
        doing, copy = self.core.state.doing, self.core.memory.copy
        if not isinstance(doing, Deciding) or message.ballot != copy.ballot:
            return
        if not self.core.seal.is_vote(sender, copy.ballot, copy.token, message.vote):
            self.core.broke(sender, Rule.VOTE, "its vote is not for the model that it was sent")
            return
        votes = {**doing.votes, sender: message.vote}
        self.core.state.doing = replace(doing, votes=votes)
        self.count(votes)

    def count(self, votes: Mapping[int, bytes]) -> None:
        """End the run if a majority has the model on disk."""
        core = self.core
        if len(votes) >= core.rules.majority:
            ballot, token, signed = core.memory.copy.ballot, core.memory.copy.token, tuple(sorted(votes.items()))
            wishes = core.wished
            self.end(token, ballot, signed, wishes)
            for node in core.others:
                core.send(node, Decided(ballot, signed) if node in votes else Outcome(token, ballot, signed, wishes))

    def on_decided(self, sender: int, message: Decided) -> None:
        """Take the news that what this node wrote down is final; a node that has not got it asks for it."""
        copy = self.core.memory.copy
        if copy.kind is Kind.FINAL and copy.ballot == message.ballot:
            self._end_if_signed(sender, copy.token, message.ballot, message.votes, self.core.wished)
        else:
            self.core.send(sender, WantOutcome())

    def on_outcome(self, sender: int, message: Outcome) -> None:
        """Take a final model that a majority has signed."""
        good = bool(message.wishes) and self._wishing.learn(sender, message.wishes)
        self._end_if_signed(sender, message.token, message.ballot, message.votes, message.wishes if good else ())

    def _end_if_signed(self, sender: int, token: Token, ballot: Ballot, votes: Signatures, wishes: Signatures) -> None:
        """End the run with a model for which a majority has voted; one node's word does not end it."""
        core = self.core
        good = {node: vote for node, vote in votes if core.seal.is_vote(node, ballot, token, vote)}
        if len(good) < core.rules.majority:
            core.broke(sender, Rule.OUTCOME, f"says that the run is over, with {len(good)} good votes of {len(votes)}")
            return
        self.end(token, ballot, tuple(sorted(good.items())), wishes)

    def end(self, token: Token, ballot: Ballot, votes: Signatures, wishes: Signatures = ()) -> None:
        """Write down the outcome, and stop."""
        core = self.core
        core.let_go()
        core.write(Over(token, ballot, votes, wishes))
        core.stop(Timer.SILENCE, Timer.RECOVERY, Timer.VOTE, Timer.BEAT, Timer.HUSH, Timer.AGREED, Timer.OPPOSED)
        core.state.doing = Ended()

    def after_the_end(self, sender: int, message: Message) -> None:
        """Tell a node that does not know it yet, and prove it."""
        memory = self.core.memory
        if isinstance(message, Outcome) and message.token != memory.outcome and message.ballot == memory.decided:
            self._find_who_voted_twice(message)
        if (
            memory.outcome is not None
            and memory.decided is not None
            and not isinstance(message, Outcome | Decided | FinalAccepted | WantLooks | Looks)
        ):
            self.core.send(sender, Outcome(memory.outcome, memory.decided, memory.votes, memory.asked))

    def _find_who_voted_twice(self, message: Outcome) -> None:
        """Name those who have signed another final model under the ballot of the outcome: no honest node does."""
        core = self.core
        for node, vote in message.votes:
            twice = any(voter == node for voter, _ in core.memory.votes)
            if twice and core.seal.is_vote(node, message.ballot, message.token, vote):
                core.broke(node, Rule.TWO_VOTES, "has signed two final models under one ballot", proof=True)
