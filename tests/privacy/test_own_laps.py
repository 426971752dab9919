"""A node's own account of laps: what its transcript says, and never more than was planned."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from skipring.errors import InvalidInput
from skipring.privacy import Lap, LapsAccountant, LapsTranscript, OwnLaps, PlannedLaps, Protected, share_of_noise
from skipring.schedules import Laps


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_it_says_what_the_transcript_says_of_this_node(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(2, 9))
    withstood, parts = data.draw(st.integers(0, nodes - 1)), data.draw(st.integers(1, 3))
    own = OwnLaps(nodes=nodes, withstood=withstood, parts=parts, dimension=5)
    opened, took, numbers = [], [], []
    for number in range(data.draw(st.integers(1, 12))):
        lap = Lap(
            participants=data.draw(st.integers(2, nodes)),
            sensitivity=data.draw(st.sampled_from([0.5, 2.0])),
            share=data.draw(st.sampled_from([3.0, 8.0])),
        )
        joins = data.draw(st.booleans())
        row = np.zeros(nodes, np.bool_)
        row[: lap.participants] = True
        if not joins:
            row = np.roll(row, 1) if lap.participants < nodes else row
        if row[0]:
            own.open(lap, number % parts)
        opened.append(lap)
        took.append(row)
        numbers.append(number)
    happened = LapsTranscript(
        nodes=nodes, opened=opened, took_part=took, numbers=numbers, withstood=withstood, parts=parts, dimension=5
    )
    for coalition in range(nodes):
        assert own.mu2(coalition) == pytest.approx(float(happened.by_node(coalition)[0]), rel=1e-12)
        assert own.mu2(coalition, units=3) == pytest.approx(float(happened.by_node(coalition, units=3)[0]), rel=1e-12)
        assert own.tail(coalition) <= happened.tail(coalition)


@settings(max_examples=100, deadline=None)
@given(st.data())
def test_all_laps_that_were_planned_have_room_and_no_lap_more(data: st.DataObject) -> None:
    """Also where noise keeps the budget to the last digit, and other nodes take part in each lap."""
    nodes = data.draw(st.integers(3, 40))
    laps, parts = data.draw(st.integers(1, 30)), data.draw(st.integers(1, 4))
    weights = tuple(data.draw(st.lists(st.floats(0.1, 9.0), min_size=laps, max_size=laps)))
    among = Laps(nodes=nodes, coalition=data.draw(st.integers(1, nodes - 2)))
    run = PlannedLaps(
        among=among,
        laps=laps,
        noise_multiplier=data.draw(st.floats(0.7, 500.0)),
        weights=weights,
        unit=Protected(protects="record", parts=(parts,)),
        dimension=100,
    )
    own = OwnLaps.within(run, parts)
    each = (2.0 / run.noise_multiplier) ** 2 * np.array(weights) / np.mean(weights)
    for lap, cost in enumerate(each):
        participants = data.draw(st.integers(among.needed, nodes))
        made = Lap(
            participants=participants,
            sensitivity=1.5,
            share=share_of_noise(
                math.sqrt(cost), participants=participants, coalition=among.withstood, sensitivity=1.5
            ),
        )
        assert own.has_room(made, lap % parts)
        own.open(made, lap % parts)
    fullest = max(range(parts), key=lambda part: each[part::parts].sum())
    assert not own.has_room(made, fullest)
    assert own.mu2(among.withstood) <= run.mu2(among.withstood)


def test_laps_are_chosen_as_one_likes_and_the_sum_stays_below_the_budget() -> None:
    """Kinds, noise and participants follow from what was seen before; exact fractions say what they cost."""
    rng, budget = np.random.default_rng(4), 0.37
    own, spent, refused = OwnLaps(nodes=9, withstood=2, budget=budget), Fraction(0), 0
    while refused < 20:
        participants, sensitivity = int(rng.integers(5, 10)), float(rng.choice([1.0, 1.59, 2.0]))
        lap = Lap(participants=participants, sensitivity=sensitivity, share=float(rng.uniform(1.0, 12.0)))
        cost = Fraction(sensitivity) ** 2 / (participants - 2) / Fraction(lap.share) ** 2
        if own.has_room(lap):
            own.open(lap)
            spent += cost
        else:
            refused += 1
            assert spent + cost > Fraction(budget) * Fraction(1 - 10**-9)
    assert Fraction(0) < spent <= Fraction(budget)
    assert own.mu2(2) >= spent


def test_a_lap_that_was_opened_counts_whether_or_not_there_was_room() -> None:
    lap = Lap(participants=3, sensitivity=2.0, share=2.0)
    own = OwnLaps(nodes=3, withstood=1, budget=1e-3)
    assert not own.has_room(lap)
    own.open(lap)
    assert own.mu2(1) == pytest.approx(0.5)
    assert OwnLaps(nodes=3, withstood=1, budget=1.1).has_room(lap, tries=2)
    assert not OwnLaps(nodes=3, withstood=1, budget=1.1).has_room(lap, tries=3)


def test_a_node_leaves_room_for_the_other_sites_of_a_person() -> None:
    """A person whose rows lie at s nodes moves a sum s times as far, whichever of them take part in which lap."""
    run = PlannedLaps(
        among=Laps(nodes=6, coalition=1), laps=8, noise_multiplier=9.0, unit=Protected(protects="person"), sites=2
    )
    one = Lap(participants=6, sensitivity=2.0, share=9.0 / math.sqrt(5.0))
    owns = [OwnLaps.within(run) for _ in range(2)]
    rng, exact = np.random.default_rng(1), 0.0
    for _ in range(40):
        present = [own for own in owns if rng.random() < 0.7 and own.has_room(one)]
        for own in present:
            own.open(one)
        exact += (len(present) * 2.0) ** 2 / (5.0 * one.share**2)
    assert exact <= run.mu2(1)
    assert max(own.mu2(1) for own in owns) > 0.9 * run.mu2(1)


def test_noise_without_far_values_takes_its_share_of_delta_from_the_plan() -> None:
    lap = Lap(participants=4, sensitivity=2.0, share=0.5)
    own = OwnLaps(nodes=4, withstood=1, dimension=10**6)
    own.open(lap)
    exact = LapsTranscript(nodes=4, opened=[lap], took_part=[[1, 1, 1, 1]], withstood=1, dimension=10**6)
    assert own.tail(1) == exact.tail(1) > 0.0
    tight = dataclasses.replace(OwnLaps(nodes=4, withstood=1, budget=100.0, dimension=10**6), most_tail=own.tail(1) / 2)
    assert not tight.has_room(lap)
    assert LapsAccountant(own).epsilon(1e-5) == LapsAccountant(exact).epsilon(1e-5)


@pytest.mark.parametrize(
    ("values", "parameter"),
    [
        ({"nodes": 1, "withstood": 0}, "nodes"),
        ({"nodes": 3, "withstood": 3}, "withstood"),
        ({"nodes": 3, "withstood": 1, "budget": 0.0}, "budget"),
        ({"nodes": 3, "withstood": 1, "most_tail": -1.0}, "most_tail"),
        ({"nodes": 3, "withstood": 1, "parts": 0}, "parts"),
        ({"nodes": 3, "withstood": 1, "parts": 2, "protects": "node"}, "parts"),
        ({"nodes": 3, "withstood": 1, "sites": 4}, "sites"),
    ],
)
def test_what_is_no_account_is_refused(values: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        OwnLaps(**values)
    assert refusal.value.parameter == parameter


def test_a_lap_of_other_nodes_or_of_no_part_is_refused() -> None:
    own = OwnLaps(nodes=3, withstood=1)
    with pytest.raises(InvalidInput, match="participants"):
        own.open(Lap(participants=4, sensitivity=2.0, share=2.0))
    with pytest.raises(InvalidInput, match="part"):
        own.open(Lap(participants=3, sensitivity=2.0, share=2.0), 1)
