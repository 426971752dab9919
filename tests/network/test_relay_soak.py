"""Nodes behind routers that let nothing in, for long: links are cut and replaced, the relay restarts, nodes die.

The run must end with one model; an update may be missing in it only if its author was away, and no account may say
less than what the others have seen. How large and how long is up to the environment:

    SKIPRING_SOAK_NODES=32 SKIPRING_SOAK_MINUTES=30 python -m pytest -m slow -n 0 -rP tests/network/test_relay_soak.py
"""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import chaos
import pytest
import relays
import sites
from test_relay_namespaces import make, world

from skipring.network.protocol import Released

__all__ = ["world"]  # a fixture

NODES = int(os.environ.get("SKIPRING_SOAK_NODES", "5"))
MINUTES = float(os.environ.get("SKIPRING_SOAK_MINUTES", "1"))
SEED = int(os.environ.get("SKIPRING_SOAK_SEED", "1"))
#: More hops per second than a run makes in all this trouble: it must last as long as the trouble does.
PACE = 2.5
SILENCE = 15.0


@dataclass(frozen=True)
class Incident:
    """Some nodes were away for a while, as far as the others could see."""

    begin: float
    end: float
    names: frozenset[str]


class Weather:
    """What happens to a network: one thing every few seconds, and it is over some seconds later."""

    def __init__(self, network: chaos.Network, there: sites.Sites, relay: relays.Relay, rng: random.Random) -> None:
        self._network, self._there, self._relay, self._rng = network, there, relay, rng
        self._due: list[tuple[float, Callable[[], None]]] = []
        self._cut: set[int] = set()
        self.happened: Counter[str] = Counter()
        self.incidents: list[Incident] = []

    def rage(self, seconds: float, every: float) -> None:
        """Let things happen for so long, or until the run is over; then let all of them be over."""
        until = time.monotonic() + seconds
        kinds = {"kill": self._kill, "two": self._kill_two, "cut": self._cut_off, "move": self._move}
        while time.monotonic() < until and not self._network.ended:
            what = self._rng.choice(["kill", "two", "cut", "cut", "move", "relay", "relay moves"])
            self.happened[what] += 1
            if what.startswith("relay"):
                self._restart(moves=what == "relay moves")
            else:
                kinds[what]()
            self._pass(every * self._rng.uniform(0.5, 1.5))
        while self._due:
            self._pass(0.5)

    def _pass(self, seconds: float) -> None:
        """Let time pass, and end what is due."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._network.watch(0.5)
            for due in [one for one in self._due if one[0] <= time.monotonic()]:
                self._due.remove(due)
                due[1]()

    def _note(self, seconds: float, *nodes: int) -> None:
        names = self._network.roster.names
        now = time.time()
        self.incidents.append(Incident(now, now + seconds, frozenset(names[node] for node in nodes)))

    def _kill(self, count: int = 1) -> None:
        nodes = self._rng.sample(range(self._there.sites), count)
        self._note(10.0, *nodes)
        self._network.kill(*(self._network.roster.names[node] for node in nodes))

    def _kill_two(self) -> None:
        self._kill(2)

    def _cut_off(self) -> None:
        """Cut one site off, or several that leave a majority."""
        free = [site for site in range(self._there.sites) if site not in self._cut]
        most = (self._there.sites - 1) // 2 - len(self._cut)
        if most < 1:
            return
        chosen = self._rng.sample(free, self._rng.randint(1, min(most, 3)))
        seconds = self._rng.choice([2.0, 8.0, 25.0])
        self._note(seconds, *chosen)
        self._cut.update(chosen)
        self._there.cut(*chosen)

        def heal() -> None:
            self._there.heal(*chosen)
            self._cut.difference_update(chosen)

        self._due.append((time.monotonic() + seconds, heal))

    def _move(self) -> None:
        site = self._rng.randrange(self._there.sites)
        if site not in self._cut:
            self._note(5.0, site)
            self._there.move_site(site)

    def _restart(self, *, moves: bool) -> None:
        seconds = self._rng.choice([0.5, 4.0, 12.0])
        self._note(seconds, *range(self._there.sites))
        self._relay.kill()
        self._pass(seconds)
        if moves:
            self._there.move_relay()
        self._relay.start()


def check_losses(network: chaos.Network, incidents: list[Incident]) -> int:
    """Check of each update that is not in the final model that its author was away; return how many there are."""
    readings = network.readings()
    found = chaos.check_journals(chaos.terms_in(network.folder, 0), readings)
    kept, at = set[bytes](), found.final
    while at in found.updates:
        kept.add(at)
        at = found.updates[at].before
    lost = 0
    for reading in readings:
        for when, entry in reading.entries:
            if not isinstance(entry, Released) or entry.copy.token.chain in kept:
                continue
            lost += 1
            away = [one for one in incidents if reading.node in one.names]
            assert any(one.begin - SILENCE <= when <= one.end + 2.0 * SILENCE for one in away), (reading.node, when)
    return lost


@pytest.mark.slow
def test_a_relay_for_long(tmp_path: Path, world: Callable[[int], sites.Sites]) -> None:
    folder, there, rng = tmp_path / "network", world(NODES), random.Random(SEED)
    steps = max(4 * NODES, int(60.0 * PACE * MINUTES))
    make(folder, NODES, steps=steps, delay="exponential:0.3", silence=SILENCE)
    with relays.Relay(folder, there.at("relay")) as relay, chaos.Network(folder, there.prefix) as network:
        relay.start()
        network.start()
        begun = 60.0 + 10.0 * NODES  # so many processes start on few cores
        network.wait("begun", lambda: any(reading.releases for reading in network.readings()), begun)
        weather = Weather(network, there, relay, rng)
        weather.rage(60.0 * MINUTES, every=6.0)
        network.finish(600.0 + 60.0 * MINUTES)
        logged = relay.said()
    report = chaos.check_all(network)
    lost = check_losses(network, weather.incidents)
    print(report, dict(weather.happened), f"{logged.count('Accepted publickey')} logins at the relay")
    assert lost == report.lost
    assert len(network.ended) == NODES
    assert sum(weather.happened.values()) >= 5
    assert report.updates >= NODES
