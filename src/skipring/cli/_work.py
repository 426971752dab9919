"""Long work on the command line: a progress bar with the time left, and Ctrl-C that loses nothing."""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

__all__ = ["counted_runs"]


@contextmanager
def counted_runs(total: int, when_interrupted: str) -> Iterator[tuple[threading.Event, Callable[[int], None]]]:
    """Yield an event that Ctrl-C sets, and a function that is told how many runs are finished.

    A simulation that stops because of the event ends the program with a line that says what was kept, exit code 130.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ..data import watched
    from ..simulation import Interrupted

    stop = threading.Event()

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        # Runs of a minute each also need a speed to tell the time left from, so it is taken over ten minutes.
        with Progress(
            *columns, console=errors, transient=True, disable=not errors.is_terminal, speed_estimate_period=600.0
        ) as progress:
            task = progress.add_task("runs", total=total)
            features = progress.add_task("features", visible=False)

            def encoded(rows: int, of: int) -> None:
                if stop.is_set():
                    sys.stderr.write("interrupted: features of the rows were being computed, and no run has begun\n")
                    sys.exit(130)
                progress.update(features, completed=rows, total=of, visible=rows < of)

            with watched(encoded):
                yield stop, lambda finished: progress.update(task, completed=finished)
    except Interrupted as stopped:
        sys.stderr.write(f"interrupted: {stopped}; {when_interrupted}\n")
        sys.exit(130)
    finally:
        signal.signal(signal.SIGINT, before)
