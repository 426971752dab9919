"""Plans for laps: they keep their budget and their time, and promise what was measured and no more."""

from __future__ import annotations

import dataclasses
import math
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.delays import Exponential, Mixture, Never, parse_delay
from skipring.errors import InvalidInput
from skipring.planning import Budget, LapsBudget, plan, plan_laps, verdict
from skipring.privacy import LapsAccountant, gdp_mu
from skipring.runs import read_run_file
from skipring.schedules import Laps
from skipring.simulation.build import build
from skipring.simulation.simulate import simulate

Command = Callable[[str], Any]
CLINICS = LapsBudget(
    among=Laps(nodes=20), delay=Exponential(1.0), hop_latency=0.01, epsilon=1.0, delta=1e-6, dimension=10, rows=400
)
ASKED = "plan --nodes 12 --delay gamma:0.25,1 --epsilon 4 --dimension 30 --rows 37 --no-figure --delta 1e-5"


def changed(**changes: Any) -> LapsBudget:
    return dataclasses.replace(CLINICS, **changes)


@pytest.mark.parametrize("changes", [{}, {"laps": 9, "extra": 2}, {"floor": 30.0}, {"among": Laps(nodes=3)}])
def test_planned_laps_keep_their_budget_and_not_much_less(changes: dict[str, Any]) -> None:
    found = plan_laps(changed(**changes))
    bare = dataclasses.replace(found.run, floor=0.0)
    assert LapsAccountant(found.run).epsilon(1e-6) <= 1.0
    assert LapsAccountant(bare).epsilon(1e-6) == pytest.approx(1.0, rel=1e-6)
    laps = changes.get("laps", 5) + changes.get("extra", 0)
    assert found.run.noise_multiplier == pytest.approx(2.0 * math.sqrt(laps) / gdp_mu(1.0, 1e-6), rel=1e-6)


def test_time_is_that_of_valid_laps_as_often_as_nodes_are_ready() -> None:
    """A clock of its own: laps of all nodes, until five had enough of them."""
    found = plan_laps(changed(among=Laps(nodes=6, coalition=1, least_nodes=5)))
    rng, needed, times = np.random.default_rng(5), 5, []
    for _ in range(4000):
        time, valid = 0.0, 0
        while valid < 5:
            delays = rng.exponential(1.0, 6)
            time += min(delays.max(), found.deadline.deadline) + 6 * 0.01
            valid += int(np.count_nonzero(delays <= found.deadline.deadline) >= needed)
        times.append(time)
    assert found.expected_time == pytest.approx(np.mean(times), abs=5.0 * float(np.std(times)) / math.sqrt(4000))


def test_with_more_time_fewer_nodes_are_left_out() -> None:
    late = []
    for time in (8.0, 12.0, 20.0, 100.0):
        found = plan_laps(changed(time=time))
        assert found.expected_time <= time
        late.append(found.deadline.skip_probability)
    assert late == sorted(late, reverse=True)
    assert late[-1] < 1e-9
    with pytest.raises(InvalidInput, match="5 laps take about"):
        plan_laps(changed(time=0.2))


def test_dead_nodes_are_not_waited_for() -> None:
    found = plan_laps(changed(delay=Mixture((0.9, 0.1), (Exponential(1.0), Never())), time=100.0))
    assert math.isfinite(found.deadline.deadline)
    assert found.deadline.skip_probability == pytest.approx(0.1, abs=1e-2)
    with pytest.raises(InvalidInput, match="nodes are ready some time"):
        plan_laps(changed(delay=Never()))


