"""A simulated run of laps: who is ready in time, the exact private sum of each lap, and the step after it."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from .._arrays import Doubles
from ..learning import LapRule, LapState, LapSum, LinearModel, laps_of_model, most_units, require_range, rounded_share
from ..privacy import share_of_noise
from ..schedules import Laps
from .lap_clock import who_takes_part
from .lap_rows import LinearRows, NetworkRows
from .setup import Course, Interrupted, RunOutput, Setup

#: As many numbers of noise at a time fit into a processor's cache.
_ROOM = 1 << 16


class LapRuns:
    """The rows of a setup, shared by all of its runs."""

    def __init__(self, setup: Setup) -> None:
        grid = lap_rule(setup).sum_of(0).grid
        self._rows = LinearRows(setup) if isinstance(setup.model, LinearModel) else NetworkRows(setup, grid)
        self.parallel = self._rows.parallel
        self._parts = np.array(list(map(len, setup.parts)))
        self._first = np.cumsum(self._parts) - self._parts
        self._counts = np.concatenate(list(map(np.array, _counts_of_nodes(setup))))

    def run(self, setup: Setup, number: int, stopped: Callable[[], bool] = lambda: False) -> RunOutput:
        """Simulate run `number` of laps, unless secret always the same for seed and number."""
        among = setup.schedule
        assert isinstance(among, Laps)
        rng, noise = setup.streams(number)
        took_part, times, tries = who_takes_part(setup, among, rng)
        rule = lap_rule(setup, self._rows.begin(setup.run.simulation.seed + number))
        state, points = rule.start(), set(setup.points.tolist())
        with self._rows.reproducible(rng):
            tested = [self._rows.tested(state.average)]
            for lap, ready in enumerate(took_part):
                if stopped():
                    raise Interrupted(f"run {number} was stopped at lap {lap}")
                state = self._after(setup, rule, state, np.flatnonzero(ready), noise)
                if lap + 1 in points:
                    tested.append(self._rows.tested(state.average))
        errors, losses = np.array(tested).T
        return RunOutput(
            number,
            errors,
            losses,
            np.append(0, np.cumsum(took_part.sum(axis=1)))[setup.points],
            state.average,
            times[setup.points],
            np.zeros(0, dtype=np.int32),
            took_part.ravel() if number == 0 else np.zeros(0, np.bool_),  # of all runs it would take much room
            np.full(setup.data.nodes, tries, dtype=np.int64),
            tries - took_part.sum(axis=0),
            foreseeable=not setup.secret,
        )

    def _after(
        self, setup: Setup, rule: LapRule, state: LapState, who: NDArray[np.intp], noise: np.random.Generator
    ) -> LapState:
        """Return what is known after the next lap, in which these nodes take part."""
        share, kind = share_in(setup, rule, state.laps, len(who)), rule.sum_of(state.laps)
        require_range(int(self._counts.max()), kind.sensitivity, share, kind.grid, len(who))
        total, rows = self._sum(rule, state, who)
        total += _noise(rule, state.laps, share, len(who), noise)
        return rule.step(state, total * kind.grid, std=share * math.sqrt(len(who)), rows=rows)

    def _sum(self, rule: LapRule, state: LapState, who: NDArray[np.intp]) -> tuple[NDArray[np.int64], int]:
        """Return the sum of what these nodes contribute, and how many rows count as its own.

        How many persons there are is public, and how many rows each has is not: all count as if they had the most.
        """
        part = self._first[who] + state.laps % self._parts[who]
        return self._rows.sum(rule, state, part), int(self._counts[part].sum())


def _counts_of_nodes(setup: Setup) -> Iterator[list[int]]:
    """Yield for each node and each of its parts how many rows its units may have, which no row decides."""
    data, rows_of_one = setup.data, setup.protection.rows_of_one
    for low, parts in zip(data.start[:-1], setup.parts, strict=True):
        whose = None if data.persons is None else data.persons[low:]
        yield [most_units([part], setup.protection, whose) * rows_of_one for part in parts]


def _noise(rule: LapRule, lap: int, share: float, nodes: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw the shares of the noise of a lap, in steps of its grid, and add them up; some nodes' at a time."""
    kind = rule.sum_of(lap)
    total, at_once = np.zeros(len(kind.scales), np.int64), max(1, _ROOM // len(kind.scales))
    for first in range(0, nodes, at_once):
        drawn = rng.standard_normal((min(at_once, nodes - first), len(total)))
        total += rounded_share(drawn, share * kind.scales, kind.grid).sum(axis=0)
    return total


def share_in(setup: Setup, rule: LapRule, lap: int, participants: int) -> float:
    """Return the standard deviation of each participant's noise in a lap; 0 where there is none."""
    assert isinstance(setup.schedule, Laps)
    if setup.noise_multiplier == 0.0:
        return 0.0
    kind = rule.sum_of(lap)
    moved = moved_by_a_unit(setup, kind)
    wanted = share_of_noise(
        rule.mu * math.sqrt(rule.weights[lap]),
        participants=participants,
        coalition=setup.schedule.withstood,
        sensitivity=moved,
        grid=kind.grid,
        coordinates=kind.moved,
    )
    return max(wanted, 0.5 * moved * setup.run.laps.floor)


def moved_by_a_unit(setup: Course, kind: LapSum) -> float:
    """Return how far one unit moves a sum: a person's rows move it together, unless what is clipped is all of them."""
    return kind.sensitivity * (setup.protection.rows_of_one if setup.model.bounds_rows else 1)


def lap_rule(setup: Course, first: Doubles | None = None) -> LapRule:
    """Return how a setup's model learns from laps, beginning with a model (0, if it is none)."""
    noise, asked = setup.noise_multiplier, setup.run.laps
    return laps_of_model(
        setup.model,
        2.0 * math.sqrt(setup.steps) / noise if noise > 0.0 else math.inf,
        setup.steps,
        optimiser=asked.optimiser,
        rate=asked.rate,
        rows_of_one=setup.protection.rows_of_one,
        first=first,
    )


def noise_on_a_gradient(setup: Setup) -> float:
    """Return the deviation of the noise on the mean gradient of the last lap, if all nodes take part in it."""
    rule, rows = lap_rule(setup), sum(max(each) for each in _counts_of_nodes(setup))
    return share_in(setup, rule, setup.steps - 1, setup.data.nodes) * math.sqrt(setup.data.nodes) / rows
