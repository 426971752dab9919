"""A world for the protocol: virtual time, a network that misbehaves, nodes that crash between any two actions.

Everything follows from a seed, so that a history that breaks a promise is replayed exactly.
"""

from __future__ import annotations

import hashlib
import heapq
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Protocol

from skipring.errors import InvalidInput
from skipring.network.protocol import (
    FRESH,
    Accepted,
    Action,
    Answer,
    Ask,
    Ballot,
    Broke,
    Compute,
    Entry,
    Final,
    FinalAccepted,
    Kept,
    Kind,
    Memory,
    Message,
    News,
    Offer,
    Outcome,
    Over,
    Pass,
    Peer,
    PrepareBatch,
    Promise,
    Ready,
    Released,
    Rules,
    Say,
    Seal,
    Send,
    SetTimer,
    Sight,
    StopTimer,
    Timer,
    Token,
    WishesKnown,
    Write,
    blank_chain,
    stamped,
)

INITIAL = Token(0, b"initial", b"")


class Make(Protocol):
    """Makes the peer of a node that starts."""

    def __call__(self, me: int, rules: Rules, memory: Memory, seal: Seal, *, sight: Sight) -> Peer: ...


def parameters_of(token: Token) -> bytes:
    """The models of this world are small."""
    assert isinstance(token.parameters, bytes)
    return token.parameters


@dataclass
class Weather:
    """How badly things go until the sky clears."""

    drop: float = 0.1
    double: float = 0.1
    latency: float = 0.05
    crash: float = 0.002
    slow: float = 0.3
    clear_at: float = 60.0
    partitions: int = 1
    lost_for_good: int = 0
    moody: bool = False  # offers wait for other times each, as with a timeout that is learned
    links: bool = False  # nodes are told who is reached; a link that has just come or gone is noticed late
    wishes: int = 0  # so many owners ask for the run to end, at some time
    heavy: float = 0.0  # seconds that a model travels, on average; if 0, it is small and travels like any message


@dataclass
class Machine:
    """A node's computer: what survives a crash, and what does not."""

    memory: Memory  # what is on disk, added up
    disk: list[Entry] = field(default_factory=list)
    peer: Peer | None = None
    life: int = 0
    timers: dict[Timer, int] = field(default_factory=dict)
    gone: bool = False


@dataclass(eq=False)
class Carriage:
    """A large model on its way; it ends if the link breaks, or one of the two nodes does."""

    message: Message
    lives: tuple[int, int]  # of its sender and its receiver
    ends: float
    stalls: float  # from then on nothing of it moves any more


class Seen:
    """What one node sees of this world, and what it was told last: that is checked where it decides."""

    def __init__(self, world: World, node: int) -> None:
        self._world, self._node = world, node
        self.timeout, self.reached = 0.0, True

    def offer_timeout(self) -> float:
        world = self._world
        factor = world.rng.choice([0.1, 0.5, 1.0, 1.0, 2.0, 8.0]) if world.weather.moody else 1.0
        self.timeout, self.reached = world.rules.timeout * factor, True
        return self.timeout

    def turn_timeout(self) -> float:
        return self._world.rules.timeout

    def turns_told(self) -> bytes:
        return b""

    def reaches(self, node: int) -> bool:
        world = self._world
        self.reached = not world.weather.links or world.connected(self._node, node)
        if world.weather.links and world.stormy and world.rng.random() < 0.1:
            self.reached = not self.reached  # it has not noticed yet
        return self.reached

    def carries_to(self, node: int) -> bool:
        return bool(self._world.carried(self._node, node))

    def moves_to(self, node: int) -> bool:
        return any(self._world.now < one.stalls for one in self._world.carried(self._node, node))


class FakeSeal:
    """Signs with a secret that no other node is given."""

    def __init__(self, me: int, secrets: list[bytes]) -> None:
        self._me, self._secrets = me, secrets

    def vote(self, ballot: Ballot, token: Token) -> bytes:
        return self._signed(self._me, "vote", ballot, token)

    def promise(self, ballot: Ballot) -> bytes:
        return self._signed(self._me, "promise", ballot)

    def stamp(self, what: bytes) -> bytes:
        return self._signed(self._me, "stamp", what)

    def wish(self) -> bytes:
        return self._signed(self._me, "wish")

    def is_wish(self, node: int, wish: bytes) -> bool:
        return 0 <= node < len(self._secrets) and wish == self._signed(node, "wish")

    def is_stamp(self, node: int, what: bytes, signature: bytes) -> bool:
        return 0 <= node < len(self._secrets) and signature == self._signed(node, "stamp", what)

    def is_promise(self, node: int, ballot: Ballot, promise: bytes) -> bool:
        return 0 <= node < len(self._secrets) and promise == self._signed(node, "promise", ballot)

    def is_vote(self, node: int, ballot: Ballot, token: Token, vote: bytes) -> bool:
        return 0 <= node < len(self._secrets) and vote == self._signed(node, "vote", ballot, token)

    def _signed(self, node: int, *what: object) -> bytes:
        return hashlib.sha256(self._secrets[node] + repr(what).encode()).digest()