def test_what_is_promised_follows_from_rows_times_mu_over_parameters() -> None:
    """With a coalition of one and all nodes ready it is N mu / d, as it was measured."""
    alone = changed(among=Laps(nodes=20, coalition=1), time=1e3)
    found = plan_laps(alone)
    assert found.rows_times_mu == pytest.approx(20 * 400 * gdp_mu(1.0, 1e-6) / 10, rel=1e-6)
    for rows, excess in ((1, None), (29, None), (31, 0.05), (99, 0.05), (101, 0.02), (10**4, 0.02)):
        dimension = 20 * gdp_mu(1.0, 1e-6) * 10
        near = plan_laps(dataclasses.replace(alone, rows=rows * 10, dimension=round(dimension)))
        assert near.excess == excess, rows
    more = plan_laps(dataclasses.replace(alone, among=Laps(nodes=20, coalition=12)))
    floor = plan_laps(dataclasses.replace(alone, floor=2.0 * found.run.noise_multiplier / math.sqrt(19)))
    person = plan_laps(dataclasses.replace(alone, protects="person", rows_per_person=4))
    assert more.rows_times_mu == pytest.approx((found.rows_times_mu or 0.0) * math.sqrt(8 / 19), rel=1e-6)
    assert floor.rows_times_mu == pytest.approx((found.rows_times_mu or 0.0) / 2, rel=1e-6)
    assert person.rows_times_mu == pytest.approx((found.rows_times_mu or 0.0) / 4, rel=1e-6)
    hurried = plan_laps(dataclasses.replace(alone, time=8.0))
    assert (hurried.rows_times_mu or 0.0) < (found.rows_times_mu or 0.0) * (1 - hurried.deadline.skip_probability / 2)
    assert plan_laps(dataclasses.replace(alone, rows=10**5, laps=4)).excess is None
    assert plan_laps(dataclasses.replace(alone, rows=None)).rows_times_mu is None


def test_the_better_one_is_chosen() -> None:
    laps = plan_laps(CLINICS)
    assert laps.excess is not None
    values = {name: getattr(CLINICS, name) for name in ("delay", "hop_latency", "epsilon", "delta", "rows")}
    walk = plan(Budget(nodes=20, dimension=10, gradient_bound=1.0, diameter=10.0, time=60.0, **values))
    assert verdict(laps, walk)[0] == "laps"
    close = dataclasses.replace(walk, best=dataclasses.replace(walk.best, error_bound=0.9 * laps.excess))
    assert verdict(laps, close)[0] == "random-ring"
    unknown = plan_laps(changed(rows=None))
    assert verdict(unknown, close)[0] == "random-ring"
    assert verdict(unknown, walk)[0] == "laps"


def test_a_written_plan_is_what_a_simulation_of_it_does(skipring: Command, tmp_path: Path) -> None:
    file = tmp_path / "run.toml"
    data = skipring(f"{ASKED} --time 40 --coalition 3 --least-nodes 8 --floor 0.5 --write {file} --json").data
    assert (data["chosen"], data["run_file"]) == ("laps", str(file))
    laps = data["laps"]
    setup = build(read_run_file(file))
    assert isinstance(setup.schedule, Laps)
    assert (setup.data.nodes, setup.steps, setup.timeout) == (12, 5, laps["deadline"]["deadline"])
    assert (setup.schedule.withstood, setup.schedule.needed, setup.run.laps.floor) == (3, 8, 0.5)
    assert setup.noise_multiplier == pytest.approx(laps["noise_multiplier"], rel=1e-6)
    result = simulate(read_run_file(file).having(simulation={"runs": 20, "seed": 1, "evaluate_every": 100}))
    assert result.privacy.epsilon == pytest.approx(4.0, rel=1e-5)
    spread = result.summary().latency
    assert spread.mean == pytest.approx(laps["expected_time"], abs=5.0 * spread.std / math.sqrt(20))


