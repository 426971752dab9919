"""A world of whole nodes: driver, journal on disk, updates, account, all of it real, but for the socket and the clock.

Time is virtual: an event loop that never sleeps, but goes to the next moment at which something happens. Messages are
lost, doubled, delayed and cut off as in `world`, large models take a while, and nodes crash before an entry is on disk,
after it, and between any two messages. All follows from a seed. What is checked on the way, and in the end, are the
promises of `world`, and that a node's account is what somebody who sees everything would count.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from fake_machine import Crashed, Drawn, FakeWires, WatchedJournal
from summing import account_of
from virtual_time import VirtualLoop
from watched import Watched, exact_mu2
from world import Broken, FakeSeal, Weather, without_known

import skipring.network.node.updater as updater_module
import skipring.network.storage.model_file as model_file_module
from skipring.learning import Learner
from skipring.models import Inputs
from skipring.network.node import (
    FINISH,
    RESULT,
    AccountTerms,
    Node,
    NodeBudget,
    NodeConfig,
    NodeSetup,
    OwnData,
    make_learner,
    read_status,
)
from skipring.network.protocol import (
    Ballot,
    Entry,
    Final,
    Kept,
    Message,
    Outcome,
    Over,
    Parameters,
    Pass,
    Ready,
    Released,
    Rules,
    Token,
    blank_chain,
)
from skipring.network.setup import agreed_run, open_journal
from skipring.network.storage import ModelWriter, chunks_of, digest_of, read_journal, store_parameters
from skipring.network.transport import Agreement, Keys, Roster, parse_nodes
from skipring.privacy import gdp_epsilon
from skipring.runs import RunFile, parse_run

NOISE = 5.0


@dataclass
class Life:
    """A node from its start to its crash or its end."""

    node: Node
    wires: FakeWires
    task: asyncio.Task[None] = field(init=False)


@cache
def parts_of(nodes: int, index: int, adaptive: bool, ready: str) -> tuple[RunFile, Learner, Inputs]:
    """Return the run, the learner and the inputs of a node; they are the same in all histories."""
    asked = {
        "data": {"name": "breast-cancer"},
        "schedule": {"steps": 10},
        "delay": {"timeout": "adaptive" if adaptive else 1.0, "ready": ready},
        "privacy": {"noise_multiplier": NOISE},
        "model": {"name": "logistic"},
    }
    run = agreed_run(parse_run(asked), nodes)
    rng = np.random.default_rng(index)
    return run, *make_learner(run, index=index, nodes=nodes, name=f"node{index + 1}", data=OwnData(), rng=rng)


class NamedSeal(FakeSeal):
    """Signs as the world's seals do, with the digest of a model in the place of the model."""

    def __init__(self, world: DrivenWorld, me: int) -> None:
        self._world, self._real = world, world.seals[me]

    def vote(self, ballot: Ballot, token: Token) -> bytes:
        return self._real.vote(ballot, self._world.token_named(token))

    def promise(self, ballot: Ballot) -> bytes:
        return self._real.promise(ballot)

    def stamp(self, what: bytes) -> bytes:
        return self._real.stamp(what)

    def wish(self) -> bytes:
        return self._real.wish()

    def is_wish(self, node: int, wish: bytes) -> bool:
        return self._real.is_wish(node, wish)

    def is_stamp(self, node: int, what: bytes, signature: bytes) -> bool:
        return self._real.is_stamp(node, what, signature)

    def is_vote(self, node: int, ballot: Ballot, token: Token, vote: bytes) -> bool:
        return self._real.is_vote(node, ballot, self._world.token_named(token), vote)

    def is_promise(self, node: int, ballot: Ballot, promise: bytes) -> bool:
        return self._real.is_promise(node, ballot, promise)


@dataclass(frozen=True)
class SealedSetup(NodeSetup):
    """A node without keys: what it signs with is the world's."""

    fake_seal: NamedSeal | None = None

    @property
    def seal(self) -> Any:
        return self.fake_seal


