"""The rivals do what their algorithms say: against plain loops, exact laws of noise and graphs, and formulas."""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from plain_loops import dense, reference_federated, reference_gossip
from scipy import stats
from setups import changed, setup_of

from skipring.data import NodeData
from skipring.delays import Exponential, Gamma
from skipring.errors import InvalidInput
from skipring.learning import SQUARED, LinearModel, StepSizes, loss_named
from skipring.runs import Stragglers
from skipring.schedules import Federated, Gossip
from skipring.simulation.engine import run_many, run_one
from skipring.simulation.rivals import access_slots, best_access, gossip_graphs, random_graph
from skipring.simulation.rivals.graphs import acceleration, slots_until_heard
from skipring.simulation.rivals.runs import who_is_ready
from skipring.simulation.setup import RunOutput, Setup

#: How likely a statistical test of this file fails although all is well, each time it asks a question.
LEVEL = 1e-6


def setup(rival: str, loss: str = "logistic", nodes: int = 40, **changes: Any) -> Setup:
    """A small problem: nodes of 1 to 5 rows, 4 features; about half of the nodes are late."""
    rng = np.random.default_rng(3)
    start = np.append(0, np.cumsum(1 + np.arange(nodes) % 5))
    rows = int(start[-1])
    x = rng.standard_normal((rows + 60, 4))
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    scores = x @ rng.standard_normal(4)
    y = np.digitize(scores, [-0.5, 0.5]) if loss == "softmax" else (scores > 0.0).astype(np.int64)
    labels = scores.clip(-1.0, 1.0) if loss == "squared" else y
    # Gossip's noise is not bounded by a ball, if the loss allows it.
    diameter = 100.0 if loss == "squared" else math.inf
    values: dict[str, Any] = {
        "model": LinearModel(
            loss=loss_named(loss),
            features=4,
            diameter=diameter,
            classes=3 if loss == "softmax" else 2,
        ),
        "data": NodeData(features=x[:rows], labels=labels[:rows], start=start),
        "test_x": x[rows:],
        "test_y": labels[rows:].astype(np.float64),
        "schedule": Gossip(nodes=nodes, slots=10.0, rounds=2) if rival == "gossip" else Federated(nodes=nodes),
        "steps": 30,
        "delay": Gamma(0.25, 1.0),
        "timeout": 0.05,
        "hop_latency": 0.01,
        "step_sizes": StepSizes(0.7),
        "protects": "node",
        "noise_multiplier": 0.0,
        "seed": 7,
        "evaluate_every": 7,
    }
    return setup_of(**(values | changes))


def all_runs(case: Setup, runs: int) -> list[RunOutput]:
    return sorted(run_many(case, list(range(runs))), key=lambda run: run.number)


def links_of(graph: tuple[NDArray[Any], NDArray[Any]]) -> NDArray[np.bool_]:
    """A graph as a matrix of all pairs."""
    start, neighbours = graph
    links = np.zeros((len(start) - 1, len(start) - 1), dtype=np.bool_)
    for v in range(len(links)):
        links[v, neighbours[start[v] : start[v + 1]]] = True
    return links


# Without chance ------------------------------------------------------------------------------------------------------

VARIANTS: list[dict[str, Any]] = [
    {},
    {"step_sizes": StepSizes(0.7, "constant")},
    {"clip_noisy": 0.1},
    {"model": {"diameter": 0.5}},
    {"model": {"ridge": 0.3}},
    {"model": {"clip": 0.2}},
    {"model": {"ridge": 0.1, "diameter": 0.8, "clip": 0.4}, "clip_noisy": 0.3},
]


def varied(case: Setup, changes: dict[str, Any]) -> Setup:
    more = dict(changes)
    model = dataclasses.replace(case.model, **more.pop("model", {}))
    rival = dataclasses.replace(case.schedule, **more.pop("schedule", {}))
    return changed(case, model=model, schedule=rival, **more)


