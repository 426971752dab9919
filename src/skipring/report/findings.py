"""What came out of a study: as numbers for other programs, and as tables for a terminal."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.console import RenderableType


@dataclass(frozen=True, kw_only=True)
class Findings:
    """What came out of a study, and what it cannot be read without.

    `draw` makes a picture, `write` a table of numbers, and says in which files.
    """

    title: str
    facts: Mapping[str, Any]
    tables: Sequence[RenderableType]
    notes: tuple[str, ...]
    draw: Callable[[Sequence[Path]], None]
    write: Callable[[Path], Sequence[Path]]

    def files(self, base: Path) -> list[Path]:
        """Draw and write all of it, and return where."""
        pictures = [base.with_name(f"{base.name}.{suffix}") for suffix in ("png", "svg")]
        self.draw(pictures)
        return [*pictures, *self.write(base.with_name(f"{base.name}.csv"))]