class DrivenWorld(Watched):
    """All nodes of one run. What travels is known here by its digest, so that the promises of `world` can be checked.

    Parameters
    ----------
    seed, rules, weather : as in `world`.
    folder : where the nodes' folders are.
    large : whether models go the way of those that are too large for memory: files, threads, calls of their own.
    adaptive : whether nodes learn how long to wait.
    ready : whether nodes keep what they have got ready, and whether they get ready ahead.
    budget : so many updates of node 0 are what its budget allows; None without one.
    """

    def __init__(
        self,
        seed: int,
        rules: Rules,
        weather: Weather,
        folder: Path,
        *,
        large: bool = False,
        adaptive: bool = False,
        ready: str = "ahead",
        budget: int | None = None,
    ) -> None:
        loop = asyncio.get_running_loop()
        assert isinstance(loop, VirtualLoop)
        self.loop, self.folder, self.large, self.adaptive, self.budget = loop, folder, large, adaptive, budget
        self.ready = ready
        self.prepared: Counter[int] = Counter()  # what each node has got ready since its last update
        names, addresses = parse_nodes(str(rules.nodes))
        self.roster = Roster(
            names,
            addresses,
            tuple(f"{node:064x}" for node in range(rules.nodes)),
            tuple(f"02{node:064x}" for node in range(rules.nodes)),
        )
        self.agreement = Agreement({"seed": seed})
        self.models: dict[bytes, bytes] = {}  # digest -> parameters, all that were ever made
        self.setups: dict[int, NodeSetup] = {}
        self.living: dict[int, Life] = {}
        self.ended: set[int] = set()
        self.happened: Counter[str] = Counter()
        self.sizes = (1.0 / np.sqrt(1.0 + np.arange(rules.steps))).tolist()
        self.blank: Token | None = None
        super().__init__(seed, rules, weather)
        self.loop.rng = self.rng
        self.loop.slow, self.loop.long = weather.slow / 3.0, 2.0 * rules.timeout
        for _ in range(self.rng.choice([0, 0, 1, 2]) if weather.clear_at else 0):
            self.later(
                self.rng.uniform(0.0, weather.clear_at), partial(self.told_to_stop, self.rng.randrange(rules.nodes))
            )
        self.tick()

    # Time: that of the loop.

    @property
    def now(self) -> float:
        return self.loop.now

    @now.setter
    def now(self, _: float) -> None:
        """It is the loop that has the time."""

    def later(self, seconds: float, what: Callable[[], None]) -> None:
        self.loop.call_later(seconds, what)

    async def run_to_the_end(self, until: float) -> None:
        """Wait until every node that is not lost for good has ended its run by itself."""
        while any(not machine.gone and node not in self.ended for node, machine in enumerate(self.machines)):
            if self.now > until:
                raise Broken(f"6: not finished at {self.now:.0f}")
            await asyncio.sleep(1.0)

    # Machines.

    def setup(self, me: int) -> NodeSetup:
        """Return what a node is given; the initial model is stored at each start, as a process does."""
        run, learner, inputs = parts_of(self.rules.nodes, me, self.adaptive, self.ready)
        first = np.ascontiguousarray(learner.initial(), dtype=learner.dtype)
        journal = self.folder / self.roster.names[me] / "journal.sqlite"
        journal.parent.mkdir(exist_ok=True)
        parameters = store_parameters(first, Path(f"{journal}-models"))
        blank = self.blank = Token(0, parameters, blank_chain(self.rules.steps, self.agreement.digest))
        self.models[bytes.fromhex(digest_of(parameters))] = first.tobytes()
        if me in self.setups:
            return replace(self.setups[me], initial=blank)
        budget = NodeBudget()
        if me == 0 and self.budget is not None:
            mu = 2.0 / NOISE * np.sqrt(self.budget)
            budget = NodeBudget(epsilon=gdp_epsilon(mu, 1e-5) * 1.001, delta=1e-5, count="releases")
        config = NodeConfig(
            name=self.roster.names[me],
            listen=str(self.roster.addresses[me]),
            journal=journal,
            start_wait=5.0,
            budget=budget,
        )
        path = self.rules.path
        self.setups[me] = SealedSetup(
            name=config.name,
            me=me,
            config=config,
            roster=self.roster,
            run=run,
            keys=Keys(Path("node.key"), Path("node.crt"), Path("ca.crt")),
            learner=learner,
            agreement=self.agreement,
            rules=self.rules,
            terms=AccountTerms(self.rules.nodes, me, path, self.sizes, NOISE, True),
            initial=blank,
            delay=Drawn(self),  # type: ignore[arg-type] # all that a node asks of a law is a number
            inputs=inputs,
            fake_seal=NamedSeal(self, me),
        )
        return self.setups[me]

    def start(self, node: int) -> None:
        machine = self.machines[node]
        before = self.living.get(node)
        if machine.gone or node in self.ended:
            return
        if before is not None and not before.task.done():
            self.later(0.05, partial(self.start, node))  # its journal is still open
            return
        machine.life += 1
        self.prepared[node] = 0
        setup = self.setup(node)
        journal = WatchedJournal(self, node, open_journal(setup))
        made = Node(
            setup,
            journal,
            partial(self.say, node),
            connect=lambda _, receiver: FakeWires(self, node, receiver),
            clock=self.loop.time,
        )
        assert isinstance(made.transport, FakeWires)
        journal.wires = made.transport
        machine.peer = made.peer
        if journal.memory.outcome is None and machine.life > 1:
            self.happened["restart"] += 1
        self.living[node] = life = Life(made, made.transport)
        life.task = self.loop.create_task(self.live(node, life, journal))

    async def live(self, node: int, life: Life, journal: WatchedJournal) -> None:
        """Run a node until it ends, is told to stop, or crashes; then it is started again."""
        try:
            await life.node.run()
        except (Crashed, asyncio.CancelledError):
            if not life.wires.dead:
                raise
        finally:
            life.wires.up = False
            journal.close()
        if life.wires.dead or life.node.taking_part.stopping:  # its owner starts it again
            self.crash(node)
        elif life.node.peer.memory.outcome is None:
            raise Broken(f"6: node {node} leaves before the end")
        else:
            self.ended.add(node)

    def may_crash(self, wires: FakeWires) -> None:
        """Let the power of a node fail, at times: from now on nothing of it is seen."""
        if self.stormy and self.rng.random() < self.weather.crash:
            self.happened["crash"] += 1
            wires.dead, wires.up = True, False
            life = self.living.get(wires.me)
            if life is not None:
                self.loop.call_soon(life.task.cancel)
            raise Crashed

    def ask_to_finish(self, node: int) -> None:
        """Let the owner of a node ask for the run to end, as they do: by a file, whether it runs or not."""
        setup = self.setups[node]
        self.wished.add(node)
        (setup.config.journal.parent / FINISH).write_text(f"{setup.identity}\n")

    def check_early(self, node: int, entry: Over) -> None:
        """How far the run had come is not known here; where it ended by wishes, they are those of a majority."""
        if entry.wishes:
            self.happened["early"] += 1
            super().check_early(node, entry)

    def told_to_stop(self, node: int) -> None:
        life = self.living.get(node)
        if life is not None and life.wires.up and not life.task.done():
            self.happened["stop"] += 1
            life.node.stop()

    def say(self, node: int, event: str, **facts: object) -> None:
        self.happened[event] += 1
        if event == "prepared":
            self.prepared[node] += 1
        self.said.append(f"{self.now:.3f} {node}: {event} {facts.get('what', '')}")

    # The network.

    def tick(self) -> None:
        """Make and break connections: a broken one is noticed after a while only."""
        for a, life in list(self.living.items()):
            for b, other in list(self.living.items()):
                if a == b or not life.wires.up:
                    continue
                there = other.wires.up and not (self.stormy and self.is_cut(a, b))
                if there and b not in life.wires.reachable:
                    life.wires.reachable.add(b)
                    with suppress(Crashed):
                        life.wires.receiver.connected(b)
                elif not there:
                    life.wires.reachable.discard(b)
        self.later(self.rng.uniform(0.2, 0.8) if self.now < self.weather.clear_at + 60.0 else 5.0, self.tick)

    def deliver(self, sender: int, to: int, message: Message) -> None:
        life = self.living.get(to)
        if life is not None and life.wires.up and not self.is_cut(sender, to):
            life.node.received(sender, self.real(message))

    def deliver_done(self, sender: int, to: int) -> None:
        life = self.living.get(to)
        if life is not None and life.wires.up and not self.is_cut(sender, to):
            with suppress(Crashed):
                life.node.done(sender)

    def carry_large(self, wires: FakeWires, to: int, message: Pass | Final | Outcome) -> None:
        """Send a large model: a call of its own, which takes longer than a lease at times, and breaks with the link."""
        named = self.named(message)
        self.check_sent(wires.me, to, named)
        if to not in wires.reachable or (to, named) in wires.carried:
            return
        wires.carried.add((to, named))
        self.loop.create_task(self.carrying(wires, to, named))

    async def carrying(self, wires: FakeWires, to: int, named: Message) -> None:
        receiving: FakeWires | None = None
        try:
            await asyncio.sleep(self.rng.expovariate(20.0))  # the heading
            life = self.living.get(to)
            if life is None or not life.wires.up or self.is_cut(wires.me, to) or life.node.wants(wires.me, named):
                return
            receiving = life.wires
            receiving.arriving += 1
            seconds = self.rng.expovariate(1.0) * self.rng.choice([0.1, 1.0, 4.0]) * self.rules.lease
            self.happened["slow carry"] += seconds > 2.0 * self.rules.lease
            parts = 5
            for _ in range(parts):
                await asyncio.sleep(seconds / parts)
                if not wires.up or not receiving.up or self.is_cut(wires.me, to):
                    self.happened["broken carry"] += 1
                    return
            life.node.received(wires.me, self.real(named, life.node.setup.models))
        finally:
            wires.carried.discard((to, named))
            if receiving is not None:
                receiving.arriving -= 1

    # Digests instead of models.

    def token_named(self, token: Token) -> Token:
        name = bytes.fromhex(digest_of(token.parameters))
        return self.initial if token.updates == 0 else replace(token, parameters=name)

    def named(self, message: Message) -> Any:
        """Return a message with the digest of its model instead of the model."""
        if isinstance(message, Pass | Final | Outcome):
            token = self.token_named(message.token)
            since = message.since if isinstance(message, Pass) and not token.updates else 0
            return replace(message, token=without_known(token, since))
        return message

    def real(self, message: Message, folder: Path | None = None) -> Message:
        """Return a message with its model; in a new file, if there is a folder for it."""
        if not isinstance(message, Pass | Final | Outcome):
            return message
        token, initial = message.token, self.blank
        assert initial is not None
        name = token.parameters if token.updates else bytes.fromhex(digest_of(initial.parameters))
        chain = token.chain if token.updates else initial.chain[: len(token.chain)]
        assert isinstance(name, bytes)
        parameters: Parameters = self.models[name]
        if folder is not None:
            with ModelWriter(folder) as writer:
                writer.write(self.models[name])
                parameters = writer.finish()
        return replace(message, token=replace(token, parameters=parameters, chain=chain))

    def check_sent(self, sender: int, to: int, message: Message) -> None:
        """A node that says ready has got the rows of its next update ready, and none of another one."""
        if isinstance(message, Ready) and not self.prepared[sender]:
            raise Broken(f"15: node {sender} says ready with what its last update has used")
        super().check_sent(sender, to, message)

    def wrote(self, node: int, entry: Entry) -> None:
        """See an entry that is on a node's disk, and check it."""
        if isinstance(entry, Released):
            self.prepared[node] = 0
            token = entry.copy.token
            made = bytes.fromhex(digest_of(token.parameters))
            before = self.machines[node].memory.copy.token.parameters
            assert isinstance(before, bytes)
            if made in self.updates:
                raise Broken(f"3: node {node} has released the same bytes twice")
            self.models[made] = b"".join(chunks_of(token.parameters, 1 << 20))
            self.updates[made] = node, before
            self.number[made], self.hop[made] = token.updates, entry.copy.hop
        if isinstance(entry, Kept | Released):
            entry = replace(entry, copy=replace(entry.copy, token=self.token_named(entry.copy.token)))
        elif isinstance(entry, Over):
            entry = replace(entry, token=self.token_named(entry.token))
        self.write(node, entry)

    # What must hold in the end.

    def check_disks(self) -> None:
        """A node's journal, its account and what it leaves to its owner are what the one who sees everything counts."""
        for node, machine in enumerate(self.machines):
            life, setup = self.living[node], self.living[node].node.setup
            releases = [entry.copy for entry in machine.disk if isinstance(entry, Released)]
            places = [(copy.ballot, copy.hop) for copy in releases]
            reading = read_journal(setup.config.journal)
            if (reading.memory.promised, reading.memory.ledger) != (machine.memory.promised, machine.memory.ledger):
                raise Broken(f"7: the journal of node {node} is not what it wrote")
            if [(line.ballot, line.hop, line.updates) for line in reading.releases] != [
                (copy.ballot, copy.hop, copy.token.updates) for copy in releases
            ]:
                raise Broken(f"3: the ledger of node {node} is not what was written")
            counted = account_of(setup.terms, machine.disk)
            accounts = [account_of(setup.terms, (entry for _, entry in reading.entries))]
            if node in self.ended:  # else it has not counted to the end
                accounts.append(life.node.account)
                result = read_status(setup.config.journal.parent / RESULT)
                if result is None or result.own_updates != len(places):
                    raise Broken(f"3: the result of node {node} is not what was written")
                if not np.isclose(result.epsilon, counted.epsilon(result.guarantee.delta), rtol=1e-9):
                    raise Broken(f"3: the result of node {node} says {result.epsilon}, and its journal otherwise")
                self.happened["settled"] += counted.is_settled
            for account in accounts:
                if account.releases != len(places) or not np.array_equal(account.by_observer(), counted.by_observer()):
                    raise Broken(f"3: node {node} has released {len(places)} updates, its account says otherwise")
            if node == 0 and self.budget is not None and len(places) > self.budget:
                raise Broken(f"3: a budget of {self.budget} updates, and {len(places)} were released")
        if len({path.read_bytes() for path in self.folder.glob("*/model.npy")}) != 1:
            raise Broken("1: different final models on disk")

    def check_knowledge(self) -> None:
        """No observer knows more of a node than its account says; one node in each history, to be quick."""
        target = self.rng.randrange(self.rules.nodes)
        said = account_of(self.living[target].node.setup.terms, self.machines[target].disk).by_observer()
        for observer in set(range(self.rules.nodes)) - {target}:
            if exact_mu2(self, target, observer, self.sizes, NOISE) > said[observer] * (1.0 + 1e-9):
                raise Broken(f"3: node {observer} knows more of node {target} than its account says")


