"""What a guess reaches, and where it is said that nothing was learned."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.cli._nodes_view import remark_on
from skipring.learning import Guess, guess_errors, guess_of
from skipring.network import NodeStatus
from skipring.simulation import Result, simulate

Command = Callable[[str], Any]
LOUD = {
    "simulation": {"runs": 2},
    "schedule": {"name": "random-ring", "steps": 113},
    "privacy": {"noise_multiplier": 1e4},
}


def test_the_commonest_class_of_the_training_rows_is_guessed() -> None:
    guess = guess_of(np.array([2, 0, 2, 1]), np.array([2, 2, 0, 1, 1]), classes=3)
    assert guess is not None
    assert (guess.error, guess.std_error) == pytest.approx((0.6, math.sqrt(0.6 * 0.4 / 5)))
    # The first of those that are as common.
    assert guess_errors(np.array([1, 0]), np.array([0, 1, 1]), classes=2).tolist() == [0.0, 1.0, 1.0]


def test_of_numbers_the_mean_is_guessed() -> None:
    guess = guess_of(np.array([1.0, 3.0]), np.array([2.0, 5.0]), classes=0)
    assert guess is not None
    assert (guess.error, guess.std_error) == pytest.approx((4.5, 4.5 / math.sqrt(2)))
    assert guess_of(np.array([1.0]), np.array([]), classes=0) is None
    assert guess_of(np.array([1e308, 1e308]), np.array([2.0]), classes=0) is None


def test_it_is_beaten_by_two_standard_errors() -> None:
    guess = Guess(0.4, 0.05)
    assert guess.remark(0.29) is None
    assert str(guess.remark(0.31)).startswith("no better than guessing: the test error 0.31 is not below")


def test_a_simulation_that_learned_nothing_says_so(skipring: Command, tmp_path: Path) -> None:
    loud = simulate(LOUD, out=tmp_path / "loud")
    quiet = simulate(LOUD | {"privacy": {"noise_multiplier": 0.0}})
    assert loud.resolved.guess == quiet.resolved.guess
    assert loud.resolved.guess is not None
    assert 0.3 < loud.resolved.guess.error < 0.45  # 37 % of all rows are malignant
    assert quiet.remark is None
    assert "no better than guessing" in str(loud.remark)
    assert Result.load(tmp_path / "loud").remark == loud.remark
    (tmp_path / "run.toml").write_text("[schedule]\nname = 'random-ring'\nsteps = 113\n[simulation]\nruns = 2\n")
    line = f"simulate {tmp_path}/run.toml --set privacy.noise_multiplier="
    shown = skipring(f"{line}1e4 --out {tmp_path}/a")
    assert "No better than guessing: the test error" in " ".join(shown.out.split())
    assert max(map(len, shown.out.splitlines())) <= 80
    assert skipring(f"{line}1e4 --out {tmp_path}/b --json").data["remark"] == loud.remark
    assert "guessing" not in skipring(f"{line}0 --out {tmp_path}/c").out


def test_nodes_that_learned_nothing_say_so() -> None:
    def status(error: float | None, guess: Guess | None, over: bool = True) -> NodeStatus:
        known: dict[str, Any] = dict.fromkeys(NodeStatus.__dataclass_fields__, 0)
        return NodeStatus(**known | {"test_error": error, "guess": guess, "over": over})

    guess = Guess(0.4, 0.05)
    assert remark_on([]) is None
    assert remark_on([status(None, guess), status(0.4, None), status(0.4, guess, over=False)]) is None
    assert remark_on([status(0.1, guess), status(0.35, guess)]) is None  # 0.225 on average
    assert "0.325 is not below" in str(remark_on([status(0.3, guess), status(0.35, guess)]))
