"""Simulations of a neural network: small images, few steps, the CPU."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from skipring._arrays import times_before
from skipring.errors import InvalidInput
from skipring.learning import NeuralModel
from skipring.network.node import OwnData, make_learner
from skipring.privacy import forecast, planned_run
from skipring.runs import RunFile, with_changes
from skipring.simulation import build, simulate
from skipring.simulation.engine import run_one
from skipring.simulation.neural_runs import NeuralRuns
from skipring.simulation.setup import RunOutput

MODULES = """
import torch
from torch import nn

def known(module):
    # The same weights whatever the seed, so that all runs and nodes start alike.
    with torch.no_grad():
        for number, p in enumerate(module.parameters()):
            p.copy_(0.5 * torch.sin(torch.arange(p.numel()) + number).view(p.shape))
    return module

class Folded(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer, self.last = nn.Conv2d(1, 4, 2), nn.Linear(8, 3)
    def forward(self, x):
        return self.last(torch.tanh(self.layer(x.view(-1, 1, 2, 3))).flatten(1))

def net(): return known(nn.Sequential(nn.Linear(6, 5), nn.SELU(), nn.Linear(5, 3)))
def folded(): return known(Folded())
def number(): return known(nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1)))
def seeded(): return nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3))
def normed(): return nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3))
def lazy(): return nn.LazyLinear(3)
def wide(): return nn.Linear(6, 4)
def narrow(): return nn.Linear(5, 3)
def words(): return "words"
ONCE = nn.Linear(6, 3)
def once(): return ONCE
"""


class Silence:
    """No noise."""

    def add(self, vector: NDArray[Any], std: float) -> None:
        raise AssertionError("no noise was asked for")


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "walking_models.py").write_text(MODULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "walking_models", raising=False)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    rng = np.random.default_rng(1)
    x = rng.standard_normal((101, 6))
    np.savez(tmp_path / "table.npz", X=x, kind=np.argmax(x[:, :3], axis=1), amount=x @ rng.standard_normal(6))
    return tmp_path / "table.npz"


def own(table: Path, function: str, *changes: str, label: str = "kind") -> RunFile:
    return with_changes(
        None,
        [
            "privacy.protects=node",
            f"data.path={table}",
            f"data.label={label}",
            "data.nodes=4",
            f"model.name=walking_models:{function}",
            "model.device=cpu",
            "schedule.steps=20",
            "delay.skip=0.2",
            "learning.rate=0.4",
            "learning.gradient_bound=0.7",
            "privacy.noise_multiplier=0",
            "simulation.runs=1",
            "simulation.evaluate_every=10",
            *changes,
        ],
    )


@pytest.fixture
def images(tmp_path: Path) -> Path:
    """Two kinds of pictures: bright on the left, bright on the right."""
    rng = np.random.default_rng(1)
    labels = np.arange(120) % 2
    pictures = 0.3 * rng.random((120, 28, 28))
    pictures[labels == 0, :, :14] += 0.6
    pictures[labels == 1, :, 14:] += 0.6
    np.savez(tmp_path / "pictures.npz", X=pictures.reshape(120, 784), y=labels)
    return tmp_path / "pictures.npz"


def run(images: Path, *changes: str) -> RunFile:
    return with_changes(
        None,
        [
            "privacy.protects=node",
            f"data.path={images}",
            "data.label=y",
            "data.nodes=6",
            "model.name=cnn",
            "model.device=cpu",
            "schedule.steps=24",
            "delay.skip=0.2",
            "learning.rate=0.05",
            "learning.batch=8",
            "learning.gradient_bound=1",
            "privacy.noise_multiplier=0.02",
            "simulation.runs=2",
            "simulation.evaluate_every=12",
            *changes,
        ],
    )


def test_a_network_is_simulated_like_any_model(images: Path) -> None:
    result = simulate(run(images))
    assert result.test_error.shape == (2, 3)
    assert result.test_error[:, -1].mean() < 0.2
    assert result.models.shape == (2, 279_498)
    again = simulate(run(images))
    assert again.models.tobytes() == result.models.tobytes()
    assert again.test_error.tobytes() == result.test_error.tobytes()


def test_the_small_network_takes_pixels_as_they_are(images: Path) -> None:
    changed = run(images, "model.name=small-cnn", "learning.rate=0.3", "simulation.runs=1", "schedule.steps=60")
    result = simulate(changed)
    assert result.models.shape == (1, 26_010)
    assert float(result.test_error[0, -1]) < 0.2
    assert changed.model.is_network
    assert changed.model.takes_images
    assert not run(images, "model.name=mine:net").model.takes_images


def test_one_picture_does_not_decide_how_the_others_are_kept(tmp_path: Path) -> None:
    """Of one picture a shade is not whole: in bfloat16 another type of all would move every record's gradient."""
    whole = np.random.default_rng(1).integers(0, 256, (120, 784)) / 255.0
    kept = []
    for shade in (10.0, 10.5):
        whole[8, 300] = shade / 255.0
        np.savez(tmp_path / f"{shade}.npz", X=whole, y=np.arange(120) % 2)
        kept.append(NeuralRuns(build(run(tmp_path / f"{shade}.npz")))._tokens.get()._images)
    assert kept[0].dtype == kept[1].dtype
    assert int((kept[0] != kept[1]).sum()) == 1


