"""The right half of Figure 5: epsilon against latency, of the token and of its rivals, as the paper counts it."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..privacy import PlannedRun, forecast, gdp_epsilon
from ..privacy.gossip import federated_mu, gossip_mu_curve, muffliato_epsilon
from ..privacy.theorems import theorem_curve
from ..simulation import build
from ..simulation.baselines import gossip_graphs
from ..simulation.baselines.account import why_not_hidden
from ..simulation.baselines.runs import who_is_ready
from .sweep import Cell

__all__ = ["proven_epsilon", "published_epsilon"]

Floats = NDArray[np.floating[Any]]

#: The delta' of the paper's Figure 5.
DELTA_PRIME = 1e-12
#: Pairs of gossip whose epsilon is computed; the curve is the worst of them.
_OBSERVERS, _TARGETS = 2, 40


def published_epsilon(cell: Cell, steps: NDArray[np.int64]) -> Floats:
    """Return epsilon after so many steps by the accounting that was published for the cell's schedule.

    The token: Theorem 3. Gossip: Muffliato's Theorem 4 for the graphs of the first run. The server: Rényi divergences
    of all uploads of the busiest node in the first run.
    """
    run, delta = cell.run, cell.run.privacy.delta
    noise = float(run.privacy.noise_multiplier or 0.0)
    epsilon = np.zeros(len(steps))
    later = steps > 0
    if run.schedule.name == "gossip":
        setup = build(run)
        epsilon[later] = muffliato_epsilon(
            gossip_graphs(setup, 0),
            nodes=setup.data.nodes,
            rounds=run.gossip.rounds,
            noise_multiplier=noise,
            delta=delta,
            points=steps[later].tolist(),
        )
    elif run.schedule.name == "federated":
        rho = 2.0 * _uploads(cell, steps) / noise**2
        epsilon = rho + 2.0 * np.sqrt(rho * math.log(1.0 / delta))
    else:
        nodes = run.data.nodes or 0
        rounds = -(-steps[later] // nodes) * nodes
        epsilon[later] = theorem_curve(
            3,
            nodes=nodes,
            steps=rounds.tolist(),
            skip=run.delay.skip or 0.0,
            noise_multiplier=noise,
            delta=delta,
            delta_prime=DELTA_PRIME,
        )
    return epsilon


def proven_epsilon(cell: Cell, steps: NDArray[np.int64]) -> Floats:
    """Return epsilon after so many steps by the tightest accounting that is proven for the cell's schedule.

    The token: the forecast for any pair of nodes. Gossip: the worst of some pairs for the graphs of the first run (or a
    node's own releases, where nothing better holds). The server: all uploads of the busiest node in the first run.
    """
    setup = build(cell.run)
    delta, noise = cell.run.privacy.delta, setup.noise_multiplier
    later = steps > 0
    if cell.run.schedule.name == "gossip":
        mu = np.zeros(len(steps))
        graphs = list(gossip_graphs(setup, 0))
        rng = np.random.default_rng(1)
        for observer in rng.choice(setup.data.nodes, _OBSERVERS, replace=False):
            others = np.setdiff1d(np.arange(setup.data.nodes), [observer])
            found = gossip_mu_curve(
                graphs,
                nodes=setup.data.nodes,
                rounds=cell.run.gossip.rounds,
                noise_multiplier=noise,
                observer=int(observer),
                targets=rng.choice(others, min(len(others), _TARGETS), replace=False).tolist(),
                points=steps[later].tolist(),
                step_sizes=setup.step_sizes.first(setup.steps),
                amplified=not why_not_hidden(setup),
            )
            mu[later] = np.maximum(mu[later], found.max(axis=1))
        return np.array([gdp_epsilon(float(value), delta) for value in mu])
    if cell.run.schedule.name == "federated":
        return np.array([gdp_epsilon(federated_mu(int(m), noise), delta) for m in _uploads(cell, steps)])
    nodes = setup.data.nodes
    epsilon = np.zeros(len(steps))
    # A ring is accounted for in whole rounds, and many points lie in the same one.
    rounds = -(-steps // nodes)
    for count in np.unique(rounds[later]):
        planned = PlannedRun(
            schedule=setup.schedule.name,  # type: ignore[arg-type] # the record checks it
            nodes=nodes,
            steps=int(count) * nodes,
            skip=cell.run.delay.skip or 0.0,
            noise_multiplier=noise,
            convex=setup.model.contracts(setup.step_sizes.largest),
        )
        epsilon[rounds == count] = forecast(planned).epsilon(delta)
    return epsilon


def _uploads(cell: Cell, steps: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return how often the busiest node had uploaded after so many iterations of the first run."""
    ready = who_is_ready(build(cell.run), 0)
    counts = np.concatenate([[0], np.cumsum(ready, axis=0).max(axis=1)])
    return counts[steps]
