"""All nodes of a network on this one machine: started, watched, started again if they die, and stopped."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException
from pathlib import Path

from ..._command import command
from ..._json import from_json
from ..._writing import write_file
from ...errors import InvalidInput, require_integer
from ...runs import read_run_file
from ..node import RESULT, STOPPED, NodeConfig, NodeStatus, read_node_config, read_status
from ..transport import Address, Roster, read_roster
from .agreed import run_text
from .agreed_values import MOST_STEPS
from .exit_codes import ExitCode
from .process import process_start

#: A node that ends by itself is not started again, whatever the code: its user is looking on, and is told why.
_FINAL = tuple(ExitCode)


@dataclass
class NodeState:
    """One node as seen from outside: its process, how often it was started, and what it last said of itself."""

    name: str
    running: bool
    starts: int = 0
    code: int | None = None
    status: NodeStatus | None = None


def read_network(folder: str | Path) -> tuple[Roster, list[NodeConfig]]:
    """Return the roster of a network's folder, and the settings of all of its nodes."""
    folder = Path(folder)
    if (folder / "node.toml").exists():
        asked = command("node", "status", folder)
        raise InvalidInput.because("DIR", folder, f"is the folder of one node, not of a network: {asked}")
    roster = read_roster(folder / "roster.toml")
    return roster, [read_node_config(folder / name / "node.toml") for name in roster.names]


def set_steps(folder: str | Path, steps: int) -> None:
    """Change the length of a run that has not begun, in the run files of all nodes."""
    folder = Path(folder)
    require_integer("steps", steps, 1, MOST_STEPS)
    _, configs = read_network(folder)
    begun = [config.name for config in configs if config.journal.exists()]
    paths = [folder / "run.toml", *(config.run for config in configs)]
    for path in paths:
        if path is None:
            raise InvalidInput.because("steps", steps, "a node has no run file")
        run = read_run_file(path)
        if run.schedule.steps == steps:
            continue
        if begun:
            raise InvalidInput.because("steps", steps, f"the run has begun with other steps: {begun[0]} has a journal")
        write_file(path, run_text(run.having(schedule={"steps": steps})), mode=0o644)


def node_status(config: NodeConfig, timeout: float = 1.0) -> NodeStatus | None:
    """Ask a node on this machine how it is doing; None if it does not answer, or another one does in its place."""
    found = _answer(config, timeout)
    return found if found is not None and found.name == config.name and found.run == _run_of(config) else None


def another_network(config: NodeConfig, timeout: float = 1.0) -> str | None:
    """Say so where nodes of another run answer at the address for a node's metrics; None where they do not."""
    found = _answer(config, timeout)
    if found is None or found.run == _run_of(config):
        return None
    return f"another network listens at metrics = {config.metrics}; stop it, or give each network ports of its own"


def _answer(config: NodeConfig, timeout: float) -> NodeStatus | None:
    if config.metrics is None:
        return None
    where = Address.parse(config.metrics)
    connection = HTTPConnection(where.host, where.port, timeout=timeout)
    try:
        connection.request("GET", "/status")
        answer = connection.getresponse()
        return from_json(NodeStatus, json.loads(answer.read()), "status")
    except (OSError, HTTPException, ValueError):
        return None
    finally:
        connection.close()


def _run_of(config: NodeConfig) -> object:
    """Return the identity of the run that a node's settings name; it is asked often, so no more is read."""
    try:
        values = {} if config.run is None else tomllib.loads(config.run.read_text(encoding="utf-8"))
        return values["network"]["identity"]
    except (OSError, ValueError, KeyError, TypeError):  # what is wrong with the file is said where it is read
        return None


def node_result(folder: str | Path) -> NodeStatus | None:
    """Return what a node left in its folder, at its end or when it was told to stop; None if there is nothing."""
    return read_status(Path(folder) / RESULT) or read_status(Path(folder) / STOPPED)


def stop_nodes(configs: Sequence[NodeConfig], *, wait: float = 20.0) -> dict[str, bool]:
    """Tell nodes on this machine to stop, and say of each whether it was running."""
    pids = {config.name: running_pid(config) for config in configs}
    for pid in pids.values():
        if pid is not None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + wait
    while any(running_pid(config) is not None for config in configs) and time.monotonic() < deadline:
        time.sleep(0.05)
    return {name: pid is not None for name, pid in pids.items()}


