"""What several test files share: the command line, one thread for networks, and worlds for nodes to misbehave in."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from skipring.cli import main


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what takes longest, so that at the end nobody waits for one who has just begun it."""
    items.sort(key=lambda item: item.get_closest_marker("early") is None)


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
