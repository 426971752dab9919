"""Clipped gradients of records and persons: random networks against torch.func, bounds, refusals, rounding."""

from __future__ import annotations

import math
import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from tokens import unit_gradients
from torch import nn
from torch.func import functional_call, grad, vmap

from skipring.errors import InvalidInput
from skipring.learning import Hardware, torch_layers
from skipring.learning.torch_layers import LAYERS, Units
from skipring.learning.torch_update import BELOW, batch_loss

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no GPU")
pytestmark = pytest.mark.usefixtures("one_thread")


def each_row(module: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """The gradient of each row's loss by torch.func, in double precision: (rows, parameters)."""
    double = {name: value.detach().double() for name, value in module.named_parameters()}

    def loss(learned: dict[str, torch.Tensor], row: torch.Tensor, label: torch.Tensor) -> torch.Tensor:
        answers: torch.Tensor = functional_call(module, {**double, **learned}, (row[None],))
        return batch_loss(answers, label[None])

    learned = {name: double[name] for name, value in module.named_parameters() if value.requires_grad}
    found = vmap(grad(loss), in_dims=(None, 0, 0), randomness="different")(learned, x.double(), y)
    return torch.cat([each.flatten(1) for each in found.values()], dim=1)


def judged(rows: torch.Tensor, units: torch.Tensor, bound: float) -> torch.Tensor:
    """The sum of clipped units from the rows' gradients, unit after unit."""
    total = torch.zeros(rows.shape[1], dtype=torch.float64)
    for unit in set(units.tolist()):
        each = rows[units == unit].sum(0)
        if torch.isfinite(each).all():
            total += each * min(1.0, bound / max(float(each.norm()), 1e-300))
    return total


def flat(found: list[torch.Tensor]) -> torch.Tensor:
    return torch.cat([each.reshape(-1) for each in found]).double()


class Words(nn.Module):
    """Numbers below 7 that stand for words, and a layer that sees all of them one by one."""

    def __init__(self, learns: bool = True) -> None:
        super().__init__()
        self.table = nn.Embedding(7, 5, padding_idx=2 if learns else None)
        self.inner, self.norm, self.last = nn.Linear(5, 4), nn.LayerNorm(4), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        words = (x.flatten(1).abs() * 3.0).long() % 7
        last: torch.Tensor = self.last(torch.tanh(self.norm(self.inner(self.table(words)))).mean(1))
        return last


class Residual(nn.Module):
    """An activation that overwrites its input, and a way around a layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Conv1d(3, 4, 3, padding=1), nn.Conv1d(4, 4, 1), nn.Linear(4, 3)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.act(self.first(x.flatten(1)[:, :36].reshape(len(x), 3, 12)))
        last: torch.Tensor = self.last((x + self.second(x)).mean(2))
        return last


class Tied(nn.Module):
    """A weight that is used twice, once without its layer."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(6, 6, bias=False), nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = torch.tanh(self.first(x.flatten(1)[:, :6])) @ self.first.weight
        last: torch.Tensor = self.last(x)
        return last


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.MultiheadAttention(4, 2, batch_first=True), nn.Linear(4, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)[:, :20].reshape(len(x), 5, 4)
        last: torch.Tensor = self.last(self.inner(x, x, x, need_weights=False)[0].mean(1))
        return last


class Sequence(nn.Module):
    """Something that neither our layers nor vmap can do."""

    def __init__(self, kind: Any) -> None:
        super().__init__()
        self.inner, self.last = kind(4, 5, batch_first=True), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        last: torch.Tensor = self.last(self.inner(x.flatten(1)[:, :20].reshape(len(x), 5, 4))[0][:, -1])
        return last


class TimeFirst(nn.Module):
    """A layer whose first dimension is not the rows'."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.last = nn.Linear(4, 5), nn.Linear(5, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x.flatten(1)[:, :8].reshape(len(x), 2, 4).transpose(0, 1)
        last: torch.Tensor = self.last(torch.tanh(self.inner(x)).sum(0))
        return last


SHAPES = {1: (4, 30), 2: (2, 8, 8), 3: (2, 5, 5, 6)}


def random_network(seed: int) -> nn.Module:
    """Convolutions of one to three dimensions with all their options, norms, activations, pooling, linear layers."""
    rng, dims = random.Random(seed), seed % 3 + 1
    conv: Any = (nn.Conv1d, nn.Conv2d, nn.Conv3d)[dims - 1]
    pool: Any = (nn.AvgPool1d, nn.MaxPool2d, nn.AvgPool3d)[dims - 1]
    instance: Any = (nn.InstanceNorm1d, nn.InstanceNorm2d, nn.InstanceNorm3d)[dims - 1]
    shape = SHAPES[dims]
    layers: list[nn.Module] = [nn.Unflatten(1, shape)]
    channels = shape[0]
    for _ in range(rng.choice([1, 2, 3])):
        width, padding = rng.choice([2, 4, 6]), rng.choice([0, 1, "same"])
        options = {
            "stride": 1 if padding == "same" else rng.choice([1, 2]),
            "padding": padding,
            "dilation": rng.choice([1, 2]),
            "groups": rng.choice([1, 2]),
            "bias": rng.random() < 0.7,
            "padding_mode": rng.choice(["zeros", "replicate"]),
        }
        layers.append(conv(channels, width, rng.choice([1, 3]) if padding else 1, **options))
        channels = width
        layers += rng.choice(
            [[], [nn.GroupNorm(2, width)], [instance(width, affine=True)], [nn.PReLU(rng.choice([1, width]))]]
        )
        layers.append(rng.choice([nn.ReLU(inplace=True), nn.Tanh(), nn.SELU(), nn.GELU(), nn.Dropout(0.0)]))
        if min(nn.Sequential(*layers)(torch.randn(1, math.prod(shape))).shape[2:]) < 3:
            break
    layers += [pool(1), nn.Flatten()]
    layers += [nn.Linear(nn.Sequential(*layers)(torch.randn(1, math.prod(shape))).shape[1], 5), nn.SiLU()]
    layers += rng.choice([[], [nn.LayerNorm(5)], [nn.RMSNorm(5)]])
    for layer in layers:
        for parameter in layer.parameters():  # also what starts at 1 or 0
            nn.init.normal_(parameter, 0.0, 0.5)
    return nn.Sequential(*layers, nn.Linear(5, 3))


def batch_for(many: int, columns: int, classes: bool = True) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.randn(many, columns)
    return x, torch.randint(0, 3, (many,)) if classes else torch.randn(many)


def check(module: nn.Module, x: torch.Tensor, y: torch.Tensor, one_by_one: bool = False) -> None:
    """Records and persons, clipped more or less, in full and padded batches."""
    rows = each_row(module.double(), x, y)
    module.float()
    many = len(x)
    persons = torch.randint(0, many // 2, (many,))
    used = torch.rand(many) < 0.7
    most = int(persons.bincount().max())
    records = torch.arange(many)
    for quantile in (0.2, 0.8):
        bound = float(rows.norm(dim=1).quantile(quantile)) + 1e-3
        for units, per_unit in ((None, 1), (persons, most)):
            made = unit_gradients(module, bound, x, y, rows=per_unit)
            assert made.one_by_one == one_by_one
            index = records if units is None else units
            expected = judged(rows, index, bound)
            found = flat(made(x, y, units=units))
            assert float((found - expected).norm()) <= 1e-4 * float(expected.norm()) + 1e-7
            expected = judged(rows[used], index[used], bound)
            found = flat(made(x, y, units=units, used=used))
            assert float((found - expected).norm()) <= 1e-4 * float(expected.norm()) + 1e-7


@pytest.mark.parametrize("seed", [*range(8), *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(8, 24))])
def test_random_networks_against_torch_func(seed: int) -> None:
    module = random_network(seed)
    check(module, *batch_for(9, math.prod(SHAPES[seed % 3 + 1])))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # vmap over attention, on a CPU
@pytest.mark.parametrize("made", [Words, Residual, Tied, Attention, TimeFirst])
def test_other_modules_are_computed_unit_by_unit(made: Callable[[], nn.Module]) -> None:
    check(made(), *batch_for(8, 36), one_by_one=True)


@pytest.mark.parametrize("kind", [nn.LSTM, nn.GRU])
def test_what_vmap_cannot_do_is_computed_one_after_the_other(kind: Any) -> None:
    module, (x, y) = Sequence(kind), batch_for(6, 36)
    units, used = torch.tensor([0, 1, 0, 2, 1, 2]), torch.tensor([1, 1, 1, 1, 0, 0])
    rows = []
    for row, label in zip(x, y, strict=True):
        parts = torch.autograd.grad(batch_loss(module(row[None]), label[None]), list(module.parameters()))
        rows.append(torch.cat([part.reshape(-1) for part in parts]).double())
    each = torch.stack(rows)
    made = unit_gradients(module, 0.5, x, y, rows=2)
    assert made.one_by_one
    found, expected = flat(made(x, y, units=units, used=used)), judged(each[:4], units[:4], 0.5)
    assert float((found - expected).norm()) <= 1e-4 * float(expected.norm())
    found, expected = flat(made(x, y)), judged(each, torch.arange(6), 0.5)
    assert float((found - expected).norm()) <= 1e-4 * float(expected.norm())


@pytest.mark.parametrize("frozen", ["0.weight", "0.bias", "2.weight", "2.bias"])
def test_frozen_parameters_count_neither_in_lengths_nor_in_sums(frozen: str) -> None:
    module = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 3))
    module.get_parameter(frozen).requires_grad_(False)
    check(module, *batch_for(8, 6))


def test_numbers_as_labels() -> None:
    module, (x, y) = nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1)), batch_for(8, 6, classes=False)
    check(module, x, y.double())


def test_pieces_are_the_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    """Layers that may keep next to nothing compute a few rows at a time."""
    module = nn.Sequential(
        nn.Unflatten(1, (2, 8, 8)), nn.Conv2d(2, 4, 3), nn.SELU(), nn.Flatten(), nn.Linear(144, 3), nn.LayerNorm(3)
    )
    x, y = batch_for(9, 128)
    units = torch.tensor([0, 0, 0, 1, 5, 5, 2, 2, 3])
    made = unit_gradients(module, 0.3, x, y, rows=3)
    whole = [flat(made(x, y)), flat(made(x, y, units=units))]
    monkeypatch.setitem(torch_layers._KEPT, "cpu", 2000)
    for found, expected in zip([flat(made(x, y)), flat(made(x, y, units=units))], whole, strict=True):
        assert float((found - expected).norm()) <= 1e-5 * float(expected.norm())


@pytest.mark.filterwarnings("ignore:Mismatch dtype")  # torch, of RMSNorm
@pytest.mark.parametrize("bf16", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_no_unit_adds_more_than_the_bound(seed: int, bf16: bool) -> None:
    """Alone in its batch, a unit's share is the whole sum; with products in bfloat16, too."""
    module, x, y = random_network(seed), *batch_for(9, math.prod(SHAPES[seed % 3 + 1]))
    persons = torch.randint(0, 4, (9,))
    for bound in (0.01, 0.3):
        for units in (torch.arange(9), persons):
            made = unit_gradients(
                module,
                bound,
                x,
                y,
                rows=int(units.bincount().max()),
                hardware=Hardware(bf16=bf16),
            )
            for unit in set(units.tolist()):
                length = float(flat(made(x, y, units=units, used=units == unit)).norm())
                assert 0.0 < length <= bound


@pytest.mark.parametrize("kind", [torch.float32, torch.bfloat16])
def test_positions_that_cancel_do_not_lift_a_gradient_above_its_bound(kind: torch.dtype) -> None:
    """Rounding the factor into the output gradients leaves what would have cancelled: the spread bounds it."""
    module, exceeded = nn.Linear(400, 300, bias=False), []
    for seed in range(10):
        generator = torch.Generator().manual_seed(seed)
        x = (1.0 + 0.01 * torch.randn(1, 1, 400, generator=generator)).expand(1, 8, 400).to(kind)
        g = torch.randn(1, 8, 300, generator=generator)
        g = (g - g.mean(1, keepdim=True)).to(kind)
        layer = LAYERS[nn.Linear](module, Units(1), x, g)
        (lengths,) = layer.lengths()
        for bound in (0.01, 1.0, 3.0):
            scale = bound * BELOW / lengths.longest().sqrt()
            ((_, found),) = layer.gradients(scale, torch.tensor([True]))
            assert float(found.double().norm()) <= bound
            ((_, found),) = layer.gradients(bound / lengths.square.sqrt(), torch.tensor([True]))
            exceeded.append(float(found.double().norm()) > bound)
    if kind == torch.bfloat16:  # how far sums are rounded is the processor's affair
        assert sum(exceeded) > 10  # the measured length alone would have let it through


@pytest.mark.parametrize("one_by_one", [False, True])
@pytest.mark.parametrize("worth", [math.nan, math.inf, 1e25])
def test_a_unit_that_is_not_finite_counts_as_0_and_spoils_no_other(worth: float, one_by_one: bool) -> None:
    class Wide(nn.Linear):
        """A layer of another type, so that it is computed unit by unit."""

    first = Wide(6, 5) if one_by_one else nn.Linear(6, 5)
    module = nn.Sequential(nn.Unflatten(1, (4, 6)), first, nn.Identity(), nn.Flatten(), nn.Linear(20, 1))
    x, y = torch.randn(8, 24), torch.randn(8)
    units = torch.tensor([0, 1, 2, 3, 3, 4, 4, 5])
    made = unit_gradients(module, 0.1, x, y, rows=2)
    assert made.one_by_one == one_by_one
    for persons, out in ((None, [4]), (units, [3, 4])):
        used = torch.ones(8, dtype=torch.bool)
        used[out] = False
        expected = flat(made(x, y, units=persons, used=used))
        broken = x.clone()
        broken[4, 3] = worth
        assert torch.equal(flat(made(broken, y, units=persons)), expected)
        # Nor does a row that only fills up the batch.
        used[:] = True
        used[4] = False
        assert torch.isfinite(flat(made(broken, y, units=persons, used=used))).all()


@pytest.mark.parametrize("one_by_one", [False, True])
def test_a_unit_of_too_many_rows_counts_as_0(one_by_one: bool) -> None:
    module: nn.Module = Tied() if one_by_one else nn.Linear(6, 3)
    x, y = batch_for(5, 6)
    made = unit_gradients(module, 0.1, x, y, rows=2)
    found = flat(made(x, y, units=torch.tensor([0, 1, 1, 1, 4])))
    rest = flat(made(x, y, units=torch.tensor([0, 1, 1, 1, 4]), used=torch.tensor([1, 0, 0, 0, 1])))
    assert torch.equal(found, rest)
    assert found.any()


class Batchwise(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(6, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        answer: torch.Tensor = self.inner(x - x.mean(0))
        return answer


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (nn.Sequential(nn.Linear(6, 3), nn.BatchNorm1d(3)), r"layer 1 \(BatchNorm1d\) mixes the records"),
        (nn.Sequential(nn.Linear(6, 3), nn.SyncBatchNorm(3)), r"layer 1 \(SyncBatchNorm\) mixes the records"),
        (nn.Sequential(nn.Linear(6, 3), nn.InstanceNorm1d(3, track_running_stats=True)), "keeps statistics"),
        (nn.Sequential(nn.Embedding(4, 3, scale_grad_by_freq=True)), "scale_grad_by_freq"),
        (nn.Sequential(nn.Embedding(4, 3, max_norm=1.0)), "max_norm"),
        (Batchwise(), "depends on the others"),
    ],
)
def test_modules_that_mix_records_are_refused(module: nn.Module, reason: str) -> None:
    with pytest.raises(InvalidInput, match=reason):
        unit_gradients(module, 1.0, torch.randn(3, 6), torch.zeros(3), name="mine:own")


def test_trying_a_module_out_leaves_no_trace() -> None:
    module = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.5), nn.Linear(5, 3)).eval()
    state = torch.get_rng_state()
    unit_gradients(module, 1.0, torch.ones(1, 6), torch.zeros(1, dtype=torch.int64))
    assert torch.equal(torch.get_rng_state(), state)
    assert not any(part.training or part._forward_hooks for part in module.modules())


@pytest.mark.filterwarnings("ignore:Mismatch dtype between input and weight")  # torch is slower then, and says so
@pytest.mark.slow
def test_the_traced_graph_computes_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is handed to the compiler: forward and backward pass, lengths and sums as one graph."""
    monkeypatch.setattr(torch, "compile", lambda graph, dynamic: graph)
    module, x, y = random_network(7), *batch_for(9, math.prod(SHAPES[2]))
    units, used = torch.tensor([0, 0, 0, 1, 5, 5, 2, 2, 3]), torch.arange(9) < 7
    for bf16 in (False, True):
        plain, traced = (
            unit_gradients(
                module,
                0.3,
                x,
                y,
                rows=3,
                hardware=Hardware(bf16=bf16, batch=len(x), compile_loss=how),
            )
            for how in (False, True)
        )
        for _ in range(2):
            for given in ({}, {"units": units, "used": used}):
                traced._traced = None if given else traced._traced
                assert torch.equal(flat(plain(x, y, **given)), flat(traced(x, y, **given)))
                traced._traced = None
            with torch.no_grad():
                for parameter in module.parameters():
                    parameter.mul_(1.1)
