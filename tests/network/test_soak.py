"""Everything at once, for long: kills, pauses, connections that break, old backups put back, and one member that lies.

What is checked is what somebody says who has seen all journals, also those that were overwritten.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import chaos
import numpy as np
import pytest
from networks import free_ports
from proxy import Proxy, Trouble
from summing import account_of

from skipring.network.protocol import Kept, Memory, Over, Released, Token, blank_chain
from skipring.network.setup import ExitCode, verify_outcome
from skipring.network.storage import read_journal


class Storm(chaos.Network):
    """A network in which everything happens; its last node lies."""

    def __init__(self, folder: Path, seed: int) -> None:
        super().__init__(folder)
        self.rng = random.Random(seed)
        self.liar = self.roster.names[-1]
        self.old: set[str] = set()  # those that have found out that their journal is an old copy
        self.restored: set[str] = set()
        self.happened: Counter[str] = Counter()
        self.versions: dict[str, list[Path]] = {name: [] for name in self.roster.names}  # journals that were replaced
        self.paused: dict[str, int] = {}
        self._lying: subprocess.Popen[bytes] | None = None
        self.gone.add(self.liar)

    def start_liar(self) -> None:
        words = [sys.executable, str(Path(__file__).with_name("lying_node.py"))]
        words += [str(self.folder / self.liar / "node.toml"), str(self.rng.randrange(1000))]
        with open(self.folder / self.liar / "node.log", "ab") as log:
            self._lying = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self, wait: float = 20.0) -> None:
        super().stop(wait)
        if self._lying is not None and self._lying.poll() is None:
            self._lying.terminate()
            try:
                self._lying.wait(wait)
            except subprocess.TimeoutExpired:
                self._lying.kill()

    def watch(self, seconds: float) -> None:
        """Start again what died; a node that finds out that its journal is an old copy stays out."""
        until = time.monotonic() + seconds
        while True:
            for name, process in list(self._processes.items()):
                code = process.poll()
                if code is None or name in self.gone:
                    continue
                if code == ExitCode.JOURNAL and name in self.restored:
                    self.old.add(name)
                    self.gone.add(name)
                elif code < 0:
                    self.start_node(name)
                elif code or name not in self.ended:
                    raise chaos.Broken(f"{name} ended with exit code {code}: {self.log(name, 5)}")
            if self._lying is not None and self._lying.poll() is not None and not self.ended:
                self.happened["liar restarted"] += 1
                self.start_liar()
            if time.monotonic() >= until:
                return
            time.sleep(min(0.1, max(0.0, until - time.monotonic())))

    # What happens.

    def pause(self, name: str, seconds: float) -> None:
        """Let time stand still in one node."""
        pid = self.pid(name)

        def go_on() -> None:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGCONT)
            self.paused.pop(name, None)

        if name not in self.paused and self._processes[name].poll() is None:
            os.kill(pid, signal.SIGSTOP)
            self.paused[name] = pid
            threading.Timer(seconds, go_on).start()

    def files(self, name: str) -> list[Path]:
        return [path for path in (self.folder / name).glob("journal.sqlite*") if path.is_file()]

    def back_up(self, name: str) -> Path | None:
        """Copy a node's journal, as it is at one moment."""
        if self._processes[name].poll() is not None or name in self.paused:
            return None
        place = self.folder.parent / "backups" / f"{name}-{time.monotonic_ns()}"
        place.mkdir(parents=True)
        os.kill(self.pid(name), signal.SIGSTOP)
        try:
            for path in self.files(name):
                shutil.copy(path, place)
        finally:
            os.kill(self.pid(name), signal.SIGCONT)
        return place

    def put_back(self, name: str, backup: Path) -> None:
        """Kill a node, and start it with an old copy of its journal; the newer one is kept for who sees everything."""
        self.gone.add(name)
        self.kill(name)
        self._processes[name].wait()
        place = self.folder.parent / "replaced" / f"{name}-{time.monotonic_ns()}"
        place.mkdir(parents=True)
        for path in self.files(name):
            shutil.move(path, place)
        self.versions[name].append(place / "journal.sqlite")
        for path in backup.iterdir():
            shutil.copy(path, self.folder / name)
        self.restored.add(name)
        self.gone.discard(name)
        self.start_node(name)

    def rage(self, seconds: float, every: float, restores: int) -> None:
        """Let things happen for so long, or until nine tenths of the hops are made."""
        rng, backups = self.rng, dict[str, Path]()
        self.start_liar()
        self.wait("begun", lambda: any(reading.releases for reading in self.readings()))
        until = time.monotonic() + seconds
        while time.monotonic() < until and not self.ended:
            names = [name for name in self.alive if name not in self.paused and self._processes[name].poll() is None]
            if not names:  # time stands still in all of them
                self.watch(every)
                continue
            what = rng.choice(["kill", "kill", "two", "holder", "pause", "pause", "backup", "restore"])
            self.happened[what] += 1
            if what == "pause":
                self.pause(rng.choice(names), rng.choice([1.0, 5.0, 20.0]))
            elif what == "backup":
                name = rng.choice(names)
                backups[name] = self.back_up(name) or backups.get(name, Path())
            elif what == "restore":
                ready = [name for name in backups if name in names and name not in self.restored and backups[name].name]
                if ready and len(self.restored) < restores:
                    name = rng.choice(ready)
                    self.put_back(name, backups[name])
                    self.happened["restored"] += 1
            elif what == "holder":
                self.kill(self.holder() or rng.choice(names))
            else:
                self.kill(*rng.sample(names, min(len(names), 2 if what == "two" else 1)))
            self.watch(every)


