"""Ten thousand histories of the protocol, in all of which its promises hold; and mutants, none of which survives them.

A quarter of the histories is in `make test`, all are in `make test-network`.

The promises, by number, as world.py checks them: 1 one node goes on per ballot, and all final models are the same
bytes; 2 the final model is one chain of updates, each in its author's journal; 3 one release per ballot and hop, in the
ledger before anybody else has it; 4 nothing is accepted below a promised ballot; 5 no token is sent to a node that has
not said ready; 6 the run ends once a majority is up and the network is fair; 7 whatever a node says is on its disk
before.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest
import world

from skipring.network.protocol import (
    Action,
    Ask,
    Compute,
    Copy,
    Entry,
    Final,
    Gone,
    Heard,
    Kept,
    Kind,
    Memory,
    Offer,
    Pass,
    Passing,
    Peer,
    Place,
    Prepare,
    Promise,
    Ready,
    Reject,
    Released,
    Resume,
    Rules,
    Send,
    Token,
    Write,
)

BLOCK = 500
INITIAL = Token(0, b"initial", b"")


@pytest.mark.sample(5)
@pytest.mark.parametrize("block", range(20))
def test_promises_hold_in_every_history(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        world.history(seed)  # raises Broken with the number of the promise; the seed replays it


def test_histories_are_as_rough_as_they_claim() -> None:
    """Recoveries, branches, lost nodes and denied tokens all happen, often."""
    seen = {"recovery": 0, "branch": 0, "lost": 0, "denied": 0, "waited": 0}
    for seed in range(400):
        found = world.history(seed)
        disks = [machine.disk for machine in found.machines]
        released = sum(isinstance(entry, Released) for disk in disks for entry in disk)
        final = next(machine.memory.outcome for machine in found.machines if machine.memory.outcome is not None)
        seen["recovery"] += any("recovery" in line for line in found.said)
        seen["branch"] += released > final.updates
        seen["lost"] += any(machine.gone for machine in found.machines)
        seen["denied"] += any(isinstance(entry, Gone) for disk in disks for entry in disk)
        seen["waited"] += any("nobody answers" in line for line in found.said)
    assert seen["recovery"] > 50
    assert seen["branch"] > 20
    assert seen["lost"] > 20
    assert seen["denied"] > 20
    assert seen["waited"] > 3


def test_a_seed_replays_exactly() -> None:
    for seed in (3, 14, 159):
        first, second = world.history(seed), world.history(seed)
        assert [machine.disk for machine in first.machines] == [machine.disk for machine in second.machines]
        assert (first.now, first.said) == (second.now, second.said)


def test_a_node_whose_budget_is_spent_stays_skipped() -> None:
    """It refuses from then on; the others end without it, and its ledger never has more than it allows."""

    def at_most_two(me: int, rules: Rules, memory: Memory) -> Peer:
        def willing(_: Place, ledger: Sequence[Place]) -> bool:
            return me != 0 or len(ledger) < 2

        return Peer(me, rules, memory, willing)

    spent = 0
    for seed in range(300):
        found = world.history(seed, at_most_two)
        releases = sum(isinstance(entry, Released) for entry in found.machines[0].disk)
        assert releases <= 2
        spent += releases == 2
    assert spent > 50


def test_an_update_that_a_recovery_makes_too_dear_is_not_made() -> None:
    """A node that accepted the token, and is told to go on with it under a higher ballot, may pass it on as it is."""
    token = Token(1, b"model", b"")
    rules = Rules(nodes=3, path=[0, 1, 2] * 3, timeout=1.0)
    accepted = Memory.blank(0, INITIAL).after(Kept(Copy((0, 0), 2, Kind.ACCEPTED, token), 0)).after(Heard((1, 2)))
    peer = Peer(1, rules, accepted, lambda place, _: place[0][0] == 0)
    actions = peer.received(2, Resume((1, 2), ((0, 0), 2, Kind.ACCEPTED)))
    assert not any(isinstance(action, Compute) for action in actions)
    assert Send(2, Offer((1, 2), 3)) in actions
    assert Send(2, Pass((1, 2), 3, token)) in peer.received(2, Ready((1, 2), 3))
    # After a crash it may have been sent: it is not updated then, but asked for.
    again = Peer(1, rules, peer.memory, lambda place, _: True).begin()
    assert Send(2, Ask((1, 2), 3)) in again
    assert not any(isinstance(action, Compute) for action in again)


@pytest.mark.parametrize("asks", [True, False])
def test_a_node_that_was_cut_off_disturbs_nobody(asks: bool) -> None:
    """It thinks that the token is lost, but nobody agrees; one that did not ask would stop the run when it returns."""

    class Hasty(Peer):
        def _doubt(self, place: Place, *, asked: bool) -> None:
            self._recover("in a hurry")

    rules = Rules(nodes=5, path=[0, 1, 2, 3, 4] * 60, timeout=1.0, lease=1.0, silence=8.0)
    calm = world.Weather(drop=0.0, double=0.0, latency=0.001, crash=0.0, slow=0.0, clear_at=50.0, partitions=0)
    ballots = []
    for seed in range(20):
        found = world.World(seed, rules, calm, Peer if asks else Hasty)
        found.cuts = [(0.05, 40.0, {4})]  # the token has not come to it yet
        found.run(until=4000.0)
        found.check_end()
        ballots.append(max(machine.memory.promised[0] for machine in found.machines))
    # Messages are late at times, and then there is a recovery now and then.
    assert sum(ballot > 0 for ballot in ballots) <= 3 if asks else min(ballots) > 0


def test_without_trouble_every_hop_of_a_quick_node_is_an_update() -> None:
    rules = Rules(nodes=4, path=[0, 1, 2, 3] * 5, timeout=1.0)
    calm = world.Weather(drop=0.0, double=0.0, latency=0.001, crash=0.0, slow=0.0, clear_at=0.0, partitions=0)
    found = world.World(1, rules, calm)
    found.run(until=1000.0)
    found.check_end()
    outcome = found.machines[0].memory.outcome
    # Preparing takes a tenth of the timeout on average, so that a delay beyond it is rarer than 1 in 20,000.
    assert outcome is not None
    assert outcome.updates == 20
    assert all(len(machine.memory.ledger) == 5 for machine in found.machines)


# --- Mutants: each takes away one rule of the protocol


def _not_written(kind: type[Entry]) -> type[Peer]:
    class Forgetful(Peer):
        def _write(self, entry: Entry) -> None:
            if isinstance(entry, kind):
                self.memory = self.memory.after(entry)  # remembered, but not on disk
            else:
                super()._write(entry)

    return Forgetful


class _TakesOldTokens(Peer):
    def _on_pass(self, sender: int, message: Pass) -> None:
        promised = self.memory.promised
        if message.ballot < promised:
            self.memory = replace(self.memory, promised=message.ballot, gone=None)
        super()._on_pass(sender, message)
        self.memory = replace(self.memory, promised=max(promised, self.memory.promised))


class _TakesOldFinals(Peer):
    def _on_final(self, sender: int, message: Final) -> None:
        promised = self.memory.promised
        if message.ballot < promised:
            self.memory = replace(self.memory, promised=message.ballot)
        super()._on_final(sender, message)
        self.memory = replace(self.memory, promised=max(promised, self.memory.promised))


class _DrawsNoiseAgain(Peer):
    """After a restart the update is made anew, instead of sending what was written."""

    def begin(self) -> list[Action]:
        copy = self.memory.copy
        if copy.kind is Kind.UPDATED and copy.ballot == self.memory.promised and self.memory.passing is not None:
            self.memory = replace(self.memory, copy=replace(copy, kind=Kind.ACCEPTED), passing=None)
        return super().begin()


class _DecidesAlone(Peer):
    def _count(self) -> None:
        self._end(self.memory.copy.token, self.memory.copy.ballot)


class _RecoversWithAnybody(Peer):
    def _lead(self) -> None:
        self._alone_with(super()._lead)

    def _agreement(self) -> None:
        self._alone_with(super()._agreement)

    def _alone_with(self, what: Callable[[], None]) -> None:
        rules = self.rules
        self.rules = replace(rules, nodes=1)
        try:
            what()
        finally:
            self.rules = rules


class _DeniesAndAcceptsLater(Peer):
    def _write(self, entry: Entry) -> None:
        if not isinstance(entry, Gone):
            super()._write(entry)


class _SkipsWhoDoesNotAnswer(Peer):
    def _late_lease(self) -> None:
        if self.holding and self._stage == "passing":
            self._skip()


class _DoesNotWaitForReady(Peer):
    def _offer(self, hop: int) -> None:
        super()._offer(hop)
        if self.holding and self._stage == "offered" and self.rules.path[hop - 1] != self.me:
            self._send(self.rules.path[hop - 1], Pass(self.memory.copy.ballot, hop, self.memory.copy.token))


class _SendsBeforeItWrites(Peer):
    def _done(self) -> list[Action]:
        return sorted(super()._done(), key=lambda action: isinstance(action, Write))


class _ResumesTheLeast(Peer):
    def _lead(self) -> None:
        if self._ballot is not None and len(self._promises) >= self.rules.majority:
            rank, owner = min((rank, -node) for node, rank in self._promises.items())
            if -owner == self.me:
                self._resume(self._ballot, rank)
                self._ballot = None
            else:
                self._send(-owner, Resume(self._ballot, rank))


class _ChoosesAgain(Peer):
    """A promise that comes late makes another node go on, too: rare, and it took long to find."""

    def _lead(self) -> None:
        self._chosen = None
        super()._lead()


class _HoldsOnAfterItsPromise(Peer):
    def _on_prepare(self, sender: int, message: Prepare) -> None:
        if message.ballot < self.memory.promised:
            self._send(sender, Reject(self.memory.promised))
            return
        if message.ballot > self.memory.promised:
            self._write(Heard(message.ballot))
        self._send(sender, Promise(message.ballot, self.memory.copy.rank))


class _NeverRecovers(Peer):
    def _recover(self, why: str) -> None:
        pass


MUTANTS: dict[str, Callable[[int, Rules, Memory], Peer]] = {
    "a promise is not written": _not_written(Heard),
    "an accepted token is not written": _not_written(Kept),
    "a release is not written": _not_written(Released),
    "a pass is not written": _not_written(Passing),
    "a denial is not written": _not_written(Gone),
    "old tokens are accepted": _TakesOldTokens,
    "old final models are accepted": _TakesOldFinals,
    "a retry draws noise again": _DrawsNoiseAgain,
    "one node decides": _DecidesAlone,
    "a minority recovers": _RecoversWithAnybody,
    "a denied token is accepted": _DeniesAndAcceptsLater,
    "whoever does not answer is skipped": _SkipsWhoDoesNotAnswer,
    "the token is sent unasked": _DoesNotWaitForReady,
    "it is sent before it is written": _SendsBeforeItWrites,
    "the least copy is resumed": _ResumesTheLeast,
    "an owner is chosen again": _ChoosesAgain,
    "the holder goes on after its promise": _HoldsOnAfterItsPromise,
    "there is no recovery": _NeverRecovers,
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str) -> None:
    for seed in range(1500):
        try:
            world.history(seed, MUTANTS[name])
        except world.Broken:
            return
    pytest.fail("no history tells the mutant from the protocol")
