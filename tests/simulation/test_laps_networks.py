"""Simulated laps of networks, and of linear models whose steps an optimiser makes."""

from __future__ import annotations

import math
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch.nn import functional

from skipring.data import from_arrays
from skipring.errors import InvalidInput
from skipring.learning.gradient_laps import GradientLaps
from skipring.models import load_model
from skipring.privacy import LapsAccountant, gdp_epsilon
from skipring.runs import parse_run
from skipring.simulation import Interrupted, simulate
from skipring.simulation.build import build
from skipring.simulation.engine import run_one
from skipring.simulation.lap_account import laps_that_happened, planned_laps
from skipring.simulation.lap_rows import NetworkRows
from skipring.simulation.laps import LapRuns, _noise, lap_rule, share_in

MODULES = """
from torch import nn

def net(): return nn.Sequential(nn.Linear(6, 5), nn.SELU(), nn.Linear(5, 3))
def dropped(): return nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3))
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "sum_models.py").write_text(MODULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "sum_models", raising=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def values(function: str = "net", **sections: dict[str, Any]) -> dict[str, Any]:
    given: dict[str, Any] = {
        "data": {"standardise": False, "unit_rows": False},
        "model": {"name": f"sum_models:{function}", "device": "cpu", "features": "none"},
        "schedule": {"name": "laps"},
        "laps": {"laps": 6},
        "privacy": {"epsilon": 2.0, "delta": 1e-4},
        "simulation": {"runs": 2, "seed": 3, "evaluate_every": 2},
    }
    return {name: given.get(name, {}) | sections.get(name, {}) for name in given | sections}


def rows(count: int = 300, seed: int = 1) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(count, 6))
    return x, np.argmax(x[:, :3] + 0.1 * rng.normal(size=(count, 3)), axis=1), np.arange(count) % 6


def setup_of(function: str = "net", persons: bool = False, **sections: dict[str, Any]) -> Any:
    x, y, groups = rows()
    if persons:
        sections["data"] = sections.get("data", {}) | {"rows_per_person": 3}
        sections["privacy"] = {"protects": "person"} | sections.get("privacy", {})
    whose = np.arange(len(x)) // 12 * 6 + groups if persons else None  # two rows each
    run = parse_run(values(function, **sections)).having(data={"name": "arrays", "path": None})
    return build(run, from_arrays(x, y, groups, whose))


@pytest.mark.parametrize("persons", [False, True])
def test_without_noise_laps_are_those_of_a_plain_loop(persons: bool) -> None:
    setup = setup_of(persons=persons, privacy={"noise_multiplier": 0.0, "epsilon": None}, learning={"batch": 21})
    output, data, clip = run_one(setup, 1), setup.data, setup.model.clip
    torch.manual_seed(3 + 1)
    made = sys.modules["sum_models"].net()
    learned = list(made.parameters())
    model = np.concatenate([each.detach().numpy().astype(np.float64).ravel() for each in learned])
    speed, models = np.zeros_like(model), []
    rate = 0.5 * setup.protection.rows_of_one / clip
    for lap in range(6):
        first = 0
        for each in learned:
            piece = torch.from_numpy(model[first : first + each.numel()].astype(np.float32))
            each.data.copy_(piece.view(each.shape))
            first += each.numel()
        total, divisor = np.zeros_like(model), 0
        for low, parts in zip(data.start[:-1], setup.parts, strict=True):
            part = low + parts[lap % len(parts)]
            whose = data.persons[part] if persons else np.arange(len(part))
            for unit in np.unique(whose):
                mine = part[whose == unit]
                x, y = (torch.from_numpy(each[mine]) for each in (data.features.astype(np.float32), data.labels))
                found = torch.autograd.grad(functional.cross_entropy(made(x), y.long(), reduction="sum"), learned)
                gradient = np.concatenate([each.numpy().astype(np.float64).ravel() for each in found])
                total += gradient * min(1.0, clip / float(np.linalg.norm(gradient)))
                divisor += setup.protection.rows_of_one
        speed = 0.9 * speed + total / divisor
        model = model - rate * speed
        models.append(model)
    assert output.model == pytest.approx(np.mean(models[3:], axis=0), abs=2e-3)
    assert np.linalg.norm(models[-1] - models[0]) > 1.0


def test_noise_keeps_the_budget_and_no_less_and_the_record_says_so() -> None:
    setup = setup_of()
    assert LapsAccountant(planned_laps(setup)).epsilon(1e-4) == pytest.approx(2.0, rel=1e-6)
    assert LapsAccountant(planned_laps(setup)).epsilon(1e-4) <= 2.0
    happened, rule = laps_that_happened(setup, run_one(setup, 0)), lap_rule(setup)
    assert gdp_epsilon(math.sqrt(happened.mu2(1)), 1e-4) == pytest.approx(2.0, rel=1e-6)
    numbers = 6 * 5 + 5 + 5 * 3 + 3
    assert {lap.coordinates for lap in happened.opened} == {numbers}
    assert planned_laps(setup).dimension == happened.dimension == numbers
    assert {lap.sensitivity for lap in happened.opened} == {rule.sum_of(0).sensitivity}
    assert setup.model.clip == 0.1  # where nobody says


def test_a_person_moves_a_network_s_sum_once_and_a_linear_model_s_as_often_as_it_has_rows() -> None:
    network = setup_of(persons=True)
    linear = setup_of(
        persons=True,
        model={"name": "softmax"},
        data={"unit_rows": True},
        laps={"laps": 6, "optimiser": "momentum"},
    )
    for setup, times in ((network, 1.0), (linear, 3.0)):
        kind = lap_rule(setup).sum_of(0)
        opened = laps_that_happened(setup, run_one(setup, 0)).opened
        assert {lap.sensitivity for lap in opened} == {times * kind.sensitivity}
        if setup is network:  # whose persons have two rows, and room for three
            runs = LapRuns(setup)
            assert isinstance(runs._rows, NetworkRows)
            assert runs._rows._sums._places.shape[1] == 3
        assert opened[0].mu2(1) == pytest.approx(lap_rule(setup).mu ** 2 / 6)


def test_a_sum_has_the_noise_of_the_formula_to_one_per_cent() -> None:
    """2000 sums of 53 numbers: the deviation of all is known to 0.22 %, so 1 % is more than four of that."""
    setup = setup_of()
    rule, share = lap_rule(setup), share_in(setup, lap_rule(setup), 0, 6)
    kind, rng = rule.sum_of(0), np.random.default_rng(1)
    drawn = np.array([_noise(rule, 0, share, 6, rng) for _ in range(2000)]) * kind.grid
    formula = kind.sensitivity / (rule.mu / math.sqrt(6)) * math.sqrt(6 / 5)
    assert drawn.std() == pytest.approx(formula, rel=0.01)


@pytest.mark.parametrize("network", [False, True])
def test_a_share_hides_every_number_that_a_unit_can_move(network: bool) -> None:
    """With very many participants the grid costs enough to be seen: as much for each coordinate."""
    linear: dict[str, dict[str, Any]] = {"model": {"name": "softmax"}, "data": {"unit_rows": True}, "laps": {"laps": 5}}
    setup = setup_of() if network else setup_of("net", False, **linear)
    rule, participants = lap_rule(setup), 10**5 if network else 10**7
    kind, mu = rule.sum_of(0), rule.mu * math.sqrt(rule.weights[0])
    honest = participants - setup.schedule.withstood
    coordinates = kind.moved
    assert coordinates == (53 if network else 6 + 6 * 5 + 18)
    squared = kind.sensitivity**2 + coordinates * kind.grid**2 * honest**2 / 4.0
    share = share_in(setup, rule, 0, participants)
    assert share == pytest.approx(math.sqrt(squared / honest) / mu, rel=1e-11, abs=0.0)
    assert squared / kind.sensitivity**2 - 1.0 > 2e-10


@pytest.mark.parametrize("function", ["net", "dropped"])
def test_the_same_seed_gives_the_same_bytes_on_any_number_of_threads(function: str) -> None:
    x, y, groups = rows()
    one, two = (simulate(values(function), x, y, groups, threads=threads) for threads in (1, 2))
    assert np.array_equal(one.models, two.models)
    assert np.array_equal(one.test_error, two.test_error)
    assert not np.array_equal(one.models[0], one.models[1])
    other = simulate(values(function, simulation={"seed": 4}), x, y, groups)
    assert not np.any(other.models == one.models)


def test_a_saved_network_has_noise_that_nobody_can_draw_again(tmp_path: Path) -> None:
    x, y, groups = rows()
    files = [tmp_path / name for name in ("one.skip", "two.skip")]
    one, two = (simulate(values(), x, y, groups, save_model=file) for file in files)
    assert not np.any(one.models[0] == two.models[0])
    said = load_model(files[0]).facts.guarantee
    assert (said.method, said.against) == ("laps", "another node")
    assert said.epsilon == pytest.approx(2.0, rel=1e-6)


@pytest.mark.parametrize("optimiser", ["auto", "adam", "torch.optim:RMSprop"])
def test_networks_learn_from_laps(optimiser: str) -> None:
    """Three kinds of which two in three are wrong by guessing, epsilon 4: 150 test rows, so 5 deviations are .2."""
    x, y, groups = rows(3000)
    asked = {"optimiser": optimiser, "laps": 40} | ({"rate": 0.02} if optimiser != "auto" else {})
    result = simulate(values(laps=asked, privacy={"epsilon": 4.0}, simulation={"runs": 1}), x, y, groups)
    assert result.resolved.test_rows >= 150
    assert result.test_error[0, -1] < 0.667 - 0.2 < result.test_error[0, 0]
    assert np.isnan(result.loss).all()


def test_linear_models_with_many_columns_learn_by_gradients_from_laps() -> None:
    """Two kinds, 200 columns: half of all are wrong by guessing; 600 test rows, so 5 deviations are .1."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(3000, 200)) * np.r_[3.0, np.ones(199)]
    run = values(model={"name": "logistic"}, data={"unit_rows": True}, laps={"laps": 100}, privacy={"epsilon": 8.0})
    result = simulate(run, x, (x[:, 0] > 0.0).astype(int), np.arange(3000) % 6)
    assert isinstance(lap_rule(build(parse_run(run), from_arrays(x, x[:, 0] > 0.0, np.arange(3000) % 6))), GradientLaps)
    assert result.resolved.test_rows >= 600
    assert np.median(result.test_error[:, -1]) < 0.4
    assert result.resolved.gradient_bound < 1.0


