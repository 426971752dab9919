"""The privacy of the rivals: what is proven for any run, what was published, and what one run really leaked."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterator

import numpy as np

from ...errors import InvalidInput
from ...privacy import (
    ANOTHER_NODE,
    IN_FULL,
    SERVER,
    WHOLE_NODE,
    GossipAccountant,
    GossipRun,
    Guarantee,
    InThisRun,
    PlannedRun,
    PrivacyReport,
    federated_mu,
    federated_node_mu,
    forecast,
    gdp_epsilon,
    muffliato_epsilon,
    nothing_promised,
    promise,
)
from ...schedules import Gossip
from ..setup import RunOutput, Setup
from .graphs import gossip_graphs

#: Pairs of gossip that are accounted for: all of them would take hours.
_OBSERVERS, _TARGETS = 4, 50
#: Beyond this many visits of nodes to graphs even some pairs are left out.
_MOST_VISITS = 2e7
#: What the others see of a run without a token.
_SEEN_IN_GOSSIP = "who sees what is sent, and knows who sent it when"
_SEEN_BY_SERVER = "which sees each update by itself"


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
    """Return a report with what a rival promises, what is published of it, and what the first run gave away."""
    why_not, gossip, delta = why_not_hidden(setup), isinstance(setup.schedule, Gossip), report.delta
    run = None
    try:
        run = planned(setup)
        promised = promise(forecast(run), delta, units=setup.most_units)
    except InvalidInput as refusal:
        promised = nothing_promised(setup.protection.unit, delta, str(refusal))
    against, sees = (ANOTHER_NODE, _SEEN_IN_GOSSIP) if gossip else (SERVER, _SEEN_BY_SERVER)
    whole = promised.beside(WHOLE_NODE)
    also = () if whole is None else (dataclasses.replace(whole, against=against, sees=sees),)
    promised = dataclasses.replace(promised, against=against, sees=sees, also=also)
    in_this_run = None
    if recorded is None:
        why = "the path of the first run was not recorded"
        published = nothing_promised(setup.protection.unit, delta, why)
    elif gossip:
        published, in_this_run = _gossip(setup, promised, amplified=not why_not)
    else:
        published, in_this_run = _federated(setup, promised, recorded, averages=not why_not)
    own = "what is promised for these schedules counts a node's own releases only"
    return dataclasses.replace(
        report,
        promised=promised,
        paper=published,
        in_this_run=in_this_run,
        not_amplified_because=why_not or own,  # the promise is about a node's own releases
        planned=run,
        learns_by="gossip" if gossip else "server",
    )


def _gossip(setup: Setup, promised: Guarantee, *, amplified: bool) -> tuple[Guarantee, InThisRun | None]:
    assert isinstance(setup.schedule, Gossip)
    delta, unit = promised.delta, promised.protects
    if setup.data.nodes * setup.steps > _MOST_VISITS:
        return nothing_promised(unit, delta, "too many nodes and iterations to draw all graphs again"), None
    run = gossip_run(setup, amplified=amplified)
    published = _published(
        promised,
        "Muffliato, Theorem 4",
        float(muffliato_epsilon(run, delta=delta, points=[setup.steps])[0]),
        doubt="it is not proven for this protocol",
    )
    accounts = [
        GossipAccountant(run, observer=observer, targets=targets, protects=unit)
        for observer, targets in chosen_pairs(setup)
    ]
    mu = np.concatenate([account.mu for account in accounts])
    median, almost = np.quantile(mu, [0.5, 0.99])
    in_this_run = InThisRun(
        guarantee=max(accounts, key=lambda account: float(account.mu.max())).guarantee(delta),
        median=gdp_epsilon(float(median), delta),
        pair_99=gdp_epsilon(float(almost), delta),
        pairs=len(mu),
    )
    return published, in_this_run


def _published(promised: Guarantee, method: str, epsilon: float, *, doubt: str | None = None) -> Guarantee:
    """Return what others state of a rival's run."""
    stated = dataclasses.replace(promised, method=method, epsilon=epsilon, doubt=doubt, refused=None)
    return dataclasses.replace(stated, stated_by="the published accounting", assumptions=(), also=())


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


def _federated(
    setup: Setup, promised: Guarantee, recorded: RunOutput, *, averages: bool
) -> tuple[Guarantee, InThisRun]:
    uploads, delta = recorded.turns - recorded.skips, promised.delta
    noise = setup.noise_multiplier

    def told(number: int) -> float:
        return gdp_epsilon(federated_mu(number, noise), delta)

    most = int(uploads.max())
    found = dataclasses.replace(
        promised,
        whose="the busiest node",
        method="uploads",
        epsilon=told(most),
        refused=None,
        assumptions=("it is about the uploads of one run", IN_FULL),
        also=(),
    )
    if averages:
        ready = recorded.updated.reshape(setup.steps, -1)
        # Who uploads most need not be seen best: it matters how many others hide an upload.
        present = ready.sum(axis=1)
        worst = max(federated_node_mu(present, ready[:, node], noise_multiplier=noise) for node in range(len(uploads)))
        seen = "which sees the averages that an honest server sends"
        other = dataclasses.replace(found, whose="any node", against=ANOTHER_NODE, sees=seen)
        found = dataclasses.replace(found, also=(dataclasses.replace(other, epsilon=gdp_epsilon(worst, delta)),))
    in_this_run = InThisRun(
        guarantee=found,
        median=told(int(np.median(uploads))),
        pair_99=told(int(np.quantile(uploads, 0.99, method="higher"))),
    )
    rho = 2.0 * most / noise**2
    published = rho + 2.0 * math.sqrt(rho * math.log(1.0 / delta))  # as for gossip: Mironov's, with the best order
    return _published(promised, "Rényi, per upload", published), in_this_run
