"""What a node says of itself while it runs: its state, its account and its share in the run."""

from __future__ import annotations

import resource
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from statistics import median
from typing import TYPE_CHECKING

from ..protocol import Rules, updated_hops
from ..storage import digest_of
from .claims import life_guarantee
from .status import NodeStatus

if TYPE_CHECKING:
    from .node import Node


def status_of(node: Node, *, finished: bool = False) -> NodeStatus:
    """Return what a node knows about the run and about itself.

    Turns are counted as far as the node knows what became of them. Neither an offer that waits for an answer nor an
    update that is being made is a turn that was skipped.
    """
    setup, memory, telemetry = node.setup, node.peer.memory, node.telemetry
    times, delta, token = telemetry.times, setup.delta, memory.outcome or memory.copy.token
    life = None if node.lifetime is None else node.lifetime.total
    return NodeStatus(
        name=setup.name,
        run=setup.identity,
        nodes=setup.rules.nodes,
        steps=setup.rules.steps,
        hop=telemetry.hop,
        holding=node.peer.holding and memory.outcome is None,
        over=memory.outcome is not None and (finished or setup.me in node.all_done),
        model=digest_of(token.parameters)[:16] if memory.outcome is not None else None,
        ballot=memory.promised,
        updates=token.updates,
        own_updates=node.account.releases,
        turns=_by_node(setup.rules, range(1, node.peer.decided + 1)),
        updates_by_node=_by_node(setup.rules, updated_hops(token.chain)),
        guarantee=replace(node.account.guarantee(delta), not_covered=setup.not_covered),
        budget=setup.config.budget.epsilon,
        life_runs=None if life is None else life.runs,
        life=None if life is None else life_guarantee(life.unit, life.relation, delta, life.mu2, life.in_full),
        refused=telemetry.refused,
        refused_for_budget=telemetry.refused_for_budget,
        late=telemetry.late,
        declined=telemetry.declined,
        cut=telemetry.cut,
        prepare_time=times.prepare_time,
        test_error=node.updater.test_error,
        guess=setup.learner.guess,
        timeout=node.driver.pace.timeout,
        hop_time=times.hop_time,
        overhead=times.overhead,
        carry_rate=median(node.transport.carry_rates) if node.transport.carry_rates else None,
        pass_rate=times.pass_rate,
        recoveries=telemetry.recoveries,
        reachable=len(node.transport.reachable),
        broken_rules=tuple(telemetry.broken_rules[each] for each in range(setup.rules.nodes)),
        peak_memory=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
        running_for=telemetry.running_for,
        relay=None if node.tunnel is None else node.tunnel.state,
        finishing=tuple(setup.roster.names[each] for each, _ in memory.wishes),
        majority=setup.rules.majority,
        ended_early_at=node.peer.ended_at if memory.outcome is not None and memory.asked else None,
        expires_in=node.expiry.seconds_left,
        expiring=node.expiry.warning,
        waits_for=telemetry.waits_for,
        stands_still=0.0 if telemetry.waits_for is None else node.watch.stands_for,
    )


def _by_node(rules: Rules, hops: Iterable[int]) -> tuple[int, ...]:
    """Return how many of some hops were each node's."""
    turns = Counter(rules.path[hop - 1] for hop in hops)
    return tuple(turns[node] for node in range(rules.nodes))
