"""Curves of simulations: latencies under other laws of delays, means and deviations, epsilon, and what is beyond."""

from __future__ import annotations

import csv
import itertools
import math
import statistics
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from skipring.delays import Delay, Exponential, Gamma, Lomax
from skipring.errors import InvalidInput
from skipring.experiments import Sweep, SweepOutcome, parse_sweep, run_sweep
from skipring.experiments.beyond import best_by_nodes, by_alpha, straggler_names
from skipring.experiments.curves import EmpiricalCurve, draw_latencies, law_curves, paper_sweep, sweep_curves
from skipring.experiments.rivals import proven_epsilon, published_epsilon
from skipring.experiments.theory import LAWS
from skipring.privacy import PrivacyReport, forecast, gdp_delta, gdp_epsilon, nothing_promised, planned_run
from skipring.privacy.gossip import GossipRun, gossip_mu, muffliato_epsilon
from skipring.privacy.paper import stated_epsilon
from skipring.report.curves import write_empirical_csv
from skipring.runs import parse_run
from skipring.simulation import ResolvedFacts, Result, build, simulate
from skipring.simulation.rivals import gossip_graphs
from skipring.simulation.rivals.privacy import chosen_pairs
from skipring.timeouts import expected_latency, timeout_for_skip

# Statistical tests use fixed seeds. They allow five standard errors, or p-values down to 1e-6: with other seeds, a
# correct program would fail a check about once in a million times.
ERRORS = 5.0
SMALLEST_P = 1e-6

TOKEN: dict[str, Any] = {
    "data": {"nodes": 20},
    "schedule": {"name": "random-ring", "steps": 120},
    "delay": {"law": "exponential:1"},
    "privacy": {"noise_multiplier": 2.0, "delta": 1e-6},
    "simulation": {"runs": 4, "evaluate_every": 40, "record_path": False},
}


