"""How nodes pass a token on without a server: a state machine without clock, network, disk or chance.

`Peer` is told what happened (`begin`, `received`, `expired`, `prepared`, `computed`) and answers with what is to be
done, in order. Its driver, asyncio and sockets or a test with virtual time, keeps one rule: nothing that comes after a
`Write` is done before the entry is on disk. A node that restarts is a new `Peer` with the memory of its journal.

Its parts share one `Core` (memory, state, actions): `Keeping` has the token, `Receiving` takes it, `Recovery` finds it
again, `Ending` ends the run. Each message and each timer is taken by one method of one part, and the types make sure
that none is forgotten.
"""

from __future__ import annotations

from typing import assert_never

from ._core import Core, Willing
from ._ending import Ending
from ._keeping import Keeping
from ._presence import Presence
from ._receiving import Receiving
from ._recovery import Recovery
from ._scrutiny import Scrutiny
from ._settling import Settling
from ._state import Computing, Deciding, Ended, Idle, Offering, Rules, Unconfirmed, Waiting, Watching
from ._wishing import Wishing
from .actions import Action, Timer
from .chain import marks_of
from .journal import Memory
from .messages import (
    Accepted,
    Agree,
    Answer,
    Ask,
    Ballot,
    Decided,
    Doubt,
    Final,
    FinalAccepted,
    Fine,
    Fork,
    Hello,
    Here,
    Kind,
    Looks,
    Message,
    Moved,
    Offer,
    Outcome,
    Pass,
    Place,
    Prepare,
    Promise,
    Ready,
    Refuse,
    Reject,
    Resume,
    Resumed,
    Ticket,
    Token,
    WantLooks,
    WantOutcome,
    WantTicket,
    WishesKnown,
)
from .seal import Seal
from .sight import ClearSight, Sight
from .standing import Standing, standing_of


