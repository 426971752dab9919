"""How results are printed: a table for people, or one JSON object."""

from __future__ import annotations

import shutil
import sys
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TextIO

import typer

from .._json import json_text
from .._numbers import number
from ..errors import InvalidInput

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.table import Table

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


def number_of(option: str, word: str) -> float:
    """Return one value of a list of numbers."""
    try:
        return float(word)
    except ValueError:
        raise InvalidInput(option, word, "numbers separated by commas") from None


def numbers_of(option: str, text: str) -> list[float]:
    """Return the numbers of an option that takes a list."""
    return [number_of(option, word) for word in words_of(option, text)]


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
