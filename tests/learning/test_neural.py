"""Updates of networks: the formula, clipping, noise, projection, and the paper's architectures."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
import pytest
import torch
from tokens import token_with
from torch import nn
from torch.nn.functional import cross_entropy

from skipring.errors import InvalidInput
from skipring.learning import NeuralModel, maker
from skipring.learning.neural import NeuralToken
from skipring.learning.torch_module import paper_cnn


def small() -> nn.Module:
    return nn.Sequential(nn.Conv2d(1, 3, 3), nn.SELU(), nn.Flatten(), nn.Linear(3 * 4 * 4, 5))


def token(**changes: Any) -> NeuralToken:
    generator = torch.Generator().manual_seed(1)
    images = torch.randn(40, 1, 6, 6, generator=generator)
    labels = torch.randint(0, 5, (40,), generator=generator)
    with torch.random.fork_rng():
        torch.manual_seed(3)
        module = small()
    return token_with(module, images, labels, **(dict[str, Any](batch=8, protects="node") | changes))


def gradient_of(made: NeuralToken, rows: torch.Tensor) -> torch.Tensor:
    """The gradient by autograd on a copy, in the token's order."""
    copy = small()
    for mine, theirs in zip(copy.parameters(), made.module.parameters(), strict=True):
        mine.data.copy_(theirs.data)
    cross_entropy(copy(made._images[rows]), made._labels[rows]).backward()  # type: ignore[no-untyped-call]
    pieces = []
    for p in copy.parameters():
        grad = cast(torch.Tensor, p.grad)
        pieces.append((grad.permute(0, 2, 3, 1) if grad.dim() == 4 else grad).reshape(-1))
    return torch.cat(pieces)


ROWS = torch.arange(8)


def test_a_step_follows_the_gradient() -> None:
    made = token()
    before, gradient = made.vector.clone(), gradient_of(made, ROWS)
    made.update(ROWS, step_size=0.3, noise_std=0.0)
    assert torch.allclose(made.vector, before - 0.3 * gradient, atol=1e-6)


def test_the_averaged_gradient_is_clipped() -> None:
    free, clipped = token(), token(gradient_bound=0.05)
    before, gradient = clipped.vector.clone(), gradient_of(clipped, ROWS)
    assert gradient.norm() > 0.05
    clipped.update(ROWS, step_size=1.0, noise_std=0.0)
    assert (before - clipped.vector).norm().item() == pytest.approx(0.05, rel=1e-4)
    assert torch.allclose((before - clipped.vector) / 0.05, gradient / gradient.norm(), atol=1e-4)
    loose = token(gradient_bound=1e3)
    for made in (free, loose):
        made.update(ROWS, step_size=1.0, noise_std=0.0)
    assert torch.allclose(free.vector, loose.vector, atol=1e-6)


@pytest.mark.parametrize("worth", [float("nan"), float("inf")])
def test_a_gradient_that_is_not_finite_counts_as_none(worth: float) -> None:
    made = token(gradient_bound=0.05)
    made._images[3] = worth
    assert not torch.isfinite(gradient_of(made, ROWS)).all()
    before = made.vector.clone()
    made.update(ROWS, step_size=1.0, noise_std=0.0)
    assert torch.equal(made.vector, before)
    made.update(ROWS, step_size=1.0, noise_std=2.0)
    assert (made.vector - before).std().item() == pytest.approx(2.0, rel=0.15)


def test_noise_has_the_stated_deviation_and_its_own_stream() -> None:
    quiet, noisy, same, other = token(), token(), token(), token(seed=9)
    for made, std in ((quiet, 0.0), (noisy, 2.0), (same, 2.0), (other, 2.0)):
        made.update(ROWS, step_size=0.5, noise_std=std)
    noise = (quiet.vector - noisy.vector) / 0.5
    assert noise.std().item() == pytest.approx(2.0, rel=0.15)
    assert abs(noise.mean().item()) < 5 * 2.0 / len(noise) ** 0.5
    assert torch.equal(noisy.vector, same.vector)
    assert not torch.equal(noisy.vector, other.vector)


def test_parameters_stay_in_their_ball() -> None:
    made = token(diameter=1.0)
    made.update(ROWS, step_size=1.0, noise_std=5.0)
    assert made.vector.norm().item() == pytest.approx(0.5, rel=1e-5)


def test_a_restart_forgets_everything() -> None:
    made = token()
    made.restart(small, 5)
    first = made.vector.clone()
    made.update(ROWS, step_size=0.5, noise_std=1.0)
    once = made.vector.clone()
    made.restart(small, 5)
    assert torch.equal(made.vector, first)
    made.update(ROWS, step_size=0.5, noise_std=1.0)
    assert torch.equal(made.vector, once)


@pytest.mark.parametrize(("data", "features"), [("mnist", 784), ("cifar10", 3072)])
def test_the_papers_networks_have_the_sizes_of_its_table(data: Any, features: int) -> None:
    model = NeuralModel(features=features)
    network = paper_cnn(data)
    sizes = []
    x = torch.zeros(1, *model.image_shape)
    for layer in network:
        x = layer(x)
        if isinstance(layer, nn.Conv2d):
            sizes.append(tuple(x.shape[1:3]))
    wanted = {
        "mnist": [(64, 26), (64, 12), (128, 10), (128, 4)],
        "cifar10": [(64, 32), (64, 16), (128, 16), (128, 8), *[(256, 8)] * 2, (256, 4), *[(512, 4)] * 2, (512, 2)],
    }[data]
    assert sizes == wanted
    assert x.shape == (1, 10)
    assert sum(p.numel() for p in network.parameters()) == model.parameters


@pytest.mark.parametrize("features", [784, 3072])
def test_the_small_network_takes_the_same_images(features: int) -> None:
    model = NeuralModel(features=features, name="small-cnn")
    network = maker(model)()
    assert network(torch.zeros(2, *model.image_shape)).shape == (2, 10)
    assert sum(p.numel() for p in network.parameters()) == model.parameters
    with pytest.raises(InvalidInput, match=r"small-cnn.*not 100"):
        NeuralModel(features=100, name="small-cnn")


def test_a_network_learns() -> None:
    made = token(gradient_bound=1.0)
    before = made.error(made._images, made._labels)
    rng = np.random.default_rng(0)
    for _ in range(80):  # from 0.8 to 0.125
        made.update(torch.from_numpy(rng.permutation(40)[:8]), step_size=0.1, noise_std=0.01)
    assert made.error(made._images, made._labels) < 0.5 * before


def test_bad_tokens_are_refused() -> None:
    for changes, parameter in (
        ({"batch": 0}, "batch"),
        ({"batch": 41}, "batch"),
        ({"gradient_bound": 0.0}, "gradient_bound"),
        ({"diameter": -1.0}, "diameter"),
        ({"seed": -1}, "seed"),
    ):
        with pytest.raises(InvalidInput) as refused:
            token(**changes)
        assert refused.value.parameter == parameter
    with pytest.raises(InvalidInput, match="8 row numbers"):
        token().update(torch.arange(7), step_size=1.0, noise_std=0.0)
    with pytest.raises(InvalidInput, match="mnist or cifar10"):
        paper_cnn("imagenet")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="not 100"):
        NeuralModel(features=100)
