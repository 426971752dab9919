"""Who is offered the token next."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from skipring.errors import InvalidInput
from skipring.schedules import SCHEDULES, RandomRing, RandomWalk, Ring, Schedule, register_schedule, schedule

#: Those whose order needs no design.
DRAWN = ("ring", "random-ring", "random-walk")


def test_the_ring_goes_round_in_order() -> None:
    assert Ring(4).path(10, np.random.default_rng(0)).tolist() == [0, 1, 2, 3, 0, 1, 2, 3, 0, 1]


@given(nodes=st.integers(2, 30), steps=st.integers(1, 200), seed=st.integers(0, 2**32))
def test_every_round_of_a_random_ring_visits_everyone_once(nodes: int, steps: int, seed: int) -> None:
    path = RandomRing(nodes).path(steps, np.random.default_rng(seed))
    assert len(path) == steps
    for start in range(0, steps, nodes):
        visited = path[start : start + nodes]
        assert len(set(visited.tolist())) == len(visited)


@pytest.mark.parametrize("name", DRAWN)
@given(nodes=st.integers(2, 30), steps=st.integers(1, 100), more=st.integers(0, 100), seed=st.integers(0, 2**32))
def test_a_longer_path_continues_a_shorter_one(name: str, nodes: int, steps: int, more: int, seed: int) -> None:
    kind = schedule(name, nodes)
    short = kind.path(steps, np.random.default_rng(seed))
    long = kind.path(steps + more, np.random.default_rng(seed))
    assert short.dtype == long.dtype == np.int32
    assert 0 <= long.min() <= long.max() < nodes
    np.testing.assert_array_equal(long[:steps], short)


def _chi_square(counts: np.ndarray[tuple[int, ...], np.dtype[np.int64]]) -> float:
    expected = counts.sum() / counts.size
    return float(((counts - expected) ** 2 / expected).sum())


def test_rounds_of_a_random_ring_are_independent_and_uniform() -> None:
    # All pairs of successive orders of 3 nodes are equally likely: 35 degrees of freedom; a correct schedule
    # exceeds 72.5 with probability 2e-4 (and the seed is fixed).
    orders = RandomRing(3).path(3 * 2 * 20_000, np.random.default_rng(7)).reshape(-1, 2, 3)
    codes = (orders * [9, 3, 1]).sum(axis=2)
    _, places = np.unique(codes, return_inverse=True)
    first, second = places.reshape(codes.shape).T
    assert _chi_square(np.bincount(6 * first + second, minlength=36)) < 72.5


def test_a_random_walk_forgets_where_it_is() -> None:
    # All pairs of successive nodes, staying included, are equally likely: 24 degrees of freedom, 2e-4.
    path = RandomWalk(5).path(100_000, np.random.default_rng(8)).reshape(-1, 2)
    assert _chi_square(np.bincount(5 * path[:, 0] + path[:, 1], minlength=25)) < 56.4


def test_a_million_nodes_are_no_problem() -> None:
    for name in DRAWN:
        assert len(schedule(name, 1_000_000).path(24_000, np.random.default_rng(0))) == 24_000


def test_schedules_are_known_by_name() -> None:
    assert list(SCHEDULES) == [*DRAWN, "designed-ring"]
    assert schedule("random-walk", 5) == RandomWalk(5)
    with pytest.raises(InvalidInput, match=r"schedule = star: must be one of ring, random-ring, .*, designed-ring"):
        schedule("star", 5)


@pytest.mark.parametrize("nodes", [1, 0, -3, 2.5, True, 2**31])
def test_a_schedule_needs_two_nodes(nodes: float) -> None:
    with pytest.raises(InvalidInput, match="nodes"):
        schedule("ring", nodes)  # type: ignore[arg-type]


@pytest.mark.parametrize("steps", [0, -1, 1.5])
def test_a_path_has_at_least_one_hop(steps: float) -> None:
    with pytest.raises(InvalidInput, match="steps"):
        Ring(3).path(steps, np.random.default_rng(0))  # type: ignore[arg-type]


@dataclass(frozen=True)
class BackAndForth(Schedule):
    """Up and down a line of nodes: a user's own, of which no law says when turns come."""

    name: ClassVar[str] = "back-and-forth"

    def _path(self, steps: int, rng: np.random.Generator) -> np.ndarray[Any, Any]:
        there = np.arange(self.nodes)
        return np.resize(np.append(there, there[-2:0:-1]), steps).astype(np.int32)


@pytest.mark.parametrize(
    ("line", "option"),
    [
        ("simulate own.toml", "privacy.epsilon 1.0: nothing is promised for the schedule back-and-forth"),
        ("simulate own.toml --set delay.ready=ahead", "privacy.epsilon 1.0: nothing is promised"),
        ("compare own.toml --timeouts 1,2", "privacy.epsilon 1.0: nothing is promised"),
        ("compare own.toml --schedules ring,back-and-forth", "privacy.epsilon 1.0: nothing is promised"),
        ("worth own.toml", "schedule.name back-and-forth"),
        ("timeout --schedule back-and-forth --nodes 8 --delay exponential:1", "--schedule back-and-forth"),
        ("noise --schedule back-and-forth --nodes 8 --steps 80 --skip 0.1 --epsilon 1 --delta 1e-5", "--schedule"),
        ("privacy --schedule back-and-forth --nodes 8 --steps 80 --skip 0 --noise-multiplier 9 --delta 1e-5", "--sch"),
        (
            "plan --schedule back-and-forth --nodes 8 --protects node --dimension 3 --epsilon 1 --delta 1e-5 --time 900"
            " --delay exponential:1",
            "--schedule",
        ),
    ],
)
def test_an_own_schedule_without_a_law_gets_one_line_where_something_is_to_be_promised(
    skipring: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str, option: str
) -> None:
    monkeypatch.setitem(SCHEDULES, BackAndForth.name, BackAndForth)  # and it is gone after the test
    register_schedule(BackAndForth)
    run = '[data]\nname = "breast-cancer"\nnodes = 8\n[schedule]\nname = "back-and-forth"\nsteps = 80\n'
    (tmp_path / "own.toml").write_text(f"{run}[privacy]\nepsilon = 1.0\n")
    answer = skipring(line)
    assert (answer.code, answer.out) == (2, "")
    assert answer.err.startswith(f"error: {option}")
    assert answer.err.count("\n") == 1
