"""What tests of a node's updates share: noise that is known."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class Given:
    """Noise that was drawn beforehand, in one vector, and is handed out piece by piece."""

    def __init__(self, numbers: NDArray[np.float64]) -> None:
        self.left = numbers

    def add(self, vector: NDArray[Any], std: float) -> None:
        part, self.left = self.left[: len(vector)], self.left[len(vector) :]
        vector += (std * part).astype(vector.dtype)
