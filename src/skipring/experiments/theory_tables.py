"""The paper's numbers beside the tight ones: timeouts, and epsilon for the same noise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ..privacy import PaperBound, ScheduleName, forecast, planned_run
from ..timeouts import choose_timeout, timeout_for_skip
from .theory import DELTA, HOP_LATENCY, LAWS, NOISE_MULTIPLIER, SKIPS, THEOREMS

#: (nodes, steps, delta') of the paper's theory figures and of its experiment with 1000 nodes.
_SIZES = ((10, 1000, 1e-6), (500, 5000, 1e-6), (500, 50_000, 1e-6), (1000, 24_000, 1e-12))


@dataclass(frozen=True)
class TheoryTable:
    """A table with a title, column heads, and a sentence that says how to read it."""

    title: str
    note: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str | float, ...], ...]


def theory_tables(progress: Callable[[int], None] | None = None) -> list[TheoryTable]:
    """Return the timeouts of Lemma 2 and the privacy of all three schedules, paper and tight side by side."""
    return [_timeouts(), _privacy(progress or (lambda _: None))]


def table_cells() -> int:
    """Return how many rows `theory_tables` reports progress on."""
    return len(_SIZES) * len(SKIPS)


def _timeouts() -> TheoryTable:
    rows: list[tuple[str | float, ...]] = []
    for name, law in LAWS.items():
        best = choose_timeout(law, HOP_LATENCY)
        rows.append(
            (
                name,
                *(timeout_for_skip(law, skip) for skip in SKIPS),
                best.timeout,
                best.skip_probability,
                best.time_between_updates,
            )
        )
    return TheoryTable(
        title="Timeouts",
        note=f"Hop latency {HOP_LATENCY}. best: the timeout of Lemma 2, its skip probability, time between updates.",
        columns=("delay", *(f"p={skip:g}" for skip in SKIPS), "best", "best p", "time"),
        rows=tuple(rows),
    )


def _privacy(progress: Callable[[int], None]) -> TheoryTable:
    rows: list[tuple[str | float, ...]] = []
    for nodes, steps, delta_prime in _SIZES:
        for skip in SKIPS:
            cells: list[float] = []
            for schedule in THEOREMS:
                cells += _pair(schedule, nodes, steps, skip, delta_prime)
            rows.append((f"{nodes}", f"{steps}", f"{skip:g}", *cells))
            progress(len(rows))
    return TheoryTable(
        title="Epsilon for the same noise",
        note=(
            f"Noise multiplier {NOISE_MULTIPLIER:.4f}; delta = 2e-6 (1000 nodes: 1e-6 + 1e-12). paper: Theorems 2, 3, 4"
            " as stated; tight: proven here, worst pair, observer always ready, final model counted."
        ),
        columns=("nodes", "steps", "p", "ring paper", "tight", "rand. ring paper", "tight", "walk paper", "tight"),
        rows=tuple(rows),
    )


def _pair(schedule: ScheduleName, nodes: int, steps: int, skip: float, delta_prime: float) -> tuple[float, float]:
    run = planned_run(
        schedule=schedule, nodes=nodes, steps=steps, skip=skip, noise_multiplier=NOISE_MULTIPLIER, protects="node"
    )
    paper = PaperBound(run, delta_prime=delta_prime).epsilon(DELTA)
    return paper, forecast(run).epsilon(DELTA + delta_prime)
