"""What tests of whole networks share: ports that nobody uses, and the identity of a run."""

from __future__ import annotations

import json
import random
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

IDENTITY = "2026-03-01-000102030405060708090a0b"


def small_run(steps: int, privacy: str, *, timeout: float = 5.0) -> str:
    """Return a run file for few nodes that share a small data set; `privacy` has the keys of that section."""
    data, delay = '[data]\nname = "breast-cancer"\n', f"[delay]\ntimeout = {timeout}\n"
    return f"{data}[schedule]\nsteps = {steps}\n{delay}[privacy]\n{privacy}\n"


def free_ports(count: int) -> int:
    """Return the first of some neighbouring ports that nobody uses, nor those a thousand above them."""
    chance = random.Random()  # other tests look for ports at the same time
    for _ in range(1000):
        first = chance.randrange(10_000, 31_000 - count)  # below those that the system gives to callers
        try:
            for port in (*range(first, first + count), *range(first + 1000, first + 1000 + count)):
                with socket.socket() as probe:
                    probe.bind(("127.0.0.1", port))
        except OSError:
            continue
        return first
    raise AssertionError("no ports are free")


def ended(config: Path) -> tuple[int, dict[str, str]]:
    """Run a node that cannot start; return its exit code and its last line."""
    words = [sys.executable, "-m", "skipring", "node", "run", str(config)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, timeout=60)
    said: dict[str, str] = json.loads(done.stderr.splitlines()[-1])
    return done.returncode, said


def init_net(skipring_words: Callable[..., Any], folder: Path, run: str, *words: str, ports: int = 3) -> Path:
    """Make a network with `skipring network init`, at free ports; return its folder."""
    (folder / "asked-for.toml").write_text(run)
    made = skipring_words("network", "init", "net", "--port", str(free_ports(ports)), "--run", "asked-for.toml", *words)
    assert made.code == 0, made.err
    return folder / "net"


def allow(monkeypatch: pytest.MonkeyPatch, folder: Path, name: str) -> None:
    """Allow nodes to call a function of a module in a folder, as the owner of their machine does."""
    folder.mkdir(exist_ok=True)
    (folder / "owner.toml").write_text(f'[hooks]\nallow = ["{name}"]\npath = ["{folder}"]\n')
    monkeypatch.setenv("SKIPRING_OWNER", str(folder / "owner.toml"))


def wait_for(what: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait until something is so; how long it takes depends on the machine."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, "it never came to be"
        time.sleep(0.05)
