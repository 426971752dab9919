"""Sweeps: every cell is computed once, whoever is interrupted or killed, and ends with the same bytes."""

from __future__ import annotations

import csv
import json
import math
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring._numbers import upper
from skipring.errors import InvalidInput
from skipring.experiments import Store, Sweep, _ray, curves, parse_sweep, read_sweep, run_sweep, runner
from skipring.simulation import Interrupted, Result, simulate

TINY = """
[base.schedule]
steps = 226
[base.privacy]
noise_multiplier = 2.0
[base.simulation]
runs = 3
evaluate_every = 113
record_path = false
[[grid]]
"delay.skip" = [0.1, 0.5]
"schedule.name" = ["ring", "random-ring"]
"""
# A second of work on two cores, in runs of about ten milliseconds.
LONG = """
[base.schedule]
name = "ring"
steps = 60000
[base.simulation]
runs = 50
evaluate_every = 1000
record_path = false
[[grid]]
"privacy.noise_multiplier" = [2, 3, 4, 5]
"""


def sweep_of(text: str, tmp_path: Path, changes: tuple[str, ...] = ()) -> Sweep:
    (tmp_path / "grid.toml").write_text(text)
    return read_sweep(tmp_path / "grid.toml", changes=changes)


def contents(folder: Path) -> dict[str, bytes]:
    """All files of all cells; what is unfinished or locked would show up as well."""
    cells = folder / "cells"
    return {str(path.relative_to(cells)): path.read_bytes() for path in sorted(cells.rglob("*")) if path.is_file()}


# --- What a sweep file says


def test_a_grid_is_all_combinations_and_several_are_joined() -> None:
    sweep = parse_sweep(
        {
            "title": "Two grids",
            "base": {"simulation": {"runs": 7}, "delay": {"timeout": 1.0}},
            "grid": [
                {"delay.skip": [0.1, 0.5], "schedule.name": ["ring", "random-ring"]},
                {"delay": {"skip": 0.5}, "schedule.name": "ring"},  # there already
                {"delay.timeout": math.inf, "schedule.name": "ring"},
                {},  # the base itself
            ],
            "figure": {"x": "latency"},
        },
        name="both",
    )
    assert [cell.label for cell in sweep.cells] == [
        "skip-0.1_name-ring",
        "skip-0.1_name-random-ring",
        "skip-0.5_name-ring",
        "skip-0.5_name-random-ring",
        "timeout-inf_name-ring",
        "base",
    ]
    assert [cell.run.delay.skip for cell in sweep.cells] == [0.1, 0.1, 0.5, 0.5, None, None]
    assert [cell.run.delay.timeout for cell in sweep.cells] == [None, None, None, None, math.inf, 1.0]
    assert {cell.run.simulation.runs for cell in sweep.cells} == {7}
    assert sweep.cells[0].changes == {"delay.skip": 0.1, "schedule.name": "ring"}
    assert len({cell.key for cell in sweep.cells}) == 6
    assert all(len(cell.key) == 16 and int(cell.key, 16) >= 0 for cell in sweep.cells)
    assert (sweep.name, sweep.title, sweep.figure) == ("both", "Two grids", {"x": "latency"})
    assert sweep.varied == ("delay.skip", "schedule.name", "delay.timeout")
    assert sweep.runs == 42


def test_changes_apply_to_every_cell_whatever_the_grid_says() -> None:
    values = {"grid": {"delay.skip": [0.1, 0.5], "schedule.name": ["ring", "random-ring"]}}
    sweep = parse_sweep(values, name="x", changes=["delay.timeout=0.3", "simulation.runs=2"])
    assert [cell.label for cell in sweep.cells] == ["name-ring", "name-random-ring"]
    assert {(cell.run.delay.timeout, cell.run.delay.skip) for cell in sweep.cells} == {(0.3, None)}
    assert {cell.run.simulation.runs for cell in sweep.cells} == {2}
    # A key stands for the run, not for how it was written.
    other = parse_sweep({"base": {"delay": {"timeout": 0.3}, "simulation": {"runs": 2}}, **values}, name="y")
    assert not {cell.key for cell in sweep.cells} & {cell.key for cell in other.cells}
    single = parse_sweep(
        {"grid": {"schedule.name": "ring", "delay.timeout": 0.3, "simulation": {"runs": 2.0}}}, name="z"
    )
    assert single.cells[0].key == sweep.cells[0].key


