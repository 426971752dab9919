"""`skipring laps`: the numbers are the accountant's, and bad input gets one line."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest

from skipring.delays import parse_delay
from skipring.privacy import LapsAccountant, PlannedLaps, gdp_mu
from skipring.schedules import Laps
from skipring.timeouts import best_deadline

Command = Callable[[str], Any]


def test_noise_for_a_budget_is_what_the_accountant_says(skipring: Command) -> None:
    said = skipring("laps --nodes 8 --coalition 2 --laps 20 --epsilon 1 --delta 1e-5 --units 100 --json").data
    assert said["noise_multiplier"] == pytest.approx(2.0 * math.sqrt(20) / gdp_mu(1.0, 1e-5), rel=1e-6)
    run = PlannedLaps(among=Laps(nodes=8, coalition=2), laps=20, noise_multiplier=said["noise_multiplier"])
    assert said["epsilon"] == LapsAccountant(run).epsilon(1e-5) <= 1.0
    assert said["against"] == "a coalition of 2"
    assert said["noise_beside_a_server"] == pytest.approx(math.sqrt(8 / 6))
    outsider, others, whole = said["also"]
    assert (outsider["against"], others["against"], whole["protects"]) == ("an outsider", "all others", "node")
    assert outsider["epsilon"] == LapsAccountant(run, 0).epsilon(1e-5)
    assert others["epsilon"] == LapsAccountant(run, 7).epsilon(1e-5)
    assert whole["epsilon"] == LapsAccountant(run, units=100).epsilon(1e-5)


def test_epsilon_of_a_noise_and_the_deadline_of_a_law(skipring: Command) -> None:
    asked = "laps --nodes 60 --noise-multiplier 30 --delta 1e-6 --delay exponential:1 --hop-latency 0.02"
    said = skipring(f"{asked} --json").data
    run = PlannedLaps(among=Laps(nodes=60), laps=5, noise_multiplier=30.0)
    assert said["epsilon"] == LapsAccountant(run).epsilon(1e-6)
    found = best_deadline(parse_delay("exponential:1"), 0.12, 60, 31)
    assert said["deadline"] == {
        "deadline": found.deadline,
        "skip_probability": found.skip_probability,
        "time": found.time,
        "contributions_per_time": found.contributions_per_time,
    }
    shown = skipring(asked).out
    assert "against a coalition of 12, which put together what they know" in " ".join(shown.split())


def test_two_nodes_hear_that_a_sum_gains_nothing(skipring: Command) -> None:
    shown = " ".join(skipring("laps --nodes 2 --epsilon 1 --delta 1e-5").out.split())
    assert "each hides its own contribution by itself" in shown
    assert "all others" not in shown


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("--nodes 4 --delta 1e-5", "--epsilon"),
        ("--nodes 4 --delta 1e-5 --epsilon 1 --noise-multiplier 3", "--epsilon"),
        ("--nodes 1 --delta 1e-5 --epsilon 1", "--nodes"),
        ("--nodes 4 --delta 2 --epsilon 1", "--delta"),
        ("--nodes 4 --delta 1e-5 --epsilon 1 --coalition 4", "--coalition"),
        ("--nodes 4 --delta 1e-5 --epsilon 1 --least-nodes 1", "--least-nodes"),
        ("--nodes 4 --delta 1e-5 --epsilon 1 --laps 0", "--laps"),
        ("--nodes 4 --delta 1e-5 --epsilon 1 --protects node", "--protects"),
        ("--nodes 4 --delta 1e-5 --noise-multiplier 0", "--noise-multiplier"),
        ("--nodes 4 --delta 1e-5 --epsilon 1 --delay never", "--delay"),
        ("--nodes 4 --delta 1e-5 --epsilon 1 --units 0", "--units"),
        ("--nodes 4 --delta 1e-5 --epsilon 1 --units -1", "--units"),
        ("--nodes 4 --delta 1e-5 --epsilon 1 --units " + "9" * 190, "--units"),
        ("--nodes 4 --delta 1e-5 --noise-multiplier 1e-300", "--noise-multiplier"),
        ("--nodes 4 --delta 1e-5 --epsilon 1 --hop-latency -1", "--hop-latency"),
        ("--nodes 4 --delta 1e-5 --epsilon 1 --hop-latency nan --delay exponential:1", "--hop-latency"),
    ],
)
def test_bad_input_gets_one_line(skipring: Command, words: str, option: str) -> None:
    answer = skipring(f"laps {words}")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {option} ")
    assert answer.err.count("\n") == 1