def test_a_plan_begins_with_its_verdict_and_says_it_in_json(skipring: Command) -> None:
    data = skipring(f"{ASKED} --time 40 --json").data
    found = plan_laps(
        LapsBudget(
            among=Laps(nodes=12),
            delay=parse_delay("gamma:0.25,1"),
            hop_latency=0.01,
            epsilon=4.0,
            delta=1e-5,
            dimension=30,
            rows=37,
            time=40.0,
        )
    )
    laps, walk = data["laps"], data["walk"]
    assert laps["noise_multiplier"] == found.run.noise_multiplier
    assert laps["expected_time"] == found.expected_time
    assert laps["rows_times_mu_over_parameters"] == found.rows_times_mu
    assert laps["excess_log_loss"] == found.excess
    assert (laps["against"], laps["epsilon"]) == ("a coalition of 2", 4.0)
    assert [each["against"] for each in laps["also"]] == ["an outsider", "all others", "a coalition of 2"]
    assert (walk["schedule"], walk["method"], walk["epsilon"]) == ("random-ring", "tight", 4.0)
    answer = skipring(f"{ASKED} --time 40")
    text = " ".join(answer.out.split())
    assert text.index(" ".join(data["verdict"].split())) < text.index("noise multiplier")
    assert max(map(len, answer.out.splitlines())) <= 80


def test_one_schedule_can_be_asked_for(skipring: Command, tmp_path: Path) -> None:
    laps = skipring(f"{ASKED} --schedule laps --laps 7 --write {tmp_path}/run.toml --json").data
    assert (laps["chosen"], laps["walk"], laps["verdict"], laps["laps"]["laps"]) == ("laps", None, None, 7)
    assert tomllib.loads((tmp_path / "run.toml").read_text())["schedule"] == {"name": "laps"}
    ring = skipring(f"{ASKED} --schedule ring --time 40 --json").data
    assert (ring["chosen"], ring["laps"], ring["walk"]["schedule"]) == ("ring", None, "ring")
    nodes = skipring(f"{ASKED.replace('--rows 37', '--protects node')} --time 40 --json").data
    assert (nodes["chosen"], nodes["laps"]) == ("random-ring", None)


def test_laps_that_do_not_fit_leave_the_walk(skipring: Command) -> None:
    asked = f"{ASKED} --time 0.5 --hop-latency 0.02 --json".replace("gamma:0.25,1", "exponential:0.001")
    data = skipring(asked).data
    assert (data["chosen"], data["laps"]) == ("random-ring", None)
    assert data["why_not"]["laps"].startswith("time is too short: 5 laps take about 0.6")


@pytest.mark.parametrize(
    ("words", "option"),
    [
        ("--schedule laps --steps 12", "--steps"),
        ("--schedule laps --batch 12", "--batch"),
        ("--schedule laps --ready kept", "--ready"),
        ("--schedule laps --smoothness 1", "--smoothness"),
        ("--schedule laps --coalition 12", "--coalition"),
        ("--schedule laps --coalition 3 --least-nodes 3", "--least-nodes"),
        ("--schedule laps --laps 0", "--laps"),
        ("--schedule laps --time 0.01", "--time"),
        ("--schedule laps --time -1", "--time"),
        ("--schedule laps --delta 1e-60", "--delta"),
        ("--schedule laps --dimension 0", "--dimension"),
        ("--schedule laps --epsilon 0", "--epsilon"),
        ("--schedule laps --hop-latency -1", "--hop-latency"),
        ("--schedule laps --delay never", "--delay"),
        ("--schedule laps --protects person", "--rows-per-person"),
        ("--schedule ring --time 40 --laps 3", "--laps"),
        ("--schedule star --time 40", "--schedule"),
        ("--laps 3", "--time"),
    ],
)
def test_bad_input_gets_one_line(skipring: Command, words: str, option: str) -> None:
    answer = skipring(f"{ASKED} {words}")
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {option} ")
    assert answer.err.count("\n") == 1


def test_a_node_has_no_laps(skipring: Command) -> None:
    nodes = ASKED.replace("--rows 37", "--protects node")
    assert skipring(f"{nodes} --schedule laps").err.startswith("error: --protects node: ")
    assert skipring(f"{nodes} --time 40 --laps 3").err.startswith("error: --laps 3: ")
