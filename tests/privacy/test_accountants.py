"""What every accountant promises, whatever it accounts for: the same questions, put to all of them."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, get_args

import numpy as np
import pytest

from skipring._numbers import upper
from skipring.errors import LEAST_DELTA, InvalidInput
from skipring.network.node import AccountTerms, OwnAccount
from skipring.network.protocol import blank_chain, extended_chain, sealed
from skipring.privacy import (
    Accountant,
    Composition,
    GossipAccountant,
    GossipRun,
    Guarantee,
    Lap,
    LapsAccountant,
    LapsTranscript,
    OwnLaps,
    OwnTranscript,
    PaperBound,
    PlannedLaps,
    Protected,
    Transcript,
    TranscriptAccountant,
    forecast,
    planned_run,
)
from skipring.privacy.accountant import RELATION, Unit
from skipring.schedules import FORESEEN, Laps

RUN = planned_run(schedule="random-ring", nodes=20, steps=200, skip=0.3, noise_multiplier=8.0)
LINE = np.array([0, 1, 3, 5, 6]), np.array([1, 0, 2, 1, 3, 2], dtype=np.int32)  # 0 - 1 - 2 - 3


def transcript(*, convex: bool = True, **more: Any) -> TranscriptAccountant:
    rng = np.random.default_rng(3)
    updated = rng.random(60) < 0.7
    return TranscriptAccountant(
        Transcript(
            nodes=6,
            offered=np.tile(np.arange(6), 10),
            updated=updated,
            step_sizes=1.0 / np.sqrt(np.arange(1, updated.sum() + 1)),
            noise_multiplier=6.0,
            convex=convex,
            **more,
        )
    )


def own(*, convex: bool = True) -> OwnTranscript:
    account = OwnTranscript(6, 0, convex=convex)
    for node in (0, 1, 3, 0, 5, 4, 2, 0, 1):
        account.update(node, step_size=1.0, noise_multiplier=6.0)
    return account


def node_account(*, convex: bool = True) -> OwnAccount:
    path = [0, 1, 2] * 4
    account = OwnAccount(AccountTerms(3, 1, path, [1.0] * len(path), 6.0, convex))
    chain = blank_chain(len(path), b"run")
    for hop, node in enumerate(path, start=1):
        chain = extended_chain(chain, (0, 0), hop, sealed(bytes(32), bytes(32)))
        if node == 1:
            account.released((0, 0), hop, chain, hop)
    return account


def gossip(*, amplified: bool = True) -> GossipAccountant:
    run = GossipRun(graphs=[LINE] * 5, nodes=4, rounds=2, noise_multiplier=5.0, amplified=amplified)
    return GossipAccountant(run, observer=0, targets=[1, 2, 3])


def planned_laps(**more: Any) -> PlannedLaps:
    return PlannedLaps(among=Laps(nodes=8, coalition=2), laps=12, noise_multiplier=24.0, extra=1, **more)


LAP = Lap(participants=5, sensitivity=2.0, share=9.0, grid=1e-6, coordinates=7)
TOOK = np.arange(8) < np.full((6, 1), 5)


def own_laps(**more: Any) -> OwnLaps:
    account = OwnLaps(nodes=8, withstood=2, **more)
    for lap in range(6):
        account.open(LAP, lap % account.parts)
    return account


ACCOUNTANTS: dict[str, Callable[[], Accountant]] = {
    **{f"forecast {name}": partial(forecast, RUN.replace(schedule=name)) for name in FORESEEN},
    "forecast, not convex": lambda: forecast(RUN.replace(convex=False)),
    "forecast for a person": lambda: forecast(RUN.replace(protects="person")),
    **{
        f"forecast {name}, final model": partial(forecast, RUN.replace(schedule=name, against="outsider"))
        for name in FORESEEN
    },
    "forecast for records in turn": lambda: forecast(RUN.replace(protects="record", parts=3)),
    "forecast for records in turn, final model": lambda: forecast(
        RUN.replace(protects="record", parts=3, against="outsider")
    ),
    "composition for records in turn": lambda: Composition(*[forecast(RUN.replace(protects="record", parts=3))] * 2),
    "forecast of a place": lambda: forecast(RUN.replace(schedule="ring", distance=3, position=2)),
    "composition": lambda: Composition(forecast(RUN), forecast(RUN.replace(noise_multiplier=12.0))),
    **{
        f"paper {name}": partial(PaperBound, RUN.replace(schedule=name), delta_prime=1e-7)
        for name in ("ring", "random-ring", "random-walk")
    },
    "paper for a record": lambda: PaperBound(RUN.replace(protects="record"), delta_prime=1e-7),
    "transcript": transcript,
    "transcript, in parts": lambda: transcript(parts=[1, 2, 3, 4, 2, 1], protects="person"),
    "transcript, final model": lambda: transcript(against="outsider"),
    "transcript, not convex": lambda: transcript(convex=False),
    "own transcript": own,
    "own transcript, not convex": lambda: own(convex=False),
    "a node's account": node_account,
    "a node's account, not convex": lambda: node_account(convex=False),
    **{f"laps against {others}": partial(LapsAccountant, planned_laps(), others) for others in (0, 1, 2, 5, 7)},
    "laps, in parts": lambda: LapsAccountant(planned_laps(unit=Protected(protects="record", parts=(1, 3)))),
    "laps of persons at two sites": lambda: LapsAccountant(planned_laps(unit=Protected(protects="person"), sites=2)),
    "laps, transcript": lambda: LapsAccountant(
        LapsTranscript(nodes=8, opened=[LAP] * 6, took_part=TOOK, withstood=2, parts=[1, 2, 3, 1, 2, 3, 1, 1])
    ),
    "laps, a node's own": lambda: LapsAccountant(own_laps(parts=2)),
    "laps, a node's own, all others": lambda: LapsAccountant(own_laps(), 7),
    "gossip": gossip,
    "gossip, own releases": lambda: gossip(amplified=False),
}


@pytest.fixture(params=ACCOUNTANTS, scope="module")
def accountant(request: pytest.FixtureRequest) -> Accountant:
    made: Accountant = ACCOUNTANTS[request.param]()
    assert isinstance(made, Accountant)
    return made


@pytest.mark.sample(15)
@pytest.mark.parametrize("delta", [1e-9, 1e-5, 1e-3])
def test_epsilon_and_delta_are_inverse_to_each_other(accountant: Accountant, delta: float) -> None:
    epsilon = accountant.epsilon(delta)
    assert math.isfinite(epsilon)
    assert epsilon > 0.0
    # An accountant may spend a thousandth of delta on paths that it leaves out, and how much it spends may differ.
    assert accountant.delta(epsilon) == pytest.approx(delta, rel=3e-3)
    # What it spends is a power of ten, which decides how many early updates it may count on; to an outsider, about whom
    # the rest is small, that matters most.
    again = accountant.epsilon(accountant.delta(epsilon))
    assert again == pytest.approx(epsilon, rel=1e-2 if accountant.guarantee(delta).against == "an outsider" else 3e-3)


@pytest.mark.sample(12)
def test_more_of_one_is_less_of_the_other(accountant: Accountant) -> None:
    deltas = [1e-12, 1e-9, 1e-6, 1e-3]
    epsilons = [accountant.epsilon(delta) for delta in deltas]
    assert all(earlier > later for earlier, later in pairwise(epsilons))
    found = [accountant.delta(epsilon) for epsilon in sorted(epsilons)]
    assert all(earlier > later for earlier, later in pairwise(found))


def test_a_budget_is_kept_where_nothing_exceeds_it(accountant: Accountant) -> None:
    epsilon = accountant.epsilon(1e-6)

    def excess(times: float) -> float:
        return max(accountant.excess(times * epsilon, 1e-6, kind) for kind in range(accountant.kinds(1e-6)))

    assert excess(1.0 + 1e-6) <= 0.0 < excess(1.0 - 1e-6)


@pytest.mark.parametrize("delta", [0.0, 1.0, -1e-6, 0.1 * LEAST_DELTA, math.nan, math.inf])
def test_what_is_no_delta_is_refused(accountant: Accountant, delta: float) -> None:
    with pytest.raises(InvalidInput, match="delta"):
        accountant.epsilon(delta)


@pytest.mark.parametrize("epsilon", [-1e-9, math.nan, math.inf, -math.inf])
def test_what_is_no_epsilon_is_refused(accountant: Accountant, epsilon: float) -> None:
    with pytest.raises(InvalidInput, match="epsilon"):
        accountant.delta(epsilon)


def test_no_delta_is_stated_that_no_noise_supports(accountant: Accountant) -> None:
    # In laps, noise has no values far out, and what that costs is part of every delta.
    if isinstance(accountant, LapsAccountant):
        least = accountant.laps.tail(accountant.coalition)
        assert accountant.delta(1e5) == pytest.approx(least, rel=1e-9)
        assert LEAST_DELTA < least < 1e-18
    else:
        assert accountant.delta(1e5) == LEAST_DELTA


def test_the_guarantee_is_complete(accountant: Accountant) -> None:
    found = accountant.guarantee(1e-5)
    assert found.protects in get_args(Unit)
    assert found.epsilon == accountant.epsilon(1e-5)
    assert found.delta == pytest.approx(1e-5 + (1e-7 if found.stated_by else 0.0))
    for field in dataclasses.fields(Guarantee):
        if field.name not in ("stated_by", "refused", "doubt", "not_covered", "also", "assumptions"):
            assert getattr(found, field.name), field.name
    assert found.assumptions or found.not_covered
    said = found.sentence()
    protected = {"node": "all data of", "person": "all rows of one person of", "record": "one record of"}
    epsilon = f"psilon {upper(found.epsilon)} at delta {upper(found.delta)} protects"
    whom = f"{protected[found.protects]} {found.whose} ({RELATION}) against {found.against}, {found.sees}"
    assert f"{epsilon} {whom} (method {found.method})." in said
    assert ("is public" in said) == (found.protects != "node")  # replaced, never added or removed
    for words in found.assumptions:
        assert words[1:] in said  # its first letter is a capital there
        assert not words.endswith(".")
    assert said.endswith(".")
    assert "\n" not in said


def test_what_is_not_proven_here_is_said_to_be_stated_by_others() -> None:
    stated = {name: make().guarantee(1e-5).stated_by for name, make in ACCOUNTANTS.items()}
    assert {name for name, by in stated.items() if by} == {name for name in ACCOUNTANTS if name.startswith("paper")}


def test_a_guarantee_tells_amplified_from_plain() -> None:
    for amplified, plain in (
        ("forecast random-ring", "forecast, not convex"),
        ("transcript", "transcript, not convex"),
        ("own transcript", "own transcript, not convex"),
        ("a node's account", "a node's account, not convex"),
        ("gossip", "gossip, own releases"),
    ):
        assert "noise of others counts" in ACCOUNTANTS[amplified]().guarantee(1e-5).sentence()
        assert "counts in full, whatever the loss" in ACCOUNTANTS[plain]().guarantee(1e-5).sentence()


def test_a_composition_states_what_all_of_its_runs_do() -> None:
    both = Composition(forecast(RUN), forecast(RUN.replace(schedule="ring", distance=3)))
    found = both.guarantee(1e-5)
    for each in both.forecasts:
        assert each.guarantee(1e-5).sees in found.sees
    assert found.assumptions[0] == "2 runs over the same data are counted together"
    assert found.method == "tight, composed"


def test_gossip_is_as_bad_as_its_worst_target() -> None:
    account = gossip()
    assert account.mu.shape == (3,)
    alone = [
        GossipAccountant(
            GossipRun(graphs=[LINE] * 5, nodes=4, rounds=2, noise_multiplier=5.0), observer=0, targets=[node]
        )
        for node in (1, 2, 3)
    ]
    assert account.epsilon(1e-6) == max(one.epsilon(1e-6) for one in alone)
    assert alone[0].guarantee(1e-5).whose == "node 1"
    with pytest.raises(InvalidInput, match="targets"):
        GossipAccountant(GossipRun(graphs=[LINE], nodes=4, rounds=1, noise_multiplier=5.0), observer=0, targets=[])


def test_who_has_seen_nothing_knows_nothing() -> None:
    account = TranscriptAccountant(
        Transcript(nodes=3, offered=np.array([0]), updated=np.array([False]), step_sizes=1.0, noise_multiplier=5.0)
    )
    assert (account.epsilon(1e-6), account.delta(0.0)) == (0.0, 0.0)


@pytest.mark.parametrize(
    "account",
    [
        OwnTranscript(3, 0),
        OwnAccount(AccountTerms(3, 1, [0, 1, 2], [1.0, 1.0, 1.0], 6.0, convex=True)),
        LapsAccountant(OwnLaps(nodes=3, withstood=1)),
    ],
    ids=["own transcript", "a node's account", "laps, a node's own"],
)
def test_before_anything_happened_an_account_is_empty(account: Accountant) -> None:
    assert (account.epsilon(1e-6), account.delta(0.0), account.delta(1.0)) == (0.0, 0.0, 0.0)


def test_an_account_of_one_node_says_whose_it_is() -> None:
    assert own().guarantee(1e-5).whose == "node 0"
    assert node_account().guarantee(1e-5).whose == "node 1"
    assert LapsAccountant(own_laps()).guarantee(1e-5).whose == "this node"
    assert "fork" in node_account().guarantee(1e-5).sentence()
