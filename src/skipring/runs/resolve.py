"""What a run file comes to: steps, timeout, step sizes, model and noise, with nothing left open.

Simulations, `network init`, nodes and the estimator all ask `resolve`, so a run file means the same to each of them.
What differs by its nature is an argument: what is known of the rows (all of them, or only what nodes agreed on).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ..data import NodeData
from ..delays import Delay, Empirical, Trace, parse_delay
from ..errors import InvalidInput, require_positive
from ..learning import (
    SOFTMAX,
    USUAL_CLIP,
    LinearModel,
    NeuralModel,
    Protection,
    StepSizes,
    is_of_numbers,
    loss_named,
    unit_count,
    usual_laps,
    usual_loss,
)
from ..schedules import FORESEEN, RIVALS, SCHEDULES, USUAL_SCHEDULE, DesignedRing, Laps
from ..timeouts import best_deadline, best_timeout, chance_of_enough, choose_timeout_ready, timeout_for_skip
from .rows import label_bound_is_agreed
from .runfile import RunFile
from .sections import USUAL_LAW
from .wording import by_key

#: What a run file that says nothing comes to. (The number of nodes is in `rows`; all other defaults are the keys' own.)
DEFAULT_ROUNDS = 30
DEFAULT_EPSILON = 8.0
DEFAULT_DIAMETER = 10.0

#: A deadline by which laps have enough nodes less often is refused.
_HARDLY_EVER = 1e-3
#: Why a squared loss without an agreed bound has no epsilon: to replace a node's labels moves the noise of all.
_NO_BOUND = (
    "the noise follows from the largest label of all nodes' rows; "
    "give model.label_bound, to which labels are clipped, or learning.gradient_bound"
)
#: Why there is none if labels decide who is late: the path tells who holds which class, and no noise hides the path.
_BY_LABELS = (
    "who is late, and so who takes part, depends on the nodes' labels: no epsilon can be stated; "
    "privacy.noise_multiplier gives noise without one"
)


@dataclass(frozen=True)
class Known:
    """What is known of rows as a model sees them: features and classes (0: labels are numbers), or None if nothing.

    `largest_label`, for simulations only, bounds labels that are numbers where the run file does not bound them.
    `owned` are the training rows of all nodes, where they share a data set.
    """

    features: int | None = None
    classes: int | None = None
    largest_label: float | None = None
    owned: NodeData | None = None


@dataclass(frozen=True, kw_only=True)
class ResolvedRun:
    """A run file with nothing left open.

    Parameters
    ----------
    run : the run file itself.
    nodes, steps : how many nodes, and how many hops (iterations, for rivals without a token).
    delay : how long a node takes; in a network, what the run file assumes of it.
    timeout : how long a node is waited for; None if the nodes learn it.
    step_sizes : how far updates go.
    model : what is learned; None where nobody has looked at the rows, and the run file alone does not say.
    protection : whom the noise hides, and how many rows an update takes; None where nobody has looked at the rows, and
        the run file does not say how many.
    epsilon : what the noise is to keep, at the run file's delta; None if the file gives the noise itself.
    noise_multiplier : the noise; None while it is still to follow from `epsilon`.
    units : of each node, how many records or persons it has for training (1 where nodes are protected); None where
        nobody has looked at the rows.
    why_no_privacy : why no epsilon can be stated, whatever the noise; empty if one can.
    """

    run: RunFile
    nodes: int
    steps: int
    delay: Delay
    timeout: float | None
    step_sizes: StepSizes
    model: LinearModel | NeuralModel | None
    protection: Protection | None
    epsilon: float | None
    noise_multiplier: float | None
    units: tuple[int, ...] | None = None
    why_no_privacy: str = ""

    @property
    def convex(self) -> bool:
        """Whether updates are contractions, so that the noise of others may be counted."""
        return self.model is not None and self.model.contracts(self.step_sizes.largest)

    @property
    def part_counts(self) -> tuple[int, ...]:
        """The numbers of parts that occur: with k, a protected unit contributes at every k-th turn of its node."""
        assert self.protection is not None
        assert self.units is not None
        return tuple(sorted({self.protection.parts(units) for units in self.units}))


@by_key()
def resolve(
    run: RunFile, known: Known, nodes: int, *, learns_timeouts: bool = False, delay: Delay | None = None
) -> ResolvedRun:
    """Return what a run file comes to for `nodes`; what is wrong in it is named by its key.

    Noise that is to keep an epsilon is still open: a simulation knows the law of the path, real nodes know its order
    alone. With `learns_timeouts`, nodes learn how long to wait unless the run file says it as a number: a law of delays
    is for simulations, and may be made up. `delay` takes the place of the law that the run file spells. Without either
    nobody is skipped, and virtual time goes by `USUAL_LAW`.
    """
    law = delay if delay is not None else parse_delay(USUAL_LAW if run.delay.law is None else run.delay.law)
    model = model_of(run, known)
    refusal = no_privacy(run, "" if model is None else model.name)
    protection = protection_of(run, known.owned)
    epsilon = epsilon_of(run)
    if epsilon is not None:
        if refusal is not None:
            raise refusal
        if run.schedule.name not in (*FORESEEN, *RIVALS):
            reason = f"nothing is promised for the schedule {run.schedule.name}; give privacy.noise_multiplier instead"
            raise InvalidInput.because("epsilon", epsilon, reason)
    among = laps_of(run, nodes)
    _require_keys(run)
    timeout = _real_timeout(run) if learns_timeouts else _timeout(run, law, nodes, known=delay is not None)
    if among is not None:
        _require_laps(run)
        _require_met(run, law, among, math.inf if timeout is None else timeout)
    return ResolvedRun(
        run=run,
        nodes=nodes,
        steps=_steps(run, nodes, model),
        delay=law,
        timeout=timeout,
        step_sizes=step_sizes_of(run),
        model=model,
        protection=protection,
        epsilon=epsilon,
        noise_multiplier=run.privacy.noise_multiplier if epsilon is None else None,
        units=None if known.owned is None or protection is None else units_of_nodes(known.owned, protection),
        why_no_privacy="" if refusal is None else refusal.reason,
    )


def laps_of(run: RunFile, nodes: int) -> Laps | None:
    """Return whom the laps of a run protect against; None where it has none."""
    if run.schedule.name != Laps.name:
        return None
    with by_key(coalition="laps.coalition", least_nodes="laps.least_nodes"):
        return Laps(nodes=nodes, coalition=run.laps.coalition, least_nodes=run.laps.least_nodes)


def _require_keys(run: RunFile) -> None:
    """Refuse keys of another schedule than the run's: noise and promise would be others than they say."""
    name = run.schedule.name
    if name == Laps.name and run.schedule.steps is not None:
        reason = "counts hops of a token; this run learns by laps, which laps.laps counts"
        reason += f' (schedule.name = "{USUAL_SCHEDULE}" walks)'
        raise InvalidInput.because("schedule.steps", run.schedule.steps, reason)
    # A rival may be what another one's keys are kept for; who hides what they share in laps must not be mistaken.
    for section in RIVALS if name == Laps.name else (Laps.name,):
        if section == name:
            continue
        of = getattr(run, section)
        for key, field in type(of).model_fields.items():
            if (given := getattr(of, key)) != field.default:
                raise InvalidInput.because(f"{section}.{key}", given, f"is for schedule {section}, and this is {name}")


