"""Run files of gossip and federated learning, their privacy, and what is new for the token: slow classes, patience."""

from __future__ import annotations

import json
import math
import threading
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import binom, norm

from skipring.data import NodeData
from skipring.errors import InvalidInput
from skipring.privacy import ANOTHER_NODE
from skipring.runs import RunFile, with_changes
from skipring.schedules import Federated, Gossip
from skipring.simulation import Interrupted, Result, alternatives, build, compare_runs, simulate
from skipring.simulation.engine import run_many, run_one
from skipring.simulation.rivals.runs import who_is_ready
from skipring.simulation.setup import Setup
from skipring.simulation.stragglers import stragglers_of

Command = Callable[[str], tuple[int, str, str]]
FILES = ("metrics.npz", "privacy.json", "run.json")
RIVALS = ("gossip", "federated")
DELTA = 1e-5


def run_file(*changes: str) -> RunFile:
    """Breast cancer data on 20 nodes, exponential delays, p = 0.3."""
    small = ["data.nodes=20", "delay.law=exponential:1", "delay.skip=0.3", "simulation.runs=4"]
    return with_changes(None, [*small, "simulation.evaluate_every=10", "privacy.noise_multiplier=4", *changes])


def rival(name: str, *changes: str) -> RunFile:
    return run_file(f"schedule.name={name}", *changes)


def epsilon_of(mus: Any, weights: Any = 1.0) -> float:
    """The epsilon at which the mean delta of Gaussian mechanisms is DELTA (Balle & Wang 2018), written down anew."""
    mu, share = np.atleast_1d(np.asarray(mus, dtype=np.float64)), np.atleast_1d(weights)

    def excess(epsilon: float) -> float:
        first = norm.cdf(0.5 * mu - epsilon / mu)
        second = np.exp(epsilon + norm.logcdf(-0.5 * mu - epsilon / mu))
        return float((share * (first - second)).sum()) - DELTA

    return float(brentq(excess, 1e-9, 1e3, xtol=1e-11))


# Results -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [pytest.param("gossip", marks=pytest.mark.slow), "federated"])
def test_the_same_bytes_on_any_number_of_threads_and_after_an_interruption(name: str, tmp_path: Path) -> None:
    run = rival(name, "simulation.runs=16", "learning.batch=8", "simulation.evaluate_every=1")
    simulate(run, out=tmp_path / "whole")
    for threads in (1, 5):
        simulate(run, out=tmp_path / str(threads), threads=threads)
    stop, part = threading.Event(), tmp_path / "part"
    with pytest.raises(Interrupted, match="of 16 runs"):
        simulate(run, out=part, stop=stop, progress=lambda finished: stop.set() if finished >= 5 else None)
    assert 5 <= len(list((part / "runs").glob("*.npz"))) < 16
    simulate(run, out=part, resume=True)
    for file in FILES:
        for other in ("1", "5", "part"):
            assert (tmp_path / other / file).read_bytes() == (tmp_path / "whole" / file).read_bytes()


@pytest.mark.parametrize("name", RIVALS)
def test_a_result_says_what_the_defaults_came_to(name: str) -> None:
    result = simulate(rival(name, "privacy.noise_multiplier=0.1", "learning.rate=3", "learning.step_size=constant"))
    assert result.points.tolist() == [0, 10, 20, 30]  # 30 iterations
    resolved, rival_of = result.resolved, result.resolved.rival
    assert (resolved.nodes, resolved.steps, resolved.model) == (20, 30, "logistic")
    assert (result.offered == 30 * 4).all()
    if name == "gossip":
        assert isinstance(rival_of, Gossip)
        assert (rival_of.rounds, rival_of.acceleration) == (2, 1.0)
        assert rival_of.slots > 10.0
        assert not result.skipped.any()
        assert (result.updates == result.points * 20).all()
    else:
        assert isinstance(rival_of, Federated)
        assert rival_of.channels == 100
        assert result.skipped.sum() == 4 * 600 - result.updates[:, -1].sum()
        assert result.skipped.sum() / 2400 == pytest.approx(0.3, abs=0.05)  # 5 standard errors
    assert result.models.shape == (4, 30)
    assert result.test_error[:, 0].mean() > 0.3
    assert result.test_error[:, -1].mean() < 0.1  # they do learn


