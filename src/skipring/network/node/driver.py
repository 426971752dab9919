"""What the protocol asks for is done here, in its order, with a clock, a disk, a network and data.

The loop has one rule, the protocol's: nothing that others can see is done before the entries that come before it are on
disk. If they cannot be written, the node stops, so that nothing is released that was not recorded.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from ..protocol import (
    Accepted,
    Account,
    Action,
    Broke,
    Compute,
    Entry,
    Forked,
    Kept,
    Kind,
    Memory,
    Message,
    Offer,
    Over,
    Pass,
    Peer,
    PrepareBatch,
    Ready,
    Released,
    Say,
    Send,
    SetTimer,
    Settled,
    StopTimer,
    Timer,
    Token,
    Write,
)
from ..storage import JournalError, size_of
from ..transport import Done
from .arrivals import discard
from .events import ProtocolNews, TokenAccepted, Updated
from .life import Life
from .pace import Pace
from .readiness import Readiness
from .telemetry import Telemetry
from .turn_times import TurnTimes
from .updater import Stopped


class Journal(Protocol):
    """Where entries are on disk once `append` returns; it knows what they add up to."""

    @property
    def memory(self) -> Memory:
        """What the protocol goes on from."""

    def follow(self, account: Account) -> None:
        """Tell an account of all entries so far, and from now on of each that is written."""

    def append(self, *entries: Entry) -> None:
        """Write entries, all or none of them."""


class Wires(Protocol):
    """What carries messages to the other nodes; it tells a `transport.Receiver` what arrives."""

    async def start(self) -> None:
        """Listen, and connect to all other nodes."""

    async def stop(self) -> None:
        """Let messages that wait go out, then close everything."""

    def send(self, node: int, message: Message | Done) -> None:
        """Send a message; it is lost if the node cannot be reached."""

    @property
    def reachable(self) -> set[int]:
        """The nodes that messages go through to."""

    @property
    def disagreeing(self) -> Mapping[int, str]:
        """The nodes that are there but have another run, and where theirs differs."""

    @property
    def receives(self) -> bool:
        """Whether a large model is arriving."""

    def carries_to(self, node: int | None) -> bool:
        """Say whether a large model is on its way to a node."""

    def moves_to(self, node: int) -> bool:
        """Say whether some of a large model has left for a node not long ago."""

    @property
    def carry_rates(self) -> Sequence[float]:
        """Bytes per second of the newest large models that arrived."""

    async def leave(self, why: str) -> None:
        """Tell all other nodes for a moment why this node takes no further part."""

    def say_once(self, event: str, text: str) -> None:
        """Say something, but not again and again."""


class Updates(Protocol):
    """What makes the updates of a node."""

    @property
    def is_instant(self) -> bool:
        """Whether an update takes no time worth noticing."""

    @property
    def cut(self) -> str:
        """Of how many rows the last update was made."""

    @property
    def function(self) -> str:
        """What computes."""

    def update(self, action: Compute) -> Token | None:
        """Make the update of a hop; None if there is no time for any of it."""

    def update_in_thread(self, action: Compute) -> asyncio.Future[Token | None]:
        """Make the update of a hop while messages are answered."""


class Listener(Protocol):
    """The node that a driver works for."""

    def ended(self) -> None:
        """Take the news that the final model is on disk."""

    def settled(self) -> None:
        """Take the news that it has become certain what recoveries have cost, or that nobody is asked any more."""

    def broke(self, broken: Broke) -> None:
        """Take the news that a node has broken a rule."""


@dataclass(frozen=True, kw_only=True)
class Timing:
    """What a node has ready at its turns, and how long it waits.

    Parameters
    ----------
    readiness : what is ready for the next update.
    turn_of : says which turn of this node a hop is, or the next one is.
    pace : how long others are waited for.
    turns : how long turns take, of all nodes; None where nothing is learned from it.
    patience : an update that has not come back after this many seconds never will.
    clock : the time in seconds; only differences matter.
    """

    readiness: Readiness
    turn_of: Callable[[int], int]
    pace: Pace
    turns: TurnTimes | None
    patience: float
    clock: Callable[[], float]


@dataclass
class _Go:
    """What one piece of news leads to: actions in their order, entries to be written at once, messages after that."""

    began: float
    actions: deque[Action] = field(default_factory=deque)
    entries: list[Entry] = field(default_factory=list)
    messages: list[Send] = field(default_factory=list)


class Driver:
    """Tells the protocol what happened, and does what it answers.

    Parameters
    ----------
    peer : the protocol.
    journal : what is written before anything is sent.
    transport : what messages are sent with.
    updater : what makes updates.
    timing : what is ready, and how long others are waited for.
    telemetry : is told what happens.
    life : what the node's tasks belong to; whatever goes wrong here ends it.
    node : is told what concerns the whole of it.
    """

    def __init__(
        self,
        peer: Peer,
        *,
        journal: Journal,
        transport: Wires,
        updater: Updates,
        timing: Timing,
        telemetry: Telemetry,
        life: Life,
        node: Listener,
    ) -> None:
        self.peer, self.journal, self.transport, self.updater = peer, journal, transport, updater
        self.pace, self._turns, self._readiness = timing.pace, timing.turns, timing.readiness
        self._turn_of, self._patience, self._clock = timing.turn_of, timing.patience, timing.clock
        self.telemetry, self._life, self._node = telemetry, life, node
        self._settling = False
        self._go: _Go | None = None
        self._timers: dict[Timer, asyncio.TimerHandle] = {}
        self._computing_since = 0.0

    @property
    def _loop(self) -> asyncio.AbstractEventLoop:
        return asyncio.get_running_loop()

    def begin(self) -> None:
        """Start, or start again after a crash."""
        self._tell(self.peer.begin)
        self._go_ahead()

    def take(self, sender: int, message: Message) -> None:
        """Take a message that was checked."""
        self._tell(lambda: self._noticed(sender, message))

    def write(self, entry: Entry) -> None:
        """Write an entry of which the protocol need not know."""
        self._tell(lambda: [Write(entry)])

    def wish(self) -> None:
        """Wish that the run ends, as the owner has asked for."""
        self._tell(self.peer.wish)

    def close(self) -> None:
        """Let no timer ring any more."""
        for timer in self._timers.values():
            timer.cancel()

    def _noticed(self, sender: int, message: Message) -> Sequence[Action]:
        """Measure what a message tells about time, and let the protocol take it."""
        if isinstance(message, Ready) and self.peer.waits_for(sender, message.hop):
            waited = self.telemetry.wait_ended()  # the rest of its turn it tells itself
            if self._turns is not None:
                self._turns.was_ready(message.hop, waited)
        elif isinstance(message, Pass):
            if self._turns is not None and self.peer.expects((message.ballot, message.hop), sender):
                self._turns.heard(message.turns, message.hop)
        elif isinstance(message, Accepted) and self.peer.asks(sender, message.hop):
            self.telemetry.passed(size_of(self.peer.memory.copy.token.parameters))
        return self.peer.received(sender, message)

    def _tell(self, news: Callable[[], Sequence[Action]]) -> None:
        """Tell the protocol something, and do what it answers.

        All entries of one go are written at once; then, and only then, messages are sent. Whatever goes wrong stops the
        node: a connection or a timer that it happened in would swallow it.
        """
        if self._life.failure is not None:
            return
        if self._go is not None:  # an action has led to another; they are done in order
            self._go.actions.extend(news())
            return
        go = self._go = _Go(self._clock())
        try:
            go.actions.extend(news())
            while go.actions:
                self._act(go, go.actions.popleft())
            self._write_and_send(go)
            if self._settling and not self.peer.settling:
                self._loop.call_soon(self._node.settled)
            self._settling = bool(self.peer.settling)
        except JournalError as error:
            self._life.fail(Stopped(str(error)))  # and nothing is sent
        except Exception as error:  # its caller cannot help; a node that does not know where it is must not go on
            self._life.fail(error)
        finally:
            self._go = None

    def _write_and_send(self, go: _Go) -> None:
        """Write the entries of a go; only when they are on disk, send its messages."""
        if go.entries:
            self.journal.append(*go.entries)
        for send in go.messages:
            if isinstance(send.message, Offer):
                offered_at = self._offered(send.message.hop)
                self.pace.overhead(offered_at - go.began)  # what it costs, whatever comes of it
            elif isinstance(send.message, Pass):
                self.telemetry.passing()
            self.transport.send(send.to, send.message)

    def _act(self, go: _Go, action: Action) -> None:
        if isinstance(action, Send):
            go.messages.append(action)
        elif isinstance(action, Write):
            go.entries.append(action.entry)
            self._wrote(action.entry)
        elif isinstance(action, SetTimer):
            self._stop_timer(action.name)
            self._timers[action.name] = self._loop.call_later(action.seconds, self._expired, action.name)
        elif isinstance(action, StopTimer):
            self._stop_timer(action.name)
        elif isinstance(action, PrepareBatch):
            ready = partial(self.peer.prepared, action.ballot, action.hop)
            self._readiness.want(self._turn_of(action.hop), lambda: self._tell(ready))
        elif isinstance(action, Compute):
            self._readiness.used()
            self._computing_since = self._clock()
            if self.updater.is_instant:
                token = self.updater.update(action)
                # Others feel how long this node waits for them; how long its own rows take must not be in it.
                go.began = self._clock()
                self._computed(action, token)
            else:
                self._life.spawn(self._compute(action))
        elif isinstance(action, Say):
            self.telemetry.note(ProtocolNews(action.news, action.text))
        elif isinstance(action, Broke):
            self._node.broke(action)

    def _wrote(self, entry: Entry) -> None:
        if isinstance(entry, Released):
            self.telemetry.note(Updated(entry.copy.hop, entry.copy.token.updates, self.updater.cut))
            self._turn_took(entry.copy.hop, in_time=True)
        elif isinstance(entry, Kept) and entry.copy.kind is Kind.ACCEPTED:
            self.telemetry.note(TokenAccepted(entry.copy.hop))
        elif isinstance(entry, Over):
            self._loop.call_soon(self._node.ended)
        elif isinstance(entry, Settled | Forked):  # also a fork that is proven after the end
            self._loop.call_soon(self._node.settled)

    def _offered(self, hop: int) -> float:
        """Take note that the token is on offer for a hop; return since when."""
        self._readiness.turn_is_over()  # if an own one was on
        return self.telemetry.offered(hop)

    def _turn_took(self, hop: int, *, in_time: bool) -> None:
        """Tell how long an own turn took, from the offer to the update, or to the end of the turn."""
        if self._turns is not None:
            computed, ready_after = self._clock() - self._computing_since, self._readiness.waited
            self._turns.took(hop, computed, ready_after=ready_after, in_time=in_time)

    def _expired(self, name: Timer) -> None:
        self._timers.pop(name, None)
        if self._life.is_over:
            return
        if name is Timer.OFFER and self.peer.holding:
            waited, hop = self.telemetry.wait_ended(), self.peer.offers
            if hop is not None and self._turns is not None:
                self._turns.took(hop, waited, in_time=False)
        elif name is Timer.TURN and self.peer.computing:
            self._turn_took(self.peer.memory.copy.hop, in_time=False)
        self._tell(lambda: self.peer.expired(name))

    def _stop_timer(self, name: Timer) -> None:
        timer = self._timers.pop(name, None)
        if timer is not None:
            timer.cancel()

    async def _compute(self, action: Compute) -> None:
        work = self.updater.update_in_thread(action)
        done, _ = await asyncio.wait([work], timeout=max(self._patience, action.seconds))
        if not done:
            name, seconds = self.updater.function, max(self._patience, action.seconds)
            self._life.fail(Stopped(f"{name} has not returned for {seconds:g} s (hop {action.hop}): it never will"))
            return
        try:
            token = work.result()
        except FileNotFoundError as error:
            if self.peer.is_making(action.ballot, action.hop):
                self._life.fail(Stopped(f"the model of the token has gone: {error.filename}"))
                return
            token = None  # the token was passed on meanwhile, or something newer has taken its place
        except OSError as error:
            self._life.fail(Stopped(f"the update cannot be written: {error.strerror}"))
            return
        self._computed(action, token)

    def _computed(self, action: Compute, token: Token | None) -> None:
        if token is None and self.peer.is_making(action.ballot, action.hop):
            self._turn_took(action.hop, in_time=False)
        self._tell(lambda: self.peer.computed(action.ballot, action.hop, token))
        if token is not None:
            discard(token.parameters)  # if something has overtaken it
        self._go_ahead()

    def _go_ahead(self) -> None:
        """Get ready for the next own turn after the newest hop that this node knows of, if it does so ahead."""
        if self.peer.memory.outcome is None:
            self._readiness.go_ahead(self._turn_of(self.telemetry.hop + 1))