def _require_laps(run: RunFile) -> None:
    """Refuse what laps do not do."""
    if run.privacy.protects == "node":
        reason = "laps add up what records or persons contribute; for whole nodes use another schedule"
        raise InvalidInput.because("privacy.protects", "node", reason)


def _steps(run: RunFile, nodes: int, model: LinearModel | NeuralModel | None) -> int:
    if run.schedule.name == Laps.name:
        return usual_laps(model, run.laps.optimiser) if run.laps.laps == "auto" else run.laps.laps
    if run.schedule.steps is not None:
        return run.schedule.steps
    return DEFAULT_ROUNDS * (1 if run.schedule.name in RIVALS else nodes)


@by_key()
def epsilon_of(run: RunFile) -> float | None:
    """Return the epsilon that a run file asks for; None if it gives the noise itself."""
    if run.privacy.noise_multiplier is not None:
        return None
    epsilon = DEFAULT_EPSILON if run.privacy.epsilon is None else run.privacy.epsilon
    require_positive("epsilon", epsilon)
    return epsilon


def require_own_scales(run: RunFile) -> None:
    """Refuse scales that a node would read off its own rows where less than all of them is protected.

    One record then moves all others of its node, by what no noise was chosen for.
    """
    if run.privacy.protects != "node" and run.standardises:
        reason = (
            f"a node would scale by the mean and deviation of its own rows, so that one {run.privacy.protects} moves "
            "all others. Say false, and give columns on scales that all agreed on"
        )
        raise InvalidInput.because("data.standardise", True, reason)