def running_pid(config: NodeConfig) -> int | None:
    """Return the process of a node on this machine, if it runs."""
    try:
        pid, started = (config.journal.parent / "node.pid").read_text().split()
        # The number may be another program's by now; when it was started tells.
        return int(pid) if process_start(int(pid)) == started else None
    except (OSError, ValueError):
        return None


class LocalNetwork:
    """Processes of all nodes of a folder; a node that dies of a signal is started again, as a supervisor would.

    Parameters
    ----------
    folder : made by `skipring network init`.
    python : what to start nodes with.
    prefix : words to put before the command of a node, by its name (to run it somewhere else).
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        python: str = sys.executable,
        prefix: Callable[[str], Sequence[str]] = lambda name: (),
        verbose: bool = False,
    ) -> None:
        self.folder = Path(folder).absolute()
        self.roster, self.configs = read_network(folder)
        for config in self.configs:
            if running_pid(config) is not None:
                raise InvalidInput.because("DIR", folder, f"node {config.name} is running already")
        self._python, self._prefix, self._verbose = python, prefix, verbose
        self._processes: dict[str, subprocess.Popen[bytes]] = {}
        self.states = [NodeState(name, running=False) for name in self.roster.names]
        self._begun = _Clock()
        self._is_new = not any(config.journal.exists() for config in self.configs)

    def start(self) -> None:
        """Start all nodes."""
        self._begun.at = time.monotonic()
        for name in self.roster.names:
            self.start_node(name)

    def start_node(self, name: str) -> None:
        """Start one node; its log is node.log in its folder."""
        folder = self.folder / name
        words = [*self._prefix(name), self._python, "-P", "-m", "skipring", "node", "run", str(folder / "node.toml")]
        words += ["--verbose"] if self._verbose else []
        # Many processes on one machine: each with one thread for linear algebra, or they get into each other's way.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        try:
            with open(folder / "node.log", "ab") as log:
                self._processes[name] = subprocess.Popen(
                    words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment, start_new_session=True
                )
        except OSError as error:
            raise InvalidInput.because("DIR", folder, f"the node cannot be started: {error}") from None
        state = self.states[self.roster.index(name)]
        # What the process before it said, such as that it holds the token, says nothing about this one.
        state.starts, state.running, state.code, state.status = state.starts + 1, True, None, None

    def pid(self, name: str) -> int:
        """Return the process of a node."""
        return self._processes[name].pid

    def look(self, *, restart: bool = True) -> list[NodeState]:
        """Return the state of all nodes; start those again that died of a signal."""
        for state, config in zip(self.states, self.configs, strict=True):
            code = self._processes[state.name].poll()
            if code is None:
                state.status = node_status(config) or state.status
            else:
                state.running, state.code = False, code
                if code not in _FINAL and restart:
                    self.start_node(state.name)
        return self.states

    @property
    def over(self) -> bool:
        """Whether every node has ended by itself, or says that the run is over."""
        return all(
            state.code in _FINAL if not state.running else state.status is not None and state.status.over
            for state in self.states
        )

    @property
    def cannot_begin(self) -> bool:
        """Whether a node could not start in a run that has not begun: the others would begin without it in the end."""
        failed = any(state.code in _FINAL and state.code != ExitCode.DONE for state in self.states)
        return failed and self._is_new and all(state.status is None or not state.status.hop for state in self.states)

    @property
    def stuck(self) -> bool:
        """Whether no majority is left of nodes that can go on."""
        return (
            sum(state.code in _FINAL and state.code != ExitCode.DONE for state in self.states)
            > (len(self.states) - 1) // 2
        )

    @property
    def seconds(self) -> float:
        """Time since the start."""
        return time.monotonic() - self._begun.at

    def stop(self, wait: float = 20.0) -> None:
        """Tell all nodes to stop, and see to it that they do."""
        for process in self._processes.values():
            if process.poll() is None:
                process.terminate()
        deadline = time.monotonic() + wait
        for process in self._processes.values():
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        for state in self.states:
            state.running = False
            state.code = self._processes[state.name].returncode if state.name in self._processes else None


@dataclass
class _Clock:
    at: float = field(default_factory=time.monotonic)