def test_steps_slots_and_access_may_be_given() -> None:
    free, slow = (simulate(rival("gossip", "schedule.steps=7", f"gossip.slots={slots}")) for slots in (0, 50))
    assert isinstance(free.resolved.rival, Gossip)
    assert (free.points[-1], free.resolved.rival.slots) == (7, 0.0)
    assert slow.latency - free.latency == pytest.approx(np.tile(free.points * 2 * 50 * 0.01, (4, 1)))
    # Rarely or often: both are worse than the best.
    slots = [build(rival("gossip", *more)).schedule for more in ([], ["gossip.access=0.02"], ["gossip.access=0.5"])]
    best, rare, often = (one.slots for one in slots if isinstance(one, Gossip))
    assert min(rare, often) > 1.5 * best
    # The new value of a pair replaces the other one, as for timeout and skip.
    assert run_file("gossip.slots=3", "gossip.access=0.1").gossip.slots is None


def test_values_of_the_run_file_reach_the_rivals() -> None:
    gossip = build(rival("gossip", "gossip.rounds=5", "gossip.degree=6.5", "gossip.acceleration=true"))
    assert isinstance(gossip.schedule, Gossip)
    assert (gossip.schedule.rounds, gossip.schedule.degree) == (5, 6.5)
    assert 1.0 < gossip.schedule.acceleration < 2.0
    federated = build(rival("federated", "federated.channels=7", "learning.clip_noisy=0.5", "stragglers.lost_link=0.1"))
    assert federated.schedule == Federated(nodes=20, channels=7)
    assert federated.run.learning.clip_noisy == 0.5
    assert federated.stragglers.lost_link == 0.1


def test_models_of_rivals_have_no_ball_unless_one_is_needed_or_asked_for(tmp_path: Path) -> None:
    (tmp_path / "numbers.csv").write_text("a,b,y\n" + "".join(f"{i},{i % 7},{i / 100}\n" for i in range(100)))
    numbers = [f"data.path={tmp_path}/numbers.csv", "data.label=y"]
    diameters = []
    for run in (
        rival("gossip"),
        rival("federated", "learning.diameter=3"),
        rival("gossip", *numbers),
        run_file("schedule.name=random-ring"),
    ):
        diameters.append(build(run).model.diameter)
    assert diameters == [math.inf, 3.0, 10.0, 10.0]


@pytest.mark.parametrize("name", ["random-ring", *RIVALS])
def test_models_may_be_left_out(name: str, tmp_path: Path) -> None:
    run = rival(name, "simulation.runs=30")
    with_models, without = simulate(run), simulate(run, out=tmp_path / "without", keep_models=False)
    assert without.models.shape == (30, 0)
    assert Result.load(tmp_path / "without").models.shape == (30, 0)
    for kept in ("test_error", "loss", "latency", "updates", "offered", "skipped"):
        assert getattr(without, kept).tobytes() == getattr(with_models, kept).tobytes()
    assert without.privacy == with_models.privacy


@pytest.mark.parametrize("first", [True, False])
def test_models_are_left_out_of_all_runs_or_of_none(first: bool, tmp_path: Path) -> None:
    run, stop = rival("federated", "simulation.runs=30"), threading.Event()
    with pytest.raises(Interrupted):
        simulate(run, out=tmp_path, keep_models=first, stop=stop, progress=lambda n: stop.set() if n > 3 else None)
    if first:
        assert simulate(run, out=tmp_path, keep_models=False, resume=True).models.shape == (30, 0)
    else:
        with pytest.raises(InvalidInput, match="begun without models"):
            simulate(run, out=tmp_path, resume=True)


