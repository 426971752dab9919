"""Being offered the token, and taking it."""

from __future__ import annotations

from ._core import Core
from ._cutting import known, marks_before, whole
from ._keeping import Keeping
from ._state import Invitation, Offering, Unconfirmed
from .actions import Rule
from .journal import Gone, Kept
from .messages import Accepted, Answer, Ask, Ballot, Copy, Hello, Here, Kind, Offer, Pass, Place, Ready, Refuse, Reject


class Receiving:
    """A node's part while another node has the token."""

    def __init__(self, core: Core, keeping: Keeping) -> None:
        self.core, self._keeping = core, keeping

    def on_hello(self, sender: int, message: Hello) -> None:
        """Take the news that a node holds the token."""
        core, state = self.core, self.core.state
        if message.ballot < core.memory.promised:
            core.send(sender, Reject(core.memory.promised))
            return
        if isinstance(state.doing, Unconfirmed):
            core.let_go()  # it was passed on: another node has it
        core.oppose(sender)
        core.hear_greeting()
        core.rest()
        core.send(sender, Here(message.ballot))
        core.tell_wishes(sender)

    def on_offer(self, sender: int, message: Offer) -> None:
        """Prepare for a hop and say when this node is ready, or refuse."""
        core, state, place = self.core, self.core.state, (message.ballot, message.hop)
        if isinstance(state.doing, Unconfirmed) and place > (core.memory.copy.ballot, state.doing.hop):
            core.let_go()  # the token has moved on; the message that says so may have been overtaken by this offer
        mine = 1 <= message.hop <= core.rules.steps and core.rules.node_of(message.hop) == core.me
        new = message.ballot >= core.memory.promised and core.is_new(place, sender)
        if mine:
            state.turn = max(state.turn or place, place)
        if not (mine and new and not state.holds and core.is_willing(place)):
            core.send(sender, Refuse(message.ballot, message.hop, core.memory.promised))
            return
        core.oppose(sender)
        core.rest()
        self._invite(sender, place)

    def _invite(self, sender: int, place: Place) -> None:
        """Keep the newest invitation of a node, and prepare for it; those of others stay as they are.

        The batch is loaded for one place at a time, the newest. But who has changed its mind waits until what others
        have asked for is there: else a flood of offers for hops to come would let nothing ever become ready.
        """
        core, state = self.core, self.core.state
        before = state.invitations.pop(sender, None)
        same = (one for one in (before, *state.invitations.values()) if one is not None and one.place == place)
        known_as = next(same, None)
        state.invitations[sender] = known_as or Invitation(place)
        if known_as is not None:
            if known_as.ready:
                core.send(sender, Ready(*place, known(known_as.marks)))
            return
        others = [
            one.place for node, one in state.invitations.items() if node != sender and self._is_awaited(node, one)
        ]
        if before is None or not others:
            core.prepare(place)
        elif state.preparing not in others:
            core.prepare(others[0])

    def prepared(self, ballot: Ballot, hop: int) -> None:
        """Take the news that the batch of a hop is there; then prepare for what else this node was invited to."""
        core, state, place = self.core, self.core.state, (ballot, hop)
        if state.preparing == place:
            state.preparing = None
        by = [node for node, one in state.invitations.items() if one.place == place]
        if by and ballot >= core.memory.promised:
            marks = marks_before(core.memory.copy, core.rules.short)
            for node in by:
                state.invitations[node] = Invitation(place, ready=True, marks=marks)
            if state.doing == Offering(hop) and core.memory.copy.ballot == ballot:
                self._keeping.accept_own(hop)
            elif not state.holds:
                for node in sorted(by):
                    core.tell_wishes(node)
                    core.send(node, Ready(ballot, hop, known(marks)))
        if state.preparing is None and not state.holds:
            waiting = (one.place for node, one in state.invitations.items() if self._is_awaited(node, one))
            if (following := next(waiting, None)) is not None:
                core.prepare(following)

    def _is_awaited(self, node: int, invitation: Invitation) -> bool:
        """Say whether this node is still to be ready for an invitation."""
        core, place = self.core, invitation.place
        return not invitation.ready and place[0] >= core.memory.promised and core.is_new(place, node)

    def expects(self, place: Place, sender: int) -> bool:
        """Say whether the token of a place would be taken from a node."""
        invitation = self.core.state.invitations.get(sender)
        if invitation is None or invitation.place != place:
            return False
        return invitation.ready and self.core.is_new(place, sender)

    def whole(self, sender: int, message: Pass) -> Pass | None:
        """Return a message with the whole token, whose marks this node has said it has; None if it has not."""
        invitation = self.core.state.invitations.get(sender)
        asked = invitation is not None and self.expects((message.ballot, message.hop), sender)
        return whole(message, invitation.marks if invitation is not None and asked else None, self.core.rules.steps)

    def on_pass(self, sender: int, message: Pass) -> None:
        """Write down the token that this node is ready for, and go on with it."""
        core, place = self.core, (message.ballot, message.hop)
        if message.ballot < core.memory.promised:
            core.send(sender, Reject(core.memory.promised))
        elif place == core.place and core.memory.copy.kind is not Kind.INITIAL and core.memory.sender == sender:
            core.send(sender, Accepted(*place))
        elif self.expects(place, sender):
            core.let_go()
            core.state.recoveries = 0  # the run goes on; patience need not grow any more
            core.state.shunned = frozenset()
            core.write(Kept(Copy(message.ballot, message.hop, Kind.ACCEPTED, message.token), sender))
            core.send(sender, Accepted(*place))
            core.rest()
            self._keeping.presence.learn(message.heard, message.hop)
            self._keeping.hold()

    def on_ask(self, sender: int, message: Ask) -> None:
        """Say whether this node has the token of a place; if not, it writes down that it will never take it."""
        core, place = self.core, (message.ballot, message.hop)
        if message.ballot < core.memory.promised:
            core.send(sender, Reject(core.memory.promised))
        if not (1 <= message.hop <= core.rules.steps and core.rules.node_of(message.hop) == core.me):
            core.broke(sender, Rule.HOP, f"asks for the token of hop {message.hop}, which is not this node's")
            return
        has = core.place >= place and core.memory.copy.kind is not Kind.INITIAL and self._had(place)
        if not has and core.is_new(place, sender):
            core.write(Gone(*place, sender))  # it may still be on its way, and the sender will go on without it
        core.send(sender, Answer(message.ballot, message.hop, has))

    def _had(self, place: Place) -> bool:
        """Say whether the token of a place was accepted here, and is the copy or was updated since."""
        memory = self.core.memory
        return place == self.core.place or place in memory.ledger or place in memory.unchanged
