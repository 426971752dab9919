"""Sweeps on a Ray cluster: the same bytes as on one machine, whichever worker dies."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from skipring.experiments import _ray, read_sweep, run_sweep

pytest.importorskip("ray")
# Ray asks whoever joins a cluster for its token; without this it would make one in the user's home.
TOKEN = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": "11" * 32}

# Cells of some tenths of a second, on data and measured delays in files of the user's own; the last cannot be run.
GRID = """
[base.data]
name = "houses-openml"
nodes = 20
[base.schedule]
steps = 60000
[base.delay]
law = "empirical:delays.csv"
[base.privacy]
protects = "node"
[base.simulation]
runs = 30
evaluate_every = 1000
record_path = false
[[grid]]
"schedule.name" = ["random-ring", "ring"]
"privacy.noise_multiplier" = [2, 3, 4]
[[grid]]
"learning.batch" = 500
"privacy.noise_multiplier" = 2
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with a sweep file and its data, which are all named by relative paths."""
    rooms, people = np.arange(200) % 7, np.arange(200) % 11
    (tmp_path / "data").mkdir()
    np.savez(
        tmp_path / "data" / "houses.npz",
        openml823_X=np.column_stack([rooms, people]),
        openml823_feature_names=np.array(["rooms", "people"]),
        openml823_label_P=rooms > people,
    )
    (tmp_path / "delays.csv").write_text("duration\n0.1\n0.2\n0.5\n3.0\n")
    (tmp_path / "grid.toml").write_text(GRID)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def contents(folder: Path) -> dict[str, bytes]:
    """All files of all cells; what is unfinished or locked would show up as well."""
    cells = folder / "cells"
    return {str(path.relative_to(cells)): path.read_bytes() for path in sorted(cells.rglob("*")) if path.is_file()}


@contextmanager
def started(folder: Path, *words: str) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(
        [sys.executable, *words],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        process_group=0,
        env=os.environ | TOKEN,
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


def family(pid: int) -> set[int]:
    """A process and all that it and its children have started."""
    try:
        words = " ".join(path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children"))
    except OSError:
        return set()
    return {pid}.union(*(family(child) for child in map(int, words.split())))


def title(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text()
    except OSError:
        return ""


@pytest.mark.slow
def test_a_killed_ray_worker_loses_nothing(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKIPRING_DATA", "data")
    local = run_sweep(read_sweep("grid.toml"), "here", workers=1)
    assert (local.computed, len(local.failures)) == (6, 1)
    sweep = ("-m", "skipring", "sweep", "grid.toml", "--out", "there", "--engine", "ray", "--json")
    with started(folder, *sweep, "--workers", "2") as process:
        # Ray names a worker process after the task that it is at.
        busy = until(lambda: [pid for pid in family(process.pid) if "ray::_simulate" in title(pid)], process)
        everyone = family(process.pid)
        os.kill(busy[0], signal.SIGKILL)
        out, err = process.communicate(timeout=120)
    data = json.loads(out)
    assert process.returncode == 1
    assert "worker died" in err
    assert data["computed"] == 6
    failures = [cell["failure"] for cell in data["cells"] if "failure" in cell]
    assert failures == list(local.failures.values())
    assert failures[0].startswith("learning.batch = 500: must be at most")
    assert contents(folder / "there") == contents(folder / "here")
    assert not [title(pid) for pid in everyone if "ray" in title(pid)]


CLUSTER = """
import logging, sys, ray
ray.init("local", num_cpus=2, include_dashboard=False, object_store_memory=10**8, logging_level=logging.ERROR)
print(ray.get_runtime_context().gcs_address, flush=True)
sys.stdin.read()
"""


@pytest.mark.slow
def test_what_a_cluster_began_goes_on_here(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (folder / "elsewhere").mkdir()
    with started(folder / "elsewhere", "-c", CLUSTER) as cluster:
        assert cluster.stdout is not None
        address = cluster.stdout.readline().strip()
        monkeypatch.setenv("SKIPRING_DATA", "data")  # which the cluster does not know of
        run_sweep(read_sweep("grid.toml"), "here", workers=1)
        sweep = ("-m", "skipring", "sweep", "grid.toml", "--out", "there", "--engine", "ray", "--address", address)
        with started(folder, *sweep) as process:
            until(lambda: list((folder / "there" / "cells").glob("*/metrics.npz")), process)
            os.killpg(process.pid, signal.SIGINT)
            out, err = process.communicate(timeout=60)
        cluster.communicate(timeout=60)
    assert (process.returncode, out) == (130, "")
    assert err.startswith("interrupted: ")
    assert err.endswith("of 210 runs are finished; they are kept, and the same command goes on\n")
    kept = contents(folder / "there")
    assert kept
    outcome = run_sweep(read_sweep("grid.toml"), "there", workers=1)
    assert outcome.reused == len(kept) // 3
    assert outcome.computed == 6 - len(kept) // 3 > 0
    assert contents(folder / "there") == contents(folder / "here")


@pytest.mark.parametrize("address", ["127.0.0.1:{port}", "ray://127.0.0.1:{port}"])
def test_an_address_where_nobody_is_is_refused(skipring: Callable[[str], Any], folder: Path, address: str) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:  # a port that was free a moment ago
        port = server.getsockname()[1]
    given = address.format(port=port)
    code, out, err = skipring(f"sweep grid.toml --engine ray --address {given}")
    assert (code, out) == (2, "")
    assert err == f"error: --address {given}: no Ray cluster can be reached there: Connection refused\n"
    assert not (folder / "grid-sweep").exists()


def test_an_address_where_something_else_listens_is_refused(
    skipring: Callable[[str], Any], folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_ray, "_ANSWER_SECONDS", 2.0)
    with socket.create_server(("0.0.0.0", 0)) as server:
        given = f"127.0.0.1:{server.getsockname()[1]}"
        code, out, err = skipring(f"sweep grid.toml --engine ray --address {given}")
    assert (code, out) == (2, "")
    assert err == f"error: --address {given}: what listens there does not let us in as a Ray cluster does; " + (
        "does it ask for another RAY_AUTH_TOKEN?\n"
    )
    assert not (folder / "grid-sweep").exists()


@pytest.mark.parametrize("address", ["somewhere", "ray://", "127.0.0.1:port", "127.0.0.1:99999999"])
def test_an_address_that_is_none_is_refused(skipring: Callable[[str], Any], folder: Path, address: str) -> None:
    code, out, err = skipring(f"sweep grid.toml --engine ray --address {address}")
    assert (code, out) == (2, "")
    assert err == f"error: --address {address}: must be HOST:PORT, ray://HOST:PORT or auto\n"


def test_without_ray_it_is_said_what_to_install(folder: Path) -> None:
    program = "import sys; sys.modules['ray'] = None; sys.argv[0] = 'skipring'; from skipring.cli import main; main()"
    with started(folder, "-c", program, "sweep", "grid.toml", "--engine", "ray") as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (2, "")
    assert err == "error: --engine ray: needs Ray: pip install skipring[ray]\n"