class Peer:
    """One node of a run.

    Parameters
    ----------
    me : its number.
    rules : what all agree on.
    memory : what its journal adds up to (`Memory.blank` for a new run).
    seal : signs what this node votes for, and checks what others have signed.
    willing : says whether the node takes part at a place, given its ledger; a node whose privacy budget is spent does
        not. It must not depend on data or parameters.
    sight : tells it what decides how long it waits; if there is none, all offers wait for `rules.timeout`.
    """

    # What its parts are made with; a test that takes a rule away puts another class here.
    _core_type = Core
    _ending_type = Ending
    _keeping_type = Keeping
    _presence_type = Presence
    _receiving_type = Receiving
    _recovery_type = Recovery
    _scrutiny_type = Scrutiny
    _wishing_type = Wishing
    _settling_type = Settling

    def __init__(
        self,
        me: int,
        rules: Rules,
        memory: Memory,
        seal: Seal,
        willing: Willing = lambda place, ledger: True,
        sight: Sight | None = None,
    ) -> None:
        self.rules = rules
        self._core = self._core_type(me, rules, memory, seal, willing, sight or ClearSight(rules.timeout))
        self._wishing = self._wishing_type(self._core)
        self._ending = self._ending_type(self._core, self._wishing)
        self._presence = self._presence_type(self._core)
        self._keeping = self._keeping_type(self._core, self._ending, self._presence)
        self._receiving = self._receiving_type(self._core, self._keeping)
        self._recovery = self._recovery_type(self._core, self._keeping)
        self._scrutiny = self._scrutiny_type(self._core)
        self._settling = self._settling_type(self._core)
        self._asked = False  # the others, after the end

    # What happened.

    def begin(self) -> list[Action]:
        """Start, or start again after a crash."""
        core = self._core
        if not self._is_over:
            core.rest()
            core.state.hushed = core.state.new = True
            core.wait(Timer.BEAT, core.rules.beat)
            self._keeping.begin()
            core.send_all(WantOutcome())
            for node in core.others:
                core.tell_wishes(node)
        return self._done()

    def wish(self) -> list[Action]:
        """Wish that the run ends at its current hop; it does if a majority wishes so."""
        if not self._is_over:
            self._wishing.wish()
            self._keeping.finish_if_wished()
        return self._core.done()

    def received(self, sender: int, message: Message) -> list[Action]:
        """Take a message."""
        if sender in self._core.state.shut_out and not (self._is_over and isinstance(message, WantOutcome)):
            return []
        if isinstance(message, Pass):
            known = self.whole(sender, message)
            if known is None:
                return []  # as if it were lost
            message = known
        if self._is_over:
            self._scrutiny.after_the_end(sender, message)
            self._ending.after_the_end(sender, message)
            if isinstance(message, WantLooks):
                self._settling.on_want_looks(sender)
            elif isinstance(message, Looks):
                self._settling.on_looks(sender, message)
        elif self._scrutiny.lets_in(sender, message):
            if isinstance(message, Offer | Pass):
                self._core.state.seen = max(self._core.state.seen, (message.ballot, message.hop))
            self._presence.hear(sender, message)
            self._take(sender, message)
            self._keeping.finish_if_wished()
            self._recovery.recover_if_nobody_listens()
        return self._done()

    def expired(self, timer: Timer) -> list[Action]:
        """Take the end of a timer."""
        if not self._is_over:
            self._is_late(timer)
            self._recovery.recover_if_nobody_listens()
        elif timer is Timer.LOOKS:
            self._settling.ask()
        return self._done()

    def prepared(self, ballot: Ballot, hop: int) -> list[Action]:
        """Take the news that the batch of a hop is there."""
        if not self._is_over:
            self._receiving.prepared(ballot, hop)
        return self._done()

    def computed(self, ballot: Ballot, hop: int, token: Token | None) -> list[Action]:
        """Take an update that was asked for, if nothing has overtaken it; None: it is not there in time."""
        if not self._is_over:
            self._keeping.computed(ballot, hop, token)
        return self._done()

    def _done(self) -> list[Action]:
        """Return what is to be done; once the run is over, the others are asked what recoveries have cost."""
        if self._is_over and not self._asked:
            self._asked = True
            self._settling.begin()
        return self._core.done()

    # Which part takes it.

    def _take(self, sender: int, message: Message) -> None:
        match message:
            case Offer():
                self._receiving.on_offer(sender, message)
            case Ready():
                self._keeping.on_ready(sender, message)
            case Refuse():
                self._keeping.on_refuse(sender, message)
            case Pass():
                self._receiving.on_pass(sender, message)
            case Accepted():
                self._keeping.on_accepted(sender, message)
            case Ask():
                self._receiving.on_ask(sender, message)
            case Answer():
                self._keeping.on_answer(sender, message)
            case Moved():
                self._keeping.on_moved(sender, message)
            case Hello():
                self._receiving.on_hello(sender, message)
            case Here():
                self._keeping.on_here(sender, message)
            case Doubt():
                self._recovery.on_doubt(sender, message)
            case Agree():
                self._recovery.on_agree(sender, message)
            case Fine():
                self._recovery.on_fine(sender, message)
            case Prepare():
                self._recovery.on_prepare(sender, message)
            case Promise():
                self._recovery.on_promise(sender, message)
            case Reject():
                self._recovery.on_reject(sender, message)
            case Ticket():
                self._recovery.on_ticket(sender, message)
            case WantTicket():
                self._recovery.on_want_ticket(sender, message)
            case Resume():
                self._recovery.on_resume(sender, message)
            case Resumed():
                self._recovery.on_resumed(message)
            case Final():
                self._ending.on_final(sender, message)
            case FinalAccepted():
                self._ending.on_final_accepted(sender, message)
            case Decided():
                self._ending.on_decided(sender, message)
            case Outcome():
                self._ending.on_outcome(sender, message)
            case Fork():
                self._scrutiny.on_fork(sender, message)
            case WishesKnown():
                self._wishing.on_wishes(sender, message)
            case WantOutcome() | WantLooks() | Looks():
                pass  # there is no end yet
            case _:
                assert_never(message)

    def _is_late(self, timer: Timer) -> None:
        lost: Place | None = None
        match timer:
            case Timer.OFFER | Timer.SKIP:
                self._keeping.on_offer_late()
            case Timer.TURN:
                self._keeping.on_turn_late()
            case Timer.WAIT:
                self._keeping.on_wait_late()
            case Timer.BEAT:
                self._keeping.on_beat_late()
            case Timer.LEASE:
                lost = self._keeping.on_lease_late()
            case Timer.WATCH:
                lost = self._keeping.on_watch_late()
            case Timer.SILENCE:
                self._recovery.on_silence_late()
            case Timer.HUSH:
                self._recovery.on_hush_late()
            case Timer.AGREED:
                self._recovery.on_agreed_late()
            case Timer.RECOVERY:
                self._recovery.on_recovery_late()
            case Timer.VOTE:
                self._ending.on_vote_late()
            case Timer.OPPOSED:
                self._ending.on_opposed_late()
            case Timer.LOOKS:
                pass  # that is of a run that is over
            case _:
                assert_never(timer)
        if lost is not None:
            self._recovery.doubt(lost, asked=True)

    # What a driver may ask, for what it measures and for what it need not let in.

    @property
    def memory(self) -> Memory:
        """What the journal adds up to once all entries that were asked for are written."""
        return self._core.memory

    @property
    def _is_over(self) -> bool:
        return isinstance(self._core.state.doing, Ended)

    @property
    def settling(self) -> set[int]:
        """Those who are asked, after the end, where they have looked, and have not answered yet."""
        return self._settling.wants

    def lacks_looks_of(self, node: int) -> bool:
        """Say whether it is of use to ask a node, after the end, where it has looked."""
        return node in self._settling.missing

    @property
    def holding(self) -> bool:
        """Whether this node has the token, or has sent it and does not know that it arrived."""
        return self._core.state.holds

    @property
    def standing(self) -> Standing | None:
        """What this node waits for; nothing once the run is over."""
        return standing_of(self._core)

    @property
    def is_ready(self) -> bool:
        """Whether this node has said ready, and the token may be on its way to it."""
        return any(one.ready for one in self._core.state.invitations.values()) and not self.holding

    @property
    def computing(self) -> bool:
        """Whether this node makes an update."""
        return isinstance(self._core.state.doing, Computing)

    @property
    def offers_to(self) -> int | None:
        """The other node that the holder waits for to be ready, if it does."""
        doing = self._core.state.doing
        node = self.rules.node_of(doing.hop) if isinstance(doing, Offering) else None
        return None if node == self._core.me else node

    @property
    def offers(self) -> int | None:
        """The hop that is offered to another node, if one is."""
        doing = self._core.state.doing
        return doing.hop if isinstance(doing, Offering) and self.offers_to is not None else None

    def is_making(self, ballot: Ballot, hop: int) -> bool:
        """Say whether this node makes the update of a place, and its turn is not over."""
        return self._keeping.is_wanted(ballot, hop)

    def waits_for(self, node: int, hop: int) -> bool:
        """Say whether the holder waits for this node to be ready at this hop."""
        return self.offers_to == node and self._core.state.doing == Offering(hop)

    def asks(self, node: int, hop: int) -> bool:
        """Say whether this node has been sent the token of this hop, and has not answered yet."""
        doing = self._core.state.doing
        return isinstance(doing, Unconfirmed) and doing.hop == hop and self.rules.node_of(hop) == node

    def unsigned(self, message: Pass | Final | Outcome) -> str:
        """Say why a token has updates that their nodes have not signed; nothing if each is signed."""
        return self._scrutiny.unsigned(message)

    def whole(self, sender: int, message: Pass) -> Pass | None:
        """Return a message with its whole token, of which it has only what this node lacks; None if it cannot be."""
        return self._receiving.whole(sender, message)

    def expects(self, place: Place, sender: int) -> bool:
        """Say whether the token of a place would be taken from a node."""
        return self._receiving.expects(place, sender)

    @property
    def ended_at(self) -> int:
        """The last hop of the run, once there is a final model: if it was wished for, that of its last update."""
        memory, core = self.memory, self._core
        early = memory.asked if memory.outcome is not None else core.wished
        if not early:
            return self.rules.steps
        return marks_of((memory.outcome or memory.copy.token).chain).bit_length()

    @property
    def decided(self) -> int:
        """Of how many hops, from the first, this node knows what became: an update, or not."""
        copy, doing = self.memory.copy, self._core.state.doing
        if isinstance(doing, Ended) or copy.kind is Kind.FINAL:
            return self.ended_at
        match doing:
            case Offering() | Unconfirmed() | Computing():
                return doing.hop - 1
            case Waiting():
                return doing.hop
            case Idle() | Watching() | Deciding():
                return copy.hop - (copy.kind is Kind.ACCEPTED)  # an update that was interrupted is made when it goes on
            case _:
                assert_never(doing)
