"""Values as a few bytes, and back: for what a node writes to its own disk again and again.

Numbers, texts, bytes, tuples, lists, sets and mappings, nested in any way, and objects of classes that were given a
number. Nothing is run that is read: of an object only its fields are set, and only those that its class has.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass
from enum import IntEnum
from operator import attrgetter
from typing import Any

_SMALL = 0x80  # from here on a byte is a number by itself
_NONE, _FALSE, _TRUE, _NUMBER, _NEGATIVE, _LARGE, _FLOAT, _BYTES, _ARRAY, _TEXT = range(10)
_TUPLE, _LIST, _SET, _MAPPING, _COUNTER, _OBJECT, _FROZEN = range(10, 17)
_MANY: dict[type, int] = {tuple: _TUPLE, list: _LIST, set: _SET, frozenset: _FROZEN}
_KINDS: dict[int, Callable[[list[Any]], Any]] = {tag: kind for kind, tag in _MANY.items()}
_PAIRS: dict[type, int] = {dict: _MAPPING, Counter: _COUNTER}

Instead = Mapping[type, Callable[[Any], object]]


class Packer:
    """Packs and unpacks values.

    Parameters
    ----------
    numbers : a number for each class whose objects may be packed; on a disk it means that class for ever.

    >>> packer = Packer({})
    >>> packer.unpack(packer.pack((1, -2.5, "three", None, {4: [b"five"]})))
    (1, -2.5, 'three', None, {4: [b'five']})
    """

    def __init__(self, numbers: Mapping[type, int]) -> None:
        self._numbers = dict(numbers)
        self._classes = {number: kind for kind, number in numbers.items()}
        self._parts: dict[type, tuple[bytes, Callable[[Any], tuple[Any, ...]]]] = {}
        for kind, number in numbers.items():
            if is_dataclass(kind):
                names = [field.name for field in fields(kind)]
                self._parts[kind] = bytes((_OBJECT, number, len(names))), _getter(names)

    def pack(self, value: object, instead: Instead | None = None) -> bytes:
        """Return a value as bytes, the same for the same value; TypeError if it is of no known kind.

        `instead` says of a class what is packed in place of its objects.
        """
        out = bytearray()
        self._put(out, value, instead or {})
        return bytes(out)

    def unpack(self, data: bytes) -> Any:
        """Return the value; ValueError if the bytes are of none."""
        (value,) = self.unpack_all(data)
        return value

    def unpack_all(self, data: bytes, at: int = 0) -> list[Any]:
        """Return all values that were packed one behind the other, from a place on."""
        values = []
        try:
            while at < len(data):
                value, at = self._take(data, at)
                values.append(value)
        except (IndexError, KeyError, TypeError, struct.error, UnicodeDecodeError) as error:
            raise ValueError("these bytes are of no value") from error
        return values

    def _put(self, out: bytearray, value: Any, instead: Instead) -> None:
        kind = type(value)
        if kind is int:
            _put_number(out, value)
        elif kind is bytes or kind is bytearray:
            out.append(_BYTES if kind is bytes else _ARRAY)
            _put_count(out, len(value))
            out += value
        elif kind in _MANY:
            out.append(_MANY[kind])
            _put_count(out, len(value))
            for each in value if kind is tuple or kind is list else sorted(value):
                self._put(out, each, instead)
        elif value is None:
            out.append(_NONE)
        elif kind is bool:
            out.append(_TRUE if value else _FALSE)
        elif kind is float:
            out.append(_FLOAT)
            out += struct.pack("<d", value)
        elif kind is str:
            text = value.encode()
            out.append(_TEXT)
            _put_count(out, len(text))
            out += text
        elif kind in _PAIRS:
            out.append(_PAIRS[kind])
            _put_count(out, len(value))
            for key, each in value.items():
                self._put(out, key, instead)
                self._put(out, each, instead)
        elif isinstance(value, IntEnum):
            _put_number(out, int(value))
        else:
            self._put_object(out, kind, value, instead)

    def _put_object(self, out: bytearray, kind: type, value: Any, instead: Instead) -> None:
        if kind in instead:
            self._put(out, instead[kind](value), instead)
        elif kind in self._parts:
            head, parts = self._parts[kind]
            out += head
            for part in parts(value):
                self._put(out, part, instead)
        elif kind in self._numbers:
            out += bytes((_OBJECT, self._numbers[kind]))
            self._put(out, vars(value), instead)
        else:
            raise TypeError(f"a {kind.__name__} cannot be packed")

    def _take(self, data: bytes, at: int) -> tuple[Any, int]:
        tag = data[at]
        at += 1
        if tag >= _SMALL:
            return tag - _SMALL, at
        if tag in (_NUMBER, _NEGATIVE):
            number, at = _count(data, at)
            return (number if tag == _NUMBER else -1 - number), at
        if tag in (_BYTES, _ARRAY, _TEXT, _LARGE):
            size, at = _count(data, at)
            content, at = data[at : at + size], at + size
            if len(content) != size:
                raise ValueError("there are bytes missing")
            if tag == _BYTES:
                return content, at
            if tag == _LARGE:
                return int.from_bytes(content, "little"), at
            return (content.decode() if tag == _TEXT else bytearray(content)), at
        if tag == _FLOAT:
            return struct.unpack_from("<d", data, at)[0], at + 8
        if tag <= _TRUE:
            return (None, False, True)[tag], at
        if tag == _OBJECT:
            return self._take_object(data, at)
        size, at = _count(data, at)
        if tag in (_MAPPING, _COUNTER):
            found: dict[Any, Any] = {} if tag == _MAPPING else Counter()
            for _ in range(size):
                key, at = self._take(data, at)
                found[key], at = self._take(data, at)
            return found, at
        many: list[Any] = []
        for _ in range(size):
            each, at = self._take(data, at)
            many.append(each)
        return _KINDS[tag](many), at

    def _take_object(self, data: bytes, at: int) -> tuple[Any, int]:
        kind = self._classes[data[at]]
        if kind in self._parts:
            count, at = data[at + 1], at + 2
            values = []
            for _ in range(count):
                value, at = self._take(data, at)
                values.append(value)
            return kind(*values), at
        found, at = self._take(data, at + 1)
        made: Any = object.__new__(kind)
        vars(made).update(found)
        return made, at


def _getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    """Return what takes the fields of an object."""
    if len(names) > 1:
        return attrgetter(*names)
    return lambda value: tuple(getattr(value, name) for name in names)


def _put_number(out: bytearray, value: int) -> None:
    if 0 <= value < 256 - _SMALL:
        out.append(_SMALL + value)
    elif value.bit_length() > 64:
        if value < 0:
            raise TypeError("a negative number of more than 64 bits cannot be packed")
        content = value.to_bytes((value.bit_length() + 7) // 8, "little")
        out.append(_LARGE)
        _put_count(out, len(content))
        out += content
    else:
        out.append(_NUMBER if value >= 0 else _NEGATIVE)
        _put_count(out, value if value >= 0 else -1 - value)


def _put_count(out: bytearray, count: int) -> None:
    while count > 0x7F:
        out.append(count & 0x7F | 0x80)
        count >>= 7
    out.append(count)


def _count(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
