"""Whole nodes in virtual time: the promises of the protocol hold for what ships, and driver mutants are caught.

See `driven` for the world they live in, and test_histories.py for the promises.
"""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import driven
import pytest
from world import Broken

from skipring.network.node import Driver
from skipring.network.node.driver import _Go
from skipring.network.node.readiness import Readiness
from skipring.network.protocol import Entry, Fold, Released, Timer

BLOCK = 20


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder in memory where there is one: crashes here are those of processes, not of disks."""
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as path:
        yield Path(path)


def history(seed: int, folder: Path) -> driven.DrivenWorld:
    with tempfile.TemporaryDirectory(dir=folder) as empty:
        return driven.history(seed, Path(empty))


@pytest.mark.sample(5)
@pytest.mark.parametrize("block", range(100))
def test_promises_hold_for_whole_nodes(folder: Path, block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        history(seed, folder)  # raises Broken with what went wrong; the seed replays it


def test_histories_of_nodes_are_as_rough_as_they_claim(folder: Path) -> None:
    """Crashes, restarts, recoveries, stops, broken and slow transfers and spent budgets all happen."""
    seen: Counter[str] = Counter()
    for seed in range(3000, 3060):
        found = history(seed, folder)
        seen.update(found.happened.keys())
        released = sum(isinstance(entry, Released) for machine in found.machines for entry in machine.disk)
        final = next(machine.memory.outcome for machine in found.machines if machine.memory.outcome is not None)
        seen["branch"] += released > final.updates
        seen["recovered"] += max(machine.memory.promised[0] for machine in found.machines) > 0
    often = {
        "restart": 10,
        "recovered": 5,
        "branch": 1,
        "stopped": 3,
        "budget": 5,
        "broken carry": 5,
        "slow carry": 5,
        "settled": 3,
        "early": 3,
    }
    assert all(seen[kind] >= least for kind, least in often.items()), seen


def test_a_seed_replays_whole_nodes_exactly(folder: Path) -> None:
    """But for the noise, which no seed decides."""
    for seed in (3, 17, 92):
        first, second = history(seed, folder), history(seed, folder)
        assert (first.now, first.said, first.happened) == (second.now, second.said, second.happened)
        for one, other in zip(first.machines, second.machines, strict=True):
            assert [type(entry) for entry in one.disk] == [type(entry) for entry in other.disk]
            assert one.memory.ledger == other.memory.ledger


# --- Mutants: each takes away one rule of the driver.


def _sends_before_it_writes(self: Driver, go: _Go) -> None:
    for send in go.messages:
        self.transport.send(send.to, send.message)
    if go.entries:
        self.journal.append(*go.entries)


def _writes_nothing_but_releases(self: Driver, go: _Go) -> None:
    kept = [entry for entry in go.entries if isinstance(entry, Released)]
    if kept:
        self.journal.append(*kept)
    for send in go.messages:
        self.transport.send(send.to, send.message)


def _rings_never(self: Driver, name: Timer) -> None:
    self._timers.pop(name, None)


_add = Fold.add


def _counts_no_release(self: Fold, entry: Entry) -> None:
    accounts, self._accounts = self._accounts, [] if isinstance(entry, Released) else self._accounts
    _add(self, entry)
    self._accounts = accounts


def _is_used_again(self: Readiness) -> None:
    self._wanted = None


MUTANTS = {
    "what is ready is used twice": (Readiness, "used", _is_used_again),
    "it is sent before it is written": (Driver, "_write_and_send", _sends_before_it_writes),
    "not all is written": (Driver, "_write_and_send", _writes_nothing_but_releases),
    "no timer rings": (Driver, "_expired", _rings_never),
    "a release is not counted": (Fold, "add", _counts_no_release),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_driver_mutants_are_caught(folder: Path, monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    of, method, mutant = MUTANTS[name]
    monkeypatch.setattr(of, method, mutant)
    for seed in range(100):
        try:
            history(seed, folder)
        except Broken:
            return
    pytest.fail("no history tells the mutant from the driver")
