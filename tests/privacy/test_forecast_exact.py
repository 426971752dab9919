"""The forecast against the truth: all paths of small runs one by one, and simulated paths of larger ones.

The oracle below is slow and shares no code with the library. It writes a path as a word, cuts it where the observer
looks, and solves each interval by the max-min formula of isotonic regression.
"""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.special import ndtr
from scipy.stats import binom

from skipring.privacy import Composition, Forecast, PlannedRun, forecast, planned_run
from skipring.privacy._step_sizes import StepSizeLaw
from skipring.privacy._walk import _gap_law, _gap_laws, _HopKinds, _segments, random_walk_leakage
from skipring.privacy.record import ScheduleName

Floats = NDArray[np.float64]
EPSILONS = (0.0, 1e-6, 0.05, 0.5, 2.0, 6.0)
# (noise multiplier, epsilon): from nearly no privacy to a lot of it.
QUESTIONS = ((2.0, 0.0), (2.0, 0.5), (2.0, 6.0), (6.0, 1e-6), (6.0, 2.0), (20.0, 0.05))


# ---------------------------------------------------------------------------------------------- the oracle


@dataclass(frozen=True)
class Observer:
    """How often the observer takes part, and whether it is sent the token although it will be skipped."""

    ready: float
    sees_when_skipped: bool

    def outcomes(self) -> list[tuple[str, float]]:
        """L: it looks. W: it looks, then updates."""
        return [("W", self.ready), ("L" if self.sees_when_skipped else "", 1.0 - self.ready)]


@dataclass(frozen=True)
class Truth:
    """The exact law of the leakage of one pair."""

    leakages: Floats
    probabilities: Floats

    def delta(self, epsilon: float, noise_multiplier: float) -> float:
        return float(self.probabilities @ gaussian_delta(np.sqrt(self.leakages) * 2.0 / noise_multiplier, epsilon))


def gaussian_delta(mu: Floats, epsilon: float) -> Floats:
    """The textbook formula; plain differences are good enough for the large deltas of small runs."""
    safe = np.maximum(mu, 1e-12)
    delta = ndtr(0.5 * safe - epsilon / safe) - math.exp(epsilon) * ndtr(-0.5 * safe - epsilon / safe)
    return np.where(mu > 0.0, np.maximum(delta, 0.0), 0.0)


def step_size(update: int, law: StepSizeLaw) -> float:
    return 1.0 if law == "constant" else 1.0 / math.sqrt(update)


def isotonic_cost(shifts: list[float], variances: list[float]) -> float:
    """sum m_i^2 V_i for the isotonic regression of S_i/V_i, weights V_i: m_i = max_{j<=i} min_{k>=i} mean(j..k)."""
    steps = range(len(shifts))
    cost = 0.0
    for i in steps:
        slope = max(
            min(sum(shifts[j : k + 1]) / sum(variances[j : k + 1]) for k in steps if k >= i) for j in steps if j <= i
        )
        cost += slope * slope * variances[i]
    return cost


@cache
def interval_leakage(updates: str, before: int, law: StepSizeLaw) -> float:
    """What updates by the target (U) and others (N), the first of them number `before` + 1, tell at the next look."""
    if "U" not in updates:
        return 0.0
    sizes = [step_size(before + 1 + i, law) for i in range(len(updates))]
    shifts = [size if letter == "U" else 0.0 for size, letter in zip(sizes, updates, strict=True)]
    return isotonic_cost(shifts, [size * size for size in sizes])


def path_leakage(path: str, law: StepSizeLaw) -> float:
    """Everyone sees the final model; the observer knows its own noise, which therefore hides nothing."""
    total, counter, since = 0.0, 0, ""
    for letter in path + "L":
        if letter in "LW":
            total += interval_leakage(since, counter - len(since), law)
            since = ""
            counter += letter == "W"
        else:
            since += letter
            counter += 1
    return total


