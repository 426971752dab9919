"""The quick look at a result."""

from __future__ import annotations

import io

import numpy as np
import pytest

from skipring.privacy import PrivacyReport, nothing_promised
from skipring.simulation import ResolvedFacts, Result


def result(runs: int) -> Result:
    points = np.arange(0, 50, 10)
    rng = np.random.default_rng(0)
    return Result(
        settings={"schedule": {"name": "ring"}},
        resolved=ResolvedFacts(
            nodes=3,
            steps=40,
            timeout=1.0,
            noise_multiplier=2.0,
            gradient_bound=1.0,
            smoothness=0.25,
            model="logistic",
            parameters=2,
            noise_std=0.1,
            rows=100,
            test_rows=20,
            columns=2,
        ),
        points=points,
        test_error=np.linspace(0.5, 0.05, 5) + 0.2 * rng.random((runs, 5)),
        loss=np.ones((runs, 5)),
        latency=np.column_stack([np.zeros(runs), np.cumsum(rng.random((runs, 4)), axis=1)]),
        updates=np.tile(points, (runs, 1)),
        models=np.zeros((runs, 2)),
        offered=np.ones(3, dtype=np.int64),
        skipped=np.zeros(3, dtype=np.int64),
        privacy=PrivacyReport(delta=1e-5, promised=nothing_promised("node", 1e-5, "nobody asked")),
    )


@pytest.mark.parametrize("runs", [1, 7])
def test_the_plot_shows_mean_error_by_latency(runs: int) -> None:
    simulated = result(runs)
    figure = simulated.plot()
    (axes,) = figure.axes
    (line,) = axes.lines
    latency, mean, _ = simulated.on_latency_grid()
    assert np.array_equal(np.asarray(line.get_xdata()), latency)
    assert np.array_equal(np.asarray(line.get_ydata()), mean)
    assert (axes.get_xlabel(), axes.get_ylabel()) == ("latency", "test error")
    figure.savefig(io.BytesIO(), format="png")


def test_the_band_is_one_deviation_wide_and_never_below_zero() -> None:
    simulated = result(7)
    (band,) = simulated.plot().axes[0].collections
    _, mean, deviation = simulated.on_latency_grid()
    heights = np.asarray(band.get_paths()[0].vertices)[:, 1]
    assert heights.max() == pytest.approx((mean + deviation).max())
    assert heights.min() == pytest.approx(np.maximum(mean - deviation, 0.0).min())
    assert not result(1).plot().axes[0].collections


def test_a_notebook_shows_the_plot_without_being_told_how() -> None:
    figure = result(3).plot()
    assert figure._repr_png_().startswith(b"\x89PNG\r\n")  # type: ignore[attr-defined] # what IPython asks for


def test_plotting_uses_no_window() -> None:
    import matplotlib.pyplot as plt

    result(2).plot()
    assert not plt.get_fignums()
