"""Worker processes of a sweep: each computes one cell after another, and none of them outlives the sweep."""

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
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from pathlib import Path

from ..errors import InvalidInput
from ..runs import RunFile
from .store import Store
from .sweep import Cell

#: How often a cell is begun whose worker process dies.
_ATTEMPTS = 3
#: Seconds between two looks at what there is to report.
_LOOK = 0.5


class _Worker:
    """A process that computes cells, and the pipe to it.

    It is no child of `multiprocessing`, which would run the user's script once more in it.
    """

    def __init__(self, folder: Path, threads: int) -> None:
        self.link, theirs = Pipe()
        program = (
            f"import sys; sys.path[:] = {sys.path!r}; from skipring.experiments._processes import work;"
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
        self.cell: Cell | None = None

    def begin(self, cell: Cell) -> None:
        self.cell = cell
        with suppress(OSError):  # it is dead, which the next look will find
            self.link.send((cell.key, cell.run))

    def end(self) -> int:
        """End the process, wherever it is: what it had finished is on disk. Return its exit status."""
        self.process.kill()
        self.link.close()
        return self.process.wait()


def compute_in_processes(
    store: Store,
    cells: Sequence[Cell],
    *,
    workers: int,
    threads: int,
    answered: Callable[[Cell, str, str], None],
    look: Callable[[], None],
) -> None:
    """Compute cells in worker processes.

    `answered` is told of each cell what became of it ("computed", "reused", "claimed" by another process, or "failed"
    with a line that says why). `look` is called about twice a second, and whatever it raises ends the workers.
    """
    waiting = deque(cells)
    deaths: Counter[str] = Counter()
    crew: list[_Worker] = []
    try:
        while waiting or any(worker.cell is not None for worker in crew):
            for worker in crew:
                if worker.cell is None and waiting:
                    worker.begin(waiting.popleft())
            while waiting and len(crew) < workers:
                crew.append(_Worker(store.folder.resolve(), threads))
                crew[-1].begin(waiting.popleft())
            ready = wait([worker.link for worker in crew], _LOOK)
            for worker in [worker for worker in crew if worker.link in ready]:
                cell = worker.cell
                try:
                    state, line = worker.link.recv()
                    worker.cell = None
                except (EOFError, OSError):
                    crew.remove(worker)
                    status = worker.end()
                    if cell is None:
                        continue
                    deaths[cell.key] += 1
                    if deaths[cell.key] < _ATTEMPTS:
                        waiting.append(cell)
                        continue
                    state, line = "failed", f"its process died {_ATTEMPTS} times, at last {_how(status)}"
                assert cell is not None
                answered(cell, state, line)
            look()
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
    link = Connection(descriptor)
    orders: queue.SimpleQueue[tuple[str, RunFile]] = queue.SimpleQueue()
    threading.Thread(target=_listen, args=(link, orders), daemon=True).start()
    store = Store(folder)
    while True:
        key, run = orders.get()
        state, line = "failed", ""
        try:
            state = store.compute(key, run, threads=threads)
        except Exception as error:  # one cell's trouble must not cost the others
            line = one_line(error)
        link.send((state, line))


def _listen(link: Connection, orders: queue.SimpleQueue[tuple[str, RunFile]]) -> None:
    try:
        while True:
            orders.put(link.recv())
    except (EOFError, OSError):
        os._exit(0)  # the sweep has ended or was killed: finished runs are on disk, and nobody waits for more


def one_line(error: BaseException) -> str:
    """Say in one line what went wrong with a cell."""
    if isinstance(error, InvalidInput):
        return str(error)
    place = error.__traceback__
    while place is not None and place.tb_next is not None:
        place = place.tb_next
    where = f" ({Path(place.tb_frame.f_code.co_filename).name}:{place.tb_lineno})" if place is not None else ""
    return " ".join(f"{type(error).__name__}: {error}{where}".split())
