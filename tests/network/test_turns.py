"""A turn has an end: what fits into it is computed, what does not is thrown away, and what is ready is kept."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import random
import struct
import threading
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from test_nodes import LOOP, QUICK, Slow, Told, final_models, make, run_nodes
from virtual_time import VirtualLoop

from skipring.delays import parse_delay
from skipring.errors import InvalidInput
from skipring.learning import LOGISTIC, LinearLearner, LinearModel, NothingFits, Protection, Rows
from skipring.network.node import AdaptivePace, Node, NodeSetup, OwnData
from skipring.network.node.cutter import Cutter
from skipring.network.node.events import Event, Prepared, StillPreparing
from skipring.network.node.noise import NoiseSource
from skipring.network.node.readiness import Readiness
from skipring.network.node.turn_times import TurnTimes
from skipring.network.node.updater import Stopped, Updater
from skipring.network.node.worker import Worker
from skipring.network.setup import load_node, open_journal
from skipring.privacy import Unit
from skipring.runs import Ready


class Clock:
    """A time that goes on when somebody works."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def turns_of(cutter: Cutter, clock: Clock, rows: int, seconds: float, per_row: float, turns: int) -> list[list[int]]:
    """Let a node compute at some turns; return the rows that it took at each."""
    found = []
    for _ in range(turns):
        cutter.begin(seconds)
        began, taken = clock.now, []
        for piece in cutter(rows):
            taken += list(range(rows))[piece]
            clock.now += per_row * (piece.stop - piece.start)
        cutter.end()
        assert clock.now - began <= seconds  # it knows from the first piece how long the others take
        found.append(taken)
    return found


def test_all_rows_are_taken_if_there_is_time() -> None:
    clock = Clock()
    cutter = Cutter(clock, random.Random(1))
    assert all(taken == list(range(500)) for taken in turns_of(cutter, clock, 500, 1.0, 1e-3, 5))
    cutter.begin(1.0)
    assert next(cutter(500)) == slice(0, 112)  # more than half of the time: a look at the clock here and there
    assert len(list(Cutter(clock, random.Random(1))(0))) == 0
    # A hop that adds noise alone asks for no rows; that of the update before it are not its own.
    list(cutter(500))
    cutter.begin(1.0)
    cutter.end()
    assert (cutter.taken, cutter.of) == (0, 0)


@pytest.mark.parametrize("factor", [1.5, 4.0, 16.0, 63.0])
def test_as_many_rows_are_taken_as_fit_and_each_has_its_turn(factor: float) -> None:
    clock = Clock()
    found = turns_of(Cutter(clock, random.Random(1)), clock, 500, 1.0, factor / 500.0, 2000)
    later = found[1:]  # at the first turn nothing is known
    assert all(len(taken) == len(set(taken)) for taken in later)
    share = np.array([len(taken) for taken in later]) / 500.0
    assert np.all((share > 0.3 / factor) & (share < 1.0 / factor))
    counts = np.bincount(np.concatenate(later), minlength=500)
    # Where it begins is drawn: no row is left out (the chance that one is, is below 1e-3).
    assert counts.min() > 0


def test_a_node_that_cannot_take_one_row_says_so_and_hopes() -> None:
    clock = Clock()
    cutter = Cutter(clock, random.Random(1))
    cutter.begin(1.0)
    for _ in cutter(100):
        clock.now += 8.0  # one row of a hundred takes eight seconds
    assert not cutter.may_be_in_time(100, 1.0)
    cutter.begin(1.0)
    assert list(cutter(100)) == []
    assert any(cutter.may_be_in_time(100, 1.0) for _ in range(30))  # it tries again, some day


def test_an_update_of_all_rows_or_none_is_not_cut() -> None:
    clock = Clock()
    cutter = Cutter(clock, random.Random(1), whole=True)
    cutter.begin(1.0)
    for piece in cutter(100):
        assert piece == slice(0, 100)
        clock.now += 1.5
    assert not cutter.may_be_in_time(100, 1.0)
    assert cutter.may_be_in_time(100, 2.0)