def test_keys_tell_apart_what_json_may_confuse() -> None:
    sweep = parse_sweep({"grid": {"delay.timeout": [math.inf, "most-updates", 1]}}, name="x")
    plain = parse_sweep({"grid": {"schedule.name": "random-ring"}}, name="x")  # the default, and so no change
    assert len({cell.key for cell in [*sweep.cells, *plain.cells]}) == 4


def test_another_data_file_under_the_same_name_is_another_cell(tmp_path: Path) -> None:
    keys = set()
    for duration in ("1.0", "2.0"):
        (tmp_path / "delays.csv").write_text(f"duration\n{duration}\n")
        sweep = parse_sweep({"grid": {"delay.law": f"0.9*empirical:{tmp_path}/delays.csv|0.1*never"}}, name="x")
        keys.add(sweep.cells[0].key)
    assert len(keys) == 2


def test_labels_say_which_of_two_names_is_meant_and_stay_apart() -> None:
    long = [[1.0] * 40 + [float(last)] for last in (1, 2)]
    values = {"grid": {"data.name": ["digits"], "schedule.name": ["ring"], "stragglers.speeds": long}}
    first, second = (cell.label for cell in parse_sweep(values, name="x").cells)
    assert first.startswith("data.name-digits_schedule.name-ring_speeds-")
    assert len(first) < 80
    assert first != second


GOOD = '[[grid]]\n"delay.skip" = [0.1, 0.5]\n'


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("grid = [", "", ["FILE bad.toml", "is not TOML"]),
        ("bases = 3\n" + GOOD, "", ["FILE bad.toml", "unknown key bases", "did you mean base?"]),
        ("[delay]\nskip = 0.1\n" + GOOD, "", ["unknown key delay", "[base.delay]"]),
        ("base = 3\n" + GOOD, "", ["base", "[base.data]"]),
        ("base.delay = 3\n" + GOOD, "", ["base", "[base.data]"]),
        ("figure = 3\n" + GOOD, "", ["figure", "table"]),
        ("name = 3\n" + GOOD, "", ["name", "3"]),
        ("name = '../x'\n" + GOOD, "", ["name", "../x"]),
        ("[base.delay]\nskp = 0.1\n" + GOOD, "", ["delay.skp 0.1", "in the base", "did you mean delay.skip?"]),
        ('[[grid]]\n"delay.skp" = [0.1]\n', "", ["delay.skp 0.1", "in the grid", "did you mean delay.skip?"]),
        ('[[grid]]\n"dely.skip" = [0.1]\n', "", ["dely", "in the grid", "did you mean [delay]?"]),
        ('[[grid]]\n"delay.skip" = ["often"]\n', "", ["delay.skip 'often'", "in the grid", "number"]),
        ("[[grid]]\nskip = [0.1]\n", "", ["skip", "section.key"]),
        ('[[grid]]\n"delay.skip" = []\n', "", ["delay.skip", "no values"]),
        ('[[grid]]\n"delay.skip" = 0.1\n"delay.timeout" = 1.0\n', "", ["delay.skip 0.1", "excludes another"]),
        ("[base.delay]\nskip = 0.1\n", "", ["no [[grid]]", "skipring simulate"]),
        ("[[grid]]\n[grid.delay]\n", "", ["no [[grid]]", "skipring simulate"]),
        ("grid = 3\n", "", ["grid", "table"]),
        ('[grid]\n"simulation.seed" = [' + "1," * 101 + ']\n"delay.skip" = [' + "0.1," * 100 + "]\n", "", ["10100"]),
        (GOOD, "--set delay.skp=1", ["delay.skp 1", "in --set"]),
        (GOOD, "--set delay", ["--set delay", "section.key=value"]),
        (GOOD, "--runs 0", ["--runs 0"]),
        (GOOD, "--workers 0", ["--workers 0"]),
        (GOOD, "--engine cloud", ["--engine cloud"]),
        (GOOD, "--engine ray --address 127.0.0.1:1 --workers 2", ["--workers 2", "brings its own"]),
        (GOOD, "--address 127.0.0.1:1", ["--address 127.0.0.1:1", "engine ray"]),
        (GOOD, "--out bad.toml", ["--out bad.toml", "is a file"]),
        (None, "", ["FILE bad.toml", "does not exist"]),
    ],
)
def test_bad_input_gets_one_line_and_exit_code_2(
    skipring: Callable[[str], Any], tmp_path: Path, text: str | None, options: str, words: list[str]
) -> None:
    if text is not None:
        (tmp_path / "bad.toml").write_text(text)
    code, out, err = skipring(f"sweep bad.toml {options}")
    assert (code, out) == (2, "")
    assert err.startswith("error: ")
    assert err.count("\n") == 1
    for word in words:
        assert word in err
    assert [path.name for path in tmp_path.iterdir()] == ([] if text is None else ["bad.toml"])