@pytest.mark.sample(8)
@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
@pytest.mark.parametrize(
    "changes",
    [
        *VARIANTS,
        {"schedule": {"rounds": 1}},
        {"schedule": {"rounds": 5}},
        {"schedule": {"rounds": 5, "acceleration": 1.6}},
        {"schedule": {"rounds": 2, "acceleration": 1.3}, "model": {"diameter": 0.5}},
        {"schedule": {"degree": 12.0}},
    ],
    ids=str,
)
def test_gossip_without_chance_follows_the_plain_loop(loss: str, changes: dict[str, Any]) -> None:
    """No noise, whole batches, and the graphs that accountants are given: run 3, and 32 of 40 nodes judged."""
    case = varied(setup("gossip", loss), changes)
    fast = run_one(case, 3)
    errors, models = reference_gossip(case, 3, (dense(*graph) for graph in gossip_graphs(case, 3)))
    assert fast.model == pytest.approx(models.mean(axis=0), abs=1e-6)
    assert fast.test_error == pytest.approx(errors, abs=1e-6)
    assert np.abs(models - models.mean(axis=0)).max() > 1e-3  # nodes differ, and so would their order or graph
    if isinstance(case.model, LinearModel) and case.model.diameter == 0.5:
        assert np.linalg.norm(models, axis=1).max() == pytest.approx(0.25)
    assert fast.updates.tolist() == [40 * t for t in (0, 7, 14, 21, 28, 30)]
    assert not fast.skips.any()


@pytest.mark.sample(7)
@pytest.mark.parametrize("loss", ["logistic", "softmax", "squared"])
@pytest.mark.parametrize(
    "changes",
    [
        *VARIANTS,
        {"timeout": math.inf},
        {"timeout": 1e-8},  # p = 0.99: hardly anyone, and at times nobody
        {"stragglers": Stragglers(speeds=[1.0 + v % 7 for v in range(40)], lost_link=0.3)},
    ],
    ids=str,
)
def test_federated_without_chance_follows_the_plain_loop(loss: str, changes: dict[str, Any]) -> None:
    """No noise, whole batches, and those ready that accountants are told of: run 3."""
    case = varied(setup("federated", loss), changes)
    fast, ready = run_one(case, 3), who_is_ready(case, 3)
    errors, model = reference_federated(case, 3, ready)
    assert fast.model == pytest.approx(model, abs=1e-6)
    assert fast.test_error == pytest.approx(errors, abs=1e-6)
    assert np.linalg.norm(model) > 0.01
    assert fast.skips.tolist() == (~ready).sum(axis=0).tolist()
    assert (fast.turns == 30).all()
    assert fast.updates.tolist() == [int(ready[:t].sum()) for t in (0, 7, 14, 21, 28, 30)]
    nobody = (~ready).all(axis=1)
    assert nobody.any() == (case.timeout == 1e-8)


@pytest.mark.parametrize("rival", ["gossip", "federated"])
def test_the_loss_is_the_mean_test_loss(rival: str) -> None:
    case = setup(rival)
    fast = run_one(case, 0)
    if rival == "gossip":
        _, models = reference_gossip(case, 0, map(links_of, gossip_graphs(case, 0)))
        judged = models[np.linspace(0, 39, 32).astype(int)]
    else:
        judged = reference_federated(case, 0, who_is_ready(case, 0))[1][None]
    margins = (2.0 * case.test_y - 1.0) * (judged @ case.test_x.T)
    assert fast.loss[-1] == pytest.approx(np.logaddexp(0.0, -margins).mean(), abs=1e-5)
    assert fast.loss[0] == pytest.approx(math.log(2.0), abs=1e-6)


@pytest.mark.parametrize("rival", ["gossip", "federated"])
def test_runs_and_seeds_differ(rival: str) -> None:
    models = {
        run_one(setup(rival, seed=seed, noise_multiplier=noise), number).model.tobytes()
        for seed in (7, 8)
        for noise in (0.0, 1.0)
        for number in range(3)
    }
    assert len(models) == 12


# With chance ---------------------------------------------------------------------------------------------------------


