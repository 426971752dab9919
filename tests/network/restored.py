"""Histories of whole nodes in which one is restored from an old copy of its journal, or loses it, at a crash.

Such a node breaks promises of the protocol: it has forgotten what it said. What is checked here is what it says of its
own privacy: every own update in a token that has reached it, forgotten or not, is in its account.
"""

from __future__ import annotations

import asyncio
import random
import shutil
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from driven import NOISE, DrivenWorld, Life, _watched
from fake_machine import Crashed, WatchedJournal
from summing import account_of, replayed
from virtual_time import VirtualLoop
from watched import exact_mu2
from world import Broken, Weather

from skipring.errors import InvalidInput
from skipring.network.node import OldJournal
from skipring.network.protocol import Final, Memory, Outcome, Pass, Released, Rules
from skipring.network.storage import JournalUnusable, read_journal


class RestoredWorld(DrivenWorld):
    """A world in which one node's journal is copied at some time, and the copy put in its place at a later crash."""

    restores = True

    def __init__(self, seed: int, rules: Rules, weather: Weather, folder: Path) -> None:
        chance = random.Random(seed + 99)
        self.target, self.lost = chance.randrange(rules.nodes), chance.random() < 0.3
        self.copied: tuple[Path, int] | None = None
        self.restored = self.too_old = self.reminded = False
        self.looked: dict[int, set[Any]] = {}  # the tokens that have reached each node, or that it has made
        self.shown: set[Any] = set()  # the tokens that have reached the target since it was restored
        super().__init__(seed, rules, weather, folder)
        if not self.lost:
            self.later(chance.uniform(0.0, 12.0), self.copy)
        self.later(chance.uniform(12.0, 25.0), self.power_cut)

    @property
    def home(self) -> Path:
        return self.folder / self.roster.names[self.target]

    def copy(self) -> None:
        place = self.folder / "backup"
        place.mkdir()
        for path in self.home.glob("journal.sqlite*"):
            if path.is_file():
                shutil.copy(path, place)
        self.copied = place, len(self.machines[self.target].disk)

    def power_cut(self) -> None:
        """Let the target lose its power, and come back with the copy."""
        life = self.living.get(self.target)
        if life is None or life.task.done() or not life.wires.up:
            self.later(1.0, self.power_cut)
            return
        life.wires.dead, life.wires.up = True, False
        life.task.cancel()
        life.task.add_done_callback(lambda _: self.restore())

    def restore(self) -> None:
        for path in self.home.glob("journal.sqlite*"):
            if path.is_file():
                path.unlink()
        kept = 0
        if self.copied is not None:
            place, kept = self.copied
            for path in place.iterdir():
                shutil.copy(path, self.home)
        machine = self.machines[self.target]
        machine.disk = machine.disk[:kept]
        assert self.initial is not None
        machine.memory = replayed(Memory.blank(self.rules.path[0], self.token_named(self.initial)), machine.disk)
        self.restored = True
        self.shown.clear()

    def start(self, node: int) -> None:
        try:
            super().start(node)
        except JournalUnusable:
            assert node == self.target
            self.too_old = self.machines[node].gone = True

    async def live(self, node: int, life: Life, journal: WatchedJournal) -> None:
        try:
            await super().live(node, life, journal)
        except OldJournal:
            assert node == self.target
            self.later(1.0, partial(self.start, node))  # a supervisor that does not know better

    def deliver(self, sender: int, to: int, message: Any) -> None:
        life = self.living.get(to)
        heard = life is not None and life.wires.up and not self.is_cut(sender, to)
        if heard and isinstance(message, Pass | Final | Outcome):
            self.looked.setdefault(to, set()).add(message.token.parameters)
        # What was sent to the process before, without marks that it had, tells this one nothing: it is as if lost.
        shows = isinstance(message, Final | Outcome)
        if life is not None and isinstance(message, Pass):
            shows = life.node.peer.whole(sender, message) is not None
        super().deliver(sender, to, message)
        if heard and to == self.target and shows:
            self.shown.add(message.token.parameters)
            if self.restored:
                self.check_own()

    def write(self, node: int, entry: Any) -> None:
        machine = self.machines[node]  # what the protocol promises is not checked: a node that forgets breaks it
        machine.disk.append(entry)
        machine.memory = machine.memory.after(entry)
        if isinstance(entry, Released):
            made = entry.copy.token.parameters
            assert isinstance(made, bytes)
            for looks in (self.seen, self.looked):
                looks.setdefault(node, set()).update((made, self.updates[made][1]))

    def check_sent(self, sender: int, to: int, message: Any) -> None:
        if isinstance(message, Pass | Final | Outcome):
            self.seen.setdefault(to, set()).add(message.token.parameters)

    def check_own(self) -> None:
        """All own updates that the journal has, or that a token has shown, are in the account."""
        life = self.living[self.target]
        if life.wires.dead or life.node._life.failure is not None:
            return
        known = {
            entry.copy.token.parameters for entry in self.machines[self.target].disk if isinstance(entry, Released)
        }
        for token in self.shown:
            at = token
            while at in self.updates:
                if self.updates[at][0] == self.target:
                    known.add(at)
                at = self.updates[at][1]
        account = life.node.account
        self.reminded |= bool(life.node.reminders.senders)
        # Nobody can tell a beginning from another one with an empty journal: the update of hop 1 may be there twice.
        first = len([made for made in known if self.hop[made] == 1]) > 1
        if first:
            return
        if account.releases < len(known):
            raise Broken(f"3: node {self.target} has released {len(known)}, its account says {account.releases}")
        updates = {
            made: (author if author != self.target or made in known else -1, before)
            for made, (author, before) in self.updates.items()
        }
        told = SimpleNamespace(seen=self.seen, updates=updates, number=self.number, hop=self.hop)
        said = account.by_observer()
        for observer in set(range(self.rules.nodes)) - {self.target}:
            if exact_mu2(told, self.target, observer, self.sizes, NOISE) > said[observer] * (1.0 + 1e-9):
                raise Broken(f"3: node {observer} knows more of node {self.target} than its account says")

    def check_others(self) -> None:
        """Nobody knows more of the other nodes than their accounts say: the one that was restored may have forked."""
        told = SimpleNamespace(seen=self.looked, updates=self.updates, number=self.number, hop=self.hop)
        for node in set(range(self.rules.nodes)) - {self.target}:
            said = account_of(self.living[node].node.setup.terms, self.machines[node].disk).by_observer()
            for observer in set(range(self.rules.nodes)) - {node}:
                knows = exact_mu2(told, node, observer, self.sizes, NOISE)
                if knows > said[observer] * (1.0 + 1e-9):
                    raise Broken(
                        f"3: node {observer} knows {knows:.4g} of node {node}, whose account says {said[observer]:.4g}"
                    )

    def check_record(self) -> None:
        """What was counted stays: whoever reads the journal later counts the same."""
        life = self.living[self.target]
        reading = read_journal(life.node.setup.config.journal)
        later = account_of(life.node.setup.terms, (entry for _, entry in reading.entries))
        if later.releases != life.node.account.releases:
            raise Broken(f"3: the journal says {later.releases} releases, the node {life.node.account.releases}")