def test_its_privacy_counts_every_update(images: Path) -> None:
    result = simulate(run(images, "privacy.noise_multiplier=5", "simulation.runs=1"))
    record = planned_run(schedule="random-ring", nodes=6, steps=24, skip=0.2, noise_multiplier=5.0, convex=False)
    assert result.privacy.not_amplified_because is not None
    assert "no contractions" in str(result.privacy.not_amplified_because)
    assert result.privacy.epsilon == pytest.approx(forecast(record).epsilon(1e-5), rel=1e-6)


def test_without_clipping_there_is_no_epsilon(images: Path) -> None:
    free = run(images, "simulation.runs=1").model_dump()
    free["learning"]["gradient_bound"] = None
    result = simulate(RunFile.model_validate(free))
    assert "not clipped" in str(result.privacy.refused)
    assert result.privacy.promised.epsilon is None


def test_a_budget_chooses_the_noise(images: Path) -> None:
    values = run(images).model_dump()
    values["privacy"] = {"epsilon": 4.0, "delta": 1e-5, "protects": "node"}
    setup = build(RunFile.model_validate(values))
    record = planned_run(schedule="random-ring", nodes=6, steps=24, skip=0.2, noise_multiplier=1.0, convex=False)
    assert forecast(record).with_noise(setup.noise_multiplier).epsilon(1e-5) == pytest.approx(4.0, rel=1e-5)


def test_what_a_network_cannot_use_is_refused(images: Path) -> None:
    with pytest.raises(InvalidInput, match="not 30"):
        build(with_changes(None, ["model.name=cnn"]))
    with pytest.raises(InvalidInput, match="no GPU"):
        simulate(run(images, "model.device=cuda:7"))


def walk_between_nodes(run: RunFile, walked: RunOutput) -> tuple[NDArray[Any], float]:
    """Let the learners of real nodes take the steps of a simulated run's path."""
    setup = build(run)
    nodes = [
        make_learner(run, index=index, nodes=4, name="ann", data=OwnData(), rng=np.random.default_rng(index))[0]
        for index in range(4)
    ]
    w, sizes, done = nodes[0].initial(), setup.step_sizes.first(setup.steps), 0
    for turn, node, ready in zip(times_before(walked.offered), walked.offered, walked.updated, strict=True):
        if ready:
            size = float(sizes[done])
            w = nodes[node].update(w, turn=int(turn), step_size=size, noise_multiplier=0.0, noise=Silence())
            done += 1
    return w, nodes[0].test_error(w)