@pytest.mark.sample(3)
@pytest.mark.parametrize("rival", ["gossip", "federated"])
@pytest.mark.parametrize(
    ("loss", "more"),
    [("logistic", {"clip_noisy": 0.5}), ("softmax", {"batch": 2}), ("squared", {"batch": 2, "clip_noisy": 1.0})],
)
def test_with_chance_it_has_the_same_law_as_the_plain_loop(rival: str, loss: str, more: dict[str, Any]) -> None:
    """Noise, batches and clipping after the noise: means of final error and model agree to 5.5 standard errors.

    That is a false alarm of 4e-8 for each of up to 13 means; standard deviations of 400 and 120 runs agree to a third,
    over 5 of their standard errors, where the values are nearly normal (models).
    """
    case = setup(rival, loss, nodes=8, noise_multiplier=0.5, steps=10, evaluate_every=10)
    x, y = np.tile(case.data.features, (2, 1))[:40], np.tile(case.data.labels, 2)[:40]
    data = NodeData(features=x, labels=y, start=np.arange(0, 41, 5))
    case = varied(case, {"model": {"clip": 0.6}, "data": data, **more})
    fast = all_runs(case, 400)
    found = []
    for number in range(120):
        if rival == "gossip":
            errors, models = reference_gossip(case, number, map(links_of, gossip_graphs(case, number)))
            found.append((errors[-1], models.mean(axis=0)))
        else:
            errors, model = reference_federated(case, number, who_is_ready(case, number))
            found.append((errors[-1], model))
    quick = np.array([[run.test_error[-1], *run.model] for run in fast])
    slow = np.array([[error, *model] for error, model in found])
    spread = np.sqrt(quick.var(axis=0) / len(quick) + slow.var(axis=0) / len(slow))
    assert (np.abs(quick.mean(axis=0) - slow.mean(axis=0)) <= 5.5 * spread).all()
    ratio = quick[:, 1:].std(axis=0) / slow[:, 1:].std(axis=0)
    assert ((ratio > 0.7) & (ratio < 1.4)).all()


def only_noise(rival: str, **changes: Any) -> Setup:
    """Rows of zeros, whose gradient is 0 everywhere: only noise moves a model. The error is its mean square."""
    values: dict[str, Any] = {
        "model": LinearModel(loss=SQUARED, features=3, diameter=1e6, clip=2.0),
        "data": NodeData(features=np.zeros((20, 3)), labels=np.zeros(20), start=np.arange(21)),
        "test_x": np.eye(3),
        "test_y": np.zeros(3),
        "steps": 4,
        "evaluate_every": 1,
        "step_sizes": StepSizes(0.5, "own", [0.5, 0.2, 0.4, 0.3]),
        "noise_multiplier": 1.5,
    }
    return setup(rival, nodes=20, **(values | changes))


#: Noise multiplier times gradient bound, and the squares of the four step sizes.
STD = 1.5 * 2.0
SQUARES = np.array([0.5, 0.2, 0.4, 0.3]) ** 2


def is_standard_normal(values: NDArray[Any]) -> None:
    """Both the variance (chi-square) and the shape (Kolmogorov and Smirnov) at LEVEL."""
    tail = stats.chi2.cdf((values**2).sum(), values.size)
    assert LEVEL / 2 < tail < 1.0 - LEVEL / 2
    assert stats.kstest(values.ravel(), "norm").pvalue > LEVEL


@pytest.mark.parametrize("more", [{}, {"rounds": 7}, {"rounds": 3, "acceleration": 1.5}], ids=str)
def test_the_noise_of_gossip(more: dict[str, Any]) -> None:
    """The mean of all models is a sum of normal numbers whose variances are known, whatever the graphs."""
    case = varied(only_noise("gossip"), {"schedule": more})
    models = np.array([run.model for run in all_runs(case, 500)])
    is_standard_normal(models / (STD * math.sqrt(SQUARES.sum() / 20)))


def test_every_node_of_gossip_has_noise_of_its_own() -> None:
    """Without links a model is what its own noise made of it: chi-square over nodes, after each iteration."""
    case = only_noise("gossip", schedule=Gossip(nodes=20, slots=1.0, degree=1e-9))
    runs = all_runs(case, 200)
    for t in range(1, 5):
        # The error is a mean over 20 nodes and 3 parameters.
        squares = np.array([60.0 * run.test_error[t] for run in runs]) / (STD**2 * SQUARES[:t].sum())
        assert LEVEL < stats.chi2.cdf(squares.sum(), 60 * 200) < 1.0 - LEVEL
        assert stats.kstest(squares, stats.chi2(60).cdf).pvalue > LEVEL


def test_the_noise_of_the_server_is_that_of_all_uploads() -> None:
    """One draw stands for the noise of all who are ready: given their number, the law is the same."""
    case = only_noise("federated")
    scaled = []
    for run in all_runs(case, 500):
        present = who_is_ready(case, run.number).sum(axis=1)
        assert present.min() > 0
        scaled.append(run.model / (STD * math.sqrt((SQUARES / present).sum())))
    is_standard_normal(np.array(scaled))


