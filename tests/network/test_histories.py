"""Ten thousand histories of the protocol, in all of which its promises hold; and mutants, none of which survives them.

A quarter of the histories is in `make test`, all are in `make test-network`.

The promises, by number, as world.py checks them: 1 one node goes on per ballot, and all final models are the same
bytes; 2 the final model is one chain of updates, each in its author's journal; 3 one release per ballot and hop, in the
ledger before anybody else has it; 4 nothing is accepted below a promised ballot; 5 no token is sent to a node that has
not said ready; 6 the run ends once a majority is up and the network is fair; 7 whatever a node says is on its disk
before; 8 a node that is reached is given its time, and one that is not no longer than an offer lives; 9 nobody is asked
for a token that is still on its way to it; 10 no hop is offered unless a quorum was heard from in the last two rounds;
14 no update is released that the token was passed on without; 15 nobody says ready with what an update has used; 16 a
turn ends in its time, whatever becomes of the update. (11 to 13 are about liars and old journals.)
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import pytest
import world

from skipring.network.protocol import (
    FRESH,
    Action,
    Ask,
    Ballot,
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
    Seal,
    Send,
    Sight,
    Signatures,
    Token,
    Wished,
    Write,
)
from skipring.network.protocol._core import Core
from skipring.network.protocol._ending import Ending
from skipring.network.protocol._keeping import Keeping
from skipring.network.protocol._receiving import Receiving
from skipring.network.protocol._recovery import Recovery
from skipring.network.protocol._state import Offering, Unconfirmed
from skipring.network.protocol._wishing import Wishing

BLOCK = 500
INITIAL = Token(0, b"initial", b"")


@pytest.mark.sample(5)
@pytest.mark.parametrize("block", range(20))
def test_promises_hold_in_every_history(block: int) -> None:
    for seed in range(block * BLOCK, (block + 1) * BLOCK):
        world.history(seed)  # raises Broken with the number of the promise; the seed replays it


def test_histories_are_as_rough_as_they_claim() -> None:
    """Recoveries, branches, lost nodes, denied tokens, slow models and offers to nobody all happen, often."""
    seen = {
        "recovery": 0,
        "branch": 0,
        "lost": 0,
        "denied": 0,
        "waited": 0,
        "extended": 0,
        "unreached": 0,
        "moody": 0,
        "cut": 0,
    }
    for seed in range(400):
        found = world.history(seed)
        disks = [machine.disk for machine in found.machines]
        released = sum(isinstance(entry, Released) for disk in disks for entry in disk)
        final = next(machine.memory.outcome for machine in found.machines if machine.memory.outcome is not None)
        seen["recovery"] += any("recovery" in line for line in found.said)
        seen["branch"] += released > final.updates
        seen["lost"] += any(machine.gone for machine in found.machines)
        seen["denied"] += any(isinstance(entry, Gone) for disk in disks for entry in disk)
        seen["waited"] += any("no majority answers" in line for line in found.said)
        seen["extended"] += found.extended > 0
        seen["unreached"] += found.unreached > 0
        seen["moody"] += found.weather.moody
        seen["cut"] += found.cut_tokens > 0
    assert seen["recovery"] > 50
    assert seen["branch"] > 20
    assert seen["lost"] > 20
    assert seen["denied"] > 20
    assert seen["waited"] > 3
    assert seen["extended"] > 50
    assert seen["unreached"] > 50
    assert seen["moody"] > 50
    assert seen["cut"] > 50


def test_a_seed_replays_exactly() -> None:
    for seed in (3, 14, 159):
        first, second = world.history(seed), world.history(seed)
        assert [machine.disk for machine in first.machines] == [machine.disk for machine in second.machines]
        assert (first.now, first.said) == (second.now, second.said)


def test_a_node_whose_budget_is_spent_stays_skipped() -> None:
    """It refuses from then on; the others end without it, and its ledger never has more than it allows."""

    def at_most_two(me: int, rules: Rules, memory: Memory, seal: Seal, *, sight: Sight) -> Peer:
        def willing(_: Place, ledger: Sequence[Place]) -> bool:
            return me != 0 or len(ledger) < 2

        return Peer(me, rules, memory, seal, willing, sight)

    spent = 0
    for seed in range(300):
        found = world.history(seed, at_most_two)
        releases = sum(isinstance(entry, Released) for entry in found.machines[0].disk)
        assert releases <= 2
        spent += releases == 2
    assert spent > 50


def test_an_update_that_a_recovery_makes_too_dear_is_not_made() -> None:
    """A node that accepted the token, and is told to go on with it under a higher ballot, may pass it on as it is."""
    token, seal = Token(1, b"model", b""), world.fake_seals(3)[1]
    rules = Rules(nodes=3, path=[0, 1, 2] * 3, timeout=1.0)
    accepted = Memory.blank(0, INITIAL).after(Kept(Copy((0, 0), 2, Kind.ACCEPTED, token), 0)).after(Heard((1, 2)))
    peer = Peer(1, rules, accepted, seal, lambda place, _: place[0][0] == 0)
    promises = tuple((node, world.fake_seals(3)[node].promise((1, 2))) for node in (1, 2))
    actions = peer.received(2, Resume((1, 2), ((0, 0), 2, Kind.ACCEPTED), promises))
    assert not any(isinstance(action, Compute) for action in actions)
    assert Send(2, Offer((1, 2), 3)) in actions
    passed = [action.message for action in peer.received(2, Ready((1, 2), 3)) if isinstance(action, Send)]
    assert [(one.ballot, one.hop, one.token) for one in passed if isinstance(one, Pass)] == [((1, 2), 3, token)]
    # After a crash it may have been sent: it is not updated then, but asked for.
    again = Peer(1, rules, peer.memory, seal, lambda place, _: True).begin()
    assert Send(2, Ask((1, 2), 3)) in again
    assert not any(isinstance(action, Compute) for action in again)


@pytest.mark.parametrize("asks", [True, False])
def test_a_node_that_was_cut_off_disturbs_nobody(asks: bool) -> None:
    """It thinks that the token is lost, but nobody agrees; one that did not ask would stop the run when it returns."""

    class Hasty(Recovery):
        def doubt(self, place: Place, *, asked: bool) -> None:
            self.recover("in a hurry")

    rules = Rules(nodes=5, path=[0, 1, 2, 3, 4] * 60, timeout=1.0, lease=1.0, silence=8.0)
    calm = world.Weather(drop=0.0, double=0.0, latency=0.001, crash=0.0, slow=0.0, clear_at=50.0, partitions=0)
    ballots = []
    for seed in range(20):
        found = world.World(seed, rules, calm, Peer if asks else _with(recovery=Hasty))
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


def test_a_model_on_a_slow_link_costs_time_and_no_update() -> None:
    """Leases run out while it travels, and nobody concludes anything from that."""
    rules = Rules(nodes=4, path=[0, 1, 2, 3] * 5, timeout=60.0, lease=1.0, silence=200.0)
    calm = world.Weather(
        drop=0.0, double=0.0, latency=0.001, crash=0.0, slow=0.0, clear_at=0.0, partitions=0, heavy=5.0
    )
    found = world.World(1, rules, calm)
    found.run(until=4000.0)
    found.check_end()
    outcome = found.machines[0].memory.outcome
    assert outcome is not None
    assert outcome.updates == 20
    assert found.extended > 20
    assert not found.said
    assert not any(isinstance(entry, Gone) for machine in found.machines for entry in machine.disk)


@pytest.mark.parametrize("says_so", [True, False])
def test_a_model_that_travels_longer_than_patience_lasts_is_not_lost(says_so: bool) -> None:
    """Others see no sign of it and doubt; its sender knows better, or each model would be recovered many times."""
    rules = Rules(nodes=3, path=[0, 1, 2] * 4, timeout=60.0, lease=2.0, silence=30.0)
    calm = world.Weather(drop=0.0, double=0.0, latency=0.001, crash=0.0, slow=0.0, clear_at=0.0, partitions=0)
    recoveries, released = [], []
    for seed in range(20):
        make = Peer if says_so else _with(recovery=_KnowsNothingOfWhatItSends)
        found = world.World(seed, rules, replace(calm, heavy=60.0), make)
        found.run(until=100000.0)
        found.check_end()
        recoveries.append(sum("recovery" in line for line in found.said))
        released.append(sum(len(machine.memory.ledger) for machine in found.machines))
    if says_so:
        assert max(recoveries) == 0
        assert max(released) == 12
    else:
        assert sum(recoveries) > 20 * 10
        assert sum(released) > 20 * 13


@pytest.mark.parametrize("told", [True, False])
def test_who_is_not_reached_is_not_waited_for(told: bool) -> None:
    """A dead node costs a second at each of its turns, however long the others may take."""
    rules = Rules(nodes=4, path=[0, 1, 2, 3] * 5, timeout=60.0, lease=1.0, silence=500.0)
    calm = world.Weather(drop=0.0, double=0.0, latency=0.001, crash=0.0, slow=0.0, clear_at=0.0, partitions=0)
    found = world.World(1, rules, replace(calm, links=told))
    found.machines[3].peer, found.machines[3].gone = None, True
    found.run(until=4000.0)
    found.check_end()
    outcome = found.machines[0].memory.outcome
    assert outcome is not None
    assert outcome.updates == 15
    waited = 5 * (FRESH if told else rules.timeout)
    # The others prepare for a tenth of the timeout on average, 15 times.
    assert waited < found.now < waited + 15 * 0.1 * rules.timeout * 3.0


@pytest.mark.parametrize("at_once", [True, False])
def test_a_majority_of_wishes_ends_a_run_where_it_is(at_once: bool) -> None:
    """Two of three owners ask after a while: all end with the token as it was then, and with the proof.

    Where nobody is told at once, wishes go with the token.
    """
    rules = Rules(nodes=3, path=[0, 1, 2] * 30, timeout=1.0)
    calm = world.Weather(drop=0.0, double=0.0, latency=0.001, crash=0.0, slow=0.0, clear_at=0.0, partitions=0)
    for seed in range(10):
        found = world.World(seed, rules, calm, Peer if at_once else _with(wishing=_TellsNobody))
        found.later(2.0, partial(found.ask_to_finish, 0))
        found.later(3.0, partial(found.ask_to_finish, 2))
        found.run(until=1000.0)
        found.check_end()
        outcome = found.machines[1].memory.outcome
        assert outcome is not None
        assert 0 < outcome.updates < 60
        assert all({node for node, _ in machine.memory.asked} == {0, 2} for machine in found.machines)
        assert found.machines[1].peer is not None
        assert found.machines[1].peer.ended_at == found.machines[1].peer.decided == outcome.updates  # nobody was slow


def test_one_wish_changes_nothing() -> None:
    rules = Rules(nodes=3, path=[0, 1, 2] * 5, timeout=1.0)
    calm = world.Weather(drop=0.0, double=0.0, latency=0.001, crash=0.0, slow=0.0, clear_at=0.0, partitions=0)
    found = world.World(1, rules, calm)
    found.later(0.1, lambda: found.ask_to_finish(1))
    found.run(until=1000.0)
    found.check_end()
    assert [machine.memory.outcome.updates for machine in found.machines if machine.memory.outcome] == [15] * 3
    assert all([node for node, _ in machine.memory.wishes] == [1] for machine in found.machines)
    assert all(machine.memory.asked == () for machine in found.machines)


def test_histories_end_early_as_often_as_they_claim() -> None:
    """Also after crashes, recoveries and cuts; and some with wishes too few, or too late."""
    early = many = rough = 0
    for seed in range(500):
        found = world.history(seed)
        asked = any(machine.memory.asked for machine in found.machines)
        early += asked and found.came_to < found.rules.steps
        rough += asked and any("recovery" in line for line in found.said)
        many += bool(found.wished) and not asked
    assert early > 20
    assert rough > 5
    assert many > 20


# --- Mutants: each takes away one rule of the protocol


def _with(**parts: type[object]) -> type[Peer]:
    """Return a peer, some of whose parts are others."""
    return type("Mutant", (Peer,), {f"_{name}_type": part for name, part in parts.items()})


def _not_written(kind: type[Entry]) -> type[Peer]:
    class Forgetful(Core):
        def write(self, entry: Entry) -> None:
            if isinstance(entry, kind):
                self.memory = self.memory.after(entry)  # remembered, but not on disk
            else:
                super().write(entry)

    return _with(core=Forgetful)


class _TakesOldTokens(Receiving):
    def on_pass(self, sender: int, message: Pass) -> None:
        core, promised = self.core, self.core.memory.promised
        if message.ballot < promised:
            core.memory = replace(core.memory, promised=message.ballot, gone=())
        super().on_pass(sender, message)
        core.memory = replace(core.memory, promised=max(promised, core.memory.promised))


class _TakesOldFinals(Ending):
    def on_final(self, sender: int, message: Final) -> None:
        core, promised = self.core, self.core.memory.promised
        if message.ballot < promised:
            core.memory = replace(core.memory, promised=message.ballot)
        super().on_final(sender, message)
        core.memory = replace(core.memory, promised=max(promised, core.memory.promised))


class _DrawsNoiseAgain(Keeping):
    """After a restart the update is made anew, instead of sending what was written."""

    def begin(self) -> None:
        memory, copy = self.core.memory, self.core.memory.copy
        if copy.kind is Kind.UPDATED and copy.ballot == memory.promised and memory.passing is not None:
            self.core.memory = replace(memory, copy=replace(copy, kind=Kind.ACCEPTED), passing=None)
        super().begin()


class _DecidesAlone(Ending):
    def count(self, votes: Mapping[int, bytes]) -> None:
        self.end(self.core.memory.copy.token, self.core.memory.copy.ballot, tuple(votes.items()))


class _RecoversWithAnybody(Recovery):
    def lead(self) -> None:
        self._alone_with(super().lead)

    def count_agreed(self) -> None:
        self._alone_with(super().count_agreed)

    def _alone_with(self, what: Callable[[], None]) -> None:
        rules = self.core.rules
        self.core.rules = replace(rules, nodes=1)
        try:
            what()
        finally:
            self.core.rules = rules


class _DeniesAndAcceptsLater(Core):
    def write(self, entry: Entry) -> None:
        if not isinstance(entry, Gone):
            super().write(entry)


class _SkipsWhoDoesNotAnswer(Keeping):
    def on_lease_late(self) -> None:
        if isinstance(self.core.state.doing, Unconfirmed):
            self.skip(self.core.state.doing.hop)


class _DoesNotWaitForReady(Keeping):
    def offer(self, hop: int) -> None:
        super().offer(hop)
        core, copy = self.core, self.core.memory.copy
        if isinstance(core.state.doing, Offering) and core.rules.node_of(hop) != core.me:
            core.send(core.rules.node_of(hop), Pass(copy.ballot, hop, copy.token))


class _SendsBeforeItWrites(Core):
    def done(self) -> list[Action]:
        return sorted(super().done(), key=lambda action: isinstance(action, Write))


class _ResumesTheLeast(Recovery):
    def lead(self) -> None:
        core, recovering = self.core, self.core.state.recovering
        if recovering is not None and len(recovering.promises) >= core.rules.majority:
            rank, owner = min((rank, -node) for node, rank in recovering.promises.items())
            if -owner == core.me:
                self.resume(recovering.ballot, rank)
                core.state.recovering = None
            else:
                core.send(-owner, Resume(recovering.ballot, rank, tuple(sorted(recovering.signed.items()))))


class _ChoosesAgain(Recovery):
    """A promise that comes late makes another node go on, too: rare, and it took long to find."""

    def lead(self) -> None:
        if self.core.state.recovering is not None:
            self.core.state.recovering = replace(self.core.state.recovering, chosen=None)
        super().lead()


class _HoldsOnAfterItsPromise(Recovery):
    def on_prepare(self, sender: int, message: Prepare) -> None:
        core = self.core
        if message.ballot < core.memory.promised:
            core.send(sender, Reject(core.memory.promised))
            return
        if message.ballot > core.memory.promised:
            core.write(Heard(message.ballot))
        core.send(sender, Promise(message.ballot, core.memory.copy.rank, core.seal.promise(message.ballot)))


class _NeverRecovers(Recovery):
    def recover(self, why: str) -> None:
        pass


class _KnowsNothingOfWhatItSends(Recovery):
    def sees_it_move(self) -> bool:
        return False


class _AsksForWhatTravels(Keeping):
    def is_travelling(self, doing: Unconfirmed) -> bool:
        return False


class _WaitsForNobodyForEver(Keeping):
    def patience_with(self, node: int) -> float:
        reached = node == self.core.me or self.core.sight.reaches(node)
        return super().patience_with(node) if reached else 1e9


class _WaitsForNobodyAsForAll(Keeping):
    def patience_with(self, node: int) -> float:
        seconds = self.core.sight.offer_timeout()
        self.core.sight.reaches(node)
        return seconds


class _HasNoPatience(Keeping):
    def patience_with(self, node: int) -> float:
        return min(super().patience_with(node), FRESH)


class _ReleasesWhatIsLate(Keeping):
    def is_wanted(self, ballot: Ballot, hop: int) -> bool:
        return self.core.place == (ballot, hop)


class _ComputesForEver(Keeping):
    def on_turn_late(self) -> None:
        pass


class _EndsForAMinority(Core):
    @property
    def wished(self) -> Signatures:
        return self.memory.wishes


class _BelievesAMinority(Wishing):
    """Everybody takes any wishes for enough: one owner alone would end the run."""

    def learn(self, sender: int, wishes: Signatures) -> bool:
        super().learn(sender, wishes)
        return bool(wishes)


class _MakesUpWishes(Wishing):
    def wish(self) -> None:
        core = self.core
        forged = dict.fromkeys(range(core.rules.nodes), b"yes") | {core.me: core.seal.wish()}
        self._learn(tuple(sorted(forged.items())))


class _ChecksNoWish(_MakesUpWishes):
    def learn(self, sender: int, wishes: Signatures) -> bool:
        known = dict(self.core.memory.wishes)
        self._learn(tuple(each for each in wishes if each[0] not in known))
        return len(wishes) >= self.core.rules.majority


class _TellsNobody(Wishing):
    def _learn(self, new: Signatures) -> None:
        if new:
            self.core.write(Wished(new))


MUTANTS: dict[str, world.Make] = {
    "a minority of wishes ends a run": _with(core=_EndsForAMinority),
    "a minority of wishes is believed": _with(core=_EndsForAMinority, wishing=_BelievesAMinority),
    "wishes are made up": _with(wishing=_MakesUpWishes),
    "wishes are made up, and nobody checks": _with(wishing=_ChecksNoWish),
    "a wish is not written": _not_written(Wished),
    "a late update is released": _with(keeping=_ReleasesWhatIsLate),
    "an update may take for ever": _with(keeping=_ComputesForEver),
    "a promise is not written": _not_written(Heard),
    "an accepted token is not written": _not_written(Kept),
    "a release is not written": _not_written(Released),
    "a pass is not written": _not_written(Passing),
    "a denial is not written": _not_written(Gone),
    "old tokens are accepted": _with(receiving=_TakesOldTokens),
    "old final models are accepted": _with(ending=_TakesOldFinals),
    "a retry draws noise again": _with(keeping=_DrawsNoiseAgain),
    "one node decides": _with(ending=_DecidesAlone),
    "a minority recovers": _with(recovery=_RecoversWithAnybody),
    "a denied token is accepted": _with(core=_DeniesAndAcceptsLater),
    "whoever does not answer is skipped": _with(keeping=_SkipsWhoDoesNotAnswer),
    "the token is sent unasked": _with(keeping=_DoesNotWaitForReady),
    "it is sent before it is written": _with(core=_SendsBeforeItWrites),
    "the least copy is resumed": _with(recovery=_ResumesTheLeast),
    "an owner is chosen again": _with(recovery=_ChoosesAgain),
    "the holder goes on after its promise": _with(recovery=_HoldsOnAfterItsPromise),
    "there is no recovery": _with(recovery=_NeverRecovers),
    "a model on its way is asked for": _with(keeping=_AsksForWhatTravels),
    "who is not reached is waited for for ever": _with(keeping=_WaitsForNobodyForEver),
    "who is not reached is waited for like anybody": _with(keeping=_WaitsForNobodyAsForAll),
    "no offer waits longer than it lives": _with(keeping=_HasNoPatience),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str) -> None:
    for seed in range(1500):
        try:
            world.history(seed, MUTANTS[name])
        except world.Broken:
            return
    pytest.fail("no history tells the mutant from the protocol")