@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("diameter", [100.0, 2.0])
@pytest.mark.parametrize(("function", "label"), [("net", "kind"), ("folded", "kind"), ("number", "amount")])
def test_nodes_and_simulations_make_the_same_updates(
    table: Path, function: str, label: str, ridge: float, diameter: float
) -> None:
    """One run file, one path, all rows of a node (20 or 21), no noise."""
    run = own(table, function, f"model.ridge={ridge}", f"learning.diameter={diameter}", label=label)
    walked = run_one(build(run), 0)
    w, error = walk_between_nodes(run, walked)
    assert 5 < int(walked.updated.sum()) < 20
    assert walked.model == pytest.approx(w, abs=1e-5)
    assert walked.test_error[-1] == pytest.approx(error, rel=1e-4)
    start = make_learner(run, index=0, nodes=4, name="ann", data=OwnData(), rng=np.random.default_rng())[0].initial()
    assert np.abs(w - start).max() > 0.05
    assert simulate(run).models[0].tobytes() == walked.model.tobytes()


def first_token(run: RunFile) -> NDArray[Any]:
    """What a real node of the run file sends before anyone has updated it."""
    nodes = int(run.data.nodes or 0)
    return make_learner(run, index=0, nodes=nodes, name="ann", data=OwnData(), rng=np.random.default_rng())[0].initial()


def test_runs_begin_with_the_weights_of_nodes_whose_seed_is_larger_by_the_number_of_the_run(table: Path) -> None:
    # Steps that are too short to change anything, and the biased coins of a dropout.
    begun = simulate(own(table, "seeded", "learning.rate=1e-30", "simulation.runs=3", "simulation.seed=7")).models
    for number, model in enumerate(begun):
        at_node = first_token(own(table, "seeded", f"simulation.seed={7 + number}"))
        assert at_node.any()
        assert model.astype(at_node.dtype).tobytes() == at_node.tobytes()
    assert not np.allclose(begun[0], begun[1])


def test_the_papers_network_begins_like_that_too(images: Path) -> None:
    still = run(images, "learning.rate=1e-30", "privacy.noise_multiplier=0", "simulation.runs=1", "schedule.steps=2")
    at_node = first_token(still)
    assert simulate(still).models[0].astype(at_node.dtype).tobytes() == at_node.tobytes()


def test_runs_that_begin_alike_do_not_share_their_noise(table: Path) -> None:
    """Run 1 of seed 7 and run 0 of seed 8 have the same first weights, and nothing else."""
    noisy = (
        "privacy.noise_multiplier=1",
        "simulation.runs=2",
        "learning.batch=8",
        "delay.skip=0",
        "schedule.name=ring",
    )
    seven, eight = (simulate(own(table, "seeded", *noisy, f"simulation.seed={seed}")).models for seed in (7, 8))
    start = first_token(own(table, "seeded", "simulation.seed=8"))
    moved = np.corrcoef(seven[1] - start, eight[0] - start)[0, 1]
    assert abs(moved) < 0.6  # 53 parameters


def test_the_ridge_counts_for_the_papers_network_as_well(images: Path) -> None:
    changes = ("simulation.runs=1", "schedule.steps=4", "delay.skip=0", "learning.rate=1e-6")
    free, shrunk = (simulate(run(images, *changes, f"model.ridge={ridge}")).models[0] for ridge in (0.0, 1e5))
    left = math.prod(1.0 - 0.1 / math.sqrt(update) for update in range(1, 5))
    assert shrunk == pytest.approx(left * free, abs=1e-4)
    assert np.abs(free).max() > 0.1


def test_a_result_says_which_function_it_was(table: Path) -> None:
    result = simulate(own(table, "net", "privacy.noise_multiplier=3", "simulation.runs=2"))
    assert result.resolved.model == "walking_models:net"
    assert result.resolved.parameters == 6 * 5 + 5 + 5 * 3 + 3 == result.models.shape[1]
    assert "torch" in result.versions
    assert result.privacy.not_amplified_because is not None
    record = planned_run(schedule="random-ring", nodes=4, steps=20, skip=0.2, noise_multiplier=3.0, convex=False)
    assert result.privacy.epsilon == pytest.approx(forecast(record).epsilon(1e-5), rel=1e-6)
    model = build(own(table, "number", label="amount")).model
    assert isinstance(model, NeuralModel)
    assert (model.classes, model.gradient_bound) == (0, 0.7)


