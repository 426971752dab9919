"""From a run file to a simulation: its rows, what it resolves to, and who is late in it."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..data import Dataset, NodeData, PreparedRows
from ..delays import Availability, Delay, PairLatency, parse_delay
from ..errors import InvalidInput
from ..models import Inputs, inputs_of
from ..runs import (
    Known,
    ResolvedRun,
    RunFile,
    by_key,
    clipped_labels,
    dealt_rows,
    designed_ring_of,
    laps_of,
    resolve,
    stream,
)
from ..schedules import DesignedRing, Federated, Gossip, Rival, Schedule, schedule
from ..timeouts import skip_probability
from .account import noise_for
from .lateness import Lateness
from .setup import Course, Setup
from .stragglers import stragglers_of

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
    run: RunFile,
    dataset: Dataset | None = None,
    *,
    delay: Delay | None = None,
    order: Schedule | None = None,
    secret: bool = False,
) -> tuple[Setup, Inputs]:
    """Return the same, and what models that are trained in it are given."""
    if run.delay.timeout == "adaptive":  # before any data is looked for
        reason = "only a network's nodes can learn a timeout from what they see; use most-updates"
        raise InvalidInput.because("delay.timeout", run.delay.timeout, reason)
    nameless = dataset is not None  # the names of an array's columns are made up
    dataset, ready, owned = dealt_rows(run, dataset)
    rows = DealtRows.of(run, dataset, ready, owned)
    return setup_on(run, rows, delay=delay, order=order, secret=secret), inputs_of(
        run,
        columns=dataset.features.shape[1],
        names=() if nameless else dataset.feature_names,
        classes=dataset.classes,
        scaling=ready.scaling,
    )


class DealtRows(NamedTuple):
    """Rows that are prepared and dealt already, and test rows with their labels.

    `classes` is 0 where labels are numbers; these are at most `largest_label`, if the run file does not bound them.
    `left_out` is how many rows were left out, where the rows of a person are limited.
    """

    owned: NodeData
    test_x: NDArray[Any]
    test_y: NDArray[Any]
    classes: int
    largest_label: float | None = None
    left_out: int | None = None

    @classmethod
    def of(cls, run: RunFile, dataset: Dataset, ready: PreparedRows, owned: NodeData) -> DealtRows:
        """Return what `runs.dealt_rows` gave: a data set, the same prepared, and dealt to nodes."""
        left_out = len(ready.train_y) - len(owned.labels) if run.privacy.protects == "person" else None
        largest = float(np.abs(ready.train_y).max(initial=1.0))
        return cls(owned, ready.test_x, ready.test_y, len(dataset.classes), largest, left_out)


@by_key()
def setup_on(
    run: RunFile, rows: DealtRows, *, delay: Delay | None = None, order: Schedule | None = None, secret: bool = False
) -> Setup:
    """Return the setup of a run on rows that are prepared and dealt already; what is wrong is named by its key.

    Noise that is to keep an epsilon follows before a row is looked at.
    """
    labels, clipped = clipped_labels(run, rows.owned.labels)
    owned = dataclasses.replace(rows.owned, labels=labels)
    known = Known(owned.features.shape[1], rows.classes, rows.largest_label, owned)
    stragglers, resolved = stragglers_of(run, owned), resolve(run, known, owned.nodes, delay=delay)
    course = Course(
        **vars(resolved) | ({"noise_multiplier": 1.0} if resolved.noise_multiplier is None else {}),
        schedule=_schedule(resolved) if order is None else order,
        stragglers=stragglers,
        lateness=_lateness(run),
    )
    if course.epsilon is not None:
        course = course.having(noise_multiplier=noise_for(course, course.epsilon, run.privacy.delta))
    return Setup(
        **vars(course),
        data=owned,
        test_x=rows.test_x,
        test_y=rows.test_y,
        labels_clipped=None if run.model.label_bound is None else clipped,
        rows_left_out=rows.left_out,
        secret=secret,
    )


def _lateness(run: RunFile) -> Lateness:
    """Return what a run file says of readiness, computing, links and reachability."""
    law = pairs = reached = None
    with by_key(delay="compute.law", trace="compute.law"):
        law = None if run.compute.law is None else parse_delay(run.compute.law)
    with by_key(trace="network.latency"):
        pairs = None if run.network.latency is None else PairLatency.read(run.network.latency)
    with by_key(trace="stragglers.availability"):
        reached = None if run.stragglers.availability is None else Availability.read(run.stragglers.availability)
    return Lateness(
        ready=run.delay.ready or "fresh",
        compute=law,
        late=run.compute.late or "skip",
        latency=pairs,
        availability=reached,
    )


def _schedule(resolved: ResolvedRun) -> Schedule | Rival:
    run, nodes = resolved.run, resolved.nodes
    if (among := laps_of(run, nodes)) is not None:
        return among
    if run.schedule.name == Federated.name:
        return Federated(nodes=nodes, channels=run.federated.channels)
    if run.schedule.name == Gossip.name:
        assert resolved.timeout is not None
        return _gossip(run, nodes, resolved.delay, resolved.timeout)
    if run.schedule.name == DesignedRing.name:
        return designed_ring_of(run, nodes, resolved.steps)
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
