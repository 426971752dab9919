"""Orders by design: the noise that keeps a budget for every pair of nodes, and the error that comes of it.

All nodes update at each turn, so that what each pair learns is known exactly from the order alone. (An observer that
looks and passes the token on unchanged learns a little more, since step sizes fall.) That is shown on the fixed ring,
in random orders and random walks that are drawn, and in designed ones. The rate of each cell is searched on rows that
are held back from the training part; the test rows are looked at once.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any

import numpy as np

from ..privacy import Transcript, TranscriptAccountant, gdp_mu
from ..schedules import DesignedRing, KnownOrder, RandomRing, RandomWalk, Ring, Schedule, designed_order, schedule
from ..simulation import Interrupted, simulate

#: What every pair is to keep: epsilon and delta.
ORDER_BUDGET = (8.0, 1e-5)
ORDER_SCHEDULES = (Ring.name, RandomRing.name, DesignedRing.name, RandomWalk.name)
#: How many random orders and walks are drawn.
_DRAWS = 3
_RATES = (0.03, 0.1, 0.3, 1.0)
_VALIDATION = 0.2


@dataclass(frozen=True)
class OrderStudy:
    """How much is computed: numbers of nodes with the rounds of each, runs of a cell, and moves of the search."""

    sizes: tuple[tuple[int, int], ...] = ((4, 20), (10, 30), (30, 30), (90, 30), (112, 30), (300, 30), (1000, 24))
    runs: int = 100
    search: int | None = None
    data: str = "houses-openml"

    @classmethod
    def quick(cls) -> OrderStudy:
        """Return a study of few nodes, for a look."""
        return cls(sizes=((4, 10), (12, 10)), runs=2, search=2000, data="breast-cancer")

    @property
    def pieces(self) -> int:
        """How many cells there are, and tables of worst pairs."""
        return len(self.sizes) * (len(ORDER_SCHEDULES) + 1)


@dataclass(frozen=True, kw_only=True)
class WorstPairs:
    """The leakage of the worst pair, nobody skipped and constant step sizes; one release in full is 1.

    `drawn` is the mean over some random orders, `rows` the construction alone, and `searched` what the search made of
    it. `closed` is the same with two closing hops, of which `median` is the median pair.
    """

    nodes: int
    rounds: int
    drawn: float
    rows: float
    searched: float
    closed: float
    median: float


@dataclass(frozen=True, kw_only=True)
class OrderRow:
    """One schedule with some number of nodes: the noise with which every pair keeps the budget, and test errors of
    runs.

    Where orders are drawn, noise and leakage are means over some of them.
    """

    nodes: int
    rounds: int
    schedule: str
    leakage: float
    noise_multiplier: float
    rate: float
    errors: tuple[float, ...]

    @property
    def error(self) -> float:
        """The mean test error."""
        return float(np.mean(self.errors))


def worst_pairs(nodes: int, rounds: int, *, search: int | None = None, seed: int = 1) -> WorstPairs:
    """Return the worst pairs' leakages of random and designed orders.

    >>> found = worst_pairs(6, 10, search=1000)
    >>> found.closed < found.rows, found.searched < found.drawn
    (True, True)
    """
    rng = np.random.default_rng(seed)
    drawn = [
        KnownOrder(nodes, tuple(RandomRing(nodes).path(nodes * rounds, rng).tolist())).leakages().max()
        for _ in range(_DRAWS)
    ]
    rows, searched, closed = (
        designed_order(nodes, rounds, seed=seed, closing=closing, search=moves).leakages()
        for closing, moves in ((0, 0), (0, search), (2, search))
    )
    return WorstPairs(
        nodes=nodes,
        rounds=rounds,
        drawn=float(np.mean(drawn)),
        rows=float(rows.max()),
        searched=float(searched.max()),
        closed=float(closed.max()),
        median=float(np.median(closed[~np.eye(nodes, dtype=bool)])),
    )


def order_study(
    study: OrderStudy, *, stop: threading.Event | None = None, progress: Callable[[int], None] | None = None
) -> Iterator[OrderRow | WorstPairs]:
    """Yield the table of worst pairs for each number of nodes, then a row for each schedule."""
    for done, ((nodes, rounds), name) in enumerate(product(study.sizes, ("", *ORDER_SCHEDULES))):
        if stop is not None and stop.is_set():
            raise Interrupted(f"{done} of {study.pieces} cells are finished")
        yield _row(study, name, nodes, rounds) if name else worst_pairs(nodes, rounds, search=study.search)
        if progress is not None:
            progress(done + 1)


def _row(study: OrderStudy, name: str, nodes: int, rounds: int) -> OrderRow:
    designed = name == DesignedRing.name
    ring = DesignedRing(nodes, seed=1, search=study.search) if designed else schedule(name, nodes)
    draws = _DRAWS if name.startswith("random") else 1
    leakages = [_worst(ring, nodes * rounds, seed) for seed in range(draws)]
    noise = float(np.mean([2.0 * math.sqrt(x) / gdp_mu(*ORDER_BUDGET) for x in leakages]))
    searched = {rate: float(np.mean(_errors(study, ring, rounds, noise, rate, _VALIDATION))) for rate in _RATES}
    rate = min(searched, key=searched.__getitem__)
    return OrderRow(
        nodes=nodes,
        rounds=rounds,
        schedule=name,
        leakage=float(np.mean(leakages)),
        noise_multiplier=noise,
        rate=rate,
        errors=_errors(study, ring, rounds, noise, rate, None),
    )


def _worst(ring: Schedule, steps: int, seed: int) -> float:
    """Return the leakage of the worst pair of an order that is drawn or designed, with falling step sizes."""
    path = ring.whole_path(steps, np.random.default_rng(seed))
    account = TranscriptAccountant(
        Transcript(
            nodes=ring.nodes,
            offered=path,
            updated=np.ones(len(path), dtype=np.bool_),
            step_sizes=1.0 / np.sqrt(np.arange(1.0, len(path) + 1.0)),
            noise_multiplier=2.0,  # one release then has mu = 1
            closing=ring.closing_hops,
            protects="node",
        )
    )
    return account.worst().mu ** 2


def _errors(
    study: OrderStudy, ring: Schedule, rounds: int, noise: float, rate: float, validation: float | None
) -> tuple[float, ...]:
    schedule: dict[str, Any] = {"name": ring.name, "steps": ring.nodes * rounds}
    if isinstance(ring, DesignedRing):
        schedule["search"] = study.search
    run = {
        "data": {"name": study.data, "nodes": ring.nodes, "validation": validation},
        "schedule": schedule,
        "delay": {"law": "exponential:1", "timeout": math.inf},
        "learning": {"rate": rate},
        "privacy": {"protects": "node", "noise_multiplier": noise, "delta": ORDER_BUDGET[1]},
        "simulation": {"runs": study.runs, "seed": 1, "record_path": False, "evaluate_every": 10**9},
    }
    return tuple(simulate(run, keep_models=False).test_error[:, -1].tolist())
