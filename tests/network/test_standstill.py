"""A standstill is said within ten seconds, and again every minute; nothing is said of a run that moves."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import chaos
import pytest
from networks import free_ports
from world import fake_seals

from skipring.network.node import NodeStatus, Telemetry
from skipring.network.node.standstill import StandstillWatch
from skipring.network.protocol import Hello, Memory, Offer, Peer, Ready, Rules, Token
from skipring.network.setup import node_status

RULES = Rules(nodes=3, path=[0, 1, 2] * 30, timeout=100.0, names=["a", "b", "c"])


class Wires:
    """Connections of a node, as a test says."""

    def __init__(self) -> None:
        self.reachable = {1}
        self.receives = False


class Watched:
    """A node's protocol, its watch, and a clock that a test turns."""

    def __init__(self, me: int = 0, rules: Rules = RULES) -> None:
        self.now, self.lines = 0.0, list[tuple[float, dict[str, Any]]]()
        self.telemetry = Telemetry(self.say, lambda: self.now, 0)
        self.wires, self.begun = Wires(), False
        self.peer = Peer(me, rules, Memory.blank(0, Token(0, b"initial", b"")), fake_seals(rules.nodes)[me])
        self.watch = StandstillWatch(
            lambda: self.peer if self.begun else None, rules, self.wires, self.telemetry, lambda: self.now, me=me
        )

    def say(self, event: str, **facts: Any) -> None:
        self.lines.append((self.now, {"event": event} | facts))

    def begin(self) -> None:
        self.begun = True
        self.peer.begin()

    def wait(self, seconds: float) -> list[tuple[float, str]]:
        """Let time pass; return when what was said."""
        self.lines.clear()
        for _ in range(round(2 * seconds)):
            self.now += 0.5
            self.watch.look()
        return [(when, str(facts.get("what", facts["event"]))) for when, facts in self.lines]


def test_who_does_not_begin_says_whom_it_waits_for() -> None:
    node = Watched()
    said = node.wait(100.0)
    assert [what for _, what in said] == ["the run has not begun: waiting for c"] * 2
    assert said[0][0] <= 10.0
    assert said[1][0] - said[0][0] == pytest.approx(60.0, abs=1.0)


def test_a_node_says_what_it_does_and_when_it_goes_on() -> None:
    node = Watched()
    node.begin()
    assert [what for _, what in node.wait(11.0)] == ["preparing its own update of hop 1"]
    node.peer.prepared((0, 0), 1)
    assert [what for _, what in node.wait(1.0)] == ["goes on"]
    assert node.telemetry.standstill is None
    assert [what for _, what in node.wait(10.0)] == ["making its own update of hop 1"]
    node.peer.computed((0, 0), 1, Token(1, b"model", b""))
    assert [what for _, what in node.wait(11.0)] == ["goes on", "offering hop 2: waiting for b"]
    node.peer.received(1, Ready((0, 0), 2))
    assert [what for _, what in node.wait(11.0)] == [
        "goes on",
        "the token of hop 2 was sent to b, which has not confirmed it",
    ]


def test_who_sees_nothing_of_the_token_says_where_it_was() -> None:
    node = Watched(me=2)
    node.begin()
    assert [what for _, what in node.wait(11.0)] == ["no sign of the token, not seen yet"]
    node.peer.received(1, Offer((0, 0), 3))
    assert [what for _, what in node.wait(11.0)] == ["goes on", "no sign of the token, last seen at hop 3 with c"]


def test_nothing_is_said_while_something_moves_every_nine_seconds() -> None:
    node = Watched(me=2)
    node.begin()
    for hop in range(3, 60, 3):
        node.peer.received(1, Offer((0, 0), hop))
        assert node.wait(9.0) == []


def test_of_a_holder_that_greets_and_does_nothing_no_word_is_said() -> None:
    """It may be slow: docs/threats.md tells owners to look at the hop, which does not move."""
    node = Watched(me=2)
    node.begin()
    node.peer.received(1, Offer((0, 0), 3))
    for _ in range(60):
        assert node.wait(7.5) == []
        node.peer.received(1, Hello((0, 0)))
    assert node.telemetry.standstill is None
    assert node.peer.standing is not None
    assert node.peer.standing.since[0] == ((0, 0), 3)


