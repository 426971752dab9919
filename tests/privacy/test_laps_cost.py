"""What laps cost, against the exact view of a coalition: pads, shares, grids, everything that is on the wire."""

from __future__ import annotations

import dataclasses
import itertools
import math
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from skipring.errors import InvalidInput
from skipring.privacy.gaussian import gdp_delta, gdp_epsilon, gdp_mu
from skipring.privacy.laps import (
    FINEST,
    Lap,
    LapsTranscript,
    PlannedLaps,
    share_of_noise,
    tail_of_shares,
)
from skipring.privacy.laps_accountant import LapsAccountant, most_laps
from skipring.privacy.record import Protected
from skipring.schedules import Laps


def planned(
    *,
    nodes: int,
    coalition: int | None = None,
    least_nodes: int | None = None,
    protects: Any = "record",
    parts: tuple[int, ...] = (1,),
    **values: Any,
) -> PlannedLaps:
    among = Laps(nodes=nodes, coalition=coalition, least_nodes=least_nodes)
    return PlannedLaps(among=among, unit=Protected(protects=protects, parts=parts), **values)


def exact_mu2(colluders: set[int], participants: int, target: int, moved: float, share: float) -> float:
    """Return mu^2 of all that a coalition sees of a lap, by linear algebra: each y_v, its own pads, opened self-masks.

    Pads are uniform, so a combination of what honest nodes sent tells something only if all pads between honest nodes
    cancel in it. What is left is Gaussian.
    """
    honest = [node for node in range(participants) if node not in colluders]
    pairs = list(itertools.combinations(range(len(honest)), 2))
    pads = np.zeros((len(honest), len(pairs)))
    for at, (one, other) in enumerate(pairs):
        pads[one, at], pads[other, at] = 1.0, -1.0
    u, s, _ = np.linalg.svd(pads) if pairs else (np.eye(len(honest)), np.zeros(0), None)
    rank = int((s > 1e-9).sum())
    seen = u[:, rank:]  # combinations without pads
    shift = seen.T @ np.array([moved if node == target else 0.0 for node in honest])
    return float(shift @ np.linalg.solve(share**2 * seen.T @ seen, shift))


@pytest.mark.parametrize("participants", range(2, 9))
def test_a_lap_tells_each_coalition_just_what_its_exact_view_does(participants: int) -> None:
    lap = Lap(participants=participants, sensitivity=2.0, share=3.0)
    for size in range(participants):
        for colluders in itertools.combinations(range(1, participants), size):
            exact = exact_mu2(set(colluders), participants, 0, 2.0, 3.0)
            assert lap.mu2(size) == pytest.approx(exact, rel=1e-9)
            assert lap.mu2(size) >= exact * (1.0 - 1e-13)


def test_a_grid_costs_what_the_best_way_to_deal_a_change_does() -> None:
    """Each of h nodes takes a whole number of grid steps: the least sum of squares, by trying all ways."""
    share = 5.0
    for honest, change in itertools.product(range(1, 5), range(8)):
        ways = itertools.product(range(-2, change + 3), repeat=honest)
        least = min(sum(part**2 for part in way) for way in ways if sum(way) == change)
        lap = Lap(participants=honest + 1, sensitivity=max(change, 1e-9), share=share, grid=1.0, coordinates=1)
        assert lap.mu2(1) >= min(least, change**2) / share**2 * (1.0 - 1e-12)


@pytest.mark.parametrize("share", [0.4, 0.8, 2.0])
@pytest.mark.parametrize("honest", [1, 2, 3, 5])
def test_a_sum_of_rounded_shares_hides_a_change_as_well_as_is_said(share: float, honest: int) -> None:
    """The exact distribution of what is left on the grid, and what the best test between two worlds gets out of it."""
    values = np.arange(-60, 61)
    one = ndtr((values + 0.5) / share) - ndtr((values - 0.5) / share)
    law = np.ones(1)
    for _ in range(honest):
        law = np.convolve(law, one)
    for change in (1, 2, 3):
        lap = Lap(participants=honest + 1, sensitivity=change, share=share, grid=1.0, coordinates=1)
        mu = math.sqrt(lap.mu2(1))
        padded, moved = np.pad(law, (0, change)), np.pad(law, (change, 0))
        for epsilon in (0.0, 0.5, 1.0, 2.0, 4.0):
            exact = np.maximum(padded - math.exp(epsilon) * moved, 0.0).sum()
            assert exact <= gdp_delta(mu, epsilon) + 1e-14