@pytest.mark.parametrize("noise", [0.5, 1e3])
def test_what_is_clipped_after_the_noise_is_no_longer_than_asked(noise: float) -> None:
    """Noise of 1e3 is always clipped: without links, each model is then exactly one clipped gradient long."""
    lonely = Gossip(nodes=20, slots=1.0, degree=1e-9)
    case = only_noise("gossip", schedule=lonely, clip_noisy=0.25, noise_multiplier=noise, steps=1)
    squares = np.array([3.0 * run.test_error[-1] for run in all_runs(case, 30)])  # the mean over nodes of |w|^2
    longest = (0.5 * 0.25) ** 2
    assert (squares <= longest * (1 + 1e-6)).all()
    if noise == 1e3:
        assert squares == pytest.approx(longest, rel=1e-6)
    # Uploads are clipped one by one: directions are independent, and the mean of n of them is 1 / sqrt(n) as long.
    case = changed(case, schedule=Federated(nodes=20), timeout=math.inf)
    lengths = np.array([np.sum(run.model**2) for run in all_runs(case, 600)]) * 20 / longest
    if noise == 1e3:
        assert abs(lengths.mean() - 1.0) < 5.5 * lengths.std() / math.sqrt(600)
    else:
        assert lengths.mean() < 1.1


# Graphs --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "probability"), [(2, 0.5), (3, 0.9), (40, 0.1), (41, 0.97), (300, 0.02), (1000, 7e-3)]
)
def test_graphs_are_sorted_symmetric_and_without_loops(nodes: int, probability: float) -> None:
    rng = np.random.default_rng(0)
    for _ in range(20):
        start, neighbours = random_graph(rng, nodes, probability)
        assert (start[0], start[-1], len(start)) == (0, len(neighbours), nodes + 1)
        links = links_of((start, neighbours))
        assert links.sum() == len(neighbours)  # nobody twice
        assert (links == links.T).all()
        assert not links.diagonal().any()
        for v in range(nodes):
            row = neighbours[start[v] : start[v + 1]]
            assert (row[1:] > row[:-1]).all()