def word_law(parts: Iterable[dict[str, float]]) -> dict[str, float]:
    """The law of the words that independent parts (rounds or hops) make together."""
    law = {"": 1.0}
    for part in parts:
        longer: defaultdict[str, float] = defaultdict(float)
        for word, probability in law.items():
            for end, chance in part.items():
                longer[word + end] += probability * chance
        law = dict(longer)
    return law


def round_law(orders: list[tuple[int, ...]], ready: list[float], observer: Observer) -> dict[str, float]:
    """All orders of the nodes and all ways to take part in one round. Node 0 is the target, node 1 the observer."""
    outcomes = [[("U", ready[0]), ("", 1.0 - ready[0])], observer.outcomes()]
    outcomes += [[("N", chance), ("", 1.0 - chance)] for chance in ready[2:]]
    law: defaultdict[str, float] = defaultdict(float)
    for order in orders:
        for what in itertools.product(*outcomes):
            word = "".join(what[node][0] for node in order)
            law[word] += math.prod(chance for _, chance in what) / len(orders)
    return {word: probability for word, probability in law.items() if probability > 0.0}


def hop_law(ready: list[float], observer: Observer) -> dict[str, float]:
    nodes = len(ready)
    law: defaultdict[str, float] = defaultdict(float)
    law["U"] += ready[0] / nodes
    law[""] += (1.0 - ready[0]) / nodes
    for letter, chance in observer.outcomes():
        law[letter] += chance / nodes
    for chance in ready[2:]:
        law["N"] += chance / nodes
        law[""] += (1.0 - chance) / nodes
    return {word: probability for word, probability in law.items() if probability > 0.0}


def ring_order(nodes: int, position: int, distance: int) -> tuple[int, ...]:
    """The fixed order with the target in place `position` (from 1) and the observer `distance` hops later."""
    order = [-1] * nodes
    order[position - 1] = 0
    order[(position - 1 + distance) % nodes] = 1
    others = iter(range(2, nodes))
    return tuple(node if node >= 0 else next(others) for node in order)


def truth_of(run: PlannedRun, observer: Observer, *, position: int | None = None) -> Truth:
    """Enumerate all paths. A pair of the fixed ring has a place, whether or not the forecast was told."""
    ready = [run.target_ready, math.nan] + [1.0 - run.skip] * (run.nodes - 2)
    if run.schedule == "random-walk":
        words = word_law([hop_law(ready, observer)] * run.steps)
    else:
        if run.schedule == "ring":
            place = position or run.keywords.get("position")
            assert place is not None
            orders = [ring_order(run.nodes, place, run.keywords.get("distance") or 1)]
        else:
            orders = list(itertools.permutations(range(run.nodes)))
        words = word_law([round_law(orders, ready, observer)] * run.rounds)
    law: defaultdict[float, float] = defaultdict(float)
    for word, probability in words.items():
        law[path_leakage(word, run.step_size)] += probability
    assert sum(law.values()) == pytest.approx(1.0, abs=1e-12)
    return Truth(np.array(list(law)), np.array(list(law.values())))


def observers_of(run: PlannedRun) -> dict[str, Observer]:
    """Every observer that the record speaks about (against `node`: whatever it does)."""
    if run.keywords["against"] == "skipped-node":
        return {
            "as ready as stated": Observer(run.observer.sees, False),
            "less ready": Observer(0.5 * run.observer.sees, False),
        }
    return {
        "always ready": Observer(1.0, True),
        "never ready": Observer(0.0, True),
        "skipped now and then": Observer(0.5, True),
    }


def planned(
    schedule: ScheduleName, nodes: int, steps: int, skip: float, *, noise_multiplier: float = 5.0, **more: object
) -> PlannedRun:
    run = planned_run(schedule=schedule, nodes=nodes, steps=steps, skip=skip, noise_multiplier=noise_multiplier)
    return run.replace(**more)


def largest_ratio(run: PlannedRun, observer: Observer, *, position: int | None = None) -> float:
    """Return the largest true delta / forecast delta over epsilons and noises, where the truth is above rounding."""
    truth = truth_of(run, observer, position=position)
    account = forecast(run)
    ratios = [0.0]
    for noise, epsilon in QUESTIONS:
        true = truth.delta(epsilon, noise)
        if true > 1e-12:
            ratios.append(true / account.with_noise(noise).delta(epsilon))
    return max(ratios)


