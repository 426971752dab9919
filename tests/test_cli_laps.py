"""Laps in the calculators: the numbers are the accountant's, and bad input gets one line."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skipring.delays import parse_delay
from skipring.privacy import LapsAccountant, PlannedLaps, Protected, gdp_mu
from skipring.schedules import Laps
from skipring.timeouts import best_deadline

Command = Callable[[str], Any]
NOISE = "noise --schedule laps --delta 1e-5 --epsilon 1"
PRIVACY = "privacy --schedule laps"


def test_noise_for_a_budget_is_what_the_accountant_says(skipring: Command) -> None:
    said = skipring(f"{NOISE} --nodes 8 --coalition 2 --laps 20 --rows 50 --json").data
    assert said["noise_multiplier"] == pytest.approx(2.0 * math.sqrt(20) / gdp_mu(1.0, 1e-5), rel=1e-6)
    run = PlannedLaps(among=Laps(nodes=8, coalition=2), laps=20, noise_multiplier=said["noise_multiplier"])
    assert said["epsilon"] == 1.0
    assert 1.0 - 1e-6 < LapsAccountant(run).epsilon(1e-5) <= 1.0
    assert said["against"] == "a coalition of 2"
    assert said["noise_beside_a_server"] == pytest.approx(math.sqrt(8 / 6))
    outsider, others, whole = said["also"]
    assert (outsider["against"], others["against"], whole["protects"]) == ("an outsider", "all others", "node")
    assert outsider["epsilon"] == LapsAccountant(run, 0).epsilon(1e-5)
    assert others["epsilon"] == LapsAccountant(run, 7).epsilon(1e-5)
    assert whole["epsilon"] == LapsAccountant(run, units=50).epsilon(1e-5)


def test_epsilon_of_a_noise(skipring: Command) -> None:
    asked = f"{PRIVACY} --nodes 60 --noise-multiplier 30"
    said = skipring(f"{asked} --delta 1e-6 --json").data
    run = PlannedLaps(among=Laps(nodes=60), laps=5, noise_multiplier=30.0)
    assert said["epsilon"] == LapsAccountant(run).epsilon(1e-6)
    assert skipring(f"{asked} --epsilon {said['epsilon']} --json").data["delta"] == pytest.approx(1e-6, rel=1e-9)
    shown = skipring(f"{asked} --delta 1e-6").out
    assert "against a coalition of 12, which put together what they know" in " ".join(shown.split())


def test_reserved_tries_a_floor_parts_and_other_coalitions_count(skipring: Command) -> None:
    words = "--nodes 12 --laps 6 --noise-multiplier 9 --delta 1e-6 --extra 2 --floor 4 --batch 10 --rows 30"
    among = Laps(nodes=12, coalition=3, least_nodes=8)
    run = PlannedLaps(
        among=among,
        laps=6,
        noise_multiplier=9.0,
        extra=2,
        floor=4.0,
        unit=Protected(protects="record", parts=(3,)),
    )
    for who, colluders in (("", None), ("--observers 5", 5), ("--against outsider", 0)):
        said = skipring(f"{PRIVACY} {words} --coalition 3 --least-nodes 8 {who} --json").data
        assert said["epsilon"] == LapsAccountant(run, colluders).epsilon(1e-6)
    assert said["noise_beside_a_server"] == pytest.approx(math.sqrt(12) * 4.0 / 9.0)
    least = skipring(f"{NOISE} --nodes 12 --floor 1e4 --json").data["noise_multiplier"]
    assert least == skipring(f"{NOISE} --nodes 12 --json").data["noise_multiplier"]


def test_a_budget_and_a_noise_say_how_many_laps(skipring: Command) -> None:
    said = skipring(f"{PRIVACY} --nodes 8 --noise-multiplier 33.4 --delta 1e-5 --epsilon 1 --json").data
    assert said["laps"] == math.floor((gdp_mu(1.0, 1e-5) * 33.4 / 2.0) ** 2)
    one_more = skipring(f"{PRIVACY} --nodes 8 --noise-multiplier 33.4 --delta 1e-5 --laps {said['laps'] + 1} --json")
    assert said["epsilon"] <= 1.0 < one_more.data["epsilon"]


def test_the_deadline_of_a_law(skipring: Command) -> None:
    asked = "timeout --schedule laps --nodes 60 --delay exponential:1 --hop-latency 0.02"
    said = skipring(f"{asked} --json").data
    found = best_deadline(parse_delay("exponential:1"), 0.12, 60, 31)
    assert said == {
        "deadline": found.deadline,
        "skip_probability": found.skip_probability,
        "time": found.time,
        "contributions_per_time": found.contributions_per_time,
        "delay": "exponential:1",
        "hop_latency": 0.02,
        "nodes": 60,
    }
    assert "at least 31 of 60 nodes" in " ".join(skipring(asked).out.split())


def test_two_nodes_hear_that_a_sum_gains_nothing(skipring: Command) -> None:
    shown = " ".join(skipring(f"{NOISE} --nodes 2").out.split())
    assert "With two nodes, each hides its own contribution by itself (local releases)" in shown
    assert "all others" not in shown
    assert "by itself (local" not in skipring(f"{NOISE} --nodes 5").out.replace("\n", " ")


def test_a_delta_that_no_noise_keeps_is_blamed_and_not_epsilon(skipring: Command) -> None:
    refused = skipring("noise --schedule laps --nodes 8 --epsilon 1 --delta 1e-60").err
    assert refused.startswith("error: --delta 1e-60: must be above ")
    least = float(refused.partition("above ")[2].partition(":")[0])
    assert 1e-22 < least < 1e-20
    assert skipring(f"noise --schedule laps --nodes 8 --epsilon 1 --delta {2 * least} --json").data["epsilon"] == 1.0


def test_too_little_noise_is_said_to_be_too_little(skipring: Command) -> None:
    few = f"{PRIVACY} --nodes 8 --noise-multiplier 0.05"
    assert skipring(f"{few} --epsilon 1").err == (
        "error: --noise-multiplier 0.05: there is too little noise: no delta below 1 goes with epsilon 1\n"
    )
    assert skipring(f"{few} --delta 1e-5 --json").data["refused"].startswith("there is far too little noise")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("--nodes 1", "--nodes"),
        ("--nodes 4 --delta 2", "--delta"),
        ("--nodes 4 --coalition 4", "--coalition"),
        ("--nodes 4 --coalition 0", "--coalition"),
        ("--nodes 4 --least-nodes 1", "--least-nodes"),
        ("--nodes 9 --coalition 3 --least-nodes 3", "--least-nodes"),
        ("--nodes 4 --least-nodes 5", "--least-nodes"),
        ("--nodes 4 --laps 0", "--laps"),
        ("--nodes 4 --extra -1", "--extra"),
        ("--nodes 4 --floor -1", "--floor"),
        ("--nodes 4 --floor nan", "--floor"),
        ("--nodes 4 --protects node", "--protects"),
        ("--nodes 4 --rows 0", "--rows"),
        ("--nodes 4 --rows -1", "--rows"),
        ("--nodes 4 --rows " + "9" * 190, "--rows"),
        ("--nodes 4 --steps 20", "--steps"),
        ("--nodes 4 --skip 0.1", "--skip"),
        ("--nodes 4 --distance 2", "--distance"),
        ("--nodes 4 --closing 2", "--closing"),
        ("--nodes 4 --against skipped-node", "--against"),
        ("--nodes 4 --against outsider --observers 2", "--observers"),
        ("--nodes 4 --observers 4", "--observers"),
        ("--nodes 4 --method paper", "--method"),
        ("--nodes 4 --delta-prime 1e-7", "--delta-prime"),
    ],
)
def test_bad_input_gets_one_line(skipring: Command, words: str, option: str) -> None:
    of_one_line(skipring(f"{NOISE} {words}"), option)


@pytest.mark.parametrize(
    ("words", "option"),
    [
        (f"{PRIVACY} --nodes 4 --noise-multiplier 3", "--delta"),
        (f"{PRIVACY} --nodes 4 --noise-multiplier 3 --laps 2 --delta 1e-5 --epsilon 1", "--delta"),
        (f"{PRIVACY} --nodes 4 --noise-multiplier 1e-3 --delta 1e-5 --epsilon 1", "--noise-multiplier"),
        (f"{PRIVACY} --nodes 4 --noise-multiplier 0 --delta 1e-5", "--noise-multiplier"),
        (f"{PRIVACY} --nodes 4 --noise-multiplier 1e-300 --delta 1e-5", "--noise-multiplier"),
        ("timeout --schedule laps --delay exponential:1", "--nodes"),
        ("timeout --schedule laps --nodes 4 --delay never", "--delay"),
        ("timeout --schedule laps --nodes 4 --delay exponential:1 --hop-latency -1", "--hop-latency"),
        ("timeout --schedule laps --nodes 4 --delay exponential:1 --hop-latency nan", "--hop-latency"),
        ("timeout --schedule laps --nodes 4 --delay exponential:1 --skip 0.1", "--skip"),
        ("timeout --schedule star --nodes 4 --delay exponential:1", "--schedule"),
        ("timeout --delay exponential:1 --coalition 2", "--coalition"),
        ("noise --schedule ring --nodes 4 --steps 8 --skip 0.1 --epsilon 1 --delta 1e-5 --laps 3", "--laps"),
        ("noise --schedule ring --nodes 4 --steps 8 --skip 0.1 --epsilon 1 --delta 1e-5 --floor 3", "--floor"),
        ("noise --schedule ring --nodes 4 --skip 0.1 --epsilon 1 --delta 1e-5", "--steps"),
        ("noise --schedule ring --nodes 4 --steps 8 --epsilon 1 --delta 1e-5", "--skip"),
        ("noise --schedule star --nodes 4 --steps 8 --skip 0.1 --epsilon 1 --delta 1e-5", "--schedule"),
    ],
)
def test_what_does_not_go_together_gets_one_line(skipring: Command, words: str, option: str) -> None:
    of_one_line(skipring(words), option)


@pytest.mark.parametrize(
    "change",
    ["privacy.noise_multiplier=1e13", "privacy.noise_multiplier=1e100", "privacy.epsilon=1e-300", "laps.floor=1e20"],
)
def test_noise_that_does_not_fit_into_the_sums_gets_one_line(skipring: Command, tmp_path: Path, change: str) -> None:
    (tmp_path / "run.toml").write_text('[data]\nname = "breast-cancer"\nnodes = 8\n[schedule]\nname = "laps"\n')
    of_one_line(skipring(f"simulate run.toml --set {change}"), "privacy.noise_multiplier")


def of_one_line(answer: Any, option: str) -> None:
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {option} ")
    assert answer.err.count("\n") == 1