def changed(values: Mapping[str, Mapping[str, Any]], **sections: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The values of a run file with some keys changed, section by section."""
    copy = {name: dict(section) for name, section in values.items()}
    for name, section in sections.items():
        copy.setdefault(name, {}).update(section)
    return copy


def recorded(points: list[int], updates: list[list[int]], skip: float, **sections: Mapping[str, Any]) -> Result:
    """A result of which only the numbers of hops and updates matter."""
    run = parse_run(changed(TOKEN, **{"delay": {"skip": skip}, **sections}))
    counts = np.array(updates)
    nothing = np.zeros(counts.shape)
    return Result(
        settings=run.model_dump(mode="json"),
        resolved=ResolvedFacts(
            nodes=20,
            steps=points[-1],
            timeout=1.0,
            noise_multiplier=2.0,
            gradient_bound=1.0,
            smoothness=0.25,
            model="logistic",
            parameters=2,
            noise_std=0.1,
            rows=100,
            test_rows=20,
            columns=2,
        ),
        points=np.array(points),
        test_error=nothing,
        loss=nothing,
        latency=nothing,
        updates=counts,
        models=np.zeros((len(counts), 0)),
        offered=np.ones(20, dtype=np.int64),
        skipped=np.zeros(20, dtype=np.int64),
        privacy=PrivacyReport(delta=1e-6, promised=nothing_promised("node", 1e-6, "nobody asked")),
    )


# --- Latencies under another law


@pytest.mark.parametrize("skip", [1e-4, 0.5, 0.7])
@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_a_hop_that_is_an_update_takes_a_delay_within_the_timeout(law: Delay, skip: float) -> None:
    hops = 20_000
    result = recorded(list(range(hops + 1)), [list(range(hops + 1))], skip)
    waits = np.diff(draw_latencies(result, law, np.random.default_rng(1))[0]) - 0.01
    timeout = timeout_for_skip(law, skip)
    assert waits.max() <= timeout * (1 + 1e-9)
    within = law.cdf(timeout)
    assert stats.kstest(waits, lambda t: law.cdf(np.clip(t, 0.0, timeout)) / within).pvalue > SMALLEST_P
    # Neighbouring hops have nothing to do with each other; ranks, because some of these laws have heavy tails.
    assert abs(stats.spearmanr(waits[1:], waits[:-1])[0]) < ERRORS / math.sqrt(hops)


@pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)
def test_skips_take_the_timeout_whatever_intervals_are_empty(law: Delay) -> None:
    skip, hop = 0.5, 0.25
    rng = np.random.default_rng(2)
    hops = rng.integers(1, 6, 300)
    # Every third interval has skips only, among them the first and the last, and there are several in a row.
    gained = rng.binomial(hops, 0.5) * (np.arange(300) % 3 != 0)
    gained[[-1, -2, 100, 101, 102]] = 0
    assert (gained == 0).sum() > 100
    points, updates = np.append(0, np.cumsum(hops)), np.append(0, np.cumsum(gained))
    result = recorded(points.tolist(), [updates.tolist()] * 2, skip, delay={"skip": skip, "hop_latency": hop})
    drawn = draw_latencies(result, law, rng)
    assert (drawn[:, 0] == 0.0).all()
    timeout = timeout_for_skip(law, skip)
    for latency in drawn:
        gaps = np.diff(latency)
        certain = (hops - gained) * timeout + hops * hop
        assert gaps[gained == 0] == pytest.approx(certain[gained == 0], rel=1e-12)
        spent = (gaps - certain)[gained > 0]
        assert spent.min() > -1e-9
        assert (spent < gained[gained > 0] * timeout).all()
        # As many delays as updates were added up: the mean is that of delays within the timeout.
        expected = (law.truncated_mean(timeout) - skip * timeout) / (1.0 - skip)
        deviation = math.sqrt(_second_moment(law, timeout, skip) - expected**2)
        assert abs(spent.sum() - expected * gained.sum()) < ERRORS * deviation * math.sqrt(gained.sum())
    assert not np.array_equal(drawn[0], drawn[1])


def _second_moment(law: Delay, timeout: float, skip: float) -> float:
    """The mean square of a delay that is within the timeout, by quadrature."""
    whole = integrate.quad(lambda t: 2.0 * t * law.survival(float(t)), 0.0, timeout, epsabs=1e-12)[0]
    return float(whole - skip * timeout**2) / (1.0 - skip)


def test_a_run_without_an_update_takes_nothing_but_timeouts() -> None:
    result = recorded([0, 10, 25], [[0, 0, 0]], 0.7)
    timeout = timeout_for_skip(Lomax(3.0, 2.0), 0.7)
    latency = draw_latencies(result, Lomax(3.0, 2.0), np.random.default_rng(1))
    assert latency[0] == pytest.approx([0.0, 10 * (timeout + 0.01), 25 * (timeout + 0.01)], rel=1e-12)


def test_where_nobody_is_skipped_the_timeout_may_be_infinite() -> None:
    hops = 10_000
    result = recorded([0, hops], [[0, hops]], 0.0)
    latency = draw_latencies(result, Exponential(2.0), np.random.default_rng(1))[0, 1]
    assert abs(latency - 2.01 * hops) < ERRORS * 2.0 * math.sqrt(hops)


RUNS = 1000


@pytest.fixture(scope="module")
def by_exponential() -> dict[float, Result]:
    """Many short runs with exponential delays, for two skip probabilities."""
    return {skip: _many_runs("exponential:1", skip, 1) for skip in (0.5, 0.7)}


def _many_runs(law: str, skip: float, seed: int) -> Result:
    simulation = {"runs": RUNS, "seed": seed}
    return simulate(changed(TOKEN, delay={"law": law, "skip": skip}, simulation=simulation), threads=1)


@pytest.mark.sample(2)
@pytest.mark.parametrize("skip", [0.5, 0.7])
@pytest.mark.parametrize(("spelled", "law"), [("gamma:0.25,1", Gamma(0.25, 1.0)), ("lomax:3,2", Lomax(3.0, 2.0))])
def test_drawn_latencies_are_distributed_as_simulated_ones(
    by_exponential: dict[float, Result], spelled: str, law: Delay, skip: float
) -> None:
    source = by_exponential[skip]
    drawn = draw_latencies(source, law, np.random.default_rng(3))
    real = _many_runs(spelled, skip, seed=2)
    timeout = timeout_for_skip(law, skip)
    square = integrate.quad(lambda t: 2.0 * t * law.survival(float(t)), 0.0, timeout, epsabs=1e-12)[0]
    variance = square - law.truncated_mean(timeout) ** 2  # of one hop
    assert drawn.shape == real.latency.shape
    for place, steps in enumerate(real.points[1:].tolist(), start=1):
        expected = expected_latency(law, timeout, 0.01, steps)
        for latency in (drawn[:, place], real.latency[:, place]):
            assert abs(latency.mean() - expected) < ERRORS * math.sqrt(steps * variance / RUNS)  # Lemma 1
            # The square of a normal number has a variance of 2, and these sums are close to normal.
            assert abs(latency.var(ddof=1) / (steps * variance) - 1.0) < ERRORS * math.sqrt(2.0 / RUNS)
        assert stats.ks_2samp(drawn[:, place], real.latency[:, place]).pvalue > SMALLEST_P
        # Latency goes with the number of updates as it does in a simulation (Fisher's transformation).
        ours = np.corrcoef(drawn[:, place], source.updates[:, place])[0, 1]
        theirs = np.corrcoef(real.latency[:, place], real.updates[:, place])[0, 1]
        assert theirs < -0.5
        assert abs(math.atanh(ours) - math.atanh(theirs)) < ERRORS * math.sqrt(2.0 / (RUNS - 3))
    # What comes later does not depend on what was before.
    later = np.corrcoef(drawn[:, 1], drawn[:, 2] - drawn[:, 1])[0, 1]
    assert abs(later) < ERRORS / math.sqrt(RUNS)


def test_latencies_grow_with_steps_and_a_seed_gives_the_same_again(by_exponential: dict[float, Result]) -> None:
    first, same, other = (
        draw_latencies(by_exponential[0.5], Gamma(0.25, 1.0), np.random.default_rng(seed)) for seed in (1, 1, 2)
    )
    assert (np.diff(first, axis=1) > 0.0).all()
    assert np.array_equal(first, same)
    assert (first[:, 1:] != other[:, 1:]).all()


@pytest.mark.parametrize(
    "sections",
    [
        {"schedule": {"name": "gossip"}},
        {"schedule": {"name": "federated"}},
        {"delay": {"skip": None, "timeout": 1.0}},
        {"delay": {"skip": 0.5, "patient_every": 5}},
        {"stragglers": {"slow_class": 1}},
        {"stragglers": {"lost_link": 0.1}},
        {"delay": {"skip": 0.5, "ready": "kept"}},
        {"compute": {"law": "exponential:1"}},
    ],
    ids=str,
)
def test_latencies_are_refused_where_skips_depend_on_more_than_chance(sections: dict[str, Any]) -> None:
    result = recorded([0, 10], [[0, 5]], 0.5, **sections)
    with pytest.raises(InvalidInput, match="result"):
        draw_latencies(result, Gamma(0.25, 1.0), np.random.default_rng(1))


# --- Curves


@pytest.fixture(scope="module")
def skips(tmp_path_factory: pytest.TempPathFactory) -> tuple[Sweep, SweepOutcome]:
    """Two skip probabilities, four runs each."""
    values = {"base": TOKEN, "grid": {"delay.skip": [0.1, 0.5]}, "figure": {"until": {"gamma": 10.0}}}
    sweep = parse_sweep(values, name="skips")
    return sweep, run_sweep(sweep, tmp_path_factory.mktemp("skips"), workers=1)


def test_curves_are_means_and_deviations_over_runs(skips: tuple[Sweep, SweepOutcome]) -> None:
    sweep, outcome = skips
    curves = sweep_curves(sweep, outcome)
    assert [curve.values for curve in curves] == [{"delay.skip": 0.1}, {"delay.skip": 0.5}]
    for curve, cell in zip(curves, sweep.cells, strict=True):
        result = outcome.results[cell.key]
        assert (curve.law, curve.runs, curve.noise_multiplier) == ("exponential:1", 4, 2.0)
        assert curve.skip == cell.run.delay.skip
        assert curve.steps.tolist() == [0, 40, 80, 120]
        for point in range(4):
            latencies, errors = result.latency[:, point].tolist(), result.test_error[:, point].tolist()
            assert curve.latency[point] == pytest.approx(statistics.mean(latencies), rel=1e-12)
            assert curve.latency_std[point] == pytest.approx(statistics.stdev(latencies), rel=1e-9, abs=1e-12)
            assert curve.error[point] == pytest.approx(statistics.mean(errors), rel=1e-12)
            assert curve.error_std[point] == pytest.approx(statistics.stdev(errors), rel=1e-9, abs=1e-12)
            assert curve.updates[point] == pytest.approx(statistics.mean(result.updates[:, point].tolist()))
        assert curve.error_std[1:].min() > 0.0


def test_one_simulation_serves_all_three_laws(skips: tuple[Sweep, SweepOutcome]) -> None:
    sweep, outcome = skips
    curves = law_curves(sweep, outcome)
    assert [(curve.law, curve.skip) for curve in curves] == list(itertools.product(LAWS, (0.1, 0.5)))
    simulated = dict(zip((0.1, 0.5), sweep_curves(sweep, outcome), strict=True))
    for curve in curves:
        assert np.array_equal(curve.error, simulated[curve.skip].error)
        assert np.array_equal(curve.error_std, simulated[curve.skip].error_std)
        assert np.array_equal(curve.updates, simulated[curve.skip].updates)
        law = LAWS[curve.law]
        timeout = timeout_for_skip(law, curve.skip)
        square = integrate.quad(lambda t, law=law: 2.0 * t * law.survival(float(t)), 0.0, timeout)[0]
        hop = math.sqrt(square - law.truncated_mean(timeout) ** 2)
        expected = np.array([steps and expected_latency(law, timeout, 0.01, int(steps)) for steps in curve.steps])
        assert (np.abs(curve.latency - expected) <= ERRORS * hop * np.sqrt(curve.steps / curve.runs)).all()
        assert curve.latency_std[0] == 0.0
        assert (curve.latency_std[1:] > 0.0).all()
    again, other = law_curves(sweep, outcome), law_curves(sweep, outcome, seed=2)
    for curve, same, different in zip(curves, again, other, strict=True):
        assert np.array_equal(curve.latency, same.latency)
        assert (curve.latency[1:] != different.latency[1:]).all()


def test_curves_of_the_same_path_draw_latencies_of_their_own(tmp_path: Path) -> None:
    values = {"base": changed(TOKEN, delay={"skip": 0.5}), "grid": {"privacy.noise_multiplier": [2.0, 3.0]}}
    sweep = parse_sweep(values, name="noise")
    outcome = run_sweep(sweep, tmp_path, workers=1)
    first, second = (outcome.results[cell.key] for cell in sweep.cells)
    assert np.array_equal(first.updates, second.updates)  # the noise changes nothing about who is late
    curves = law_curves(sweep, outcome)
    for one, other in zip(curves[::2], curves[1::2], strict=True):
        assert one.law == other.law
        assert (one.latency[1:] != other.latency[1:]).all()


def test_a_single_run_has_no_spread_and_missing_cells_no_curve(tmp_path: Path) -> None:
    values = {"base": changed(TOKEN, simulation={"runs": 1}), "grid": {"delay.skip": [0.1, 0.5]}}
    sweep = parse_sweep(values, name="one")
    outcome = run_sweep(sweep, tmp_path, workers=1)
    for curve in (*sweep_curves(sweep, outcome), *law_curves(sweep, outcome)):
        assert curve.runs == 1
        assert not curve.latency_std.any()
        assert not curve.error_std.any()
    left = SweepOutcome({sweep.cells[1].key: outcome.results[sweep.cells[1].key]}, {}, 1, 0)
    assert [curve.skip for curve in sweep_curves(sweep, left)] == [0.5]
    assert [curve.skip for curve in law_curves(sweep, left)] == [0.5] * 3


def curve_of(
    latency: list[float], error: list[float], *, law: str = "gamma", values: Mapping[str, Any] | None = None
) -> EmpiricalCurve:
    """A curve that ends where its lists do."""
    count = len(latency)
    return EmpiricalCurve(
        law=law,
        values=values or {"delay.skip": 0.5},
        noise_multiplier=10.5976,
        runs=3,
        steps=10 * np.arange(count),
        updates=5.0 * np.arange(count),
        latency=np.array(latency),
        latency_std=np.array(latency) / 10.0,
        error=np.array(error),
        error_std=np.array(error) / 5.0,
    )


def test_a_curve_ends_with_its_axis() -> None:
    curve = curve_of([0.0, 1.0, 2.0, 3.0], [0.5, 0.3, 0.4, 0.2])
    assert [curve.last(end) for end in (0.0, 0.9, 1.0, 2.99, 3.0, math.inf)] == [0, 0, 1, 2, 3, 3]


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def test_the_csv_holds_the_curves_to_six_digits(skips: tuple[Sweep, SweepOutcome], tmp_path: Path) -> None:
    curves = law_curves(*skips)
    epsilons = [np.linspace(0.0, 1.0 + place, 4) for place in range(len(curves))]
    write_empirical_csv(curves, tmp_path / "new" / "curves.csv", epsilons)
    rows = rows_of(tmp_path / "new" / "curves.csv")
    assert len(rows) == 4 * len(curves)
    for place, (curve, epsilon) in enumerate(zip(curves, epsilons, strict=True)):
        mine = rows[4 * place : 4 * place + 4]
        assert {(row["delay"], row["delay.skip"], row["runs"]) for row in mine} == {(curve.law, str(curve.skip), "4")}
        assert {row["noise_multiplier"] for row in mine} == {"2"}
        columns: dict[str, NDArray[Any]] = {
            "step": curve.steps,
            "updates": curve.updates,
            "latency": curve.latency,
            "latency_std": curve.latency_std,
            "test_error": curve.error,
            "test_error_std": curve.error_std,
            "epsilon": epsilon,
        }
        for name, expected in columns.items():
            assert [float(row[name]) for row in mine] == pytest.approx(expected.tolist(), rel=5e-6, abs=1e-12), name
    write_empirical_csv(curves, tmp_path / "plain.csv")
    assert "epsilon" not in rows_of(tmp_path / "plain.csv")[0]


def test_long_curves_are_thinned_between_their_ends(tmp_path: Path) -> None:
    long = curve_of([0.5 * place for place in range(1000)], [0.5] * 1000)
    write_empirical_csv([long, curve_of([0.0, 1.0], [0.5, 0.4])], tmp_path / "thin.csv")
    rows = rows_of(tmp_path / "thin.csv")
    steps = [int(row["step"]) for row in rows[:-2]]
    assert (steps[0], steps[-1], len(steps)) == (0, 9990, 121)
    gaps = np.diff(steps)
    assert (gaps.min(), gaps.max()) == (80, 90)  # even, as far as whole points allow
    assert [float(row["latency"]) for row in rows[:-2]] == pytest.approx([0.05 * step for step in steps])
    assert [row["step"] for row in rows[-2:]] == ["0", "10"]


def test_the_csv_ends_with_the_axis_of_each_law(tmp_path: Path) -> None:
    latency = [float(place) for place in range(50)]
    curves = [curve_of(latency, [0.5] * 50, law=law) for law in ("gamma", "Lomax")]
    write_empirical_csv(curves, tmp_path / "cut.csv", until={"gamma": 20.5})
    rows = rows_of(tmp_path / "cut.csv")
    ends = {law: max(float(row["latency"]) for row in rows if row["delay"] == law) for law in ("gamma", "Lomax")}
    assert ends == {"gamma": 20.0, "Lomax": 49.0}
    assert len(rows) == 21 + 50


def test_columns_tell_curves_apart_and_leave_out_what_stands_elsewhere(tmp_path: Path) -> None:
    token = {"schedule.name": "ring", "delay.skip": 0.5, "learning.batch": 8}
    rival = {"schedule.name": "gossip", "delay.skip": 1e-4}
    more = {"privacy.noise_multiplier": 3.0, "simulation.runs": 9, "simulation.evaluate_every": 2}
    curves = [curve_of([0.0], [0.5], values={**own, **more}) for own in (token, rival)]
    write_empirical_csv(curves, tmp_path / "two.csv")
    first, second = rows_of(tmp_path / "two.csv")
    assert list(first)[:6] == ["delay", "schedule.name", "delay.skip", "learning.batch", "noise_multiplier", "runs"]
    assert not [key for key in first if key.startswith(("simulation.", "privacy."))]
    assert (first["learning.batch"], second["learning.batch"]) == ("8", "")
    assert (second["delay.skip"], second["noise_multiplier"], second["runs"]) == ("0.0001", "10.5976", "3")


def test_a_csv_that_cannot_be_written_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(InvalidInput, match=r"out = .*cannot be written"):
        write_empirical_csv([curve_of([0.0], [0.5])], tmp_path / "file" / "curves.csv")


# --- Epsilon of the token and its rivals

POINTS = np.array([0, 1, 20, 21, 33, 60])
RIVAL = changed(
    TOKEN,
    schedule={"name": "random-ring", "steps": 60},
    delay={"skip": 0.3},
    learning={"rate": 0.7, "step_size": "constant"},
)


def only_cell(values: Mapping[str, Any], **grid: Any) -> Any:
    # A grid must not be empty; the default of a key changes nothing.
    (cell,) = parse_sweep({"base": values, "grid": grid or {"data.alpha": 0.5}}, name="one").cells
    return cell


@pytest.mark.parametrize(
    ("schedule", "theorem", "delay"),
    [
        ("ring", 2, {"skip": 0.3}),
        ("random-ring", 3, {"skip": 0.3}),
        ("random-ring", 3, {"timeout": timeout_for_skip(Exponential(1.0), 0.3)}),
        ("random-walk", 4, {"skip": 0.3}),
    ],
)
def test_a_token_is_accounted_for_in_whole_rounds(schedule: Any, theorem: int, delay: dict[str, float]) -> None:
    cell = only_cell(changed(TOKEN, schedule={"name": schedule}, delay=delay))
    published, proven = published_epsilon(cell, POINTS), proven_epsilon(cell, POINTS)
    assert (published[0], proven[0]) == (0.0, 0.0)
    for place, rounds in enumerate([1, 1, 2, 2, 3], start=1):
        run: dict[str, Any] = {"nodes": 20, "steps": 20 * rounds, "skip": 0.3, "noise_multiplier": 2.0}
        assert published[place] == pytest.approx(
            stated_epsilon(theorem, **run, delta=1e-6, delta_prime=1e-12), rel=1e-9
        )
        assert proven[place] == pytest.approx(forecast(planned_run(schedule=schedule, **run)).epsilon(1e-6), rel=1e-9)


def test_steps_of_a_token_that_do_not_contract_are_not_amplified() -> None:
    steep = changed(TOKEN, delay={"skip": 0.3}, learning={"rate": 9.0, "step_size": "constant"})
    run: dict[str, Any] = {"nodes": 20, "steps": 120, "skip": 0.3, "noise_multiplier": 2.0}
    plain = forecast(planned_run(schedule="random-ring", convex=False, **run)).epsilon(1e-6)
    assert proven_epsilon(only_cell(steep), np.array([120])) == pytest.approx([plain], rel=1e-9)
    gentle = changed(steep, learning={"rate": 0.3})
    constant = forecast(planned_run(schedule="random-ring", step_size="constant", **run)).epsilon(1e-6)
    assert proven_epsilon(only_cell(gentle), np.array([120])) == pytest.approx([constant], rel=1e-9)
    assert constant < 0.9 * plain


def test_a_budget_is_spent_by_the_end_and_not_before() -> None:
    values = changed(TOKEN, delay={"skip": 0.3})
    values["privacy"] = {"epsilon": 1.5, "delta": 1e-6}
    cell = only_cell(values)
    proven = proven_epsilon(cell, np.array([0, 60, 100, 120]))
    assert proven[-1] == pytest.approx(1.5, rel=1e-4)
    assert (np.diff(proven) > 0.0).all()
    assert published_epsilon(cell, np.array([120]))[0] > 1.5


def test_stragglers_that_are_not_alike_have_no_forecast() -> None:
    cell = only_cell(changed(TOKEN, delay={"skip": 0.3}, stragglers={"slow_class": 1}))
    for account in (published_epsilon, proven_epsilon):
        with pytest.raises(InvalidInput, match="no epsilon can be stated"):
            account(cell, POINTS)


def test_gossip_as_published_is_muffliatos_theorem_on_the_graphs_of_the_first_run() -> None:
    cell = only_cell(changed(RIVAL, schedule={"name": "gossip"}, gossip={"slots": 10.0, "rounds": 3}))
    graphs = list(gossip_graphs(build(cell.run), 0))
    kept: dict[str, Any] = {"nodes": 20, "rounds": 3, "noise_multiplier": 2.0}
    shorter = {m: GossipRun(graphs=graphs[:m], **kept) for m in POINTS[1:].tolist()}
    expected = [0.0, *(muffliato_epsilon(run, delta=1e-6, points=[m])[0] for m, run in shorter.items())]
    assert published_epsilon(cell, POINTS) == pytest.approx(expected, rel=1e-12)
    assert (np.diff(expected) > 0.0).all()


@pytest.mark.slow
def test_gossip_as_proven_is_the_worst_of_the_reported_pairs() -> None:
    cell = only_cell(changed(RIVAL, schedule={"name": "gossip"}, gossip={"slots": 10.0}))
    setup = build(cell.run)
    graphs = list(gossip_graphs(setup, 0))
    proven = proven_epsilon(cell, POINTS)
    assert proven[0] == 0.0
    kept: dict[str, Any] = {"nodes": 20, "rounds": 2, "noise_multiplier": 2.0}
    pairs = list(chosen_pairs(setup))
    assert len({observer for observer, _ in pairs}) == 4
    assert all(sorted([observer, *targets]) == list(range(20)) for observer, targets in pairs)
    for epsilon, phases in zip(proven[1:].tolist(), POINTS[1:].tolist(), strict=True):
        mu = max(
            float(gossip_mu(GossipRun(graphs=graphs[:phases], **kept), observer=observer, targets=targets).max())
            for observer, targets in pairs
        )
        # Before the end, a curve may be slightly above the account of the shorter run.
        slack = 1.0 if phases == 60 else 1.02
        assert gdp_epsilon(mu, 1e-6) * (1 - 1e-9) <= epsilon <= slack * gdp_epsilon(mu, 1e-6) * (1 + 1e-9)
    reported = simulate(changed(cell.run.model_dump(), simulation={"runs": 1, "record_path": True}), threads=1)
    assert reported.privacy.in_this_run is not None
    assert proven[-1] == pytest.approx(reported.privacy.in_this_run.worst, rel=1e-9)


def test_gossip_that_clips_after_the_noise_hides_nothing() -> None:
    learning = {"clip_noisy": 0.4}
    cell = only_cell(changed(RIVAL, schedule={"name": "gossip"}, gossip={"slots": 10.0}, learning=learning))
    expected = [gdp_epsilon(2.0 * math.sqrt(m) / 2.0, 1e-6) for m in POINTS.tolist()]
    assert proven_epsilon(cell, POINTS) == pytest.approx(expected, rel=1e-9)


def test_the_server_as_published_has_seen_all_uploads_of_the_busiest_node() -> None:
    cell = only_cell(changed(RIVAL, schedule={"name": "federated"}, simulation={"runs": 1}))
    published = published_epsilon(cell, POINTS)
    assert published[0] == 0.0
    result = simulate(cell.run, threads=1)
    uploads = int((result.offered - result.skipped).max())
    assert 42 < uploads < 60  # the busiest of twenty, in 60 iterations at 0.7
    rho = 2.0 * uploads / 2.0**2
    assert published[-1] == pytest.approx(rho + 2.0 * math.sqrt(rho * math.log(1e6)), rel=1e-12)
    # After one iteration someone has uploaded once, and nobody twice.
    assert published[1] == pytest.approx(0.5 + 2.0 * math.sqrt(0.5 * math.log(1e6)), rel=1e-12)
    assert (np.diff(published) > 0.0).all()


def test_the_server_as_proven_may_have_seen_any_node_so_often() -> None:
    proven = proven_epsilon(only_cell(changed(RIVAL, schedule={"name": "federated"})), POINTS)
    assert proven[0] == 0.0
    for epsilon, iterations in zip(proven[1:].tolist(), POINTS[1:].tolist(), strict=True):
        # A node uploads with probability 0.7, and m uploads are Gaussian with mu = 2 sqrt(m) / noise.
        chances = stats.binom.pmf(np.arange(iterations + 1), iterations, 0.7)
        delta = sum(chance * gdp_delta(math.sqrt(m), epsilon) for m, chance in enumerate(chances) if m)
        assert delta == pytest.approx(1e-6, rel=1e-3)


def test_the_token_of_figure_5_spends_what_the_paper_says() -> None:
    # Any data with rows enough for 1000 nodes will do: these are always there.
    sweep = paper_sweep("figure5", changes=["data.name=digits", "learning.batch=1"])
    (cell,) = (c for c in sweep.cells if c.run.schedule.name == "random-ring" and c.run.delay.skip == 1e-4)
    steps = np.array([0, 23_001, 24_000])
    published, proven = published_epsilon(cell, steps), proven_epsilon(cell, steps)
    assert published == pytest.approx([0.0, 2.202, 2.202], abs=5e-4)
    assert proven == pytest.approx([0.0, 0.693, 0.693], abs=5e-4)


@pytest.mark.slow
def test_gossip_of_figure_5_at_a_budget_keeps_it_for_the_pairs_that_are_reported() -> None:
    changes = ["data.name=digits", "learning.batch=1", "gossip.slots=1"]
    sweep = paper_sweep("figure5-tight", changes=changes)
    cell = next(c for c in sweep.cells if c.run.schedule.name == "gossip")
    end = cell.run.schedule.steps
    assert end == 400
    assert proven_epsilon(cell, np.array([end]))[0] == pytest.approx(2.2, abs=2e-3)


# --- Beyond the paper


def test_errors_by_alpha_are_final_means_in_order_with_even_splits_at_100(tmp_path: Path) -> None:
    grid = [
        {"data.split": "dirichlet-even", "data.alpha": [10.0, 0.1], "delay.skip": [0.5, 0.1]},
        {"data.split": "iid", "delay.skip": [0.5, 0.1]},
    ]
    grid = [{**table, "privacy.noise_multiplier": [2.0, 30.0]} for table in grid]
    sweep = parse_sweep({"base": TOKEN, "grid": grid}, name="skew")
    outcome = run_sweep(sweep, tmp_path, workers=1)
    series = by_alpha(sweep, outcome)
    assert sorted(series) == ["p = 0.1, noise 2", "p = 0.1, noise 30", "p = 0.5, noise 2", "p = 0.5, noise 30"]
    assert len(sweep.cells) == 12
    for cell in sweep.cells:
        x, mean, spread = series[f"p = {cell.run.delay.skip}, noise {cell.run.privacy.noise_multiplier:g}"]
        assert x == [0.1, 10.0, 100.0]
        place = x.index(100.0 if cell.run.data.split == "iid" else cell.run.data.alpha)
        errors = outcome.results[cell.key].test_error[:, -1].tolist()
        assert mean[place] == pytest.approx(statistics.mean(errors), rel=1e-12)
        assert spread[place] == pytest.approx(statistics.stdev(errors), rel=1e-9)
    assert len({mean for _, means, _ in series.values() for mean in means}) > 3


def test_each_number_of_nodes_takes_the_best_of_its_grid(tmp_path: Path) -> None:
    grid = [
        {"data.nodes": 40, "schedule.steps": [40, 120], "learning.rate": [0.01, 0.3, 3.0], "delay.skip": 0.5},
        {"data.nodes": 8, "schedule.steps": [40, 120], "learning.rate": [0.01, 0.3, 3.0], "delay.skip": 0.5},
    ]
    sweep = parse_sweep({"base": TOKEN, "grid": grid}, name="nodes")
    outcome = run_sweep(sweep, tmp_path, workers=1)
    series, best = best_by_nodes(sweep, outcome)
    ((x, means, spreads),) = series.values()
    assert x == [8.0, 40.0]
    assert list(best) == [8, 40]
    for nodes, mean, spread in zip(best, means, spreads, strict=True):
        final = {
            cell.key: outcome.results[cell.key].test_error[:, -1].tolist()
            for cell in sweep.cells
            if cell.run.data.nodes == nodes
        }
        assert len(final) == 6
        lowest = min(final, key=lambda key: statistics.mean(final[key]))
        assert best[nodes].key == lowest
        assert mean == pytest.approx(statistics.mean(final[lowest]), rel=1e-12)
        assert spread == pytest.approx(statistics.stdev(final[lowest]), rel=1e-9)
        assert max(map(statistics.mean, final.values())) > mean


def test_cells_of_stragglers_have_names_that_say_what_is_done() -> None:
    grid = [
        {"stragglers.slow_class": 1, "delay.timeout": [0.25, math.inf]},
        {"stragglers.slow_class": 1, "delay.timeout": 0.25, "delay.patient_every": 5},
        {"delay.timeout": [0.25, math.inf]},
        {"stragglers.slow_class": 1, "delay.timeout": 0.25, "delay.ready": ["fresh", "kept"]},
    ]
    names = straggler_names(parse_sweep({"base": TOKEN, "grid": grid}, name="slow"))
    assert names == [
        "timeout 0.25",
        "never skip",
        "timeout 0.25, patient every 5",
        "nobody slow, timeout 0.25",
        "nobody slow, never skip",
        "timeout 0.25",
        "kept, timeout 0.25",
    ]
    shipped = straggler_names(paper_sweep("stragglers"))
    assert len(set(shipped)) == len(shipped) == 15  # curves are told apart by them
