"""Updates that protect a person or a record: as a token, a node and a GPU make them, against a plain one."""

from __future__ import annotations

import dataclasses
import math
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest
import torch
from given_noise import Given
from numpy.typing import NDArray
from tokens import token_with
from torch import nn

from skipring.errors import InvalidInput
from skipring.learning import NeuralModel, NothingFits, Protection, Rows, deal_parts, parts_stream
from skipring.learning.neural import NeuralToken
from skipring.learning.torch_learner import TorchLearner
from skipring.learning.torch_module import drawn, maker, paper_cnn
from skipring.learning.torch_update import batch_loss
from skipring.privacy import Unit

MODULES = """
import torch
from torch import nn

def net(): return nn.Sequential(nn.Linear(6, 5), nn.SELU(), nn.Linear(5, 3))
def number(): return nn.Sequential(nn.Linear(6, 4), nn.Tanh(), nn.Linear(4, 1))

class Sequence(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner, self.last = nn.LSTM(2, 3, batch_first=True), nn.Linear(3, 3)
    def forward(self, x):
        return self.last(self.inner(x.reshape(len(x), 3, 2))[0][:, -1])

class Dull(nn.Linear):
    def forward(self, x):
        return torch.zeros(len(x), 3)

def sequence(): return Sequence()
def dull(): return Dull(6, 3)
def normed(): return nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3, track_running_stats=False))
"""
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
Floats = NDArray[np.float64]
PERSONS = np.array([7, 7, 3, 9, 3, 3, 1, 2, 2, 8, 0, 9])
Protected = Literal["person", "record"]


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    (tmp_path / "unit_models.py").write_text(MODULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "unit_models", raising=False)


def some_rows(classes: int, count: int = 12) -> Rows:
    rng = np.random.default_rng(4)
    x = rng.standard_normal((count, 6))
    y = np.argmax(x[:, :3], axis=1) if classes else x @ rng.standard_normal(6)
    return Rows(x, y, x[:0], y[:0], classes)


def model_of(function: str, classes: int, **changes: Any) -> NeuralModel:
    return NeuralModel(name=f"unit_models:{function}", features=6, classes=classes, device="cpu", **changes)


def token_of(model: NeuralModel, rows: Rows, **changes: Any) -> NeuralToken:
    kind = np.int64 if rows.classes else np.float32
    x, y = torch.from_numpy(rows.train_x.astype(np.float32)), torch.from_numpy(rows.train_y.astype(kind))
    given = {"gradient_bound": model.clip, "ridge": model.ridge, "rows_per_person": 3, "divisor": 20, "batch": None}
    return token_with(drawn(maker(model), 1), x, y, **{**given, **changes})


def plain_update(
    model: NeuralModel, w: Floats, rows: Rows, units: NDArray[Any], divisor: int, size: float, noise: Floats
) -> Floats:
    """In double precision, unit after unit."""
    module = drawn(maker(model), 1).double()
    nn.utils.vector_to_parameters(torch.from_numpy(w), module.parameters())
    total = np.zeros(len(w))
    for unit in set(units):
        own = np.flatnonzero(units == unit)
        answers = module(torch.from_numpy(rows.train_x[own]))
        loss = len(own) * batch_loss(answers, torch.from_numpy(rows.train_y[own]))
        parts = torch.autograd.grad(loss, list(module.parameters()))
        each = torch.cat([part.reshape(-1) for part in parts]).numpy()
        total += each * min(1.0, (model.clip or math.inf) / float(np.linalg.norm(each)))
    return (1.0 - size * model.ridge) * w - size * (total / divisor + noise)


@pytest.mark.sample(12)
@pytest.mark.parametrize("batch", [None, 12, 15])
@pytest.mark.parametrize("clip", [100.0, 0.3])
@pytest.mark.parametrize("protects", ["person", "record"])
@pytest.mark.parametrize(("function", "classes"), [("net", 3), ("number", 0), ("sequence", 3)])
def test_a_token_and_a_node_make_the_plain_update(
    function: str, classes: int, protects: Protected, clip: float, batch: int | None
) -> None:
    """All rows at once, also in a batch with room for more of them."""
    model, rows = model_of(function, classes, clip=clip, ridge=0.1), some_rows(classes)
    units = PERSONS if protects == "person" else np.arange(12)
    x, y = (np.concatenate([each, each]) for each in (rows.train_x, rows.train_y))
    filled = Rows(x, y, rows.test_x, rows.test_y, classes)
    token = token_of(model, filled, seed=9, protects=protects, batch=batch, divisor=60)
    protection = Protection(unit=protects, batch=60, rows_per_person=3 if protects == "person" else 1)
    rows = dataclasses.replace(rows, persons=PERSONS)
    node = TorchLearner(model, rows, protection=protection, seed=1, rng=np.random.default_rng(1))
    unit = protection.noise_std(model, 1.0)
    assert unit == clip / 60
    stream = torch.Generator().manual_seed(9)
    w = node.initial()
    plain, std = w.astype(np.float64), 0.01
    for update in range(1, 5):
        size = 0.8 / update
        numbers = torch.randn(len(w), generator=stream).numpy().astype(np.float64)
        whose = torch.from_numpy(PERSONS) if protects == "person" else None
        token.update(torch.arange(12), whose, step_size=size, noise_std=std)
        w = node.update(w, turn=0, step_size=size, noise_multiplier=std / unit, noise=Given(numbers))
        plain = plain_update(model, plain, rows, units, 60, size, std * numbers)
        assert token.parameters() == pytest.approx(plain, abs=5e-6)
        assert w == pytest.approx(plain, abs=5e-6)


