"""What tests of models in files share: writing one, and looking at what is there."""

from __future__ import annotations

import hashlib
from pathlib import Path

from skipring.network.storage import (
    ModelFile,
    ModelWriter,
)


def sha(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def written(folder: Path, content: bytes) -> ModelFile:
    with ModelWriter(folder) as writer:
        writer.write(content)
        made = writer.finish()
    assert isinstance(made, ModelFile)
    return made


def names(folder: Path) -> set[str]:
    return {file.name for file in folder.iterdir()} if folder.is_dir() else set()
