"""Simulated laps: who takes part, what time passes, how much noise there is, and what the record says of it."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest

from skipring._numbers import upper
from skipring.data import from_arrays
from skipring.delays import Availability, PairLatency, parse_delay
from skipring.errors import InvalidInput
from skipring.learning import LapState, on_grid
from skipring.models import load_model
from skipring.privacy import ALL_OTHERS, OUTSIDER, WHOLE_NODE, LapsAccountant, Protected, gdp_epsilon
from skipring.report.result import result_notes, result_rows
from skipring.runs import Known, parse_run, resolve, with_changes
from skipring.simulation import Result, simulate
from skipring.simulation import laps as simulated_laps
from skipring.simulation.build import build
from skipring.simulation.engine import prepare_runs, run_one
from skipring.simulation.lap_account import laps_that_happened, planned_laps
from skipring.simulation.lap_clock import who_takes_part
from skipring.simulation.laps import LapRuns, _noise, lap_rule, share_in
from skipring.simulation.stragglers import Drawn, draw_hops
from skipring.timeouts import best_deadline


def values(**sections: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {
        "data": {"name": "breast-cancer", "nodes": 6},
        "schedule": {"name": "laps"},
        "privacy": {"epsilon": 1.0, "delta": 1e-4},
        "simulation": {"runs": 2, "seed": 3, "evaluate_every": 1},
    }
    return {name: given.get(name, {}) | sections.get(name, {}) for name in given | sections}


def setup_of(**sections: dict[str, Any]) -> Any:
    return build(parse_run(values(**sections)))


def test_noise_keeps_the_budget_and_no_less() -> None:
    setup = setup_of()
    account = LapsAccountant(planned_laps(setup))
    assert account.epsilon(1e-4) <= 1.0
    assert account.epsilon(1e-4) == pytest.approx(1.0, rel=1e-6)
    recorded = run_one(setup, 0)
    happened = laps_that_happened(setup, recorded)
    assert gdp_epsilon(math.sqrt(happened.mu2(setup.schedule.withstood)), 1e-4) == pytest.approx(1.0, rel=1e-6)


def test_a_sum_has_the_noise_of_the_formula() -> None:
    """5000 sums of one lap: the deviation of each coordinate is within four standard errors, 4 %."""
    setup = setup_of()
    rule, runs = lap_rule(setup), prepare_runs(setup)
    assert isinstance(runs, LapRuns)
    everyone = np.arange(6)
    share = share_in(setup, rule, 0, 6)
    kind = rule.sum_of(0)
    mu = rule.mu * math.sqrt(rule.weights[0])
    assert share * math.sqrt(6) == pytest.approx(kind.sensitivity / mu * math.sqrt(6 / 5), rel=1e-6)
    rng = np.random.default_rng(1)
    drawn = np.array([_noise(rule, 0, share, 6, rng) for _ in range(5000)]) * kind.grid / kind.scales
    assert drawn.std(axis=0) == pytest.approx(np.full(len(kind.scales), share * math.sqrt(6)), rel=0.05)
    exact, rows = runs._sum(rule, rule.start(), everyone)
    data = setup.data
    again = sum(
        rule.contribution(rule.start(), on_grid(data.features[low:high]), data.labels[low:high])
        for low, high in zip(data.start[:-1], data.start[1:], strict=True)
    )
    assert np.array_equal(exact, again)
    assert rows == len(data.labels)


def test_each_lap_has_the_noise_that_its_record_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its own share, of each node that takes part, also where few numbers are drawn at a time."""
    setup = setup_of(delay={"law": "exponential:1", "timeout": 1.5}, laps={"floor": 3.0})
    drawn: list[tuple[int, float, int]] = []

    def noted(rule: Any, lap: int, share: float, nodes: int, rng: Any) -> int:
        drawn.append((lap, share, nodes))
        return 0

    monkeypatch.setattr(simulated_laps, "_noise", noted)
    output = run_one(setup, 0)
    opened = laps_that_happened(setup, output).opened
    assert drawn == [(number, lap.share, lap.participants) for number, lap in enumerate(opened)]
    assert drawn[0][1] != drawn[1][1]
    assert planned_laps(setup).dimension == len(lap_rule(setup).sum_of(0).scales)
    monkeypatch.undo()
    rule = lap_rule(setup)
    all_at_once = _noise(rule, 1, 2.0, 5, np.random.default_rng(1))
    monkeypatch.setattr(simulated_laps, "_ROOM", 1)
    assert np.array_equal(_noise(rule, 1, 2.0, 5, np.random.default_rng(1)), all_at_once)


