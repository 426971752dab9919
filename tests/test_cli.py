"""The command line: what people and scripts see."""

from __future__ import annotations

import csv
import json
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import typer

from skipring.cli import app
from skipring.convergence import Problem, error_bound
from skipring.delays import parse_delay
from skipring.experiments import TheoryTable, theory_tables
from skipring.timeouts import best_deadline

Command = Callable[[str], Any]


LARGE = "--nodes 1000 --steps 24000 --skip 1e-4 --noise-multiplier 10.5976"
RING = "--nodes 10 --steps 1000 --skip 1e-4 --noise-multiplier 10.5976"


@pytest.mark.parametrize(
    ("delay", "timeout", "skip"),
    [("gamma:0.25,1", 0.00480, 0.70986), ("lomax:3,2", 0.21390, 0.73726), ("exponential:1", math.inf, 0.0)],
)
def test_timeout_finds_the_best_of_lemma_2(skipring: Command, delay: str, timeout: float, skip: float) -> None:
    data = skipring(f"timeout --delay {delay} --hop-latency 0.01 --json").data
    assert data["timeout"] == pytest.approx(timeout, abs=5e-6)
    assert data["skip_probability"] == pytest.approx(skip, abs=5e-6)
    assert data["time_between_updates"] > 0.01


def test_timeout_of_laps_is_the_deadline_that_a_run_file_comes_to(skipring: Command) -> None:
    best = best_deadline(parse_delay("lomax:3,2"), 0.06, 30, 16)
    assert skipring("timeout --delay lomax:3,2 --schedule laps --nodes 30 --json").data["deadline"] == best.deadline
    told = skipring("timeout --delay lomax:3,2 --schedule laps --nodes 30").out
    assert "laps of at least 16 of 30 nodes" in " ".join(told.split())


def test_timeout_for_a_skip_probability(skipring: Command) -> None:
    data = skipring("timeout --delay lomax:3,2 --skip 1e-4 --json").data
    assert data["timeout"] == pytest.approx(41.0887, abs=5e-5)
    assert data["skip_probability"] == pytest.approx(1e-4)


def test_infinity_is_valid_json(skipring: Command) -> None:
    text = skipring("timeout --delay exponential:1 --json").out
    assert "Infinity" not in text
    assert json.loads(text, parse_constant=pytest.fail)["timeout"] == math.inf


@pytest.mark.parametrize(
    ("line", "epsilon"),
    [
        (f"--schedule ring {RING} --delta 1e-6 --method paper", 15.681),
        (f"--schedule random-ring {RING} --delta 1e-6 --method paper", 12.108),
        (f"--schedule ring {RING} --delta 2e-6", 9.979),
        (f"--schedule random-ring {RING} --delta 2e-6", 5.329),
        (
            "--schedule random-ring --nodes 1000 --steps 24000 --skip 1e-4 --noise-multiplier 10.5976 --delta 1e-6",
            0.694,
        ),
        (
            f"--schedule random-ring {LARGE} --delta 1e-6 --method paper --delta-prime 1e-12",
            2.202,
        ),
        (f"--schedule random-walk {RING} --delta 2e-6 --non-convex", 10.310),
    ],
)
def test_privacy_prints_the_known_numbers(skipring: Command, line: str, epsilon: float) -> None:
    data = skipring(f"privacy {line} --json").data
    assert data["epsilon"] == pytest.approx(epsilon, rel=2e-3)
    assert data["method"] == ("paper" if "paper" in line else "tight")
    assert data["against"] == "another node"
    assert data["schedule"] in line


def test_the_papers_delta_is_the_sum_of_its_two(skipring: Command) -> None:
    data = skipring(f"privacy --schedule ring {RING} --delta 1e-6 --method paper --delta-prime 1e-5 --json").data
    assert data["delta"] == pytest.approx(1.1e-5)


def test_delta_and_epsilon_are_inverse(skipring: Command) -> None:
    base = f"privacy --schedule random-ring {RING} --against skipped-node --observer-skip 0.3 --json"
    epsilon = skipring(f"{base} --delta 1e-5").data["epsilon"]
    assert skipring(f"{base} --epsilon {epsilon!r}").data["delta"] == pytest.approx(1e-5, rel=5e-3)
    assert skipring(f"{base} --delta 1e-5").data["observer_skip"] == pytest.approx(0.3)


def test_noise_keeps_the_budget_it_was_asked_for(skipring: Command) -> None:
    base = "--schedule random-walk --nodes 20 --steps 1000 --skip 0.3"
    noise = skipring(f"noise {base} --epsilon 1.5 --delta 1e-6 --json").data["noise_multiplier"]
    epsilon = skipring(f"privacy {base} --noise-multiplier {noise!r} --delta 1e-6 --json").data["epsilon"]
    assert epsilon <= 1.5 * (1 + 1e-6)
    assert epsilon > 1.49