# Refusals ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schedule", "change", "key", "words"),
    [
        ("gossip", "gossip.degree=0", "gossip.degree", "0"),
        ("gossip", "gossip.degree=113", "gossip.degree", "at most 112"),
        ("gossip", "gossip.degree=nan", "gossip.degree", "nan"),
        ("gossip", "gossip.rounds=0", "gossip.rounds", "0"),
        ("gossip", "gossip.rounds=1.5", "gossip.rounds", "1.5"),
        ("gossip", "gossip.slots=-1", "gossip.slots", "-1"),
        ("gossip", "gossip.access=0", "gossip.access", "above 0 and below 1"),
        ("gossip", "gossip.access=1", "gossip.access", "above 0 and below 1"),
        ("gossip", "gossip.access=0.97", "gossip.access", "nearly always"),
        ("gossip", "gossip.degre=3", "gossip.degre", "is not a key"),
        ("gossip", "data.nodes=1", "data.nodes", "at least 2"),
        ("federated", "data.nodes=1", "data.nodes", "at least 2"),
        ("federated", "federated.channels=0", "federated.channels", "0"),
        ("federated", "federated.channels=many", "federated.channels", "many"),
        ("gossip", "schedule.steps=0", "schedule.steps", "0"),
        ("gossip", "learning.clip_noisy=0", "learning.clip_noisy", "0"),
        ("ring", "learning.clip_noisy=1", "learning.clip_noisy", "gossip and federated only"),
        (
            "random-walk",
            "learning.clip_noisy=1",
            "learning.clip_noisy",
            "gossip and federated only",
        ),
        ("gossip", "delay.patient_every=2", "delay.patient_every", "token only"),
        ("federated", "delay.patient_every=2", "delay.patient_every", "token only"),
        ("ring", "delay.patient_every=0", "delay.patient_every", "0"),
        ("gossip", "stragglers.lost_link=0.1", "stragglers.*", "all alike"),
        ("gossip", "stragglers.slow_class=1", "stragglers.slow_class", "no epsilon can be stated"),
        ("federated", "stragglers.slow_class=1", "stragglers.slow_class", "no epsilon can be stated"),
        ("ring", "stragglers.die=2", "stragglers.die", "at least 0 and at most 1"),
        ("ring", "stragglers.speeds=[1.0]", "stragglers.speeds", "each of the 113"),
        ("ring", "stragglers.slow_class=7", "stragglers.slow_class", "some rows have"),
        ("ring", "delay.patient_every=3", "delay.patient_every", "see epsilon in this run"),
    ],
)
def test_bad_run_files_get_one_line_that_names_the_key(
    skipring: Command, schedule: str, change: str, key: str, words: str
) -> None:
    skipring("init")
    given = f"--set delay.law=gamma:0.25,1 --set schedule.name={schedule} --set {change}"
    code, out, err = skipring(f"simulate run.toml --out here {given}")
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert err.startswith((f"error: {key} ", f"error: {key}: "))
    assert words in err


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        (["stragglers.slow_class=1", "stragglers.class_factor=0"], "stragglers.class_factor"),
        (["stragglers.slow_class=1", "stragglers.speeds=[1.0]"], "stragglers.slow_class"),
        (["delay.patient_every=2", "stragglers.die=0.1"], "delay.patient_every"),
        (["delay.patient_every=2", "stragglers.lost_link=0.1"], "delay.patient_every"),
        (["schedule.name=gossip", "gossip.degree=0.001", "gossip.acceleration=true"], "gossip.acceleration"),
    ],
)
def test_values_that_do_not_go_together_are_refused(changes: list[str], key: str) -> None:
    with pytest.raises(InvalidInput) as refused:
        build(run_file(*changes))
    assert refused.value.parameter == key