@pytest.mark.parametrize("clip", [100.0, 0.3])
@pytest.mark.parametrize("protects", ["person", "record", "node"])
def test_an_update_that_is_cut_into_pieces_is_that_of_the_units_in_them(protects: Unit, clip: float) -> None:
    """No person is in two pieces, or each of them would be clipped by itself: two bounds instead of one."""
    model = model_of("net", 3, clip=clip if protects != "node" else 1e6)  # a mean is clipped after it is added up
    rows = dataclasses.replace(some_rows(3), persons=PERSONS)
    batch = None if protects == "node" else 60
    protection = Protection(unit=protects, batch=batch, rows_per_person=3 if protects == "person" else 1)
    node = TorchLearner(model, rows, protection=protection, seed=1, rng=np.random.default_rng(1))
    start, counts = node.initial(), []

    def moved(*pieces: slice) -> NDArray[Any]:
        def cut(count: int) -> list[slice]:
            counts.append(count)
            return list(pieces) or [slice(0, count)]

        w = node.update(start.copy(), turn=0, step_size=1.0, noise_multiplier=0.0, noise=Given(start), pieces=cut)
        return (w - start).astype(np.float64)

    units = len(np.unique(PERSONS)) if protects == "person" else 12
    each = [moved(slice(at, at + 1)) for at in range(units)]
    assert set(counts) == {units}
    all_of, three = (1.0, 1.0) if protects != "node" else (1.0 / 12, 1.0 / 3)  # of a node the mean of what was taken
    assert moved() == pytest.approx(all_of * np.sum(each, axis=0), abs=2e-6)
    assert moved(slice(1, 3), slice(0, 1)) == pytest.approx(three * (each[0] + each[1] + each[2]), abs=2e-6)
    if protects != "node":
        assert max(np.linalg.norm(one) for one in each) <= clip / 60
    with pytest.raises(NothingFits):
        node.update(start, turn=0, step_size=1.0, noise_multiplier=0.0, noise=Given(start), pieces=lambda count: [])


@pytest.mark.parametrize("batch", [None, 5])
def test_fewer_rows_are_divided_by_the_same_constant(batch: int | None) -> None:
    model, rows = model_of("net", 3, clip=0.3), some_rows(3)
    moved = []
    for count in (5, 2, 5):  # a batch that was full leaves nothing behind
        token = token_of(model, rows, protects="record", batch=batch)
        start = token.parameters()
        token.update(torch.arange(count), step_size=1.0, noise_std=0.0)
        moved.append(token.parameters() - start)
        one_by_one = []
        for row in range(count):
            token.restart(maker(model), 1)
            token.update(torch.tensor([row]), step_size=1.0, noise_std=0.0)
            one_by_one.append(token.parameters() - start)
            assert np.linalg.norm(one_by_one[-1].astype(np.float64)) <= 0.3 / 20 * (1.0 + 1e-5)
        assert moved[-1] == pytest.approx(np.sum(one_by_one, axis=0), abs=1e-6)
    assert moved[0].tobytes() == moved[2].tobytes()


@pytest.mark.parametrize("kind", ["token", "node"])
def test_the_ridge_is_neither_clipped_nor_hidden(kind: str) -> None:
    model, rows = model_of("dull", 3, clip=1e-3, ridge=0.5), some_rows(3)
    protection = Protection(unit="record", batch=20)
    node = TorchLearner(model, rows, protection=protection, seed=1, rng=np.random.default_rng(1))
    start = node.initial()
    if kind == "token":
        token = token_of(model, rows, protects="record")
        token.update(torch.arange(12), step_size=0.4, noise_std=0.0)
        found = token.parameters()
    else:
        found = node.update(start.copy(), turn=0, step_size=0.4, noise_multiplier=0.0, noise=Given(np.zeros(0)))
    assert found == pytest.approx(0.8 * start, rel=1e-6)


