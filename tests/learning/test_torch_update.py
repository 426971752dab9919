"""The update of a network: as a token, a node and a GPU make it, against a plain one in double precision."""

from __future__ import annotations

import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from given_noise import Given
from numpy.typing import NDArray
from tokens import token_with
from torch import nn

from skipring.errors import InvalidInput
from skipring.learning import NeuralModel, Protection, Rows
from skipring.learning.neural import NeuralToken
from skipring.learning.torch_learner import TorchLearner
from skipring.learning.torch_module import drawn, maker
from skipring.learning.torch_update import answer_errors, batch_loss, clip_, project_, step_

MODULES = """
import torch
from torch import nn

def net(): return nn.Sequential(nn.Linear(6, 5), nn.SELU(), nn.Linear(5, 3))
def number(): return nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))

class Dull(nn.Linear):
    def forward(self, x):
        return torch.zeros(len(x), 3)

def dull(): return Dull(6, 3)
"""
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
Floats = NDArray[np.float64]


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    (tmp_path / "twin_models.py").write_text(MODULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "twin_models", raising=False)


def some_rows(classes: int, count: int = 12) -> Rows:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((count + 7, 6))
    y = np.argmax(x[:, :3], axis=1) if classes else x @ rng.standard_normal(6)
    return Rows(x[:count], y[:count], x[count:], y[count:], classes)


def model_of(function: str, classes: int, **changes: Any) -> NeuralModel:
    return NeuralModel(name=f"twin_models:{function}", features=6, classes=classes, device="cpu", **changes)


def token_of(model: NeuralModel, rows: Rows, **changes: Any) -> NeuralToken:
    kind = np.int64 if rows.classes else np.float32
    return token_with(
        drawn(maker(model), 1),
        torch.from_numpy(rows.train_x.astype(np.float32)),
        torch.from_numpy(rows.train_y.astype(kind)),
        batch=len(rows.train_x),
        gradient_bound=model.clip,
        diameter=model.diameter,
        ridge=model.ridge,
        protects="node",
        **changes,
    )


def plain_gradient(model: NeuralModel, w: Floats, rows: Rows) -> Floats:
    """The gradient of the mean loss, in double precision, row after row."""
    module = drawn(maker(model), 1).double()
    nn.utils.vector_to_parameters(torch.from_numpy(w), module.parameters())
    total = np.zeros(len(w))
    for x, y in zip(rows.train_x, rows.train_y, strict=True):
        answer = module(torch.from_numpy(x)[None, :])
        if rows.classes:
            loss = torch.logsumexp(answer[0], 0) - answer[0, int(y)]
        else:
            loss = 0.5 * (answer[0, 0] - float(y)) ** 2
        parts = torch.autograd.grad(loss, list(module.parameters()))
        total += torch.cat([part.reshape(-1) for part in parts]).numpy()
    return total / len(rows.train_x)


def plain_update(model: NeuralModel, w: Floats, rows: Rows, size: float, noise: Floats) -> Floats:
    gradient = plain_gradient(model, w, rows)
    length = float(np.linalg.norm(gradient))
    if model.clip is not None and length > model.clip:
        gradient *= model.clip / length
    w = (1.0 - size * model.ridge) * w - size * (gradient + noise)
    length = float(np.linalg.norm(w))
    return w * model.radius / length if length > model.radius else w


@pytest.mark.sample(10)
@pytest.mark.parametrize("std", [0.0, 0.2])
@pytest.mark.parametrize("diameter", [None, 3.0])
@pytest.mark.parametrize("ridge", [0.0, 0.3])
@pytest.mark.parametrize("clip", [100.0, 0.05])
@pytest.mark.parametrize(("function", "classes"), [("net", 3), ("number", 0)])
def test_a_token_and_a_node_make_the_plain_update(
    function: str, classes: int, clip: float, ridge: float, diameter: float | None, std: float
) -> None:
    model, rows = model_of(function, classes, clip=clip, ridge=ridge, diameter=diameter), some_rows(classes)
    token = token_of(model, rows, seed=9)
    node = TorchLearner(model, rows, protection=Protection(unit="node"), seed=1, rng=np.random.default_rng(1))
    stream = torch.Generator().manual_seed(9)
    w = node.initial()
    plain = w.astype(np.float64)
    assert token.parameters().tobytes() == w.tobytes()
    for update in range(1, 6):
        size = 0.4 / math.sqrt(update)
        numbers = torch.randn(len(w), generator=stream).numpy().astype(np.float64)
        token.update(torch.arange(len(rows.train_x)), step_size=size, noise_std=std)
        w = node.update(w, turn=0, step_size=size, noise_multiplier=std / clip, noise=Given(numbers))
        plain = plain_update(model, plain, rows, size, std * numbers)
        assert token.parameters() == pytest.approx(plain, abs=5e-6)
        assert w == pytest.approx(plain, abs=5e-6)
    test = (torch.from_numpy(rows.test_x.astype(np.float32)), torch.from_numpy(rows.test_y))
    assert token.error(*test) == pytest.approx(node.test_error(w), rel=1e-4)


