"""How results are printed: a table for people, or one JSON object."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from .._json import json_text
from .._numbers import is_number, number, upper
from ..errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

    from ..simulation import Result

# Options that several commands have, and in which they must not differ.
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object (infinity as 1e999).")]
Threads = Annotated[int | None, typer.Option(help="Number of threads (default: all cores); changes nothing else.")]


def option_name(parameter: str) -> str:
    """Return the option that sets a parameter.

    Arguments without an option have names in capitals, keys of a run file have a dot, its sections are in brackets.
    """
    if parameter.isupper() or "." in parameter or parameter.startswith("["):
        return parameter
    return "--" + parameter.replace("_", "-")


def sentence(words: str) -> str:
    """Return words as a sentence, with a capital and a full stop."""
    return f"{words[0].upper()}{words[1:]}."


def tell(text: str, to: TextIO | None = None) -> None:
    """Print what is for people in lines as wide as the terminal; no word is broken, so that a path stays whole.

    A line that begins with two spaces is a command to copy, and stays one line.
    """
    out = sys.stdout if to is None else to
    for line in text.split("\n"):
        if line.startswith("  "):
            out.write(line + "\n")
            continue
        wide = shutil.get_terminal_size().columns
        wrapped = textwrap.wrap(line, wide, break_long_words=False, break_on_hyphens=False)
        out.write("\n".join(wrapped or [""]) + "\n")


def printable(text: str) -> str:
    r"""Return a text of another's file in one line in which nothing moves the cursor of a terminal or colours it.

    >>> printable("red \x1b[31m\n")
    'red \\x1b[31m\\n'
    """
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def words_of(option: str, text: str) -> list[str]:
    """Return the values of an option that takes a list."""
    words = [word.strip() for word in text.split(",")]
    if not all(words):
        raise InvalidInput(option, text or "(empty)", "values separated by commas, none of them empty")
    return words


def numbers_of(option: str, text: str) -> list[float]:
    """Return the numbers of an option that takes a list."""
    words = words_of(option, text)
    if wrong := [word for word in words if not is_number(word)]:
        raise InvalidInput(option, wrong[0], "numbers separated by commas")
    return [float(word) for word in words]


def what_holds(results: Iterable[Result], subject: str, choosing: str) -> str:
    """Say what the epsilons of several simulations protect, and what none of them counts."""
    reports = [result.privacy for result in results]
    units = dict.fromkeys(report.promised.what for report in reports if report.refused is None)
    protects = [f"{subject} protects {' or '.join(units)}."] if units else []
    more = dict.fromkeys(report.promised.not_covered for report in reports if report.promised.not_covered is not None)
    return " ".join([*protects, choosing, *map(sentence, more)])


def noted(results: Iterable[Result]) -> list[str]:
    """Return what simulations say of their rows, each note once."""
    return list(dict.fromkeys(note for result in results for note in result.resolved.notes))


def bound(epsilon: float | None) -> str:
    """Return an epsilon for a table, and - where there is none."""
    return "-" if epsilon is None else upper(epsilon)


def require_new(path: Path, force: bool, option: str = "out") -> None:
    """Refuse to write over a file, unless that is asked for."""
    if path.exists() and not force:
        raise InvalidInput.because(option, path, "exists already; --force overwrites it")


def print_json(result: Mapping[str, Any]) -> None:
    """Print one JSON object. Infinity is written 1e999: valid JSON, which parsers read as infinity."""
    print(json_text(result, indent=2))


def print_rows(rows: Sequence[tuple[str, object]], note: str) -> None:
    """Print names and values, and a sentence that says what they mean."""
    show(rows_table(rows), note=note)


def rows_table(rows: Sequence[tuple[str, object]]) -> Table:
    """Return names and values as a table."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, show_header=False, pad_edge=False)
    table.add_column(style="bold")
    table.add_column()
    for name, value in rows:
        table.add_row(name, number(value) if isinstance(value, int | float) else Text(str(value)))  # not markup
    return table


def show(*shown: RenderableType, note: str = "", then: str = "") -> None:
    """Print tables and lines, in grey what they mean, and on a line of its own the command that comes next."""
    from rich.console import Console  # only where a table is shown

    console = Console(highlight=False, markup=False)
    for each in shown:
        console.print(each)
    if note:
        console.print(note, style="dim")
    if then:
        console.print(f"  {then}", style="dim", soft_wrap=True)
