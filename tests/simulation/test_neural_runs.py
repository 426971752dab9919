"""Simulations of a neural network: small images, few steps, the CPU."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from skipring.errors import InvalidInput
from skipring.privacy import PlannedRun, forecast
from skipring.simulation import RunFile, build, simulate, with_changes


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


def test_its_privacy_counts_every_update(images: Path) -> None:
    result = simulate(run(images, "privacy.noise_multiplier=5", "simulation.runs=1"))
    record = PlannedRun(schedule="random-ring", nodes=6, steps=24, skip=0.2, noise_multiplier=5.0, convex=False)
    assert result.privacy.amplified is False
    assert "no contractions" in str(result.privacy.not_amplified_because)
    assert result.privacy.epsilon == pytest.approx(forecast(record).epsilon(1e-5), rel=1e-6)


def test_without_clipping_there_is_no_epsilon(images: Path) -> None:
    free = run(images, "simulation.runs=1").model_dump()
    free["learning"]["gradient_bound"] = None
    result = simulate(RunFile.model_validate(free))
    assert "not clipped" in str(result.privacy.refused)
    assert result.privacy.forecast is None


def test_a_budget_chooses_the_noise(images: Path) -> None:
    values = run(images).model_dump()
    values["privacy"] = {"epsilon": 4.0, "delta": 1e-5}
    setup = build(RunFile.model_validate(values))
    record = PlannedRun(schedule="random-ring", nodes=6, steps=24, skip=0.2, noise_multiplier=1.0, convex=False)
    assert forecast(record).with_noise(setup.noise_multiplier).epsilon(1e-5) == pytest.approx(4.0, rel=1e-5)


def test_what_a_network_cannot_use_is_refused(images: Path) -> None:
    with pytest.raises(InvalidInput, match="not 30"):
        build(with_changes(None, ["model.name=cnn"]))
    with pytest.raises(InvalidInput, match="no GPU"):
        simulate(run(images, "model.device=cuda:7"))
