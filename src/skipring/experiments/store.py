"""Where sweeps keep results: a folder per cell, by key, that any number of processes may fill at the same time."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Literal

from .._writing import write_file, writing
from ..errors import InvalidInput
from ..runs import RunFile
from ..simulation import Result, simulate
from .sweep import CODE_VERSION, Cell


class Store:
    """The cells in a folder: `cells/KEY` when finished, `cells/KEY.part` before, `cells/KEY.lock` while at work."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self.cells = self.folder / "cells"
        self._marker = self.folder / "sweeps.json"
        if self.folder.exists() and not self.folder.is_dir():
            raise InvalidInput.because("out", folder, "is a file")
        try:
            version = json.loads(self._marker.read_text())["code_version"]
        except FileNotFoundError:
            return
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InvalidInput.because("out", self._marker, f"is damaged: {error}") from None
        if version != CODE_VERSION:
            reason = f"holds results of skipring {version}, and this is {CODE_VERSION}; choose another folder"
            raise InvalidInput.because("out", self.folder, reason)

    def prepare(self) -> None:
        """Make the folder, if it is not there yet."""
        with writing("out", self.folder):
            self.cells.mkdir(parents=True, exist_ok=True)
            if not self._marker.exists():
                write_file(self._marker, json.dumps({"code_version": CODE_VERSION}) + "\n")

    def path(self, key: str) -> Path:
        """Return the folder of a finished cell."""
        return self.cells / key

    def finished(self, key: str) -> bool:
        """Say whether a cell's result is there."""
        return self.path(key).is_dir()

    def finished_runs(self, cell: Cell) -> int:
        """Return how many runs of a cell are on disk."""
        if self.finished(cell.key):
            return cell.run.simulation.runs
        try:
            names = os.listdir(self._part(cell.key) / "runs")
        except OSError:
            return 0
        return sum(name.endswith(".npz") and ".part" not in name for name in names)

    def load(self, key: str) -> Result:
        """Read a finished cell."""
        try:
            return Result.load(self.path(key))
        except InvalidInput as problem:
            reason = f"{problem.reason}; delete it to compute it again"
            raise InvalidInput.because("out", self.path(key), reason) from None

    @contextmanager
    def claim(self, key: str) -> Iterator[bool]:
        """Keep other processes from a cell; yield False if one of them is at it. A dead process has no claim."""
        path = self.cells / f"{key}.lock"
        file = _lock(path)
        try:
            yield file is not None
        finally:
            if file is not None:
                path.unlink(missing_ok=True)
                file.close()

    def claimed(self, key: str) -> bool:
        """Say whether some process is at this cell."""
        if not (self.cells / f"{key}.lock").exists():
            return False
        with self.claim(key) as free:
            return not free

    def compute(
        self,
        key: str,
        run: RunFile,
        threads: int,
        stop: threading.Event | None = None,
        progress: Callable[[int], None] | None = None,
    ) -> Literal["computed", "reused", "claimed"]:
        """Simulate a cell, going on where it was left, unless it is finished or claimed by another process."""
        with self.claim(key) as mine:
            if not mine:
                return "claimed"
            if self.finished(key):
                return "reused"
            part = self._part(key)
            marker = part / "started.json"
            begun = marker.exists() and marker.read_text() == run.model_dump_json()
            if not begun:  # what a process that was killed while beginning, or after finishing, has left
                shutil.rmtree(part, ignore_errors=True)
            simulate(run, out=part, resume=begun, threads=threads, keep_models=False, stop=stop, progress=progress)
            self._publish(key)
            return "computed"

    def keep(self, key: str, result: Result) -> None:
        """Write the result of a cell that was claimed here and computed elsewhere."""
        shutil.rmtree(self._part(key), ignore_errors=True)
        result.save(self._part(key))
        self._publish(key)

    def _part(self, key: str) -> Path:
        return self.cells / f"{key}.part"

    def _publish(self, key: str) -> None:
        """Let a cell appear all at once."""
        with writing("out", self.path(key)):
            try:
                os.rename(self._part(key), self.path(key))
            except OSError:
                if not self.finished(key):
                    raise
                # Another machine was at it, on a file system whose locks do not reach that far.
                shutil.rmtree(self._part(key), ignore_errors=True)


def _lock(path: Path) -> IO[str] | None:
    while True:
        with writing("out", path):
            file = path.open("a")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            # Its last owner may have removed the file between the two lines above; nobody else would see our lock then.
            if os.stat(path).st_ino == os.fstat(file.fileno()).st_ino:
                return file
        except BlockingIOError:
            file.close()
            return None
        except FileNotFoundError:
            pass
        file.close()