# --- What a sweep computes and keeps


def test_a_cell_is_the_simulation_of_its_run_file(tmp_path: Path) -> None:
    sweep = sweep_of(TINY, tmp_path)
    seen: list[tuple[int, int]] = []
    outcome = run_sweep(sweep, tmp_path / "kept", workers=1, progress=lambda *both: seen.append(both))
    assert (outcome.computed, outcome.reused, outcome.failures) == (4, 0, {})
    assert list(outcome.results) == [cell.key for cell in sweep.cells]
    assert seen == [(runs, 12) for runs in range(13)]
    for cell in sweep.cells:
        kept, alone = outcome.results[cell.key], simulate(cell.run)
        for name in ("points", "test_error", "loss", "latency", "updates", "offered", "skipped"):
            assert np.array_equal(getattr(kept, name), getattr(alone, name))
        assert kept.models.shape == (3, 0)
        # The last digits of an epsilon depend on how many threads numpy uses, which sweeps set to one.
        assert kept.privacy.epsilon == pytest.approx(alone.privacy.epsilon, rel=1e-9)
    before = contents(tmp_path / "kept")
    seen.clear()
    again = run_sweep(sweep, tmp_path / "kept", progress=lambda *both: seen.append(both))
    assert (again.computed, again.reused, seen) == (0, 4, [(12, 12)])
    assert contents(tmp_path / "kept") == before
    more = run_sweep(sweep_of(TINY, tmp_path, ("simulation.runs=4",)), tmp_path / "kept", workers=1)
    assert (more.computed, more.reused) == (4, 0)
    wider = sweep_of(TINY.replace("[0.1, 0.5]", "[0.1, 0.5, 0.9]"), tmp_path)
    joined = run_sweep(wider, tmp_path / "kept", workers=1)
    assert (joined.computed, joined.reused) == (2, 4)


