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

    stop, ended = threading.Event(), threading.Event()
    finished = 0

    def interrupt(_number: int, _frame: FrameType | None) -> None:
        stop.set()

    def say(done: str) -> None:
        sys.stderr.write(f"interrupted: {done}; {kept if isinstance(kept, str) else kept()}\n")
        sys.stderr.flush()

    errors = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Runs of a minute each also need a speed to tell the time left from, so it is taken over ten minutes.
    progress = Progress(
        *columns, console=errors, transient=True, disable=not errors.is_terminal, speed_estimate_period=600.0
    )

    def insist() -> None:
        """End the program where nothing looks at the event: in one long run, or while something is prepared."""
        stop.wait()
        if not ended.wait(patience):
            progress.stop()
            say(f"{finished} of {total} runs are finished")
            os._exit(130)  # threads in compiled code cannot be ended in any other way

    threading.Thread(target=insist, daemon=True).start()
    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with progress:
            task = progress.add_task("runs", total=total)
            features = progress.add_task("features", visible=False)

            def encoded(rows: int, of: int) -> None:
                if stop.is_set():
                    ended.set()
                    sys.stderr.write("interrupted: features of the rows were being computed, and no run has begun\n")
                    sys.exit(130)
                progress.update(features, completed=rows, total=of, visible=rows < of)

            def told(runs: int) -> None:
                nonlocal finished
                finished = runs
                progress.update(task, completed=runs)

            with watched(encoded):
                yield stop, told
    except Interrupted as stopped:
        ended.set()
        say(str(stopped))
        sys.exit(130)
    finally:
        ended.set()
        signal.signal(signal.SIGINT, before)
        stop.set()  # the thread that insists is done
