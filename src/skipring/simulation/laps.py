"""A simulated run of laps: who is ready in time, the exact private sum of each lap, and the step after it."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from ..learning import (
    MOST_ROWS,
    LapState,
    LinearLaps,
    LinearModel,
    most_units,
    on_grid,
    reference,
    require_range,
    rounded_share,
)
from ..privacy import share_of_noise
from ..schedules import Laps
from .lap_clock import who_takes_part
from .layout import laid_out
from .setup import Course, RunOutput, Setup

#: As many numbers of noise at a time fit into a processor's cache.
_ROOM = 1 << 16


class LapRuns:
    """The rows of a setup on the grid of exact sums, part by part, shared by all of its runs."""

    def __init__(self, setup: Setup) -> None:
        self.layout = laid_out(setup)
        self._cut = on_grid(self.layout.x.astype(np.float64, copy=False))
        self._parts = np.diff(self.layout.first)
        self._sizes = np.diff(self.layout.start)
        self._counts = np.concatenate(list(map(np.array, _counts_of_nodes(setup))))

    def run(self, setup: Setup, number: int) -> RunOutput:
        """Simulate run `number` of laps, unless secret always the same for seed and number."""
        among = setup.schedule
        assert isinstance(among, Laps)
        rng, noise = setup.streams(number)
        took_part, times, tries = who_takes_part(setup, among, rng)
        rule, points = lap_rule(setup), set(setup.points.tolist())
        state = rule.start()
        tested, updates = [_tested(setup, state)], [0]
        for lap in range(setup.steps):
            who = np.flatnonzero(took_part[lap])
            share = share_in(setup, rule, lap, len(who))
            total, rows = self._sum(rule, state, who)
            kind = rule.sum_of(lap)
            require_range(int(self._counts.max()), kind.sensitivity, share, kind.grid, len(who))
            total += _noise(rule, lap, share, len(who), noise)
            deviation = share * math.sqrt(len(who))
            state = rule.step(state, total * kind.grid, std=deviation, rows=rows)
            updates.append(updates[-1] + len(who))
            if lap + 1 in points:
                tested.append(_tested(setup, state))
        errors, losses = np.array(tested).T
        return RunOutput(
            number,
            errors,
            losses,
            np.array(updates, dtype=np.int64)[setup.points],
            state.average,
            times[setup.points],
            np.zeros(0, dtype=np.int32),
            took_part.ravel() if number == 0 else np.zeros(0, np.bool_),  # of all runs it would take much room
            np.full(setup.data.nodes, tries, dtype=np.int64),
            tries - took_part.sum(axis=0),
            foreseeable=not setup.secret,
        )

    def _sum(self, rule: LinearLaps, state: LapState, who: NDArray[np.intp]) -> tuple[NDArray[np.int64], int]:
        """Return the sum of what these nodes contribute, whatever is added first, and how many rows count as its own.

        How many persons there are is public, and how many rows each has is not: all count as if they had the most.
        """
        of, part = self.layout, self.layout.first[who] + state.laps % self._parts[who]
        chosen = np.zeros(len(self._sizes), np.bool_)
        chosen[part] = True
        taken = np.flatnonzero(np.repeat(chosen, self._sizes))
        total = np.zeros(len(rule.sum_of(state.laps).scales), np.int64)
        for piece in np.array_split(taken, -(-len(taken) // MOST_ROWS)):
            total += rule.contribution(state, self._cut[piece], of.y[piece])
        return total, int(self._counts[part].sum())


def _counts_of_nodes(setup: Setup) -> Iterator[list[int]]:
    """Yield for each node and each of its parts how many rows its units may have, which no row decides."""
    data, rows_of_one = setup.data, setup.protection.rows_of_one
    for low, parts in zip(data.start[:-1], setup.parts, strict=True):
        whose = None if data.persons is None else data.persons[low:]
        yield [most_units([part], setup.protection, whose) * rows_of_one for part in parts]


def _noise(rule: LinearLaps, lap: int, share: float, nodes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the shares of the noise of a lap, in steps of its grid, and add them up; some nodes' at a time."""
    kind = rule.sum_of(lap)
    total, at_once = np.zeros(len(kind.scales), np.int64), max(1, _ROOM // len(kind.scales))
    for first in range(0, nodes, at_once):
        drawn = rng.standard_normal((min(at_once, nodes - first), len(total)))
        total += rounded_share(drawn, share * kind.scales, kind.grid).sum(axis=0)
    return total


def share_in(setup: Setup, rule: LinearLaps, lap: int, participants: int) -> float:
    """Return the standard deviation of each participant's noise in a lap; 0 where there is none."""
    assert isinstance(setup.schedule, Laps)
    if setup.noise_multiplier == 0.0:
        return 0.0
    kind = rule.sum_of(lap)
    moved = kind.sensitivity * setup.protection.rows_of_one  # a person's rows move the sum together
    wanted = share_of_noise(
        rule.mu * math.sqrt(rule.weights[lap]),
        participants=participants,
        coalition=setup.schedule.withstood,
        sensitivity=moved,
        grid=kind.grid,
        coordinates=kind.moved,
    )
    return max(wanted, 0.5 * moved * setup.run.laps.floor)


def _tested(setup: Setup, state: LapState) -> tuple[float, float]:
    """Return test error and mean loss of the model that would be used after these laps."""
    model, x, y = setup.model, setup.test_x, setup.test_y
    assert isinstance(model, LinearModel)
    return reference.test_error(model, state.average, x, y), reference.mean_loss(model, state.average, x, y)


def lap_rule(setup: Course) -> LinearLaps:
    """Return the laps of a setup's model."""
    assert isinstance(setup.model, LinearModel)
    noise = setup.noise_multiplier
    mu = 2.0 * math.sqrt(setup.steps) / noise if noise > 0.0 else math.inf
    return LinearLaps(setup.model, mu, setup.steps)


def noise_on_a_gradient(setup: Setup) -> float:
    """Return the deviation of the noise on the mean gradient of the last lap, if all nodes take part in it."""
    rule, rows = lap_rule(setup), sum(max(each) for each in _counts_of_nodes(setup))
    return share_in(setup, rule, setup.steps - 1, setup.data.nodes) * math.sqrt(setup.data.nodes) / rows
