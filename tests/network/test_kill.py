"""Nodes that are killed with kill -9 at any moment: nothing is lost, forked or undercounted, and the run goes on."""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import chaos
import pytest
from networks import free_ports

from skipring.network.protocol import Heard, Kept, Kind, Released


def made(folder: Path, *, nodes: int, steps: int, delay: str, budget: int) -> Any:
    """A network on this machine whose nodes are late on purpose, so that its run outlasts what happens to it.

    The first node is ready to give away so many releases, and no more.
    """
    addresses = chaos.on_loopback(free_ports(nodes), nodes)
    chaos.make(folder, addresses, steps=steps, delay=delay, timeout=0.3, lease=0.5, silence=5.0)
    chaos.give_budget(folder, 0, budget)
    return chaos.Network(folder)


def kill_some(network: Any, rng: random.Random, *, seconds: float, every: float) -> None:
    """Kill somebody every now and then: who holds the token, two at once, anybody, and one node for good."""
    kinds: list[str] = []
    network.wait("begun", lambda: any(reading.releases for reading in network.readings()))
    until = time.monotonic() + seconds
    while time.monotonic() < until and not network.ended:
        if not kinds:
            kinds = ["holder", "one", "two", "one", "holder", "one", "two", "one"]
            rng.shuffle(kinds)
            if not network.gone:
                kinds.insert(-2, "for good")
        kind, names = kinds.pop(), network.alive
        if kind == "holder":
            network.kill(network.holder() or rng.choice(names))
        else:
            network.kill(*rng.sample(names, 2 if kind == "two" else 1), for_good=kind == "for good")
        network.watch(every)


@pytest.mark.early
def test_nodes_that_are_killed_lose_nothing(tmp_path: Path) -> None:
    with made(tmp_path / "network", nodes=5, steps=100, delay="exponential:0.05", budget=5) as network:
        network.start()
        kill_some(network, random.Random(5), seconds=12.0, every=1.5)
        network.finish()
    report = chaos.check_all(network)
    print(report)
    assert report.kills >= 2
    assert report.releases[0] <= 5
    assert len(network.ended) >= 4
    see_that_damage_is_noticed(network)


def see_that_damage_is_noticed(network: Any) -> None:
    """The checks above are worth what they notice: take something out of a journal, or put something in."""
    readings = network.readings()
    terms = chaos.terms_in(network.folder, 0)
    gone = [network.roster.index(name) for name in network.gone]
    found = chaos.check_journals(terms, readings, gone)
    last = found.updates[found.final]
    entries = readings[last.author].entries

    def changed(node: int, **changes: Any) -> Sequence[Any]:
        return [replace(reading, **changes) if at == node else reading for at, reading in enumerate(readings)]

    def without(kind: Kind) -> Any:
        kept = (Kept, Released)
        place = max(at for at, (_, entry) in enumerate(entries) if isinstance(entry, kept) and entry.copy.kind is kind)
        return entries[:place] + entries[place + 1 :]

    before = last
    while before.author == last.author:
        before = found.updates[before.before]
    other = before.author
    outcome = readings[last.author].memory.outcome
    wrong = replace(readings[last.author].memory, outcome=replace(outcome, parameters=b"else"))
    for journals in (
        changed(last.author, entries=without(Kind.UPDATED)),
        changed(last.author, entries=without(Kind.ACCEPTED)),
        changed(last.author, releases=readings[last.author].releases[:-1]),
        changed(last.author, memory=wrong),
        changed(other, run_digest="00" * 32),
        changed(other, entries=((0.0, Heard((99, other))), *readings[other].entries)),
        changed(other, entries=readings[other].entries + entries),
    ):
        with pytest.raises(chaos.Broken):
            chaos.check_journals(terms, journals, gone)
    with pytest.raises(chaos.Broken, match="others learned"):
        chaos.check_accounts(network.folder, found, changed(last.author, entries=()))
    with pytest.raises(chaos.Broken, match=r"learned|gives away|counts"):
        chaos.check_accounts(network.folder, found, changed(last.author, entries=without(Kind.UPDATED)))


@pytest.mark.slow
def test_three_minutes_of_killing_sixteen_nodes(tmp_path: Path) -> None:
    with made(tmp_path / "network", nodes=16, steps=1500, delay="exponential:0.12", budget=30) as network:
        network.start()
        kill_some(network, random.Random(16), seconds=180.0, every=2.0)
        assert not network.ended, "the run was over before the killing was: more steps, please"
        network.finish(600.0)
    report = chaos.check_all(network)
    print(report)
    assert report.kills >= 60
    assert report.releases[0] <= 30
    assert report.of_holders >= 1
    assert len(network.ended) >= 15
    assert network.settled  # one node is lost, the others know what recoveries have cost them
    see_that_damage_is_noticed(network)
