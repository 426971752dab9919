"""What the owner of a node's machine allows: one file that no archive and no update brings or changes.

A node's folder comes from the person who prepared the network, its settings among it. So what runs code on this machine
is not in it. That is which functions of the owner's own a node may call, where their modules are, and the command that
ssh goes out through. The file is `$SKIPRING_OWNER`, or else `skipring/owner.toml` in the user's configuration
(~/.config).
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import Field

from ...errors import InvalidInput
from .._files import Section, read_checked

#: The variable that names the file.
_VARIABLE = "SKIPRING_OWNER"


class OwnerHooks(Section):
    """Functions of the owner's own that nodes on this machine may call."""

    allow: tuple[str, ...] = Field((), description="their names, as run.toml and node.toml have them: module:function")
    path: tuple[Path, ...] = Field((), description="folders that modules are in which are not installed")


class OwnerSsh(Section):
    """How ssh goes out of this site."""

    proxy_command: str | None = Field(None, description="ProxyCommand of ssh to a relay (man ssh_config)")


class Owner(Section):
    """What the owner allows; without a file, nothing."""

    hooks: OwnerHooks = OwnerHooks()
    ssh: OwnerSsh = OwnerSsh()


def owner_path() -> Path:
    """Return where the owner's file is, whether there is one or not."""
    if given := os.environ.get(_VARIABLE):
        return Path(given).absolute()
    home = os.environ.get("XDG_CONFIG_HOME") or os.path.expanduser("~/.config")
    return Path(home).absolute() / "skipring" / "owner.toml"


def read_owner(folder: Path) -> Owner:
    """Read what the owner allows to the node of a folder; refuse a file or a path that lies in that folder."""
    path = owner_path()
    if not path.exists():
        return Owner()
    found = read_checked(path, Owner, what="an owner's file")
    for given in (path, *found.hooks.path):
        if not given.is_absolute():
            raise InvalidInput.because("FILE", path, f"hooks.path = {given}: must be an absolute path")
        if is_within(given, folder):
            reason = f"{given} is in the node's folder, which others have packed; keep it elsewhere"
            raise InvalidInput.because("FILE", path, reason)
    return found


def is_within(path: Path, folder: Path) -> bool:
    """Say whether a path is a folder, or lies in it, whatever links lead there."""
    return path.resolve().is_relative_to(folder.resolve())