def test_a_run_that_is_stopped_ends_after_its_lap() -> None:
    stop = threading.Event()
    setup = setup_of()
    runs = LapRuns(setup)
    with pytest.raises(Interrupted, match="lap 0"):
        runs.run(setup, 0, lambda: True)
    stop.set()
    x, y, groups = rows()
    with pytest.raises(Interrupted, match="0 of 2"):
        simulate(values(), x, y, groups, stop=stop)


@pytest.mark.parametrize(
    ("sections", "parameter"),
    [
        ({"laps": {"optimiser": "five-laps"}}, "laps.optimiser"),
        ({"laps": {"optimiser": "torch.optim:LBFGS"}}, "laps.optimiser"),
        ({"laps": {"optimiser": "sgd"}}, "laps.optimiser"),
        ({"laps": {"optimiser": "torch.optim:"}}, "laps.optimiser"),
        ({"laps": {"rate": 0.0}}, "laps.rate"),
        ({"model": {"name": "softmax"}, "data": {"unit_rows": True}, "laps": {"rate": 1.0}}, "laps.rate"),
        ({"privacy": {"protects": "node"}}, "privacy.protects"),
    ],
)
def test_what_laps_do_not_do_is_refused(sections: dict[str, Any], parameter: str) -> None:
    x, y, groups = rows()
    with pytest.raises(InvalidInput) as refused:
        simulate(values(**sections), x, y, groups)
    assert refused.value.parameter == parameter