def test_error_is_the_bound_of_theorem_1(skipring: Command) -> None:
    data = skipring(
        "error --schedule ring --nodes 500 --steps 5000 --skip 0.5 --noise-multiplier 10.5976 --dimension 8"
        " --diameter 10 --gradient-bound 1 --learning-rate 0.6 --json"
    ).data
    expected = error_bound(
        schedule="ring",
        nodes=500,
        steps=5000,
        skip=0.5,
        problem=Problem(noise_multiplier=10.5976, dimension=8, diameter=10.0, gradient_bound=1.0, learning_rate=0.6),
    )
    assert data["bound"] == expected


def test_plan_prints_alternatives_and_draws_the_frontier(skipring: Command, tmp_path: Path) -> None:
    line = "plan --nodes 40 --delay gamma:0.25,1 --time 100 --epsilon 2 --dimension 8 --protects node"
    answer = skipring(f"{line} --figure sub/tradeoff.svg")
    assert answer.code == 0
    for words in ("best plan", "never skip", "paper's accounting", "noise multiplier", "error bound"):
        assert words in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    assert (tmp_path / "sub" / "tradeoff.svg").read_text().startswith("<?xml")


def test_a_plan_needs_about_a_third_of_the_papers_noise(skipring: Command) -> None:
    data = skipring(
        "plan --nodes 1000 --delay exponential:1 --steps 24000 --epsilon 2.2 --dimension 8 --protects node"
        " --no-figure --json"
    ).data
    walk = data["walk"]
    papers = next(other for other in walk["alternatives"] if other["accounting"] == "paper")
    assert 0.25 < walk["plan"]["noise_multiplier"] / papers["noise_multiplier"] < 0.4
    assert data["figure"] is None


