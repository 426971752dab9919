"""Measured durations, from memory or from a CSV file."""

from __future__ import annotations

import csv
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from .._arrays import Doubles
from .._numbers import is_number
from ..errors import InvalidInput
from .base import Size, StepLaw, Steps, real_number, spell

_FLAGS = {"0": False, "false": False, "no": False, "1": True, "true": True, "yes": True}


@dataclass(frozen=True)
class Empirical(StepLaw):
    """Measured durations, some of them censored: the node had not finished when the measurement stopped.

    The law is the Kaplan-Meier estimate. What it leaves after the last finished duration counts as never
    ready; so does a duration of infinity.

    >>> law = Empirical([1.0, 2.0, 2.0, 4.0], censored=[False, False, True, False])
    >>> law.survival(1.0), law.survival(2.0), law.mean
    (0.75, 0.5, 2.75)
    """

    durations: Sequence[float]
    censored: Sequence[bool] | None = None
    source: str = field(default="", repr=False, compare=False)

    def __post_init__(self) -> None:
        durations = tuple(real_number("Empirical", "a duration", d) for d in self.durations)
        object.__setattr__(self, "durations", durations)
        if not durations:
            raise InvalidInput.because("delay", self, "there is no duration in it")
        wrong = next((d for d in durations if not d >= 0.0), None)
        if wrong is not None:
            raise InvalidInput.because("delay", self, f"a duration must be at least 0, not {spell(wrong)}")
        if self.censored is not None:
            object.__setattr__(self, "censored", tuple(bool(c) for c in self.censored))
            if len(self.censored) != len(durations):
                reason = f"{len(durations)} durations need as many censored flags, not {len(self.censored)}"
                raise InvalidInput.because("delay", self, reason)
        if not self._finished.any():
            raise InvalidInput.because("delay", self, "no duration in it is one of a node that finished")

    @classmethod
    def from_csv(cls, path: str | Path) -> Empirical:
        """Read durations, and optionally whether each is censored, from the lines of a CSV file."""
        durations, censored = _read_durations(Path(path), f"empirical:{path}")
        return cls(durations, censored, source=str(path))

    def __str__(self) -> str:
        return f"empirical:{self.source or f'({len(self.durations)} durations)'}"

    @property
    def _finished(self) -> NDArray[np.bool_]:
        return np.isfinite(self.durations) & np.logical_not(self.censored or False)

    @cached_property
    def steps(self) -> Steps:
        """The Kaplan-Meier estimate."""
        durations = np.asarray(self.durations)
        times, events = np.unique(durations[self._finished], return_counts=True)
        at_risk = len(durations) - np.searchsorted(np.sort(durations), times, side="left")
        left = at_risk - events
        # The product of left / at_risk, arranged to telescope without rounding where nothing is censored:
        # quantile(0.5) of ten durations must be the fifth, not the sixth.
        loss = np.cumprod(np.append(1.0, left[:-1] / at_risk[1:]))
        survival = left / at_risk[0] * loss
        cdf = np.where(loss == 1.0, (at_risk[0] - left) / at_risk[0], 1.0 - survival)
        times, survival, cdf = np.append(0.0, times), np.append(1.0, survival), np.append(0.0, cdf)
        return Steps(times, survival, cdf, np.append(0.0, np.cumsum(survival[:-1] * np.diff(times))))

    def sample(self, rng: np.random.Generator, size: Size) -> Doubles:
        """Draw durations as often as the estimate says; infinity for nodes that never finish."""
        return self._start(np.searchsorted(self.steps.cdf, rng.random(size), side="right"))


def _read_durations(path: Path, spelled: str) -> tuple[list[float], list[bool] | None]:
    def refuse(reason: str) -> InvalidInput:
        return InvalidInput.because("delay", spelled, reason)

    lines = csv_lines(path, refuse)
    columns = len(lines[0][1]) if lines else 1
    if lines and not is_number(lines[0][1][0]) and lines[0][1][0][:1].isalpha():
        line, header = lines.pop(0)
        # A second column named "finished" would mean the opposite of what we read into it.
        if "censored" in header[0].lower() or (columns == 2 and header[1].lower() != "censored"):
            raise refuse(f"line {line}: the columns must be duration,censored, not {_short(header)}")
    durations, censored = [], []
    for line, cells in lines:
        if len(cells) != columns or columns > 2:
            wanted = "1 or 2 columns" if columns > 2 else f"{columns} column{'s' * (columns > 1)} as above"
            raise refuse(f"line {line}: {wanted} expected, not {_short(cells)}")
        if not is_number(cells[0]) or not float(cells[0]) >= 0.0:
            raise refuse(f"line {line}: a duration must be a number of at least 0, not {_short(cells[:1])}")
        if columns == 2 and cells[1].lower() not in _FLAGS:
            reason = f"censored must be 0/1, true/false or yes/no, not {_short(cells[1:])}"
            raise refuse(f"line {line}: {reason}")
        durations.append(float(cells[0]))
        censored.append(columns == 2 and _FLAGS[cells[1].lower()])
    return durations, censored if columns == 2 else None


def csv_lines(path: Path, refuse: Callable[[str], InvalidInput]) -> list[tuple[int, list[str]]]:
    """Return the cells of all lines that are not blank, each line with its number."""
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file)
            lines = [(reader.line_num, [cell.strip() for cell in row]) for row in reader]
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not a text file"
        raise refuse(f"the file cannot be read: {reason}") from None
    return [(line, cells) for line, cells in lines if any(cells)]


def _short(cells: list[str]) -> str:
    text = ",".join(cells)
    return repr(text if len(text) <= 40 else text[:37] + "...")