# --------------------------------------------------------------------------------- the oracle is right


def test_oracle_solves_the_allocation_problem() -> None:
    """The cheapest way to absorb all shifts by the end, never ahead of them, found by a general-purpose solver."""
    rng = np.random.default_rng(5)
    for _ in range(12):
        size = int(rng.integers(2, 6))
        variances = rng.uniform(0.2, 2.0, size)
        shifts = rng.uniform(0.0, 1.0, size) * (rng.random(size) < 0.6)
        pending = np.cumsum(shifts)
        limits: list[dict[str, object]] = [
            {"type": "ineq", "fun": lambda a, b=pending: (b - np.cumsum(a))[:-1]},
            {"type": "eq", "fun": lambda a, b=pending: b[-1] - a.sum()},
        ]
        best = minimize(
            lambda a, v=variances: float(np.sum(a * a / v)),
            shifts,
            bounds=[(0.0, None)] * size,
            constraints=limits,
            options={"ftol": 1e-14, "maxiter": 500},
        )
        assert isotonic_cost(shifts.tolist(), variances.tolist()) == pytest.approx(best.fun, rel=1e-5, abs=1e-9)


@pytest.mark.parametrize(
    ("path", "law", "leakage"),
    [
        ("U", "sqrt", 1.0),  # only the final model shows it, but that shows it bare
        ("ULNL", "constant", 1.0),
        ("UNL", "constant", 0.5),
        ("UNL", "sqrt", 1.0 / 1.5),
        ("UUL", "constant", 2.0),  # two updates in a row before one look are two releases
        ("UNUL", "constant", 1.5),
        ("UUNL", "constant", 4.0 / 3.0),  # pooled: (1 + 1)^2 / 3
        ("NWUWNU", "constant", 2.0),  # the observer's own noise hides nothing
        ("", "sqrt", 0.0),
    ],
)
def test_oracle_on_paths_that_can_be_done_by_hand(path: str, law: StepSizeLaw, leakage: float) -> None:
    assert path_leakage(path, law) == pytest.approx(leakage, rel=1e-14)


# ------------------------------------------------------------------ never below the truth, all paths counted

RANDOM_RINGS = [
    planned("random-ring", 2, 8, 0.9),
    planned("random-ring", 3, 9, 0.1),
    planned("random-ring", 3, 9, 0.5, step_size="constant"),
    planned("random-ring", 3, 3, 0.9, target_skip=0.0),
    planned("random-ring", 3, 9, 0.0),
    planned("random-ring", 4, 12, 0.5),
    planned("random-ring", 5, 10, 0.1, target_skip=0.5),
    planned("random-ring", 3, 12, 0.5, against="skipped-node"),
    planned("random-ring", 4, 12, 0.1, against="skipped-node", observer_skip=0.9),
    planned("random-ring", 3, 9, 0.9, against="skipped-node", observer_skip=0.0, target_skip=0.1),
    planned("random-ring", 5, 5, 0.5, against="skipped-node", step_size="constant"),
]
RANDOM_WALKS = [
    planned("random-walk", 2, 7, 0.9),
    planned("random-walk", 2, 6, 0.0),
    planned("random-walk", 3, 8, 0.1),
    planned("random-walk", 3, 8, 0.0, step_size="constant"),
    planned("random-walk", 4, 8, 0.5, target_skip=0.0),
    planned("random-walk", 5, 8, 0.5, against="skipped-node", observer_skip=0.9),
    planned("random-walk", 3, 7, 0.1, against="skipped-node", target_skip=0.9),
]


def described(run: PlannedRun) -> str:
    more = [
        f"{name}={value}"
        for name, value in (
            ("target", run.keywords.get("target_skip")),
            ("observer", run.keywords.get("observer_skip")),
        )
        if value
    ]
    return " ".join(
        [run.schedule, f"n={run.nodes} h={run.steps} p={run.skip}", run.keywords["against"], run.step_size, *more]
    )