def test_noise_is_what_fifty_digits_say() -> None:
    with mpmath.workdps(50):
        for participants, coalition, grid, coordinates in ((8, 2, 0.0, 0), (60, 12, 2.0**-20, 4000), (3, 1, 0.1, 5)):
            honest = participants - coalition
            size = mpmath.mpf(2) ** 2 + mpmath.mpf(coordinates) * mpmath.mpf(grid) ** 2 * honest**2 / 4
            exact = mpmath.sqrt(size / honest) / mpmath.mpf("0.3")
            said = share_of_noise(
                0.3,
                participants=participants,
                coalition=coalition,
                sensitivity=2.0,
                grid=grid,
                coordinates=coordinates,
            )
            assert said >= exact * (1 - mpmath.mpf(10) ** -14)
            assert said == pytest.approx(float(exact), rel=1e-9)


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_what_is_promised_holds_with_any_participants_of_each_lap(data: st.DataObject) -> None:
    nodes = data.draw(st.integers(2, 12))
    withstood = data.draw(st.integers(1, nodes - 1))
    least = data.draw(st.integers(max(2, withstood + 1), nodes))
    laps = data.draw(st.integers(1, 4))
    every = data.draw(st.integers(1, 3))
    weights = tuple(data.draw(st.lists(st.floats(0.1, 10.0), min_size=laps, max_size=laps)))
    run = planned(
        nodes=nodes,
        laps=laps,
        noise_multiplier=4.0,
        coalition=withstood,
        least_nodes=least,
        weights=weights,
        parts=(every,),
    )
    each = (2.0 / 4.0) ** 2 * np.array(weights) / np.mean(weights)
    opened, took = [], np.zeros((laps, nodes), np.bool_)
    for lap in range(laps):
        participants = data.draw(st.integers(least, nodes))
        took[lap, :participants] = True
        share = share_of_noise(math.sqrt(each[lap]), participants=participants, coalition=withstood, sensitivity=2.0)
        opened.append(Lap(participants=participants, sensitivity=2.0, share=share))
    happened = LapsTranscript(nodes=nodes, opened=opened, took_part=took, withstood=withstood, parts=every)
    for coalition in range(nodes):
        assert happened.mu2(coalition) <= run.mu2(coalition) * (1.0 + 1e-9)
        assert happened.mu2(coalition, units=3) <= run.mu2(coalition, units=3) * (1.0 + 1e-9)


@pytest.mark.parametrize(("nodes", "withstood", "least"), [(8, 2, 5), (8, 2, 8), (5, 1, 3), (12, 4, 7), (2, 1, 2)])
def test_what_is_promised_is_what_the_worst_participation_costs(nodes: int, withstood: int, least: int) -> None:
    run = planned(nodes=nodes, laps=1, noise_multiplier=4.0, coalition=withstood, least_nodes=least)
    for coalition in range(nodes):
        worst = max(
            Lap(
                participants=participants,
                sensitivity=2.0,
                share=share_of_noise(0.5, participants=participants, coalition=withstood, sensitivity=2.0),
            ).mu2(coalition)
            for participants in range(least, nodes + 1)
        )
        assert run.mu2(coalition) == pytest.approx(worst, rel=1e-9)
        assert run.mu2(coalition) >= worst * (1.0 - 1e-11)


