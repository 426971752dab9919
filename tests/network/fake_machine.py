"""What a whole node in virtual time is given instead of a machine: connections, a power supply, and slowness."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from world import Broken

from skipring.network.protocol import Account, Entry, Final, Memory, Message, Outcome, Pass
from skipring.network.storage import JournalFile
from skipring.network.transport import Done, Receiver

if TYPE_CHECKING:
    from driven import DrivenWorld


class Crashed(Exception):
    """The machine of a node has lost its power."""


@dataclass
class Drawn:
    """How long nodes take to get ready, drawn by the world, so that a seed replays it."""

    world: DrivenWorld

    def sample(self, _: object, count: int) -> list[float]:
        rng, world = self.world.rng, self.world
        scale = (3.0 if rng.random() < world.weather.slow else 0.1) * world.rules.timeout
        return [rng.expovariate(1.0) * scale for _ in range(count)]


class FakeWires:
    """The connections of one node's life; `skipring.network.transport.Transport` without sockets."""

    def __init__(self, world: DrivenWorld, me: int, receiver: Receiver) -> None:
        self.world, self.me, self.receiver = world, me, receiver
        self.up = self.dead = False
        self.reachable: set[int] = set()
        self.carried: set[tuple[int, Message]] = set()
        self.arriving = 0
        self.carry_rates: Sequence[float] = ()
        self.disagreeing: dict[int, str] = {}

    async def start(self) -> None:
        self.up = True

    async def stop(self) -> None:
        self.up = False

    @property
    def receives(self) -> bool:
        return self.arriving > 0

    def carries_to(self, node: int | None) -> bool:
        return any(to == node for to, _ in self.carried)

    def moves_to(self, node: int) -> bool:
        return self.carries_to(node)

    def send(self, node: int, message: Message | Done) -> None:
        if self.dead:
            raise Crashed
        self.world.may_crash(self)
        if isinstance(message, Done):
            self.world.later(self.world.rng.expovariate(20.0), partial(self.world.deliver_done, self.me, node))
        elif self.world.large and isinstance(message, Pass | Final | Outcome):
            self.world.carry_large(self, node, message)
        else:
            self.world.send(self.me, node, self.world.named(message))

    async def leave(self, why: str) -> None:
        """The others see that it is gone."""

    def say_once(self, event: str, text: str) -> None:
        raise Broken(f"node {self.me} says {event}: {text}")


class WatchedJournal:
    """A node's journal, of which the world sees every entry; the power may go before it is written, or right after."""

    def __init__(self, world: DrivenWorld, me: int, journal: JournalFile) -> None:
        self._world, self._me, self._journal = world, me, journal
        self.wires: FakeWires | None = None

    @property
    def memory(self) -> Memory:
        return self._journal.memory

    def follow(self, account: Account) -> None:
        self._journal.follow(account)

    def close(self) -> None:
        self._journal.close()

    def append(self, *entries: Entry) -> None:
        assert self.wires is not None
        if self.wires.dead:
            raise Crashed
        self._world.may_crash(self.wires)
        self._journal.append(*entries)
        for entry in entries:
            self._world.wrote(self._me, entry)
        self._world.may_crash(self.wires)
