"""Public, frozen encoders: what a row becomes before anything is learned from it.

A linear model of good features is as good as a small network of raw columns. It is also convex, so that the noise of
others protects a node as well. `encoder` makes an `Encoder` from the name that a run file has for it:

- ``scattering``: the scattering transform of an image
- ``random-fourier:N``: N cosines of random projections
- ``module:function``: what a function of your own returns, a callable of float32 rows

Nothing about a row may depend on another row, and no encoder is learned from rows: an epsilon covers what is learned
afterwards, and encoding costs none of it. `encoded` applies an encoder to any number of rows in bounded memory, and
keeps what took a while (SKIPRING_CACHE says where).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..._arrays import to_unit_norm
from ..._digest import digest
from ..._function import IS_FUNCTION
from ...errors import InvalidInput
from .cache import kept_features
from .fourier import RandomFourier
from .function import FunctionEncoder, same_rows
from .scattering import Scattering

_ALLOWED = "none, scattering, random-fourier:N (a number of features) or module:function"
#: How many numbers are computed at a time.
_PART = 1 << 22
#: Files of fewer bytes than this are not worth it.
_LEAST_BYTES = 1 << 23
#: Norms stay below 1 when numbers are rounded to single precision.
_JUST_BELOW_1 = 1.0 - 2.0**-23
_WATCHER: ContextVar[Callable[[int, int], None] | None] = ContextVar("watcher", default=None)


#: What makes features of rows, each by itself. All have a `name` as a run file spells it, for rows of `columns`
#: numbers, which become `width` features, and a `version` of what features depend on beside the name and the rows.
#: `pixels`: it takes rows as they are, and not scaled. `unit`: all that it answers has norm 1, or is a row of zeros.
#: `kept`: it takes so long that features are kept in files.
Encoder: TypeAlias = RandomFourier | FunctionEncoder | Scattering


def check_encoder(name: str) -> None:
    """Refuse a name that no encoder has, before there are any rows."""
    kind, _, number = name.partition(":")
    if kind == "random-fourier":
        if not (number.isascii() and number.isdecimal() and int(number) >= 1):
            raise InvalidInput("encoder", name, _ALLOWED)
    elif name not in ("none", "scattering") and IS_FUNCTION.fullmatch(name) is None:
        raise InvalidInput("encoder", name, _ALLOWED)


def encoder(name: str, columns: int, *, device: str = "auto") -> Encoder | None:
    """Return the encoder of this name for rows of `columns`; None for ``none``.

    `device` is where the scattering transform is computed: ``cpu``, ``cuda``, or ``auto`` for a GPU if there is one.

    >>> made = encoder("random-fourier:100", 30)
    >>> made.width, encoded(made, np.zeros((2, 30))).shape
    (100, (2, 100))
    """
    check_encoder(name)
    if name == "none":
        return None
    if name == "scattering":
        return Scattering(columns, device)
    if name.startswith("random-fourier:"):
        return RandomFourier(columns, int(name.partition(":")[2]))
    return FunctionEncoder(columns, name)


def encoded(encoder: Encoder, rows: NDArray[Any], *, unit_rows: bool = True, keep: bool = True) -> NDArray[np.float32]:
    """Return the features of rows in single precision; they may be a file that is mapped into memory, read-only.

    With `unit_rows` each row of features has norm 1 (a row of zeros stays one), and never above it. Without `keep`
    nothing is read from or written to files.
    """
    if rows.ndim != 2 or rows.shape[1] != encoder.columns:
        given = f"rows of shape {rows.shape}"
        raise InvalidInput("rows", given, f"rows of {encoder.columns} columns, which {encoder.name} was made for")
    shape = (len(rows), encoder.width)

    def parts(some: NDArray[Any] = rows) -> Iterator[NDArray[np.float32]]:
        return _parts(encoder, some, unit_rows)

    def still_so(found: NDArray[np.float32]) -> bool:
        """Say whether kept features are what a user's function answers now, judged by a few rows."""
        few = np.unique(np.linspace(0, len(rows) - 1, 5).astype(int))
        return not isinstance(encoder, FunctionEncoder) or same_rows(next(parts(rows[few])), found[few])

    if keep and encoder.kept and 4 * shape[0] * shape[1] >= _LEAST_BYTES:
        words = [encoder.name, encoder.version, unit_rows or encoder.unit]
        key = digest({"rows": rows, "encoder": words}).hex()
        if (found := kept_features(key, shape, parts, still_so)) is not None:
            return found
    out = np.empty(shape, np.float32)
    low = 0
    for part in parts():
        out[low : low + len(part)] = part
        low += len(part)
    return out


@contextmanager
def watched(watcher: Callable[[int, int], None]) -> Iterator[None]:
    """Tell `watcher` how many rows of how many are encoded, while in here."""
    token = _WATCHER.set(watcher)
    try:
        yield
    finally:
        _WATCHER.reset(token)


def _parts(encoder: Encoder, rows: NDArray[Any], unit_rows: bool) -> Iterator[NDArray[np.float32]]:
    step = max(256, _PART // max(encoder.width, encoder.columns))
    watcher = _WATCHER.get()
    for low in range(0, len(rows), step):
        part = encoder(rows[low : low + step])
        if unit_rows and not encoder.unit:
            exact = part.astype(np.float64, copy=False)
            to_unit_norm(exact)
            part = exact * _JUST_BELOW_1
        yield part.astype(np.float32, copy=False)
        if watcher is not None:
            watcher(min(low + step, len(rows)), len(rows))