def test_a_unit_pays_for_the_laps_of_its_part_and_a_node_for_all() -> None:
    weights = (5.0, 1.0, 1.0, 1.0, 2.0)
    run = planned(nodes=4, laps=5, noise_multiplier=2.0, parts=(2, 3), weights=weights)
    assert run.mu2(1) == pytest.approx(8.0 / 2.0)  # laps 0, 2 and 4 of two parts; 0 and 3 of three cost less
    assert run.mu2(1, units=3) == pytest.approx(9.0 * 5.0)
    lap = Lap(participants=2, sensitivity=2.0, share=2.0)
    took = [[1, 1, 0], [1, 0, 1], [1, 1, 0]]
    happened = LapsTranscript(nodes=3, opened=[lap] * 3, took_part=took, withstood=1, parts=[2, 1, 2])
    assert happened.by_node(1).tolist() == pytest.approx([2.0, 2.0, 1.0])
    again = LapsTranscript(
        nodes=3, opened=[lap] * 3, took_part=took, withstood=1, parts=2, numbers=[0, 0, 1]
    )  # the first lap was opened twice
    assert again.by_node(1).tolist() == pytest.approx([2.0, 1.0, 1.0])


def test_laps_in_vain_and_persons_at_several_sites_cost_more() -> None:
    run = planned(nodes=6, laps=10, noise_multiplier=2.0, protects="person")
    dearer = planned(nodes=6, laps=10, noise_multiplier=2.0, protects="person", extra=2, sites=3)
    assert dearer.mu2(1) == pytest.approx(run.mu2(1) * 1.2 * 9.0)


def test_laps_in_vain_cost_as_much_as_the_dearest() -> None:
    run = planned(nodes=6, laps=2, noise_multiplier=2.0, weights=(3.0, 1.0), extra=5)
    assert run.mu2(1) == pytest.approx((1.5 + 0.5 + 5 * 1.5) * 1.0)


def test_what_is_promised_holds_on_the_coarsest_grid_that_laps_may_have() -> None:
    """Of many nodes, where a whole number of steps for each of them costs most."""
    nodes, coordinates = 400_000, 7
    grid = FINEST / math.sqrt(coordinates)
    for withstood, floor in ((1, 0.0), (200_000, 0.0), (1, 30.0)):
        run = planned(nodes=nodes, laps=1, noise_multiplier=4.0, coalition=withstood, floor=floor)
        for participants in (run.among.needed, nodes):
            share = share_of_noise(
                0.5,
                participants=participants,
                coalition=withstood,
                sensitivity=2.0,
                grid=grid,
                coordinates=coordinates,
            )
            lap = Lap(
                participants=participants,
                sensitivity=2.0,
                share=max(share, floor),
                grid=grid,
                coordinates=coordinates,
            )
            for coalition in (0, 1, withstood, withstood + 5, nodes - 1):
                assert lap.mu2(coalition) <= run.mu2(coalition)


def test_all_units_of_a_node_move_a_sum_together() -> None:
    lap = Lap(participants=3, sensitivity=2.0, share=10.0)
    happened = LapsTranscript(nodes=3, opened=[lap] * 2, took_part=np.ones((2, 3)), withstood=1, parts=2)
    assert happened.mu2(1) == pytest.approx(0.02)
    assert happened.mu2(1, units=7) == pytest.approx(2 * 0.02 * 49)


def test_a_floor_bounds_what_all_others_learn() -> None:
    run = planned(nodes=60, laps=20, noise_multiplier=60.0, coalition=1, floor=20.0)
    assert run.mu2(59) == pytest.approx(20 * (2.0 / 20.0) ** 2)
    assert run.mu2(1) == pytest.approx(20 * min((2.0 / 60.0) ** 2, (2.0 / 20.0) ** 2 / 30))


@pytest.mark.parametrize(
    ("nodes", "withstood", "alone"), [(8, 2, 2.7), (60, 1, 10.4), (128, 12, 15.9)], ids=["8", "60", "128"]
)
def test_all_others_together_learn_what_one_share_hides(nodes: int, withstood: int, alone: float) -> None:
    noise = 2.0 / gdp_mu(1.0, 1e-5)
    run = planned(nodes=nodes, laps=1, noise_multiplier=noise, coalition=withstood)
    assert LapsAccountant(run).epsilon(1e-5) == pytest.approx(1.0, abs=1e-6)
    assert LapsAccountant(run, nodes - 1).epsilon(1e-5) == pytest.approx(alone, abs=0.06)
    assert LapsAccountant(run, 0).epsilon(1e-5) <= 1.0