@pytest.mark.sample(7)
@pytest.mark.parametrize("run", [*RANDOM_RINGS, *RANDOM_WALKS], ids=described)
def test_forecast_covers_every_observer(run: PlannedRun) -> None:
    for observer in observers_of(run).values():
        assert largest_ratio(run, observer) <= 1.0 + 1e-9


@pytest.mark.sample(6)
@pytest.mark.parametrize("step_size", ["sqrt", "constant"])
@pytest.mark.parametrize(
    ("nodes", "rounds", "skip", "distance", "more"),
    [
        (3, 4, 0.1, 2, {}),
        (4, 3, 0.9, 2, {}),
        (4, 3, 0.5, 3, {"target_skip": 0.0}),
        (5, 2, 0.5, 3, {"target_skip": 0.9}),
        (4, 2, 0.5, 2, {"against": "skipped-node", "observer_skip": 0.1}),
        (5, 1, 0.1, 4, {}),
    ],
)
def test_forecast_covers_every_place_on_the_ring(
    nodes: int, rounds: int, skip: float, distance: int, more: dict[str, object], step_size: StepSizeLaw
) -> None:
    run = planned("ring", nodes, nodes * rounds, skip, distance=distance, step_size=step_size).replace(**more)
    everyone = list(observers_of(run).values())
    for position in range(1, nodes + 1):
        observer = everyone[position % len(everyone)]
        assert largest_ratio(run.replace(position=position), observer) <= 1.0 + 1e-9
    # Without a place the forecast speaks for all of them.
    worst = [truth_of(run, everyone[0], position=position) for position in range(1, nodes + 1)]
    account = forecast(run)
    for epsilon in (0.0, 0.5, 2.0):
        assert max(truth.delta(epsilon, run.noise_multiplier) for truth in worst) <= account.delta(epsilon) * (1 + 1e-9)