def test_a_sweep_prints_a_table_and_leaves_curves(skipring: Callable[[str], Any], tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text('name = "skips"\n' + TINY)
    listed = skipring("sweep grid.toml --list")
    assert listed.code == 0
    assert "0 of 4 cells are finished in skips-sweep" in listed.out
    assert listed.out.count("0 of 3") == 4
    assert not (tmp_path / "skips-sweep").exists()
    answer = skipring("sweep grid.toml --workers 1")
    assert (answer.code, answer.err) == (0, "")
    assert max(map(len, answer.out.splitlines())) <= 80
    words = " ".join(answer.out.split())
    assert "4 cells computed, 0 reused" in words
    cells = read_sweep(tmp_path / "grid.toml").cells
    with (tmp_path / "skips-sweep" / "skips.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 4 * 3
    for cell in cells:
        result = Result.load(tmp_path / "skips-sweep" / "cells" / cell.key)
        error, latency = result.summary().test_error, result.summary().latency
        assert f"{error.mean:.4f} ± {error.std:.4f}" in words
        assert result.privacy.epsilon is not None
        assert upper(result.privacy.epsilon) in words
        last = [row for row in rows if row["label"] == cell.label][-1]
        assert float(last["delay.skip"]) == cell.run.delay.skip
        assert last["schedule.name"] == cell.run.schedule.name
        assert int(last["steps"]) == 226
        assert float(last["updates_mean"]) == pytest.approx(result.updates[:, -1].mean())
        assert float(last["latency_mean"]) == pytest.approx(latency.mean)
        assert float(last["latency_std"]) == pytest.approx(latency.std)
        assert float(last["test_error_mean"]) == pytest.approx(error.mean)
        assert float(last["test_error_std"]) == pytest.approx(error.std)
    data = skipring("sweep grid.toml --json").data
    assert (data["computed"], data["reused"], data["csv"]) == (0, 4, "skips-sweep/skips.csv")
    assert [(cell["key"], cell["label"], cell["runs"]) for cell in data["cells"]] == [
        (cell.key, cell.label, 3) for cell in cells
    ]
    listed = skipring("sweep grid.toml --list --json")
    assert [(cell["finished"], cell["finished_runs"]) for cell in listed.data["cells"]] == [(True, 3)] * 4
    every = " ".join(str(path) for path in sorted((tmp_path / "skips-sweep" / "cells").iterdir()))
    assert len(skipring(f"report {every} --json").data["folders"]) == 4


def test_many_varied_values_fit_into_80_columns(skipring: Callable[[str], Any], tmp_path: Path) -> None:
    base, _, _ = TINY.partition("[[grid]]")
    rows = [(0.1, "ring", "sqrt", "gamma:0.25,1", 0.123456), (0.5, "random-ring", "constant", "lomax:3.25,2.125", 0.2)]
    names = ("delay.skip", "schedule.name", "learning.step_size", "delay.law", "learning.rate")
    grids = [
        "".join(f'"{name}" = {json.dumps(value)}\n' for name, value in zip(names, row, strict=True)) for row in rows
    ]
    (tmp_path / "grid.toml").write_text(base + "".join(f"[[grid]]\n{grid}" for grid in grids))
    answer = skipring("sweep grid.toml --workers 1 --runs 1")
    assert answer.code == 0
    assert "2 cells computed" in answer.out
    assert max(map(len, answer.out.splitlines())) <= 80


def test_a_cell_that_cannot_be_run_does_not_cost_the_others(skipring: Callable[[str], Any], tmp_path: Path) -> None:
    text = TINY.replace('"delay.skip" = [0.1, 0.5]', '"learning.batch" = [1, 500]')
    text = text.replace("noise_multiplier = 2.0", 'noise_multiplier = 2.0\nprotects = "node"')
    (tmp_path / "grid.toml").write_text(text)
    for workers in (1, 2):
        answer = skipring(f"sweep grid.toml --workers {workers} --out {workers}")
        assert answer.code == 1
        failed = [line for line in answer.out.splitlines() if "failed" in line]
        assert len(failed) == 2
        for line, name in zip(failed, ("ring", "random-ring"), strict=True):
            assert line.startswith(f"batch-500_name-{name} failed: learning.batch = 500: must be at most 4")
        assert "2 cells computed, 0 reused" in answer.out
    data = skipring("sweep grid.toml --out 1 --json").data
    assert [cell.get("failure", "")[:14] for cell in data["cells"]] == ["", "", "learning.batch", "learning.batch"]
    assert data["reused"] == 2


def test_results_of_another_version_are_left_alone(skipring: Callable[[str], Any], tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(TINY)
    assert skipring("sweep grid.toml --workers 1 --out kept").code == 0
    marker = tmp_path / "kept" / "sweeps.json"
    version = json.loads(marker.read_text())["code_version"]
    marker.write_text(marker.read_text().replace(version, "0.0.9+1"))
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").rglob("*")}
    for option in ("", "--list"):
        code, out, err = skipring(f"sweep grid.toml --runs 5 --out kept {option}")
        assert (code, out) == (2, "")
        assert err.count("\n") == 1
        for word in ("--out kept", "0.0.9+1", version, "choose another folder"):
            assert word in err
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "kept").rglob("*")} == before
    marker.write_text("{")
    assert "sweeps.json: is damaged" in skipring("sweep grid.toml --out kept").err


def test_a_damaged_cell_is_named(skipring: Callable[[str], Any], tmp_path: Path) -> None:
    sweep = sweep_of(TINY, tmp_path)
    run_sweep(sweep, tmp_path / "kept", workers=1)
    before = contents(tmp_path / "kept")
    broken = tmp_path / "kept" / "cells" / sweep.cells[2].key
    (broken / "privacy.json").write_bytes(before[f"{broken.name}/privacy.json"][:100])
    code, out, err = skipring("sweep grid.toml --out kept")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: --out kept/cells/{broken.name}: is damaged")
    assert err.endswith("; delete it to compute it again\n")
    for path in broken.iterdir():
        path.unlink()
    broken.rmdir()
    assert skipring("sweep grid.toml --out kept --json").data["computed"] == 1
    assert contents(tmp_path / "kept") == before


def test_what_a_killed_process_left_half_done_is_begun_again(tmp_path: Path) -> None:
    sweep = sweep_of(TINY, tmp_path)
    run_sweep(sweep, tmp_path / "whole", workers=1)
    store = Store(tmp_path / "kept")
    store.prepare()
    first, second, third, _ = (store.cells / f"{cell.key}.part" for cell in sweep.cells)
    first.mkdir()
    (first / "started.json").write_text('{"data":')  # killed while beginning
    sweep_of(TINY, tmp_path)
    simulate(sweep.cells[1].run, out=second)  # killed just before the folder got its name
    (third / "runs").mkdir(parents=True)
    (third / "runs" / "000000.part.npz").write_bytes(b"PK")  # killed while writing a run
    (third / "started.json").write_text(sweep.cells[2].run.model_dump_json())
    assert run_sweep(sweep, tmp_path / "kept", workers=1).computed == 4
    assert contents(tmp_path / "kept") == contents(tmp_path / "whole")


def test_a_cell_is_computed_by_one_process_and_not_again(tmp_path: Path) -> None:
    cell, *_ = sweep_of(TINY, tmp_path).cells
    store = Store(tmp_path / "kept")
    store.prepare()
    with store.claim(cell.key):
        assert store.compute(cell.key, cell.run, 1) == "claimed"
    assert not store.finished(cell.key)
    assert store.compute(cell.key, cell.run, 1) == "computed"
    before = contents(tmp_path / "kept")
    assert store.compute(cell.key, cell.run, 1) == "reused"
    # Where locks do not reach, another machine may have finished the same.
    store.keep(cell.key, simulate(cell.run, keep_models=False))
    assert contents(tmp_path / "kept") == before


def test_a_folder_that_cannot_be_filled_is_refused(tmp_path: Path) -> None:
    sweep = sweep_of(TINY, tmp_path)
    with pytest.raises(InvalidInput, match=r"out = .*\.lock: cannot be written: No such file"):
        Store(tmp_path / "unprepared").compute(sweep.cells[0].key, sweep.cells[0].run, 1)
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "cells").touch()
    with pytest.raises(InvalidInput, match=r"out = .*kept: cannot be written: File exists"):
        run_sweep(sweep, tmp_path / "kept")
    with pytest.raises(InvalidInput, match="engine = cloud: must be local or ray"):
        run_sweep(sweep, tmp_path / "other", engine="cloud")  # type: ignore[arg-type] # what is not local, or ray


