"""Looking at what arrives before it is taken: whether an honest node can have sent it.

Whatever breaks a rule is dropped, and its sender is named (`Broke`). To drop a message is always safe: it might have
been lost on its way.
"""

from __future__ import annotations

from ._core import Core
from .actions import Rule
from .messages import (
    Ask,
    Ballot,
    Doubt,
    Final,
    Hello,
    Message,
    Offer,
    Outcome,
    Pass,
    Prepare,
    Refuse,
    Reject,
    Resume,
    WantOutcome,
    WantTicket,
)

__all__ = ["Scrutiny"]


class Scrutiny:
    """A node's eye on what others send."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def lets_in(self, sender: int, message: Message) -> bool:
        """Say whether a message is taken; name its sender if no honest node sends it."""
        if isinstance(message, Outcome | WantOutcome):
            return True
        ballot = message.promised if isinstance(message, Reject | Refuse) else message.ballot
        near = self.core.note(ballot)
        if isinstance(message, Prepare | Resume):
            return near and self.is_its_own(sender, message)
        if not self.is_known(sender, message, ballot):
            return False
        if isinstance(message, Pass | Final):
            good = self.came_along_the_path(sender, message) and self.has_own_marks(sender, message)
            if not good and isinstance(message, Final):
                self.core.send(sender, Reject(self.core.memory.promised))  # an honest node must not wait for this vote
            return good
        return True

    def is_its_own(self, sender: int, message: Prepare | Resume) -> bool:
        """Say whether a recovery is led by the owner of its ballot."""
        if message.ballot[1] != sender:
            self.core.broke(sender, Rule.BALLOT, f"leads a recovery with ballot {message.ballot}, which is not its own")
        return message.ballot[1] == sender

    def is_known(self, sender: int, message: Message, ballot: Ballot) -> bool:
        """Say whether a message is of a ballot that a majority has promised, or a lower one; else ask for the proof.

        Only a node that goes on under a ballot, or was told to by one that does, says so, and each of those has the
        proof. What is dropped meanwhile comes again: greetings, questions and final models are repeated, and the node
        that leads a recovery sends the proof to all at once, so that an offer seldom comes before it.
        """
        core = self.core
        if ballot <= core.proven or ballot < core.memory.promised:
            return True
        if not isinstance(message, Offer | Hello | Ask | Pass | Final | Doubt | Reject | Refuse):
            return True
        core.send(sender, WantTicket(ballot))
        return isinstance(message, Doubt | Reject | Refuse)

    def came_along_the_path(self, sender: int, message: Pass | Final) -> bool:
        """Say whether a token can have come along the agreed path, with or without updates."""
        from .chain import wrong_way  # it needs numpy, and those who only read messages do not

        hop = message.hop if isinstance(message, Pass) else None
        problem = wrong_way(
            message.token, self.core.rules.path, sender=sender, hop=hop, recovered=message.ballot[0] > 0
        )
        if problem:
            self.core.broke(sender, Rule.WAY, problem)
        return not problem

    def has_own_marks(self, sender: int, message: Pass | Final) -> bool:
        """Say whether a token has the updates of this node: none that it did not make, and all of its ballot.

        Under one ballot there is one chain of updates, so a token of that ballot that lacks one of this node's updates
        under it is an old one, or made up.
        """
        from .chain import marks_of

        core = self.core
        marks = marks_of(message.token.chain)
        before = message.hop if isinstance(message, Pass) else core.rules.steps + 1
        made = needed = 0
        for ballot, hop in core.memory.ledger:
            made |= 1 << (hop - 1)
            if ballot == message.ballot and hop < before:
                needed |= 1 << (hop - 1)
        unknown, lost = marks & core.own_turns & ~made, needed & ~marks
        if unknown:
            hop = unknown.bit_length()
            core.broke(sender, Rule.MARKS, f"its token has an update of hop {hop} that is not in this node's journal")
        elif lost:
            core.broke(sender, Rule.MARKS, f"its token lacks this node's update of hop {lost.bit_length()}")
        return not unknown and not lost
