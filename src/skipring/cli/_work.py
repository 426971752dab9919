"""Long work on the command line: a progress bar with the time left, and Ctrl-C that loses nothing and ends soon."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Seconds that work has to stop by itself after Ctrl-C. What is finished is on disk by then, whatever goes on.
_PATIENCE = 1.0


@contextmanager
def counted_runs(
    total: int, kept: str | Callable[[], str], *, patience: float = _PATIENCE
) -> Iterator[tuple[threading.Event, Callable[[int], None]]]:
    """Yield an event that Ctrl-C sets, and a function that is told how many runs are finished.

    A simulation that stops because of the event ends the program with a line that says what was kept, exit code 130.
    One that is still at it after some seconds of patience is ended in the same way where it stands.
    """
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    from ..data import watched
    from ..simulation import Interrupted

    stop, ended, errors = threading.Event(), threading.Event(), Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Runs of a minute each also need a speed to tell the time left from, so it is taken over ten minutes.
    bar = Progress(
        *columns, console=errors, transient=True, disable=not errors.is_terminal, speed_estimate_period=600.0
    )
    runs, features = bar.add_task("runs", total=total), bar.add_task("features", visible=False)

    def say(done: str) -> None:
        sys.stderr.write(f"interrupted: {done}; {kept if isinstance(kept, str) else kept()}\n")
        sys.stderr.flush()

    def insist() -> None:
        """End the program where nothing looks at the event: in one long run, or while something is prepared."""
        stop.wait()
        if not ended.wait(patience):
            bar.stop()
            say(f"{bar.tasks[runs].completed:.0f} of {total} runs are finished")
            os._exit(130)  # threads in compiled code cannot be ended in any other way

    def encoded(rows: int, of: int) -> None:
        if stop.is_set():
            ended.set()
            sys.stderr.write("interrupted: features of the rows were being computed, and no run has begun\n")
            sys.exit(130)
        bar.update(features, completed=rows, total=of, visible=rows < of)

    threading.Thread(target=insist, daemon=True).start()
    before = signal.signal(signal.SIGINT, lambda _number, _frame: stop.set())
    try:
        with bar, watched(encoded):
            yield stop, lambda finished: bar.update(runs, completed=finished)
    except Interrupted as stopped:
        ended.set()
        say(str(stopped))
        sys.exit(130)
    finally:
        ended.set()
        signal.signal(signal.SIGINT, before)
        stop.set()  # the thread that insists is done


@contextmanager
def told_to_stop() -> Iterator[list[int]]:
    """Yield a list to which Ctrl-C and SIGTERM add themselves, in place of ending the program."""
    told: list[int] = []
    numbers = (signal.SIGINT, signal.SIGTERM)
    before = [signal.signal(number, lambda given, _frame: told.append(given)) for number in numbers]
    try:
        yield told
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