def test_a_missing_file_is_the_trouble_of_its_cell(tmp_path: Path) -> None:
    grid = {"delay.law": ["exponential:1", f"empirical:{tmp_path}/nowhere.csv"], "simulation.runs": 1}
    outcome = run_sweep(parse_sweep({"grid": grid}, name="x"), tmp_path / "kept", workers=1)
    assert outcome.computed == 1
    (line,) = outcome.failures.values()
    assert "nowhere.csv" in line
    assert "\n" not in line


def test_an_error_that_is_none_of_ours_says_where_it_was() -> None:
    try:
        int("many\nwords")
    except ValueError as error:
        line = runner.one_line(error)
    assert re.fullmatch(r"ValueError: invalid literal for int\(\) .* \(test_sweep\.py:\d+\)", line)
    assert runner._how(3) == "with exit status 3"
    assert runner._how(-signal.SIGSEGV) == "of SIGSEGV"


def test_a_value_that_a_cell_does_not_have_is_a_dash(skipring: Callable[[str], Any], tmp_path: Path) -> None:
    base, _, _ = TINY.partition("[[grid]]")
    (tmp_path / "grid.toml").write_text(
        base.replace("steps", 'name = "ring"\nsteps', 1)
        + '[[grid]]\n"delay.skip" = 0.1\n[[grid]]\n"delay.timeout" = 0.5\n'
    )
    rows = [line.split() for line in skipring("sweep grid.toml --workers 1 --runs 1").out.splitlines()]
    assert [row[:2] for row in rows if "±" in row and "Mean" not in row] == [["0.1", "-"], ["-", "0.5"]]


