"""What several test files share: the command line, one thread for networks, and worlds for nodes to misbehave in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from itertools import combinations_with_replacement
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from skipring.cli import main


@pytest.hookimpl(tryfirst=True)  # before `-m` leaves out what is slow
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark as slow what a sample leaves out; begin with what takes longest, lest others wait for it at the end."""
    grids: dict[str, list[pytest.Function]] = {}
    for item in items:
        slow = item.get_closest_marker("slow") is not None
        if isinstance(item, pytest.Function) and item.get_closest_marker("sample") and not slow:
            grids.setdefault(item.nodeid.split("[")[0], []).append(item)
    for grid in grids.values():
        marker = grid[0].get_closest_marker("sample")
        assert marker is not None
        for item in _left_out(grid, *marker.args):
            item.add_marker("slow")
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


def _left_out(grid: list[pytest.Function], size: int) -> list[pytest.Function]:
    """Return all but so many of a test's parameter sets, those kept having as many pairs of values as they can."""
    pairs = {item: set(combinations_with_replacement(sorted(item.callspec.indices.items()), 2)) for item in grid}
    # Among equals, those that lie far apart: steps by the golden ratio never come near where they have been.
    order = sorted(range(len(grid)), key=lambda index: index * 0.6180339887498949 % 1.0)
    rest, seen = [grid[index] for index in order], set[Any]()
    for _ in range(min(size, len(rest))):
        best = max(rest, key=lambda item: len(pairs[item] - seen))
        seen |= pairs[best]
        rest.remove(best)
    return rest


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """Give neighbouring tests to the same process, which has loaded and computed already what they share."""
    if config.getoption("dist") != "load":
        return None  # somebody has asked for something else
    from xdist.scheduler import WorkStealingScheduling

    return WorkStealingScheduling(config, log)


@pytest.fixture
def one_thread() -> Iterator[None]:
    """Let PyTorch compute in one thread, and draw the same numbers each time; leave both as they were."""
    import torch  # few tests need it, and it takes a while to load

    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.random.fork_rng():
        torch.manual_seed(7)
        yield
    torch.set_num_threads(threads)


class Answer(NamedTuple):
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.out)
        return found


@pytest.fixture
def skipring_words(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> Callable[..., Answer]:
    """Run a command, given word by word, in an empty folder and an 80-column terminal."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "80")

    def run(*words: str) -> Answer:
        monkeypatch.setattr(sys, "argv", ["skipring", *words])
        code = 0
        try:
            main()
        except SystemExit as stop:
            code = int(stop.code or 0)
        captured = capsys.readouterr()
        return Answer(code, captured.out, captured.err)

    return run


@pytest.fixture
def skipring(skipring_words: Callable[..., Answer]) -> Callable[[str], Answer]:
    """Run a command line."""
    return lambda line: skipring_words(*line.split())