def learner(unit: Unit = "record", rows: int = 40, batch: int | None = 40, long: float = 1.0) -> LinearLearner:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(rows, 3))
    x *= long / np.linalg.norm(x, axis=1, keepdims=True)
    y = (rng.random(rows) < 0.5).astype(np.int64)
    model = LinearModel(loss=LOGISTIC, features=3, diameter=10.0)
    protection = Protection(unit=unit, batch=batch)
    return LinearLearner(model, Rows(x, y, x[:0], y[:0], 2), protection=protection, rng=rng)


def step(made: LinearLearner, w: Any, pieces: Any, turn: int = 0) -> Any:
    noise = NoiseSource()  # which is not asked for any
    return made.update(w.copy(), turn=turn, step_size=0.5, noise_multiplier=0.0, noise=noise, pieces=pieces)


@pytest.mark.parametrize("unit", ["record", "node"])
def test_the_sum_over_some_rows_is_divided_as_if_it_were_over_all(unit: Unit) -> None:
    made, w = learner(unit), np.array([0.3, -0.2, 0.1])
    whole = step(made, w, lambda rows: [slice(0, rows)])
    halves = [step(made, w, lambda rows, at=at: [slice(at, at + 20)]) for at in (0, 20)]
    cut = step(made, w, lambda rows: [slice(at, at + 7) for at in range(0, rows, 7)])
    assert np.allclose(whole, cut, atol=1e-14)
    weight = 1.0 if unit == "record" else 0.5  # of a node the mean of what was taken
    assert np.allclose(whole - w, weight * ((halves[0] - w) + (halves[1] - w)), atol=1e-14)
    with pytest.raises(NothingFits):
        step(made, w, lambda rows: [])


def returns(made: Any, features: Any, labels: Any) -> Any:
    return made


def test_rows_that_are_got_ready_are_used_once_and_cut_to_length() -> None:
    made, w, calls = learner(batch=20), np.array([0.3, -0.2, 0.1]), []

    def longer(features: Any, labels: Any) -> Any:
        calls.append(len(features))
        features *= 100.0  # a copy
        return features

    plain = [step(learner(batch=20), w, lambda rows: [slice(0, rows)], turn=turn) for turn in (0, 1)]
    made.prepare(0, longer)
    assert calls == [20]
    assert np.allclose(step(made, w, lambda rows: [slice(0, rows)]), plain[0], atol=1e-9)
    assert calls == [20]
    made.prepare(0, longer)
    # It was got ready for the rows of another part: those of this turn are got ready now.
    assert np.allclose(step(made, w, lambda rows: [slice(0, rows)], turn=1), plain[1], atol=1e-9)
    assert calls == [20, 20, 20]
    wide = np.full((20, 3), np.longdouble("1e4000"))  # finite, but not as a number that is computed with
    for wrong in (np.ones(3), np.full((20, 3), np.nan), np.full((20, 3), "a"), wide):
        with pytest.raises(InvalidInput, match=r"data\.prepare"):
            made.prepare(0, partial(returns, wrong))
    made.prepare(0, lambda features, labels: None)
    assert np.allclose(step(made, w, lambda rows: [slice(0, rows)]), plain[0], atol=1e-9)


# --- Readiness


@pytest.fixture
def loop() -> Iterator[asyncio.Runner]:
    with asyncio.Runner(loop_factory=VirtualLoop) as runner:
        yield runner


