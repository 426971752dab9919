"""Rows of norm 1, whatever the size of their numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray


def to_unit_norm(rows: NDArray[np.float64]) -> None:
    """Give every row norm 1, in place; a row of zeros stays one."""
    with np.errstate(over="ignore", under="ignore"):
        norms = np.sqrt(np.einsum("ij,ij->i", rows, rows))
    # Where squares overflow or vanish, the largest entry is made 1 first.
    extreme = ((norms < 1e-100) | (norms > 1e100)).nonzero()[0]
    if extreme.size:
        largest = np.abs(rows[extreme]).max(axis=1)
        rows[extreme] /= np.where(largest > 0.0, largest, 1.0)[:, None]
        norms[extreme] = np.linalg.norm(rows[extreme], axis=1)
    rows /= np.where(norms > 0.0, norms, 1.0)[:, None]
