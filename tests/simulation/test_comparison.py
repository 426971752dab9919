"""Alternatives side by side: which reaches an error first, and what that costs in privacy."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from skipring.errors import InvalidInput
from skipring.privacy import forecast
from skipring.simulation import Comparison, Interrupted, Result, alternatives, compare_runs, simulate

SMALL = ["simulation.runs=3", "simulation.evaluate_every=200"]


@pytest.fixture(scope="module")
def comparison() -> Comparison:
    return compare_runs(
        alternatives(None, timeouts=["most-updates", math.inf], schedules=["ring", "random-ring"], changes=SMALL)
    )


def test_only_what_is_given_varies() -> None:
    chosen = alternatives(None, timeouts=[0.04, math.inf], noise=[1, 2.5], changes=["delay.skip=0.1", *SMALL])
    assert [other.name for other in chosen] == [
        "timeout-0.04_noise-1",
        "timeout-0.04_noise-2.5",
        "timeout-inf_noise-1",
        "timeout-inf_noise-2.5",
    ]
    assert [other.run.delay.timeout for other in chosen] == [0.04, 0.04, math.inf, math.inf]
    assert [other.run.privacy.noise_multiplier for other in chosen] == [1.0, 2.5, 1.0, 2.5]
    assert {other.run.schedule.name for other in chosen} == {"laps"}
    assert {other.run.simulation.runs for other in chosen} == {3}


def test_an_alternative_is_the_simulation_of_its_run_file(comparison: Comparison) -> None:
    chosen = alternatives(None, timeouts=[math.inf], schedules=["ring"], changes=SMALL)
    row = next(row for row in comparison.rows if row.name == "ring_timeout-inf")
    alone = simulate(chosen[0].run)
    assert (row.result.test_error == alone.test_error).all()
    assert row.result.privacy == alone.privacy


def test_without_an_error_it_is_near_the_best_final_one(comparison: Comparison) -> None:
    finals = [float(row.result.test_error[:, -1].mean()) for row in comparison.rows]
    assert comparison.error == pytest.approx(1.1 * min(finals))
    best = comparison.rows[finals.index(min(finals))]
    assert best.time_to_error <= best.result.latency[:, -1].mean()


def test_the_epsilon_is_that_of_the_steps_made_by_then(comparison: Comparison) -> None:
    reached = [row for row in comparison.rows if row.steps_to_error]
    assert reached
    for row in reached:
        assert row.steps_to_error is not None
        assert row.epsilon is not None
        rounds = math.ceil(row.steps_to_error / 113)
        record = row.result.privacy.planned
        assert record is not None
        assert row.epsilon == forecast(record.replace(steps=113 * rounds)).epsilon(1e-5)
        assert row.result.privacy.epsilon is not None
        assert row.epsilon <= row.result.privacy.epsilon
        place = list(row.result.points).index(row.steps_to_error)
        assert row.time_to_error == row.result.latency.mean(axis=0)[place]


def test_an_error_out_of_reach_takes_forever() -> None:
    changes = [*SMALL, "schedule.name=random-ring", "schedule.steps=226", "privacy.noise_multiplier=2"]
    chosen = alternatives(None, timeouts=[0.04], changes=changes)
    (row,) = compare_runs(chosen, error=1e-6).rows
    assert math.isinf(row.time_to_error)
    assert row.steps_to_error is None
    assert row.epsilon is None


def test_a_run_without_a_forecast_has_no_epsilon() -> None:
    changes = [
        *SMALL,
        "schedule.name=random-ring",
        "schedule.steps=500",
        "privacy.noise_multiplier=2",
        "stragglers.die=0.1",
        "stragglers.revive=0.5",
    ]
    (row,) = compare_runs(alternatives(None, timeouts=[0.04], changes=changes), error=0.55).rows
    assert row.steps_to_error
    assert row.epsilon is None


def test_progress_counts_the_runs_of_all(tmp_path: Path) -> None:
    seen: list[int] = []
    chosen = alternatives(
        None, timeouts=[0.01, 0.04], changes=[*SMALL, "schedule.name=random-ring", "schedule.steps=226"]
    )
    compare_runs(chosen, out=tmp_path, progress=seen.append)
    assert seen == sorted(seen)
    assert seen[-1] == 6
    assert Result.load(tmp_path / "timeout-0.01").runs == 3
    with pytest.raises(InvalidInput, match=r"timeout-0\.01: holds a simulation already"):
        compare_runs(chosen, out=tmp_path)


QUICK = [*SMALL, "schedule.name=random-ring", "schedule.steps=113", "privacy.noise_multiplier=2"]


def test_nothing_is_mixed_into_a_folder_that_is_not_a_comparisons(tmp_path: Path) -> None:
    chosen = alternatives(None, timeouts=[0.01], changes=QUICK)
    theirs = tmp_path / "results"
    theirs.mkdir()
    (theirs / "table.csv").write_text("mine")
    with pytest.raises(InvalidInput, match=r"results: exists, and is not the folder of a comparison: .*; --out names"):
        compare_runs(chosen, out=theirs)
    assert [path.name for path in theirs.iterdir()] == ["table.csv"]
    with pytest.raises(InvalidInput, match=r"table.csv: is a file"):
        compare_runs(chosen, out=theirs / "table.csv")
    own = tmp_path / "own"
    compare_runs(chosen, out=own)
    compare_runs(alternatives(None, timeouts=[0.04], changes=QUICK), out=own)
    assert sorted(path.name for path in own.iterdir()) == ["comparison.json", "timeout-0.01", "timeout-0.04"]
    assert json.loads((own / "comparison.json").read_text()) == {"alternatives": ["timeout-0.01", "timeout-0.04"]}


def test_nothing_is_mixed_into_what_git_keeps(tmp_path: Path) -> None:
    own = tmp_path / "own"
    compare_runs(alternatives(None, timeouts=[0.01], changes=QUICK), out=own)
    for words in (["init", "-q"], ["add", "own/comparison.json"]):
        subprocess.run(["git", *words], cwd=tmp_path, check=True)
    with pytest.raises(InvalidInput, match="own: has files in it that git keeps"):
        compare_runs(alternatives(None, timeouts=[0.04], changes=QUICK), out=own)
    assert sorted(path.name for path in own.iterdir()) == ["comparison.json", "timeout-0.01"]


def test_a_value_that_the_last_cannot_use_is_found_first(tmp_path: Path) -> None:
    chosen = alternatives(None, timeouts=[0.04, math.inf], changes=[*SMALL, "stragglers.lost_link=0.1"])
    with pytest.raises(InvalidInput, match="never answers"):
        compare_runs(chosen, out=tmp_path)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("said", ["{", "[]", '{"alternatives": 1}'])
def test_a_damaged_mark_of_a_comparison_is_named(tmp_path: Path, said: str) -> None:
    (tmp_path / "comparison.json").write_text(said)
    with pytest.raises(InvalidInput, match=r"comparison\.json: is damaged"):
        compare_runs(alternatives(None, timeouts=[0.04], changes=QUICK), out=tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["comparison.json"]


def test_nothing_cannot_be_compared() -> None:
    with pytest.raises(InvalidInput, match="timeouts"):
        alternatives(None, timeouts=[])
    with pytest.raises(InvalidInput, match="alternatives"):
        compare_runs([])


def test_a_stop_is_heard() -> None:
    stop = threading.Event()
    stop.set()
    with pytest.raises(Interrupted, match="0 of 1 alternatives"):
        compare_runs(alternatives(None, timeouts=[0.04], changes=SMALL), stop=stop)


Command = Callable[[str], tuple[int, str, str]]


@pytest.fixture
def skipring(skipring_words: Callable[..., tuple[int, str, str]], tmp_path: Path) -> Command:
    """Run a command line beside a small run file; two quotes stand for an empty word."""
    (tmp_path / "run.toml").write_text("[simulation]\nruns = 4\nevaluate_every = 200\n")
    return lambda line: skipring_words(*(word.replace("''", "") for word in line.split()))


def test_compare_prints_a_table_and_leaves_figure_and_folders(skipring: Command, tmp_path: Path) -> None:
    line = "compare run.toml --timeouts 0.005,inf --schedules random-ring --noise 1,2 --error 0.2 --runs 3 --out both"
    code, out, _ = skipring(line)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    words = " ".join(out.split())
    assert "time to" in words
    assert "error 0.2" in words
    assert "over 3 runs" in words
    names = [f"random-ring_timeout-{t}_noise-{x}" for t in ("0.005", "inf") for x in (1, 2)]
    for name in names:
        error = Result.load(tmp_path / "both" / name).summary().test_error
        assert f"{error.mean:.4f} ± {error.std:.4f}" in words
    assert (tmp_path / "both" / "comparison.png").read_bytes().startswith(b"\x89PNG")
    everything = " ".join(str(path) for path in sorted((tmp_path / "both").iterdir()))
    code, out, _ = skipring(f"report {everything} --json")
    assert code == 0
    assert sorted(row["name"] for row in json.loads(out)["folders"]) == sorted(names)


def test_compare_answers_in_json(skipring: Command) -> None:
    line = (
        "compare run.toml --timeouts most-updates,inf --error 1e-9"
        " --set schedule.name=random-ring --set schedule.steps=226"
        " --set privacy.noise_multiplier=2"
    )
    data = json.loads(skipring(f"{line} --json")[1])
    assert data["error"] == 1e-9
    assert data["figure"] == "run-compared/comparison.png"
    assert [other["timeout"] for other in data["alternatives"]] == [pytest.approx(0.0048018, rel=1e-4), math.inf]
    for other in data["alternatives"]:
        assert other["time_to_error"] == math.inf
        assert other["epsilon_at_error"] is None
        assert other["runs"] == 4
        assert 0.0 < other["test_error"]["mean"] < 1.0


@pytest.mark.parametrize(
    ("line", "option", "value"),
    [
        ("--timeouts soon", "--timeouts", "soon"),
        ("--timeouts 0.1,0", "--timeouts", "0"),
        ("--timeouts -1", "--timeouts", "-1"),
        ("--timeouts nan", "--timeouts", "nan"),
        ("--timeouts ''", "--timeouts", "empty"),
        ("--timeouts 0.1,,2", "--timeouts", "0.1,,2"),
        ("--timeouts 0.1,0.10", "--timeouts", "twice"),
        ("--schedules star", "--schedules", "star"),
        ("--schedules ''", "--schedules", "empty"),
        ("--noise loud", "--noise", "loud"),
        ("--noise 0", "--noise", "0"),
        ("--noise inf", "--noise", "inf"),
        ("--timeouts 0.1 --error 0", "--error", "0"),
        ("--timeouts 0.1 --error small", "--error", "small"),
        ("--timeouts 0.1 --runs 0", "--runs", "0"),
        ("--timeouts 0.1 --set learning.speed=3", "learning.speed", "3"),
        ("--timeouts 0.1 --set learning.rate=-3", "learning.rate", "-3"),
        ("--timeouts 0.1 --out run.toml", "--out", "run.toml"),
        ("", "--timeouts", "missing"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(skipring: Command, line: str, option: str, value: str) -> None:
    code, out, err = skipring(f"compare run.toml {line}")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    assert option in err
    assert value in err


@pytest.mark.slow
def test_ctrl_c_keeps_what_is_finished(tmp_path: Path) -> None:
    """A real process and a real signal."""
    (tmp_path / "run.toml").write_text("[simulation]\nruns = 300\nevaluate_every = 5\n")
    command = [sys.executable, "-m", "skipring", "compare", "run.toml", "--noise", "2,3,4,5,6,7,8,9", "--out", "many"]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
        deadline = time.monotonic() + 120.0
        while not list((tmp_path / "many").glob("*/metrics.npz")):
            assert process.poll() is None
            assert time.monotonic() < deadline
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.startswith("interrupted: ")
    assert err.count("\n") == 1
    done = [path.parent for path in (tmp_path / "many").glob("*/metrics.npz")]
    assert 1 <= len(done) < 8
    assert all(Result.load(folder).runs == 300 for folder in done)


def test_epsilons_are_compared_with_no_noise_and_with_what_needs_none(
    skipring: Callable[[str], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = alternatives(None, epsilons=[1, math.inf], changes=["privacy.noise_multiplier=3"])
    assert [other.name for other in chosen] == ["epsilon-1", "epsilon-inf"]
    assert [other.run.privacy.noise_multiplier for other in chosen] == [None, 0.0]
    assert [other.run.privacy.epsilon for other in chosen] == [1.0, None]
    monkeypatch.chdir(tmp_path)
    written = (
        "[schedule]\nname = 'random-ring'\nsteps = 226\n[simulation]\nruns = 2\n[delay]\ntimeout = 'most-updates'\n"
    )
    (tmp_path / "run.toml").write_text(written)
    answer = skipring("compare run.toml --epsilons 1,inf --out a")
    assert max(map(len, answer.out.splitlines())) <= 80
    words = " ".join(answer.out.split())
    assert "Without noise, mean over nodes: guess the majority 0.3947, each node alone" in words
    data = skipring("compare run.toml --epsilons 1,inf --out b --json").data
    assert list(data["baselines"]) == ["guess", "alone", "pooled"]
    assert data["alternatives"][1]["noise_multiplier"] == 0.0
    for line, said in (
        ("--epsilons 1 --noise 2", "--epsilons 1: noise follows"),
        ("--epsilons 0", "--epsilons 0"),
        ("--epsilons 1,1", "--epsilons 1"),
    ):
        refused = skipring(f"compare run.toml {line} --out c")
        assert (refused.code, len(refused.err.splitlines())) == (2, 1)
        assert said in refused.err