def test_a_guarantee_names_all_who_may_look() -> None:
    run = planned(nodes=8, laps=20, noise_multiplier=36.0)
    found = LapsAccountant(run).guarantee(1e-5)
    assert found.against == "another node"
    assert [each.against for each in found.also] == ["an outsider", "all others"]
    assert LapsAccountant(planned(nodes=20, laps=2, noise_multiplier=9.0)).guarantee(1e-5).against == (
        "a coalition of 4"
    )


def test_noise_without_far_values_is_part_of_delta() -> None:
    run = planned(nodes=4, laps=100, noise_multiplier=20.0)
    account = LapsAccountant(run)
    tail = run.tail(1)
    assert 0.0 < tail < 1e-18
    delta = 2.0 * tail
    assert account.epsilon(delta) == gdp_epsilon(math.sqrt(run.mu2(1)), delta - tail)
    assert account.delta(50.0) == tail + gdp_delta(math.sqrt(run.mu2(1)), 50.0)
    with pytest.raises(InvalidInput, match="far out"):
        account.epsilon(0.5 * tail)
    with pytest.raises(InvalidInput, match="far out"):
        LapsAccountant(planned(nodes=4, laps=1, noise_multiplier=0.05)).epsilon(1e-6)


@pytest.mark.parametrize("units", [None, 1, 5, 40])
def test_the_mass_far_out_is_that_of_the_share_that_a_change_moves_most(units: int | None) -> None:
    run = planned(nodes=9, laps=3, noise_multiplier=3.0, coalition=2, dimension=50)
    for coalition in range(9):
        worst, moved = 0.0, 0.0
        for participants in range(5, 10):
            share = share_of_noise(2.0 / 3.0, participants=participants, coalition=2, sensitivity=2.0)
            honest = max(1, participants - coalition)
            moved = max(moved, 2.0 * (units or 1) / honest / share)
            took = np.arange(9)[None, :] < participants
            lap = Lap(participants=participants, sensitivity=2.0, share=share)
            happened = LapsTranscript(nodes=9, opened=[lap] * 3, took_part=took.repeat(3, 0), withstood=2, dimension=50)
            worst = max(worst, happened.tail(coalition, units=units))
        exact = min(1.0, float(2 * 50 * 9 * 3 * mpmath.ncdf(moved - 12.0)))
        assert run.tail(coalition, units=units) >= worst * (1.0 - 1e-9)
        assert worst >= exact * (1.0 - 1e-9)
        assert worst <= exact * 2.0 or worst == 1.0


def test_simulated_noise_reaches_as_far_as_is_counted_on() -> None:
    """No number of numpy's is beyond this. Its ziggurat ends in x = -log1p(-u) / r beside y = -log1p(-v), 2 y > x^2."""
    begins, largest = 3.6541528853610088, -math.log1p(-(1.0 - 2.0**-53))
    ends = begins + min(largest / begins, math.sqrt(2.0 * largest))
    assert 12.2 < ends < 12.3
    moved = 1.0
    beyond = float(2 * mpmath.ncdf(moved - ends))  # what it cannot reach of a Gaussian that is moved
    assert tail_of_shares(1.0, moved) >= beyond
    assert tail_of_shares(1.0, ends) == 1.0


def test_the_dearest_lap_decides_on_the_mass_far_out() -> None:
    dear = planned(nodes=9, laps=2, noise_multiplier=1.0, weights=(3.0, 1.0))
    alike = planned(nodes=9, laps=2, noise_multiplier=1.0 / math.sqrt(1.5))
    assert dear.tail(8) == pytest.approx(alike.tail(8), rel=1e-9)


def test_a_transcript_whose_laps_had_other_participants_is_refused() -> None:
    lap = Lap(participants=3, sensitivity=2.0, share=10.0)
    with pytest.raises(InvalidInput, match="took_part"):
        LapsTranscript(nodes=3, opened=[lap], took_part=[[1, 1, 0]], withstood=1)


