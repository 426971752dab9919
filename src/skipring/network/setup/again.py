"""Another run of the same people: what the last one left is put away, and all get the new run's file."""

from __future__ import annotations

from pathlib import Path

from ...errors import InvalidInput
from ...runs import read_run_file
from ..node import RESULT, STOPPED, NodeConfig, read_node_config
from ..transport import CERTIFICATE
from .checks import is_node_folder
from .local import read_network, running_pid

__all__ = ["begin_again"]

_LEFT = ("model.npy", "model.npz", CERTIFICATE, RESULT, STOPPED, "node.log")


def begin_again(folder: str | Path, text: str) -> tuple[Path, ...]:
    """Put away what a run has left at the nodes of a folder (a network's, or one node's), and give them another run.

    `text` is the new run's file. Return where the journals and models of the last run are now: `runs/IDENTITY` in each
    node's folder. A node that runs is refused. Keys, certificates, settings and budgets stay as they are.
    """
    folder = Path(folder)
    alone = is_node_folder(folder)
    configs = [read_node_config(folder / "node.toml")] if alone else read_network(folder)[1]
    for config in configs:
        if (pid := running_pid(config)) is not None:
            raise InvalidInput.because("DIR", folder, f"{config.name} is running (process {pid}); stop it first")
        if config.run is None:
            reason = f'the settings of {config.name} say no run; add: run = "run.toml"'
            raise InvalidInput.because("DIR", folder, reason)
    try:
        kept = tuple(place for config in configs if (place := _put_away(config)) is not None)
        for path in (*(config.run for config in configs), *(() if alone else (folder / "run.toml",))):
            assert path is not None
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise InvalidInput.because("DIR", folder, f"{error.filename} cannot be written: {error.strerror}") from error
    return kept


def _put_away(config: NodeConfig) -> Path | None:
    """Move what the last run has left into a folder of its name; return None if there is nothing."""
    assert config.run is not None
    home, journal = config.journal.parent, config.journal
    # The journal last: as long as it is there, the run is known to have begun.
    parts = sorted(home.glob(f"{journal.name}?*"))
    left = [path for path in (*(home / name for name in _LEFT), *parts, journal) if path.exists()]
    if not left:
        return None
    place = home / "runs" / (read_run_file(config.run).network.identity or "unnamed")
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    (place / "run.toml").write_bytes(config.run.read_bytes())
    for path in left:
        if (place / path.name).exists():
            raise InvalidInput.because("DIR", place, f"has {path.name} already; nothing is overwritten")
        path.rename(place / path.name)
    return place
