"""One node at work: drives the protocol with a real clock, disk, network and data.

The loop has one rule, the protocol's: nothing that others can see is done before the entries that come before it are on
disk. If they cannot be written, the node stops, so that nothing is released that was not recorded.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from ..._json import to_json
from ..protocol import (
    Accepted,
    Action,
    Broke,
    Compute,
    Entry,
    Final,
    Kept,
    Kind,
    Message,
    Offer,
    Outcome,
    Over,
    Pass,
    Peer,
    Place,
    PrepareBatch,
    Ready,
    Released,
    Say,
    Send,
    SetTimer,
    StopTimer,
    Timer,
    Token,
    WantOutcome,
    Write,
)
from ..storage import JournalError, JournalFile, ModelFile, digest_of
from ..transport import Done, Transport
from ._view import status_of
from .claims import final_claims
from .hop_times import HopTimes
from .ledger import account_of, willing
from .node_setup import NodeSetup
from .sight import NodeSight
from .status import STOPPED, NodeStatus
from .updater import Stopped, Updater

__all__ = ["Node", "Stopped"]

#: How long a node that was told to stop may go on, until it has passed the token on.
_GRACE = 15.0
_SPENT = "one more update would exceed it, so this turn is refused"


def discard(parameters: Any) -> None:
    """Delete a large model that nobody has taken."""
    if isinstance(parameters, ModelFile):
        parameters.discard()


class Node:
    """A node of a run; `run` returns when the run is over, or the node was told to stop.

    Parameters
    ----------
    setup : everything that decides what it does.
    journal : what it must not forget.
    say : is told what happens (an event, and facts about it).
    """

    def __init__(self, setup: NodeSetup, journal: JournalFile, say: Callable[..., None]) -> None:
        self.setup, self.journal, self._say = setup, journal, say
        self.started = time.time()
        self._loop: Any = None
        self.updater = Updater(setup)
        self.account = account_of(setup.terms, (entry for _, entry in journal.entries()))
        memory = journal.memory
        self.transport = Transport(
            setup.me,
            setup.roster,
            setup.keys,
            listen=setup.config.listen,
            agreement=setup.agreement,
            shape=setup.shape,
            steps=setup.rules.steps,
            models=setup.models,
            receiver=self,
        )
        self.pace = setup.new_pace()
        self.peer = Peer(setup.me, setup.rules, memory, setup.seal, self._willing, NodeSight(self.pace, self.transport))
        self._queue: deque[Action] = deque()
        self._entries: list[Entry] = []
        self._messages: list[Send] = []
        self._busy = False
        self._begun = False
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._preparing: asyncio.Task[None] | None = None
        self._finishing: asyncio.Task[None] | None = None
        self._finished = asyncio.Event()
        self._failure: Exception | None = None
        self._stopping = False
        self._checking = 0  # large models that have arrived
        self.all_done: set[int] = set()
        # What people may want to see.
        self.hop = memory.copy.hop
        before = setup.left_at_a_stop()  # what it had counted when it was told to stop
        self.refused = 0 if before is None else before.refused
        self._refused_before = 0 if before is None else before.refused_for_budget
        self._unaffordable: set[int] = set()  # own hops whose update would have exceeded the budget
        self.recoveries = 0 if before is None else before.recoveries
        self.times = HopTimes()
        self._go_began = 0.0
        self.broken_rules = [0] * len(setup.roster)  # by node: how often each has done what no honest node does

    async def run(self) -> None:
        """Take part until the run is over and everybody knows, or until `stop`; raise Stopped if it cannot go on."""
        self._loop = asyncio.get_running_loop()
        await self.transport.start()
        self.setup.forget_the_stop()
        self._say("started", listen=self.setup.config.listen, hop=self.hop)
        for note in (*self.setup.notes, self.setup.not_covered):
            if note is not None:
                self._say("note", what=note)
        if left_out := self.setup.learner.rows_left_out:
            self._say("rows left out", rows=left_out, why="of each person the first data.rows_per_person are used")
        if clipped := self.setup.learner.labels_clipped:
            self._say("labels", clipped=clipped, bound=self.setup.run.model.label_bound)  # in its own log
        beginning = self._spawn(self._begin_in_time())
        try:
            await self._finished.wait()
        finally:
            beginning.cancel()
            for task in list(self._tasks):
                task.cancel()
            for timer in self._timers.values():
                timer.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            await self.transport.stop()
            self.updater.close()
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        """Finish the current step, pass the token on, and stop."""
        if not self._stopping:
            self._stopping = True
            self._spawn(self._stop_in_time())

    async def _stop_in_time(self) -> None:
        deadline = time.monotonic() + _GRACE
        if self.peer.is_ready and not self.peer.holding:
            await asyncio.sleep(0.5)  # the token may be on its way here
        while (self.transport.receives or self._checking) and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        while self.peer.holding and self.peer.memory.outcome is None and time.monotonic() < deadline:
            if not self.transport.reachable and not self.peer.computing:
                break  # there is nobody to pass it on to; the journal has it
            await asyncio.sleep(0.02)
        while self._finishing is not None and not self._finishing.done() and time.monotonic() < deadline:
            await asyncio.sleep(0.02)
        if self.peer.memory.outcome is None:  # else result.json says more
            with contextlib.suppress(OSError):
                self.setup.write_result(to_json(self.status()), STOPPED)
        self._say("stopped", holding=self.peer.holding, hop=self.hop)
        self._finished.set()

    async def _begin_in_time(self) -> None:
        """Begin when everybody is there: that others are still starting must not count as being late."""
        deadline = time.monotonic() + self.setup.config.start_wait
        others = len(self.setup.roster) - 1
        memory = self.journal.memory
        fresh = memory.copy.kind is Kind.INITIAL and memory.passing is None and memory.outcome is None
        while fresh and len(self.transport.reachable) < others and time.monotonic() < deadline and not self._begun:
            await asyncio.sleep(0.02)
        if fresh and not self._begun and len(self.transport.reachable) < others:
            missing = others - len(self.transport.reachable)
            self._say("incomplete", missing=missing, waited=self.setup.config.start_wait)
        self._begin()

    def _begin(self) -> None:
        if not self._begun:
            self._begun = True
            self._do(self.peer.begin)
            if self.peer.memory.outcome is not None:
                self._end()

    # What arrives (transport.Receiver).

    def received(self, sender: int, message: Message) -> None:
        """Take a message that is well formed; what is in it is checked here."""
        if self._finished.is_set():
            return
        token: Token | None = getattr(message, "token", None)
        if token is None:
            self._take(sender, message)
        elif self.updater.is_quick:
            self._take_token(sender, message, self.setup.check_parameters(token.parameters))
        else:
            self._spawn(self._check_large(sender, message, token))

    async def _check_large(self, sender: int, message: Message, token: Token) -> None:
        self._checking += 1
        try:
            self._take_token(sender, message, await asyncio.to_thread(self.setup.check_parameters, token.parameters))
        finally:
            self._checking -= 1
            discard(token.parameters)  # if the journal has not taken it

    def _take_token(self, sender: int, message: Message, problem: str) -> None:
        assert isinstance(message, Pass | Final | Outcome)
        if problem:
            self.transport.say_once("refused", f"{self.setup.roster.names[sender]}: {problem}")
        else:
            self._take(sender, message)

    def _take(self, sender: int, message: Message) -> None:
        if self._finished.is_set():
            return
        self._begin()  # whoever sends something has begun
        self._do(lambda: self._noticed(sender, message))

    def _noticed(self, sender: int, message: Message) -> Sequence[Action]:
        """Measure what a message tells about time, and let the protocol take it."""
        if isinstance(message, Ready) and self.peer.waits_for(sender, message.hop):
            self.pace.saw(self.times.wait_ended(time.monotonic()), ready=True)
        elif isinstance(message, Accepted) and self.peer.asks(sender, message.hop):
            self.times.passed(time.monotonic(), self.setup.shape.size)
        return self.peer.received(sender, message)

    def wants(self, sender: int, message: Message) -> str:
        """Say why the large model of a message is not wanted."""
        memory = self.peer.memory
        if memory.outcome is not None:
            return "the run is over here"
        if isinstance(message, Pass) and not self.peer.expects((message.ballot, message.hop), sender):
            return "not asked for"
        return ""

    def done(self, sender: int) -> None:
        """Take the news that a node has the final model."""
        self.all_done.add(sender)
        if self.peer.memory.outcome is None:
            self.transport.send(sender, WantOutcome())
        self._leave_if_all_done()

    def connected(self, node: int) -> None:
        """Say where we are to whoever has just been reached."""
        if self.peer.memory.outcome is not None:
            self.transport.send(node, Done())
        elif self._begun:
            self.transport.send(node, WantOutcome())

    def say(self, event: str, **facts: object) -> None:
        """Pass on what the transport has to say."""
        self._say(event, **facts)

    # What is to be done.

    def _do(self, told: Callable[[], Sequence[Action]]) -> None:
        """Tell the protocol something, and do what it answers.

        All entries of one go are written at once; then, and only then, messages are sent. Whatever goes wrong stops the
        node: a gRPC call or a timer that it happened in would swallow it.
        """
        if self._failure is not None:
            return
        if self._busy:  # an action has led to another; they are done in order
            self._queue.extend(told())
            return
        self._busy, self._go_began = True, time.monotonic()
        try:
            self._queue.extend(told())
            while self._queue:
                self._act(self._queue.popleft())
            if self._entries:
                self.journal.append(*self._entries)
            for send in self._messages:
                if isinstance(send.message, Offer):
                    offered_at = self._offered(send.message.hop)
                    self.pace.overhead(offered_at - self._go_began)  # what it costs, whatever comes of it
                elif isinstance(send.message, Pass):
                    self.times.passing(time.monotonic())
                self.transport.send(send.to, send.message)
        except JournalError as error:
            self._fail(Stopped(str(error)))  # and nothing is sent
        except Exception as error:  # whoever called cannot help; a node that does not know where it is must not go on
            self._fail(error)
        finally:
            self._queue.clear()
            self._entries.clear()
            self._messages.clear()
            self._busy = False

    def _act(self, action: Action) -> None:
        if isinstance(action, Send):
            self._messages.append(action)
        elif isinstance(action, Write):
            self._write(action.entry)
        elif isinstance(action, SetTimer):
            self._stop_timer(action.name)
            self._timers[action.name] = self._loop.call_later(action.seconds, self._expired, action.name)
        elif isinstance(action, StopTimer):
            self._stop_timer(action.name)
        elif isinstance(action, PrepareBatch):
            if self._preparing is not None:
                self._preparing.cancel()  # for a hop that is over
            self._preparing = self._spawn(self._prepare(action))
        elif isinstance(action, Compute):
            if self.updater.is_quick:
                token = self.updater.update(action)
                # Others feel how long this node waits for them; how long its own rows take must not be in it.
                self._go_began = time.monotonic()
                self._computed(action, token)
            else:
                self._spawn(self._compute(action))
        elif isinstance(action, Say):
            self.recoveries += "recovery" in action.text
            self._say("protocol", what=action.text)
        elif isinstance(action, Broke):
            self.broken_rules[action.node] += 1
            self.transport.say_once("refused", f"{self.setup.roster.names[action.node]}: {action.what}")

    def _write(self, entry: Entry) -> None:
        self._entries.append(entry)
        self.account.noted(entry)  # now: whether one more release is affordable may be asked before it is on disk
        if isinstance(entry, Released):
            self.hop = entry.copy.hop
            self._say("updated", hop=entry.copy.hop, updates=entry.copy.token.updates, level="debug")
        elif isinstance(entry, Kept) and entry.copy.kind is Kind.ACCEPTED:
            self.hop = entry.copy.hop
            self.times.accepted(time.monotonic())
        elif isinstance(entry, Over):
            self._loop.call_soon(self._end)

    def _offered(self, hop: int) -> float:
        """Take note that the token is on offer for a hop; return since when."""
        if self._preparing is not None:
            # For an own hop that is over: it would keep the answer waiting, for as long as this node's rows take.
            self._preparing.cancel()
        self.hop, now = hop, time.monotonic()
        self.times.offered(now)
        return now

    def _expired(self, name: Timer) -> None:
        self._timers.pop(name, None)
        if self._finished.is_set():
            return
        if name is Timer.OFFER and self.peer.holding:
            waited = self.times.wait_ended(time.monotonic())
            if self.peer.offers_to is not None:
                self.pace.saw(waited, ready=False)
        self._do(lambda: self.peer.expired(name))

    def _stop_timer(self, name: Timer) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    async def _prepare(self, action: PrepareBatch) -> None:
        await self.updater.prepare()
        self._do(lambda: self.peer.prepared(action.ballot, action.hop))

    async def _compute(self, action: Compute) -> None:
        try:
            token = await self.updater.update_in_thread(action)
        except FileNotFoundError as error:
            if self.peer.computing and self.peer.memory.copy.token == action.token:
                self._fail(Stopped(f"the model of the token has gone: {error.filename}"))
            return  # else something newer has taken its place
        except OSError as error:
            self._fail(Stopped(f"the update cannot be written: {error.strerror}"))
            return
        self._computed(action, token)

    def _computed(self, action: Compute, token: Token) -> None:
        self._do(lambda: self.peer.computed(action.ballot, action.hop, token))
        discard(token.parameters)  # if something has overtaken it

    def _willing(self, place: Place, _ledger: Sequence[Place]) -> bool:
        copy = self.peer.memory.copy
        accepted = place == (copy.ballot, copy.hop)  # a step that has begun is finished
        affordable = willing(self.account, self.setup.config.budget, *place)
        if not affordable and place[1] not in self._unaffordable:
            # The first is news; the others, perhaps one for every turn until the end, are counted.
            level = "debug" if self._unaffordable else "info"
            self._unaffordable.add(place[1])
            budget = self.setup.config.budget
            spent = self.account.epsilon(budget.delta or self.setup.run.privacy.delta)
            self._say("budget", hop=place[1], epsilon=spent, budget=budget.epsilon, why=_SPENT, level=level)
        if (self._stopping and not accepted) or not affordable:
            self.refused += 1
            return False
        return True

    @property
    def refused_for_budget(self) -> int:
        """How many of its turns the node has refused for its budget's sake."""
        return self._refused_before + len(self._unaffordable)

    # The end.

    def _end(self) -> None:
        token = self.peer.memory.outcome
        assert token is not None
        if self._finishing is None:
            self.hop = self.setup.rules.steps
            self._finishing = self._spawn(self._finish(token))

    async def _finish(self, token: Token) -> None:
        """Keep the final model where its owner finds it, and let everybody know that it is here."""
        try:
            claims = partial(final_claims, self.account, self.setup.name, self._delta, token)
            await self.updater.keep_model(token, claims)
            self.setup.write_certificate(self.peer.memory)
            self.setup.write_result(to_json(self.status(finished=True)))
        except OSError as error:
            self._fail(Stopped(f"the final model cannot be written: {error.strerror}; the journal has it"))
            return
        refused = {"refused_for_budget": self.refused_for_budget} if self.refused_for_budget else {}
        self._say("over", updates=token.updates, model=digest_of(token.parameters), **refused)
        for node in range(len(self.setup.roster)):
            if node != self.setup.me:
                self.transport.send(node, Done())
        self._loop.call_later(self.setup.config.linger, self._finished.set)
        self.all_done.add(self.setup.me)
        self._leave_if_all_done()

    def _leave_if_all_done(self) -> None:
        if len(self.all_done) == len(self.setup.roster):
            self._loop.call_later(0.3, self._finished.set)  # so that they hear it from this node, too

    def _fail(self, failure: Exception) -> None:
        self._failure = failure
        self._finished.set()

    def _spawn(self, work: Any) -> asyncio.Task[Any]:
        task: asyncio.Task[Any] = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._ended)
        return task

    def _ended(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None and self._failure is None:
            problem = task.exception()
            assert isinstance(problem, Exception)
            self._fail(problem)

    @property
    def _delta(self) -> float:
        budget = self.setup.config.budget
        return budget.delta if budget.delta is not None else self.setup.run.privacy.delta

    def status(self, *, finished: bool = False) -> NodeStatus:
        """Return what the node knows about the run and about itself; nothing of it is sent to other nodes."""
        return status_of(self, finished=finished)