@pytest.mark.parametrize("length", [1e-6, 0.3, 1.0 - 1e-7, 1.0, 1.0 + 1e-7, 2.0, 1e17])
def test_rounding_never_lifts_a_clipped_gradient_above_its_bound(length: float) -> None:
    rng = np.random.default_rng(1)
    for bound in (*rng.uniform(0.3, 3.0, 50), 1.0):
        direction = rng.standard_normal(1000)
        gradient = torch.from_numpy((bound * length / np.linalg.norm(direction) * direction).astype(np.float32))
        before = gradient.numpy().astype(np.float64)
        clip_(torch.split_with_sizes(gradient, [1, 0, 599, 400]), bound)
        after = gradient.numpy().astype(np.float64)
        assert np.linalg.norm(after) <= bound
        expected = before * min(1.0, bound / np.linalg.norm(before))
        assert np.linalg.norm(after - expected) <= 2e-5 * np.linalg.norm(expected)


@pytest.mark.parametrize("first", [0.0, 1e4])
def test_a_long_gradient_is_measured_in_double_precision(first: float) -> None:
    """In single precision a CPU finds it shorter than it is, by 0.3 % where a few numbers are large."""
    gradient = torch.randn(7_655_754, generator=torch.Generator().manual_seed(1))
    gradient[:8] += first
    clip_([gradient], 1.0)
    assert 1.0 - 2e-5 < float(gradient.double().norm()) <= 1.0


@pytest.mark.parametrize("worth", [math.nan, math.inf, -math.inf, 1e30])
def test_a_gradient_that_is_not_finite_or_whose_square_is_not_becomes_0(worth: float) -> None:
    pieces = [torch.ones(3), torch.tensor([1.0, worth])]
    clip_(pieces, 0.5)
    assert not torch.cat(pieces).any()
    clip_(pieces, 0.5)  # a gradient of 0 stays
    assert not torch.cat(pieces).any()


@pytest.mark.parametrize("kind", ["token", "node"])
def test_the_ridge_is_neither_clipped_nor_hidden(kind: str) -> None:
    """Where the answer depends on no parameter, the gradient is 0 and the ridge alone moves the parameters."""
    model, rows = model_of("dull", 3, clip=1e-3, ridge=0.5), some_rows(3)
    node = TorchLearner(model, rows, protection=Protection(unit="node"), seed=1, rng=np.random.default_rng(1))
    start = node.initial()
    if kind == "token":
        token = token_of(model, rows)
        token.update(torch.arange(len(rows.train_x)), step_size=0.4, noise_std=0.0)
        found = token.parameters()
    else:
        found = node.update(start.copy(), turn=0, step_size=0.4, noise_multiplier=0.0, noise=Given(np.zeros(0)))
    assert found == pytest.approx(0.8 * start, rel=1e-6)


def test_steps_and_projections_happen_in_place() -> None:
    w, size = torch.tensor([3.0, 4.0]), torch.tensor(0.5)
    step_(w, torch.tensor([2.0, 0.0]), size, 0.0)
    assert w.tolist() == [2.0, 4.0]
    step_(w, torch.tensor([2.0, 0.0]), size, 1.0)
    assert w.tolist() == [0.0, 2.0]
    for radius, length in ((math.inf, 2.0), (2.0, 2.0), (0.5, 0.5)):
        project_(w, radius)
        assert w.tolist() == [0.0, length]
    project_(origin := torch.zeros(2), 0.5)
    assert origin.tolist() == [0.0, 0.0]


def test_losses_and_errors_follow_the_kind_of_label() -> None:
    scores, classes = torch.tensor([[2.0, 0.0], [0.0, 0.0], [0.0, 1.0]]), torch.tensor([0, 1, 0])
    expected = np.mean([math.log(1.0 + math.exp(-2.0)), math.log(2.0), math.log(1.0 + math.exp(1.0))])
    assert float(batch_loss(scores, classes)) == pytest.approx(expected, rel=1e-6)
    assert answer_errors(scores, classes).tolist() == [0.0, 1.0, 1.0]
    answers, numbers = torch.tensor([[1.0], [2.0]]), torch.tensor([1.5, 0.0])
    assert float(batch_loss(answers, numbers)) == 0.5 * (0.25 + 4.0) / 2.0
    assert answer_errors(answers, numbers).tolist() == [0.25, 4.0]
    assert float(answer_errors(answers, torch.tensor([1e30, 0.0]))[0]) == pytest.approx(1e60)  # no overflow