def fake_seals(nodes: int) -> list[FakeSeal]:
    """Return the seals of all nodes of a run."""
    secrets = [b"secret of %d" % node for node in range(nodes)]
    return [FakeSeal(node, secrets) for node in range(nodes)]


class Broken(AssertionError):
    """A promise of the protocol was broken."""


def without_known(token: Token, since: int) -> Token:
    """Return a token as it is sent to a node that has so many bytes of its marks, and one less (0: none)."""
    if not since:
        return token
    return replace(token, chain=token.chain[:32] + token.chain[31 + since :].rstrip(b"\0"))


class World:
    """All nodes of one run, from its beginning to its end."""

    #: The node that lies, -1 if none does; the promises are about the others.
    liar = -1
    #: Whether nodes may be restored from old copies, which can make the run go two ways.
    restores = False

    def __init__(self, seed: int, rules: Rules, weather: Weather, make: Make = Peer) -> None:
        self.rng = random.Random(seed)
        self.rules, self.weather, self.make = rules, weather, make
        self.now = 0.0
        self.events: list[tuple[float, int, Callable[[], None]]] = []
        self.order = itertools.count()
        self.initial = replace(INITIAL, chain=blank_chain(rules.steps, b"world"))
        self.machines = [Machine(Memory.blank(rules.path[0], self.initial)) for _ in range(rules.nodes)]
        self.released: dict[tuple[int, Any, int], bytes] = {}  # author, ballot, hop -> bytes that others may have
        self.readied: set[tuple[int, Any, int]] = set()
        self.updates: dict[bytes, tuple[int, bytes]] = {}  # bytes -> author, bytes before
        self.resumed: dict[Any, int] = {}  # ballot -> who went on under it
        self.said: list[str] = []
        self.broke: list[tuple[int, Broke]] = []  # who has named whom
        self.seals = fake_seals(rules.nodes)
        self.sights = [Seen(self, node) for node in range(rules.nodes)]
        self.carriages: dict[tuple[int, int], list[Carriage]] = {}  # by sender and receiver
        self.extended = 0  # leases that a model on its way has outlived
        self.cut_tokens = 0  # that were sent without marks that their receivers had
        self.unreached = 0  # offers to nodes that were not reached
        self.sent: Counter[type[Message]] = Counter()
        self.reached: dict[int, float] = {}  # when the run first came to a hop, on any branch
        self.heard: dict[int, float] = {}  # when something of a node last arrived somewhere
        self.wished: set[int] = set()  # whose owners have asked for the run to end
        self.came_to = 0  # the last hop that anybody had the token for
        self.forever = set(self.rng.sample(range(rules.nodes), weather.lost_for_good))
        self.cuts = [self.cut() for _ in range(weather.partitions)]
        wishes = random.Random(seed * 31 + 7)  # of its own: a world without wishes is what it was
        for node in wishes.sample(range(rules.nodes), weather.wishes):
            self.later(wishes.uniform(0.0, 0.7 * rules.steps), partial(self.ask_to_finish, node))
        for node in range(rules.nodes):
            self.start(node)

    def ask_to_finish(self, node: int) -> None:
        """Let the owner of a node ask for the run to end, until that is on its disk."""
        machine = self.machines[node]
        self.wished.add(node)
        self.tell(node, None, lambda p: p.wish())
        if node not in dict(machine.memory.wishes) and machine.memory.outcome is None and not machine.gone:
            self.later(1.0, partial(self.ask_to_finish, node))

    def cut(self) -> tuple[float, float, set[int]]:
        """Draw a partition: from when, until when, and who is on one side."""
        begin = self.rng.uniform(0.0, self.weather.clear_at)
        side = self.rng.sample(range(self.rules.nodes), self.rng.randint(1, self.rules.nodes - 1))
        return begin, begin + self.rng.uniform(5.0, 25.0), set(side)

    # Time.

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        heapq.heappush(self.events, (self.now + seconds, next(self.order), what))

    @property
    def stormy(self) -> bool:
        return self.now < self.weather.clear_at

    def run(self, until: float) -> None:
        while self.events and self.now < until:
            self.now, _, what = heapq.heappop(self.events)
            what()
            if self.finished():
                return

    def finished(self) -> bool:
        return all(
            m.gone or node == self.liar or (m.peer is not None and m.peer.memory.outcome is not None)
            for node, m in enumerate(self.machines)
        )

    # Machines.

    def start(self, node: int) -> None:
        machine = self.machines[node]
        if machine.gone:
            return
        machine.life += 1
        machine.timers = {}
        machine.peer = self.make(node, self.rules, machine.memory, self.seals[node], sight=self.sights[node])
        self.do(node, machine.peer.begin())

    def crash(self, node: int) -> None:
        machine = self.machines[node]
        machine.peer = None
        machine.life += 1
        if node in self.forever:
            machine.gone = True
            return
        self.later(self.rng.expovariate(0.2), lambda: self.start(node) if machine.peer is None else None)

    def tell(self, node: int, life: int | None, what: Callable[[Peer], list[Action]]) -> None:
        machine = self.machines[node]
        if machine.peer is not None and (life is None or life == machine.life):
            self.do(node, what(machine.peer))

    def do(self, node: int, actions: list[Action]) -> None:
        machine = self.machines[node]
        life = machine.life
        self.look_how_far(machine)
        for action in actions:
            if self.stormy and self.rng.random() < self.weather.crash:
                self.crash(node)  # between any two actions
                return
            if isinstance(action, Write):
                self.write(node, action.entry)
            elif isinstance(action, Send):
                self.send(node, action.to, action.message)
            elif isinstance(action, SetTimer):
                if action.name is Timer.OFFER:
                    self.check_offer(node, action.seconds)
                number = next(self.order)
                machine.timers[action.name] = number
                self.later(action.seconds, partial(self.ring, node, life, action.name, number))
            elif isinstance(action, StopTimer):
                machine.timers.pop(action.name, None)
            elif isinstance(action, PrepareBatch):
                slow = self.rng.random() < self.weather.slow
                delay = self.rng.expovariate(1.0) * (3.0 if slow else 0.1) * self.rules.timeout
                self.later(delay, partial(self.is_prepared, node, life, action))
            elif isinstance(action, Compute):
                self.compute(node, life, action)
            elif isinstance(action, Broke):
                if self.liar < 0:
                    raise Broken(f"10: node {node} names {action.node}, and nobody lies: {action.what}")
                self.broke.append((node, action))
            elif isinstance(action, Say):
                if action.news is News.FORK and self.liar < 0 and not self.restores:
                    raise Broken(f"13: {action.text}")
                self.said.append(f"{self.now:.2f} {node}: {action.text}")

    def look_how_far(self, machine: Machine) -> None:
        """Take note of the newest hop that a node knows of."""
        if machine.peer is not None:
            self.came_to = max(self.came_to, getattr(machine.peer._core.state.doing, "hop", 0))
        hop = machine.peer._presence._hop if machine.peer is not None else 0
        while hop >= 0 and hop not in self.reached:
            self.reached[hop], hop = self.now, hop - 1

    def is_prepared(self, node: int, life: int, action: PrepareBatch) -> None:
        self.tell(node, life, lambda p: p.prepared(action.ballot, action.hop))

    def ring(self, node: int, life: int, name: Timer, number: int) -> None:
        if self.machines[node].timers.get(name) == number:
            if name is Timer.LEASE:
                self.extended += any(isinstance(one.message, Pass) for one in self.carried_by(node))
            self.machines[node].timers.pop(name)
            self.tell(node, life, lambda p: p.expired(name))

    def compute(self, node: int, life: int, action: Compute) -> None:
        noise = self.rng.randbytes(8)  # fresh: an update that is made twice comes out differently
        before = parameters_of(action.token)
        made = hashlib.sha256(before + bytes([node]) + noise).digest()
        self.updates[made] = node, before
        try:
            commitment = hashlib.sha256(made).digest()
            token = stamped(action.token, action.ballot, action.hop, made, commitment, me=node, seal=self.seals[node])
        except InvalidInput as problem:
            raise Broken(f"3: node {node} updates a token twice at one hop") from problem
        # Some are so slow that their turn is over before; and some find out that they have no time for any row.
        late = self.rng.random() < self.weather.slow / 3.0
        seconds = self.rng.expovariate(1.0) * (2.0 * self.rules.timeout if late else 0.05)
        result = None if late and self.rng.random() < 0.2 else token

        def computed(peer: Peer) -> list[Action]:
            if seconds > action.seconds and peer.is_making(action.ballot, action.hop):
                raise Broken(f"16: node {node} has made its update for {seconds:.2f} s, and its turn is not over")
            return peer.computed(action.ballot, action.hop, result)

        self.later(seconds, lambda: self.tell(node, life, computed))

    # Network, and what is checked while it runs.

    def write(self, node: int, entry: Any) -> None:
        machine = self.machines[node]
        if node != self.liar:
            self.check_entry(node, machine.memory, entry)
        machine.disk.append(entry)
        machine.memory = machine.memory.after(entry)

    def check_entry(self, node: int, memory: Memory, entry: Entry) -> None:
        if isinstance(entry, Released) and memory.passing is not None:
            raise Broken(f"14: node {node} releases an update of hop {entry.copy.hop} that it has passed on without")
        if isinstance(entry, Kept) and entry.copy.ballot < memory.promised:
            raise Broken(f"4: node {node} accepts {entry.copy.ballot} below its promise {memory.promised}")
        goes_on = isinstance(entry, Kept) and entry.sender is None and entry.copy.ballot != memory.copy.ballot
        if isinstance(entry, Kept) and goes_on and entry.copy.ballot[1] != self.liar:  # it may tell two to go on
            other = self.resumed.setdefault(entry.copy.ballot, node)
            if other != node:
                raise Broken(f"1: nodes {other} and {node} both go on under ballot {entry.copy.ballot}")
        if isinstance(entry, Over):
            good = {
                voter for voter, vote in entry.votes if self.seals[0].is_vote(voter, entry.ballot, entry.token, vote)
            }
            if len(good) < self.rules.majority:
                raise Broken(f"11: node {node} ends with the votes of {sorted(good)}")
            if self.liar < 0 and self.came_to < self.rules.steps:
                self.check_early(node, entry)
            for other, m in enumerate(self.machines):
                if other != self.liar and m.memory.outcome not in (None, entry.token):
                    raise Broken(f"1: nodes {node} and {other} end with different models")

    def check_early(self, node: int, entry: Over) -> None:
        """Nobody ends a run before its last hop unless a majority has asked for it, and each has the proof."""
        asked = {wisher for wisher, wish in entry.wishes if self.seals[0].is_wish(wisher, wish)}
        if len(self.wished) < self.rules.majority or not asked <= self.wished or len(asked) < self.rules.majority:
            raise Broken(f"17: node {node} ends at hop {self.came_to} of {self.rules.steps}, asked for by {asked}")

    def check_written(self, sender: int, to: int, message: Message) -> None:
        """What a message says must be on the sender's disk: a crash right after it must not take it back."""
        memory = self.machines[sender].memory
        place = (memory.copy.ballot, memory.copy.hop)
        kept = True
        if isinstance(message, Accepted):
            kept = (message.ballot, message.hop) == place or (message.ballot, message.hop) in memory.ledger
        elif isinstance(message, Promise):
            kept = memory.promised >= message.ballot
        elif isinstance(message, FinalAccepted):
            kept = memory.copy.kind is Kind.FINAL and memory.copy.ballot == message.ballot
        elif isinstance(message, Answer) and not message.has:
            asked = (message.ballot, message.hop)
            denied = memory.denied(to)
            kept = asked <= place or (denied is not None and asked <= denied)
        elif isinstance(message, Pass):
            token = without_known(memory.copy.token, message.since)
            self.cut_tokens += message.since > 1
            kept = memory.passing == (message.ballot, message.hop) and message.token == token
        elif isinstance(message, Outcome):
            kept = (memory.outcome, memory.votes, memory.asked) == (message.token, message.votes, message.wishes)
        elif isinstance(message, WishesKnown):
            kept = set(message.wishes) <= set(memory.wishes)
        if not kept:
            raise Broken(f"7: node {sender} says {message}, which a crash would take back")

    def check_offer(self, node: int, seconds: float) -> None:
        """How long an offer waits follows from what the node was told."""
        told = self.sights[node]
        self.unreached += not told.reached
        if not told.reached and seconds > FRESH:
            raise Broken(f"8: node {node} waits {seconds} s for a node that it does not reach")
        if told.reached and seconds < told.timeout:
            raise Broken(f"8: node {node} waits {seconds} s for a node that may take {told.timeout} s")

    def check_sent(self, sender: int, to: int, message: Message) -> None:
        """What is sent must be on the sender's disk, and a token must have been asked for."""
        self.check_written(sender, to, message)
        if isinstance(message, Offer):
            self.check_present(sender, message.hop)
        if isinstance(message, Ready):
            self.readied.add((sender, message.ballot, message.hop))
        if isinstance(message, Pass):
            if (to, message.ballot, message.hop) not in self.readied:
                raise Broken(f"5: node {to} is sent the token of {message.hop} without having said ready")
            self.check_release(parameters_of(message.token))

    def check_present(self, sender: int, hop: int) -> None:
        """No hop is offered unless enough nodes were heard from by somebody since two rounds before it."""
        since = self.reached.get(hop - 2 * self.rules.nodes)
        if since is not None and hop > 2 * self.rules.nodes:
            heard = {node for node, when in self.heard.items() if when >= since} | {sender}
            if not self.rules.is_quorum(heard):
                raise Broken(f"10: node {sender} offers hop {hop}, and only {heard} were heard from in two rounds")

    def check_asked(self, sender: int, to: int, message: Ask) -> None:
        for carriage in self.carried(sender, to):
            if isinstance(carriage.message, Pass) and carriage.message.hop == message.hop:
                raise Broken(f"9: node {sender} asks for the token of {message.hop}, which is on its way to {to}")

    def send(self, sender: int, to: int, message: Message) -> None:
        self.sent[type(message)] += 1
        self.check_sent(sender, to, message)
        if isinstance(message, Ask):
            self.check_asked(sender, to, message)
        if self.weather.heavy and isinstance(message, Pass | Final | Outcome):
            self.carry(sender, to, message)
            return
        if self.stormy and self.rng.random() < self.weather.drop:
            return
        copies = 2 if self.stormy and self.rng.random() < self.weather.double else 1
        for _ in range(copies):
            delay = self.rng.expovariate(1.0 / self.weather.latency)
            if self.stormy and self.rng.random() < 0.05:
                delay += self.rng.uniform(0.0, 20.0)  # long after its time
            self.later(delay, lambda: self.deliver(sender, to, message))

    def check_release(self, parameters: bytes) -> None:
        if parameters == INITIAL.parameters:
            return
        author, _ = self.updates[parameters]
        entries = [
            e for e in self.machines[author].disk if isinstance(e, Released) and e.copy.token.parameters == parameters
        ]
        if len(entries) != 1:
            raise Broken(f"3: an update of node {author} is sent that its ledger has {len(entries)} times")
        place = author, entries[0].copy.ballot, entries[0].copy.hop
        if self.released.setdefault(place, parameters) != parameters:
            raise Broken(f"3: node {author} has released two updates for {place[1:]}")

    def deliver(self, sender: int, to: int, message: Message) -> None:
        if not self.is_cut(sender, to):
            self.heard[sender] = self.now
        ballot = getattr(message, "ballot", getattr(message, "promised", (0, 0)))
        if not self.is_cut(sender, to) and ballot[0] < 2**63:  # a larger one is no frame of the protocol
            self.tell(to, None, lambda p: p.received(sender, message))

    def is_cut(self, sender: int, to: int) -> bool:
        """Say whether nothing goes from one node to another at this moment."""
        return any(begin <= self.now < end for begin, end in self.cuts_between(sender, to))

    def cuts_between(self, sender: int, to: int) -> Iterator[tuple[float, float]]:
        """Yield from when until when nothing goes from one node to another."""
        for begin, end, side in self.cuts:
            if (sender in side) != (to in side):
                yield begin, min(end, self.weather.clear_at)

    def connected(self, sender: int, to: int) -> bool:
        """Say whether one node can reach another at this moment."""
        return not self.is_cut(sender, to) and self.machines[to].peer is not None

    # Large models: in calls of their own, one after the other, and nobody takes one that is not asked for.

    def lives(self, sender: int, to: int) -> tuple[int, int]:
        return self.machines[sender].life, self.machines[to].life

    def carried(self, sender: int, to: int) -> list[Carriage]:
        """Return the models that are on their way, the next one first."""
        there = self.carriages.get((sender, to), [])
        return [one for one in there if one.lives == self.lives(sender, to)]

    def carried_by(self, sender: int) -> list[Carriage]:
        return [one for to in range(self.rules.nodes) for one in self.carried(sender, to)]

    def carry(self, sender: int, to: int, message: Message) -> None:
        on_their_way = self.carried(sender, to)
        if not self.connected(sender, to) or any(one.message == message for one in on_their_way):
            return
        begins = max([self.now, *(one.ends for one in on_their_way)])
        ends = begins + self.rng.expovariate(1.0 / self.weather.heavy)
        fails = self.stormy and self.rng.random() < self.weather.drop
        broken = [begin for begin, end in self.cuts_between(sender, to) if begin < min(end, ends) and self.now < end]
        if broken or fails:
            ends = min([*broken, self.rng.uniform(begins, ends) if fails else ends])
        stalls = ends - self.rng.uniform(0.0, ends - begins) if self.stormy and self.rng.random() < 0.1 else ends
        carriage = Carriage(message, self.lives(sender, to), ends, stalls)
        self.carriages[sender, to] = [*on_their_way, carriage]
        arrives = not broken and not fails
        self.later(ends - self.now, lambda: self.arrive(sender, to, carriage, arrives=arrives))
        self.later(begins - self.now + 0.001, lambda: self.announce(sender, to, carriage))

    def announce(self, sender: int, to: int, carriage: Carriage) -> None:
        """Let the receiver of a model say that it does not want it."""
        message, peer = carriage.message, self.machines[to].peer
        place = (message.ballot, message.hop) if isinstance(message, Pass) else None
        unasked = place is not None and peer is not None and not peer.expects(place, sender)
        if unasked or (peer is not None and peer.memory.outcome is not None):
            self.unload(sender, to, carriage)

    def unload(self, sender: int, to: int, carriage: Carriage) -> bool:
        """Take a model off its way; return whether it was on it."""
        there = carriage in self.carried(sender, to)
        self.carriages[sender, to] = [one for one in self.carriages[sender, to] if one is not carriage]
        return there

    def arrive(self, sender: int, to: int, carriage: Carriage, *, arrives: bool) -> None:
        if self.unload(sender, to, carriage) and arrives:
            self.heard[sender] = self.now
            self.tell(to, None, lambda p: p.received(sender, carriage.message))

    # What must hold in the end.

    def check_chain(self, token: Token) -> None:
        """The final model is one chain of updates, each in its author's journal."""
        parameters, count = parameters_of(token), 0
        while parameters != INITIAL.parameters:
            before = self.updates[parameters][1]
            self.check_release(parameters)
            parameters, count = before, count + 1
        if count != token.updates:
            raise Broken("2: the final model is not one chain of updates")

    def check_end(self) -> None:
        honest = [(node, machine) for node, machine in enumerate(self.machines) if node != self.liar]
        outcomes = {e.token for _, m in honest for e in m.disk if isinstance(e, Over)}
        if len(outcomes) > 1:
            raise Broken("1: different final models")
        for token in outcomes:
            self.check_chain(token)
        for node, machine in honest:
            places = [(e.copy.ballot, e.copy.hop) for e in machine.disk if isinstance(e, Released)]
            if len(places) != len(set(places)):
                raise Broken(f"3: node {node} has two updates for one place")
        if not self.finished():
            raise Broken(f"6: not finished at {self.now:.0f}")