def test_a_stop_is_heard(tmp_path: Path) -> None:
    stop = threading.Event()
    stop.set()
    sweep = sweep_of(TINY, tmp_path)
    with pytest.raises(Interrupted, match="0 of 12 runs"):
        run_sweep(sweep, tmp_path / "kept", stop=stop)
    stop.clear()

    def after_five(finished: int, _total: int) -> None:
        if finished >= 5:
            stop.set()

    with pytest.raises(Interrupted, match=r"[56] of 12 runs"):  # a run that has begun is finished
        run_sweep(sweep, tmp_path / "kept", workers=1, stop=stop, progress=after_five)
    outcome = run_sweep(sweep, tmp_path / "kept", workers=1)
    assert outcome.reused in (1, 2)
    assert len(outcome.results) == 4


def test_a_claimed_cell_is_waited_for_and_a_dead_claim_is_void(tmp_path: Path) -> None:
    sweep = sweep_of(TINY, tmp_path)
    store = Store(tmp_path / "kept")
    store.prepare()
    (store.cells / f"{sweep.cells[1].key}.lock").touch()  # its owner was killed
    stop = threading.Event()

    def when_only_one_is_left(finished: int, _total: int) -> None:
        if finished == 9:
            stop.set()

    with store.claim(sweep.cells[0].key) as mine:
        assert mine
        with pytest.raises(Interrupted, match="9 of 12 runs"):
            run_sweep(sweep, tmp_path / "kept", workers=1, stop=stop, progress=when_only_one_is_left)
    assert not store.finished(sweep.cells[0].key)
    assert all(store.finished(cell.key) for cell in sweep.cells[1:])
    outcome = run_sweep(sweep, tmp_path / "kept")
    assert (outcome.computed, outcome.reused) == (1, 3)
    assert not list(store.cells.glob("*.lock"))


def test_networks_are_run_one_after_another_in_this_process(tmp_path: Path) -> None:
    bright = np.arange(40) % 2
    np.savez(
        tmp_path / "pictures.npz", X=np.random.default_rng(1).random((40, 784)) * (0.5 + bright[:, None]), y=bright
    )
    base = {
        "data": {"path": str(tmp_path / "pictures.npz"), "label": "y", "nodes": 4},
        "model": {"name": "cnn", "device": "cpu"},
        "schedule": {"name": "random-ring", "steps": 8},
        "learning": {"gradient_bound": 1.0},
        "simulation": {"runs": 2},
    }
    sweep = parse_sweep({"base": base, "grid": {"privacy.noise_multiplier": [0.1, 0.2]}}, name="networks")
    seen: list[tuple[int, list[int]]] = []
    already = set(children(os.getpid()))

    def look(finished: int, _total: int) -> None:
        seen.append((finished, [child for child in children(os.getpid()) if child not in already]))

    outcome = run_sweep(sweep, tmp_path / "kept", workers=2, progress=look)
    assert (outcome.computed, outcome.failures) == (2, {})
    assert seen == [(finished, []) for finished in range(5)]