def test_updates_may_have_any_number_of_rows_unless_a_batch_is_given() -> None:
    model, rows = model_of("net", 3, clip=1.0), some_rows(3)
    labels = torch.from_numpy(rows.train_y)
    images = torch.from_numpy(rows.train_x.astype(np.float32))
    free = token_with(drawn(maker(model), 1), images, labels, batch=None, gradient_bound=1.0, protects="node")
    fixed = token_with(drawn(maker(model), 1), images, labels, batch=5, gradient_bound=1.0, protects="node")
    for token in (free, fixed):
        token.update(torch.arange(5), step_size=0.5, noise_std=0.0)
    assert torch.equal(free.vector, fixed.vector)
    free.update(torch.arange(8), step_size=0.5, noise_std=0.0)
    with pytest.raises(InvalidInput, match="5 row numbers, the batch"):
        fixed.update(torch.arange(8), step_size=0.5, noise_std=0.0)
    with pytest.raises(InvalidInput, match="a fixed number of rows"):
        token_with(drawn(maker(model), 1), images, labels, batch=None, graph=True, protects="node")


def test_accountants_need_no_pytorch() -> None:
    program = (
        "import sys; from skipring.learning import NeuralModel;"
        "mine, cnn = NeuralModel(name='clinic:net', features=6, classes=0, clip=2.0), NeuralModel(features=784);"
        "print(mine.gradient_bound, mine.contracts(0.1), mine.name, cnn.parameters, 'torch' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["2.0", "False", "clinic:net", "279498", "False"]


def test_a_models_settings_are_checked() -> None:
    assert model_of("net", 3).parameters == 6 * 5 + 5 + 5 * 3 + 3
    assert model_of("net", 3).radius == math.inf
    for changes, parameter in (
        ({"ridge": -1.0}, "ridge"),
        ({"clip": 0.0}, "gradient_bound"),
        ({"diameter": math.inf}, "diameter"),
    ):
        with pytest.raises(InvalidInput) as refused:
            model_of("net", 3, **changes)
        assert refused.value.parameter == parameter
    with pytest.raises(InvalidInput, match="labels are numbers"):
        NeuralModel(features=784, classes=0)
    with pytest.raises(InvalidInput, match="small-cnn or module:function"):
        NeuralModel(features=784, name="mlp")


def small() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.SELU(), nn.Flatten(), nn.Linear(3 * 4 * 4, 5))


@needs_gpu
@pytest.mark.parametrize("ridge", [0.0, 0.1])
@pytest.mark.parametrize(("clip", "diameter"), [(0.05, None), (100.0, 2.0), (None, None)])
def test_a_cuda_graph_makes_the_plain_update(ridge: float, clip: float | None, diameter: float | None) -> None:
    """Without noise against the CPU; with noise, and with a row that is not a number, against eager."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(40, 1, 6, 6, generator=generator)
    labels = torch.randint(0, 5, (40,), generator=generator)

    def made(device: str, graph: bool) -> NeuralToken:
        return token_with(
            drawn(small, 3),
            images,
            labels,
            batch=8,
            protects="node",
            gradient_bound=clip,
            diameter=diameter,
            ridge=ridge,
            device=device,
            graph=graph,
            compile_loss=False,
            bf16=False,
        )

    def run(token: NeuralToken, std: float) -> list[NDArray[np.float32]]:
        token.restart(small, 7)
        found = []
        for update in range(6):
            token.update(torch.arange(5 * update, 5 * update + 8), step_size=0.3, noise_std=std)
            found.append(token.parameters())
        return found

    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        plain, eager, graph = made("cpu", False), made("cuda", False), made("cuda", True)
        expected = run(plain, 0.0)
        for token in (eager, graph):
            for mine, theirs in zip(run(token, 0.0), expected, strict=True):
                assert mine == pytest.approx(theirs, abs=2e-5)
        for mine, theirs in zip(run(graph, 0.5), run(eager, 0.5), strict=True):
            assert mine == pytest.approx(theirs, abs=2e-5)
        if clip is None:
            return
        for token in (plain, eager, graph):
            token._images[3] = math.nan
            before = token.parameters()
            token.update(torch.arange(8), step_size=0.3, noise_std=0.0)
            assert token.parameters() == pytest.approx((1.0 - 0.3 * ridge) * before, abs=1e-6)


@needs_gpu
@pytest.mark.parametrize("size", [1_000, 279_498, 7_655_754, 1 << 25])
def test_a_gpu_never_lifts_a_clipped_gradient_above_its_bound(size: int) -> None:
    generator = torch.Generator("cuda").manual_seed(1)
    several = [torch.randn(size, generator=generator, device="cuda") for _ in range(2)]
    several[1][:8] += 1e4
    for kind in (*several, torch.ones(size, device="cuda")):
        for bound in (0.3, 1.0, 2.7):
            gradient = kind.clone()
            clip_([gradient], bound)
            assert bound * (1.0 - 2e-5) < float(gradient.double().norm()) <= bound
