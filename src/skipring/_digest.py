"""Digests of values: SHA-256 of canonical bytes, the same on every machine and with every version of numpy."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import numpy as np


def digest(value: Any) -> bytes:
    """Return the digest of numbers, texts, lists, mappings and arrays, nested in any way.

    Keys are sorted, floats are written with all their digits, and an array counts with its type, its shape and every
    one of its bytes. What has no canonical form is refused.

    >>> digest({"a": 1.0, "b": [True, None]}) == digest({"b": [True, None], "a": 1.0})
    True
    """
    text = json.dumps(value, sort_keys=True, separators=(",", ":"), default=_canonical)
    return hashlib.sha256(text.encode()).digest()


def _canonical(value: object) -> object:
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
        kind = value.dtype.newbyteorder("<")
        plain = np.ascontiguousarray(value, dtype=kind).tobytes()
        return {"array": kind.str, "shape": list(value.shape), "sha256": hashlib.sha256(plain).hexdigest()}
    raise TypeError(f"a {type(value).__name__} has no canonical bytes")
