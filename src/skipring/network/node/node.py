"""One node at work: it begins when the others are there, takes part, and leaves when all have the final model."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from functools import partial

import numpy as np

from ...privacy import Guarantee
from ..protocol import Broke, Copy, Final, Kind, Message, Offer, Outcome, Pass, Peer, Token, WantLooks, WantOutcome
from ..storage import digest_of
from ..transport import Done, Receiver, Transport
from ._view import status_of
from .arrivals import Arrivals
from .claims import model_guarantee
from .driver import Driver, Journal, Timing, Wires
from .events import Disagreeing, Incomplete, LabelsClipped, Note, RowsLeftOut, RuleBroken, RunOver, Started, ToldToStop
from .expiry_watch import ExpiryWatch
from .finish import FINISH, FinishWatch
from .ledger import OwnAccount
from .life import Life
from .lifetime import CountedJournal, Lifetime
from .node_setup import NodeSetup
from .readiness import Readiness
from .reminders import OLD_JOURNAL, OldJournal, Reminders
from .sight import NodeSight
from .ssh_words import RELAY
from .standstill import StandstillWatch
from .status import STOPPED, NodeStatus
from .strides import Strides
from .taking_part import TakingPart
from .telemetry import Telemetry
from .tunnel import Tunnel
from .turn_times import TurnTimes
from .updater import Stopped, Updater

#: How long a node that was told to stop may go on, until it has passed the token on.
_GRACE = 15.0
#: How often a node says what it waits for before the run begins.
_REMIND = 60.0


def over_tls(setup: NodeSetup, receiver: Receiver) -> Transport:
    """Return the connections of a node to all others."""
    return Transport(
        setup.me,
        setup.dialled,
        setup.keys,
        listen=setup.config.listen,
        agreement=setup.agreement,
        shape=setup.shape,
        models=setup.models,
        receiver=receiver,
    )


def _counted(setup: NodeSetup, account: OwnAccount, journal: Journal) -> tuple[Lifetime | None, Journal]:
    """Let an account follow a journal, by way of the ledger of all runs where the owner keeps one."""
    if setup.ledger is None:
        journal.follow(account)
        return None, journal
    lifetime = Lifetime(
        setup.ledger,
        account,
        run=setup.identity,
        node=setup.name,
        delta=setup.delta,
        not_covered=setup.not_covered,
    )
    journal.follow(lifetime)
    lifetime.begin()
    return lifetime, CountedJournal(journal, lifetime)


class Node:
    """A node of a run; `run` returns when the run is over, or the node was told to stop.

    Parameters
    ----------
    setup : everything that decides what it does.
    journal : what it must not forget.
    say : is told what happens (an event, and facts about it).
    connect : makes what carries its messages, which tells the node what arrives.
    clock : the time in seconds; only differences matter.
    """

    def __init__(
        self,
        setup: NodeSetup,
        journal: Journal,
        say: Callable[..., None],
        *,
        connect: Callable[[NodeSetup, Receiver], Wires] = over_tls,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        memory = journal.memory
        self.setup, self._clock, self._life = setup, clock, Life()
        self.telemetry = Telemetry(say, clock, memory.copy.hop, before=setup.left_at_a_stop())
        self.account = OwnAccount(setup.terms)
        self.lifetime, journal = _counted(setup, self.account, journal)
        self.updater = Updater(setup, clock, self.telemetry.note)
        self.transport = connect(setup, self)
        self.taking_part = TakingPart(
            self.account, setup.config.budget, setup.delta, self._copy, self.telemetry.note, self.lifetime
        )
        self.taking_part.renewed = memory.copy.kind is Kind.INITIAL
        timing = self._new_timing()
        sight = NodeSight(timing.pace, self.transport, timing.readiness, timing.turns)
        self.driver = Driver(
            Peer(setup.me, setup.rules, memory, setup.seal, self.taking_part, sight),
            journal=journal,
            transport=self.transport,
            updater=self.updater,
            timing=timing,
            telemetry=self.telemetry,
            life=self._life,
            node=self,
        )
        self.taking_part.holding = lambda: self.peer.holding
        self.taking_part.too_slow = lambda: self.updater.too_slow(sight.longest_turn)
        self.reminders = Reminders(
            self.account,
            setup.roster.names,
            memory.reminded,
            write=self.driver.write,
            note=self.telemetry.note,
            give_up=self._give_up,
        )
        self._strides = self._new_strides()
        self.arrivals = Arrivals(
            self, self.peer, setup.rules.path, at_once=self.updater.is_quick, spawn=self._life.spawn
        )
        self.watch = StandstillWatch(
            self._peer_if_begun, setup.rules, self.transport, self.telemetry, clock, me=setup.me
        )
        self.tunnel = self._new_tunnel()
        self.finish = FinishWatch(setup.config.journal.parent / FINISH, setup.identity, self._peer_if_begun, self._wish)
        self.expiry = ExpiryWatch(setup.name, setup.keys, self.telemetry.note)
        self._begun = self._leaving = self._finished = self._stale = False
        self._finishing: asyncio.Task[None] | None = None
        #: The nodes that have the final model.
        self.all_done: set[int] = set()

    def _new_timing(self) -> Timing:
        """Return what is ready at the turns of this node, and how long it waits for others."""
        setup = self.setup
        pace = setup.new_pace()
        learns = setup.run.delay.timeout == "adaptive"
        readiness = Readiness(
            setup.run.delay.ready or "ahead",
            setup.terms.turn(setup.rules.steps + 1),
            setup.terms.parts,
            self.updater.prepare_at_once,
            self.updater.prepare,
            self._clock,
            self._life.spawn,
        )
        return Timing(
            readiness=readiness,
            turn_of=setup.terms.turn,
            pace=pace,
            turns=TurnTimes(pace, lambda: setup.keep_pace(pace)) if learns else None,
            patience=setup.config.compute_limit,
            clock=self._clock,
        )

    def _new_tunnel(self) -> Tunnel | None:
        """Return the way to the relay, where there is one."""
        setup = self.setup
        if setup.config.relay is None:
            return None
        return Tunnel(setup.folder / RELAY, setup.ssh_words, self.telemetry.note, self._clock)

    def _new_strides(self) -> Strides:
        """Return how far a model may go in a number of steps."""
        terms = self.setup.terms
        return Strides(
            self.setup.learner,
            step_sizes=np.asarray(terms.step_sizes).tolist(),
            noise_multiplier=terms.noise_multiplier,
            ridge=self.setup.run.model.ridge,
        )

    @property
    def peer(self) -> Peer:
        """The protocol, which knows where the node stands."""
        return self.driver.peer

    def _peer_if_begun(self) -> Peer | None:
        return self.peer if self._begun else None

    def _copy(self) -> Copy:
        return self.peer.memory.copy

    async def run(self) -> None:
        """Take part until the run is over and all nodes know, or until `stop`; raise Stopped if it cannot go on."""
        async with contextlib.nullcontext() if self.tunnel is None else self.tunnel.kept():
            await self._take_part()
        if self._life.failure is not None:
            raise self._life.failure

    async def _take_part(self) -> None:
        await self.transport.start()
        self.setup.forget_the_stop()
        self._say_what_is_known()
        self._life.spawn(self._begin_in_time())
        self._life.spawn(self.watch.keep())
        self._life.spawn(self.expiry.keep())
        self._life.spawn(self.finish.keep())
        try:
            await self._life.wait()
        finally:
            self.driver.close()
            self.setup.keep_pace(self.driver.pace)
            await self._life.close()
            await self.transport.stop()
            self.updater.close()
            if self.lifetime is not None:
                self.lifetime.end()
                self.lifetime.release()

    def _say_what_is_known(self) -> None:
        """Say what the owner should know from the start."""
        setup, note = self.setup, self.telemetry.note
        note(Started(setup.config.listen, self.telemetry.hop))
        for what in (*setup.notes, setup.not_covered):
            if what is not None:
                note(Note(what))
        if left_out := setup.learner.rows_left_out:
            note(RowsLeftOut(left_out))
        if clipped := setup.learner.labels_clipped:
            note(LabelsClipped(clipped, setup.run.model.label_bound))  # in its own log

    def _wish(self) -> bool:
        self.driver.wish()
        return self._life.failure is None

    def stop(self) -> None:
        """Finish the current step, pass the token on, and stop."""
        if not self.taking_part.stopping:
            self.taking_part.stopping = True
            self._life.spawn(self._stop_in_time())

    async def _stop_in_time(self) -> None:
        deadline = self._clock() + _GRACE
        peer = self.peer
        if peer.is_ready and not peer.holding:
            await asyncio.sleep(0.5)  # the token may be on its way here
        while (self.transport.receives or self.arrivals.busy) and self._clock() < deadline:
            await asyncio.sleep(0.02)
        while peer.holding and peer.memory.outcome is None and self._clock() < deadline:
            if not self.transport.reachable and not peer.computing:
                break  # there is nobody to pass it on to; the journal has it
            await asyncio.sleep(0.02)
        while peer.settling and self.transport.reachable and self._clock() < deadline:
            await asyncio.sleep(0.02)
        await asyncio.sleep(0.0)  # what has become certain just now is written, too
        while self._finishing is not None and not self._finishing.done() and self._clock() < deadline:
            await asyncio.sleep(0.02)
        if peer.memory.outcome is None:  # else result.json says more
            with contextlib.suppress(OSError):
                self.setup.write_result(self.status(), STOPPED)
        self.telemetry.note(ToldToStop(peer.holding, self.telemetry.hop))
        self._life.end()

    async def _begin_in_time(self) -> None:
        """Begin when all nodes are there: that others are still starting must not count as being late."""
        patience = self.setup.config.start_wait
        deadline = self._clock() + patience
        others = len(self.setup.roster) - 1
        memory = self.peer.memory
        fresh = memory.copy.kind is Kind.INITIAL and memory.passing is None and memory.outcome is None
        said = self._clock() - _REMIND + 2.0  # by then both sides have shown each other what they have
        while fresh and len(self.transport.reachable) < others and not self._begun:
            disagreeing = self.transport.disagreeing  # they are there, and can be mended: the run needs them
            if self._clock() > deadline and not disagreeing:
                break
            if disagreeing and self._clock() - said > _REMIND:
                said = self._clock()
                for node, why in sorted(disagreeing.items()):
                    self.telemetry.note(Disagreeing(self.setup.roster.names[node], f"it has another run: {why}"))
            await asyncio.sleep(0.02)
        if fresh and not self._begun and len(self.transport.reachable) < others:
            self.telemetry.note(Incomplete(others - len(self.transport.reachable), patience))
        self._begin()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self.driver.begin()
            if self.peer.memory.outcome is not None:
                self.ended()

    # What arrives (transport.Receiver).

    def received(self, sender: int, message: Message) -> None:
        """Take a message that is well formed; what is in it is checked before the protocol is told."""
        if not self._life.is_over and not self._leaving:
            self.arrivals.received(sender, message)

    def take(self, sender: int, message: Message) -> None:
        """Let the protocol take a message that was checked."""
        if not self._life.is_over:
            if not self._begun and not isinstance(message, WantOutcome):
                self.taking_part.renewed = False  # the others are on their way: this is not the beginning of the run
            if isinstance(message, Pass) and self.peer.expects((message.ballot, message.hop), sender):
                self.taking_part.renewed = True
            self._begin()  # a node that sends something has begun
            self.taking_part.distrusted = isinstance(message, Offer) and sender in self.reminders.senders
            self.driver.take(sender, message)
            self.taking_part.distrusted = False

    def _give_up(self) -> None:
        """Stop for good: with an old journal the node would take back what it has said, and release more unseen."""
        if not self._leaving:
            self._leaving = True
            self.driver.close()
            self._life.spawn(self._leave_for_good())

    async def _leave_for_good(self) -> None:
        await self.transport.leave(f"its journal {OLD_JOURNAL}; it takes no further part in this run")
        self._life.fail(OldJournal(f"journal {self.setup.config.journal}: {OLD_JOURNAL}"))

    def lets_in(self, sender: int, message: Pass | Final | Outcome) -> bool:
        """Say whether the own updates on a token are such as this node knows."""
        return self.reminders.lets_in(sender, message)

    def why_wrong(self, token: Token) -> str:
        """Say why the model of a token cannot be of this run."""
        return self.setup.check_parameters(token.parameters)

    def too_far(self, token: Token) -> str:
        """Say why the model of a token is too far from the one that this node saw last."""
        copy = self.peer.memory.copy
        return self._strides.too_far(copy.token, copy.hop, token)

    def broke(self, broken: Broke) -> None:
        """Name a node that has broken a rule."""
        self.telemetry.note(RuleBroken(broken.node, broken.rule))
        self.refuse(broken.node, broken.what)

    def refuse(self, sender: int, problem: str) -> None:
        """Say what was wrong with a message."""
        self.transport.say_once("refused", f"{self.setup.roster.names[sender]}: {problem}")

    def wants(self, sender: int, message: Message) -> str:
        """Say why the large model of a message is not wanted."""
        if self.peer.memory.outcome is not None:
            return "the run is over here"
        if isinstance(message, Pass) and not self.peer.expects((message.ballot, message.hop), sender):
            return "not asked for"
        return ""

    def done(self, sender: int) -> None:
        """Take the news that a node has the final model."""
        self.all_done.add(sender)
        if self.peer.memory.outcome is None:
            self.transport.send(sender, WantOutcome())
        elif self.peer.lacks_looks_of(sender):  # it was away when all were asked
            self.transport.send(sender, WantLooks())
        self._leave_if_all_done()

    def connected(self, node: int) -> None:
        """Say where we are to a node that has just been reached."""
        if self.peer.memory.outcome is not None:
            self._tell_done(node)
        elif self._begun:
            self.transport.send(node, WantOutcome())

    def say(self, event: str, **facts: object) -> None:
        """Pass on what the transport has to say."""
        self.telemetry.say(event, **facts)

    # The end.

    def ended(self) -> None:
        """Take the news that the final model is on disk."""
        token = self.peer.memory.outcome
        assert token is not None
        if self._finishing is None:
            self.telemetry.hop = self.peer.ended_at
            self._finishing = self._life.spawn(self._finish(token))

    async def _finish(self, token: Token) -> None:
        """Keep the final model where its owner finds it, and let all nodes know that it is here."""
        try:
            await self.updater.keep_model(token, partial(self._guarantee, token))
            self.setup.write_certificate(self.peer.memory)
            self.setup.write_result(self.status(finished=True))
        except OSError as error:
            self._life.fail(Stopped(f"the final model cannot be written: {error.strerror}; the journal has it"))
            return
        early = self.peer.ended_at if self.peer.memory.asked else None
        over = RunOver(token.updates, digest_of(token.parameters), self.telemetry.refused_for_budget, early)
        self.telemetry.note(over)
        self._finished = True
        await self._write_anew(token)
        asyncio.get_running_loop().call_later(self.setup.config.linger, self._life.end)
        self.all_done.add(self.setup.me)
        self._leave_if_all_done()

    def _tell_done(self, node: int) -> None:
        """Let a node know that the final model is here, and that nothing more is asked of it: it may leave."""
        if node != self.setup.me and not self.peer.settling:
            self.transport.send(node, Done())

    def settled(self) -> None:
        """Take the news that it has become certain what recoveries have cost, or that nobody is asked any more."""
        token = self.peer.memory.outcome
        self._stale = True  # what was written before it was known
        writing = self._finishing is not None and not self._finishing.done()  # then it is written anew after that
        if token is not None and self._finished and not writing and not self._life.is_over:
            self._finishing = self._life.spawn(self._write_anew(token))

    def _guarantee(self, token: Token) -> Guarantee:
        setup = self.setup
        return model_guarantee(self.account, setup.name, setup.delta, token, not_covered=setup.not_covered)

    async def _write_anew(self, token: Token) -> None:
        """Write what the run has cost, by now, beside the model, and let all nodes know that nothing more is asked."""
        try:
            while self._stale:
                guarantee, written = self._guarantee(token), self.account.mu2
                await asyncio.to_thread(self.setup.write_trained, token, guarantee)
                self.setup.write_result(self.status(finished=True))
                self._stale = written != self.account.mu2
        except OSError as error:
            self._life.fail(Stopped(f"the result cannot be written: {error.strerror}; the journal has it"))
            return
        for node in range(len(self.setup.roster)):
            self._tell_done(node)
        self._leave_if_all_done()

    @property
    def _may_leave(self) -> bool:
        """Whether all nodes are done, this one included: it asks nothing more, and all that it knows is written."""
        return len(self.all_done) == len(self.setup.roster) and not self.peer.settling and not self._stale

    def _leave_if_all_done(self) -> None:
        if self._may_leave:
            # A moment later, so that they hear it from this node, too.
            asyncio.get_running_loop().call_later(0.3, self._leave)

    def _leave(self) -> None:
        if self._may_leave:  # else it is tried again once all is written
            self._life.end()

    def status(self, *, finished: bool = False) -> NodeStatus:
        """Return what the node knows about the run and about itself; nothing of it is sent to other nodes."""
        return status_of(self, finished=finished)