async def _history(seed: int, folder: Path) -> DrivenWorld:
    rng = random.Random(seed * 104729 + 7)
    nodes = rng.randint(2, 5)
    path = [rng.randrange(nodes) for _ in range(rng.randint(1, 4 * nodes))]
    rules = Rules(nodes=nodes, path=path, timeout=1.0, lease=1.0, silence=8.0, short=0 if seed % 2 else 1024)
    weather = Weather(
        drop=rng.choice([0.0, 0.05, 0.2]),
        double=rng.choice([0.0, 0.2]),
        crash=rng.choice([0.0, 0.005, 0.03]),
        slow=rng.choice([0.0, 0.3, 0.8]),
        clear_at=rng.choice([0.0, 30.0, 90.0]),
        partitions=rng.choice([0, 0, 1, 3]),
        lost_for_good=rng.randint(0, (nodes - 1) // 2),
    )
    few = random.Random(seed * 17 + 3)  # of its own: what was drawn before stays as it was
    weather.wishes = few.randint(1, nodes) if few.random() < 0.3 else 0
    world = DrivenWorld(
        seed,
        rules,
        weather,
        folder,
        large=model_file_module.LARGE == 1,
        adaptive=rng.random() < 0.2,
        ready=rng.choice(["fresh", "kept", "ahead"]),
        budget=rng.choice([None, None, 1, 2]),
    )
    await world.run_to_the_end(until=weather.clear_at + 6000.0)
    world.check_end()
    world.check_disks()
    world.check_knowledge()
    return world


def history(seed: int, folder: Path) -> DrivenWorld:
    """Run one history in an empty folder; whether models go the way of large ones follows from the seed, too."""
    problems: list[BaseException] = []

    def noticed(_: object, context: dict[str, Any]) -> None:
        problem = context.get("exception")
        problems.append(problem if problem is not None else Broken(str(context["message"])))

    quick, large = updater_module._QUICK, model_file_module.LARGE
    if seed % 3 == 0:  # as if the smallest model were too large to be kept in memory
        updater_module._QUICK, model_file_module.LARGE = 0, 1
    try:
        with asyncio.Runner(loop_factory=VirtualLoop) as runner:
            runner.get_loop().set_exception_handler(noticed)
            return runner.run(_watched(_history(seed, folder), problems))
    finally:
        updater_module._QUICK, model_file_module.LARGE = quick, large


async def _watched(work: Any, problems: list[BaseException]) -> DrivenWorld:
    """Let what goes wrong in a callback, which asyncio only tells of, end the history."""
    task = asyncio.ensure_future(work)
    while not task.done():
        await asyncio.wait([task], timeout=5.0)
        if problems:
            task.cancel()
            raise problems[0]
    world: DrivenWorld = task.result()
    return world