def test_time_is_the_slowest_or_the_deadline_and_three_round_trips() -> None:
    slow = {"stragglers": {"speeds": [1.0, 1.0, 1.0, 1.0, 2.0, 10.0]}}
    patient = run_one(setup_of(delay={"law": "constant:0.3", "timeout": math.inf}, **slow), 0)
    assert np.diff(patient.latency) == pytest.approx(np.full(5, 3.0 + 0.06))
    assert patient.updated.reshape(5, 6).all()
    short = run_one(setup_of(delay={"law": "constant:0.3", "timeout": 0.5}, **slow), 0)
    assert np.diff(short.latency) == pytest.approx(np.full(5, 0.5 + 0.06))
    assert short.updated.reshape(5, 6).sum(axis=0).tolist() == [5, 5, 5, 5, 0, 0]
    assert short.skips.tolist() == [0, 0, 0, 0, 5, 5]


def test_a_try_with_too_few_nodes_costs_time_and_no_privacy() -> None:
    setup = setup_of(delay={"law": "exponential:1", "timeout": 0.9}, laps={"least_nodes": 5})
    output = run_one(setup, 0)
    took_part, tries = output.updated.reshape(5, 6), int(output.turns[0])
    assert tries > 5
    assert took_part.sum(axis=1).min() >= 5
    assert output.latency[-1] > tries * 0.06 + 0.9 * (tries - 5)
    happened = laps_that_happened(setup, output)
    assert len(happened.opened) == 5
    assert happened.mu2(1) == pytest.approx(planned_laps(setup).mu2(1) * took_part.sum(axis=0).max() / 5, rel=0.2)


class Clock:
    """Laps as one would write them down: node by node, with moments kept in dictionaries."""

    def __init__(self, setup: Any, phase: float) -> None:
        self.setup, self.phase, self.now = setup, phase, 0.0
        self.ready_at = dict.fromkeys(range(6), 0.0) if setup.lateness.ready == "ahead" else {}

    def reachable(self, node: int, moment: float) -> float:
        trace = self.setup.lateness.availability
        if trace is None:
            return moment
        which = node % (len(trace.first) - 1)
        for number in range(10_000):
            for at in range(trace.first[which], trace.first[which + 1]):
                begin, end = (each[at] + number * trace.period - self.phase for each in (trace.begins, trace.ends))
                if end > moment:
                    return float(max(begin, moment))
        raise AssertionError("never")

    def lap(self, drawn: Any, tries: int, rng: np.random.Generator) -> list[bool] | None:
        """Go through one try; return who took part, or None if there were too few."""
        setup, lateness, deadline = self.setup, self.setup.lateness, self.setup.timeout
        begins, in_time, slowest = {}, [], 0.0
        for node in range(6):
            if drawn.dead[node]:
                self.ready_at.pop(node, None)
            if drawn.dead[node] or drawn.lost[node]:
                slowest = deadline
                continue
            if lateness.ready == "fresh" or node not in self.ready_at:
                self.ready_at[node] = self.reachable(node, self.now) + drawn.delays[node]
            begins[node] = self.reachable(node, max(self.now, self.ready_at[node]))
            done = begins[node] + drawn.computing[node]
            if done <= self.now + deadline:
                in_time.append(node)
            slowest = max(slowest, min(done - self.now, deadline))
        sending = 6 * setup.run.delay.hop_latency
        if lateness.latency is not None:
            seconds = lateness.latency.seconds[rng.integers(len(lateness.latency.seconds))]
            sending = 0.0
            if len(in_time) > 1:
                leader = in_time[tries % len(in_time)]
                there = [seconds[leader % 4, node % 4] for node in in_time if node != leader]
                back = [seconds[node % 4, leader % 4] for node in in_time if node != leader]
                sending = 3 * max(one + other for one, other in zip(there, back, strict=True))
        enough = len(in_time) >= setup.schedule.needed
        for node, begin in begins.items():
            done = begin + drawn.computing[node]
            if node in in_time:
                if enough and lateness.ready == "ahead":
                    self.ready_at[node] = done + drawn.delays[node]
                elif enough:
                    del self.ready_at[node]
            elif begin <= self.now + deadline:
                self.ready_at[node] = done
        self.now += slowest + sending
        return [node in in_time for node in range(6)] if enough else None


