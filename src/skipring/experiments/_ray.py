"""A sweep on a Ray cluster: a task per cell, whose result comes back here and is written here."""

from __future__ import annotations

import logging
import os
import socket
import subprocess
import sys
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ..errors import InvalidInput
from ..runs import RunFile
from ..simulation import Result, simulate
from .runner import LOOK, Board, one_line
from .sweep import CODE_VERSION, Cell

#: How many cells are handed over at once: enough for a large cluster, and not too many claims to hold.
_AT_ONCE = 256
#: Results are small; Ray would otherwise take a third of the memory.
_OBJECT_STORE = 100 * 2**20
_CONNECT_SECONDS = 3.0
_ANSWER_SECONDS = 15.0
_CLIENT_PORT = 10001


def check_address(address: str | None) -> None:
    """Refuse an address where no Ray cluster answers; Ray itself would try for minutes."""
    _ray()
    if address is None or address in ("auto", "local"):
        return
    client = address.startswith("ray://")
    try:
        parts = urlsplit(address if client else f"//{address}")
        host, port = parts.hostname, parts.port or (_CLIENT_PORT if client else None)
    except ValueError:
        host, port = None, None
    if host is None or port is None:
        raise InvalidInput("address", address, "HOST:PORT, ray://HOST:PORT or auto")
    try:
        socket.create_connection((host, port), _CONNECT_SECONDS).close()
    except OSError as error:
        reason = f"no Ray cluster can be reached there: {error.strerror or error}"
        raise InvalidInput.because("address", address, reason) from None
    # Something listens. Joining is tried in a process of its own first, because only that can be given up on.
    trial = f"import logging, ray; ray.init({address!r}, log_to_driver=False, logging_level=logging.ERROR)"
    try:
        tried = subprocess.run(
            [sys.executable, "-c", trial], capture_output=True, text=True, timeout=_ANSWER_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        reason = "what listens there does not let us in as a Ray cluster does; does it ask for another RAY_AUTH_TOKEN?"
        raise InvalidInput.because("address", address, reason) from None
    if tried.returncode != 0:
        # What follows the first sentence are hints about Ray's own commands.
        last = tried.stderr.strip().rpartition("\n")[2].split(". ")[0]
        raise InvalidInput.because("address", address, f"that Ray cluster cannot be joined: {last}")


def _ray() -> Any:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing about a sweep is sent out
    try:
        import ray
    except ImportError:
        raise InvalidInput.because("engine", "ray", "needs Ray: pip install skipring[ray]") from None
    return ray


@contextmanager
def _cluster(workers: int | None, address: str | None) -> Iterator[Any]:
    """Join the cluster at the address, or start one here; one that the caller has joined already is used as it is."""
    ray = _ray()
    if ray.is_initialized():
        yield ray
        return
    asked: dict[str, Any] = {"address": address}
    if address in (None, "local"):
        asked = {
            "address": "local",  # even if RAY_ADDRESS names another
            "num_cpus": workers or os.cpu_count() or 1,
            "object_store_memory": _OBJECT_STORE,
            "include_dashboard": False,
        }
    try:
        ray.init(**asked, log_to_driver=False, logging_level=logging.ERROR)
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise InvalidInput.because("address" if address else "engine", address or "ray", reason) from None
    try:
        yield ray
    finally:
        ray.shutdown()


def compute_on_ray(board: Board, cells: Sequence[Cell], *, workers: int | None, address: str | None) -> None:
    """Compute cells on a cluster; what became of each is noted on the board."""
    with _cluster(workers, address) as ray, ExitStack() as claims:
        # Only the death of a worker is tried again: the task itself returns what goes wrong in it.
        task = ray.remote(max_retries=3, retry_exceptions=False)(_simulate_there)
        has_gpu = ray.cluster_resources().get("GPU", 0) >= 1
        # Ray's own way to set variables does not start workers from a folder with a space in its name.
        named = os.environ.get("SKIPRING_DATA")
        data = str(Path(named).resolve()) if named else None
        waiting, running = deque(cells), dict[Any, tuple[Cell, ExitStack]]()
        try:
            while waiting or running:
                while waiting and len(running) < _AT_ONCE:
                    cell = waiting.popleft()
                    claim = claims.enter_context(ExitStack())
                    if claim.enter_context(board.store.claim(cell.key)) and not board.store.finished(cell.key):
                        options = _options(cell.run, has_gpu)
                        reference = task.options(**options).remote(cell.run, CODE_VERSION, os.getcwd(), data)
                        running[reference] = (cell, claim)
                    else:  # another process has it, or had it
                        claim.close()
                ready, _ = ray.wait(list(running), timeout=LOOK) if running else ([], [])
                for reference in ready:
                    cell, claim = running.pop(reference)
                    found = _received(ray, reference)
                    if isinstance(found, str):
                        board.answered(cell, "failed", found)
                    else:
                        board.store.keep(cell.key, found)
                        board.answered(cell, "computed")
                    claim.close()
                board.look()
        finally:
            for reference in running:
                ray.cancel(reference, force=True)


def _options(run: RunFile, has_gpu: bool) -> dict[str, Any]:
    # Ray hides GPUs from tasks that do not ask for one.
    wants_gpu = run.model.is_network and run.model.device != "cpu" and has_gpu
    return {"num_cpus": 1} | ({"num_gpus": 1} if wants_gpu else {})


def _received(ray: Any, reference: Any) -> Result | str:
    """Return what a task came to, or a line that says why there is nothing."""
    try:
        found: Result | str = ray.get(reference)
    except ray.exceptions.RayError as error:
        # Ray adds the other machine's traceback, whose last line says what happened.
        return f"{type(error).__name__}: {str(error).strip().splitlines()[-1].strip()}"
    return found


def _simulate_there(run: RunFile, code_version: str, folder: str, data: str | None) -> Result | str:
    """Simulate a cell on some machine of the cluster; return why not, if it cannot be."""
    if code_version != CODE_VERSION:
        return f"the cluster has skipring {CODE_VERSION}, and this machine {code_version}"
    try:
        if data is not None:
            os.environ["SKIPRING_DATA"] = data
        if Path(folder).is_dir():  # names of data files are relative to it
            os.chdir(folder)
        return simulate(run, threads=1, keep_models=False)
    except Exception as error:  # which Ray would take for a reason to lose the line that says why
        return one_line(error)
