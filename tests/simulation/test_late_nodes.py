"""Nodes that remember what they prepared, take time to compute, or follow a trace: the clock against a plain twin."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from skipring.data import from_arrays
from skipring.delays import Availability, Constant, Exponential, PairLatency
from skipring.errors import InvalidInput
from skipring.learning import LinearModel, reference
from skipring.privacy import PrivacyReport, gdp_epsilon
from skipring.runs import Stragglers, parse_run, with_changes
from skipring.simulation import Setup, build, run_one, simulate
from skipring.simulation.account import privacy_of
from skipring.simulation.lateness import Lateness, Timeline, rows_that_fit, timeline
from skipring.simulation.stragglers import Drawn

Floats = NDArray[np.floating[Any]]


class Clock:
    """The same walk as one would write it down, node by node, with moments kept in dictionaries."""

    def __init__(self, lateness: Lateness, hop: float, least: float, phase: float) -> None:
        self.lateness, self.hop, self.least, self.phase = lateness, hop, least, phase
        self.now = 0.0
        self.ready_at: dict[int, float] = {}
        self.prepared_before: set[int] = set()
        self.took: dict[int, float] = {}
        self.busy: dict[int, float] = {}

    def reachable(self, node: int, moment: float) -> float:
        trace = self.lateness.availability
        if trace is None:
            return moment
        which = node % (len(trace.first) - 1)
        spans = [
            (begin + round_ * trace.period - self.phase, end + round_ * trace.period - self.phase)
            for round_ in range(int(moment // trace.period), int(moment // trace.period) + 4)
            for begin, end in zip(
                trace.begins[trace.first[which] : trace.first[which + 1]],
                trace.ends[trace.first[which] : trace.first[which + 1]],
                strict=True,
            )
        ]
        return min(max(moment, begin) for begin, end in spans if end > moment)

    def offer(self, node: int, delay: float, computing: float, dead: bool, lost: bool, limit: float) -> str:
        self.now += self.hop
        offered = self.now
        if dead:
            for forgotten in (self.ready_at, self.took, self.busy):
                forgotten.pop(node, None)
            self.prepared_before.add(node)
        if dead or lost:
            self.now += limit
            return "skipped"
        if self.lateness.late == "decline" and self.reachable(node, offered) == offered:
            if offered < self.busy.get(node, 0.0):
                return "declined"
            if self.took.get(node, 0.0) > limit:
                self.took[node] *= 0.9
                return "declined"
        if self.lateness.ready == "ahead" and node not in self.prepared_before:
            self.prepared_before.add(node)
            self.ready_at[node] = 0.0
        if self.lateness.ready == "fresh" or node not in self.ready_at:
            self.ready_at[node] = self.reachable(node, offered) + delay
        begins = self.reachable(node, max(offered, self.ready_at[node]))
        deadline = offered + limit
        if begins > deadline:
            self.now = deadline
            return "skipped"
        self.took[node] = computing
        if begins + computing <= deadline:
            self.now = begins + computing
            done = "updated"
        else:
            self.now = deadline
            share = (deadline - begins) / computing
            done = f"{share:.6f}" if self.lateness.late == "fewer-rows" and share >= self.least else "passed on"
        if done == "passed on":
            self.ready_at[node] = self.busy[node] = begins + computing
        elif self.lateness.ready == "ahead":
            self.ready_at[node] = self.now + delay
        else:
            self.ready_at.pop(node)
        return done


TRACE = Availability(
    np.array([0.0, 4.0, 1.0, 2.5, 0.5]),
    np.array([1.0, 6.0, 2.0, 7.5, 8.0]),
    np.array([0, 2, 4, 5]),
    8.0,
)


@pytest.mark.parametrize("late", ["skip", "decline", "fewer-rows"])
@pytest.mark.parametrize("ready", ["fresh", "kept", "ahead"])
@pytest.mark.parametrize("trace", [None, TRACE], ids=["always there", "sometimes there"])
def test_the_compiled_clock_is_the_plain_one(ready: Any, late: Any, trace: Availability | None) -> None:
    rng = np.random.default_rng(7)
    hops, nodes = 600, 5
    lateness = Lateness(ready=ready, late=late, compute=Exponential(0.2), availability=trace)
    path = rng.integers(0, nodes, hops)
    delays, computing = rng.exponential(0.8, hops), rng.exponential(0.3, hops)
    dead, lost = rng.random(hops) < 0.05, rng.random(hops) < 0.05
    timeouts = np.where(rng.random(hops) < 0.1, 50.0, 0.4)
    run = timeline(
        lateness,
        Drawn(path, delays, computing, dead, lost),
        timeouts,
        np.random.default_rng(3),
        nodes=nodes,
        hop_latency=0.05,
        least_share=0.25,
    )
    phase = 0.0 if trace is None else np.random.default_rng(3).random() * trace.period
    clock = Clock(lateness, 0.05, 0.25, phase)
    outcomes = set()
    for h in range(hops):
        done = clock.offer(int(path[h]), delays[h], computing[h], bool(dead[h]), bool(lost[h]), timeouts[h])
        outcomes.add(done if done.isalpha() or " " in done else "some rows")
        assert run.updated[h] == (done not in ("skipped", "declined", "passed on")), h
        assert run.passed_on[h] == (done == "passed on"), h
        assert run.clock[h] == pytest.approx(clock.now, rel=1e-9)
        assert run.share[h] == pytest.approx(float(done) if done[0].isdigit() else 1.0, abs=1e-6)
    # All that can happen did: else the comparison says less than it seems to.
    beside = {"skip": set(), "decline": {"declined"}, "fewer-rows": {"some rows"}}[late]
    assert outcomes == {"skipped", "passed on", "updated"} | beside


def walked(lateness: Lateness, delays: list[float], computing: float = 0.0, timeout: float = 1.0) -> Timeline:
    """Walk a ring of two nodes, a hop taking 0.1."""
    hops = len(delays)
    nobody = np.zeros(hops, np.bool_)
    return timeline(
        lateness,
        Drawn(np.arange(hops) % 2, np.array(delays), np.full(hops, computing), nobody, nobody),
        np.full(hops, timeout),
        np.random.default_rng(0),
        nodes=2,
        hop_latency=0.1,
        least_share=0.1,
    )


def test_a_skipped_node_that_goes_on_is_ready_at_its_next_turn() -> None:
    delays = [1.5, 0.0, 1.5, 0.0]  # the first node needs 1.5 each time that it begins, and is waited for 1
    assert walked(Lateness(), delays).updated.tolist() == [False, True, False, True]
    assert walked(Lateness(ready="kept"), delays).updated.tolist() == [False, True, True, True]


def test_a_node_that_prepares_ahead_was_ready_at_the_start_and_prepares_after_its_update() -> None:
    run = walked(Lateness(ready="ahead"), [0.7, 0.0, 0.7, 0.0])
    assert run.updated.all()
    # It begins at 0.1, is offered the token again at 0.3, and is ready at 0.8.
    assert run.clock == pytest.approx([0.1, 0.2, 0.8, 0.9])


def test_a_delay_of_just_the_timeout_is_in_time() -> None:
    assert walked(Lateness(ready="kept"), [0.3] * 200, timeout=0.3).updated.all()


def test_the_timeout_covers_waiting_and_computing() -> None:
    slow = walked(Lateness(compute=Constant(0.8)), [0.5, 0.1], computing=0.8)
    assert slow.updated.tolist() == [False, True]
    assert slow.passed_on.tolist() == [True, False]
    assert slow.clock == pytest.approx([1.1, 2.1])
    some = walked(Lateness(compute=Constant(0.8), late="fewer-rows"), [0.5, 0.1], computing=0.8)
    assert some.updated.all()
    assert some.share == pytest.approx([0.5 / 0.8, 1.0])


def test_a_node_is_busy_until_the_work_it_gave_up_has_ended() -> None:
    kept = walked(Lateness(ready="kept", compute=Constant(9.0)), [0.0] * 8, computing=9.0)
    # Both nodes take the token once, give up after 1, and are busy until 9: they are then not even sent it.
    assert kept.passed_on.tolist() == [True, True] + [False] * 6


def test_a_node_that_knows_how_slow_it_is_says_so_and_tries_again() -> None:
    run = walked(Lateness(compute=Constant(2.05), late="decline"), [0.0] * 40, computing=2.05)
    # Both pass the token on at their first turns, after 1 each, and are busy until 2.15 and 3.25.
    assert run.clock[:4] == pytest.approx([1.1, 2.2, 2.3, 2.4])
    assert not run.updated.any()
    # 2.05 x 0.9^7 is below 1: seven turns are let go, and those while it is busy (the second node: turns 1 to 5).
    assert np.flatnonzero(run.passed_on[::2]).tolist() == [0, 8]
    assert np.flatnonzero(run.passed_on[1::2]).tolist() == [0, 13]
    assert np.diff(run.clock)[~run.passed_on[1:]] == pytest.approx(0.1)
    assert np.diff(run.clock)[run.passed_on[1:]] == pytest.approx(1.1)
    skips = walked(Lateness(compute=Constant(2.05)), [0.0] * 40, computing=2.05)
    assert skips.passed_on.all()
    assert skips.clock[-1] == pytest.approx(40 * 1.1)


def test_hops_take_as_long_as_between_their_nodes() -> None:
    pairs = PairLatency(np.array([[[0.0, 0.2], [0.7, 0.0]]]))
    run = walked(Lateness(latency=pairs), [0.0, 0.0, 0.0])
    assert run.clock == pytest.approx([0.0, 0.2, 0.9])


def test_no_row_of_a_part_is_always_left_out() -> None:
    fit = rows_that_fit(np.full(400, 0.1), np.zeros(400, np.int64), np.array([50]), 50)
    assert set(fit[:, 0]) == {5}
    used = (fit[:, 1:] + np.arange(5)) % 50
    counts = np.bincount(used.ravel(), minlength=50)
    assert counts.min() > 0.8 * counts.mean()


# -- whole runs --------------------------------------------------------------------------------------


def some_run(*changes: str) -> Setup:
    base = [
        "schedule.name=random-ring",
        "data.name=breast-cancer",
        "data.nodes=20",
        "schedule.steps=800",
        "privacy.noise_multiplier=2",
    ]
    return build(with_changes(None, [*base, "delay.law=lomax:3,2", "delay.timeout=0.2", *changes]))


@pytest.mark.parametrize(
    "changes",
    [
        ["delay.ready=kept"],
        ["delay.ready=ahead", "compute.law=exponential:0.1"],
        ["compute.law=exponential:0.3", "compute.late=fewer-rows"],
        ["compute.law=exponential:0.3", "compute.late=fewer-rows", "privacy.protects=record", "learning.batch=9"],
    ],
    ids=["kept", "ahead and computing", "fewer rows of a node", "fewer records"],
)
def test_a_run_is_the_same_again_and_learns(changes: list[str]) -> None:
    setup = some_run(*changes)
    first, again = run_one(setup, 3), run_one(setup, 3)
    assert first.test_error.tobytes() == again.test_error.tobytes()
    assert first.latency.tobytes() == again.latency.tobytes()
    assert first.updates[-1] == first.updated.sum()
    assert not (first.updated & first.passed_on).any()
    assert first.skips.sum() == (~first.updated).sum()


def test_readiness_that_is_kept_gives_more_updates_in_less_time() -> None:
    runs = {ready: run_one(some_run(f"delay.ready={ready}"), 0) for ready in ("fresh", "kept", "ahead")}
    updates = [run.updates[-1] for run in runs.values()]
    times = [run.latency[-1] for run in runs.values()]
    assert updates == sorted(updates)
    assert updates[2] > 2 * updates[0]
    assert times == sorted(times, reverse=True)


def test_saying_fresh_changes_nothing() -> None:
    said, unsaid = run_one(some_run("delay.ready=fresh"), 1), run_one(some_run(), 1)
    assert said.model.tobytes() == unsaid.model.tobytes()
    assert said.latency.tobytes() == unsaid.latency.tobytes()


def test_the_timeout_of_most_updates_leaves_time_to_compute() -> None:
    law = ["delay.law=exponential:0.1", "delay.timeout=most-updates", "schedule.steps=200"]
    quick, slow = (some_run(*law, *more) for more in ([], ["compute.law=0.9*constant:2|0.1*constant:50"]))
    assert quick.timeout == np.inf
    assert 2.0 < slow.timeout < 50.0  # who needs 50 is not worth it
    assert run_one(slow, 0).updated.mean() > 0.6
    skipping = some_run("delay.law=exponential:1", "delay.skip=0.3", "compute.law=exponential:1")
    assert skipping.timeout == pytest.approx(2.439, rel=0.02)  # of a sum of two, which is a gamma's quantile


def test_one_of_four_that_needs_eight_seconds() -> None:
    """With a deadline of 0.5 the slow node holds nobody up for longer, and contributes where its batch can be cut."""
    four = ["data.nodes=4", "schedule.name=ring", "schedule.steps=40", "delay.law=constant:0.001", "delay.timeout=0.5"]
    four += ["compute.law=constant:0.1", "stragglers.speeds=[1.0, 1.0, 1.0, 80.0]", "delay.hop_latency=0.01"]
    skips, cuts, declines = (
        run_one(some_run(*four, *more), 0) for more in ([], ["compute.late=fewer-rows"], ["compute.late=decline"])
    )
    assert skips.turns[3] == 10
    assert (skips.turns - skips.skips).tolist() == [10, 10, 10, 0]
    assert (cuts.turns - cuts.skips).tolist() == [10, 10, 10, 10]
    alone = 30 * (0.001 + 0.1) + 40 * 0.01
    assert cuts.latency[-1] == pytest.approx(alone + 10 * 0.5)
    assert skips.latency[-1] == pytest.approx(alone + 10 * 0.5)
    # It is tried once, and is busy for longer than the rest of the run takes: what real nodes do in test_turns.py.
    assert declines.latency[-1] == pytest.approx(alone + 0.5)
    assert (declines.turns - declines.skips).tolist() == [10, 10, 10, 0]
    assert declines.passed_on.sum() == 1


def test_no_data_decides_whether_an_update_is_made() -> None:
    """A node of ten times the rows, all of it hidden: the same nodes update at the same times."""
    rng = np.random.default_rng(8)
    values = {
        "delay": {"law": "exponential:1", "timeout": 0.5},
        "compute": {"law": "exponential:20", "late": "fewer-rows"},
        "schedule": {"name": "random-ring", "steps": 400},
        "privacy": {"noise_multiplier": 2.0, "protects": "node"},
    }
    paths = []
    for rows in (40, 400):
        nodes = np.concatenate([np.repeat(np.arange(1, 8), 40), np.zeros(rows, np.int64)])
        x = rng.standard_normal((len(nodes), 3))
        setup = build(parse_run(values), from_arrays(x, (x[:, 0] > 0).astype(int), nodes, None))
        paths.append(run_one(setup, 0))
    assert np.array_equal(paths[0].updated, paths[1].updated)
    assert np.array_equal(paths[0].passed_on, paths[1].passed_on)
    assert paths[0].passed_on.any()
    assert paths[0].latency[-1] == paths[1].latency[-1]


@pytest.mark.parametrize("unit", ["node", "record"])
@pytest.mark.parametrize("model", ["logistic", "squared", "softmax"])
def test_fewer_rows_are_a_sum_over_those_that_fit(model: str, unit: str) -> None:
    """Without noise and chance a compiled run with a deadline takes the steps that one would write down."""
    rng = np.random.default_rng(5)
    x, nodes = rng.standard_normal((40, 3)), np.arange(40) % 4
    y = {"logistic": nodes % 2, "squared": x[:, 0], "softmax": nodes % 3}[model]
    values = {
        "model": {"name": model},
        "schedule": {"name": "ring", "steps": 12},
        "delay": {"law": "constant:0.1", "timeout": 0.5},
        "compute": {"law": "constant:1.0", "late": "fewer-rows"},
        "learning": {"rate": 0.5, "gradient_bound": 0.4} | ({"batch": 5} if unit == "record" else {}),
        "privacy": {"noise_multiplier": 0.0, "protects": unit},
        "simulation": {"runs": 1, "evaluate_every": 3},
    }
    result = simulate(parse_run(values), x, y, nodes)
    setup = build(parse_run(values | {"data": {"name": "arrays"}}), from_arrays(x, y, nodes, None))
    assert isinstance(setup.model, LinearModel)
    expected: Floats = np.zeros(setup.model.parameters)
    sizes = setup.step_sizes.first(12)
    for hop in range(12):
        node = hop % 4
        parts = setup.parts[node]
        turn = hop // 4
        part = parts[turn % len(parts)]
        most = 2 if unit == "record" else int(0.4 * len(part) * (1 + 1e-12))
        begin = int((turn // len(parts) * (5**0.5 - 1) / 2) % 1.0 * len(part))
        rows = setup.data.start[node] + part[(begin + np.arange(most)) % len(part)]
        gradient = reference.gradient(
            setup.model, expected, setup.data.features[rows], setup.data.labels[rows], setup.protection.divisor(most)
        )
        expected = reference.stepped(setup.model, expected, gradient, float(sizes[hop]))
    assert result.models[0] == pytest.approx(expected, abs=1e-5)
    assert result.updates[0, -1] == 12


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["delay.ready=kept", "delay.law=0.9*exponential:1|0.1*never"], "delay.ready"),
        (["schedule.name=gossip", "delay.ready=ahead", "gossip.slots=5"], "delay.ready"),
        (["schedule.name=gossip", "compute.law=exponential:1", "gossip.slots=5"], "compute.law"),
        (["schedule.name=federated", "compute.law=exponential:1", "compute.late=fewer-rows"], "compute.late"),
        (["schedule.name=federated", "compute.law=exponential:1", "compute.late=decline"], "compute.late"),
        (["compute.law=nothing"], "compute.law"),
        (["compute.law=exponential:1", "delay.ready=kept", "delay.timeout=most-updates"], "delay.timeout"),
        (["compute.law=0.5*exponential:1|0.5*never"], "compute.law"),
        (["network.latency=trace:missing.csv"], "network.latency"),
        (["stragglers.availability=trace:missing.npz"], "stragglers.availability"),
    ],
)
def test_what_cannot_be_is_refused_by_its_key(changes: list[str], key: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^{key} = "):
        some_run("schedule.steps=20", *changes)


# -- what they promise --------------------------------------------------------------------------------


def promise(*changes: str) -> PrivacyReport:
    base = ["schedule.name=random-ring", "data.name=breast-cancer", "data.nodes=30", "schedule.steps=300"]
    base += ["simulation.runs=1", "delay.timeout=0.3"]
    return simulate(with_changes(None, [*base, "delay.law=lomax:3,2", "privacy.epsilon=4", *changes])).privacy


@pytest.mark.parametrize("ready", ["kept", "ahead"])
def test_noise_is_found_for_nodes_that_remember(ready: str) -> None:
    report = promise(f"delay.ready={ready}", "delay.hop_latency=0.5", "delay.timeout=1.5")
    assert report.epsilon == pytest.approx(4.0, rel=1e-6)
    assert report.planned is not None
    assert report.planned.keywords["others"] is not None
    assert 0 < report.planned.keywords["others"] <= 28
    assert report.planned.keywords.get("failure") == pytest.approx(1e-2 * report.delta)
    assert report.in_this_run is not None
    assert report.in_this_run.median < 4.0
    assert report.paper is not None
    assert report.paper.epsilon is None
    with pytest.raises(InvalidInput, match="length of the run"):
        report.planned_for(3000)


def test_fewer_rows_leave_more_nodes_that_are_sure() -> None:
    slow = ["delay.ready=ahead", "delay.hop_latency=0.5", "delay.timeout=1.5", "compute.law=exponential:0.5"]
    plans = [promise(*slow, *more).planned for more in ([], ["compute.late=fewer-rows"])]
    others = [plan.keywords["others"] for plan in plans if plan is not None and plan.keywords["others"] is not None]
    assert len(others) == 2
    assert 0 <= others[0] < others[1] <= 28


def test_a_node_of_its_own_speed_is_left_out_of_those_who_are_sure() -> None:
    speeds = "stragglers.speeds=[" + ", ".join(["1.0"] * 25 + ["40.0"] * 5) + "]"
    report = promise("delay.ready=ahead", "delay.hop_latency=0.5", speeds)
    assert report.planned is not None
    assert report.planned.keywords["others"] is not None
    assert 0 < report.planned.keywords["others"] <= 23


@pytest.mark.parametrize("late", ["skip", "fewer-rows"])
def test_fresh_nodes_that_compute_are_skipped_by_both_together(late: str) -> None:
    report = promise("compute.law=exponential:0.2", f"compute.late={late}")
    assert report.planned is not None
    assert report.epsilon == pytest.approx(4.0, rel=1e-6)
    waits_only = promise().planned
    assert waits_only is not None
    assert report.planned.skip > waits_only.skip
    assert report.planned.keywords["target_skip"] <= report.planned.skip


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["delay.ready=kept", "schedule.name=ring"], "delay.ready"),
        (["delay.ready=ahead", "schedule.name=random-walk"], "delay.ready"),
        (["delay.ready=kept", "delay.patient_every=3"], "delay.patient_every"),
        (["delay.ready=kept", "stragglers.die=0.1"], "stragglers"),
        (["delay.ready=kept", "stragglers.slow_class=1"], "stragglers.slow_class"),
        (["compute.law=exponential:0.2", "compute.late=decline"], "compute.late"),
        (["compute.law=exponential:0.2", "compute.late=decline", "delay.ready=ahead"], "compute.late"),
    ],
)
def test_what_no_theorem_covers_has_no_forecast(changes: list[str], key: str) -> None:
    with pytest.raises(InvalidInput, match=key):
        promise(*changes)
    if "slow_class" not in key:  # what happened is accounted for all the same
        report = promise("privacy.noise_multiplier=5", *changes)
        assert report.epsilon is None
        assert report.in_this_run is not None
        assert report.in_this_run.worst > 0.0


def test_a_look_without_an_update_is_in_the_account_of_the_run() -> None:
    """Node 1 looks between the target and everybody else's noise: an account without the look would be too small."""
    setup = some_run("schedule.name=ring", "schedule.steps=20", "compute.law=constant:0.3", "delay.law=constant:0.1")
    speeds = [0.1] * 20
    speeds[1] = 1.0
    slow = dataclasses.replace(setup, stragglers=Stragglers(speeds=speeds))
    output = run_one(slow, 0)
    assert output.passed_on.tolist() == [False, True] + [False] * 18
    report = privacy_of(slow, 1e-6, output)
    assert report.in_this_run is not None
    assert report.in_this_run.worst == pytest.approx(gdp_epsilon(2.0 / slow.noise_multiplier, 1e-6), rel=1e-6)