SHARED_DAY = Availability(
    np.array([0.0, 4.0, 1.0, 2.5, 0.5]), np.array([1.0, 6.0, 2.0, 7.5, 8.0]), np.array([0, 2, 4, 5]), 8.0
)
FAR_APART = PairLatency(np.random.default_rng(5).uniform(0.01, 0.3, (3, 4, 4)))


@pytest.mark.parametrize("ready", ["fresh", "kept", "ahead"])
@pytest.mark.parametrize("compute", [None, "exponential:0.3"])
@pytest.mark.parametrize(
    "followed", [{}, {"availability": SHARED_DAY}, {"latency": FAR_APART}], ids=["", "traced", "far"]
)
@pytest.mark.parametrize("lossy", [False, True])
def test_the_clock_is_that_of_a_plain_loop(ready: str, compute: str | None, followed: Any, lossy: bool) -> None:
    setup = setup_of(
        delay={"law": "exponential:1", "timeout": 1.1137, "hop_latency": 0.0217, "ready": ready},
        compute={"law": compute},
        laps={"laps": 40},
        privacy={"noise_multiplier": 50.0, "epsilon": None},
        stragglers={"die": 0.05, "revive": 0.3, "lost_link": 0.05} if lossy else {},
    )
    setup = dataclasses.replace(setup, lateness=dataclasses.replace(setup.lateness, **followed))
    for number in range(2):
        output = run_one(setup, number)
        rng, _ = setup.streams(number)
        plain = Clock(setup, rng.random() * 8.0 if "availability" in followed else 0.0)
        times, took_part, tries = [0.0], list[list[bool]](), 0
        drawn: Any = ()
        while len(took_part) < 40:
            if tries % 40 == 0:
                law, nodes = setup.lateness.compute, np.tile(np.arange(6), 40)
                drawn = draw_hops(setup.delay, nodes, 6, setup.stragglers, rng, law)
            low = tries % 40 * 6
            tries += 1
            who = plain.lap(Drawn(*[each[low : low + 6] for each in drawn]), tries, rng)
            if who is not None:
                took_part.append(who)
                times.append(plain.now)
        assert output.latency == pytest.approx(np.array(times))
        assert output.turns.tolist() == [tries] * 6
        assert output.skips.tolist() == (tries - np.sum(took_part, axis=0)).tolist()
        if number == 0:
            assert output.updated.reshape(40, 6).tolist() == took_part
    assert tries > 40 or ready == "ahead"


def test_nodes_that_remember_are_left_out_less_and_need_a_deadline() -> None:
    law = {"law": "lomax:3,2", "timeout": 0.3}
    fresh, kept, ahead = (
        run_one(setup_of(delay=law | {"ready": ready}, laps={"laps": 30, "least_nodes": 2, "coalition": 1}), 0)
        for ready in ("fresh", "kept", "ahead")
    )
    assert fresh.skips.sum() / fresh.turns.sum() > kept.skips.sum() / kept.turns.sum()
    assert ahead.latency[-1] < kept.latency[-1] < fresh.latency[-1]
    for laps in ({}, {"deadline": "most-rows"}):
        with pytest.raises(InvalidInput, match="say how long a lap waits") as refused:
            setup_of(delay={"law": "lomax:3,2", "ready": "kept"}, laps=laps)
        assert refused.value.parameter == "laps.deadline"


def test_nodes_with_more_rows_than_an_update_takes_turn_their_parts() -> None:
    setup = setup_of(learning={"batch": 40})
    assert setup.part_counts == (2,)
    whole, parts = LapRuns(setup_of()), LapRuns(setup)
    rule = lap_rule(setup)
    rows = [parts._sum(rule, LapState(lap, np.zeros(30), np.zeros(30)), np.arange(6))[1] for lap in (1, 2)]
    assert sum(rows) == whole._sum(lap_rule(setup), LapState(1, np.zeros(30), np.zeros(30)), np.arange(6))[1]
    assert planned_laps(setup).mu2(1) < planned_laps(setup_of(privacy={"noise_multiplier": 5.0, "epsilon": None})).mu2(
        1
    )