def test_many_nodes_with_a_large_budget_are_not_refused_and_all_others_are() -> None:
    run = planned(nodes=1000, laps=5, noise_multiplier=2.0 * math.sqrt(5) / gdp_mu(8.0, 1e-5))
    found = LapsAccountant(run).guarantee(1e-5)
    assert found.epsilon == pytest.approx(8.0, rel=1e-6)
    outsider, others = found.also
    assert outsider.epsilon is not None
    assert outsider.epsilon < 8.0
    assert others.epsilon is None
    assert "far out" in others.sentence()


def test_the_usual_coalition_and_number_of_nodes_leave_one_that_does_not_collude() -> None:
    for nodes in range(2, 200):
        laps = Laps(nodes=nodes)
        assert laps.withstood < laps.needed <= nodes


@pytest.mark.parametrize(
    ("changes", "parameter"),
    [
        ({"nodes": 1}, "nodes"),
        ({"laps": 0}, "laps"),
        ({"noise_multiplier": 0.0}, "noise_multiplier"),
        ({"coalition": 0}, "coalition"),
        ({"coalition": 8}, "coalition"),
        ({"least_nodes": 1}, "least_nodes"),
        ({"least_nodes": 9}, "least_nodes"),
        ({"coalition": 5, "least_nodes": 5}, "least_nodes"),
        ({"weights": (1.0,)}, "weights"),
        ({"weights": (0.0, 1.0)}, "weights"),
        ({"extra": -1}, "extra"),
        ({"floor": -1.0}, "floor"),
        ({"parts": (2,), "protects": "node"}, "parts"),
        ({"sites": 2}, "sites"),
        ({"sites": 9, "protects": "person"}, "sites"),
        ({"protects": "house"}, "protects"),
    ],
)
def test_what_is_not_covered_is_refused(changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        planned(**({"nodes": 8, "laps": 2, "noise_multiplier": 4.0} | changes))
    assert refused.value.parameter == parameter


@pytest.mark.parametrize("nodes", range(3, 9))
def test_reserved_tries_cost_what_the_dearest_lap_does_in_the_exact_view(nodes: int) -> None:
    """Laps of different weight, of which the dearest is opened three times, by linear algebra for each coalition."""
    weights, noise = (1.0, 4.0, 2.0), 6.0
    run = planned(nodes=nodes, laps=3, noise_multiplier=noise, weights=weights, extra=2, coalition=1)
    costs = (2.0 / noise) ** 2 * np.array(weights) / np.mean(weights)
    for size in range(nodes):
        worst = 0.0
        for participants in range(max(nodes // 2 + 1, 2), nodes + 1):
            colluders = set(range(1, min(size, participants - 1) + 1))
            total = 0.0
            for cost, times in zip(costs, (1, 3, 1), strict=True):
                share = share_of_noise(math.sqrt(cost), participants=participants, coalition=1, sensitivity=2.0)
                total += times * exact_mu2(colluders, participants, 0, 2.0, share)
            worst = max(worst, total)
        assert run.mu2(size) == pytest.approx(worst, rel=1e-6)
        assert run.mu2(size) >= worst * (1.0 - 1e-12)


@settings(max_examples=60, deadline=None)
@given(st.floats(5.0, 200.0), st.floats(0.2, 8.0), st.integers(0, 3), st.integers(1, 4))
def test_as_many_laps_as_keep_a_budget_and_not_one_more(noise: float, epsilon: float, extra: int, parts: int) -> None:
    run = planned(nodes=8, laps=1, noise_multiplier=noise, extra=extra, parts=(parts,))

    def spent(laps: int) -> float:
        return LapsAccountant(dataclasses.replace(run, laps=laps)).epsilon(1e-5)

    if spent(1) > epsilon:
        with pytest.raises(InvalidInput, match="not even one lap"):
            most_laps(run, epsilon, 1e-5)
        return
    found = most_laps(run, epsilon, 1e-5)
    assert spent(found) <= epsilon * (1.0 + 1e-9)
    assert spent(found + parts) > epsilon * (1.0 - 1e-9)
    # Each of the parts is in every q-th lap only.
    exact = (gdp_mu(epsilon, 1e-5) * noise / 2.0) ** 2
    assert found == pytest.approx(parts * math.floor(exact - extra + 1e-9), abs=parts)
