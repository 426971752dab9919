"""A few nodes that have lost the others wait for them, instead of using up everybody's hops; nobody else is slowed.

Histories in virtual time, with mutants of the rule; test_standstill.py has the same with real processes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import world

from skipring.errors import InvalidInput
from skipring.network.protocol import (
    Hello,
    Memory,
    Peer,
    Place,
    PrepareBatch,
    Rules,
    Seal,
    Sight,
    Stand,
)
from skipring.network.protocol._presence import Presence
from skipring.network.setup import quorum_of
from skipring.runs import parse_run

NODES = 5
ROUNDS = 40
RULES = Rules(
    nodes=NODES, path=[*range(NODES)] * ROUNDS, timeout=1.0, lease=1.0, silence=8.0, names=["a", "b", "c", "d", "e"]
)
CALM = world.Weather(drop=0.0, double=0.0, latency=0.01, crash=0.0, slow=0.0, clear_at=0.0, partitions=0)
ROUGH = world.Weather(drop=0.05, double=0.1, latency=0.05, crash=0.0, slow=0.3, clear_at=1e9, partitions=0)


def kill(found: world.World, nodes: Sequence[int]) -> None:
    """Take the power of nodes away, until somebody starts them again."""
    for node in nodes:
        found.machines[node].peer = None
        found.machines[node].life += 1


def hops_of(found: world.World) -> int:
    return max(found.reached)


def bereft(seed: int, dead: Sequence[int], rules: Rules = RULES, make: world.Make = Peer) -> bool:
    """Let nodes die in the middle of a run, and come back: they are waited for, and the run ends as it should.

    Return whether the others had the token, and said that they wait.
    """
    found = world.World(seed, rules, ROUGH if seed % 2 else CALM, make)
    found.run(until=6.0 + 0.37 * seed)
    living = [machine for node, machine in enumerate(found.machines) if node not in dead]
    while not any(machine.peer is not None and machine.peer._core.state.has_it for machine in living):
        found.run(until=found.now + 0.01)
    kill(found, dead)
    if found.stormy:
        found.run(until=found.now + 21.0)  # what they have said may still arrive
    before = hops_of(found)
    found.run(until=found.now + 200.0)
    stood = hops_of(found)
    if stood > before + rules.two_rounds:
        raise world.Broken(f"10: {stood - before} hops were used up without a quorum")
    released = [len(machine.memory.ledger) for machine in found.machines]
    found.run(until=found.now + 300.0)
    if hops_of(found) != stood or released != [len(machine.memory.ledger) for machine in found.machines]:
        raise world.Broken("10: they go on without a quorum")
    waited = any("answer" in line and "waiting for" in line for line in found.said)
    found.weather = replace(found.weather, clear_at=found.now)
    for node in dead:
        found.start(node)
    found.run(until=found.now + 3000.0)
    found.check_end()
    return waited


def test_without_a_majority_the_token_waits_until_they_are_back() -> None:
    waited = sum(bereft(seed, dead=[2, 3, 4]) for seed in range(30))
    assert waited > 20  # else the token was on its way to the dead


def test_more_than_a_majority_may_be_asked_for() -> None:
    assert sum(bereft(seed, dead=[3], rules=replace(RULES, quorum=5)) for seed in range(10)) > 5


def test_a_node_may_be_named_without_which_nothing_goes_on() -> None:
    rules = replace(RULES, needed=frozenset({4}))
    assert sum(bereft(seed, dead=[4], rules=rules) for seed in range(10)) > 5


@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_few_nodes_wait_for_a_majority_too(nodes: int) -> None:
    rules = replace(RULES, nodes=nodes, path=[*range(nodes)] * 100)
    assert sum(bereft(seed, dead=range(1, nodes), rules=rules) for seed in range(10)) > 5


def test_a_majority_goes_on_and_says_nothing() -> None:
    for seed in range(20):
        found = world.World(seed, RULES, CALM)
        found.run(until=5.0)
        kill(found, [1, 3])
        found.machines[1].gone = found.machines[3].gone = True
        found.run(until=1000.0)
        found.check_end()
        assert not any("answer" in line for line in found.said)


@pytest.mark.parametrize("seed", range(10))
def test_of_two_sides_only_the_larger_goes_on(seed: int) -> None:
    found = world.World(seed, RULES, replace(CALM, clear_at=200.0))
    found.cuts = [(4.0, 200.0, {0, 1})]
    found.run(until=4.0)
    before, released = hops_of(found), [len(machine.memory.ledger) for machine in found.machines]
    found.run(until=200.0)
    few, many = (
        sum(len(found.machines[node].memory.ledger) - released[node] for node in side) for side in ((0, 1), (2, 3, 4))
    )
    assert few <= RULES.two_rounds
    assert many > 3 * (ROUNDS - before // NODES) * 0.8
    found.run(until=3000.0)
    found.check_end()


# --- Who is there, and does not take part


class Lenient(world.World):
    """Nobody is caught who goes on without a quorum: what the rule costs is compared with having none."""

    def check_present(self, sender: int, hop: int) -> None:
        pass


class Sleepy(Lenient):
    """Some nodes answer everything at once, and are never ready in time."""

    def is_prepared(self, node: int, life: int, action: PrepareBatch) -> None:
        if node < 2:
            super().is_prepared(node, life, action)


def spent(make: type[Peer]) -> world.Make:
    """Let three of five nodes refuse all that they are offered."""

    def with_budget(me: int, rules: Rules, memory: Memory, seal: Seal, *, sight: Sight) -> Peer:
        def willing(_: Place, __: Sequence[Place]) -> bool:
            return me < 2

        return make(me, rules, memory, seal, willing, sight)

    return with_budget


class NeverWaits(Presence):
    def is_enough(self, hop: int) -> bool:
        return True


class KnowsNobody(Presence):
    """The evidence is ignored but for the newest: everybody has to answer all the time."""

    def present(self, hop: int) -> set[int]:
        return {self.core.me} | {node for node, last in self.core.state.heard.items() if last >= hop - 1}


class ForgetsNobody(Presence):
    """An answer counts for ever."""

    def present(self, hop: int) -> set[int]:
        return super().present(hop) | self.core.state.heard.keys()


class ForgetsItself(Presence):
    def present(self, hop: int) -> set[int]:
        return super().present(hop) - {self.core.me}


class KeepsItToItself(Presence):
    """What one holder has heard is not passed on with the token."""

    def told(self) -> bytes:
        return b""


def mutant(presence: type[Presence]) -> type[Peer]:
    return type("Mutant", (Peer,), {"_presence_type": presence})


def costs(make: world.Make, kind: type[world.World]) -> tuple[float, int]:
    """Return the time that runs take, and the greetings that are sent in them."""
    time, greetings = 0.0, 0
    for seed in range(4):
        found = kind(seed, replace(RULES, silence=80.0), CALM, make)
        found.run(until=3000.0)
        found.check_end()
        assert not any("answer" in line for line in found.said)
        time, greetings = time + found.now, greetings + found.sent[Hello]
    return time, greetings


def check_that_nobody_is_slowed(presence: type[Presence]) -> None:
    """Nodes that are late, or refuse, are there: to know that costs no time, and few words."""
    for kind, make in (
        (Sleepy, lambda peer: peer),
        (Lenient, spent),
    ):
        time, greetings = costs(make(mutant(presence)), kind)
        before, usual = costs(make(mutant(NeverWaits)), kind)
        # A round of greetings, to each of the others, every two rounds of the token; half of the rounds are new.
        if time > 1.02 * before or greetings > usual + 4 * (NODES - 1) * ROUNDS / 2:
            raise world.Broken(f"10: {time:.0f} s instead of {before:.0f}, {greetings} greetings instead of {usual}")


def test_nodes_that_are_late_or_refuse_stop_nobody() -> None:
    check_that_nobody_is_slowed(Presence)


def check_losses(presence: type[Presence]) -> None:
    for seed in range(12):
        bereft(seed, dead=[2, 3, 4], make=mutant(presence))


def check_majority(presence: type[Presence]) -> None:
    found = world.World(1, replace(RULES, path=[*range(NODES)] * 8), CALM, mutant(presence))
    kill(found, [1, 3])
    found.machines[1].gone = found.machines[3].gone = True
    found.run(until=60.0)
    found.check_end()


@pytest.mark.parametrize(
    ("presence", "check"),
    [
        (NeverWaits, check_losses),
        (ForgetsNobody, check_losses),
        (ForgetsItself, check_majority),
        (KnowsNobody, check_that_nobody_is_slowed),
        (KeepsItToItself, check_that_nobody_is_slowed),
    ],
)
def test_mutants_of_the_quorum_are_caught(presence: type[Presence], check: object) -> None:
    assert callable(check)
    check(Presence)
    with pytest.raises(world.Broken):
        check(presence)


# --- What the run file asks for


def asked(quorum: object) -> tuple[int, frozenset[int]]:
    return quorum_of(parse_run({"network": {"quorum": quorum}}), ["a", "b", "c", "d", "e"])


def test_a_run_file_asks_for_a_number_or_for_names() -> None:
    assert quorum_of(parse_run({}), ["a", "b", "c", "d"]) == (3, frozenset())
    assert asked(3) == (3, frozenset())
    assert asked(5) == (5, frozenset())
    assert asked(["b", "e"]) == (3, frozenset({1, 4}))


@pytest.mark.parametrize("quorum", [0, 2, 6, -1, [], ["b", "x"], "b", 2.5, [1], True])
def test_a_quorum_that_cannot_be_is_refused_in_one_line_that_names_the_key(quorum: object) -> None:
    with pytest.raises(InvalidInput, match=r"^network\.quorum [^\n]*$"):
        asked(quorum)


def test_what_is_waited_for_is_said_by_name() -> None:
    found = world.World(4, replace(RULES, needed=frozenset({4})), CALM)
    found.run(until=6.0)
    kill(found, [4])
    found.run(until=60.0)
    standing = [machine.peer.standing for machine in found.machines if machine.peer is not None]
    waiting = [one for one in standing if one is not None and one.stand is Stand.QUORUM]
    assert [(one.nodes, one.what) for one in waiting] == [
        ((4,), "not all nodes of network.quorum answer (4 of 5): waiting for e")
    ]