def test_a_network_of_ones_own_is_a_network_like_any_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    base = {"simulation": {"runs": 20}, "data": {"nodes": 4}, "privacy": {"noise_multiplier": 1.0}}
    models = ["mine:net", "cnn", "logistic", "softmax"]
    sweep = parse_sweep({"base": base, "grid": {"model.name": models}}, name="networks")
    here: list[str | None] = []
    elsewhere: list[str | None] = []
    monkeypatch.setattr(runner, "_compute_in_this_process", lambda _, cell, __: here.append(cell.run.model.name))
    monkeypatch.setattr(
        runner,
        "_compute_in_processes",
        lambda _, cells, *__: elsewhere.extend(cell.run.model.name for cell in cells),
    )
    runner._compute_here(runner.Board(sweep, Store(tmp_path), None, None), sweep.cells, 2)
    assert (here, elsewhere) == (["mine:net", "cnn"], ["logistic", "softmax"])
    # Ray gives a GPU to whoever asks for one.
    assert ["num_gpus" in _ray._options(cell.run, has_gpu=True) for cell in sweep.cells] == [True, True, False, False]
    assert not any("num_gpus" in _ray._options(cell.run, has_gpu=False) for cell in sweep.cells)
    # A quick look is one run of two rounds.
    assert curves._quick(sweep) == ["simulation.runs=1", "schedule.steps=8", "simulation.evaluate_every=20"]


