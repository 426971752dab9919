"""The privacy of the rivals: what is proven for any run, what was published, and what one run really leaked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...errors import InvalidInput
from ...privacy import (
    GossipRun,
    PlannedRun,
    PrivacyReport,
    PublishedEpsilon,
    RealisedPrivacy,
    StatedEpsilon,
    federated_mu,
    federated_node_mu,
    forecast,
    gdp_epsilon,
    gossip_mu,
    muffliato_epsilon,
)
from ...schedules import Gossip
from ..setup import RunOutput, Setup
from ..whole_node import node_epsilon
from .graphs import gossip_graphs

#: Pairs of gossip that are accounted for: all of them would take hours.
_OBSERVERS, _TARGETS = 4, 50
#: Beyond this many visits of nodes to graphs even some pairs are left out.
_MOST_VISITS = 2e7


def why_not_hidden(setup: Setup) -> str:
    """Say why the noise of others may not be counted; empty if it may."""
    if setup.run.learning.clip_noisy is not None:
        return "gradients are clipped after noise was added, which leaves no Gaussian noise to hide behind"
    if isinstance(setup.schedule, Gossip):
        if setup.schedule.acceleration != 1.0:
            return "accelerated averaging has negative weights"
        return setup.model.why_not(setup.step_sizes.largest)
    return ""


def privacy_of_rival(
    setup: Setup, planned: Callable[[Setup], PlannedRun], report: PrivacyReport, recorded: RunOutput | None
) -> PrivacyReport:
    """Return a report with epsilon by each method, or the reason why there is none."""
    why_not = why_not_hidden(setup)
    run = None
    try:
        run = planned(setup)
        tight = StatedEpsilon(epsilon=forecast(run).epsilon(report.delta))
    except InvalidInput as refusal:
        tight = StatedEpsilon(refused=str(refusal))
    realised = None
    if recorded is None:
        published = PublishedEpsilon(refused="the path of the first run was not recorded")
    elif isinstance(setup.schedule, Gossip):
        published, realised = _gossip(setup, report.delta, amplified=not why_not)
    else:
        published, realised = _federated(setup, report.delta, recorded, averages=not why_not)
    return dataclasses.replace(
        report,
        view="any node" if isinstance(setup.schedule, Gossip) else "server",
        amplified=False,  # the forecast is about a node's own releases
        not_amplified_because=why_not or "a forecast for these schedules counts a node's own releases only",
        forecast=tight,
        paper=published,
        realised=realised,
        planned=run,
        node_epsilon=None if run is None else node_epsilon(setup, run, report.delta),
    )


def _gossip(setup: Setup, delta: float, *, amplified: bool) -> tuple[PublishedEpsilon, RealisedPrivacy | None]:
    assert isinstance(setup.schedule, Gossip)
    if setup.data.nodes * setup.steps > _MOST_VISITS:
        return PublishedEpsilon(refused="too many nodes and iterations to draw all graphs again"), None
    published = muffliato_epsilon(gossip_run(setup, amplified=amplified), delta=delta, points=[setup.steps])
    mu = gossip_pairs(setup, amplified=amplified)
    median, almost, worst = np.quantile(mu, [0.5, 0.99, 1.0])
    realised = RealisedPrivacy(
        worst=gdp_epsilon(float(worst), delta),
        median=gdp_epsilon(float(median), delta),
        pair_99=gdp_epsilon(float(almost), delta),
        pairs=len(mu),
    )
    return PublishedEpsilon(epsilon=float(published[0]), trusted=False, method="Muffliato, Theorem 4"), realised


def gossip_run(setup: Setup, *, amplified: bool) -> GossipRun:
    """Return the first run as its accountants take it; its graphs are drawn again."""
    assert isinstance(setup.schedule, Gossip)
    return GossipRun(
        graphs=gossip_graphs(setup, 0),
        nodes=setup.data.nodes,
        rounds=setup.schedule.rounds,
        noise_multiplier=setup.noise_multiplier,
        step_sizes=setup.step_sizes.first(setup.steps),
        amplified=amplified,
    )


def chosen_pairs(
    setup: Setup, *, observers: int = _OBSERVERS, targets: int = _TARGETS
) -> Iterator[tuple[int, list[int]]]:
    """Yield observers with some targets each: the pairs that are accounted for, always the same for the same seed."""
    nodes = setup.data.nodes
    rng = np.random.default_rng(np.random.SeedSequence(setup.run.simulation.seed, spawn_key=(2**32 - 3,)))
    for observer in rng.choice(nodes, min(nodes, observers), replace=False):
        others = np.setdiff1d(np.arange(nodes), [observer])
        yield int(observer), rng.choice(others, min(len(others), targets), replace=False).tolist()


def gossip_pairs(setup: Setup, *, amplified: bool, observers: int = _OBSERVERS, targets: int = _TARGETS) -> Any:
    """Return mu of some ordered pairs of nodes for the graphs of the first run, proven for each of them."""
    run = gossip_run(setup, amplified=amplified)
    found = [
        gossip_mu(run, observer=observer, targets=some)
        for observer, some in chosen_pairs(setup, observers=observers, targets=targets)
    ]
    return np.concatenate(found)


def _federated(
    setup: Setup, delta: float, recorded: RunOutput, *, averages: bool
) -> tuple[PublishedEpsilon, RealisedPrivacy]:
    uploads = recorded.turns - recorded.skips
    noise = setup.noise_multiplier
    most, middle = int(uploads.max()), int(np.median(uploads))
    other = None
    if averages:
        ready = recorded.updated.reshape(setup.steps, -1)
        # Who uploads most need not be seen best: it matters how many others hide an upload.
        present = ready.sum(axis=1)
        worst = max(federated_node_mu(present, ready[:, node], noise_multiplier=noise) for node in range(len(uploads)))
        other = gdp_epsilon(worst, delta)
    realised = RealisedPrivacy(
        worst=gdp_epsilon(federated_mu(most, noise), delta),
        median=gdp_epsilon(federated_mu(middle, noise), delta),
        pair_99=gdp_epsilon(federated_mu(int(np.quantile(uploads, 0.99, method="higher")), noise), delta),
        other_node=other,
    )
    rho = 2.0 * most / noise**2
    published = rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))  # as for gossip: Mironov's, with the best order
    return PublishedEpsilon(epsilon=published, trusted=True, method="Rényi, per upload"), realised
