"""Run a sweep: compute the cells that are not there yet, here or on a Ray cluster."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

from ..errors import InvalidInput, require_integer
from ..runs import RunFile
from ..simulation import Interrupted, Result
from .store import Store
from .sweep import Cell, Sweep

#: Seconds between two looks at what there is to report, and at cells that other processes are at.
LOOK = 0.5
#: How often a cell is begun whose worker process dies.
_ATTEMPTS = 3


@dataclass(frozen=True, eq=False)
class SweepOutcome:
    """What became of a sweep's cells, by key: results, or a line that says why there is none."""

    results: dict[str, Result]
    failures: dict[str, str]
    computed: int
    reused: int


def run_sweep(
    sweep: Sweep,
    folder: str | Path,
    *,
    engine: Literal["local", "ray"] = "local",
    workers: int | None = None,
    address: str | None = None,
    stop: threading.Event | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> SweepOutcome:
    """Compute the cells of a sweep that are not in the folder yet, and return all.

    The local engine uses `workers` processes (default: all cores); Ray joins the cluster at `address`, or starts one
    with as many workers here. If `stop` is set, `Interrupted` is raised; what is finished stays, and the same call goes
    on. `progress` is told how many runs of all cells are finished, and how many there are.
    """
    if engine not in ("local", "ray"):
        raise InvalidInput("engine", engine, "local or ray")
    if address is not None and engine != "ray":
        raise InvalidInput.because("address", address, "is for the engine ray")
    if workers is not None:
        require_integer("workers", workers, 1)
        if address is not None:
            raise InvalidInput.because("workers", workers, "a cluster that is joined brings its own; leave this out")
    store = Store(folder)
    if engine == "ray":
        from ._ray import check_address, compute_on_ray

        check_address(address)
    store.prepare()
    board = Board(sweep, store, stop, progress)
    while left := board.left():
        board.look()
        free = [cell for cell in left if not store.claimed(cell.key)]
        if not free:  # other processes are at all of them
            (stop or threading.Event()).wait(LOOK)
        elif engine == "ray":
            compute_on_ray(board, free, workers=workers, address=address)
        else:
            _compute_here(board, free, workers)
    board.look()
    return SweepOutcome(board.results, board.failures, board.computed, len(board.results) - board.computed)


@dataclass(eq=False)
class Board:
    """What is finished of a sweep and what is not; engines write down here what became of a cell."""

    sweep: Sweep
    store: Store
    stop: threading.Event | None
    progress: Callable[[int, int], None] | None
    results: dict[str, Result] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    computed: int = 0
    _reported: int = -1

    def left(self) -> list[Cell]:
        """Take over what other processes have finished, and return the cells that are still to be done."""
        known = self.results.keys() | self.failures.keys()
        still = [cell for cell in self.sweep.cells if cell.key not in known]
        for cell in still:
            if self.store.finished(cell.key):
                self.answered(cell, "reused")
        return [cell for cell in still if cell.key not in self.results]

    def answered(self, cell: Cell, state: str, line: str = "") -> None:
        """Note what became of a cell: it was computed, reused or claimed by another process, or it failed.

        A line says why it failed. A claimed cell is left for later.
        """
        if state == "failed":
            self.failures[cell.key] = line
        elif state != "claimed":
            self.results[cell.key] = self.store.load(cell.key)
            self.computed += state == "computed"

    def look(self) -> None:
        """Report progress, and raise `Interrupted` if the sweep is to stop."""
        finished = sum(self.store.finished_runs(cell) for cell in self.sweep.cells)
        self.report(finished)
        if self.stop is not None and self.stop.is_set():
            raise Interrupted(f"{finished} of {self.sweep.runs} runs are finished")

    def report(self, finished: int) -> None:
        """Tell the number of finished runs, which never goes back."""
        if self.progress is not None and finished > self._reported:
            self._reported = finished
            self.progress(finished, self.sweep.runs)


def _compute_here(board: Board, cells: Sequence[Cell], workers: int | None) -> None:
    # A network uses all of a device: several at once would only get in each other's way.
    networks = [cell for cell in cells if cell.run.model.is_network]
    others = [cell for cell in cells if not cell.run.model.is_network]
    cores = os.cpu_count() or 1
    count = min(len(others), cores if workers is None else workers)
    if count > 1:
        _compute_in_processes(board, others, count, max(1, cores // count))
        others = []
    for cell in [*others, *networks]:
        board.look()
        _compute_in_this_process(board, cell, cores)


def _compute_in_this_process(board: Board, cell: Cell, threads: int) -> None:
    elsewhere = sum(board.store.finished_runs(other) for other in board.sweep.cells if other is not cell)

    def progress(runs: int) -> None:
        board.report(elsewhere + runs)

    try:
        board.answered(cell, *_computed(board.store, cell.key, cell.run, threads, board.stop, progress))
    except Interrupted:
        board.look()  # raises it again, with the runs of all cells
        raise


def _computed(store: Store, key: str, run: RunFile, threads: int, *watched: Any) -> tuple[str, str]:
    """Compute a cell, and say what became of it: one cell's trouble must not cost the others."""
    try:
        return store.compute(key, run, threads, *watched), ""
    except Interrupted:
        raise
    except Exception as error:
        return "failed", one_line(error)


def one_line(error: BaseException) -> str:
    """Say in one line what went wrong with a cell."""
    if isinstance(error, InvalidInput):
        return str(error)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place is not None else ""
    return " ".join(f"{type(error).__name__}: {error}{where}".split())


class _Worker:
    """A process that computes one cell after another, and the pipe to it; it is begun when there is a cell for it.

    It is no child of `multiprocessing`, which would run the user's script once more in it.
    """

    process: subprocess.Popen[bytes] | None = None
    link: Connection
    cell: Cell | None = None

    def begin(self, cell: Cell, folder: Path, threads: int) -> None:
        """Have a cell computed, by a new process if the last one is dead."""
        if self.process is None or self.process.poll() is not None:
            self.end()
            self.link, theirs = Pipe()
            program = (
                f"import sys; sys.path[:] = {sys.path!r}; from skipring.experiments.runner import work;"
                f" work({theirs.fileno()}, {str(folder)!r}, {threads})"
            )
            self.process = subprocess.Popen(
                [sys.executable, "-c", program],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=[theirs.fileno()],
                start_new_session=True,  # the terminal sends Ctrl-C to the sweep only
            )
            theirs.close()
        self.cell = cell
        with suppress(OSError):  # it is dead, which the next look will find
            self.link.send((cell.key, cell.run))

    def end(self) -> int:
        """End the process, wherever it is: what it had finished is on disk. Return its exit status."""
        if self.process is None:
            return 0
        self.process.kill()
        self.link.close()
        return self.process.wait()


def _compute_in_processes(board: Board, cells: Sequence[Cell], workers: int, threads: int) -> None:
    """Compute cells in worker processes, none of which outlives the sweep."""
    waiting, deaths = deque(cells), Counter[str]()
    crew = [_Worker() for _ in range(workers)]
    try:
        while waiting or any(worker.cell for worker in crew):
            for worker in crew:
                if worker.cell is None and waiting:
                    worker.begin(waiting.popleft(), board.store.folder.resolve(), threads)
            busy = [(worker, worker.cell) for worker in crew if worker.cell]
            ready = wait([worker.link for worker, _ in busy], LOOK)
            for worker, cell in busy:
                if worker.link not in ready:
                    continue
                worker.cell = None
                try:
                    state, line = worker.link.recv()
                except (EOFError, OSError):
                    status = worker.end()
                    deaths[cell.key] += 1
                    if deaths[cell.key] < _ATTEMPTS:
                        waiting.append(cell)
                        continue
                    state, line = "failed", f"its process died {_ATTEMPTS} times, at last {_how(status)}"
                board.answered(cell, state, line)
            board.look()
    finally:
        for worker in crew:
            worker.end()


def _how(status: int) -> str:
    if status == -signal.SIGKILL:
        return "of SIGKILL; is there enough memory?"
    return f"of {signal.Signals(-status).name}" if status < 0 else f"with exit status {status}"


def work(descriptor: int, folder: str, threads: int) -> None:
    """Compute the cells that come through a pipe, until it closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    link, store = Connection(descriptor), Store(folder)
    orders: queue.SimpleQueue[tuple[str, RunFile]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(link, orders), daemon=True).start()
    while True:
        link.send(_computed(store, *orders.get(), threads))


def _listen(link: Connection, orders: queue.SimpleQueue[tuple[str, RunFile]]) -> None:
    try:
        while True:
            orders.put(link.recv())
    except (EOFError, OSError):
        os._exit(0)  # the sweep has ended or was killed: finished runs are on disk, and nobody waits for more
