"""Traces: what was measured, as it was measured, and one line for a file that is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.delays import Availability, PairLatency, Trace, parse_delay
from skipring.errors import InvalidInput
from skipring.runs import with_changes
from skipring.simulation import build, run_one, simulate
from skipring.simulation._timeline import Reach, _reachable

Command = Callable[[str], Any]


def text(path: Path, *lines: str) -> str:
    path.write_text("\n".join(lines) + "\n")
    return f"trace:{path}"


@pytest.fixture
def seconds(tmp_path: Path) -> str:
    return text(tmp_path / "seconds.csv", "node,seconds", "0,1", "1,10", "0,2", "1,20", "0,3")


@pytest.fixture
def events(tmp_path: Path) -> str:
    """Node 0 is there from 2 to 4 and from 8 on, node 1 until 3, node 2 never, until 10."""
    rows = ["0,2,1", "1,3,0", "0,4,0", "0,8,1", "2,10,1", "1,10,0"]
    return text(tmp_path / "events.csv", "node,second,available", *rows)


# -- how long nodes took ------------------------------------------------------------------------------


def test_each_node_has_its_own_durations_in_their_order(seconds: str) -> None:
    law = parse_delay(seconds)
    assert isinstance(law, Trace)
    assert [each.tolist() for each in law.series] == [[1.0, 2.0, 3.0], [10.0, 20.0]]
    path = np.array([0, 1, 0, 0, 1, 0, 2, 1])  # node 2 follows node 0 of the trace
    found = law.at_turns(path, np.random.default_rng(4))
    own = found[path == 0]
    assert np.diff(own).tolist() in ([1.0, 1.0, -2.0], [1.0, -2.0, 1.0], [-2.0, 1.0, 1.0])
    assert set(np.diff(found[path == 1])) <= {10.0, -10.0}
    assert found[path == 2][0] in (1.0, 2.0, 3.0)
    assert law.survival(2.5) == pytest.approx(3 / 5)  # as a law it is all durations together
    assert str(law) == seconds


def test_a_run_begins_anywhere_in_a_trace(seconds: str) -> None:
    law = parse_delay(seconds)
    starts = {float(law.at_turns(np.array([0]), np.random.default_rng(seed))[0]) for seed in range(40)}
    assert starts == {1.0, 2.0, 3.0}


@pytest.mark.parametrize(
    ("arrays", "spelled", "series"),
    [
        ({"seconds": np.array([[1.0, 2.0], [3.0, np.nan]])}, "", [[1.0, 2.0], [3.0]]),
        ({"job": np.array([[0, 5, 100], [1, 1, 50], [0, 2, 200]])}, ",job,0.01", [[2.0, 1.0], [0.5]]),
        ({"training_seconds": np.array([4.0, 6.0])}, ",training_seconds", [[4.0], [6.0]]),
    ],
    ids=["nodes x turns", "rows of node, time, duration", "one number for each node"],
)
def test_arrays_in_an_npz_file(tmp_path: Path, arrays: dict[str, Any], spelled: str, series: list[Any]) -> None:
    np.savez(tmp_path / "trace.npz", **arrays)
    law = parse_delay(f"trace:{tmp_path / 'trace.npz'}{spelled}")
    assert isinstance(law, Trace)
    assert [each.tolist() for each in law.series] == [pytest.approx(each) for each in series]


# -- how far nodes are apart, and who is there ------------------------------------------------------------


def test_pairs_of_nodes(tmp_path: Path) -> None:
    pairs = PairLatency.read(
        text(tmp_path / "pairs.csv", "from,to,seconds", "0,1,0.5", "1,0,0.7", "0,2,1", "2,0,1", "1,2,3", "2,1,5")
    )
    assert pairs.nodes == 3
    assert pairs.seconds[0, 0, 1] == 0.5
    assert pairs.seconds[0, 1, 0] == 0.7
    assert pairs.seconds[0, 1, 1] == pytest.approx(np.median([0.7, 3.0]))  # two nodes that follow the same one
    np.savez(tmp_path / "rtt.npz", rtt=np.full((4, 5, 5), 0.2))
    assert PairLatency.read(f"trace:{tmp_path / 'rtt.npz'},rtt,0.5").seconds.mean() == pytest.approx(0.1)


def test_intervals_of_availability(events: str) -> None:
    trace = Availability.read(events)
    assert trace.period == 10.0
    spans = list(zip(trace.begins.tolist(), trace.ends.tolist(), strict=True))
    assert spans == [(2.0, 4.0), (8.0, 10.0), (0.0, 3.0)]
    assert trace.first.tolist() == [0, 2, 3, 3]
    assert not trace.always_sometimes
    assert (trace.ends - trace.begins).sum() / trace.period == pytest.approx((2 + 2 + 3) / 10)


def test_when_a_node_can_be_reached_again(events: str) -> None:
    """Both ways to ask, compiled and for all nodes at once, against all intervals one by one."""
    trace = Availability.read(events)
    for moment in np.linspace(0.0, 45.0, 181):
        found = trace.waits(float(moment), 4)
        for node in range(4):
            low, high = trace.first[node % 3], trace.first[node % 3 + 1]
            spans = [
                (begin + 10.0 * again, end + 10.0 * again)
                for again in range(7)
                for begin, end in zip(trace.begins[low:high], trace.ends[low:high], strict=True)
            ]
            expected = min((max(begin - moment, 0.0) for begin, end in spans if end > moment), default=np.inf)
            assert found[node] == pytest.approx(expected, abs=1e-9)
            reach = Reach(trace.begins, trace.ends, trace.first, trace.period, 0.0)
            again = _reachable(float(moment), node, reach)
            assert again - moment == pytest.approx(expected, abs=1e-9)


# -- runs that follow them ----------------------------------------------------------------------------------

BASE = [
    "schedule.name=random-ring",
    "data.name=breast-cancer",
    "data.nodes=3",
    "schedule.steps=60",
    "privacy.noise_multiplier=3",
]


def test_a_run_follows_all_three(tmp_path: Path, seconds: str, events: str) -> None:
    pairs = text(tmp_path / "pairs.csv", "from,to,seconds", "0,1,0.5", "1,0,0.7")
    changes = [f"delay.law={seconds}", f"network.latency={pairs}", f"stragglers.availability={events}"]
    result = simulate(with_changes(None, [*BASE, *changes, "delay.timeout=2.5", "simulation.runs=3"]))
    assert 0 < result.updates[0, -1] < 60
    assert result.skipped[2] == result.offered[2]  # it can never be reached
    assert result.privacy.epsilon is None
    assert "trace" in str(result.privacy.promised.refused)
    assert result.privacy.in_this_run is not None
    assert result.privacy.in_this_run.worst > 0.0
    with pytest.raises(InvalidInput, match="see epsilon in this run"):
        simulate(with_changes(None, [*BASE, *changes, "delay.timeout=2.5", "privacy.epsilon=2"]))
    with pytest.raises(InvalidInput, match="never be reached"):
        build(with_changes(None, [*BASE, *changes, "delay.timeout=inf"]))


def test_a_server_follows_the_same_trace(events: str) -> None:
    changes = ["schedule.name=federated", "schedule.steps=40", f"stragglers.availability={events}"]
    setup = build(with_changes(None, [*BASE, *changes, "delay.law=constant:0.5", "delay.timeout=1.0"]))
    output = run_one(setup, 0)
    share = 1.0 - output.skips / output.turns
    assert share[2] == 0.0
    assert 0.2 < share[0] < 0.8
    # Each iteration ends at the timeout, as node 2 is never there.
    assert output.latency[-1] == pytest.approx(40 * (1.0 + (1 + 3 / 100) * 0.01))


# -- files that are none ----------------------------------------------------------------------------------

WRONG = {
    "no file": (None, "delay.law"),
    "no header": ("0,1", "delay.law"),
    "words": ("node,seconds\n0,soon", "delay.law"),
    "a negative duration": ("node,seconds\n0,-1", "delay.law"),
    "half a line": ("node,seconds\n0", "delay.law"),
    "a node left out": ("node,seconds\n0,1\n2,1", "delay.law"),
    "half a node": ("node,seconds\n0.5,1", "delay.law"),
    "nothing": ("node,seconds", "delay.law"),
    "no pair": ("from,to,seconds\n0,1,2", "network.latency"),
    "a pair twice": ("from,to,seconds\n0,1,2\n1,0,2\n0,1,3", "network.latency"),
    "far too many": ("from,to,seconds\n0,123456,2", "network.latency"),
    "perhaps": ("node,second,available\n0,1,0.5", "stragglers.availability"),
    "before the start": ("node,second,available\n0,-1,1", "stragglers.availability"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_malformed_trace_is_one_line_and_exit_code_2(skipring: Command, tmp_path: Path, what: str) -> None:
    content, key = WRONG[what]
    if content is not None:
        (tmp_path / "wrong.csv").write_text(content)
    section, _, name = key.partition(".")
    (tmp_path / "run.toml").write_text(f'[{section}]\n{name} = "trace:wrong.csv"\n')
    answer = skipring(f"simulate {tmp_path / 'run.toml'} --set privacy.noise_multiplier=1")
    assert answer.code == 2
    assert answer.err.strip().count("\n") == 0
    assert key in answer.err


@pytest.mark.parametrize(
    ("spelled", "reason"),
    [
        ("trace:", "trace:FILE"),
        ("trace:a.csv,name", "leave the name empty"),
        ("trace:a.txt", ".csv or .npz"),
        ("trace:a.npz,x,0", "scale"),
        ("trace:a.npz,x,1,2", "trace:FILE"),
    ],
)
def test_a_spelling_that_names_no_trace(spelled: str, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        parse_delay(spelled)


@pytest.mark.parametrize(
    ("read", "arrays"),
    [
        (Trace.read, {"other": np.ones(3)}),
        (Trace.read, {"seconds": np.ones((2, 2, 2))}),
        (Trace.read, {"seconds": np.full((2, 2), np.nan)}),
        (Trace.read, {"seconds": np.array(["a"])}),
        (PairLatency.read, {"rtt": np.ones((3, 4))}),
        (PairLatency.read, {"rtt": np.full((3, 3), np.nan)}),
        (Availability.read, {"events": np.ones((3, 2))}),
        (Availability.read, {"events": np.zeros((0, 3))}),
    ],
)
def test_arrays_that_are_no_trace(tmp_path: Path, read: Any, arrays: dict[str, Any]) -> None:
    np.savez(tmp_path / "wrong.npz", **arrays)
    with pytest.raises(InvalidInput, match=r"wrong\.npz"):
        read(f"trace:{tmp_path / 'wrong.npz'}")
    (tmp_path / "wrong.npz").write_bytes(b"no zip")
    with pytest.raises(InvalidInput, match="cannot be read"):
        read(f"trace:{tmp_path / 'wrong.npz'}")