async def _history(seed: int, folder: Path) -> RestoredWorld:
    rng = random.Random(seed * 7919 + 3)
    nodes = rng.randint(3, 5)
    path = [rng.randrange(nodes) for _ in range(rng.randint(4 * nodes, 10 * nodes))]
    rules = Rules(nodes=nodes, path=path, timeout=1.0, lease=1.0, silence=8.0, short=0 if seed % 2 else 1024)
    weather = Weather(
        drop=rng.choice([0.0, 0.05]),
        double=rng.choice([0.0, 0.2]),
        crash=rng.choice([0.0, 0.005]),
        slow=rng.choice([0.3, 0.8]),
        clear_at=rng.choice([0.0, 30.0]),
        partitions=rng.choice([0, 0, 1]),
    )
    world = RestoredWorld(seed, rules, weather, folder)
    with_all = set(range(nodes)) - {world.target}
    while not (world.restored and (with_all | {world.target} if not world.too_old else with_all) <= world.ended):
        if world.now > 200.0:
            break
        await asyncio.sleep(1.0)
    if world.restored:
        world.check_record()
        world.check_others()
    return world


def history(seed: int, folder: Path) -> RestoredWorld:
    """Run one history in an empty folder."""
    problems: list[BaseException] = []

    def noticed(_: object, context: dict[str, Any]) -> None:
        problem = context.get("exception")
        if not isinstance(problem, Crashed | InvalidInput):
            problems.append(problem if problem is not None else Broken(str(context["message"])))

    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        runner.get_loop().set_exception_handler(noticed)
        found: Any = runner.run(_watched(_history(seed, folder), problems))
    assert isinstance(found, RestoredWorld)
    return found