def test_slots_and_access_exclude_each_other(skipring: Command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text('[schedule]\nname = "gossip"\n[gossip]\nslots = 3\naccess = 0.1\n')
    code, _, err = skipring("simulate run.toml")
    assert (code, err.count("\n")) == (2, 1)
    assert err.startswith("error: gossip.access ")
    assert "not both" in err


def test_networks_have_no_rivals(skipring: Command, tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    np.savez(tmp_path / "pictures.npz", X=rng.random((60, 784)), y=np.arange(60) % 2)
    (tmp_path / "run.toml").write_text('[data]\npath = "pictures.npz"\nlabel = "y"\nnodes = 6\n[model]\nname = "cnn"\n')
    for name in RIVALS:
        more = "--set learning.gradient_bound=1 --set privacy.noise_multiplier=1"
        code, _, err = skipring(f"simulate run.toml --set schedule.name={name} {more}")
        assert (code, err.count("\n")) == (2, 1)
        assert err.startswith(f"error: schedule.name {name}:")
        assert "linear models" in err


def test_nobody_ever_in_time_is_no_crash() -> None:
    """Then gossip has no links at all, and nothing has to be sent."""
    result = simulate(
        rival("gossip", "delay.law=scipy:uniform,1,2", "delay.timeout=0.5", "privacy.noise_multiplier=0.5")
    )
    assert isinstance(result.resolved.rival, Gossip)
    assert result.resolved.rival.slots == 0.0
    assert result.latency[:, -1] == pytest.approx(30 * 0.5)
    nobody = simulate(rival("federated", "delay.law=scipy:uniform,1,2", "delay.timeout=0.5"))
    assert not nobody.models.any()
    assert nobody.privacy.in_this_run is not None
    assert nobody.privacy.in_this_run.worst == 0.0


# Privacy -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("noise", [1.0, 6.0])
@pytest.mark.parametrize("steps", [5, 200])
def test_the_forecast_of_federated_learning_composes_a_binomial_number_of_uploads(steps: int, noise: float) -> None:
    run = rival("federated", f"schedule.steps={steps}", f"privacy.noise_multiplier={noise}", "simulation.runs=1")
    privacy = simulate(run).privacy
    uploads = np.arange(1, steps + 1)
    expected = epsilon_of(2.0 * np.sqrt(uploads) / noise, binom.pmf(uploads, steps, 0.7))
    assert privacy.epsilon == pytest.approx(expected, rel=1e-6)
    assert privacy.learns_by == "server"


def test_lost_links_are_uploads_less() -> None:
    run = rival("federated", "stragglers.lost_link=0.5", "simulation.runs=1")
    uploads = np.arange(1, 31)
    expected = epsilon_of(2.0 * np.sqrt(uploads) / 4.0, binom.pmf(uploads, 30, 0.35))
    assert simulate(run).privacy.epsilon == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("skip", [0.0, 0.6])
def test_the_forecast_of_gossip_composes_all_releases_late_or_not(skip: float) -> None:
    run = rival("gossip", f"delay.skip={skip}", "schedule.steps=12", "simulation.runs=1")
    privacy = simulate(run).privacy
    assert privacy.epsilon == pytest.approx(epsilon_of(2.0 * math.sqrt(12) / 4.0), rel=1e-6)
    assert privacy.learns_by == "gossip"
    assert privacy.paper is not None
    assert privacy.paper.doubt is not None
    assert "Muffliato" in str(privacy.paper.method)


def test_what_a_federated_run_leaked() -> None:
    """Uploads of each node for the server; for another node, each upload is hidden by all others but the observer."""
    run = rival("federated", "data.nodes=6", "delay.skip=0.7", "schedule.steps=40", "simulation.seed=6")
    setup, privacy = build(run), simulate(run).privacy
    ready = who_is_ready(setup, 0)
    assert ready.mean() == pytest.approx(0.3, abs=0.15)
    uploads = ready.sum(axis=0)
    found = privacy.in_this_run
    assert found is not None
    assert found.worst == pytest.approx(epsilon_of(2.0 * math.sqrt(uploads.max()) / 4.0), rel=1e-6)
    present = ready.sum(axis=1)
    leaked = [sum(1.0 / max(1, present[t] - 1) for t in np.flatnonzero(ready[:, u])) for u in range(6)]
    other = found.guarantee.beside(ANOTHER_NODE)
    assert other is not None
    assert other.epsilon == pytest.approx(epsilon_of(2.0 * math.sqrt(max(leaked)) / 4.0), rel=1e-6)
    assert int(np.argmax(leaked)) != int(np.argmax(uploads))  # the busiest node is not the most exposed one here
    assert found.median <= found.pair_99 <= found.worst
    assert privacy.paper is not None
    assert privacy.paper.epsilon is not None
    assert (other.epsilon or 0.0) < found.worst < privacy.paper.epsilon


def test_what_a_gossip_run_leaked_is_less_than_all_releases() -> None:
    privacy = simulate(rival("gossip", "learning.step_size=constant", "simulation.runs=2")).privacy
    found = privacy.in_this_run
    assert found is not None
    assert privacy.epsilon is not None
    assert 0.0 < found.median <= found.pair_99 <= found.worst < privacy.epsilon
    assert found.pairs == 4 * 19
    assert privacy.not_amplified_because is not None


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (["learning.clip_noisy=0.5"], "clipped after noise"),
        (["gossip.acceleration=true"], "negative weights"),
        (["learning.rate=9"], "above 2 / smoothness"),
    ],
)
def test_only_own_releases_count_where_nothing_else_is_proven(changes: list[str], reason: str) -> None:
    privacy = simulate(rival("gossip", *changes, "simulation.runs=1")).privacy
    own = pytest.approx(epsilon_of(2.0 * math.sqrt(30) / 4.0), rel=1e-6)
    assert privacy.epsilon == own
    assert privacy.in_this_run is not None
    assert privacy.in_this_run.worst == own
    assert privacy.in_this_run.median == own
    assert reason in str(privacy.not_amplified_because)


