"""A node as a process: settings in, exit code out, with logs, signals and health as a supervisor expects them."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import logging
import os
import resource
import signal
import sys
import time
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from ..._writing import write_file, writing
from ...errors import InvalidInput

if TYPE_CHECKING:
    from ..node import Node, NodeStatus

#: Seconds that a question for a node's state waits for a test of the newest model.
_FOR_A_TEST = 2.0


def run_node(config: str | Path, *, verbose: bool = False, json_logs: bool | None = None) -> int:
    """Run a node in the foreground until the run is over or the process is told to stop (SIGTERM, SIGINT).

    Return an `ExitCode`. What is wrong is the node's last line; but InvalidInput is raised where there is no such file
    of settings, or where people look on and it cannot be read. Logs go to standard error: lines of JSON, or of text if
    it is a terminal.
    """
    log = _Log(verbose=verbose, as_json=not sys.stderr.isatty() if json_logs is None else json_logs)
    from ..node import Node, Stopped, read_node_config
    from ..storage import JournalError
    from .exit_codes import ExitCode, exit_code_of
    from .load import load_node, open_journal
    from .readiness import no_room

    logging.getLogger().addHandler(_ToLog(log))
    _raise_file_limit()
    os.umask(0o077)  # what a node writes is its owner's alone
    try:
        log.name = read_node_config(config).name
    except InvalidInput as problem:
        if not log.as_json or not Path(config).is_file():
            raise
        log.name = _name_in(Path(config))
        log.failed(_in_words(problem))
        return exit_code_of(problem)
    try:
        setup = load_node(config)
        with open_journal(setup) as journal, _pid_file(setup.config.journal.parent):
            if (spent := no_room(setup)) is not None:  # which reads the journal of this run, and no other
                setup = dataclasses.replace(setup, notes=(*setup.notes, _in_words(spent)))
            node = Node(setup, journal, log.say)
            asyncio.run(_run(node, setup.config.metrics))
    except (Stopped, JournalError, InvalidInput) as problem:
        log.failed(_in_words(problem))
        return exit_code_of(problem)
    return ExitCode.DONE


def _name_in(config: Path) -> str:
    """Return the name of a node whose settings are wrong: as they say it, if they are TOML, or else its folder's."""
    with contextlib.suppress(OSError, ValueError):
        name = tomllib.loads(config.read_text(encoding="utf-8")).get("name")
        if isinstance(name, str):
            return name
    return config.absolute().parent.name


def _in_words(problem: Exception) -> str:
    """Return what is wrong with the key or the file that it is about, which is no option of a command here."""
    if not isinstance(problem, InvalidInput):
        return str(problem)
    key = "" if problem.parameter in ("DIR", "FILE", "FEATURE") else problem.parameter
    return f"{f'{key} {problem.given}'.strip()}: {problem.reason}"


async def _run(node: Node, metrics: str | None) -> None:
    from ..node import Monitor

    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, node.stop)

    async def status() -> NodeStatus:
        with contextlib.suppress(TimeoutError):  # an error that is a little older will do
            async with asyncio.timeout(_FOR_A_TEST):
                await node.updater.test()
        return node.status()

    def ask() -> NodeStatus:
        return asyncio.run_coroutine_threadsafe(status(), loop).result(5.0)

    monitor = None if metrics is None else Monitor(metrics, ask)
    try:
        await node.run()
    finally:
        if monitor is not None:
            await asyncio.to_thread(monitor.close)


class _Log:
    """Structured lines on standard error."""

    def __init__(self, *, verbose: bool, as_json: bool) -> None:
        self.verbose, self.as_json = verbose, as_json
        self.name = ""

    def say(self, event: str, *, level: str = "info", **facts: object) -> None:
        if level == "debug" and not self.verbose:
            return
        now = time.time()
        if self.as_json:
            stamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(now)) + f".{int(now % 1 * 1000):03d}Z"
            line = json.dumps({"time": stamp, "node": self.name, "level": level, "event": event} | facts, default=str)
        else:
            words = " ".join(f"{key}={value}" for key, value in facts.items())
            line = f"{time.strftime('%H:%M:%S', time.localtime(now))} {self.name} {event} {words}".rstrip()
        with contextlib.suppress(OSError):  # the log's reader has gone; the run goes on
            os.write(2, line.encode() + b"\n")

    def failed(self, why: str) -> None:
        """Say why the node ends; to people who look on as one plain line."""
        if self.as_json:
            self.say("failed", why=why, level="error")
            return
        with contextlib.suppress(OSError):
            os.write(2, f"{self.name}: {why}\n".encode())


class _ToLog(logging.Handler):
    """What libraries have to say, as lines like all others: a log of JSON must not have anything else in it."""

    def __init__(self, log: _Log) -> None:
        super().__init__(logging.WARNING)
        self._log = log

    def emit(self, record: logging.LogRecord) -> None:
        """Say it, unless it is that a process has ended whose end was already known."""
        what = self.format(record)
        if not what.startswith("Unknown child process"):
            self._log.say("library", level=record.levelname.lower(), source=record.name, what=what)


@contextlib.contextmanager
def _pid_file(folder: Path) -> Iterator[None]:
    """Leave the number of the process in the node's folder while it runs: `skipring network stop` looks there."""
    path = folder / "node.pid"
    with writing("FILE", path):
        write_file(path, f"{os.getpid()} {process_start(os.getpid())}\n", synced=False)
    try:
        yield
    finally:
        with contextlib.suppress(OSError):
            path.unlink()


def process_start(pid: int) -> str:
    """Return when a process was started, in the words of the system; OSError if there is none."""
    # The name of the program, in brackets, may have blanks in it.
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]


def _raise_file_limit() -> None:
    """Allow as many connections as the system does: strangers that open some must not use up the nodes' own."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(hard, 65536) if hard != resource.RLIM_INFINITY else 65536
    if soft < wanted:
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
