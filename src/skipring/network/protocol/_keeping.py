"""Holding the token: it is offered hop by hop, sent to a node that is ready, and asked about until that node has it."""

from __future__ import annotations

from dataclasses import replace

from ._core import Core
from ._cutting import cut_marks
from ._ending import Ending
from ._presence import Presence
from ._state import Computing, Idle, Invitation, Offering, Unconfirmed, Waiting, Watching
from .actions import News, Timer
from .journal import Kept, Passing, Released
from .messages import (
    Accepted,
    Answer,
    Ask,
    Ballot,
    Copy,
    Here,
    Kind,
    Moved,
    Offer,
    Pass,
    Place,
    Ready,
    Refuse,
    Token,
)
from .sight import FRESH
from .standing import too_few

#: A receiver that does not answer is asked so often before it is doubted that the token is still there.
_ASKED = 3


class Keeping:
    """A node's part while it has the token, and until the next holder has passed it on."""

    def __init__(self, core: Core, ending: Ending, presence: Presence) -> None:
        self.core, self._ending, self.presence = core, ending, presence

    def begin(self) -> None:
        """Go on after a start, if this node was the holder when it stopped, or is the first one."""
        core, memory, copy = self.core, self.core.memory, self.core.memory.copy
        resumed = copy.ballot == memory.promised and copy.kind is not Kind.INITIAL
        first = copy.kind is Kind.INITIAL and copy.ballot == memory.promised
        if resumed or (first and (copy.ballot[0] > 0 or core.me == core.rules.path[0])):
            if copy.kind is not Kind.FINAL and memory.passing is not None:
                # The token may have been sent before the crash, or not: only its receiver knows.
                self._ask(Unconfirmed(memory.passing[1]))
            else:
                self.hold()

    def hold(self) -> None:
        """Go on from the newest copy, as its holder."""
        core, copy = self.core, self.core.memory.copy
        core.stop(Timer.WATCH)
        core.state.against = frozenset()
        core.state.invitations, core.state.preparing = {}, None  # other nodes that have offered it have none to send
        if core.state.quiet:
            core.greet()
        if copy.kind is Kind.ACCEPTED and core.is_willing(core.place):
            core.state.doing = Computing(copy.hop)
            core.compute(core.place, copy.token)
        elif copy.kind is Kind.FINAL:
            self._ending.announce()
        else:  # also where a recovery has made an update too dear that was affordable when the token came
            self.offer(copy.hop + 1)

    def computed(self, ballot: Ballot, hop: int, token: Token | None) -> None:
        """Take an update that was asked for; it counts only if nothing has overtaken it. None: there is none in time.

        Once its turn is over, a node has passed the token on without its update. An update that it makes of it later
        would be another one at the same hop: it is thrown away.
        """
        core = self.core
        if not self.is_wanted(ballot, hop) or ballot != core.memory.promised:
            return
        core.stop(Timer.TURN)
        if token is None:
            self._pass_on_unchanged(hop)
        else:
            core.stamps.made(token, core.me)
            core.write(Released(Copy(ballot, hop, Kind.UPDATED, token)))
            self.offer(hop + 1)

    def is_wanted(self, ballot: Ballot, hop: int) -> bool:
        """Say whether the update of a place is being waited for."""
        return isinstance(self.core.state.doing, Computing) and self.core.place == (ballot, hop)

    def on_turn_late(self) -> None:
        """The turn of this node is over, and its update is not there."""
        if isinstance(self.core.state.doing, Computing):
            self._pass_on_unchanged(self.core.state.doing.hop)

    def _pass_on_unchanged(self, hop: int) -> None:
        """Pass the token on as it came; others see from the next one that this hop has no update."""
        self.core.say(f"no update at hop {hop}: it would have come too late, so the token goes on as it is", News.LATE)
        self.offer(hop + 1)

    # Offering it.

    def offer(self, hop: int) -> None:
        """Offer the token to the node of a hop; after the last, or if a majority wishes so, it is the final model."""
        core, copy = self.core, self.core.memory.copy
        core.state.invitations.pop(core.me, None)  # to an own hop that is skipped
        if hop > core.rules.steps or core.wished:
            self._finish()
            return
        if not self.presence.is_enough(hop):
            # What a few alone go on with costs the hops of all, and their own privacy. Who is out there?
            self._greet_all(Waiting(hop - 1, frozenset({core.me})))
            return
        if core.state.quiet:
            core.greet()
        core.state.doing = Offering(hop)
        node, place = core.rules.node_of(hop), (copy.ballot, hop)
        core.wait(Timer.OFFER, self.patience_with(node))
        if node != core.me:
            # Written before the offer and not before the token itself: on the disk together with the update before it.
            core.write(Passing(*place))
            core.send(node, Offer(*place))
            return
        core.state.turn = place
        if core.is_willing(place):
            core.state.invitations = {core.me: Invitation(place)}
            core.prepare(place)
        else:  # there is nobody to wait for
            core.stop(Timer.OFFER)
            core.wait(Timer.SKIP, 0.0)

    def _finish(self) -> None:
        """Propose the token as it is: however far the copies of others go, nothing comes after a final model."""
        core, copy = self.core, self.core.memory.copy
        core.write(Kept(Copy(copy.ballot, core.rules.steps + 1, Kind.FINAL, copy.token)))
        self._ending.announce()

    def finish_if_wished(self) -> None:
        """End the run at this hop, if a majority wishes so and the token is here: neither sent nor being updated."""
        core = self.core
        if core.wished and isinstance(core.state.doing, Offering | Waiting):
            core.stop(Timer.OFFER, Timer.SKIP, Timer.WAIT)
            core.state.invitations, core.state.preparing = {}, None
            self._finish()

    def patience_with(self, node: int) -> float:
        """Return how long to wait for the node of an offer: if it is not reached, not longer than the offer lives."""
        seconds = self.core.sight.offer_timeout()
        reached = node == self.core.me or self.core.sight.reaches(node)
        return seconds if reached else min(seconds, FRESH)

    def on_offer_late(self) -> None:
        """Nobody said ready in time: the hop is skipped."""
        if isinstance(self.core.state.doing, Offering):
            self.skip(self.core.state.doing.hop)

    def skip(self, hop: int) -> None:
        """Offer the next hop."""
        self.core.stop(Timer.OFFER)
        self.offer(hop + 1)

    def _greet_all(self, doing: Waiting) -> None:
        core = self.core
        core.state.doing = replace(doing, greeted=doing.greeted + 1)
        core.greet()
        core.wait(Timer.WAIT, core.rules.lease)

    def on_wait_late(self) -> None:
        """Ask all nodes again whether they are there; the first time that too few have answered is news."""
        core, doing = self.core, self.core.state.doing
        if isinstance(doing, Waiting):
            if doing.greeted == 1:
                core.say(too_few(core.rules, doing.heard), News.NO_QUORUM)
            self._greet_all(doing)

    def on_here(self, sender: int, message: Here) -> None:
        """Go on once enough nodes are there."""
        core, doing = self.core, self.core.state.doing
        if isinstance(doing, Waiting) and message.ballot == core.memory.copy.ballot:
            heard = doing.heard | {sender}
            core.state.doing = replace(doing, heard=heard)
            if core.rules.is_quorum(heard):
                core.stop(Timer.WAIT)
                if doing.greeted > 1:
                    core.say(f"enough nodes answer ({len(heard)} of {core.rules.nodes}): it goes on", News.QUORUM)
                self.offer(doing.hop + 1)

    def on_beat_late(self) -> None:
        """Nobody has greeted for a while: the holder does it, if this node has the token by now."""
        self.core.state.quiet = True
        if self.core.state.has_it:
            self.core.greet()

    def on_ready(self, sender: int, message: Ready) -> None:
        """Send the token to the node that it was offered to."""
        core, doing, copy = self.core, self.core.state.doing, self.core.memory.copy
        if isinstance(doing, Offering) and self._is_from_its_node(sender, (message.ballot, message.hop), doing.hop):
            core.stop(Timer.OFFER)
            core.state.doing = Unconfirmed(doing.hop)
            heard, turns = self.presence.told(), core.sight.turns_told()
            token, since = cut_marks(copy.token, message.known)
            core.tell_wishes(sender)
            core.send(sender, Pass(message.ballot, message.hop, token, heard, turns, since))
            core.wait(Timer.LEASE, core.rules.lease)

    def on_refuse(self, sender: int, message: Refuse) -> None:
        """Offer the next hop, if it was this node's offer that was refused."""
        core, doing = self.core, self.core.state.doing
        if isinstance(doing, Offering) and self._is_from_its_node(sender, (message.ballot, message.hop), doing.hop):
            if message.promised > core.memory.promised:
                # It may be that a recovery goes on; whether a majority does not listen any more is seen to in `Peer`.
                core.state.against |= {sender}
            self.skip(doing.hop)

    def accept_own(self, hop: int) -> None:
        """Take the token for an own hop: nothing is sent, and the update is made at once."""
        core, copy = self.core, self.core.memory.copy
        core.stop(Timer.OFFER)
        core.write(Kept(Copy(copy.ballot, hop, Kind.ACCEPTED, copy.token), core.memory.sender))
        self.hold()

    def _is_from_its_node(self, sender: int, place: Place, hop: int) -> bool:
        """Say whether a message is about the hop that this node offers or has sent, and from the node of that hop."""
        core = self.core
        return place == (core.memory.copy.ballot, hop) and sender == core.rules.node_of(hop)

    # Having sent it: until the receiver says what became of it, it goes nowhere else.

    def _ask(self, doing: Unconfirmed) -> None:
        core = self.core
        core.state.doing = replace(doing, asked=doing.asked + 1)
        core.send(core.rules.node_of(doing.hop), Ask(core.memory.copy.ballot, doing.hop))
        core.wait(Timer.LEASE, core.rules.lease)

    def on_lease_late(self) -> Place | None:
        """Ask the node that the token was sent to; return the place that is to be doubted if it was asked enough."""
        core, doing = self.core, self.core.state.doing
        if not isinstance(doing, Unconfirmed):
            return None
        if self.is_travelling(doing):
            # A large model on a slow link is not lost; asked now, the receiver would say no, and never take it.
            core.wait(Timer.LEASE, core.rules.lease)
            return None
        if doing.asked >= _ASKED:
            return core.memory.copy.ballot, doing.hop
        self._ask(doing)
        return None

    def is_travelling(self, doing: Unconfirmed) -> bool:
        """Say whether the model that was sent is still on its way."""
        return self.core.sight.carries_to(self.core.rules.node_of(doing.hop))

    def on_accepted(self, sender: int, message: Accepted) -> None:
        """Let go of the token, since the next node has it, and watch over it."""
        self._confirmed(sender, (message.ballot, message.hop))

    def _confirmed(self, sender: int, place: Place) -> None:
        core, doing = self.core, self.core.state.doing
        if isinstance(doing, Unconfirmed) and self._is_from_its_node(sender, place, doing.hop):
            core.stop(Timer.LEASE)
            core.let_go()
            core.state.doing = Watching(sender, place)
            core.wait(Timer.WATCH, core.rules.silence)
            if core.memory.sender is not None:
                core.send(core.memory.sender, Moved(*core.place))

    def on_answer(self, sender: int, message: Answer) -> None:
        """Take what a node says that was asked whether it has the token."""
        core, doing, place = self.core, self.core.state.doing, (message.ballot, message.hop)
        if isinstance(doing, Watching):
            if (doing.node, doing.place) == (sender, place) and message.has:
                core.state.doing = replace(doing, asked=0)
                core.wait(Timer.WATCH, core.rules.silence)
        elif isinstance(doing, Unconfirmed) and self._is_from_its_node(sender, place, doing.hop):
            if message.has:
                self._confirmed(sender, place)
            else:
                core.stop(Timer.LEASE)
                self.skip(doing.hop)

    # Having passed it on: until the node after it has passed it on, too, it may be lost there.

    def on_moved(self, sender: int, message: Moved) -> None:
        """Stop watching: the token has reached the node after the next."""
        core, doing = self.core, self.core.state.doing
        if isinstance(doing, Watching) and doing.node == sender and doing.place[0] == message.ballot:
            core.state.doing = Idle()
            core.stop(Timer.WATCH)

    def on_watch_late(self) -> Place | None:
        """Ask the node that has the token; return the place that is to be doubted if it was asked enough."""
        core, doing = self.core, self.core.state.doing
        if not isinstance(doing, Watching):
            return None
        if doing.asked >= _ASKED:
            core.state.doing = Idle()
            return doing.place
        core.state.doing = replace(doing, asked=doing.asked + 1)
        core.send(doing.node, Ask(*doing.place))
        core.wait(Timer.WATCH, core.rules.lease)
        return None