@pytest.mark.parametrize("skip", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("nodes", [2, 3, 4])
def test_forecast_is_exact_for_neighbours_on_the_ring(nodes: int, skip: float) -> None:
    run = planned("ring", nodes, 3 * nodes, skip)
    for position in (1, nodes):
        for observer in (Observer(1.0, True), Observer(0.0, True)):
            truth = truth_of(run, observer, position=position)
            for noise, epsilon in ((2.0, 0.0), (2.0, 4.0), (6.0, 0.5), (20.0, 0.05)):
                exact = truth.delta(epsilon, noise)
                assert forecast(run).with_noise(noise).delta(epsilon) == pytest.approx(exact, rel=2e-9)


def test_every_pair_on_the_ring_leaks_at_most_what_neighbours_do() -> None:
    account = forecast(planned("ring", 4, 12, 0.3))
    for distance, position in itertools.product((1, 2, 3), (1, 2, 3, 4)):
        run = planned("ring", 4, 12, 0.3, distance=distance, position=position)
        truth = truth_of(run, Observer(1.0, True))
        for epsilon in (0.0, 0.5, 3.0):
            assert truth.delta(epsilon, run.noise_multiplier) <= account.delta(epsilon) * (1.0 + 1e-9)


def test_forecast_covers_two_runs_one_after_the_other() -> None:
    """The leakages of independent runs add up; each is measured in the releases of its own noise."""
    first = planned("random-ring", 3, 6, 0.5, noise_multiplier=3.0)
    second = planned("random-walk", 4, 6, 0.1, noise_multiplier=6.0)
    observer = Observer(1.0, True)
    one, two = truth_of(first, observer), truth_of(second, observer)
    together = (one.leakages[:, None] / 9.0 + two.leakages / 36.0).ravel()
    both = Truth(together, (one.probabilities[:, None] * two.probabilities).ravel())
    account = Composition(forecast(first), forecast(second))
    for epsilon in EPSILONS:
        assert both.delta(epsilon, 1.0) <= account.delta(epsilon) * (1.0 + 1e-9)


# ------------------------------------------------------------------------------ and not far above it


@pytest.mark.parametrize(
    ("run", "epsilon", "within"),
    [
        (planned("ring", 3, 12, 0.1, distance=2, position=1), 0.5, 1.2),
        (planned("ring", 4, 12, 0.5, distance=3, position=1, step_size="constant"), 0.5, 1.05),
        (planned("random-ring", 2, 8, 0.1), 0.5, 1.02),
        (planned("random-ring", 3, 9, 0.5, step_size="constant"), 1.0, 1.3),
        (planned("random-ring", 4, 12, 0.1), 1.0, 1.6),
        (planned("random-ring", 3, 12, 0.5, against="skipped-node"), 1.0, 1.6),
        (planned("random-walk", 3, 8, 0.5, step_size="constant"), 1.0, 1.6),
    ],
    ids=lambda value: described(value) if isinstance(value, PlannedRun) else str(value),
)
def test_forecast_is_tight_enough_that_two_thirds_of_it_would_be_too_little(
    run: PlannedRun, epsilon: float, within: float
) -> None:
    worst = max(truth_of(run, o).delta(epsilon, run.noise_multiplier) for o in observers_of(run).values())
    assert worst <= forecast(run).delta(epsilon) <= within * worst


# ------------------------------------------------------------------------------------ larger runs, simulated


def pooled_cost(shifts: list[float], variances: list[float]) -> float:
    """The isotonic regression again, by pooling: linear in the number of the target's updates."""
    stack: list[tuple[float, float]] = []
    for block in zip(shifts, variances, strict=True):
        shift, variance = block
        while stack and stack[-1][0] * variance >= shift * stack[-1][1]:
            before = stack.pop()
            shift, variance = shift + before[0], variance + before[1]
        stack.append((shift, variance))
    return sum(shift * shift / variance for shift, variance in stack)


def simulated_leakages(run: PlannedRun, observer: Observer, paths: int, rng: np.random.Generator) -> Floats:
    """Draw paths and solve each one exactly, for target 0 and observer 1."""
    nodes, hops = run.nodes, run.steps
    if run.schedule == "random-walk":
        who = rng.integers(0, nodes, (paths, hops))
    elif run.schedule == "random-ring":
        who = rng.permuted(np.tile(np.arange(nodes), (paths * run.rounds, 1)), axis=1).reshape(paths, hops)
    else:
        place = run.keywords
        who = np.tile(np.array(ring_order(nodes, place["position"], place["distance"])), (paths, run.rounds))
    ready = np.full(nodes, 1.0 - run.skip)
    ready[:2] = run.target_ready, observer.ready
    takes_part = rng.random((paths, hops)) < ready[who]
    number = np.cumsum(takes_part, axis=1)
    variance = 1.0 / np.maximum(number, 1) if run.step_size == "sqrt" else np.ones((paths, hops))
    hidden = np.where(takes_part & (who != 1), variance, 0.0)
    noise = np.cumsum(hidden, axis=1)
    looks = (who == 1) & (takes_part | observer.sees_when_skipped)
    interval = np.cumsum(looks, axis=1)
    leakages = np.zeros(paths)
    for path in range(paths):
        own = np.nonzero(takes_part[path] & (who[path] == 0))[0]
        seen_at = np.append(noise[path, looks[path]], noise[path, -1])
        starts = noise[path, own] - hidden[path, own]
        for here, group in itertools.groupby(range(len(own)), key=lambda i, p=path, o=own: interval[p, o[i]]):  # type: ignore[misc]
            members = list(group)
            edges = [*starts[members].tolist(), float(seen_at[here])]
            shifts = np.sqrt(variance[path, own[members]]).tolist()
            leakages[path] += pooled_cost(shifts, np.diff(edges).tolist())
    return leakages


def lower_confidence_bound(samples: Floats, error: float) -> float:
    """Maurer and Pontil (2009): values in [0, 1] have at least this mean, but for a probability of `error`."""
    log, size = math.log(2.0 / error), len(samples)
    return float(samples.mean() - math.sqrt(2.0 * samples.var(ddof=1) * log / size) - 7.0 * log / (3.0 * (size - 1)))


LARGER = [
    (planned("ring", 30, 240, 0.3, distance=10, position=1, noise_multiplier=1.5), Observer(0.0, True), 0.8),
    (planned("ring", 20, 200, 0.7, distance=15, position=12, noise_multiplier=2.0), Observer(1.0, True), 0.5),
    (planned("random-ring", 30, 300, 0.1, noise_multiplier=1.5), Observer(0.0, True), 1.0),
    (planned("random-ring", 20, 200, 0.7, noise_multiplier=2.0, step_size="constant"), Observer(1.0, True), 1.0),
    (planned("random-ring", 20, 300, 0.6, noise_multiplier=2.0, against="skipped-node"), Observer(0.4, False), 1.0),
    (planned("random-walk", 20, 300, 0.2, noise_multiplier=2.0), Observer(1.0, True), 1.0),
    (planned("random-walk", 50, 500, 0.5, noise_multiplier=1.5, step_size="constant"), Observer(0.0, True), 1.0),
    (planned("random-walk", 20, 300, 0.6, noise_multiplier=2.0, against="skipped-node"), Observer(0.4, False), 1.0),
]


def simulated_bounds(paths: int, error: float) -> list[tuple[float, float]]:
    """(certified delta, simulated lower confidence bound) of each larger run."""
    bounds = []
    for seed, (run, observer, epsilon) in enumerate(LARGER):
        leakages = simulated_leakages(run, observer, paths, np.random.default_rng(seed))
        samples = gaussian_delta(np.sqrt(leakages) * 2.0 / run.noise_multiplier, epsilon)
        bounds.append((forecast(run).delta(epsilon), lower_confidence_bound(samples, error)))
    return bounds


def test_simulation_and_enumeration_solve_the_same_problem() -> None:
    rng = np.random.default_rng(3)
    for run, observer in (
        (planned("random-ring", 3, 9, 0.3), Observer(0.5, True)),
        (planned("random-walk", 3, 8, 0.3), Observer(0.5, False)),
        (planned("ring", 3, 9, 0.3, distance=2, position=2, step_size="constant"), Observer(0.5, True)),
    ):
        truth = truth_of(run, observer)
        mean = float(truth.probabilities @ truth.leakages)
        spread = math.sqrt(float(truth.probabilities @ (truth.leakages - mean) ** 2))
        drawn = simulated_leakages(run, observer, 4000, rng)
        assert abs(drawn.mean() - mean) <= 5.0 * spread / math.sqrt(4000)
        assert set(np.round(drawn, 9)) <= set(np.round(truth.leakages, 9))


def test_simulated_paths_never_leak_more_than_forecast_and_two_thirds_of_it_would_be_caught() -> None:
    """A false alarm has probability at most 8e-6 (the seeds are fixed, so it is one or none)."""
    bounds = simulated_bounds(paths=2500, error=1e-6)
    for certified, shown in bounds:
        assert shown <= certified
    caught = [certified / 1.5 < shown for certified, shown in bounds]
    assert sum(caught) >= 4


# ------------------------------------------------------ the walk: independent gaps leak more than the real ones

Vector = tuple[float, ...]


def share_of_update(number: int, noises: int) -> float:
    """The share of update `number` that is left after so many updates, its own included (step sizes 1/sqrt(c))."""
    return 1.0 / sum(number / (number + i) for i in range(noises))


def segment_charges(hops: int, kinds: _HopKinds, number: int) -> dict[int, dict[Vector, float]]:
    """By number of events: the joint law of the charges of all events of a segment (0 for a look)."""
    chances = {"U": kinds.target, "V": kinds.observer, "N": kinds.other}
    chances["-"] = 1.0 - sum(chances.values())
    law: dict[int, dict[Vector, float]] = defaultdict(lambda: defaultdict(float))
    for word in itertools.product(chances, repeat=hops):
        charges: list[float] = []
        relevant = "".join(word).replace("-", "")
        for index, letter in enumerate(relevant):
            if letter in "UV":
                after = relevant[index + 1 :]
                gap = len(after) - len(after.lstrip("N"))
                charges.append(share_of_update(number, 1 + gap) if letter == "U" else 0.0)
        law[len(charges)][tuple(charges)] += math.prod(chances[letter] for letter in word)
    return law


def independent_sum(marginals: list[dict[float, float]]) -> dict[float, float]:
    law = {0.0: 1.0}
    for marginal in marginals:
        longer: defaultdict[float, float] = defaultdict(float)
        for total, probability in law.items():
            for value, chance in marginal.items():
                longer[round(total + value, 12)] += probability * chance
        law = dict(longer)
    return law


CONVEX: list[Callable[[Floats], Floats]] = [
    *(lambda x, t=threshold: np.maximum(x - t, 0.0) for threshold in (0.0, 0.3, 0.7, 1.0, 1.4, 2.0, 2.6, 3.5)),
    *(lambda x, t=tilt: np.exp(t * x) for tilt in (0.1, 1.0, 3.0, 8.0)),
]
SEGMENTS = [
    (6, _HopKinds(0.2, 0.2, 0.5), 1),
    (6, _HopKinds(0.5, 0.05, 0.3), 3),
    (7, _HopKinds(0.1, 0.3, 0.6), 10),
    (5, _HopKinds(0.3, 0.3, 0.1), 1),
]


@pytest.mark.parametrize(("hops", "kinds", "number"), SEGMENTS)
def test_given_the_number_of_events_independent_gaps_leak_more(hops: int, kinds: _HopKinds, number: int) -> None:
    for events, joint in segment_charges(hops, kinds, number).items():
        mass = sum(joint.values())
        marginals: list[dict[float, float]] = [defaultdict(float) for _ in range(events)]
        for charges, probability in joint.items():
            for marginal, charge in zip(marginals, charges, strict=True):
                marginal[charge] += probability / mass
        apart = independent_sum(marginals)
        values, chances = np.array(list(apart)), np.array(list(apart.values()))
        real = np.array([sum(charges) for charges in joint])
        weights = np.array(list(joint.values())) / mass
        for convex in CONVEX:
            assert weights @ convex(real) <= float(chances @ convex(values)) * (1.0 + 1e-9) + 1e-12


@pytest.mark.parametrize(("hops", "kinds", "number"), SEGMENTS)
def test_a_segment_of_the_walk_leaks_at_most_what_its_law_says(hops: int, kinds: _HopKinds, number: int) -> None:
    cut = 1e-13
    values: list[float] = []
    chances: list[float] = []
    for gaps in _gap_laws(hops, kinds, cut):
        charge: defaultdict[float, float] = defaultdict(float)
        for others, probability in zip(gaps.others, gaps.probabilities, strict=True):
            charge[share_of_update(number, 1 + int(others))] += probability * kinds.target / kinds.event
        charge[0.0] += 1.0 - sum(charge.values())
        for index, probability in enumerate(gaps.counts):
            law = independent_sum([charge] * (gaps.fewest + index))
            values += law
            chances += [probability * chance for chance in law.values()]
    joint = [item for law in segment_charges(hops, kinds, number).values() for item in law.items()]
    real, weights = np.array([sum(charges) for charges, _ in joint]), np.array([chance for _, chance in joint])
    for convex in CONVEX:
        at_most = float(np.array(chances) @ convex(np.array(values)))
        assert weights @ convex(real) <= at_most * (1.0 + 1e-9) + cut * float(convex(np.array([hops]))[0])


@pytest.mark.parametrize(
    ("hops", "events", "kinds"),
    [(8, 3, SEGMENTS[0][1]), (9, 1, SEGMENTS[1][1]), (7, 6, SEGMENTS[2][1])],
)
def test_gaps_of_the_walk_are_stochastically_at_least_as_long_as_their_law(
    hops: int, events: int, kinds: _HopKinds
) -> None:
    """Place the events uniformly; each other hop is an N or nothing. Shorter gaps are the safe side."""
    chance = kinds.other / (1.0 - kinds.event)
    longer_than = np.zeros(hops + 1)
    places = list(itertools.combinations(range(hops), events))
    for place in places:
        length = (place[1] if events > 1 else hops) - place[0] - 1
        for k in range(hops + 1):
            at_least = sum(
                math.comb(length, i) * chance**i * (1.0 - chance) ** (length - i) for i in range(k, length + 1)
            )
            longer_than[k] += at_least / len(places)
    others, probabilities = _gap_law(hops, events, kinds)
    assert probabilities.sum() == pytest.approx(1.0, abs=1e-9)
    for k in range(hops + 1):
        assert probabilities[others >= k].sum() <= longer_than[k] + 1e-12
    mean = float(others @ probabilities)
    assert mean >= 0.7 * longer_than[1:].sum() - 0.05


def test_the_forecast_of_the_walk_uses_the_amplified_law() -> None:
    account = forecast(planned("random-walk", 50, 2000, 0.1))
    assert isinstance(account, Forecast)
    assert account.epsilon(1e-5) < 0.5 * forecast(account.run.replace(convex=False)).epsilon(1e-5)


@pytest.mark.parametrize("hops", [5, 60, 400])
def test_a_group_of_event_numbers_has_the_gaps_of_its_largest(hops: int) -> None:
    kinds = _HopKinds(0.1, 0.1, 0.7)
    covered = 0
    for gaps in _gap_laws(hops, kinds, 1e-12):
        assert gaps.fewest == covered
        covered += len(gaps.counts)
        if covered > 1:
            others, probabilities = _gap_law(hops, covered - 1, kinds)
            assert np.array_equal(gaps.others, others)
            assert np.array_equal(gaps.probabilities, probabilities)
    assert binom.sf(covered - 1, hops, kinds.event) <= 1e-12


@pytest.mark.parametrize("steps", [1, 7, 95, 3000, 100_000])
@pytest.mark.parametrize("step_size", ["sqrt", "constant"])
def test_segments_cover_the_walk_and_their_floors_hold(steps: int, step_size: StepSizeLaw) -> None:
    run = planned("random-walk", 10, steps, 0.3, step_size=step_size)
    kinds = _HopKinds(0.07, 0.1, 0.56)
    hop = 1
    for segment in _segments(run, kinds, 1e-9):
        # At least update - 1 updates of others than the observer before the first hop of the segments.
        assert binom.cdf(segment.update - 2, hop - 1, kinds.target + kinds.other) <= 1e-9 * (1.0 + 1e-6)
        hop += segment.hops * segment.repeats
    assert hop == steps + 1


@pytest.mark.parametrize("against", ["node", "skipped-node"])
def test_the_law_of_a_short_walk_has_the_mean_of_all_its_paths(against: str) -> None:
    """Each update alone, hidden by what follows up to the target's next update, the next look or the end."""
    run = planned("random-walk", 4, 8, 0.3, step_size="constant", against=against)
    observer = Observer(1.0, True) if against == "node" else Observer(0.7, False)
    ready = [0.7, math.nan, 0.7, 0.7]
    mean = 0.0
    for word, probability in word_law([hop_law(ready, observer)] * run.steps).items():
        for index, letter in enumerate(word):
            if letter == "U":
                after = word[index + 1 :]
                mean += probability / (1 + len(after) - len(after.lstrip("N")))
    certified = random_walk_leakage(run, 1e-12).mean
    assert mean * (1.0 - 1e-9) <= certified <= 1.1 * mean


def test_an_observer_that_never_takes_part_does_not_advance_the_update_number() -> None:
    """Next to nobody else is ever skipped, so that one path has nearly all of the probability."""
    skip, rounds = 1e-9, 40
    for nodes, path in ((3, "UNL"), (4, "UNNL")):
        run = planned("ring", nodes, nodes * rounds, skip, distance=nodes - 1, position=1, target_skip=skip)
        leakage = np.array([path_leakage(path * rounds, "sqrt")])
        certainly = (1.0 - skip) ** (nodes * rounds)
        for epsilon in (1.0, 3.0, 5.0):
            least = certainly * float(gaussian_delta(np.sqrt(leakage) * 2.0 / run.noise_multiplier, epsilon)[0])
            assert least <= forecast(run).delta(epsilon) <= 1.2 * least
