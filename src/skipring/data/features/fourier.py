"""Random Fourier features: cosines of random projections, whose products are close to those of a Gaussian kernel.

With rows w of independent normal numbers and angles b, sqrt(2 / N) cos(w x / bandwidth + b) has for two rows x and y
the mean product exp(-|x - y|^2 / (2 bandwidth^2)) (Rahimi & Recht, 2007). The numbers come from a fixed, public seed:
all nodes have the same, and none of them depends on rows.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._threads import cores, one_blas_thread
from ...errors import require_integer

_SEED = 20070
#: Rows of norm 1 are at most 2 apart, and those that have nothing in common 1.4: their product is then exp(-2).
BANDWIDTH = 0.7071067811865476
#: Rows are multiplied `_ROWS` at a time, never fewer, and numbers of columns are rounded up: in a product of another
#: size, or at its edge, the last digits of a row may be others.
_ROWS, _COLUMNS = 256, 64
_MOST = 1 << 17


@dataclass(frozen=True)
class RandomFourier:
    """Cosines of `width` random projections of each row.

    >>> RandomFourier(30, 500).name
    'random-fourier:500'
    """

    columns: int
    width: int
    pixels = False
    unit = False
    kept = False  # computed more quickly than looked at
    version = "1"

    def __post_init__(self) -> None:
        require_integer("encoder", self.width, 1, _MOST)

    @property
    def name(self) -> str:
        """As a run file spells it."""
        return f"random-fourier:{self.width}"

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return the cosines."""
        projections, angles = _drawn(self.columns, self.width)
        out = np.empty((len(rows), self.width))

        def block(low: int) -> None:
            part = rows[low : low + _ROWS]
            whole = np.zeros((_ROWS, len(projections)))
            whole[: len(part), : self.columns] = part
            found = (whole @ projections)[: len(part), : self.width]
            out[low : low + len(part)] = np.cos(found + angles) * np.sqrt(2.0 / self.width)

        with one_blas_thread(), ThreadPoolExecutor(cores()) as pool:
            list(pool.map(block, range(0, len(rows), _ROWS)))
        return out


@cache
def _drawn(columns: int, width: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    # The one generator of numpy that promises the same numbers in every version.
    rng = np.random.RandomState(_SEED)
    normal, angles = rng.standard_normal((width, columns)), rng.uniform(0.0, 2.0 * np.pi, width)
    projections = np.zeros((_rounded_up(columns), _rounded_up(width)))
    projections[:columns, :width] = normal.T / BANDWIDTH
    return projections, angles


def _rounded_up(number: int) -> int:
    return -(-number // _COLUMNS) * _COLUMNS
