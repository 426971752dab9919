"""Recovering a token that was lost: a majority must agree that it is, and the furthest copy goes on, once.

A recovery stops whoever has the token, and makes all releases before it count in full: so a majority must think that
the token is lost before anybody takes a higher ballot. A node that was cut off, or away, disturbs nobody.
"""

from __future__ import annotations

from dataclasses import replace

from ._core import Core
from ._keeping import Keeping
from ._state import Doubted, Recovering, Unconfirmed
from .actions import News, Timer
from .journal import Heard, Kept
from .messages import Agree, Ballot, Doubt, Fine, Kind, Place, Prepare, Promise, Reject, Resume, Resumed

__all__ = ["Recovery"]

#: Recoveries that fail wait longer and longer, up to so many times the first wait.
_LONGEST = 8


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
            self.recover("whoever has the token is silent" if state.doubted.asked else "no sign of the token")

    def on_fine(self, message: Fine) -> None:
        """Somebody knows better: the token is not lost."""
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
        else:  # whoever was sent the token is being asked, or everybody is
            core.wait_for_progress()

    def on_hush_late(self) -> None:
        """Nobody has shown a sign of the token, though the holder greets more often than this."""
        self.core.state.hushed = True

    # Recovery.

    def recover(self, why: str) -> None:
        """Ask all for a promise; with those of a majority, the furthest copy goes on under a new ballot."""
        core, state = self.core, self.core.state
        core.let_go()
        state.doubted = None
        ballot = (max(state.highest[0], core.memory.promised[0]) + 1, core.me)
        state.highest = ballot
        core.write(Heard(ballot))
        state.recovering = Recovering(ballot, {core.me: core.memory.copy.rank})
        core.say(f"recovery with ballot {ballot}: {why}", News.RECOVERY)
        core.send_all(Prepare(ballot))
        state.failures += 1
        state.recoveries += 1
        self._try_again_later()
        core.wait_for_progress()
        self.lead()

    def on_prepare(self, sender: int, message: Prepare) -> None:
        """Promise a ballot, unless a higher one was promised."""
        core = self.core
        if message.ballot < core.memory.promised:
            core.send(sender, Reject(core.memory.promised))
            return
        if message.ballot > core.memory.promised:
            core.give_way(message.ballot)
        core.send(sender, Promise(message.ballot, core.memory.copy.rank))

    def on_promise(self, sender: int, message: Promise) -> None:
        """Count a promise."""
        state, recovering = self.core.state, self.core.state.recovering
        if recovering is not None and message.ballot == recovering.ballot:
            state.recovering = replace(recovering, promises={**recovering.promises, sender: message.rank})
            self.lead()

    def lead(self) -> None:
        """With the promises of a majority, choose who is to go on: once, for there may be one owner per ballot."""
        core, recovering = self.core, self.core.state.recovering
        if recovering is None or len(recovering.promises) < core.rules.majority or recovering.chosen is not None:
            return
        if core.memory.promised != recovering.ballot:
            return
        rank, owner = max((rank, -node) for node, rank in recovering.promises.items())
        core.state.recovering = replace(recovering, chosen=-owner)
        if -owner == core.me:
            self.resume(recovering.ballot, rank)
            core.state.recovering = None
        else:
            core.send(-owner, Resume(recovering.ballot, rank))

    def on_resume(self, sender: int, message: Resume) -> None:
        """Go on with the copy of this node, since it is the furthest."""
        core = self.core
        if message.ballot < core.memory.promised:
            core.send(sender, Reject(core.memory.promised))
        elif message.ballot == core.memory.promised:
            self.resume(message.ballot, message.rank)
            core.send(sender, Resumed(message.ballot))

    def resume(self, ballot: Ballot, rank: tuple[Ballot, int, Kind]) -> None:
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

    def on_reject(self, message: Reject) -> None:
        """Somebody has promised more: a recovery with a lower ballot has no use."""
        core = self.core
        if message.promised > core.memory.promised:
            core.give_way(message.promised)
        if core.state.recovering is not None and message.promised > core.state.recovering.ballot:
            core.state.recovering = None

    def on_recovery_late(self) -> None:
        """Ask again, or doubt again if a recovery led to nothing."""
        core, state = self.core, self.core.state
        if state.doubted is not None:
            self.doubt(state.doubted.place, asked=state.doubted.asked)
        elif state.recovering is not None:
            state.recovering = None
            self.doubt(core.furthest, asked=False)