def usual_batch(run: RunFile, owned: NodeData) -> int:
    """Return the rows of an update if nobody says how many: as many as the largest node may have.

    Of persons it has to be by their number, which is public; how many rows each has is not.
    """
    if owned.persons is None:
        return int(owned.sizes.max())
    whose = np.split(owned.persons, owned.start[1:-1])
    return max(len(np.unique(persons)) for persons in whose) * run.rows_of_one


@by_key()
def protection_of(run: RunFile, owned: NodeData | None = None) -> Protection | None:
    """Return whom the noise hides; None if the rows of an update are neither given nor follow from the nodes' rows."""
    unit, batch = run.privacy.protects, run.learning.batch
    rows_of_one = run.rows_of_one
    if unit != "node" and batch is None:
        if owned is None:
            return None
        batch = usual_batch(run, owned)
    return Protection(unit, batch, rows_of_one)


def units_of_nodes(owned: NodeData, protection: Protection) -> tuple[int, ...]:
    """Return how many records or persons each node has for training; 1 where nodes are protected."""
    whose = [None] * owned.nodes if owned.persons is None else np.split(owned.persons, owned.start[1:-1])
    return tuple(unit_count(int(rows), protection, own) for rows, own in zip(owned.sizes, whose, strict=True))


@by_key()
def step_sizes_of(run: RunFile) -> StepSizes:
    """Return how far updates go."""
    return StepSizes(run.learning.rate, run.learning.step_size, tuple(run.learning.own))


@by_key()
def model_of(run: RunFile, known: Known) -> LinearModel | NeuralModel | None:
    """Return the model for such rows; None for a network where nobody has looked at the rows.

    A linear model without rows has one feature: its bounds and its smoothness do not depend on their number.
    """
    return _network(run, known) if run.model.is_network else _linear(run, known)


def _network(run: RunFile, known: Known) -> NeuralModel | None:
    if known.features is None or known.classes is None:
        return None
    clip = USUAL_CLIP if run.schedule.name == Laps.name else None
    return NeuralModel(
        name=str(run.model.name),
        features=known.features,
        classes=known.classes,
        clip=clip if run.learning.gradient_bound is None else run.learning.gradient_bound,
        diameter=run.learning.diameter,
        ridge=run.model.ridge,
        device=run.model.device,
    )


def _linear(run: RunFile, known: Known) -> LinearModel:
    asked, classes = None if run.model.name is None else loss_named(run.model.name), known.classes
    if classes is None:  # nobody has looked; what a loss needs is what it gets
        classes = SOFTMAX.usual_classes if asked is None else asked.usual_classes
    usual = usual_loss(classes)
    loss = usual if asked is None else asked
    if not loss.fits(classes):
        raise InvalidInput.because("model", loss.name, f"the labels have {classes or 'no'} classes; use {usual.name}")
    # A rival's models are averages, which nothing keeps in a ball; only the squared loss has no bound without one.
    usual_diameter = math.inf if run.schedule.name in RIVALS and not loss.is_of_numbers else DEFAULT_DIAMETER
    label_bound = run.model.label_bound
    if label_bound is None and loss.is_of_numbers:
        # A clipped gradient is bounded whatever the labels are.
        label_bound = math.inf if run.learning.gradient_bound is not None else known.largest_label
        if label_bound is None:
            raise InvalidInput.because("model.label_bound", "missing", _NO_BOUND)
    return LinearModel(
        loss=loss,
        features=known.features or 1,
        diameter=usual_diameter if run.learning.diameter is None else run.learning.diameter,
        classes=max(2, classes),
        ridge=run.model.ridge,
        clip=run.learning.gradient_bound,
        label_bound=1.0 if label_bound is None else label_bound,
    )