def test_what_could_not_be_accounted_for_is_refused() -> None:
    model, rows = model_of("net", 3, clip=0.3), some_rows(3)
    for changes, parameter in (
        ({"protects": "patient"}, "protects"),
        ({"divisor": None}, "batch"),
        ({"divisor": 0}, "batch"),
        ({"batch": 12, "divisor": 11}, "batch"),
        ({"gradient_bound": None}, "gradient_bound"),
        ({"rows_per_person": 0, "protects": "person"}, "rows_per_person"),
    ):
        with pytest.raises(InvalidInput) as refused:
            token_of(model, rows, **{"protects": "record", **changes})
        assert refused.value.parameter == parameter
    with pytest.raises(InvalidInput, match="mixes the records"):
        token_of(model_of("normed", 3, clip=0.3), rows, protects="record")
    token = token_of(model, rows, protects="record", divisor=5)
    with pytest.raises(InvalidInput, match="at most 5 rows"):
        token.update(torch.arange(6), step_size=1.0, noise_std=0.0)
    with pytest.raises(InvalidInput, match="twice the share"):
        token.update(torch.tensor([1, 2, 1]), step_size=1.0, noise_std=0.0)
    token = token_of(model, rows, protects="person", rows_per_person=2)
    for units, reason in ((None, "person of each"), ([1, 2], "person of each"), ([4, 4, 4], "3 rows of one person")):
        given = None if units is None else torch.tensor(units)
        with pytest.raises(InvalidInput, match=reason):
            token.update(torch.arange(3), given, step_size=1.0, noise_std=0.0)
    rng = np.random.default_rng(1)
    with pytest.raises(InvalidInput, match="whose it is"):
        TorchLearner(model, rows, protection=Protection(unit="person", batch=20), seed=1, rng=rng)


def test_a_node_with_more_rows_than_a_batch_rotates() -> None:
    model, rows, protection = model_of("net", 3, clip=0.3), some_rows(3), Protection(unit="record", batch=5)
    node = TorchLearner(
        model, rows, protection=protection, seed=1, rng=np.random.default_rng(1), dealt=parts_stream(3, 1)
    )
    parts = deal_parts(12, protection, parts_stream(3, 1))
    assert node.parts == len(parts) == 3
    w = node.initial()
    for turn in (1, 5, 6):
        found = node.update(w.copy(), turn=turn, step_size=0.5, noise_multiplier=0.0, noise=Given(np.zeros(0)))
        own = parts[turn % 3]
        mine = dataclasses.replace(rows, train_x=rows.train_x[own], train_y=rows.train_y[own])
        plain = plain_update(model, w.astype(np.float64), mine, np.arange(len(own)), 5, 0.5, np.zeros(len(w)))
        assert found == pytest.approx(plain, abs=5e-6)


def small() -> nn.Module:
    return nn.Sequential(
        nn.Conv2d(1, 3, 3), nn.GroupNorm(3, 3), nn.SELU(), nn.Conv2d(3, 20, 3), nn.Flatten(), nn.Linear(20 * 4, 5)
    )


@needs_gpu
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("protects", ["person", "record"])
def test_a_cuda_graph_makes_the_plain_update(protects: Protected, compiled: bool) -> None:
    """Without noise against the CPU; batches that are not full, and a row that is not a number, included."""
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(40, 1, 6, 6, generator=generator)
    labels = torch.randint(0, 5, (40,), generator=generator)
    images[30] = math.nan

    def made(device: str, graph: bool) -> NeuralToken:
        return token_with(
            drawn(small, 3),
            images,
            labels,
            batch=8,
            gradient_bound=0.3,
            protects=protects,
            divisor=9,
            rows_per_person=3,
            device=device,
            graph=graph,
            compile_loss=graph and compiled,
            bf16=False,
        )

    def run(token: NeuralToken) -> list[NDArray[np.float32]]:
        token.restart(small, 7)
        found = []
        for update in range(8):
            rows = torch.arange(4 * update, 4 * update + 8 - update % 3)
            token.update(rows, rows // 3 if protects == "person" else None, step_size=0.3, noise_std=0.0)
            found.append(token.parameters())
        return found

    with torch.backends.cudnn.flags(enabled=True, benchmark=False, deterministic=True, allow_tf32=False):
        expected = run(made("cpu", False))
        assert np.isfinite(expected[-1]).all()
        for token in (made("cuda", False), made("cuda", True)):
            for mine, theirs in zip(run(token), expected, strict=True):
                assert mine == pytest.approx(theirs, abs=1e-4)


def mnist() -> nn.Module:
    return paper_cnn("mnist")


@needs_gpu
@pytest.mark.parametrize("graph", [False, True])
def test_a_gpu_in_bfloat16_lets_no_record_exceed_its_share(graph: bool) -> None:
    generator = torch.Generator().manual_seed(1)
    images = 2.0 * torch.rand(12, 1, 28, 28, generator=generator) - 1.0
    token = token_with(
        drawn(mnist, 1),
        images,
        torch.arange(12) % 10,
        batch=12,
        gradient_bound=0.5,
        protects="record",
        divisor=12,
        device="cuda",
        graph=graph,
        compile_loss=graph,
    )
    for row in range(12):
        token.restart(mnist, 1)
        token.update(torch.tensor([row]), step_size=1.0, noise_std=0.0)
        assert 0.4 < 12.0 * float(token._gradient.double().norm()) <= 0.5