def test_how_many_rows_a_person_has_decides_nothing() -> None:
    """A person loses rows; what is divided by, and the noise, stay the same."""
    rng = np.random.default_rng(1)
    x, groups = rng.normal(size=(60, 3)), np.arange(60) % 3
    persons = np.arange(60) // 6 * 3 + groups  # two rows each
    few = (persons % 2 == 0) & (np.arange(60) % 6 >= 3)  # the second row of every other person
    counts, rows = [], set()
    for batch in (None, 6):
        for kept in (np.ones(60, np.bool_), ~few):
            run = parse_run(
                values(
                    data={"name": "arrays", "rows_per_person": 2, "nodes": None},
                    privacy={"protects": "person"},
                    learning={"batch": batch},
                )
            )
            setup = build(run, from_arrays(x[kept], (x[kept, 0] > 0).astype(int), groups[kept], persons[kept]))
            rows.add(int(setup.data.sizes.sum()))
            kind, rule = lap_rule(setup).sum_of(1), lap_rule(setup)
            opened = laps_that_happened(setup, run_one(setup, 0)).opened
            assert opened[1].sensitivity == 2.0 * kind.sensitivity
            assert opened[1].mu2(1) == pytest.approx(rule.mu**2 * rule.weights[1])
            runs = LapRuns(setup)
            found = [runs._sum(rule, LapState(lap, np.zeros(3), np.zeros(3)), np.arange(3))[1] for lap in (1, 2, 3)]
            counts.append((*found, setup.noise_multiplier))
    assert len(rows) == 2
    assert counts[0] == counts[1]
    assert counts[2] == counts[3]


def test_more_rows_than_64_bits_hold_and_noise_beyond_its_grid_are_refused() -> None:
    with pytest.raises(InvalidInput, match="so much noise"):
        run_one(setup_of(privacy={"noise_multiplier": 1e4, "epsilon": None}), 0)
    setup = setup_of()
    runs = LapRuns(setup)
    runs._counts = runs._counts * 100_000  # as if each node had more than fit
    with pytest.raises(InvalidInput, match="64 bits"):
        runs.run(setup, 0)


def test_what_is_printed_is_said_of_laps(tmp_path: Any) -> None:
    result = simulate(values(data={"nodes": 12}), save_model=tmp_path / "model.skip")
    rows, notes = dict(result_rows(result)), " ".join(result_notes(result))
    account = LapsAccountant(planned_laps(setup_of(data={"nodes": 12})), 11)
    assert rows["epsilon, promised, a coalition of 2"] == "1"
    assert rows["epsilon, all others"] == upper(account.epsilon(1e-4))
    assert float(str(rows["epsilon, an outsider"])) < 1.0
    assert "An outsider sees the same, but knows none of the noise, and learns less." in notes
    assert not any("pair" in name for name in rows)
    assert "pair" not in notes
    assert "not counted" not in notes
    rule, setup = lap_rule(setup_of(data={"nodes": 12})), setup_of(data={"nodes": 12})
    share = share_in(setup, rule, 4, 12)
    assert rows["noise std on the gradient"] == pytest.approx(share * math.sqrt(12) / 455)
    said = load_model(tmp_path / "model.skip").facts.guarantee
    assert (said.protects, said.against, said.method) == ("record", "a coalition of 2", "laps")
    assert [each.against for each in said.also[:1]] == ["an outsider"]


def test_noise_that_must_stay_secret_is_not_drawn_where_delays_are(monkeypatch: pytest.MonkeyPatch) -> None:
    """Results tell of delays: a generator that both came from would tell of noise, too."""
    setup = setup_of(delay={"law": "exponential:1", "timeout": math.inf})
    of_delays, of_noise = np.random.default_rng(1), np.random.default_rng(2)
    monkeypatch.setattr(type(setup), "streams", lambda self, number: (of_delays, of_noise))
    run_one(setup, 0)
    alone = np.random.default_rng(1)
    who_takes_part(setup, setup.schedule, alone)
    assert of_delays.random() == alone.random()
    assert of_noise.random() != np.random.default_rng(2).random()


def test_two_runs_of_a_saved_model_differ_in_their_noise(tmp_path: Any) -> None:
    one, two = (simulate(values(), save_model=tmp_path / name).models[0] for name in ("one.skip", "two.skip"))
    assert not np.any(one == two)


