"""Recovering a token that was lost: a majority must agree that it is, and the furthest copy goes on, once.

A recovery stops the holder of the token, loses updates at times, and makes releases cost more. So a majority must think
that the token is lost before a node takes a higher ballot. A node that was cut off, or away, disturbs nobody. All are
told which copy is gone on with, and which lower ballots may have been gone on under, so that they know what can have
forked.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ...errors import InvalidInput
from ._core import Core
from ._keeping import Keeping
from ._state import Deciding, Doubted, Recovering, Unconfirmed, Waiting
from .actions import News, Rule, Timer
from .forks import starts_before
from .journal import Heard, Kept
from .looks import Told
from .messages import (
    Agree,
    Ballot,
    Doubt,
    Fine,
    Place,
    Prepare,
    Promise,
    Rank,
    Reject,
    Resume,
    Resumed,
    Ticket,
    WantTicket,
)

#: Recoveries that fail wait longer and longer, up to this many times the first wait.
_LONGEST = 8
#: A final model is proposed, or all nodes greeted, this often before a holder asks whether a recovery would help.
_TRIES = 8
#: A node is promised a ballot so often because it says that the token is lost, while there may be a sign of it.
_BELIEVED = 3


class Recovery:
    """A node's part in doubting that the token is still there, and in recovering it."""

    def __init__(self, core: Core, keeping: Keeping) -> None:
        self.core, self._keeping = core, keeping

    # Doubt.

    def doubt(self, place: Place, *, asked: bool) -> None:
        """Ask the others whether they know of the token."""
        core, doubted = self.core, self.core.state.doubted
        if doubted is None or (doubted.place, doubted.asked) != (place, asked):
            core.state.doubted = Doubted(place, asked, frozenset({core.me}))
        core.state.failures += 1
        core.send_all(Doubt(*place, asked))
        self._try_again_later()
        self.count_agreed()

    def _try_again_later(self) -> None:
        self.core.wait(Timer.RECOVERY, self.core.rules.lease * min(2**self.core.state.failures, _LONGEST))

    def on_doubt(self, sender: int, message: Doubt) -> None:
        """Say whether this node knows of the token."""
        state, place = self.core.state, (message.ballot, message.hop)
        known = state.seen > place if message.asked else not state.hushed
        fine = state.has_it or known or self.sees_it_move()
        if not fine:
            state.agreed |= {sender}
        self.core.send(sender, Fine(*place) if fine else Agree(*place))

    def sees_it_move(self) -> bool:
        """Say whether this node is sending the token just now: a model that travels for long is not lost."""
        core, doing = self.core, self.core.state.doing
        return isinstance(doing, Unconfirmed) and core.sight.moves_to(core.rules.node_of(doing.hop))

    def on_agree(self, sender: int, message: Agree) -> None:
        """Count a node that knows of nothing either."""
        state = self.core.state
        if state.doubted is not None and state.doubted.place == (message.ballot, message.hop):
            state.doubted = replace(state.doubted, agreed=state.doubted.agreed | {sender})
            self.count_agreed()

    def count_agreed(self) -> None:
        """Recover if all agree; if a majority does, one node that knows better is worth a moment."""
        core, state = self.core, self.core.state
        if state.doubted is None or len(state.doubted.agreed) < core.rules.majority:
            return
        if len(state.doubted.agreed) == core.rules.nodes:
            self.on_agreed_late()
        elif not state.waits_for_fine:
            state.waits_for_fine = True
            core.wait(Timer.AGREED, core.rules.lease)

    def on_agreed_late(self) -> None:
        """Nobody knew better in time."""
        state = self.core.state
        state.waits_for_fine = False
        if state.doubted is not None and len(state.doubted.agreed) >= self.core.rules.majority:
            self.recover("the holder of the token is silent" if state.doubted.asked else "no sign of the token")

    def on_fine(self, sender: int, message: Fine) -> None:
        """A node knows better: the token is not lost."""
        doubted = self.core.state.doubted
        if doubted is not None and doubted.place == (message.ballot, message.hop):
            self.core.let_go()
            self.core.rest()

    def on_silence_late(self) -> None:
        """There has been no sign of progress for long."""
        core, state = self.core, self.core.state
        if state.has_it:
            core.rest()
        elif state.doubted is None and not state.holds:
            self.doubt(core.furthest, asked=False)
        else:  # the node that was sent the token is being asked, or all nodes are
            core.wait_for_progress()

    def on_hush_late(self) -> None:
        """Nobody has shown a sign of the token, though the holder greets more often than this."""
        self.core.state.hushed, self.core.state.new = True, False

    # Recovery.

    def recover(self, why: str) -> None:
        """Ask all for a promise; with those of a majority, the furthest copy goes on under a new ballot."""
        core, state = self.core, self.core.state
        core.let_go()
        state.doubted = None
        ballot = (max(state.highest[0], core.memory.promised[0]) + 1, core.me)
        state.highest = ballot
        core.write(Heard(ballot))
        signed = {core.me: core.seal.promise(ballot)}
        told = {core.me: Told(dict(core.memory.starts))}
        state.recovering = Recovering(ballot, {core.me: core.memory.copy.rank}, signed, told)
        core.say(f"recovery with ballot {ballot}: {why}", News.RECOVERY)
        core.send_all(Prepare(ballot))
        state.failures += 1
        state.recoveries += 1
        self._try_again_later()
        core.wait_for_progress()
        self.lead()

    def on_prepare(self, sender: int, message: Prepare) -> None:
        """Promise a ballot to its owner, unless a higher one was promised, or this node knows that the token is there.

        An honest node asks only after a majority has agreed that the token is lost, and those who agreed promise. The
        others do so when they have seen no sign of the token for a while, and until then count as not reached. So a
        token that is lost is recovered as before, or a little later.
        """
        core = self.core
        if message.ballot < core.memory.promised:
            core.send(sender, Reject(core.memory.promised))
            return
        if message.ballot > core.memory.promised:
            if not self.may_be_lost(sender):
                core.send(sender, Fine(message.ballot, 0))
                return
            core.give_way(Heard(message.ballot))
        places = Told(dict(core.memory.starts)).places
        core.send(sender, Promise(message.ballot, core.memory.copy.rank, core.seal.promise(message.ballot), places))

    def may_be_lost(self, doubter: int) -> bool:
        """Say whether the token may be lost, as far as this node knows: it has agreed to that, or sees no sign of it.

        A node that has promised a ballot, and not heard that a majority did, listens to no token, so it knows of none.
        """
        core, state = self.core, self.core.state
        if state.has_it or self.sees_it_move():
            return False
        if (state.hushed and not state.new) or core.memory.promised > core.proven:
            return True
        # It says that it has asked the holder of the token: that is believed a few times, and then waited for.
        if doubter in state.agreed and state.granted.count(doubter) < _BELIEVED:
            state.granted = (*state.granted, doubter)
            return True
        return False

    def on_promise(self, sender: int, message: Promise) -> None:
        """Count a promise."""
        state, recovering = self.core.state, self.core.state.recovering
        if recovering is None or message.ballot != recovering.ballot:
            return
        if message.rank[0] >= message.ballot:
            return  # it was asked twice, and has gone on in between
        if not self._is_promise(sender, message):
            self.core.broke(sender, Rule.BALLOT, "its promise is not signed")
        elif message.rank[0] > self.core.proven:
            self.core.send(sender, WantTicket(message.rank[0]))  # nobody has a copy of a ballot that nobody promised
        else:
            told = {**recovering.told}
            if (known := self._told(sender, message.places)) is not None:
                told[sender] = known
            promises, signed = {**recovering.promises, sender: message.rank}, {**recovering.signed}
            signed[sender] = message.signature
            state.recovering = replace(recovering, promises=promises, signed=signed, told=told)
            self.lead()

    def _told(self, sender: int, places: bytes) -> Told | None:
        """Return what a node tells of ballots; None if nothing that can be read."""
        core = self.core
        try:
            return Told.read(places, nodes=core.rules.nodes, steps=core.rules.steps) if places else None
        except InvalidInput as problem:
            core.broke(sender, Rule.LOOKS, str(problem))
            return None

    def _is_promise(self, sender: int, message: Promise) -> bool:
        return self.core.seal.is_promise(sender, message.ballot, message.signature)

    def lead(self) -> None:
        """With the promises of a majority, choose who is to go on: once, for there may be one owner per ballot."""
        core, recovering = self.core, self.core.state.recovering
        if recovering is None or len(recovering.promises) < core.rules.majority or recovering.chosen is not None:
            return
        if core.memory.promised != recovering.ballot:
            return
        promises = self._counted(recovering.promises)
        if len(promises) < core.rules.majority:
            return
        rank, owner = max((rank, -node) for node, rank in promises.items())
        core.state.recovering = replace(recovering, chosen=-owner)
        signed = tuple(sorted(recovering.signed.items()))
        # Each lower ballot that may be gone on under was promised by one of these at least, who says so.
        before = starts_before(core.rules, recovering.ballot, recovering.told)
        places = b"" if before is None else Told(dict(before)).places
        core.write(Heard(recovering.ballot, signed, rank, before))
        for node in core.others:
            if node != -owner:
                core.send(node, Ticket(recovering.ballot, signed, rank, places))
        if -owner == core.me:
            self.resume(recovering.ballot, rank)
            core.state.recovering = None
        else:
            core.send(-owner, Resume(recovering.ballot, rank, signed, places))

    def _counted(self, promises: Mapping[int, Rank]) -> Mapping[int, Rank]:
        """Return the promises that count: every other time without those who were to go on before, and did not.

        A promise that is not counted might as well have been lost, so that any majority of the others is good enough.
        """
        shunned = self.core.state.shunned if self.core.state.recoveries % 2 == 0 else frozenset()
        return {node: rank for node, rank in promises.items() if node not in shunned}

    def on_resume(self, sender: int, message: Resume) -> None:
        """Go on with the copy of this node, since it is the furthest."""
        core = self.core
        if message.ballot < core.memory.promised:
            core.send(sender, Reject(core.memory.promised))
        elif message.ballot == core.memory.promised and self.is_proven(sender, message):
            self.resume(message.ballot, message.rank)
            core.send(sender, Resumed(message.ballot))

    def resume(self, ballot: Ballot, rank: Rank) -> None:
        """Go on under a new ballot from a copy of this rank."""
        core, copy = self.core, self.core.memory.copy
        if copy.rank != rank:  # it has gone on already
            return
        core.let_go()
        # The same bytes under a new ballot: nothing new is released.
        core.write(Kept(replace(copy, ballot=ballot), None))
        core.rest()
        self._keeping.hold()

    def on_resumed(self, message: Resumed) -> None:
        """Take the news that the owner of the furthest copy goes on: the recovery is done."""
        core, recovering = self.core, self.core.state.recovering
        if recovering is not None and message.ballot == recovering.ballot:
            core.state.recovering = None
            core.stop(Timer.RECOVERY)
            core.rest()

    # Proofs. Nobody stops, or goes on, under a ballot because one node says so.

    def is_proven(self, sender: int, message: Ticket | Resume) -> bool:
        """Say whether a majority has promised a ballot; if that is news, write it down, and give way to it."""
        core, ballot, promises = self.core, message.ballot, message.promises
        if ballot <= core.proven:
            return ballot == core.proven
        good = {node: promise for node, promise in promises if core.seal.is_promise(node, ballot, promise)}
        if len(good) < core.rules.majority:
            core.broke(sender, Rule.BALLOT, f"goes on under ballot {ballot}, which {len(good)} nodes have promised")
            return False
        # Any node may pass the signatures on; what is beside them is not signed, so that only its leader is believed.
        told = self._told(sender, message.places) if sender == ballot[1] else None
        before = None if told is None else tuple(sorted(told.starts.items()))
        heard = Heard(ballot, tuple(sorted(good.items())), message.rank, before)
        if ballot > core.memory.promised:
            core.give_way(heard)
        else:
            core.write(heard)
        return True

    def on_ticket(self, sender: int, message: Ticket) -> None:
        """Take the proof that a majority has promised a ballot."""
        core = self.core
        if message.ballot > core.proven and self.is_proven(sender, message):
            recovering = core.state.recovering
            if recovering is not None and recovering.chosen is None:  # promises may have waited for this
                for node in core.others:
                    if node not in recovering.promises:
                        core.send(node, Prepare(recovering.ballot))

    def on_want_ticket(self, sender: int, message: WantTicket) -> None:
        """Prove a ballot that this node has spoken of, if it can."""
        ticket = self.core.memory.ticket
        if ticket is not None and ticket.ballot >= message.ballot and ticket.start is not None:
            places = b"" if ticket.before is None else Told(dict(ticket.before)).places
            self.core.send(sender, Ticket(ticket.ballot, ticket.promises, ticket.start, places))

    def on_reject(self, sender: int, message: Reject) -> None:
        """Take note that a node does not listen to the token of this holder, or not to its final model."""
        core = self.core
        if core.state.holds and message.promised >= core.memory.copy.ballot:
            core.state.against |= {sender}

    def recover_if_nobody_listens(self) -> None:
        """Recover if no majority of nodes listens to this holder: its model would never be final.

        If fewer do not listen, they may lie. But a holder may have waited in vain for long, for a quorum or for the
        votes of a majority, while some node does not listen. Then the others may be gone, and nothing is lost by a
        recovery, whatever was a lie.
        """
        core, state = self.core, self.core.state
        many = len(state.against) > core.rules.nodes - core.rules.majority
        if state.holds and (many or (bool(state.against) and self.waits_in_vain())):
            state.against = frozenset()
            self.recover("a majority does not listen to this node's token")

    def waits_in_vain(self) -> bool:
        """Say whether this holder has asked all nodes often, and too few have answered that they listen."""
        match self.core.state.doing:
            case Deciding(tries=tries) | Waiting(greeted=tries):
                return tries >= _TRIES
            case _:
                return False

    def on_recovery_late(self) -> None:
        """Ask again, or doubt again if a recovery led to nothing."""
        core, state = self.core, self.core.state
        if state.doubted is not None:
            self.doubt(state.doubted.place, asked=state.doubted.asked)
        elif state.recovering is not None:
            if state.recovering.chosen is not None:
                state.shunned |= {state.recovering.chosen}
            state.recovering = None
            self.doubt(core.furthest, asked=False)
