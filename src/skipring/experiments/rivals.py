"""The right half of Figure 5: epsilon against latency, of the token and of its rivals, as the paper counts it."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from .._arrays import Floats
from ..privacy import PlannedRun, forecast, gdp_epsilon, gossip_mu_curve, muffliato_epsilon, theorem_curve
from ..schedules import Federated, Gossip
from ..simulation import Setup, build, chosen_pairs, gossip_run, planned, who_is_ready, why_not_hidden
from .sweep import Cell
from .theory import THEOREMS

#: The delta' of the paper's Figure 5.
DELTA_PRIME = 1e-12


def published_epsilon(cell: Cell, steps: NDArray[np.int64]) -> Floats:
    """Return epsilon after these steps by the accounting that was published for the cell's schedule.

    The token: Theorem 2, 3 or 4. Gossip: Muffliato's Theorem 4 for the graphs of the first run. The server: Rényi
    divergences of all uploads of the busiest node in the first run.
    """
    delta = cell.run.privacy.delta
    setup = build(cell.run)
    noise = setup.noise_multiplier
    epsilon = np.zeros(len(steps))
    later = steps > 0
    if isinstance(setup.schedule, Gossip):
        run = gossip_run(setup, amplified=False)
        epsilon[later] = muffliato_epsilon(run, delta=delta, points=steps[later].tolist())
    elif isinstance(setup.schedule, Federated):
        rho = 2.0 * _uploads(setup, steps) / noise**2
        epsilon = rho + 2.0 * np.sqrt(rho * math.log(1.0 / delta))
    else:
        token = _whole_rounds(setup)
        rounds = -(-steps[later] // token.nodes) * token.nodes
        epsilon[later] = theorem_curve(
            THEOREMS[token.schedule],
            nodes=token.nodes,
            steps=rounds.tolist(),
            skip=token.skip,
            noise_multiplier=noise,
            delta=delta,
            delta_prime=DELTA_PRIME,
        )
    return epsilon


def proven_epsilon(cell: Cell, steps: NDArray[np.int64]) -> Floats:
    """Return epsilon after these steps by the tightest accounting that is proven for the cell's schedule.

    The token: what is promised for any pair of nodes. Gossip: the worst of the pairs that `skipring simulate` has, too,
    for the graphs of the first run (or a node's own releases, where nothing better holds). The server:
    what is promised for the uploads of any node.
    """
    setup = build(cell.run)
    delta = cell.run.privacy.delta
    later = steps > 0
    if isinstance(setup.schedule, Gossip):
        mu = np.zeros(len(steps))
        run = gossip_run(setup, amplified=not why_not_hidden(setup))
        for observer, targets in chosen_pairs(setup):
            found = gossip_mu_curve(run, observer=observer, targets=targets, points=steps[later].tolist())
            mu[later] = np.maximum(mu[later], found.max(axis=1))
        return np.array([gdp_epsilon(float(value), delta) for value in mu])
    if isinstance(setup.schedule, Federated):
        lengths = [planned(setup.having(steps=int(step))) for step in steps[later]]
        return np.append(np.zeros(int((~later).sum())), [forecast(record).epsilon(delta) for record in lengths])
    token = _whole_rounds(setup)
    epsilon = np.zeros(len(steps))
    # A ring is accounted for in whole rounds, and many points lie in the same one.
    rounds = -(-steps // token.nodes)
    for count in np.unique(rounds[later]):
        shorter = token.replace(steps=int(count) * token.nodes)
        epsilon[rounds == count] = forecast(shorter).epsilon(delta)
    return epsilon


def _whole_rounds(setup: Setup) -> PlannedRun:
    """Return the record of a token's run, which is lengthened to whole rounds."""
    nodes = setup.data.nodes
    return planned(setup.having(steps=-(-setup.steps // nodes) * nodes))


def _uploads(setup: Setup, steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often the busiest node had uploaded after these iterations of the first run."""
    ready = who_is_ready(setup, 0)
    counts = np.concatenate([[0], np.cumsum(ready, axis=0).max(axis=1)])
    return counts[steps]