@pytest.mark.parametrize(
    ("number", "curves"), [*(pytest.param(each, 36, marks=pytest.mark.slow) for each in (2, 3)), (6, 6)]
)
def test_paper_figures_come_as_png_svg_and_csv(skipring: Command, tmp_path: Path, number: int, curves: int) -> None:
    data = skipring(f"paper figure {number} --out figures --json").data
    assert data["curves"] == curves
    assert (tmp_path / "figures" / f"figure{number}.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "figures" / f"figure{number}.svg").stat().st_size > 10_000
    with (tmp_path / "figures" / f"figure{number}.csv").open() as file:
        rows = list(csv.DictReader(file))
    counts: dict[tuple[str, ...], int] = {}
    for row in rows:
        key = (row["law"], row["nodes"], row["schedule"], row["skip"])
        counts[key] = counts.get(key, 0) + 1
    assert len(counts) == curves
    assert min(counts.values()) >= 200


@pytest.mark.parametrize("nodes", [10, pytest.param(1000, marks=[pytest.mark.slow, pytest.mark.early])])
def test_tables_without_json_name_both_methods(skipring: Command, monkeypatch: pytest.MonkeyPatch, nodes: int) -> None:
    """Those of up to a thousand nodes take long."""
    if nodes == 10:
        monkeypatch.setattr("skipring.experiments.theory._SIZES", [(10, 1000, 1e-6)])
    found: list[TheoryTable] = []

    def kept(progress: Callable[[int], None]) -> list[TheoryTable]:
        found.extend(theory_tables(progress))
        return found

    monkeypatch.setattr("skipring.experiments.theory_tables", kept)
    answer = skipring("paper tables")
    tight, papers = ("0.6932", "2.202") if nodes == 1000 else ("5.328", "12.11")
    assert tight in answer.out
    assert papers in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80
    rows = {tuple(row[:3]): row[3:] for row in found[1].rows}
    if nodes == 1000:
        assert rows["1000", "24000", "0.0001"][:4] == pytest.approx((9.469, 4.470, 2.202, 0.694), rel=2e-3)
    assert rows["10", "1000", "0.0001"][:4] == pytest.approx((15.681, 9.979, 12.108, 5.329), rel=2e-3)


def test_people_are_told_who_is_protected_from_whom(skipring: Command) -> None:
    answer = skipring(f"privacy --schedule random-ring {RING} --delta 1e-6")
    text = " ".join(answer.out.split())
    assert "protects one record of any node (replace-one) against another node, always ready" in text
    whole = " ".join(skipring(f"privacy --schedule random-ring {RING} --delta 1e-6 --protects node").out.split())
    assert "protects all data of any node (replace-one) against another node, always ready" in whole
    assert "delta 1e-06" in text
    coalition = skipring(f"privacy --schedule random-ring {RING} --delta 1e-6 --observers 3")
    assert "against a coalition of 3, always ready" in " ".join(coalition.out.split())


@pytest.mark.parametrize(
    ("schedule", "theorem"), [("ring", 2), ("random-ring", 3), pytest.param("random-walk", 4, marks=pytest.mark.slow)]
)
def test_the_paper_is_contradicted_where_it_is_wrong(skipring: Command, schedule: str, theorem: int) -> None:
    steps, skip = (20, 0.99) if schedule == "ring" else (2000, 0.9)
    run = f"--schedule {schedule} --nodes 2 --steps {steps} --skip {skip} --delta 1e-6 --method paper"
    for command in (f"privacy {run} --noise-multiplier 10.5976", f"noise {run} --epsilon 2"):
        answer = skipring(f"{command} --json").data
        assert f"Theorem {theorem} " in answer["doubt"]
        assert f"Do not rely on it: {answer['doubt']}." in " ".join(skipring(command).out.split())


def test_a_plan_says_if_the_papers_noise_is_not_enough(skipring: Command) -> None:
    plan = "plan --nodes 2 --delay exponential:1 --steps 2000 --epsilon 2 --dimension 3 --protects node --no-figure"
    doubt = skipring(f"{plan} --json").data["walk"]["alternatives"][-1]["doubt"]
    assert "Theorem 3 claims 2, and only" in doubt
    assert f"Do not use the noise of the paper's theorem: {doubt}" in " ".join(skipring(plan).out.split())
    assert (
        skipring(plan.replace("--nodes 2", "--nodes 100") + " --json").data["walk"]["alternatives"][-1]["doubt"] == ""
    )


EMPTY, BROKEN = "empirical:empty.csv", "empirical:broken.csv"


@pytest.mark.parametrize(
    ("line", "option", "value"),
    [
        ("timeout --delay gamma:0.25,1 --skip 1", "--skip", "1"),
        ("timeout --delay gamma:0.25,1 --schedule ring --nodes 9", "--schedule", "ring"),
        ("timeout --delay gamma:0.25,1 --schedule laps", "--nodes", "missing"),
        ("timeout --delay gamma:0.25,1 --schedule laps --nodes 9 --skip 0.1", "--skip", "0.1"),
        ("timeout --delay gamma:0.25,1 --schedule laps --nodes 9 --ready kept", "--ready", "kept"),
        ("timeout --delay gamma:0.25,1 --skip -0.1", "--skip", "-0.1"),
        ("timeout --delay exponential:-1", "--delay", "exponential:-1"),
        ("timeout --delay scipy:norm,0,1", "--delay", "scipy:norm,0,1"),
        ("timeout --delay weird:3", "--delay", "weird:3"),
        ("timeout --delay gamma:1", "--delay", "gamma:1"),
        (f"timeout --delay {EMPTY}", "--delay", "empty.csv"),
        (f"timeout --delay {BROKEN}", "--delay", "soon"),
        ("timeout --delay empirical:none.csv", "--delay", "none.csv"),
        ("timeout --delay gamma:0.25,1 --hop-latency -1", "--hop-latency", "-1"),
        ("timeout --delay gamma:0.25,1 --hop-latency fast", "--hop-latency", "fast"),
        (f"privacy --schedule ring {RING} --delta 1", "--delta", "1"),
        (f"privacy --schedule ring {RING} --delta 0", "--delta", "0"),
        (f"privacy --schedule ring {RING}", "--delta", "missing"),
        (f"privacy --schedule ring {RING} --epsilon -1", "--epsilon", "-1"),
        (f"privacy --schedule star {RING} --delta 1e-6", "--schedule", "star"),
        (f"privacy --schedule ring {RING} --steps 1005 --delta 1e-6", "--steps", "1005"),
        (f"privacy --schedule random-ring {RING} --steps 5 --delta 1e-6", "--steps", "5"),
        (f"privacy --schedule ring {RING} --steps 1005 --delta 1e-6 --method paper", "--steps", "1005"),
        (f"privacy --schedule ring {RING} --skip 1 --delta 1e-6", "--skip", "1"),
        (f"privacy --schedule ring {RING} --delta 1e-6 --distance 10", "--distance", "10"),
        (f"privacy --schedule random-ring {RING} --delta 1e-6 --distance 2", "--distance", "2"),
        (f"privacy --schedule ring {RING} --delta 1e-6 --observer-skip 0.5", "--observer-skip", "0.5"),
        (f"privacy --schedule ring {RING} --delta 1e-6 --delta-prime 1e-6", "--delta-prime", "1e-06"),
        (f"privacy --schedule ring {RING} --delta 1e-6 --method guess", "--method", "guess"),
        (
            f"privacy --schedule ring {RING} --delta 1e-6 --non-convex --method paper",
            "error: --non-convex: the paper's theorems",
            "are about convex losses only",
        ),
        (f"privacy --schedule ring {RING} --delta 1e-6 --nodes ten", "--nodes", "ten"),
        (f"privacy --schedule ring {RING} --delta 1e-6 --learning-rate 9 --smoothness 0.25", "--learning-rate", "9"),
        (f"privacy --schedule ring {RING} --delta 1e-6 --noise-multiplier 0", "--noise-multiplier", "0"),
        (
            "error --schedule ring --nodes 5 --steps 50 --skip 0 --noise-multiplier 1 --dimension 8 --diameter 10"
            " --gradient-bound 1 --learning-rate 0.6",
            "--skip",
            "0",
        ),
        ("plan --nodes 10 --delay gamma:0.25,1 --epsilon 1 --dimension 3 --protects node", "--time", "missing"),
        (
            "plan --nodes 10 --delay gamma:0.25,1 --epsilon 1 --dimension 3 --protects node --time 0.001",
            "--time",
            "0.001",
        ),
        ("plan --nodes 10 --delay gamma:0.25,1 --epsilon 0 --dimension 3 --protects node --time 10", "--epsilon", "0"),
        (
            "plan --nodes 10 --delay gamma:0.25,1 --epsilon 1 --dimension 3 --protects node --time 10 --figure x.bmp",
            "--figure",
            "x.bmp",
        ),
        ("paper figure 7", "NUMBER", "7"),
        ("paper figure 2 --out empty.csv/sub", "--figure", "empty.csv"),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(
    skipring: Command, tmp_path: Path, line: str, option: str, value: str
) -> None:
    (tmp_path / "empty.csv").write_text("")
    (tmp_path / "broken.csv").write_text("1.5\nsoon\n")
    answer = skipring(line)
    assert answer.code == 2
    assert answer.out == ""
    assert answer.err.startswith("error: ")
    assert answer.err.count("\n") == 1
    assert option in answer.err
    assert value in answer.err


@pytest.mark.parametrize("line", ["nonsense", "timeout", "privacy --no-such-option 3", "paper"])
def test_unknown_words_do_not_end_in_a_traceback(skipring: Command, line: str) -> None:
    answer = skipring(line)
    assert "Traceback" not in answer.out + answer.err
    assert answer.code == (0 if line == "paper" else 2)


def test_help_shows_the_way(skipring: Command) -> None:
    text = skipring("--help").out
    for command in ("plan", "timeout", "privacy", "noise", "error", "paper"):
        assert f" {command} " in text
    assert max(map(len, text.splitlines())) <= 80
    assert skipring("--version").out.startswith("skipring ")


def test_no_help_says_that_a_flag_is_a_bool(skipring_words: Callable[..., Any]) -> None:
    """Nor that of any group; what is set to a value says of what kind it is."""
    groups: dict[tuple[str, ...], Any] = {(): typer.main.get_command(app)}
    for words, group in list(groups.items()):
        for name, command in group.commands.items():
            groups[(*words, name)] = command
            groups |= {(*words, name, one): each for one, each in getattr(command, "commands", {}).items()}
    assert len(groups) > 30
    for words in groups:
        text = skipring_words(*words, "--help").out
        assert "<bool>" not in text
        assert "Usage: " in text
    assert "<int>" in skipring_words("privacy", "--help").out


@pytest.mark.parametrize(
    ("line", "together"),
    [("--help", "gradient step; a node that is not ready"), ("worth --help", "use public or made-up ones")],
)
def test_help_is_wrapped_once(skipring: Command, line: str, together: str) -> None:
    assert together in skipring(line).out


@pytest.mark.parametrize(
    "line",
    [
        "timeout --delay gamma:0.25,1 --json",
        "privacy --schedule random-ring --nodes 20 --steps 200 --skip 0.1 --noise-multiplier 5 --delta 1e-5 --json",
    ],
)
def test_small_commands_load_no_heavy_libraries(line: str) -> None:
    heavy = ["matplotlib", "numba", "sklearn", "scipy.stats", "scipy.optimize", "plotly"]
    program = (
        "import sys; sys.argv = ['skipring', *sys.argv[1:]]\n"
        "from skipring.cli import main\n"
        "main()\n"
        f"print([name for name in {heavy!r} if name in sys.modules], file=sys.stderr)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program, *line.split()], capture_output=True, text=True, check=True, timeout=120
    )
    assert done.stderr.strip() == "[]"
    json.loads(done.stdout)
