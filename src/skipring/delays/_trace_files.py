"""Reading traces: numbers in a CSV file with a header, or in an npz file by the name of an array."""

from __future__ import annotations

import csv
import zipfile
from pathlib import Path
from typing import NamedTuple, TextIO

import numpy as np

from .._arrays import Doubles
from .._numbers import is_number
from ..errors import InvalidInput
from ._numbers import real_number


class Source(NamedTuple):
    """Where a trace is: ``trace:FILE``, then the name of an array in an npz file, and what its numbers are times."""

    text: str
    path: Path
    name: str
    scale: float

    def refuse(self, reason: str) -> InvalidInput:
        """Return an error about this trace, in one line."""
        return InvalidInput.because("trace", self.text, reason)


def source_of(text: str) -> Source:
    """Return what ``trace:FILE,NAME,SCALE`` spells; name and scale may be left out.

    >>> source_of("trace:times.npz,job4,0.01").scale
    0.01
    """
    kind, _, rest = text.strip().partition(":")
    parts = [part.strip() for part in rest.split(",")]
    if kind != "trace" or not parts[0] or len(parts) > 3:
        raise InvalidInput("trace", text, "trace:FILE, trace:FILE,NAME or trace:FILE,NAME,SCALE")
    scale = real_number(text, "the scale", parts[2]) if len(parts) == 3 else 1.0
    if not 0.0 < scale < float("inf"):
        raise InvalidInput.because("trace", text, "the scale must be a finite number above 0")
    source = Source(text.strip(), Path(parts[0]), parts[1] if len(parts) > 1 else "", scale)
    if source.path.suffix not in (".csv", ".npz"):
        raise source.refuse("the file must be a .csv or .npz file")
    if source.path.suffix == ".csv" and source.name:
        raise source.refuse("only an npz file has arrays with names; leave the name empty")
    return source


def table_of(source: Source, *names: str) -> Doubles:
    """Return an array of an npz file: the one that is named, or the first of these names that it has."""
    try:
        with np.load(source.path, allow_pickle=False) as file:
            wanted = [source.name] if source.name else list(names)
            found = next((name for name in wanted if name in file.files), None)
            if found is None:
                raise source.refuse(f"it has no array called {' or '.join(wanted)}, but {', '.join(file.files)}")
            array = file[found]
    except FileNotFoundError:
        raise source.refuse("the file does not exist") from None
    except (OSError, ValueError, EOFError, zipfile.BadZipFile) as error:
        raise source.refuse(f"the file cannot be read: {error}") from None
    if array.dtype.kind not in "fiub" or not array.size:
        raise source.refuse("it must hold numbers")
    return array.astype(np.float64)


def csv_lines(file: TextIO) -> list[tuple[int, list[str]]]:
    """Return the cells of all lines that are not blank, each line with its number."""
    reader = csv.reader(file)
    lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    return [(line, cells) for line, cells in lines if any(cells)]


def columns_of(source: Source, *heads: str) -> Doubles:
    """Return the columns of a CSV file, whose first line must be these names."""
    try:
        with source.path.open(newline="", encoding="utf-8-sig") as file:
            lines = csv_lines(file)
    except FileNotFoundError:
        raise source.refuse("the file does not exist") from None
    except (OSError, UnicodeDecodeError, csv.Error):
        raise source.refuse("the file cannot be read as a text file") from None
    if not lines or [cell.lower() for cell in lines[0][1]] != list(heads):
        raise source.refuse(f"its first line must be {','.join(heads)}")
    rows = []
    for line, cells in lines[1:]:
        if len(cells) != len(heads) or not all(is_number(cell) for cell in cells):
            raise source.refuse(f"line {line}: {len(heads)} numbers expected, not {','.join(cells)[:40]!r}")
        rows.append([float(cell) for cell in cells])
    if not rows:
        raise source.refuse("there is nothing in it but the first line")
    return np.array(rows)
