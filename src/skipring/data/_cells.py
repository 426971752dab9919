"""Cells of a table as numbers or categories, a block of rows at a time, through Arrow.

What a cell may say is written in a schema; the first one that says something else is named with its row.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..errors import InvalidInput, quoted_list
from .schema import INDICATOR, MISSING_WORDS, Column, cell_text, nearest

#: A number whose mark may be one of decimals, or one between thousands.
_EITHER = r"^[+-]?[1-9]\d{0,2}[.,]\d{3}$"
_MARKS = {",": "comma", ".": "point"}
#: A number that would be this many times as large as its range, were it in thousands, is not.
_FAR = 10.0


class Cells:
    """Reads the columns of one table; it remembers whether its decimals are points or commas.

    In a table with `semicolons` between its columns, a point may stand between thousands, as a comma may in any.
    """

    def __init__(self, file: str, *, semicolons: bool = False) -> None:
        self._file = file
        self._unsure_marks = (",", ".") if semicolons else (",",)
        #: How decimals are written, and where that was seen first.
        self._decimal: tuple[str, str] | None = None
        #: Whether a number was seen that tells a decimal mark from one between thousands, and the first that does not.
        self._told = False
        self._untold: InvalidInput | None = None

    def _refuse(self, column: Column, row: int, reason: str) -> InvalidInput:
        """Return the refusal of one cell."""
        return InvalidInput.because("path", self._file, f"column {column.name!r}, row {row}: {reason}")

    def _refuse_value(self, column: Column, row: int, value: Any, reason: str) -> InvalidInput:
        shown = repr(value)
        return self._refuse(column, row, f"{shown if len(shown) <= 40 else shown[:37] + '...'} {reason}")

    def numbers(self, column: Column, cells: Any, first: int) -> NDArray[np.float64]:
        """Return a column's numbers, NaN where one is missing and an indicator says so."""
        numbers = self._plain_numbers(column, cells, first)
        if bad := np.flatnonzero(np.isinf(numbers)).tolist():
            raise self._refuse_value(column, first + bad[0], cells[bad[0]].as_py(), "is not a finite number")
        gone = np.isnan(numbers)
        if gone.any() and column.missing != INDICATOR:
            self._require_some(column, gone, first)
            numbers = np.where(gone, float(column.missing or 0.0), numbers)
        return numbers

    def _plain_numbers(self, column: Column, cells: Any, first: int) -> NDArray[np.float64]:
        kind = cells.type
        if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
            # Not safe: whole numbers above 2^53 are rounded, as they are in a text.
            return np.asarray(cells.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False), np.float64)
        if pa.types.is_duration(kind):
            reason = f"holds {kind}, whose unit the schema does not say; write it as a number"
            raise InvalidInput.because("path", self._file, f"column {column.name!r} {reason}")
        texts = self._texts(column, cells)
        texts = pc.if_else(_is_missing(texts), pa.scalar(None, pa.string()), texts)
        texts = self._with_points(column, texts, first)
        try:
            found = texts.cast(pa.float64())
        except pa.ArrowInvalid:
            row = next(row for row, text in enumerate(texts) if text.is_valid and not _is_arrow_number(text))
            raise self._refuse_value(column, first + row, cells[row].as_py(), "is not a number") from None
        return np.asarray(found.to_numpy(zero_copy_only=False), np.float64)

    def _with_points(self, column: Column, texts: Any, first: int) -> Any:
        """Return decimal commas as points; a table has one kind only, or nobody could tell 1,234 from 1.234."""
        marked = {mark: pc.fill_null(pc.match_substring(texts, mark), False) for mark in _MARKS}
        for row, mark in sorted((pc.index(found, True).as_py(), mark) for mark, found in marked.items()):
            if row < 0:
                continue
            value = texts[row].as_py()
            if self._decimal is not None and self._decimal[0] != mark:
                reason = f"has a decimal {_MARKS[mark]}, and {self._decimal[1]} does not"
                raise self._refuse_value(column, first + row, value, reason)
            self._decimal = (mark, f"{value!r} in column {column.name!r}, row {first + row},")
            if not self._told and mark in self._unsure_marks:
                self._look_for_thousands(column, texts.filter(marked[mark]), mark, (first + row, value))
        if self._decimal is not None and self._decimal[0] == ",":
            return pc.replace_substring(texts, ",", ".")
        return texts

    def _look_for_thousands(self, column: Column, marked: Any, mark: str, where: tuple[int, str]) -> None:
        """Find out from numbers with a mark whether it is one of decimals; remember the first that does not tell."""
        either = pc.match_substring_regex(marked, _EITHER)
        if not pc.all(either).as_py():
            self._told = True
            return
        sizes = np.abs(np.asarray(pc.replace_substring(marked, mark, "").cast(pa.float64()).to_numpy()))
        limits = (0.0, 0.0) if column.range is None else column.range
        most = max(map(abs, limits))
        # Without a range, only a comma is in doubt.
        if (sizes > _FAR * most).any() or (mark == "." and math.isinf(most)):
            self._told = True
        elif self._untold is None:
            row, value = where
            whole = value.replace(mark, "")
            reason = (
                f"may be {value.replace(mark, '.')} or {whole}, and no other number of the table tells; "
                f"write {value}0 or {whole}"
            )
            self._untold = self._refuse_value(column, row, value, reason)

    def end_block(self) -> None:
        """Refuse a table that has marks in its numbers, if none of them tells decimals from thousands."""
        if self._untold is not None and not self._told:
            raise self._untold
        self._untold = None

    def categories(self, column: Column, cells: Any, first: int) -> NDArray[np.int64]:
        """Return the numbers of a column's categories, -1 where one is missing and an indicator says so."""
        known = list(column.meanings)
        texts = self._texts(column, cells)
        if pa.types.is_boolean(cells.type):  # it has no letters: a schema may call it True, TRUE or true
            called = {text.lower(): text for text in known}
            yes, no = (pa.scalar(called.get(text, text)) for text in ("true", "false"))
            texts = pc.if_else(cells, yes, no)
        place = pc.index_in(texts, value_set=pa.array(known))
        if place.null_count:
            # A table may write 1.0 where the schema says 1.
            place = pc.coalesce(place, pc.index_in(_as_whole(texts), value_set=pa.array(known)))
        codes = np.array([column.meanings[text] for text in known])
        found = np.append(codes, -1)[np.asarray(pc.fill_null(place, len(known)).to_numpy(zero_copy_only=False))]
        gone = found < 0
        if not gone.any():
            return np.asarray(found, np.int64)
        missing = np.asarray(_is_missing(texts, _missing_words(column)).to_numpy(zero_copy_only=False))
        if (unknown := gone & ~missing).any():
            row = int(np.argmax(unknown))
            value = texts[row].as_py() or ""
            meant = f"; {likely!r} is" if (likely := nearest(value, known)) else f"; they are {quoted_list(known)}"
            raise self._refuse_value(column, first + row, cells[row].as_py(), f"is not one of the categories{meant}")
        if column.missing != INDICATOR:
            self._require_some(column, gone, first)
            found = np.where(gone, column.meanings[str(column.missing)], found)
        return np.asarray(found, np.int64)

    def are_blank(self, column: Column, cells: Any) -> bool:
        """Say whether a column has no value at all in these rows."""
        missing = _is_missing(self._texts(column, cells), _missing_words(column))
        return bool(pc.all(missing, min_count=0).as_py())

    def no_label(self, column: Column, row: int) -> InvalidInput:
        """Return the refusal of a row without a label."""
        return self._refuse(
            column, row, "every row needs a label; to predict, leave the column out where nobody knows them"
        )

    def _require_some(self, column: Column, gone: NDArray[np.bool_], first: int) -> None:
        """Refuse missing values, unless the schema says what stands for them."""
        if column.missing is None:
            row = first + int(np.argmax(gone))
            if column.role == "label":
                raise self.no_label(column, row)
            reason = 'there is no value; say missing = "indicator", or what stands for it, in the schema'
            raise self._refuse(column, row, reason)

    def names(self, column: Column, cells: Any, first: int) -> NDArray[np.str_]:
        """Return the names of persons or nodes as texts."""
        texts = self._texts(column, cells)
        missing = np.asarray(_is_missing(texts).to_numpy(zero_copy_only=False))
        if missing.any():
            reason = f"there is no value; every row belongs to a {column.role}"
            raise self._refuse(column, first + int(np.argmax(missing)), reason)
        return np.array(texts.to_pylist(), dtype=str)

    def _texts(self, column: Column, cells: Any) -> Any:
        """Return cells as texts without blanks around them, None where there is nothing; refuse lists and the like."""
        if pa.types.is_dictionary(cells.type):
            cells = cells.dictionary_decode()
        kind = cells.type
        try:
            if pa.types.is_floating(kind):
                texts = [None if v is None or math.isnan(v) else cell_text(v) for v in cells.to_pylist()]
                cells = pa.array(texts, pa.string())
            elif pa.types.is_timestamp(kind):
                cells = pc.replace_substring_regex(cells.cast(pa.string()), r"\.0+$", "")
            elif not pa.types.is_string(kind):
                cells = cells.cast(pa.string())
        except pa.ArrowException:
            reason = f"column {column.name!r} holds {kind}, and not numbers or texts"
            raise InvalidInput.because("path", self._file, reason) from None
        return pc.utf8_trim_whitespace(cells)


def _missing_words(column: Column) -> list[str]:
    """Return the texts that say that a value is missing.

    A category that is such a word, NONE for instance, is probably meant by none: that is refused, as any other.
    """
    known = {text.lower() for text in column.meanings}
    return [word for word in MISSING_WORDS if word not in known]


def _is_missing(texts: Any, words: Sequence[str] = MISSING_WORDS) -> Any:
    return pc.is_in(pc.fill_null(pc.utf8_lower(texts), ""), value_set=pa.array(words, pa.string()))


def _is_arrow_number(text: Any) -> bool:
    """Say whether Arrow takes a text for a number: without the digits of other scripts, and underscores."""
    try:
        text.cast(pa.float64())
    except pa.ArrowInvalid:
        return False
    return True


def _as_whole(texts: Any) -> Any:
    """Return whole numbers that are written with a point, such as 1.0, without it; others as they are.

    Three zeros may be those of a thousand.
    """
    return pc.replace_substring_regex(texts, r"^(-?\d+)[.,](?:0{1,2}|0{4,})$", r"\1")