def test_many_threads_give_the_same_bytes_and_a_folder_says_what_happened(tmp_path: Any) -> None:
    one = simulate(values(), threads=1)
    two = simulate(values(), threads=2, out=tmp_path / "run")
    assert np.array_equal(one.test_error, two.test_error)
    assert np.array_equal(one.models, two.models)
    assert one.privacy.learns_by == "laps"
    assert one.privacy.epsilon == pytest.approx(1.0, rel=1e-6)
    assert one.privacy.holds_for_every_pair
    again = Result.load(tmp_path / "run")
    assert np.array_equal(again.test_error, two.test_error)
    assert again.privacy == two.privacy
    assert again.resolved == two.resolved


def test_laps_learn_more_than_the_walk_at_the_same_epsilon() -> None:
    """Median over eight splits and runs of the same rows, at epsilon 1."""
    losses = {}
    for walks in ({"name": "laps"}, {"name": "random-ring", "steps": 180}):
        run = values(schedule=walks, simulation={"runs": 8, "evaluate_every": 180})
        name = walks["name"]
        losses[name] = float(np.median(simulate(run).loss[:, -1]))
    assert losses["laps"] < losses["random-ring"]


@pytest.mark.parametrize(
    ("sections", "parameter"),
    [
        ({"privacy": {"protects": "node"}}, "privacy.protects"),
        ({"laps": {"coalition": 6}}, "laps.coalition"),
        ({"laps": {"least_nodes": 1}}, "laps.least_nodes"),
        ({"learning": {"clip_noisy": 1.0}}, "learning.clip_noisy"),
        ({"compute": {"law": "constant:1", "late": "fewer-rows"}}, "compute.late"),
        ({"compute": {"law": "constant:1", "late": "decline"}}, "compute.late"),
        ({"schedule": {"name": "federated"}, "delay": {"ready": "kept"}}, "delay.ready"),
        ({"schedule": {"steps": 5}}, "schedule.steps"),
        ({"laps": {"laps": 0}}, "laps.laps"),
        ({"laps": {"deadline": 0.0}}, "laps.deadline"),
        ({"laps": {"deadline": 0.5}, "delay": {"timeout": 0.5}}, "laps.deadline"),
        ({"laps": {"deadline": "most-rows"}, "delay": {"law": "exponential:1", "skip": 0.5}}, "laps.deadline"),
        ({"laps": {"floor": -1.0}}, "laps.floor"),
        ({"gossip": {"rounds": 3}}, "gossip.rounds"),
        ({"federated": {"channels": 3}}, "federated.channels"),
        ({"schedule": {"name": "ring"}, "laps": {"coalition": 2}}, "laps.coalition"),
        ({"schedule": {"name": "gossip"}, "laps": {"laps": 3}}, "laps.laps"),
    ],
)
def test_what_laps_do_not_do_is_refused(sections: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        simulate(values(**sections))
    assert refused.value.parameter == parameter


def test_a_deadline_that_nobody_meets_is_refused() -> None:
    with pytest.raises(InvalidInput, match="the 4 of 6 nodes that it needs") as refused:
        simulate(values(delay={"law": "constant:1", "timeout": 0.5}))
    assert refused.value.parameter == "delay.timeout"
    with pytest.raises(InvalidInput, match="the 4 of 6 nodes that it needs") as refused:
        simulate(values(delay={"law": "exponential:1"}, laps={"deadline": 0.01}))
    assert refused.value.parameter == "laps.deadline"
    with pytest.raises(InvalidInput, match="fewer than 4 of 6 nodes were ready") as refused:
        simulate(
            values(delay={"law": "constant:1"}, laps={"deadline": 0.5}, stragglers={"speeds": [0.1] * 3 + [1] * 3})
        )
    assert refused.value.parameter == "laps.deadline"


def test_a_deadline_is_the_key_s_or_that_with_the_most_rows() -> None:
    law = {"law": "exponential:1", "hop_latency": 0.02}
    given = setup_of(delay=law, laps={"deadline": 1.5})
    assert given.timeout == 1.5
    best = best_deadline(parse_delay("exponential:1"), 0.12, 6, 4).deadline
    assert setup_of(delay=law).timeout == setup_of(delay=law, laps={"deadline": "most-rows"}).timeout == best


def test_a_floor_bounds_what_all_others_learn() -> None:
    """Each share has at least the floor's noise over what one unit contributes; the record before and after says so."""
    setup = setup_of(laps={"floor": 12.0, "laps": 3})
    planned, rule = planned_laps(setup), lap_rule(setup)
    assert (planned.laps, planned.floor) == (3, 12.0)
    happened = laps_that_happened(setup, run_one(setup, 0))
    for lap, opened in enumerate(happened.opened):
        contributed = 0.5 * rule.sum_of(lap).sensitivity
        assert opened.share == share_in(setup, rule, lap, 6) >= 12.0 * contributed
        assert opened.mu2(5) <= (2.0 / 12.0) ** 2 * (1.0 + 1e-6)
    assert happened.mu2(5) <= planned.mu2(5) * (1.0 + 1e-6) <= 3 * (2.0 / 12.0) ** 2 * (1.0 + 2e-6)
    # Without it the same epsilon against the coalition leaves less against all others.
    bare = setup_of(laps={"laps": 3})
    assert bare.noise_multiplier == setup.noise_multiplier
    assert planned_laps(bare).mu2(5) > planned.mu2(5)
    with_floor = simulate(values(laps={"floor": 12.0, "laps": 3})).privacy
    others = with_floor.promised.beside(ALL_OTHERS)
    assert others is not None
    assert others.epsilon == LapsAccountant(planned, 5).epsilon(1e-4)
    assert with_floor.epsilon is not None
    assert with_floor.epsilon <= 1.0


def test_a_file_about_several_schedules_keeps_to_the_one_that_is_asked_for(tmp_path: Any) -> None:
    file = tmp_path / "run.toml"
    file.write_text('[schedule]\nname = "ring"\nsteps = 12\n[gossip]\nrounds = 3\n[laps]\ncoalition = 2\n')
    assert with_changes(file, ["schedule.name=laps"]).schedule.steps is None
    assert with_changes(file, ["schedule.name=laps"]).gossip.rounds == 2
    walk = with_changes(file, ["schedule.name=random-ring"])
    assert (walk.schedule.steps, walk.laps.coalition) == (12, None)
    both = with_changes(file, ["schedule.name=laps", "schedule.steps=10"])
    with pytest.raises(InvalidInput, match=r"laps\.laps"):
        resolve(both, Known(features=3, classes=2), 6)


def test_the_record_of_laps_has_their_weights_and_all_numbers_of_parts() -> None:
    setup = setup_of(data={"split": "power-law"}, learning={"batch": 30})
    planned = planned_laps(setup)
    assert len(setup.part_counts) > 1
    assert planned.weights == lap_rule(setup).weights == (0.25, 0.1875, 0.1875, 0.1875, 0.1875)
    assert planned.unit == Protected(parts=setup.part_counts)
    happened = laps_that_happened(setup, run_one(setup, 0))
    each = [lap.mu2(1) for lap in happened.opened]
    most = [max(sum(each[part :: len(parts)]) for part in range(len(parts))) for parts in setup.parts]
    assert happened.by_node(1) == pytest.approx(most)
    kinds = [lap_rule(setup).sum_of(lap) for lap in range(5)]
    assert [lap.coordinates for lap in happened.opened] == [kind.moved for kind in kinds]
    assert [lap.grid for lap in happened.opened] == [kind.grid for kind in kinds]


def test_a_report_has_the_outsider_and_the_whole_node() -> None:
    setup = setup_of()
    report = simulate(values()).privacy
    run = planned_laps(setup)
    outsider, node = report.promised.beside(OUTSIDER), report.promised.beside(WHOLE_NODE)
    assert outsider is not None
    assert node is not None
    assert outsider.epsilon == LapsAccountant(run, 0).epsilon(1e-4)
    whole = LapsAccountant(run, units=setup.most_units).guarantee(1e-4)
    assert (node.epsilon, node.refused is None) == (whole.epsilon, whole.refused is None)


def test_a_node_that_is_ready_at_the_deadline_takes_part() -> None:
    assert run_one(setup_of(delay={"law": "constant:0.5", "timeout": 0.5}), 0).updated.all()


def test_a_run_says_whether_its_noise_can_be_computed_again() -> None:
    setup = setup_of()
    assert run_one(setup, 0).foreseeable
    assert not run_one(dataclasses.replace(setup, secret=True), 0).foreseeable
