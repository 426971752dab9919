"""Long work on the command line: a progress bar with the time left, and Ctrl-C that loses nothing and ends soon."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

#: Seconds that work has to stop by itself after Ctrl-C. What is finished is on disk by then, whatever goes on.
_PATIENCE = 1.0


class _Work:
    """Runs that are counted, and what is said where they are interrupted."""

    def __init__(self, total: int, kept: str | Callable[[], str]) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        self.stop, self.ended = threading.Event(), threading.Event()
        self._total, self._kept, self._finished = total, kept, 0
        errors = Console(stderr=True)
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        # Runs of a minute each also need a speed to tell the time left from, so it is taken over ten minutes.
        self.progress = Progress(
            *columns, console=errors, transient=True, disable=not errors.is_terminal, speed_estimate_period=600.0
        )
        self._runs = self.progress.add_task("runs", total=total)
        self._features = self.progress.add_task("features", visible=False)

    def interrupt(self, _number: int, _frame: FrameType | None) -> None:
        self.stop.set()

    def say(self, done: str) -> None:
        """Say what is done, and what was kept of it."""
        sys.stderr.write(f"interrupted: {done}; {self._kept if isinstance(self._kept, str) else self._kept()}\n")
        sys.stderr.flush()

    def insist(self, patience: float) -> None:
        """End the program where nothing looks at the event: in one long run, or while something is prepared."""
        self.stop.wait()
        if not self.ended.wait(patience):
            self.progress.stop()
            self.say(f"{self._finished} of {self._total} runs are finished")
            os._exit(130)  # threads in compiled code cannot be ended in any other way

    def encoded(self, rows: int, of: int) -> None:
        """Show how many rows have features."""
        if self.stop.is_set():
            self.ended.set()
            sys.stderr.write("interrupted: features of the rows were being computed, and no run has begun\n")
            sys.exit(130)
        self.progress.update(self._features, completed=rows, total=of, visible=rows < of)

    def told(self, runs: int) -> None:
        """Show how many runs are finished."""
        self._finished = runs
        self.progress.update(self._runs, completed=runs)


@contextmanager
def counted_runs(
    total: int, kept: str | Callable[[], str], *, patience: float = _PATIENCE
) -> Iterator[tuple[threading.Event, Callable[[int], None]]]:
    """Yield an event that Ctrl-C sets, and a function that is told how many runs are finished.

    A simulation that stops because of the event ends the program with a line that says what was kept, exit code 130.
    One that is still at it after some seconds of patience is ended in the same way where it stands.
    """
    from ..data import watched
    from ..simulation import Interrupted

    work = _Work(total, kept)
    threading.Thread(target=work.insist, args=(patience,), daemon=True).start()
    before = signal.signal(signal.SIGINT, work.interrupt)
    try:
        with work.progress, watched(work.encoded):
            yield work.stop, work.told
    except Interrupted as stopped:
        work.ended.set()
        work.say(str(stopped))
        sys.exit(130)
    finally:
        work.ended.set()
        signal.signal(signal.SIGINT, before)
        work.stop.set()  # the thread that insists is done


@contextmanager
def told_to_stop() -> Iterator[list[int]]:
    """Yield a list to which Ctrl-C and SIGTERM add themselves, in place of ending the program."""
    told: list[int] = []

    def interrupt(number: int, _frame: FrameType | None) -> None:
        told.append(number)

    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield told
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
