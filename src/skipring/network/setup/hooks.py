"""Functions of an owner's own that a run or a node's settings name: which they are, and whether they may be called.

Run and settings come from the person who prepared the network, and so do all other files of a node's folder. A function
is called only if the owner's file allows its name (`node.owner`), and is never loaded from the node's folder.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from ..._function import IS_FUNCTION, file_of
from ...errors import InvalidInput
from ...runs import RunFile, read_run_file
from ..node import NodeConfig, is_within, owner_path, read_node_config, read_owner


@dataclass(frozen=True, kw_only=True)
class Hook:
    """A function that a run or a node's settings name.

    `key` is where it is named, `file` what it would be loaded from (None if there is no such module). `refused` is why
    it is not called; empty if it may be.
    """

    key: str
    name: str
    file: str | None
    refused: str = ""


def hooks_of(folder: str | Path) -> tuple[Hook, ...]:
    """Return the functions that a node's folder names, without importing any; none where it cannot be read."""
    folder = Path(folder)
    try:
        config = read_node_config(folder / "node.toml")
        run = None if config.run is None else read_run_file(config.run)
        return _hooks(folder, config, run)
    except InvalidInput:  # which is said elsewhere
        return ()


def admit_hooks(folder: Path, config: NodeConfig, run: RunFile) -> None:
    """Refuse functions that the owner does not allow; let the others be found, and nothing in the node's folder."""
    for hook in _hooks(folder, config, run):
        if hook.refused:
            raise InvalidInput.because(hook.key, hook.name, hook.refused)


def _hooks(folder: Path, config: NodeConfig, run: RunFile | None) -> tuple[Hook, ...]:
    named = list(_named(config, run))
    if not named:
        return ()
    owner = read_owner(folder)
    _keep_out(folder, owner.hooks.path)
    found = []
    for key, name in named:
        file = file_of(name)
        refused = ""
        if name not in owner.hooks.allow:
            where = "there is no such module here" if file is None else f"it would be loaded from {file}"
            refused = (
                f"is code, which the owner of this machine has not allowed ({where}); to allow it, write"
                f' allow = ["{name}"] under [hooks] in {owner_path()}'
            )
        elif file is not None and is_within(file, folder):
            refused = f"{file} is in the node's folder, which others have packed; keep your code elsewhere"
        found.append(Hook(key=key, name=name, file=None if file is None else str(file), refused=refused))
    return tuple(found)


def _named(config: NodeConfig, run: RunFile | None) -> Iterator[tuple[str, str]]:
    if config.data.prepare is not None:
        yield "data.prepare", config.data.prepare
    if run is not None:
        for key in ("name", "features"):
            value = getattr(run.model, key)
            if isinstance(value, str) and IS_FUNCTION.fullmatch(value):
                yield f"model.{key}", value


def _keep_out(folder: Path, own: tuple[Path, ...]) -> None:
    """Let modules be found where the owner says, after installed ones; not in the node's folder, nor in this one."""
    kept = [place for place in sys.path if os.path.isabs(place) and not is_within(Path(place), folder)]
    sys.path[:] = [*kept, *(str(place) for place in own if str(place) not in kept)]