@pytest.mark.parametrize(
    ("mode", "told"), [("fresh", [13.0, 24.0]), ("kept", [3.0 + 2.0, 24.0]), ("ahead", [3.0 + 2.0, 20.0])]
)
def test_what_is_ready_is_kept_as_long_as_nobody_uses_it(loop: asyncio.Runner, mode: Ready, told: list[float]) -> None:
    """It takes three seconds to be ready. At 2 s there is a turn until 3 s, at 10 s one until 15, at 20 s another."""

    async def story() -> list[float]:
        running, found = asyncio.get_running_loop(), []

        async def prepare(turn: int) -> None:
            await asyncio.sleep(4.0 if turn else 3.0)

        made = Readiness(mode, 3, 1, lambda turn: False, prepare, running.time, asyncio.ensure_future)
        await asyncio.sleep(2.0)
        made.want(0, lambda: found.append(running.time()))
        await asyncio.sleep(1.0)
        made.turn_is_over()
        await asyncio.sleep(7.0)
        assert running.time() == 10.0
        assert not found
        made.want(0, lambda: found.append(running.time()))
        if mode != "fresh":
            assert found == [10.0]
            assert made.waited == 0.0
            found[:] = [5.0]  # when it was
        await asyncio.sleep(4.0)
        made.used()
        made.go_ahead(1)
        await asyncio.sleep(6.0)
        made.want(1, lambda: found.append(running.time()))
        await asyncio.sleep(5.0)
        made.used()
        made.go_ahead(3)  # there is no such turn
        await asyncio.sleep(5.0)
        assert made._part is None
        return found

    assert loop.run(story()) == told


def test_what_is_ready_for_one_part_is_not_used_for_another(loop: asyncio.Runner) -> None:
    async def story() -> list[int]:
        running, begun = asyncio.get_running_loop(), []

        async def prepare(turn: int) -> None:
            begun.append(turn)

        made = Readiness("ahead", 9, 2, lambda turn: False, prepare, running.time, asyncio.ensure_future)
        made.go_ahead(0)
        await asyncio.sleep(1.0)
        made.want(1, lambda: None)  # it was not asked at turn 0
        await asyncio.sleep(1.0)
        made.want(3, lambda: None)  # the same part as at turn 1
        await asyncio.sleep(1.0)
        return begun

    assert loop.run(story()) == [0, 1]


def test_turns_are_told_once_and_only_what_makes_sense() -> None:
    paces = [Told(), Told(), Told()]
    first, second, third = (TurnTimes(pace) for pace in paces)
    for hop in range(1, 50):
        first.took(hop, 0.5, in_time=hop % 2 == 0)
    first.was_ready(50, 0.25)
    second.heard(first.told(), 50)
    assert paces[1].waits == [0.5] * 31  # of the newest; that of its own hop comes when it is made
    second.took(50, 1.0, ready_after=0.1, in_time=True)
    assert paces[1].waits[-1] == 1.25  # from the offer, as the other side saw it
    third.heard(second.told(), 51)
    third.heard(second.told(), 51)
    assert len(paces[2].waits) == 32
    third.heard(bytes(range(200)) + b"\xff" * 88, 60)
    assert all(0.0 <= waited <= 1e6 for waited in paces[2].waits)


def test_turns_at_hops_to_come_are_not_believed() -> None:
    """They would be the newest for ever, and nothing else would be learned from, here and wherever they are told."""
    pace = Told()
    turns = TurnTimes(pace)
    future = b"".join(struct.pack("<If?", 2**32 - 1 - at, 1e-6, True) for at in range(32))
    turns.heard(future, 5)
    assert pace.waits == []
    turns.took(5, 0.5, in_time=True)
    turns.heard(struct.pack("<If?", 6, 0.25, True) + struct.pack("<If?", 9, 1e-6, True), 9)
    assert pace.waits == [0.5, 0.25]
    assert turns.told() == b"".join(
        struct.pack("<If?", *turn) for turn in ((5, 0.5, True), (6, 0.25, True), (9, 1e-6, True))
    )
    turns.heard(b"", 6)  # a recovery goes back to before hop 6: what came of it is told of no more
    assert len(turns.told()) == 2 * 9  # and how long its node took to be ready at hop 9


