"""Ctrl-C ends long work within seconds, keeps what is finished, and prints a command that goes on: real processes."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from skipring.simulation import Result

#: A run of minutes: three million hops of images, in one call of compiled code.
LONG = """[data]
name = "digits"
nodes = 20
[schedule]
name = "random-ring"
steps = 3_000_000
[delay]
timeout = inf
[privacy]
protects = "record"
noise_multiplier = 1.0
[simulation]
runs = 2
evaluate_every = 1_000_000_000
record_path = false
"""
NETWORK = LONG.replace("[schedule]", '[model]\nname = "nets:large"\n[schedule]').replace(
    "[simulation]", "[learning]\ngradient_bound = 1.0\n[simulation]"
)
MODULE = """from torch import nn

def large(): return nn.Sequential(nn.Linear(64, 512), nn.Tanh(), nn.Linear(512, 10))
"""
SWEEP = "".join(f"[base.{line[1:]}\n" if line[0] == "[" else f"{line}\n" for line in LONG.splitlines())
#: From the signal to the end of the process. Two seconds are promised; other tests may keep the machine busy.
SOON = 6.0


def interrupted(folder: Path, words: list[str], begun: Callable[[], bool], moment: float = 1.0) -> tuple[float, str]:
    """Start a command, send it SIGINT a moment after it has begun, and return the seconds to its end and its words."""
    here = os.environ | {"PYTHONPATH": os.pathsep.join([*sys.path, "."])}
    command = [sys.executable, "-m", "skipring", *words]
    with subprocess.Popen(
        command, cwd=folder, env=here, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        deadline = time.monotonic() + 120.0
        while not begun():
            assert process.poll() is None, process.communicate()
            assert time.monotonic() < deadline
            time.sleep(0.05)
        time.sleep(moment)
        sent = time.monotonic()
        process.send_signal(signal.SIGINT)
        try:
            out, err = process.communicate(timeout=30)
        finally:
            process.kill()
    assert (process.returncode, out) == (130, ""), err
    return time.monotonic() - sent, err


@pytest.mark.early
@pytest.mark.parametrize("kind", ["network", "linear"])
def test_one_long_run_ends_soon_and_is_gone_on_with(kind: str, tmp_path: Path) -> None:
    (tmp_path / "my run.toml").write_text(NETWORK if kind == "network" else LONG)
    (tmp_path / "nets.py").write_text(MODULE)
    words = ["simulate", "my run.toml", "--set", "learning.rate=0.01"]
    seconds, err = interrupted(tmp_path, words, (tmp_path / "my run" / "started.json").exists)
    assert seconds < SOON
    assert err == (
        "interrupted: 0 of 2 runs are finished; what is finished is in my run; go on with:\n"
        "  skipring simulate 'my run.toml' --set learning.rate=0.01 --resume\n"
    )


def test_the_printed_command_goes_on(tmp_path: Path) -> None:
    (tmp_path / "my run.toml").write_text("[simulation]\nruns = 400\nevaluate_every = 5\n")
    runs = tmp_path / "the results" / "runs"
    words = ["simulate", "my run.toml", "--out", "the results", "--set", "learning.rate=0.2", "--json"]
    _, err = interrupted(tmp_path, words, lambda: len(list(runs.glob("*.npz"))) > 5, moment=0.0)
    kept = len(list(runs.glob("*.npz")))
    assert err.startswith(f"interrupted: {kept} of 400 runs are finished")
    program, *again = shlex.split(err.splitlines()[1])
    assert program == "skipring"
    command = [sys.executable, "-m", "skipring", *again]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, timeout=300)
    assert Result.load(tmp_path / "the results").settings["learning"]["rate"] == 0.2


@pytest.mark.slow
def test_worth_ends_soon(tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(LONG)
    began = time.monotonic()
    words = ["worth", "run.toml", "--epsilons", "1"]
    seconds, err = interrupted(tmp_path, words, lambda: time.monotonic() > began + 6.0)
    assert seconds < SOON
    assert err.startswith("interrupted: ")
    assert err.endswith("; nothing is kept; begin anew\n")


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_sweep_ends_soon_with_its_workers(workers: int, tmp_path: Path) -> None:
    (tmp_path / "grid.toml").write_text(f'{SWEEP}[[grid]]\n"learning.rate" = [0.1, 0.2]\n')
    cells = tmp_path / "grid-sweep" / "cells"
    words = ["sweep", "grid.toml", "--workers", str(workers)]
    seconds, err = interrupted(tmp_path, words, lambda: len(list(cells.glob("*.part/started.json"))) == workers)
    assert seconds < SOON
    assert err == "interrupted: 0 of 4 runs are finished; they are kept, and the same command goes on\n"
