"""The paper's theory figures and tables, as data and as pictures."""

from __future__ import annotations

from pathlib import Path

import pytest

from skipring._numbers import number
from skipring.convergence import Problem, error_bound
from skipring.errors import InvalidInput
from skipring.experiments import figure_curves, theory_tables
from skipring.privacy.paper import stated_epsilon
from skipring.report import draw_paper_figure, write_curves_csv

NOISE = 10.59762


def test_curves_pass_through_single_values_of_the_theorems() -> None:
    theorems = {"ring": 2, "random-ring": 3, "random-walk": 4}
    checked = 0
    for curve in (*figure_curves(2, points=40), *figure_curves(6, points=40)):
        for steps, error, epsilon in zip(curve.steps, curve.error_bound, curve.epsilon, strict=True):
            if steps % curve.nodes:
                continue
            expected = stated_epsilon(
                theorems[curve.schedule],
                nodes=curve.nodes,
                steps=int(steps),
                skip=curve.skip,
                noise_multiplier=NOISE,
                delta=1e-6,
                delta_prime=1e-6,
            )
            assert epsilon == pytest.approx(expected, rel=1e-5)
            bound = error_bound(
                schedule=curve.schedule,
                nodes=curve.nodes,
                steps=int(steps),
                skip=curve.skip,
                problem=Problem(
                    noise_multiplier=NOISE, dimension=8, diameter=10.0, gradient_bound=1.0, learning_rate=0.6
                ),
            )
            assert error == pytest.approx(bound, rel=1e-5)
            checked += 1
    assert checked > 100


def test_curves_reach_the_end_of_the_papers_axes() -> None:
    for curve in figure_curves(2, points=50):
        end = 1000.0 if curve.nodes == 10 or curve.law == "gamma" else 6000.0
        assert 0.99 * end < curve.latency[-1] <= end
        assert (curve.latency[1:] > curve.latency[:-1]).all()


def test_unknown_figures_are_refused() -> None:
    with pytest.raises(InvalidInput, match="one of 2, 3, 6"):
        figure_curves(7)


def test_tables_hold_the_papers_timeouts_and_both_epsilons(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a thousand nodes take long: `make test-slow` prints them all."""
    monkeypatch.setattr("skipring.experiments.theory._SIZES", [(10, 1000, 1e-6)])
    timeouts, privacy = theory_tables()
    gamma = dict(zip(timeouts.columns, timeouts.rows[1], strict=True))
    assert gamma["p=0.7"] == pytest.approx(0.00549, abs=5e-6)
    assert gamma["best"] == pytest.approx(0.00480, abs=5e-6)
    assert gamma["best p"] == pytest.approx(0.70986, abs=5e-6)
    rows = {tuple(row[:3]): row[3:] for row in privacy.rows}
    assert rows["10", "1000", "0.0001"][:4] == pytest.approx((15.681, 9.979, 12.108, 5.329), rel=2e-3)


@pytest.mark.parametrize("figure", [*(pytest.param(large, marks=pytest.mark.slow) for large in (2, 3)), 6])
def test_the_same_numbers_give_the_same_files(tmp_path: Path, figure: int) -> None:
    curves = figure_curves(figure, points=20)
    for name in ("a", "b"):
        draw_paper_figure(figure, curves, [tmp_path / f"{name}.svg", tmp_path / f"{name}.png"])
        write_curves_csv(curves, tmp_path / f"{name}.csv")
    for suffix in ("svg", "png", "csv"):
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()
    drawn = (tmp_path / "a.svg").read_text()
    assert drawn.count("<path") > len(curves)


def test_numbers_are_short() -> None:
    assert [number(x) for x in (0.0, 1.0, 3.14159, 123456.7, 2e-300, 5)] == ["0", "1", "3.142", "123457", "2e-300", "5"]