@by_key()
def designed_ring_of(run: RunFile, nodes: int, steps: int) -> DesignedRing:
    """Return the schedule of a run whose order is designed; what cannot be designed is refused."""
    usual = 0 if run.model.is_network else 2  # which hide nothing where each update counts in full
    closing = usual if run.schedule.closing is None else run.schedule.closing
    ring = DesignedRing(nodes, run.simulation.seed, closing, run.schedule.search)
    ring.order(steps)
    return ring


def no_privacy(run: RunFile, model: str) -> InvalidInput | None:
    """Return why no epsilon can be stated for a run with this model, whatever the noise; None if one can."""
    if run.stragglers.slow_class is not None:
        return InvalidInput.because("stragglers.slow_class", run.stragglers.slow_class, _BY_LABELS)
    if is_of_numbers(model) and not label_bound_is_agreed(run):
        return InvalidInput.because("model.label_bound", "missing", _NO_BOUND)
    return None


def _real_timeout(run: RunFile) -> float | None:
    """Return how long real nodes wait; None if they learn it, as they do unless the run file says it as a number.

    What they learn leaves the least time between updates: "most-updates" by what they see, in place of a law.
    """
    if run.delay.skip is not None:
        reason = "real nodes learn how long to wait, and nobody knows how many they skip; say delay.timeout in seconds"
        raise InvalidInput.because("delay.skip", run.delay.skip, reason)
    return run.delay.timeout if isinstance(run.delay.timeout, float) else None


def _timeout(run: RunFile, delay: Delay, nodes: int, *, known: bool) -> float | None:
    given = run.delay
    asked = given.timeout if run.laps.deadline is None else run.laps.deadline
    if asked == "adaptive":
        return None
    if asked is None and given.skip is None and given.law is None and not known:
        return math.inf  # how long nodes take is made up: nobody is skipped for it
    remembers = given.ready not in (None, "fresh")
    if run.compute.law is not None and (given.skip is not None or not isinstance(asked, float)):
        if remembers:
            reason = "no law of rounds knows both readiness that is remembered and computing; say how long to wait"
            raise InvalidInput.because("delay.timeout", asked or "most-updates", reason)
        delay = _answers(delay, run.compute.law)
    if given.skip is not None:
        return timeout_for_skip(delay, given.skip)
    if asked is None or isinstance(asked, str):
        if (among := laps_of(run, nodes)) is not None:
            if remembers:
                reason = "no law of laps knows readiness that is remembered; say how long a lap waits"
                raise InvalidInput.because("laps.deadline", asked or "missing", reason)
            return best_deadline(delay, among.sending(given.hop_latency), nodes, among.needed).deadline
        turns = SCHEDULES[run.schedule.name].turns if run.schedule.name in SCHEDULES else None
        if remembers and turns is not None:
            return choose_timeout_ready(delay, given.hop_latency, nodes, given.ready or "fresh", turns=turns).timeout
        return best_timeout(delay, given.hop_latency)
    return float(asked)


def _require_met(run: RunFile, delay: Delay, among: Laps, timeout: float) -> None:
    """Refuse a deadline by which there are hardly ever enough nodes for a lap, as far as their law tells."""
    followed = isinstance(delay, Trace) or run.delay.ready not in (None, "fresh")
    if not 0.0 < timeout < math.inf or followed or run.stragglers != type(run.stragglers)():
        return
    ready = 1.0 - float(delay.survival(np.array([timeout]))[0])
    if chance_of_enough(among.nodes, among.needed, ready) < _HARDLY_EVER:
        key = "delay.skip" if run.delay.skip is not None else "laps.deadline"
        key = "delay.timeout" if isinstance(run.delay.timeout, float) else key
        given = run.delay.skip if run.delay.skip is not None else timeout
        reason = f"fewer than one lap in a thousand has the {among.needed} of {among.nodes} nodes that it needs by then"
        raise InvalidInput.because(key, given, reason)


def _answers(delay: Delay, compute: str) -> Delay:
    """Return the law of a delay and a computation after it, both represented by some hundred quantiles."""
    with by_key(delay="compute.law"):
        computing = parse_delay(compute)
    middles = (np.arange(300) + 0.5) / 300
    return Empirical(np.add.outer(delay.quantile(middles), computing.quantile(middles)).ravel().tolist())
