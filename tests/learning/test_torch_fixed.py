"""Modules that change their own parameters would release rows that no noise hides: they are refused."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from tokens import token_with
from torch import nn

from skipring.errors import InvalidInput
from skipring.learning import NeuralModel, Protection, Rows
from skipring.learning.torch_learner import TorchLearner
from skipring.learning.torch_module import unchanged
from skipring.privacy import Unit

MODULES = """
import torch
from torch import nn
from torch.nn.functional import embedding

class Table(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Parameter(3.0 * torch.randn(6, 4)), nn.Linear(4, 2)
    def forward(self, x):
        words = (10.0 * x[:, 0]).round().long().clamp(0, 5)
        return self.last(self.look_up(words, x))

class Shortened(Table):
    def look_up(self, words, x):
        return embedding(words, self.table, max_norm=1.0)

class Quietly(Table):
    def look_up(self, words, x):
        # Not counted by torch, and only for rows that no try-out has.
        if float(x.max()) > 5.0:
            self.table.data[words] *= 0.5
        return self.table[words]

class Learning(Quietly):
    def look_up(self, words, x):
        return super().look_up(words, x) if self.training else self.table[words]

class Sown(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.last = nn.Embedding(6, 4, max_norm=1.0), nn.Linear(4, 2)
    def forward(self, x):
        return self.last(self.table((10.0 * x[:, 0]).round().long().clamp(0, 5)))

def shortened(): return Shortened()
def quietly(): return Quietly()
def learning(): return Learning()
def sown(): return Sown()
"""


class Nothing:
    def add(self, vector: NDArray[Any], std: float) -> None:
        """Add none."""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, one_thread: None) -> None:
    (tmp_path / "changing_models.py").write_text(MODULES)
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "changing_models", raising=False)


def node(name: str, protects: Unit, largest: float = 0.5) -> TorchLearner:
    x = np.linspace(0.0, 0.5, 12)[:, None] * np.ones((1, 3))
    x[5] = largest
    y = np.arange(12) % 2
    model = NeuralModel(name=f"changing_models:{name}", features=3, classes=2, clip=1.0, device="cpu")
    protection = Protection(unit=protects, batch=None if protects == "node" else 20)
    rows = Rows(x, y, x, y, 2, persons=np.arange(12))
    return TorchLearner(model, rows, protection=protection, seed=1, rng=np.random.default_rng(1))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("protects", ["node", "person", "record"])
@pytest.mark.parametrize(
    ("name", "part"), [("shortened", r"\(table\)"), ("sown", r"layer table \(Embedding\).*max_norm")]
)
def test_a_module_that_shortens_its_own_table_is_refused(name: str, part: str, protects: Unit) -> None:
    with pytest.raises(InvalidInput, match=rf"model.name = changing_models:{name}: .*{part}"):
        node(name, protects)


@pytest.mark.parametrize("protects", ["node", "person", "record"])
@pytest.mark.parametrize("name", ["quietly", "learning"])
def test_what_shows_with_some_rows_only_releases_nothing(name: str, protects: Unit) -> None:
    calm, changing = node(name, protects), node(name, protects, largest=6.0)
    w = calm.initial()
    assert np.isfinite(calm.update(w.copy(), turn=0, step_size=0.1, noise_multiplier=0.0, noise=Nothing())).all()
    with pytest.raises(InvalidInput, match=rf"model.name = changing_models:{name}: changes its own parameters .*table"):
        changing.update(w, turn=0, step_size=0.1, noise_multiplier=0.0, noise=Nothing())
    assert np.isnan(w).all()


def test_testing_a_model_must_not_change_it_either() -> None:
    changing = node("quietly", "node", largest=6.0)
    w = changing.initial()
    with pytest.raises(InvalidInput, match="changes its own parameters"):
        changing.test_error(w)
    assert np.isnan(w).all()


@pytest.mark.filterwarnings("ignore:There is a performance drop")
@pytest.mark.parametrize("protects", ["node", "record"])
@pytest.mark.parametrize("name", ["Shortened", "Sown"])
def test_a_token_of_a_simulation_refuses_them_too(name: str, protects: Unit) -> None:
    import changing_models  # type: ignore[import-not-found] # the one above

    def walk() -> None:
        token = token_with(
            getattr(changing_models, name)(),
            torch.zeros(8, 3),
            torch.arange(8) % 2,
            batch=4,
            gradient_bound=1.0,
            protects=protects,
            divisor=4,
            name="mine:own",
        )
        token.update(torch.arange(4), step_size=0.1, noise_std=0.0)

    with pytest.raises(InvalidInput, match=r"model.name = mine:own: .*changes its own parameters when it is used"):
        walk()


@pytest.mark.parametrize("kind", [torch.float32, torch.float64, torch.bfloat16])
def test_a_single_bit_is_noticed_whoever_wrote_it(kind: torch.dtype) -> None:
    module = nn.Linear(3000, 800).to(kind)
    with unchanged(module, "mine"):
        pass
    with pytest.raises(InvalidInput, match=r"\(weight\)"), unchanged(module, "mine"):
        module.weight.data[799, 2999] = module.weight.data[799, 2999] * 1.01
    with pytest.raises(InvalidInput, match=r"\(bias\)"), unchanged(module, "mine"), torch.no_grad():
        module.bias.add_(0.0)
