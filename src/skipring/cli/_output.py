"""How results are printed: a table for people, or one JSON object."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer

__all__ = ["Json", "option_name", "print_json", "print_rows"]

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object (infinity as 1e999).")]

_INFINITY = "\N{INFINITY} as a number"


def option_name(parameter: str) -> str:
    """Return the option that sets a parameter.

    Arguments without an option have names in capitals, keys of a run file have a dot.
    """
    if parameter.isupper() or "." in parameter:
        return parameter
    return "--" + parameter.replace("_", "-")


def print_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object. Infinity is written 1e999: valid JSON, which parsers read as infinity."""
    text = json.dumps(_plain(result), indent=2, allow_nan=False)
    print(text.replace(json.dumps(_INFINITY), "1e999"))


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _plain(entry) for key, entry in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(entry) for entry in value]
    if isinstance(value, float) and math.isinf(value):
        return _INFINITY
    return value


def print_rows(rows: Sequence[tuple[str, object]], note: str) -> None:
    """Print names and values, and a sentence that says what they mean."""
    from rich.console import Console  # only where a table is shown
    from rich.table import Table

    from ..report.numbers import number

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in rows:
        table.add_row(name, number(value) if isinstance(value, int | float) else str(value))
    console = Console(highlight=False)
    console.print(table)
    if note:
        console.print(note, style="dim", markup=False)