def history(seed: int, make: Make = Peer) -> World:
    """Run one history; its shape, too, follows from the seed."""
    rng = random.Random(seed * 7919 + 1)
    nodes = rng.randint(2, 7)
    steps = rng.randint(1, 5 * nodes)
    path = [rng.randrange(nodes) for _ in range(steps)]
    rules = Rules(nodes=nodes, path=path, timeout=1.0, lease=1.0, silence=8.0, short=0 if seed % 2 else 1024)
    weather = Weather(
        drop=rng.choice([0.0, 0.05, 0.3]),
        double=rng.choice([0.0, 0.2]),
        crash=rng.choice([0.0, 0.002, 0.02]),
        slow=rng.choice([0.0, 0.3, 0.8]),
        clear_at=rng.choice([0.0, 30.0, 120.0]),
        partitions=rng.choice([0, 0, 1, 3]),
        lost_for_good=rng.randint(0, (nodes - 1) // 2),
        moody=rng.random() < 0.3,
        links=rng.random() < 0.5,
        heavy=rng.choice([0.0, 0.0, 0.3, 2.0, 6.0]),
    )
    few = random.Random(seed * 17 + 3)
    if few.random() < 0.3:
        weather.wishes = few.randint(1, nodes)
    world = World(seed, rules, weather, make)
    world.run(until=weather.clear_at + 4000.0)
    world.check_end()
    return world
