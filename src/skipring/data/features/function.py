"""Features from a function of the user's own, for instance a network that was trained on public data."""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._function import error_line, made_by
from ...errors import InvalidInput

#: A row alone and among others may differ by so much of the largest number: sums are added up in another order then.
_TOLERANCE = 1e-4
_TRIED = 5


@dataclass(frozen=True)
class FunctionEncoder:
    """What ``module:function`` returns: a callable that takes float32 rows and answers with a row for each of them.

    It is tried on a few made-up rows: each must come out the same alone, among the others, and in another order.
    """

    columns: int
    name: str
    width: int = field(init=False)
    pixels = False
    unit = False
    kept = True

    def __post_init__(self) -> None:
        # Made up from a fixed seed: whether a function is refused must not depend on a node's rows.
        rng = np.random.RandomState(1)
        some = rng.uniform(0.0, 1.0, (_TRIED, self.columns)).astype(np.float32)
        some /= np.linalg.norm(some, axis=1, keepdims=True)
        together = self(some)
        object.__setattr__(self, "width", together.shape[1])
        alone = np.concatenate([self(some[row : row + 1]) for row in range(_TRIED)])
        for other in (alone, self(some[::-1].copy())[::-1]):
            if other.shape != together.shape or not same_rows(other, together):
                self._refuse("treats a row differently among others; each must be encoded by itself")

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return what the function answers, once it is known to be a row of finite numbers for each row."""
        try:
            answer = np.asarray(self._encode(np.asarray(rows, np.float32)))
        except Exception as error:  # a user's function may raise anything
            self._refuse(f"cannot take rows of shape {rows.shape}: {error_line(error)}", error)
        wanted = getattr(self, "width", None)
        if answer.ndim != 2 or len(answer) != len(rows) or answer.dtype.kind not in "biuf" or not answer.shape[1]:
            self._refuse(f"answers {len(rows)} rows with {answer.dtype} of shape {answer.shape}, not a row for each")
        if wanted is not None and answer.shape[1] != wanted:
            self._refuse(f"answers with {answer.shape[1]} numbers for a row, and with {wanted} for another one")
        if not np.isfinite(answer).all():
            self._refuse("answers with numbers that are not finite")
        return answer.astype(np.float64)

    @cached_property
    def _encode(self) -> Callable[[NDArray[np.float32]], Any]:
        made = made_by("encoder", self.name, "encoder")
        if not callable(made):
            self._refuse(f"made no function of rows, but a {type(made).__name__}")
        found: Callable[[NDArray[np.float32]], Any] = made
        return found

    @property
    def version(self) -> str:
        """A digest of the module's file: once that has changed, features are computed anew."""
        module = sys.modules.get(self.name.partition(":")[0])
        try:
            return hashlib.sha256(Path(getattr(module, "__file__", None) or "").read_bytes()).hexdigest()
        except OSError:
            return ""

    def __getstate__(self) -> dict[str, Any]:
        """Leave out what the function returned: where this is unpickled, the module is, too."""
        return {key: value for key, value in self.__dict__.items() if key != "_encode"}

    def _refuse(self, reason: str, error: Exception | None = None) -> Any:
        raise InvalidInput.because("encoder", self.name, reason) from error


def same_rows(ours: NDArray[Any], theirs: NDArray[Any]) -> bool:
    """Say whether two arrays are the same but for the order in which sums are added up."""
    largest = float(np.abs(theirs).max(initial=1e-30))
    return bool(np.abs(ours - theirs).max(initial=0.0) <= _TOLERANCE * largest)