@dataclass
class Seen:
    """What somebody knows who has seen all journals."""

    found: chaos.Findings
    own: dict[int, set[bytes]] = field(default_factory=dict)  # the chains after each node's own updates

    def read(self, node: int, entries: Any) -> None:
        blank = blank_chain(self.found.terms.steps, b"")
        memory = Memory.blank(self.found.terms.path[0], Token(0, b"", blank))
        for _, entry in entries:
            if isinstance(entry, Kept):
                self.found.seen[node].add(entry.copy.token.chain)
            elif isinstance(entry, Over):
                self.found.seen[node].add(entry.token.chain)
            elif isinstance(entry, Released):
                chain, before = entry.copy.token.chain, memory.copy.token.chain
                self.found.seen[node].update((chain, before))
                place = entry.copy.ballot, entry.copy.hop
                self.found.updates[chain] = chaos.Update(node, place, before, entry.copy.token.updates)
                self.own.setdefault(node, set()).add(chain)
            memory = memory.after(entry)


def check(network: Storm) -> dict[str, Any]:
    """One model, nothing lost, and no account that says less than what others know."""
    names, liar = network.roster.names, network.roster.index(network.liar)
    honest = [node for node in range(len(names)) if node != liar]
    seen = Seen(chaos.Findings(chaos.terms_in(network.folder, 0)))
    readings = {node: read_journal(network.folder / names[node] / "journal.sqlite") for node in range(len(names))}
    for node, reading in readings.items():
        for path in network.versions[names[node]]:
            seen.read(node, read_journal(path).entries)
        seen.read(node, reading.entries)
    ended = [node for node in honest if names[node] in network.ended]
    models = {(network.folder / names[node] / "model.npy").read_bytes() for node in ended}
    assert len(models) == 1, "nodes have ended with different models"
    for node in ended:
        assert verify_outcome(network.folder / names[node] / "model.npz").problem is None
    final = next(readings[node].memory.outcome for node in ended)
    assert final is not None
    lost = final.updates - sum(
        1 for _ in iter_lineage(seen.found, final.chain)
    )  # what the liar made is in no journal but its own
    told = np.array([chaos.learned(seen.found, observer) for observer in range(len(names))]).T
    epsilons = {}
    for node in honest:
        account = account_of(chaos.terms_in(network.folder, node), (entry for _, entry in readings[node].entries))
        released = len(seen.own.get(node, ()))
        if names[node] not in network.restored:
            assert account.releases == released, (names[node], account.releases, released)
        said = account.by_observer()
        assert np.all(told[node] <= said * (1.0 + 1e-9)) or names[node] in network.restored, (
            names[node],
            told[node],
            said,
        )
        epsilons[names[node]] = account.epsilon(chaos.DELTA)
        if node in ended:
            status = json.loads((network.folder / names[node] / "result.json").read_text())
            assert status["own_updates"] == account.releases
    return {"updates": final.updates, "lost": lost, "worst epsilon": max(epsilons.values()), "ended": len(ended)}


def iter_lineage(found: chaos.Findings, chain: bytes) -> Any:
    while chain in found.updates:
        yield chain
        chain = found.updates[chain].before


def soak(
    folder: Path, *, nodes: int, steps: int, seconds: float, every: float, seed: int
) -> tuple[Storm, dict[str, Any]]:
    """Make a network behind a proxy that breaks connections, let it storm, and let it finish in peace."""
    first = free_ports(2 * nodes)
    gates, behind = chaos.on_loopback(first, nodes), chaos.on_loopback(first + nodes, nodes)
    chaos.make(folder, gates, steps=steps, delay="exponential:0.1", timeout=0.3, lease=0.5, silence=5.0)
    for node, address in enumerate(behind):
        chaos.listen_at(folder, node, address)
    trouble = Trouble(delay=0.002, resets=0.3, reset_after=(20_000, 2_000_000), stalls=0.0005, stall=(1.0, 10.0))
    with (
        Proxy(folder.parent, list(zip(gates, behind, strict=True)), trouble) as proxy,
        Storm(folder, seed) as network,
    ):
        network.start()
        network.rage(seconds, every, restores=max(1, nodes // 5))
        network.finish(600.0)
    counts = proxy.counts
    return network, check(network) | dict(network.happened) | {f"connections {key}": n for key, n in counts.items()}


@pytest.mark.slow
@pytest.mark.parametrize(("nodes", "steps", "seconds"), [(5, 600, 60.0), (16, 5000, 900.0)])
def test_everything_at_once(tmp_path: Path, nodes: int, steps: int, seconds: float) -> None:
    network, report = soak(tmp_path / "network", nodes=nodes, steps=steps, seconds=seconds, every=2.0, seed=1)
    print(report, "old:", sorted(network.old))
    assert report["ended"] >= nodes - 1 - len(network.restored)
    assert report["kill"] >= 3