# --- Real processes, real signals


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the long sweep leaves when nothing happens to it, computed without worker processes."""
    folder = tmp_path_factory.mktemp("long")
    assert run_sweep(sweep_of(LONG, folder), folder / "kept", workers=1).computed == 4
    return contents(folder / "kept")


@contextmanager
def started(tmp_path: Path, *options: str) -> Iterator[subprocess.Popen[str]]:
    """A sweep in a process group of its own, as a terminal would start it."""
    (tmp_path / "grid.toml").write_text(LONG)
    command = [sys.executable, "-m", "skipring", "sweep", "grid.toml", "--out", "kept", "--json", *options]
    process = subprocess.Popen(
        command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, process_group=0
    )
    try:
        yield process
    finally:
        process.kill()
        process.communicate()


def until(condition: Callable[[], Any], process: subprocess.Popen[str]) -> Any:
    deadline = time.monotonic() + 120.0
    while not (found := condition()):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return found


def children(pid: int) -> list[int]:
    """The processes that a process has started and that have not ended."""
    try:
        words = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return []
    return [child for child in map(int, words.split()) if alive(child)]


def alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def parts(tmp_path: Path) -> list[Path]:
    """The runs of cells that are not finished."""
    return list((tmp_path / "kept" / "cells").glob("*.part/runs/[0-9]*.npz"))


@pytest.mark.early
@pytest.mark.slow
def test_a_sweep_that_is_killed_and_interrupted_goes_on(tmp_path: Path, uninterrupted: dict[str, bytes]) -> None:
    with started(tmp_path, "--workers", "2") as process:
        until(lambda: len(parts(tmp_path)) > 5, process)
        workers = children(process.pid)
        process.kill()
        process.wait()
    assert len(workers) == 2
    deadline = time.monotonic() + 60.0
    while any(map(alive, workers)):  # they find out by themselves
        assert time.monotonic() < deadline
        time.sleep(0.01)

    kept = {path: path.stat().st_mtime_ns for path in parts(tmp_path)}
    assert kept
    with started(tmp_path, "--workers", "2") as process:
        until(lambda: set(parts(tmp_path)) - set(kept), process)
        workers = children(process.pid)
        os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches everything that the terminal runs
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.startswith("interrupted: ")
    assert err.endswith("of 200 runs are finished; they are kept, and the same command goes on\n")
    assert err.count("\n") == 1
    assert len(workers) == 2
    assert not any(map(alive, workers))
    assert all(path.stat().st_mtime_ns == written for path, written in kept.items() if path.exists())

    with started(tmp_path, "--workers", "2") as process:
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["computed"] + json.loads(out)["reused"] == 4
    assert json.loads(out)["computed"] > 0
    assert contents(tmp_path / "kept") == uninterrupted


@pytest.mark.slow
def test_two_processes_share_the_work(tmp_path: Path, uninterrupted: dict[str, bytes]) -> None:
    with started(tmp_path, "--workers", "1") as first, started(tmp_path, "--workers", "2") as second:
        answers = [json.loads(process.communicate(timeout=120)[0]) for process in (first, second)]
    assert [answer["computed"] + answer["reused"] for answer in answers] == [4, 4]
    assert answers[0]["computed"] + answers[1]["computed"] == 4
    assert answers[0]["computed"] > 0
    assert answers[1]["computed"] > 0
    assert contents(tmp_path / "kept") == uninterrupted


@pytest.mark.slow
def test_a_killed_worker_loses_nothing(tmp_path: Path, uninterrupted: dict[str, bytes]) -> None:
    with started(tmp_path, "--workers", "2") as process:
        until(lambda: len(parts(tmp_path)) > 5, process)
        worker = children(process.pid)[0]
        os.kill(worker, signal.SIGKILL)
        until(lambda: len(set(children(process.pid)) - {worker}) == 2, process)  # another has taken its place
        out, err = process.communicate(timeout=120)
    assert (process.returncode, err) == (0, "")
    assert json.loads(out)["computed"] == 4
    assert contents(tmp_path / "kept") == uninterrupted


def test_a_cell_whose_process_always_dies_is_reported(tmp_path: Path) -> None:
    killed = set()
    with started(tmp_path, "--workers", "2") as process:
        while process.poll() is None:
            for worker in children(process.pid):
                killed.add(worker)
                os.kill(worker, signal.SIGKILL)
            time.sleep(0.01)
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (1, "")
    failures = {cell["failure"] for cell in json.loads(out)["cells"]}
    assert failures == {"its process died 3 times, at last of SIGKILL; is there enough memory?"}
    assert len(killed) == 12


SCHEMA = """
[[column]]
name = "age"
range = [0, TOP]
[[column]]
name = "ill"
label = true
categories = ["no", "yes"]
"""


def test_a_sweep_may_name_schemas_and_a_table_beside_it(
    tmp_path: Path, skipring: Callable[[str], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = [f"{age},{'yes' if age > 40 else 'no'}" for age in range(20, 80)]
    there = tmp_path / "there"
    there.mkdir()
    (there / "rows.csv").write_text("\n".join(["age,ill", *rows]))
    for name, top in (("narrow", "50"), ("wide", "100")):
        (there / f"{name}.toml").write_text(SCHEMA.replace("TOP", top))
    base = TINY.split("[[grid]]", maxsplit=1)[0].replace("steps =", 'name = "random-ring"\nsteps =')
    base += '[base.data]\npath = "rows.csv"\nnodes = 5\n'
    (there / "grid.toml").write_text(base + '[[grid]]\n"data.schema_file" = ["narrow.toml", "wide.toml"]\n')
    asked = read_sweep(there / "grid.toml")
    assert [cell.label for cell in asked.cells] == ["schema_file-narrow.toml", "schema_file-wide.toml"]
    assert asked.varied == ("data.schema_file",)
    (there / "fixed.toml").write_text(
        base.replace("nodes", 'schema_file = "wide.toml"\nnodes') + '[[grid]]\n"learning.rate" = 1\n'
    )
    inline = base + SCHEMA.replace("TOP", "100").replace("[[", "[[base.") + '[[grid]]\n"learning.rate" = 1\n'
    (there / "inline.toml").write_text(inline)
    assert read_sweep(there / "fixed.toml").cells[0].key == read_sweep(there / "inline.toml").cells[0].key
    for line in ("sweep there/grid.toml", "sweep there/grid.toml --out two --set data.schema_file=there/wide.toml"):
        answer = skipring(line)
        assert answer.code == 0, answer.err
    assert "narrow" not in (tmp_path / "two" / "grid.csv").read_text()