def test_a_node_learns_from_its_own_turns_whatever_a_token_has_claimed_about_them() -> None:
    pace = Told()
    turns = TurnTimes(pace)
    turns.heard(struct.pack("<If?", 5, 1e-6, True), 6)
    turns.took(5, 0.5, in_time=True)
    assert pace.waits == [pytest.approx(1e-6), 0.5]
    assert turns.told() == struct.pack("<If?", 5, 0.5, True)


def test_what_a_timeout_was_learned_from_survives_a_restart() -> None:
    pace, rng = AdaptivePace(), np.random.default_rng(2)
    for took in rng.exponential(0.1, 200):
        pace.saw(took, True)
    again = AdaptivePace()
    again.recall(json.loads(json.dumps(pace.learned)))
    assert again.timeout == pace.timeout < 5.0
    assert again.learned == pace.learned
    known = {"timeout": 1.0, "alone": False, "turns": []}
    for wrong in (None, {}, {"timeout": 1.0}, known | {"timeout": -1.0}, known | {"turns": [[0.1]]}):
        fresh = AdaptivePace()
        fresh.recall(wrong)
        assert fresh.timeout == AdaptivePace().timeout


@pytest.mark.parametrize(("delay", "floor"), [({}, 0.1), ({"floor": 0.5}, 0.5)])
def test_no_node_learns_a_timeout_below_the_floor_of_its_run(
    tmp_path: Path, delay: dict[str, float], floor: float
) -> None:
    configs = make(tmp_path / "net", 2, QUICK | {"delay": {"timeout": "adaptive", **delay}})
    pace = load_node(configs[0]).new_pace()
    for _ in range(100):
        pace.saw(1e-6, True, own=False)
    assert isinstance(pace, AdaptivePace)
    assert pace.timeout == floor


def test_a_worker_that_never_returns_keeps_nobody() -> None:
    worker, forever = Worker("test"), threading.Event()
    assert worker.submit(lambda: 3).result(10.0) == 3
    with pytest.raises(ZeroDivisionError):
        worker.submit(lambda: 1 / 0).result(10.0)
    stuck = worker.submit(forever.wait)
    assert worker._thread is not None
    assert worker._thread.daemon
    forever.set()
    assert stuck.result(10.0)


# --- Real nodes

ONE_SLOW = QUICK | {
    "schedule": {"name": "random-ring", "steps": 40},
    "delay": {"timeout": 0.5},
    "privacy": {"protects": "record", "noise_multiplier": 4.0},
    "learning": {"batch": 100},
}


def slow_in(seconds: str, node: int = 1) -> Any:
    """Let one node compute for so long on all rows of an update."""

    def change(index: int, setup: NodeSetup) -> NodeSetup:
        return dataclasses.replace(setup, compute=parse_delay(seconds)) if index == node else setup

    return change


def test_a_slow_node_contributes_what_it_manages(tmp_path: Path) -> None:
    """Of four nodes one needs 8 s, and has half a second: it takes part with fewer rows, and nobody thinks it dead."""
    configs = make(tmp_path / "net", 4, ONE_SLOW)
    nodes = run_nodes(configs, slow_in("8+exponential:1e-9"))
    assert len({model.tobytes() for model in final_models(configs)}) == 1
    assert all(node.telemetry.recoveries == 0 and node.peer.memory.promised[0] == 0 for node in nodes)
    assert nodes[1].account.releases >= 7
    assert nodes[1].telemetry.cut >= 7
    assert all(node.telemetry.cut == 0 for node in nodes if node is not nodes[1])