def test_uploads_that_are_clipped_after_the_noise_hide_nobody_from_other_nodes() -> None:
    plain, clipped = (
        simulate(rival("federated", "simulation.runs=1", *more)).privacy for more in ([], ["learning.clip_noisy=0.5"])
    )
    assert plain.in_this_run is not None
    assert plain.in_this_run.guarantee.beside(ANOTHER_NODE) is not None
    assert clipped.in_this_run is not None
    assert clipped.in_this_run.guarantee.beside(ANOTHER_NODE) is None
    assert clipped.in_this_run.worst == plain.in_this_run.worst
    assert "clipped after noise" in str(clipped.not_amplified_because)


@pytest.mark.parametrize("name", RIVALS)
@pytest.mark.parametrize(
    "more",
    [[], ["learning.clip_noisy=1"], ["learning.step_size=own", f"learning.own={[0.1] * 30}"]],
    ids=str,
)
def test_the_noise_keeps_the_budget_and_no_more(name: str, more: list[str]) -> None:
    changes = [f"schedule.name={name}", "privacy.epsilon=3", "simulation.runs=1", *more]
    result = simulate(run_file(*changes))
    privacy = result.privacy
    assert privacy.epsilon is not None
    assert 2.999 < privacy.epsilon <= 3.0
    noise = result.resolved.noise_multiplier
    uploads = np.arange(1, 31)
    shares = binom.pmf(uploads, 30, 0.7 if name == "federated" else 1.0)
    assert epsilon_of(2.0 * np.sqrt(uploads) / noise, shares) == pytest.approx(3.0, rel=1e-3)


@pytest.mark.parametrize("name", RIVALS)
def test_without_noise_or_a_recorded_path_it_is_said(name: str) -> None:
    bare = simulate(rival(name, "privacy.noise_multiplier=0", "simulation.runs=1")).privacy
    assert "without noise" in str(bare.refused)
    assert bare.promised.epsilon is None
    unknown = simulate(rival(name, "simulation.record_path=false", "simulation.runs=1")).privacy
    assert unknown.paper is not None
    assert "not recorded" in str(unknown.paper.refused)
    assert unknown.in_this_run is None
    assert unknown.epsilon is not None
    assert unknown.epsilon > 0.0


# Commands ------------------------------------------------------------------------------------------------------------