@pytest.mark.parametrize(("nodes", "probability"), [(12, 0.3), (40, 0.09), (25, 0.85)])
def test_any_two_nodes_are_neighbours_with_the_same_probability(nodes: int, probability: float) -> None:
    """Number of links (binomial), its variance, and each pair's frequency (chi-square), all at LEVEL."""
    rng, graphs = np.random.default_rng(1), 4000
    counts, pairs = [], np.zeros((nodes, nodes))
    for _ in range(graphs):
        graph = random_graph(rng, nodes, probability)
        counts.append(len(graph[1]) // 2)
        pairs[np.repeat(np.arange(nodes), np.diff(graph[0])), graph[1]] += 1.0
    possible = nodes * (nodes - 1) // 2
    assert stats.binomtest(sum(counts), graphs * possible, probability).pvalue > LEVEL
    # Counts are near enough to normal that their sample variance has the law of a chi-square.
    variance = np.var(counts, ddof=1) / (possible * probability * (1.0 - probability))
    assert LEVEL < stats.chi2.cdf((graphs - 1) * variance, graphs - 1) < 1.0 - LEVEL
    each = pairs[np.triu_indices(nodes, 1)]
    score = ((each - graphs * probability) ** 2).sum() / (graphs * probability * (1.0 - probability))
    assert LEVEL < stats.chi2.cdf(score, possible) < 1.0 - LEVEL


@pytest.mark.parametrize("node", [0, 17, 39])
def test_degrees_are_binomial(node: int) -> None:
    """Chi-square at LEVEL, degrees with fewer than 10 expected graphs put together."""
    rng, graphs = np.random.default_rng(2), 5000
    degrees = [int(np.diff(random_graph(rng, 40, 0.1)[0])[node]) for _ in range(graphs)]
    expected = graphs * stats.binom.pmf(np.arange(10), 39, 0.1)
    observed = np.bincount(degrees, minlength=40)
    observed = np.append(observed[:9], observed[9:].sum())
    expected[9] = graphs - expected[:9].sum()
    assert expected.min() > 10
    assert stats.chisquare(observed, expected).pvalue > LEVEL


def test_graphs_at_the_ends() -> None:
    rng = np.random.default_rng(0)
    assert (links_of(random_graph(rng, 7, 1.0)) == ~np.eye(7, dtype=bool)).all()
    for probability in (0.0, 1e-300, 1e-12):
        start, neighbours = random_graph(rng, 100, probability)
        assert not start.any()
        assert not len(neighbours)
    assert sum(len(random_graph(rng, 100, 1e-4)[1]) // 2 for _ in range(1000)) == pytest.approx(495, abs=5.0 * 22.3)


def test_a_graph_with_far_more_links_than_expected_is_drawn_all_the_same() -> None:
    """A generator that always says 0 makes everyone neighbours, whatever the probability."""
    bits = np.random.MT19937()
    state = bits.state
    assert isinstance(state["state"], dict)
    state["state"]["key"][:] = 0
    bits.state = state
    graph = random_graph(np.random.Generator(bits), 60, 0.01)
    assert (links_of(graph) == ~np.eye(60, dtype=bool)).all()


def test_graphs_belong_to_seed_and_run() -> None:
    def drawn(seed: int, number: int, steps: int = 5) -> list[bytes]:
        return [graph[1].tobytes() for graph in gossip_graphs(setup("gossip", seed=seed, steps=steps), number)]

    assert drawn(7, 0) == drawn(7, 0)
    assert drawn(7, 0) == drawn(7, 0, steps=9)[:5]
    assert len({*drawn(7, 0), *drawn(7, 1), *drawn(8, 0)}) == 15


def test_late_nodes_cost_links() -> None:
    """Mean degree (1 - p) ln n, at LEVEL: p = 0.478 here, and 0 without a timeout."""
    for timeout, ready in ((0.05, float(Gamma(0.25, 1.0).cdf(0.05))), (math.inf, 1.0)):
        links = sum(len(graph[1]) // 2 for graph in gossip_graphs(setup("gossip", timeout=timeout, steps=300), 0))
        assert stats.binomtest(links, 300 * 780, ready * math.log(40) / 39).pvalue > LEVEL


# Averaging -----------------------------------------------------------------------------------------------------------


def one_step(rival: Gossip, seed: int = 1, **changes: Any) -> tuple[Setup, NDArray[np.float64]]:
    """A step that gives node v the number a_v as its model, mean 0; the error is then the mean of their squares."""
    nodes = rival.nodes
    a = np.random.default_rng(nodes).uniform(-0.5, 0.5, nodes)
    a -= a.mean()
    values: dict[str, Any] = {
        "model": LinearModel(loss=SQUARED, features=1, diameter=1e3),
        "data": NodeData(features=np.ones((nodes, 1)), labels=a, start=np.arange(nodes + 1)),
        "test_x": np.ones((1, 1)),
        "test_y": np.zeros(1),
        "steps": 1,
        "evaluate_every": 1,
        "step_sizes": StepSizes(1.0, "constant"),
        "timeout": math.inf,
        "seed": seed,
    }
    return setup("gossip", nodes=nodes, schedule=rival, **(values | changes)), a


def max_degree_weights(links: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Each link has the weight 1 / (1 + largest degree); what is left of 1 stays."""
    weight = 1.0 / (1.0 + max(int(row.sum()) for row in links))
    weights = np.where(links, weight, 0.0)
    for v in range(len(links)):
        weights[v, v] = 1.0 - weight * int(links[v].sum())
    return weights


@pytest.mark.parametrize("weight", [1.0, 1.4, 1.9])
@pytest.mark.parametrize("rounds", [1, 2, 3, 8])
@pytest.mark.parametrize("degree", [0.5, 3.0, 29.0])
def test_averaging_is_what_the_spectrum_says(rounds: int, weight: float, degree: float) -> None:
    """x_1 = W x_0 and x_(k+1) = c W x_k + (1 - c) x_(k-1), solved in closed form for each eigenvalue of W."""
    rival = Gossip(nodes=30, slots=1.0, rounds=rounds, degree=degree, acceleration=weight)
    case, a = one_step(rival)
    weights = max_degree_weights(links_of(next(gossip_graphs(case, 0))))
    assert weights.min() >= 0.0
    assert weights.sum(axis=1) == pytest.approx(1.0)
    eigenvalues, vectors = np.linalg.eigh(weights)
    roots = [np.roots([1.0, -weight * m, weight - 1.0]).astype(complex) for m in eigenvalues]
    factors = []
    for m, (r, s) in zip(eigenvalues, roots, strict=True):
        if abs(r - s) < 1e-9:  # a double root
            factors.append(((1.0 - rounds) * r**rounds + rounds * m * r ** (rounds - 1)).real)
        else:
            factors.append(((m - s) / (r - s) * r**rounds - (m - r) / (r - s) * s**rounds).real)
    final = vectors @ (np.array(factors) * (vectors.T @ a))
    run = run_one(case, 0)
    assert run.test_error[-1] == pytest.approx(np.mean(final**2), rel=1e-5, abs=1e-13)
    assert run.model == pytest.approx(0.0, abs=1e-13)  # averaging keeps the mean


def test_averaging_keeps_the_mean_that_is_not_0() -> None:
    for degree in (0.1, 2.0, 19.0):
        rival = Gossip(nodes=20, slots=1.0, rounds=4, degree=degree, acceleration=1.3)
        case, a = one_step(rival)
        moved = changed(case, data=dataclasses.replace(case.data, labels=a + 0.25))
        assert run_one(moved, 0).model == pytest.approx(0.25, abs=1e-12)


def test_everyone_agrees_at_once_where_all_are_neighbours_and_in_the_end_elsewhere() -> None:
    case, a = one_step(Gossip(nodes=20, slots=1.0, rounds=1, degree=19.0))
    assert run_one(case, 0).test_error[-1] < 1e-12
    case, a = one_step(Gossip(nodes=20, slots=1.0, rounds=400, degree=8.0))
    assert run_one(case, 0).test_error[-1] < 1e-9 * np.mean(a**2)


def test_acceleration_makes_many_rounds_quicker() -> None:
    """Spread after 20 rounds, over 20 graphs that are nearly always in one piece; for few rounds it gains nothing."""
    squares = {}
    linked = 8.0 / 29
    weight = acceleration(30, linked, np.random.default_rng(0))
    for rounds in (2, 20):
        for used in (1.0, weight):
            rival = Gossip(nodes=30, slots=1.0, rounds=rounds, degree=8.0, acceleration=used)
            errors = [run_one(one_step(rival, seed=seed)[0], 0).test_error[-1] for seed in range(20)]
            squares[rounds, used == 1.0] = float(np.median(errors))
    assert squares[20, False] < 0.05 * squares[20, True]
    assert squares[2, False] > 0.5 * squares[2, True]


def test_the_weight_of_acceleration_follows_from_the_spectral_gap() -> None:
    """The best weight 2 / (1 + sqrt(1 - r^2)) of an iteration with spectral radius r = 1 - gap / 2."""
    nodes, linked, seed = 40, 0.06, 5  # links so few that some nodes have none
    rng = np.random.default_rng(seed)
    gaps, lonely = [], 0
    for _ in range(3):
        links = links_of(random_graph(rng, nodes, linked))
        reached = np.linalg.matrix_power(links.astype(float) + np.eye(nodes), nodes) > 0
        largest = reached[int(np.argmax(reached.sum(axis=1)))]
        lonely += int((~largest).sum())
        gaps.append(1.0 - np.linalg.eigvalsh(max_degree_weights(links[largest][:, largest]))[-2])
    assert lonely > 0
    radius = 1.0 - np.mean(gaps) / 2.0
    assert acceleration(nodes, linked, np.random.default_rng(seed)) == pytest.approx(
        2.0 / (1.0 + math.sqrt(1.0 - radius**2)), rel=1e-9
    )
    # Where all are neighbours, one round is enough: the gap is 1.
    assert acceleration(10, 1.0, rng) == pytest.approx(2.0 / (1.0 + math.sqrt(0.75)), rel=1e-9)
    with pytest.raises(InvalidInput, match="hardly any links"):
        acceleration(10, 1e-9, rng)


# Random access -------------------------------------------------------------------------------------------------------


def slow_slots(links: NDArray[np.bool_], q: float, rng: np.random.Generator) -> int:
    """Slots until all have heard all neighbours: u hears v iff v speaks, u is silent and no other neighbour speaks."""
    nodes = len(links)
    left = {(u, v) for u in range(nodes) for v in range(nodes) if links[u, v]}
    slots = 0
    while left:
        speaks = rng.random(nodes) < q
        for u, v in list(left):
            others = any(speaks[w] for w in range(nodes) if links[u, w] and w != v)
            if speaks[v] and not speaks[u] and not others:
                left.remove((u, v))
        slots += 1
    return slots


def even_graph(rng: np.random.Generator, nodes: int, degree: float) -> tuple[NDArray[np.int64], NDArray[np.int32]]:
    """A graph whose nodes all have this degree, up to rounding and a few links that met a node or a link twice."""
    low = int(degree)
    degrees = low + (rng.random(nodes) < degree - low)
    ends = rng.permutation(np.repeat(np.arange(nodes, dtype=np.int64), degrees))
    pairs = ends[: len(ends) // 2 * 2].reshape(-1, 2)
    pairs = pairs[pairs[:, 0] != pairs[:, 1]]
    both = np.unique(np.concatenate([pairs @ [nodes, 1], pairs @ [1, nodes]]))
    start = np.searchsorted(both, np.arange(nodes + 1, dtype=np.int64) * nodes)
    return start.astype(np.int64), (both % nodes).astype(np.int32)


def counted_slots(
    nodes: int, degree: float, q: float, rng: np.random.Generator, graphs: int, *, even: bool
) -> NDArray[Any]:
    if not even:
        return access_slots(nodes, degree, q, rng, graphs=graphs)
    return np.array([slots_until_heard(rng, *even_graph(rng, nodes, degree), q) for _ in range(graphs)])


@pytest.mark.parametrize("even", [False, True])
@pytest.mark.parametrize(("nodes", "degree", "q"), [(2, 1.0, 0.5), (12, 3.5, 0.2), (15, 14.0, 0.08), (20, 0.3, 0.4)])
def test_slots_are_those_of_the_rule(nodes: int, degree: float, q: float, even: bool) -> None:
    """The same random numbers, slot by slot."""
    found = counted_slots(nodes, degree, q, np.random.default_rng(4), 6, even=even)
    rng = np.random.default_rng(4)
    expected = []
    for _ in range(6):
        graph = even_graph(rng, nodes, degree) if even else random_graph(rng, nodes, degree / (nodes - 1))
        expected.append(slow_slots(links_of(graph), q, rng))
    assert found.tolist() == expected
    assert max(expected) > 0


def test_the_papers_number_of_slots() -> None:
    """About 175 slots (1000 nodes, degree ln 1000, q = 0.15) on even graphs; random graphs take more than twice that.

    The mean on even graphs is 190.4 (1000 graphs, 95 % interval 1.6 to either side), the paper's number lies between
    those of degrees 6 and 7. All comparisons at 1e-6: 4.9 standard errors of the means of 100 graphs.
    """
    rng = np.random.default_rng(5)

    def between(degree: float, *, even: bool) -> tuple[float, float]:
        slots = counted_slots(1000, degree, 0.15, rng, 100, even=even)
        return float(slots.mean() - 0.49 * slots.std()), float(slots.mean() + 0.49 * slots.std())

    low, high = between(math.log(1000), even=True)
    assert low < 190.4 < high
    assert 0.9 * 175 < 0.5 * (low + high) < 1.1 * 175
    assert between(6.0, even=True)[1] < 175 < between(7.0, even=True)[0]
    assert between(math.log(1000), even=False)[0] > 2.0 * 175


def test_even_graphs_are_even() -> None:
    links = links_of(even_graph(np.random.default_rng(0), 1000, 6.9))
    degrees = links.sum(axis=1)
    assert (links == links.T).all()
    assert not links.diagonal().any()
    assert degrees.max() <= 7
    assert degrees.mean() == pytest.approx(6.9, abs=0.1)  # less a few links that met twice
    assert (degrees >= 6).mean() > 0.95


@pytest.mark.parametrize(("nodes", "degree"), [(150, math.log(150)), (60, 20.0), (300, 1.0)])
def test_the_best_access_is_near_the_best_of_a_fine_grid(nodes: int, degree: float) -> None:
    """Within 10 % of the best of 8 probabilities, and its mean within 10 % of that of fresh graphs.

    Slots of a graph vary by a quarter of their mean: means of 150 graphs are within 10 % of the truth (5 errors).
    """
    rng = np.random.default_rng(6)
    q, mean = best_access(nodes, degree, rng)
    fresh = access_slots(nodes, degree, q, rng, graphs=150).mean()
    grid = np.geomspace(0.25, 1.2, 8) / (degree + 1.0)
    means = [access_slots(nodes, degree, float(other), rng, graphs=150).mean() for other in grid]
    assert fresh < 1.1 * min(means)
    assert mean == pytest.approx(fresh, rel=0.1)
    assert max(means) > 1.25 * min(means)  # the grid is wide enough to find a bad choice out


def test_access_that_cannot_work_is_refused() -> None:
    rng = np.random.default_rng(0)
    for q in (0.0, 1.0, -0.1, 1.1, math.nan):
        with pytest.raises(InvalidInput, match="access"):
            access_slots(20, 3.0, q, rng)
    with pytest.raises(InvalidInput, match="nearly always"):  # would take 1e13 slots
        access_slots(1000, math.log(1000), 0.9, rng)
    assert access_slots(20, 0.0, 0.5, rng).tolist() == [0] * 10


# Latency -------------------------------------------------------------------------------------------------------------


def slowest_of(count: int, timeout: float) -> float:
    """E[min(timeout, largest of some exponential delays)]: the integral of 1 - (1 - e^-t)^count up to the timeout."""
    return float(sum((1.0 - math.exp(-timeout)) ** i / i for i in range(1, count + 1)))


@pytest.mark.parametrize("in_time", [0.3, 0.8, 1.0])
@pytest.mark.parametrize(
    ("rival", "count", "constant"),
    [
        (Gossip(nodes=40, slots=12.5, rounds=3), 4, 3 * 12.5 * 2.0),  # ln 40 = 3.69
        (Gossip(nodes=40, slots=0.0), 4, 0.0),
        (Gossip(nodes=40, slots=10.0, rounds=1, degree=11.4), 11, 10.0 * 2.0),
        (Gossip(nodes=40, slots=10.0, rounds=1, degree=0.2), 1, 10.0 * 2.0),
        (Federated(nodes=40), 40, 1.4 * 2.0),
        (Federated(nodes=40, channels=8), 40, 6.0 * 2.0),
    ],
    ids=str,
)
def test_an_iteration_takes_as_long_as_the_formulas_say(
    rival: Gossip | Federated, count: int, constant: float, in_time: float
) -> None:
    """Mean of 2400 iterations within 5 standard errors (a false alarm of 6e-7); `in_time`: P(nobody is late)."""
    delay, timeout = Exponential(1.0), -math.log1p(-(in_time ** (1.0 / count))) if in_time < 1.0 else math.inf
    case = setup("gossip", schedule=rival, delay=delay, timeout=timeout, hop_latency=2.0, steps=300, evaluate_every=1)
    times = np.concatenate([np.diff(run.latency) for run in all_runs(case, 8)])
    assert len(times) == 2400
    assert times.max() <= timeout + constant + 1e-9
    assert abs(times.mean() - constant - slowest_of(count, timeout)) <= 5.0 * times.std() / math.sqrt(2400) + 1e-9
    assert times.min() > constant


@pytest.mark.parametrize(
    ("values", "parameter"),
    [
        ({"nodes": 1}, "nodes"),
        ({"rounds": 0}, "rounds"),
        ({"rounds": 1.5}, "rounds"),
        ({"slots": -1.0}, "slots"),
        ({"slots": math.inf}, "slots"),
        ({"degree": 0.0}, "degree"),
        ({"degree": 10.0}, "degree"),
        ({"acceleration": 0.9}, "acceleration"),
        ({"acceleration": 2.0}, "acceleration"),
    ],
)
def test_impossible_gossip_is_refused(values: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        Gossip(**({"nodes": 10, "slots": 1.0} | values))
    assert refused.value.parameter == parameter


@pytest.mark.parametrize(
    ("rival", "changes", "parameter"),
    [
        ("federated", {"patient_every": 2}, "patient_every"),
        ("gossip", {"stragglers": Stragglers(lost_link=0.1)}, "stragglers"),
        ("gossip", {"schedule": Gossip(nodes=39, slots=1.0)}, "nodes"),
        ("federated", {"batch": 2}, "batch"),
    ],
)
def test_impossible_setups_are_refused(rival: str, changes: dict[str, Any], parameter: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        setup(rival, **changes)
    assert refused.value.parameter == parameter