@pytest.mark.parametrize("late", ["skip", "decline"])
def test_a_slow_node_whose_updates_are_not_cut_declines(tmp_path: Path, late: str) -> None:
    """It passes the token on once it has found out, and is busy; from then on it lets its turns go at once."""
    configs = make(tmp_path / "net", 4, ONE_SLOW | {"compute": {"late": late}})
    nodes = run_nodes(configs, slow_in("8+exponential:1e-9"))
    assert all(node.telemetry.recoveries == 0 and node.peer.memory.promised[0] == 0 for node in nodes)
    assert [node.account.releases for node in nodes] == [10, 0, 10, 10]
    assert (nodes[1].telemetry.late, nodes[1].telemetry.declined) == (1, 9)
    # It had the token, and looked at it; its owner's account of the others' is theirs, which counts every offer.
    assert nodes[1].peer.memory.unchanged


def test_rows_that_take_long_to_get_ready_are_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or nobody would know why a node is never there; a function that wants to end the process ends its node."""
    monkeypatch.setattr("skipring.network.node.updater._FIRST_TOLD", 0.05)
    monkeypatch.setattr("skipring.network.node.updater._TOLD_EVERY", 0.1)
    setup = load_node(make(tmp_path / "net", 3, QUICK)[0])
    noted: list[Event] = []

    def slow(features: Any, labels: Any) -> None:
        time.sleep(0.4)

    def leaves(features: Any, labels: Any) -> None:
        raise SystemExit(3)

    async def got_ready(function: Any) -> None:
        config = setup.config.model_copy(update={"data": OwnData(prepare="clinic:prepare")})
        made = dataclasses.replace(setup, prepare_rows=function, config=config)
        await Updater(made, time.monotonic, noted.append).prepare(0)

    LOOP.run(got_ready(slow))
    told = [event for event in noted if isinstance(event, StillPreparing)]
    assert len(told) >= 2
    assert (told[0].turn, told[0].function) == (0, "clinic:prepare")
    assert told[1].seconds > told[0].seconds >= 0.05
    assert isinstance(noted[-1], Prepared)
    with pytest.raises(Stopped, match=r"data\.prepare = clinic:prepare: SystemExit: 3"):
        LOOP.run(got_ready(leaves))


def test_updates_that_hide_persons_are_never_cut(tmp_path: Path) -> None:
    """How many rows a person has takes time, and must not decide whose rows are in an update."""
    table = tmp_path / "rows.csv"
    rng = np.random.default_rng(1)
    lines = [f"{a:.3f},{b:.3f},{int(a + b > 0)},{row // 2}" for row, (a, b) in enumerate(rng.normal(size=(240, 2)))]
    table.write_text("a,b,outcome,person\n" + "\n".join(lines) + "\n")
    data = {"path": str(table), "label": "outcome", "person": "person", "rows_per_person": 2, "standardise": False}
    privacy = {"protects": "person", "noise_multiplier": 4.0}
    run = ONE_SLOW | {"data": data, "privacy": privacy, "schedule": {"name": "ring", "steps": 12}}
    nodes = run_nodes(make(tmp_path / "net", 3, run), slow_in("8+exponential:1e-9"))
    assert [node.telemetry.cut for node in nodes] == [0, 0, 0]
    assert nodes[1].account.releases == 0
    assert nodes[1].telemetry.late == 1


def test_a_function_that_never_returns_ends_its_node(tmp_path: Path) -> None:
    configs = make(tmp_path / "net", 3, QUICK | {"delay": {"timeout": 0.1}})

    async def story() -> None:
        first = load_node(configs[load_node(configs[0]).rules.path[0]])
        stuck = dataclasses.replace(
            first,
            learner=cast(Any, Slow(first.learner, 60.0)),
            config=first.config.model_copy(update={"compute_limit": 0.5, "start_wait": 0.0}),
        )
        journal = open_journal(stuck)
        try:
            async with asyncio.timeout(60.0):
                await Node(stuck, journal, lambda event, **facts: None).run()
        finally:
            journal.close()

    with pytest.raises(Stopped, match=r"logistic has not returned for 0\.5 s \(hop 1\)"):
        LOOP.run(story())
