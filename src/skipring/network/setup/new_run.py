"""Another run: what the last one left is put away, and all get the new run's file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from ..._writing import write_file, writing
from ...errors import InvalidInput
from ...runs import read_run_file
from ..node import FINISH, RESULT, STOPPED, NodeConfig, read_node_config
from ..transport import CERTIFICATE
from .authority import has_authority, read_authority
from .checks import is_node_folder
from .earlier import RUNS, SETTINGS
from .folders import ASKED
from .local import read_network, running_pid
from .update import write_update

_LEFT = ("model.npy", "model.npz", CERTIFICATE, RESULT, STOPPED, FINISH, "node.log")


def begin_new_run(folder: str | Path, text: str, asked: str | None = None) -> tuple[Path, ...]:
    """Put away what a run has left at the nodes of a folder (a network's, or one node's), and give them another run.

    `text` is the new run's file. Return where the journals and models of the last run are now: `runs/IDENTITY` in each
    node's folder. A node that runs is refused. Keys, certificates, settings and budgets stay as they are. `asked` is
    the run as it was asked for, where it is another one than before. Where the authority's key is in the network's
    folder, update.json has what owners of nodes elsewhere need.
    """
    folder = Path(folder)
    alone = is_node_folder(folder)
    configs = [read_node_config(folder / "node.toml")] if alone else read_network(folder)[1]
    require_stopped(folder, configs)
    public = {"run.toml": text.encode()}
    with writing("DIR", folder, within=True):
        places = [(config, folder if alone else folder / config.name) for config in configs]
        kept = tuple(place for config, home in places if (place := take_up(config, home, public)) is not None)
        if not alone:
            write_file(folder / "run.toml", public["run.toml"], mode=0o644)
            if asked is not None:
                write_file(folder / ASKED, asked.encode(), mode=0o644)
            if has_authority(folder):
                write_update(folder, read_authority(folder))
    return kept


def require_stopped(folder: Path, configs: Sequence[NodeConfig]) -> None:
    """Refuse nodes that run, and those whose settings say no run."""
    for config in configs:
        if (pid := running_pid(config)) is not None:
            raise InvalidInput.because("DIR", folder, f"{config.name} is running (process {pid}); stop it first")
        if config.run is None:
            reason = f'the settings of {config.name} say no run; add: run = "run.toml"'
            raise InvalidInput.because("DIR", folder, reason)


def take_up(config: NodeConfig, folder: Path, public: Mapping[str, bytes]) -> Path | None:
    """Put away the last run of the node in a folder, and write what all nodes share in the next one.

    Return where the last run is now; None if it has left nothing.
    """
    assert config.run is not None
    place = _put_away(config, folder)
    for name, content in public.items():
        write_file(config.run if name == "run.toml" else folder / name, content, mode=0o644)
    return place


def _put_away(config: NodeConfig, folder: Path) -> Path | None:
    """Move what the last run has left into a folder of its name; return None if there is nothing."""
    assert config.run is not None
    home, journal = config.journal.parent, config.journal
    # The journal last: as long as it is there, the run is known to have begun.
    parts = sorted(home.glob(f"{journal.name}?*"))
    left = [path for path in (*(home / name for name in _LEFT), *parts, journal) if path.exists()]
    if not left:
        return None
    place = home / RUNS / (read_run_file(config.run).network.identity or "unnamed")
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    write_file(place / "run.toml", config.run.read_bytes())
    if not (place / "roster.toml").exists():  # the votes for its model are those of its own members
        write_file(place / "roster.toml", (folder / "roster.toml").read_bytes())
    write_file(place / SETTINGS, (folder / "node.toml").read_bytes())  # its account is told at the delta of then
    for path in left:
        if (place / path.name).exists():
            raise InvalidInput.because("DIR", place, f"has {path.name} already; nothing is overwritten")
        path.rename(place / path.name)
    return place
