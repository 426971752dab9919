"""Names for arrays of numbers, as signatures spell them."""

from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

#: Real numbers of any precision, and of twice the usual one.
Floats: TypeAlias = NDArray[np.floating[Any]]
Doubles: TypeAlias = NDArray[np.float64]
#: Whole numbers of 64 bits, and of any.
Ints: TypeAlias = NDArray[np.int64]
AnyInts: TypeAlias = NDArray[np.integer[Any]]