def test_compare_and_report_show_rivals_beside_the_token(skipring: Command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text(
        "[data]\nnodes = 20\n[simulation]\nevaluate_every = 10\n[privacy]\nepsilon = 20\n"
    )
    line = "compare run.toml --schedules random-ring,gossip,federated --error 0.45 --runs 3 --out all"
    code, out, _ = skipring(line)
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    for name in ("random-ring", *RIVALS):
        assert name in out
        result = Result.load(tmp_path / "all" / name)
        assert result.runs == 3
        assert result.privacy.epsilon is not None
        assert result.privacy.epsilon <= 20.0
        error = result.summary().test_error
        assert f"{error.mean:.4f} ± {error.std:.4f}" in out
    everything = " ".join(str(path) for path in sorted((tmp_path / "all").iterdir()))
    code, out, _ = skipring(f"report {everything} --json")
    assert code == 0
    rows = {row["name"]: row for row in json.loads(out)["folders"]}
    assert set(rows) == {"random-ring", *RIVALS}
    assert rows["gossip"]["skip_rate"] == 0.0
    page = (tmp_path / "report.html").read_text()
    for words in ("<td>epsilon, Muffliato, Theorem 4 (not proven)</td>", "<td>epsilon, in this run, another node</td>"):
        assert words in page


def test_report_shows_rivals_whose_noise_is_clipped(skipring: Command, tmp_path: Path) -> None:
    (tmp_path / "run.toml").write_text("[data]\nnodes = 20\n[simulation]\nruns = 2\n[learning]\nclip_noisy = 1.0\n")
    assert skipring("compare run.toml --schedules gossip,federated --out both")[0] == 0
    code, _, err = skipring("report both/gossip both/federated")
    assert (code, err) == (0, "")
    page = (tmp_path / "report.html").read_text()
    assert page.count("clipped after noise was added") >= 1  # said once, since it holds for both


@pytest.mark.parametrize("name", RIVALS)
def test_simulate_prints_rivals(skipring: Command, tmp_path: Path, name: str) -> None:
    (tmp_path / "run.toml").write_text(f'[data]\nnodes = 20\n[schedule]\nname = "{name}"\n[simulation]\nruns = 2\n')
    code, out, _ = skipring("simulate run.toml")
    assert code == 0
    assert max(map(len, out.splitlines())) <= 80
    assert "epsilon, promised" in out
    assert ("Muffliato" if name == "gossip" else "another node") in out
    code, out, _ = skipring("simulate run.toml --out again --json")
    data = json.loads(out)
    assert data["runs"] == 2
    assert data["resolved"]["steps"] == 30
    assert data["privacy"]["promised"]["epsilon"] == pytest.approx(8.0, rel=1e-4)


def test_epsilon_at_an_error_is_that_of_the_iterations_made_by_then() -> None:
    changes = ["data.nodes=20", "simulation.evaluate_every=3", "learning.rate=3", "delay.skip=0.3"]
    chosen = alternatives(None, schedules=RIVALS, changes=[*changes, "privacy.noise_multiplier=2", "simulation.runs=3"])
    for row in compare_runs(chosen, error=0.2).rows:
        assert row.steps_to_error is not None
        assert 0 < row.steps_to_error < 30
        uploads = np.arange(1, row.steps_to_error + 1)
        shares = binom.pmf(uploads, row.steps_to_error, 0.7 if row.name == "federated" else 1.0)
        assert row.epsilon == pytest.approx(epsilon_of(2.0 * np.sqrt(uploads) / 2.0, shares), rel=1e-6)


# Slow classes --------------------------------------------------------------------------------------------------------


def test_who_holds_mostly_the_slow_class_is_slow() -> None:
    """More than half of the rows: half of them, or one row of several, is not enough."""
    labels = np.array([1, 1, 0, 0, 1, 1, 1, 0, 0, 1, 0, 0, 1, 0, 2, 2, 1])
    start = np.array([0, 4, 8, 12, 13, 14, 17])
    data = NodeData(features=np.zeros((17, 2)), labels=labels, start=start)
    slow = stragglers_of(run_file("stragglers.slow_class=1"), data)
    assert list(slow.speeds or ()) == [1.0, 10.0, 1.0, 10.0, 1.0, 1.0]
    slower = stragglers_of(run_file("stragglers.slow_class=2", "stragglers.class_factor=3.5"), data)
    assert list(slower.speeds or ()) == [1.0, 1.0, 1.0, 1.0, 1.0, 3.5]
    assert stragglers_of(run_file(), data).speeds is None


@pytest.mark.parametrize("schedule", ["ring", "random-walk", "federated"])
def test_slow_nodes_are_skipped_more_often_and_no_epsilon_is_stated(schedule: str) -> None:
    """Skips of either kind within 5 standard errors of their probabilities: e^-t, and e^(-t/4) for the slow ones."""
    run = rival(
        schedule,
        "data.split=dirichlet",
        "data.alpha=0.3",
        "data.nodes=10",
        "stragglers.slow_class=1",
        "stragglers.class_factor=4",
        "schedule.steps=400",
        "simulation.runs=5",
    )
    data, result = build(run).data, simulate(run)
    held = [np.bincount(data.labels[low:high], minlength=2) for low, high in pairwise(data.start)]
    slow = np.array([ones > zeros for zeros, ones in held])
    assert 0 < slow.sum() < 10
    for who, skip in ((slow, 0.3**0.25), (~slow, 0.3)):
        turns, skips = result.offered[who].sum(), result.skipped[who].sum()
        assert abs(skips / turns - skip) < 5.0 * math.sqrt(skip * (1.0 - skip) / turns)
    # Who takes part tells the class: in one world a node updates often, in another, with its labels turned, it seldom
    # does, and noise hides neither.
    assert "depends on the nodes' labels" in str(result.privacy.refused)
    assert (result.privacy.epsilon, result.privacy.paper, result.privacy.in_this_run) == (None, None, None)
    # A comparison knows no epsilon either, at an error that is reached on the way.
    curve = result.test_error.mean(axis=0)
    error = float(curve[1:].min())
    assert curve[0] > error
    (row,) = compare_runs(alternatives(None, schedules=[schedule], changes=_changes_of(run)), error=error).rows
    assert row.steps_to_error
    assert row.epsilon is None


def _changes_of(run: RunFile) -> list[str]:
    values = run.model_dump(exclude_unset=True, mode="json")
    return [f"{section}.{key}={json.dumps(value)}" for section, keys in values.items() for key, value in keys.items()]


# Patience ------------------------------------------------------------------------------------------------------------


def patient(schedule: str, *changes: str) -> Setup:
    return build(
        rival(schedule, "delay.patient_every=3", "schedule.steps=600", "simulation.evaluate_every=20", *changes)
    )


@pytest.mark.parametrize("schedule", ["ring", "random-ring", "random-walk"])
def test_in_every_third_round_nobody_is_skipped(schedule: str) -> None:
    """Rounds 3, 6, 9, ...; in all others the skip rate is p, within 5 standard errors."""
    updated = np.array([run.updated.reshape(30, 20) for run in run_many(patient(schedule), list(range(20)))])
    waited_for = np.arange(1, 31) % 3 == 0
    assert updated[:, waited_for].all()
    others = updated[:, ~waited_for]
    assert abs(others.mean() - 0.7) < 5.0 * math.sqrt(0.21 / others.size)


def test_patience_takes_its_time() -> None:
    """A hop takes 1 on average if its node is waited for, and else 0.7; means within 5 standard errors."""
    times = np.array([np.diff(run.latency) for run in run_many(patient("random-ring"), list(range(60)))]) / 20.0 - 0.01
    for rounds, expected in ((times[:, 2::3], 1.0), (np.delete(times, np.s_[2::3], axis=1), 0.7)):
        assert abs(rounds.mean() - expected) < 5.0 * rounds.std() / math.sqrt(rounds.size)


def test_patience_in_every_round_is_no_timeout_at_all() -> None:
    always = run_one(patient("ring", "delay.patient_every=1"), 0)
    never = run_one(build(rival("ring", "delay.skip=0", "schedule.steps=600", "simulation.evaluate_every=20")), 0)
    assert always.model.tobytes() == never.model.tobytes()
    assert always.latency.tobytes() == never.latency.tobytes()


def test_patience_has_no_promise_but_an_epsilon_in_this_run() -> None:
    run = rival("random-ring", "delay.patient_every=3", "schedule.steps=200", "simulation.runs=2")
    privacy = simulate(run).privacy
    assert "same timeout everywhere" in str(privacy.promised.refused)
    assert privacy.paper is not None
    assert "same timeout everywhere" in str(privacy.paper.refused)
    impatient = simulate(rival("random-ring", "schedule.steps=200", "simulation.runs=2")).privacy
    assert privacy.in_this_run is not None
    assert impatient.in_this_run is not None
    assert privacy.in_this_run.median > impatient.in_this_run.median > 0.0