def test_a_dropout_draws_the_same_again_and_nothing_when_tested(table: Path) -> None:
    torch.manual_seed(2024)
    before = torch.random.get_rng_state()
    first = simulate(own(table, "seeded", "simulation.runs=3", "learning.batch=8"))
    assert torch.equal(torch.random.get_rng_state(), before)
    torch.manual_seed(3)
    again = simulate(own(table, "seeded", "simulation.runs=3", "learning.batch=8"))
    assert again.models.tobytes() == first.models.tobytes()
    assert again.test_error.tobytes() == first.test_error.tobytes()
    assert not np.allclose(first.models[0], first.models[1])
    still = simulate(own(table, "seeded", "learning.rate=1e-30"))
    assert len(set(still.test_error[0])) == 1


@pytest.mark.parametrize(
    ("function", "label"),
    [
        ("nothing", "kind"),
        ("words", "kind"),
        ("normed", "kind"),
        ("lazy", "kind"),
        ("wide", "kind"),
        ("narrow", "kind"),
        ("net", "amount"),
        ("number", "kind"),
    ],
)
def test_simulations_refuse_a_module_in_the_same_words_as_nodes(table: Path, function: str, label: str) -> None:
    run = own(table, function, label=label)
    with pytest.raises(InvalidInput) as at_node:
        make_learner(run, index=0, nodes=4, name="ann", data=OwnData(), rng=np.random.default_rng())
    with pytest.raises(InvalidInput) as in_simulation:
        simulate(run)
    assert str(in_simulation.value) == str(at_node.value)
    assert str(at_node.value).startswith(f"model.name = walking_models:{function}: ")


def test_a_function_must_make_a_new_module_for_every_run(table: Path) -> None:
    with pytest.raises(InvalidInput, match="must return a new module of the same size every time"):
        simulate(own(table, "once"))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("model.device=tpu", "model.device = tpu: must be auto, cpu or cuda"),
        ("model.ridge=-1", "model.ridge = -1"),
        ("learning.diameter=0", "learning.diameter = 0"),
        ("schedule.name=gossip", "schedule.name = gossip: is there for linear models"),
    ],
)
def test_settings_that_mean_nothing_are_refused(table: Path, change: str, said: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        simulate(own(table, "net", change))
    assert str(refusal.value).startswith(said)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
@pytest.mark.parametrize(("function", "label"), [("net", "kind"), ("folded", "kind"), ("number", "amount")])
def test_a_gpu_simulates_a_function_as_the_cpu_does(table: Path, function: str, label: str) -> None:
    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        cpu, gpu = (
            simulate(own(table, function, f"model.device={device}", "model.ridge=0.1", label=label))
            for device in ("cpu", "cuda")
        )
    assert gpu.models[0] == pytest.approx(cpu.models[0], abs=1e-4)
    assert gpu.test_error[0, 0] == pytest.approx(cpu.test_error[0, 0], rel=1e-4)


@pytest.mark.parametrize("unit", ["node", "record"])
def test_a_network_computes_on_the_rows_that_fit(table: Path, unit: str) -> None:
    changes = [f"privacy.protects={unit}", "delay.law=constant:0.1", "delay.timeout=1"]
    changes += ["learning.batch=10"] if unit == "record" else []

    def walked(*more: str) -> RunOutput:
        setup = build(own(table, "net", *changes, *more))
        return run_one(setup, 0)

    plain = walked()
    everything = walked("compute.law=constant:0.9", "compute.late=fewer-rows")
    assert everything.model == pytest.approx(plain.model, abs=1e-6)
    half = walked("compute.law=constant:1.8", "compute.late=fewer-rows")
    assert half.updated.all()
    assert np.abs(half.model - plain.model).max() > 1e-4
    nothing = walked("compute.law=constant:1.8")
    assert nothing.passed_on.all()
    assert nothing.updates[-1] == 0


@pytest.mark.parametrize("ready", ["kept", "ahead"])
def test_a_network_s_nodes_remember_what_they_prepared(table: Path, ready: str) -> None:
    setup = build(own(table, "net", "delay.law=constant:0.5", "delay.timeout=0.3", f"delay.ready={ready}"))
    output = run_one(setup, 0)
    assert 0 < output.updates[-1] < 20
    assert output.updates[-1] == output.updated.sum()