def events(folder: Path, name: str) -> list[dict[str, Any]]:
    """Return what a node has logged."""
    lines = (folder / name / "node.log").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def stands(network: Any, name: str) -> list[dict[str, Any]]:
    return [line for line in events(network.folder, name) if line["event"] == "standstill"]


def waits(network: Any, name: str) -> list[str]:
    """Return what a node has said that the protocol waits for."""
    said = (str(line.get("what")) for line in events(network.folder, name) if line["event"] == "protocol")
    return [what for what in said if what.startswith("no majority")]


def bereft(folder: Path, nodes: int, *, minutes: int) -> None:
    """Kill most nodes: the others say it, and release nothing more; once they are back, the run ends."""
    addresses = chaos.on_loopback(free_ports(nodes), nodes)
    chaos.make(folder, addresses, steps=400, delay="exponential:0.02", timeout=0.3, lease=0.5, silence=5.0)
    names = [f"node{number}" for number in range(1, nodes + 1)]
    few, dead = names[: nodes // 2], names[nodes // 2 :]
    wanted = f"no majority answers ({len(few)} of {nodes}): waiting for {', '.join(dead)}"
    with chaos.Network(folder) as network:
        network.start()
        network.wait("begun", lambda: sum(len(reading.releases) for reading in network.readings()) > 10)
        while not killed(network, few, dead):
            time.sleep(0.02)
        network.wait("said", lambda: any(waits(network, name) for name in few), 60.0)
        assert {what for name in few for what in waits(network, name)} == {wanted}
        before = given_away(network, few)
        if minutes:
            network.watch(10.0)
            told = [status_of(network, name) for name in few]
            assert any(status.stands_still > 9.0 and status.waits_for == wanted for status in told)
            network.watch(60.0 * minutes)
            holder = max(few, key=lambda name: len(stands(network, name)))
            assert [line["seconds"] for line in stands(network, holder)] == [
                pytest.approx(10.0 + 60.0 * minute, abs=2.0) for minute in range(minutes + 1)
            ]
        else:
            network.watch(1.5)
        assert given_away(network, few) == before
        network.gone.clear()
        for name in dead:
            network.start_node(name)
        network.finish(120.0)
    chaos.check_all(network)
    lines = [line for name in few for line in events(folder, name)]
    assert any("it goes on" in str(line.get("what")) for line in lines)
    assert minutes == 0 or any(line["event"] == "goes on" for line in lines)


def killed(network: Any, few: Sequence[str], dead: Sequence[str]) -> bool:
    """Kill nodes at a moment when neither the token nor an offer is with them, or on its way to them."""
    with network.frozen():
        newest = max(network.readings(), key=lambda reading: reading.memory.copy.rank)
        path, passing = chaos.terms_in(network.folder, 0).path, newest.memory.passing
        last = [newest.node, *([] if passing is None else [network.roster.names[path[passing[1] - 1]]])]
        if not set(last) <= set(few):
            return False
        network.kill(*dead, for_good=True)
        return True


def status_of(network: Any, name: str) -> NodeStatus:
    """Ask a node how it is doing."""
    found = node_status(network.configs[network.roster.index(name)], timeout=20.0)
    assert found is not None
    return found


def given_away(network: Any, names: Sequence[str]) -> list[tuple[int, float]]:
    """Return the updates and the epsilons of some nodes."""
    return [(status.own_updates, status.epsilon) for status in (status_of(network, name) for name in names)]


@pytest.mark.slow
def test_most_nodes_that_are_killed_are_waited_for(tmp_path: Path) -> None:
    bereft(tmp_path / "network", 3, minutes=0)


@pytest.mark.slow
def test_a_standstill_of_five_nodes_is_said_every_minute(tmp_path: Path) -> None:
    bereft(tmp_path / "network", 5, minutes=1)
