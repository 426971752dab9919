"""Looking at what arrives before it is taken: whether an honest node can have sent it.

Whatever breaks a rule is dropped, and its sender is named (`Broke`). To drop a message is always safe: it might have
been lost on its way.
"""

from __future__ import annotations

from ._core import Core
from .actions import News, Rule
from .chain import marks_of, wrong_way
from .journal import Forked
from .messages import (
    Ask,
    Ballot,
    Doubt,
    Final,
    Fork,
    Hello,
    Kind,
    Looks,
    Message,
    Offer,
    Outcome,
    Pass,
    Prepare,
    Refuse,
    Reject,
    Resume,
    WantLooks,
    WantOutcome,
    WantTicket,
    WishesKnown,
)
from .stamps import Split, split


class Scrutiny:
    """A node's eye on what others send."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def lets_in(self, sender: int, message: Message) -> bool:
        """Say whether a message is taken; name its sender if no honest node sends it."""
        if isinstance(message, Outcome):
            return self.is_signed(sender, message)
        if isinstance(message, WantOutcome | Fork | WishesKnown | WantLooks | Looks):
            return True
        ballot = message.promised if isinstance(message, Reject | Refuse) else message.ballot
        near = self.core.note(ballot)
        if isinstance(message, Prepare | Resume):
            return near and self.is_its_own(sender, message)
        if not self.is_known(sender, message, ballot):
            return False
        if isinstance(message, Pass | Final):
            good = self.is_on_its_way(sender, message)
            if not good and isinstance(message, Final):
                self.core.send(sender, Reject(self.core.memory.promised))  # an honest node must not wait for this vote
            return good
        return True

    def is_on_its_way(self, sender: int, message: Pass | Final) -> bool:
        """Say whether a token can have come here honestly."""
        along = self.came_along_the_path(sender, message) and self.is_signed(sender, message)
        return along and self.goes_on(sender, message)

    def is_its_own(self, sender: int, message: Prepare | Resume) -> bool:
        """Say whether a recovery is led by the owner of its ballot."""
        if message.ballot[1] != sender:
            self.core.broke(sender, Rule.BALLOT, f"leads a recovery with ballot {message.ballot}, which is not its own")
        return message.ballot[1] == sender

    def is_known(self, sender: int, message: Message, ballot: Ballot) -> bool:
        """Say whether a message is of a ballot that a majority has promised, or a lower one; else ask for the proof.

        Only a node that goes on under a ballot, or was told to by one that does, says so, and each of those has the
        proof. What is dropped meanwhile comes again. Greetings, questions and final models are repeated, and the node
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
        hop = message.hop if isinstance(message, Pass) else None
        problem = wrong_way(
            message.token, self.core.rules.path, sender=sender, hop=hop, recovered=message.ballot[0] > 0
        )
        if problem:
            self.core.broke(sender, Rule.WAY, problem)
        return not problem

    def is_signed(self, sender: int, message: Pass | Final | Outcome) -> bool:
        """Say whether each update on a token was signed by its node."""
        problem = self.unsigned(message)
        if problem:
            self.core.broke(sender, Rule.STAMPS, f"its token {problem}")
        return not problem

    def unsigned(self, message: Pass | Final | Outcome) -> str:
        """Say why a token has updates that their nodes have not signed; nothing if each is signed."""
        core, token = self.core, message.token
        if isinstance(message, Pass):
            return core.stamps.problem_on_its_way(token, core.me, core.memory.copy.token)
        return core.stamps.problem(token)

    def goes_on(self, sender: int, message: Pass | Final) -> bool:
        """Say whether a token is on the way that this node has seen under its ballot; if not, show all nodes both ways.

        Who has seen two ways knows more of those who were before the fork than one way tells: all count in full then.
        If updates are merely missing, or the stamps do not tell, it is an old token, and its sender is named.
        """
        core, token = self.core, message.token
        copy = core.memory.copy
        if copy.ballot != message.ballot:
            return True
        found = split(copy.token, token, core.turns)
        if found is not None and not core.stamps.problem(copy.token) and not core.stamps.problem(token):
            self.tell_of(Fork(copy.token.trail, token.trail), found)
            return False
        seen = copy.hop - (copy.kind is Kind.ACCEPTED)
        both = min(seen, message.hop - 1) if isinstance(message, Pass) else seen
        if found is not None or (marks_of(copy.token.chain) ^ marks_of(token.chain)) & ((1 << both) - 1):
            core.broke(sender, Rule.WAY, "its token is not on the way that this node has seen under its ballot")
            return False
        return True

    def on_fork(self, sender: int, message: Fork) -> None:
        """Take the proof that the run went two ways, and hand it on."""
        core = self.core
        for trail in (message.one, message.other):
            problem = self.core.stamps.problem(trail)
            if problem:
                core.broke(sender, Rule.STAMPS, f"speaks of a fork, and its trail {problem}")
                return
        found = split(message.one, message.other, core.turns)
        if found is not None:
            self.tell_of(message, found)

    def after_the_end(self, sender: int, message: Message) -> None:
        """Take what shows that the run went two ways: it counts, though nothing is released any more."""
        memory = self.core.memory
        if isinstance(message, Fork):
            self.on_fork(sender, message)
        elif isinstance(message, Pass | Final) and memory.outcome is not None and message.ballot == memory.decided:
            found = split(memory.outcome, message.token, self.core.turns)
            if found is not None and not self.core.stamps.problem(message.token):
                self.tell_of(Fork(memory.outcome.trail, message.token.trail), found)

    def tell_of(self, fork: Fork, found: Split) -> None:
        """Write down that the run went two ways, and tell all others, once for each ballot."""
        core = self.core
        if core.memory.forked is None or found.ballot > core.memory.forked:
            core.write(Forked(found.ballot))
            core.say(f"under ballot {found.ballot} the run went two ways: all updates so far count in full", News.FORK)
            core.send_all(fork)
        if found.culprit is not None and found.culprit not in (core.me, *core.state.shut_out):
            core.broke(found.culprit, Rule.TWO_UPDATES, "has signed two updates at one hop", proof=True)
