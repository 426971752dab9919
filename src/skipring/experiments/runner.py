"""Run a sweep: compute the cells that are not there yet, here or on a Ray cluster."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from ..errors import InvalidInput, require_integer
from ..simulation import Interrupted, Result
from ._processes import compute_in_processes, one_line
from .store import Store
from .sweep import Cell, Sweep

Progress = Callable[[int, int], None]
#: Seconds between two looks at a cell that another process is computing.
_LOOK = 0.5


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
    progress: Progress | None = None,
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
            board.pause()
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
    progress: Progress | None
    results: dict[str, Result] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)
    computed: int = 0
    _reported: int = -1

    def left(self) -> list[Cell]:
        """Take over what other processes have finished, and return the cells that are still to be done."""
        for cell in self._open():
            if self.store.finished(cell.key):
                self.answered(cell, "reused", "")
        return self._open()

    def _open(self) -> list[Cell]:
        return [c for c in self.sweep.cells if c.key not in self.results and c.key not in self.failures]

    def answered(self, cell: Cell, state: str, line: str) -> None:
        """Note what became of a cell; one that another process has claimed is left for later."""
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

    def pause(self) -> None:
        """Wait a moment, but not longer than until the sweep is to stop."""
        (self.stop or threading.Event()).wait(_LOOK)


def _compute_here(board: Board, cells: Sequence[Cell], workers: int | None) -> None:
    # A network uses all of a device: several at once would only get in each other's way.
    networks = [cell for cell in cells if cell.run.model.is_network]
    others = [cell for cell in cells if not cell.run.model.is_network]
    cores = os.cpu_count() or 1
    count = min(len(others), cores if workers is None else workers)
    if count > 1:
        threads = max(1, cores // count)
        compute_in_processes(
            board.store, others, workers=count, threads=threads, answered=board.answered, look=board.look
        )
        others = []
    for cell in [*others, *networks]:
        board.look()
        _compute_in_this_process(board, cell, cores)


def _compute_in_this_process(board: Board, cell: Cell, threads: int) -> None:
    elsewhere = sum(board.store.finished_runs(other) for other in board.sweep.cells if other is not cell)
    state, line = "failed", ""
    try:
        state = board.store.compute(
            cell.key,
            cell.run,
            threads=threads,
            stop=board.stop,
            progress=lambda runs: board.report(elsewhere + runs),
        )
    except Interrupted:
        board.look()  # raises it again, with the runs of all cells
        raise
    except Exception as error:  # one cell's trouble must not cost the others
        line = one_line(error)
    board.answered(cell, state, line)
