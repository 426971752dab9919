"""From a run file to a simulation: its rows, what it resolves to, and whoever is late in it."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..data import Dataset, NodeData, PreparedRows
from ..delays import Availability, Delay, PairLatency, parse_delay
from ..errors import InvalidInput
from ..models import Inputs, inputs_of
from ..runs import (
    RUN_KEYS,
    Budget,
    ResolvedRun,
    RunFile,
    Shape,
    clipped_labels,
    dealt_rows,
    designed_ring_of,
    keys,
    require_cuttable,
    resolve,
    stream,
    usual_batch,
)
from ..schedules import Schedule, schedule
from ..timeouts import skip_probability
from .account import noise_for
from .lateness import Lateness
from .rivals import Federated, Gossip
from .setup import Setup
from .stragglers import Stragglers, stragglers_of

#: The stream of random numbers in which gossip's access to the channel is simulated.
_ACCESS = 2**32 - 2


def build(
    run: RunFile, dataset: Dataset | None = None, *, delay: Delay | None = None, order: Schedule | None = None
) -> Setup:
    """Return the setup that a run file describes.

    `dataset`, `delay` and `order` (a schedule) take the place of those that the run file names.
    """
    return built(run, dataset, delay=delay, order=order)[0]


def built(
    run: RunFile, dataset: Dataset | None = None, *, delay: Delay | None = None, order: Schedule | None = None
) -> tuple[Setup, Inputs]:
    """Return the same, and what models that are trained in it are given."""
    if run.delay.timeout == "adaptive":  # before any data is looked for
        reason = "only a network's nodes can learn a timeout from what they see; use most-updates"
        raise InvalidInput.because("delay.timeout", run.delay.timeout, reason)
    nameless = dataset is not None  # the names of an array's columns are made up
    dataset, ready, owned = dealt_rows(run, dataset)
    return setup_of_rows(run, dataset, ready, owned, delay=delay, order=order), inputs_of(
        run,
        columns=dataset.features.shape[1],
        names=() if nameless else dataset.feature_names,
        classes=dataset.classes,
        scaling=ready.scaling,
    )


def setup_of_rows(
    run: RunFile,
    dataset: Dataset,
    ready: PreparedRows,
    owned: NodeData,
    *,
    delay: Delay | None = None,
    order: Schedule | None = None,
) -> Setup:
    """Return the setup of a run on what `dealt_rows` gave: a data set, the same prepared, and dealt to nodes."""
    largest = float(np.abs(ready.train_y).max(initial=1.0))
    shape = Shape(ready.train_x.shape[1], len(dataset.classes), largest, usual_batch(run, owned))
    setup = setup_on(run, owned, shape, (ready.test_x, ready.test_y), delay=delay, order=order)
    if setup.protects == "person":
        setup = dataclasses.replace(setup, rows_left_out=len(ready.train_y) - len(owned.labels))
    return setup


def setup_on(
    run: RunFile,
    owned: NodeData,
    shape: Shape,
    test: tuple[NDArray[Any], NDArray[Any]],
    *,
    delay: Delay | None = None,
    order: Schedule | None = None,
) -> Setup:
    """Return the setup of a run on rows that are prepared and dealt already, with test rows and their labels."""
    labels, clipped = clipped_labels(run, owned.labels)
    owned = dataclasses.replace(owned, labels=labels)
    with keys("stragglers", *Stragglers.__dataclass_fields__, "slow_class", "class_factor"):
        stragglers = stragglers_of(run, owned)

    lateness = _lateness(run)

    followed: list[Schedule | Gossip | Federated] = [] if order is None else [order]

    def schedule_of(resolved: ResolvedRun) -> Schedule | Gossip | Federated:
        if not followed:  # once: what gossip simulates to know its slots takes a while
            followed.append(_schedule(resolved))
        return followed[0]

    def setup_of(resolved: ResolvedRun) -> Setup:
        assert resolved.model is not None
        assert resolved.timeout is not None
        assert resolved.protection is not None
        with keys(
            "delay",
            "timeout",
            "hop_latency",
            compute="compute.law",
            latency="network.latency",
            availability="stragglers.availability",
            unit_rows="data.unit_rows",
            batch="learning.batch",
            clip_noisy="learning.clip_noisy",
            protects="privacy.protects",
            rows_per_person="data.rows_per_person",
            person="data.person",
            speeds="stragglers.speeds",
            seed="simulation.seed",
            evaluate_every="simulation.evaluate_every",
            **RUN_KEYS,
        ):
            return Setup(
                model=resolved.model,
                data=owned,
                test_x=test[0],
                test_y=test[1],
                schedule=schedule_of(resolved),
                steps=resolved.steps,
                delay=resolved.delay,
                timeout=resolved.timeout,
                hop_latency=run.delay.hop_latency,
                step_sizes=resolved.step_sizes,
                noise_multiplier=resolved.noise_multiplier,
                protects=resolved.protection.unit,
                batch=resolved.protection.batch,
                rows_per_person=resolved.protection.rows_per_person,
                clip_noisy=run.learning.clip_noisy,
                patient_every=run.delay.patient_every,
                stragglers=stragglers,
                lateness=lateness,
                seed=run.simulation.seed,
                evaluate_every=run.simulation.evaluate_every,
                why_no_privacy=resolved.why_no_privacy,
                device=run.model.device,
                labels_clipped=None if run.model.label_bound is None else clipped,
            )

    def noise(resolved: ResolvedRun, budget: Budget) -> float:
        return noise_for(setup_of(resolved), budget.epsilon, budget.delta)

    return setup_of(resolve(run, shape, owned.nodes, noise=noise, delay=delay))


def _lateness(run: RunFile) -> Lateness:
    """Return what a run file says of readiness, computing, links and reachability."""
    law = pairs = reached = None
    with keys("compute", delay="compute.law", trace="compute.law"):
        law = None if run.compute.law is None else parse_delay(run.compute.law)
    require_cuttable(run)
    with keys("network", trace="network.latency"):
        pairs = None if run.network.latency is None else PairLatency.read(run.network.latency)
    with keys("stragglers", trace="stragglers.availability"):
        reached = None if run.stragglers.availability is None else Availability.read(run.stragglers.availability)
    return Lateness(
        ready=run.delay.ready or "fresh",
        compute=law,
        late=run.compute.late or "skip",
        latency=pairs,
        availability=reached,
    )


def _schedule(resolved: ResolvedRun) -> Schedule | Gossip | Federated:
    run, nodes = resolved.run, resolved.nodes
    if run.schedule.name == "federated":
        with keys("federated", "channels", nodes="data.nodes"):
            return Federated(nodes=nodes, channels=run.federated.channels)
    if run.schedule.name == "gossip":
        assert resolved.timeout is not None
        with keys("gossip", "rounds", "degree", "slots", "access", "acceleration", nodes="data.nodes"):
            return _gossip(run, nodes, resolved.delay, resolved.timeout)
    if run.schedule.name == "designed-ring":
        return designed_ring_of(run, nodes, resolved.steps)
    with keys("data", "nodes", schedule="schedule.name"):
        return schedule(run.schedule.name, nodes)


def _gossip(run: RunFile, nodes: int, delay: Delay, timeout: float) -> Gossip:
    """Return how the iterations of gossip go; its slots are simulated if they are not given."""
    asked = run.gossip
    rival = Gossip(
        nodes=nodes, slots=1.0 if asked.slots is None else asked.slots, rounds=asked.rounds, degree=asked.degree
    )
    linked = rival.edge_probability(skip_probability(delay, timeout))
    # A stream of their own: what is simulated here must not depend on, or change, anything else.
    rng = stream(run, _ACCESS)
    if asked.slots is None:
        from .rivals import access_slots, best_access  # numba is loaded only where it is needed

        degree = linked * (nodes - 1)
        if asked.access is None:
            slots = best_access(nodes, degree, rng)[1]
        else:
            slots = float(access_slots(nodes, degree, asked.access, rng, graphs=20).mean())
        rival = dataclasses.replace(rival, slots=slots)
    if asked.acceleration:
        from .rivals.graphs import acceleration

        rival = dataclasses.replace(rival, acceleration=acceleration(nodes, linked, rng))
    return rival
