"""Which modules are computed for a whole batch at once: only those that cannot mix its rows, whatever the rows are."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from tokens import unit_gradients
from torch import nn
from torch.nn.utils import parametrizations

from skipring.errors import InvalidInput
from skipring.learning import torch_units
from skipring.learning.torch_module import paper_cnn, small_cnn, trial_rows

ROWS, BOUND = 40, 1.0
pytestmark = pytest.mark.usefixtures("one_thread")


class Net(nn.Module):
    """Two layers, and something in front of each and behind the last."""

    def __init__(self, before: Any = None, between: Any = None, after: Any = None, *, zero: bool = False) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(5, 8), nn.Linear(8, 2)
        self.steps = [step or (lambda x: x) for step in (before, between, after)]
        if zero:
            for parameter in self.b.parameters():
                nn.init.zeros_(parameter)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        before, between, after = self.steps
        answer: torch.Tensor = after(self.b(between(torch.tanh(self.a(before(x))))))
        return answer


def running_sum(x: torch.Tensor) -> torch.Tensor:
    """Rows taken for time; in a loop, which vmap would not allow, as far as numbers decide."""
    return torch.cumsum(x, 0) if float(x.sum()) > -1e9 else x


MIXING: dict[str, Callable[[], nn.Module]] = {
    "largest": lambda: Net(before=lambda x: x / x.abs().max()),
    "causal": lambda: Net(between=lambda x: torch.cumsum(x, 0)),
    "causal in a loop": lambda: Net(between=running_sum),
    "zero weights": lambda: Net(after=lambda x: torch.log_softmax(x, 0), zero=True),
    "mean": lambda: Net(before=lambda x: x - x.mean(0)),
    "softmax over rows": lambda: nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2), nn.LogSoftmax(0)),
    "softmax without a dimension": lambda: nn.Sequential(
        *(nn.Linear(5, 8), nn.Tanh(), nn.Unflatten(1, (2, 4)), nn.Softmax(None), nn.Flatten(), nn.Linear(8, 2))
    ),
    "hook": lambda: hooked(nn.Sequential(nn.Linear(5, 8), nn.Tanh(), nn.Linear(8, 2))),
}


def hooked(module: nn.Sequential) -> nn.Module:
    module[1].register_forward_hook(lambda _, given, answer: answer - answer.mean(0))
    return module


@pytest.mark.sample(8)
@pytest.mark.filterwarnings("ignore:Implicit dimension choice")
@pytest.mark.parametrize("per_person", [1, 3])
@pytest.mark.parametrize("name", MIXING)
def test_no_unit_moves_the_others_even_if_nobody_notices_that_rows_are_mixed(
    name: str, per_person: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_units, "mixes", lambda *_: False)
    module = MIXING[name]()
    x, y = 0.4 * torch.randn(ROWS, 5), torch.arange(ROWS) % 2
    x[0], x[1] = 2.0 * x[0], 0.0
    units = None if per_person == 1 else torch.arange(ROWS) // 3
    made = unit_gradients(module, BOUND, x, y, rows=per_person)
    assert made.one_by_one
    for seed in range(4):
        for parameter in module.parameters():
            nn.init.normal_(parameter, generator=torch.Generator().manual_seed(seed))
        for row in (2, ROWS - 1):
            moved, labels = x.clone(), y.clone()
            moved[row], labels[row] = 30.0 * torch.randn(5), 1 - labels[row]
            found = [
                torch.cat([each.flatten() for each in made(a, b, units=units)]) for a, b in ((x, y), (moved, labels))
            ]
            assert float((found[0] - found[1]).norm()) <= 2.0 * BOUND


@pytest.mark.parametrize("name", ["largest", "causal", "mean", "hook", "softmax over rows"])
def test_what_is_seen_to_mix_rows_is_refused(name: str) -> None:
    with pytest.raises(InvalidInput, match="depends on the others"):
        unit_gradients(MIXING[name](), BOUND, torch.zeros(2, 5), torch.zeros(2, dtype=torch.int64))


class Odd(nn.Linear):
    """Of another class."""


def patched() -> nn.Module:
    layer = nn.Linear(24, 24)
    layer.forward = lambda x: torch.cumsum(x, 0)  # type: ignore[assignment, method-assign] # as somebody might
    return layer


CHAINS: dict[str, tuple[Callable[[], Sequence[nn.Module]], bool]] = {
    "plain": (lambda: [nn.Linear(24, 8), nn.ReLU(), nn.Dropout(), nn.Linear(8, 24)], True),
    "nested": (lambda: [nn.Sequential(nn.Linear(24, 24), nn.Sequential(nn.GELU()))], True),
    "one activation twice": (lambda: [nn.Linear(24, 24), *2 * [nn.Tanh()]], True),
    "image": (
        lambda: [
            *(nn.Unflatten(1, (2, 3, 4)), nn.ZeroPad2d(1), nn.Conv2d(2, 4, 3), nn.GroupNorm(2, 4), nn.AvgPool2d(1)),
            *(nn.AdaptiveMaxPool2d(2), nn.InstanceNorm2d(4, affine=True), nn.Flatten(), nn.LayerNorm(16)),
            *(nn.Linear(16, 48), nn.GLU(), nn.LogSoftmax(-1)),
        ],
        True,
    ),
    "normed along rows": (lambda: [nn.LayerNorm((3, 24))], False),
    "no rows but channels": (lambda: [nn.Unflatten(1, (4, 6)), nn.Conv2d(3, 3, 1), nn.Flatten()], False),
    "flattened": (lambda: [nn.Flatten(0), nn.Unflatten(0, (3, 24)), nn.Linear(24, 24)], False),
    "rows first of two": (lambda: [nn.Unflatten(-2, (1, 3)), nn.Flatten(0, 1)], False),
    "used twice": (lambda: 2 * [nn.Linear(24, 24)], False),
    "another class": (lambda: [Odd(24, 24)], False),
    "another forward": (lambda: [patched(), nn.Linear(24, 24)], False),
    "parametrised": (lambda: [parametrizations.weight_norm(nn.Linear(24, 24))], False),
    "another layer": (lambda: [nn.Unflatten(1, (2, 12)), nn.ConvTranspose1d(2, 2, 1), nn.Flatten()], False),
}


@pytest.mark.parametrize("name", CHAINS)
def test_only_chains_of_known_layers_are_computed_at_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from skipring.learning.torch_rowwise import layers_of_chain

    made, known = CHAINS[name]
    module = nn.Sequential(*made())
    assert (layers_of_chain(module, "mine", trial_rows(torch.zeros(3, 24), 3)) is not None) == known
    if not known:  # a known layer behind makes no difference
        module.append(nn.Identity())
        assert layers_of_chain(module, "mine", trial_rows(torch.zeros(3, 24), 3)) is None


@pytest.mark.parametrize("data", ["mnist", "cifar10"])
@pytest.mark.parametrize("make", [paper_cnn, small_cnn])
def test_the_networks_that_come_along_are_computed_at_once(make: Any, data: str) -> None:
    x = torch.zeros(0, *{"mnist": (1, 28, 28), "cifar10": (3, 32, 32)}[data])
    assert not unit_gradients(make(data), BOUND, x, torch.zeros(0, dtype=torch.int64)).one_by_one


def test_nothing_depends_on_the_rows_that_are_given() -> None:
    """Neither what is refused nor how it is computed: a row of zeros hid what a module does."""
    for x in (torch.zeros(3, 5), torch.full((3, 5), torch.nan), torch.zeros(0, 5)):
        y = torch.zeros(len(x), dtype=torch.int64)
        with pytest.raises(InvalidInput, match="depends on the others"):
            unit_gradients(MIXING["mean"](), BOUND, x, y)
        assert unit_gradients(MIXING["zero weights"](), BOUND, x, y).one_by_one


class Codes(nn.Module):
    """Takes nothing but 0."""

    def __init__(self) -> None:
        super().__init__()
        self.table = nn.Embedding(1, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        found: torch.Tensor = self.table((10.0 * x[:, 0]).long())
        return found


class Picky(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.inner = nn.Linear(5, 4), nn.Bilinear(4, 4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.first(x)
        answer: torch.Tensor = self.inner(h[::2], h[1::2]).repeat_interleave(2, 0)
        return answer


class Remembers(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.seen = nn.Linear(5, 2), [0.0]

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen.append(float(x.sum()))
        answer: torch.Tensor = self.inner(x + self.seen[-2])
        return answer


def test_made_up_rows_need_not_fit() -> None:
    y = torch.zeros(3, dtype=torch.int64)
    made = unit_gradients(Codes(), BOUND, torch.zeros(3, 5), y)
    assert made.one_by_one
    assert made.recordable


@pytest.mark.parametrize(
    ("module", "reason"),
    [
        (Picky(), r"mine:own: layer inner \(Bilinear\) cannot compute made-up rows one by one: "),
        (nn.Sequential(nn.Linear(5, 4), nn.Linear(3, 2)), r"mine:own: layer 1 \(Linear\) cannot compute made-up rows"),
        (Remembers(), "keeps something of the records"),
    ],
)
def test_what_cannot_be_computed_unit_by_unit_is_refused_by_name(
    module: nn.Module, reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch_units, "mixes", lambda *_: False)
    with pytest.raises(InvalidInput, match=reason):
        unit_gradients(module, BOUND, torch.zeros(3, 5), torch.zeros(3, dtype=torch.int64), name="mine:own")
    assert not any(part._forward_hooks or part._forward_pre_hooks for part in module.modules())


@pytest.mark.parametrize("loop", [False, True])
def test_a_dropout_draws_for_each_unit_anew(loop: bool) -> None:
    class Dropped(Net):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if loop:
                float(x.sum())
            return super().forward(x)

    module = Dropped(between=nn.Dropout(0.5))
    x, y = torch.ones(ROWS, 5), torch.zeros(ROWS, dtype=torch.int64)
    made = unit_gradients(module, 1e3, x, y)
    assert made._each.together != loop
    seen = {tuple(each.flatten().tolist()) for _ in range(3) for each in [made(x[:1], y[:1])[0]]}
    assert len(seen) == 3
    torch.manual_seed(3)
    first = made(x, y)
    other = x.clone()
    other[ROWS - 1] = 9.0
    torch.manual_seed(3)
    used = torch.arange(ROWS) < ROWS - 1
    kept = made(other, y, used=used)
    torch.manual_seed(3)
    for mine, theirs in zip(made(x, y, used=used), kept, strict=True):
        assert torch.equal(mine, theirs)
    assert not torch.equal(first[0], kept[0])
