"""How long a node takes."""

from __future__ import annotations

import itertools
import math
from pathlib import Path
from typing import Any

import mpmath
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, stats

from skipring.delays import (
    Constant,
    Delay,
    Empirical,
    Exponential,
    Gamma,
    Lomax,
    Mixture,
    Never,
    ScipyDelay,
    Shifted,
    parse_delay,
)
from skipring.errors import InvalidInput

CENSORED = Empirical([3.0, 5.0, 5.0, 6.0, 8.0, 10.0, 12.0], [False, False, True, False, True, False, True])
LAWS: dict[str, Delay] = {
    "constant": Constant(1.5),
    "exponential": Exponential(2.0),
    "gamma": Gamma(0.25, 1.0),
    "regular gamma": Gamma(20.0, 0.1),
    "lomax": Lomax(3.0, 2.0),
    "lomax without mean": Lomax(0.8, 0.5),
    "empirical": Empirical([0.0, 1.0, 1.0, 2.5, 7.0]),
    "censored": CENSORED,
    "shifted": Shifted(0.1, Gamma(0.25, 1.0)),
    "shifted atoms": Shifted(0.1, Empirical([0.2, 0.7, 0.7, 1.1])),
    "mixture": Mixture([0.7, 0.2, 0.1], [Exponential(1.0), Shifted(3.0, Lomax(3.0, 2.0)), Never()]),
    "mixture with atoms": Mixture([0.5, 0.5], [Exponential(1.0), CENSORED]),
    "weibull": ScipyDelay(stats.weibull_min(0.5)),
    "uniform": ScipyDelay(stats.uniform(1.0, 2.0)),
}
every_law = pytest.mark.parametrize("law", LAWS.values(), ids=LAWS)


# -- laws that hold for every delay ----------------------------------------------------------------


@every_law
def test_survival_falls_from_one_to_the_mass_at_infinity(law: Delay) -> None:
    t = np.concatenate([[-1.0, 0.0], np.geomspace(1e-9, 1e3, 500), [math.inf]])
    survival = law.survival(t)
    assert survival[0] == 1.0
    assert (np.diff(survival) <= 0.0).all()
    assert survival[-1] == pytest.approx(law.mass_at_infinity, abs=1e-15)
    np.testing.assert_allclose(survival + law.cdf(t), 1.0, rtol=1e-14)


@every_law
def test_one_number_in_one_number_out(law: Delay) -> None:
    for method in (law.survival, law.cdf, law.quantile, law.upper_quantile, law.truncated_mean):
        assert type(method(0.5)) is float
        assert np.shape(method(np.full((2, 3), 0.5))) == (2, 3)
        assert method(np.full(1, 0.5))[0] == pytest.approx(method(0.5), rel=1e-12)


@every_law
@settings(deadline=None, max_examples=60)
@given(probability=st.floats(1e-9, 1.0))
def test_the_quantile_is_the_first_moment_that_reaches_the_probability(law: Delay, probability: float) -> None:
    t = law.quantile(probability)
    if t == math.inf:
        assert law.cdf(1e250) <= probability * (1 + 1e-9)
    else:
        assert law.cdf(t) >= probability * (1 - 1e-9)
        assert t == law.support[0] or law.cdf(t * (1 - 1e-6)) <= probability * (1 + 1e-9)


@every_law
@settings(deadline=None, max_examples=60)
@given(probability=st.just(0.0) | st.floats(1e-300, 1.0) | st.floats(-12.0, 0.0).map(lambda exponent: 10.0**exponent))
def test_the_upper_quantile_is_the_first_moment_late_enough(law: Delay, probability: float) -> None:
    t = law.upper_quantile(probability)
    if t == math.inf:
        assert law.survival(1e250) >= probability * (1 - 1e-9)
    else:
        assert law.survival(t) <= probability * (1 + 1e-9)
        assert t <= law.support[0] or law.survival(t * (1 - 1e-6)) >= probability * (1 - 1e-9)


@every_law
def test_the_truncated_mean_is_the_area_under_the_survival_function(law: Delay) -> None:
    # The slow, obvious twin: quadrature between the points where the law may jump or bend.
    points = law.search_points()
    breaks = np.unique(np.concatenate([[0.0, *law.support], points[:: max(1, len(points) // 100)]]))
    breaks = breaks[np.append(True, ~(breaks[1:] < breaks[:-1] * (1.0 + 1e-6)))]  # a shift crowds them
    for t in (1e-6, 0.3, 1.0, 4.7, 12.0):
        inside = np.unique(np.append(breaks[breaks < t], t))
        pieces = [
            integrate.quad(law.survival, a, b, epsabs=1e-10 * t, epsrel=1e-9)[0] for a, b in itertools.pairwise(inside)
        ]
        assert law.truncated_mean(t) == pytest.approx(math.fsum(pieces), rel=1e-8)


@every_law
def test_the_mean_is_what_an_endless_wait_costs(law: Delay) -> None:
    assert law.truncated_mean(math.inf) == law.mean
    if law.mass_at_infinity > 0.0:
        assert law.mean == math.inf
    elif law.mean < math.inf:
        assert law.truncated_mean(1e9) == pytest.approx(law.mean, rel=1e-9)
    assert law.truncated_mean(0.0) == 0.0


@every_law
def test_samples_follow_the_law(law: Delay) -> None:
    # Dvoretzky-Kiefer-Wolfowitz: a correct sampler leaves the band with probability 1e-6 at most.
    size = 100_000
    drawn = law.sample(np.random.default_rng(20240229), size)
    assert drawn.shape == (size,)
    assert drawn.min() >= law.support[0]
    band = math.sqrt(math.log(2.0 / 1e-6) / (2.0 * size))
    t = np.unique(np.concatenate([law.search_points(), np.geomspace(1e-6, 100.0, 500)]))
    late = 1.0 - np.searchsorted(np.sort(drawn), t, side="right") / size
    assert np.abs(late - law.survival(t)).max() <= band
    assert abs(np.isinf(drawn).mean() - law.mass_at_infinity) <= band


@every_law
def test_samples_are_reproducible_and_have_the_shape_asked_for(law: Delay) -> None:
    first = law.sample(np.random.default_rng(1), (3, 4))
    assert first.shape == (3, 4)
    np.testing.assert_array_equal(first, law.sample(np.random.default_rng(1), (3, 4)))


@every_law
def test_search_points_are_sorted_positive_and_finite(law: Delay) -> None:
    points = law.search_points()
    assert (points > 0.0).all()
    assert np.isfinite(points).all()
    assert (np.diff(points) > 0.0).all()


# -- closed forms ----------------------------------------------------------------------------------


def _gamma_truncated_mean(shape: float, t: float) -> Any:
    a, x = mpmath.mpf(shape), mpmath.mpf(t)
    below = mpmath.gammainc(a + 1, 0, x, regularized=True)
    return a * below + x * mpmath.gammainc(a, x, mpmath.inf, regularized=True)


@pytest.mark.parametrize("shape", [0.05, 0.25, 1.0, 7.5, 300.0])
@pytest.mark.parametrize("t", [1e-9, 1e-3, 0.7, 40.0, 1e4])
def test_truncated_means_of_gamma_laws_are_exact(shape: float, t: float) -> None:
    with mpmath.workdps(40):
        assert Gamma(shape, 3.0).truncated_mean(3.0 * t) == pytest.approx(
            float(3 * _gamma_truncated_mean(shape, t)), rel=1e-12
        )


@pytest.mark.parametrize("shape", [0.3, 1.0, 1.0 + 1e-12, 1.001, 3.0, 50.0])
@pytest.mark.parametrize("t", [1e-12, 1e-3, 0.7, 1e6])
def test_truncated_means_of_lomax_laws_are_exact_also_around_shape_one(shape: float, t: float) -> None:
    with mpmath.workdps(60):
        growth, a = 1 + mpmath.mpf(t), mpmath.mpf(shape)
        exact = mpmath.log(growth) if shape == 1.0 else (growth ** (1 - a) - 1) / (1 - a)
        assert Lomax(shape, 2.0).truncated_mean(2.0 * t) == pytest.approx(float(2 * exact), rel=1e-12)


@pytest.mark.parametrize("p", [1e-300, 1e-100, 1e-12, 1e-4, 0.3, 0.999])
def test_tiny_tail_probabilities_are_inverted_to_full_precision(p: float) -> None:
    with mpmath.workdps(40):
        exact = mpmath.findroot(
            lambda u: mpmath.log(mpmath.gammainc(0.25, mpmath.exp(u), mpmath.inf, regularized=True)) - mpmath.log(p),
            mpmath.log(Gamma(0.25, 1.0).upper_quantile(p)),
        )
        assert Gamma(0.25, 1.0).upper_quantile(p) == pytest.approx(float(mpmath.exp(exact)), rel=1e-11)
        assert Exponential(3.0).upper_quantile(p) == pytest.approx(float(-3 * mpmath.log(p)), rel=1e-14)
        power = mpmath.mpf(p) ** (-mpmath.mpf(1) / 3)
        assert Lomax(3.0, 2.0).upper_quantile(p) == pytest.approx(float(2 * (power - 1)), rel=1e-12)


def test_tiny_chances_to_be_ready_early_are_exact() -> None:
    assert Exponential(2.0).cdf(1e-30) == pytest.approx(0.5e-30, rel=1e-15)
    assert Lomax(3.0, 2.0).cdf(1e-30) == pytest.approx(1.5e-30, rel=1e-15)
    assert Gamma(2.0, 1.0).cdf(1e-30) == pytest.approx(0.5e-60, rel=1e-12)


# -- measured durations ----------------------------------------------------------------------------


def test_kaplan_meier_by_hand() -> None:
    # Seven nodes; 7, 6, 4 and 2 are still being watched at the four finished durations 3, 5, 6, 10.
    steps = [6 / 7, 6 / 7 * 5 / 6, 6 / 7 * 5 / 6 * 3 / 4, 6 / 7 * 5 / 6 * 3 / 4 * 1 / 2]
    np.testing.assert_allclose(CENSORED.survival(np.array([3.0, 5.0, 6.0, 10.0])), steps, rtol=1e-15)
    np.testing.assert_allclose(CENSORED.survival(np.array([2.9, 4.9, 5.9, 9.9])), [1.0, *steps[:3]], rtol=1e-15)
    assert CENSORED.mass_at_infinity == pytest.approx(15 / 56, rel=1e-15)
    assert CENSORED.truncated_mean(8.0) == pytest.approx(3 + 2 * 6 / 7 + 5 / 7 + 2 * 15 / 28, rel=1e-15)
    assert CENSORED.mean == math.inf


def test_without_censoring_it_is_the_empirical_distribution() -> None:
    durations = np.round(np.random.default_rng(3).exponential(1.0, 1000), 2)
    law = Empirical(durations.tolist())
    t = np.linspace(0.0, 8.0, 801)
    np.testing.assert_allclose(law.survival(t), (durations[:, None] > t).mean(axis=0), atol=1e-15)
    np.testing.assert_allclose(law.truncated_mean(t), np.minimum(durations[:, None], t).mean(axis=0), rtol=1e-12)
    assert law.mean == pytest.approx(durations.mean(), rel=1e-12)


@pytest.mark.parametrize("count", [3, 10, 49, 1000])
def test_the_kth_of_n_durations_is_the_quantile_of_k_over_n(count: int) -> None:
    law = Empirical([float(k) for k in range(1, count + 1)])
    assert [law.quantile(k / count) for k in range(1, count + 1)] == list(range(1, count + 1))
    assert [law.upper_quantile((count - k) / count) for k in range(1, count + 1)] == list(range(1, count + 1))


def test_a_node_that_never_finished_is_mass_at_infinity() -> None:
    law = Empirical([1.0, math.inf, 2.0, math.inf])
    assert law.mass_at_infinity == 0.5
    assert law.quantile(0.5) == 2.0
    assert law.quantile(0.51) == math.inf
    assert law == Empirical([1.0, math.inf, 2.0, math.inf])


def test_censored_last_leaves_mass_and_finished_last_does_not() -> None:
    assert Empirical([1.0, 2.0], [False, True]).mass_at_infinity == 0.5
    assert Empirical([1.0, 2.0], [True, False]).mass_at_infinity == 0.0


# -- mixtures, shifts and scipy --------------------------------------------------------------------


def test_a_mixture_with_dead_nodes() -> None:
    law = Mixture([0.9, 0.1], [Exponential(1.0), Never()])
    assert law.survival(math.inf) == pytest.approx(0.1)
    assert law.survival(2.0) == pytest.approx(0.1 + 0.9 * math.exp(-2.0), rel=1e-15)
    assert law.truncated_mean(2.0) == pytest.approx(0.2 + 0.9 * (1 - math.exp(-2.0)), rel=1e-15)
    assert law.quantile(0.45) == pytest.approx(math.log(2.0), rel=1e-14)
    assert law.quantile(0.95) == math.inf
    assert law.upper_quantile(0.1) == math.inf
    assert law.upper_quantile(0.05) == math.inf


def test_mixtures_find_atoms_exactly_and_unbounded_ends() -> None:
    law = Mixture([0.5, 0.5], [Empirical([0.3, 0.7]), Shifted(0.1, Empirical([0.7]))])
    assert law.quantile(0.25) == 0.3
    assert law.quantile(1.0) == law.upper_quantile(0.0) == law.support[1]
    assert law.cdf(law.support[1]) == 1.0
    smooth = Mixture([0.5, 0.5], [Exponential(1.0), Exponential(2.0)])
    assert smooth.upper_quantile(0.0) == smooth.quantile(1.0) == math.inf


@given(constant=st.floats(1e-6, 1e6), duration=st.floats(1e-6, 1e6))
def test_a_shift_never_loses_an_atom_to_rounding(constant: float, duration: float) -> None:
    law = Shifted(constant, Empirical([duration]))
    assert law.cdf(law.quantile(1.0)) == 1.0
    assert (law.cdf(law.search_points()) == 1.0).any()


@pytest.mark.parametrize(
    ("scipy_law", "law"),
    [
        (stats.expon(scale=2.0), Exponential(2.0)),
        (stats.gamma(0.25), Gamma(0.25, 1.0)),
        (stats.lomax(3.0, scale=2.0), Lomax(3.0, 2.0)),
        (stats.lomax(0.8), Lomax(0.8, 1.0)),
        (stats.expon(loc=0.5), Shifted(0.5, Exponential(1.0))),
    ],
)
def test_laws_of_scipy_agree_with_the_closed_forms(scipy_law: Any, law: Delay) -> None:
    wrapped = ScipyDelay(scipy_law)
    t = np.geomspace(1e-6, 1e8, 60)
    np.testing.assert_allclose(wrapped.survival(t), law.survival(t), rtol=1e-9)
    np.testing.assert_allclose(wrapped.truncated_mean(t), law.truncated_mean(t), rtol=1e-9)
    tails = np.geomspace(1e-12, 0.9, 30)
    np.testing.assert_allclose(wrapped.upper_quantile(tails), law.upper_quantile(tails), rtol=1e-8)
    assert wrapped.mean == pytest.approx(law.mean)


@pytest.mark.parametrize("law", [stats.weibull_min(0.5, scale=3.0), stats.lognorm(1.0), stats.invgauss(2.0)])
def test_the_tails_of_scipy_laws_are_inverted_even_where_scipy_does_not(law: Any) -> None:
    for p in (1e-12, 1e-15, 1e-5):
        assert law.sf(ScipyDelay(law).upper_quantile(p)) == pytest.approx(p, rel=1e-6)


# -- spelling --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "law"),
    [
        ("exponential:1", Exponential(1.0)),
        (" gamma:0.25, 1 ", Gamma(0.25, 1.0)),
        ("lomax:3,2", Lomax(3.0, 2.0)),
        ("never", Never()),
        ("0.1+gamma:0.25,1", Shifted(0.1, Gamma(0.25, 1.0))),
        ("1e+2+exponential:1", Shifted(100.0, Exponential(1.0))),
        ("0.1+0.2+never", Shifted(0.1, Shifted(0.2, Never()))),
        ("0.9*exponential:1|0.1*never", Mixture([0.9, 0.1], [Exponential(1.0), Never()])),
        ("0.5*1+never|0.5*lomax:1,1", Mixture([0.5, 0.5], [Shifted(1.0, Never()), Lomax(1.0, 1.0)])),
    ],
)
def test_spellings_are_read(text: str, law: Delay) -> None:
    assert parse_delay(text) == law
    assert parse_delay(str(law)) == law


def test_scipy_laws_are_read_and_spelled() -> None:
    for text in ("scipy:weibull_min,0.5", "scipy:uniform,1,2", "scipy:expon,0,2"):
        assert str(parse_delay(text)) == text
    assert str(ScipyDelay(stats.gamma(a=2, loc=1))) == "scipy:gamma,2,1"
    assert parse_delay("scipy:expon,0,2").survival(2.0) == pytest.approx(math.exp(-1.0))


def test_mixtures_within_mixtures_are_spelled_flat() -> None:
    inner = Mixture([0.5, 0.5], [Exponential(1.0), Never()])
    law = Mixture([0.5, 0.5], [Shifted(1.0, inner), inner])
    assert str(law) == "0.25*1+exponential:1|0.25*1+never|0.25*exponential:1|0.25*never"
    assert str(Shifted(1.0, inner)) == "0.5*1+exponential:1|0.5*1+never"
    assert parse_delay(str(law)) == law


def _file(folder: Path, content: str) -> str:
    path = folder / "a|b+c*d, measured.csv"  # everything after empirical: is a path
    path.write_text(content, encoding="utf-8")
    return f"empirical:{path}"


@pytest.mark.parametrize(
    ("content", "law"),
    [
        ("1\n2.5\n\n0\n", Empirical([1.0, 2.5, 0.0])),
        ("\ufeffduration\r\n1\r\ninf\r\n", Empirical([1.0, math.inf])),
        ("duration,censored\n1,0\n2,1\n3,no\n4,TRUE\n", Empirical([1, 2, 3, 4], [False, True, False, True])),
        ("1,false\n 2 , yes \n", Empirical([1.0, 2.0], [False, True])),
    ],
)
def test_measured_durations_are_read(tmp_path: Path, content: str, law: Delay) -> None:
    text = _file(tmp_path, content)
    assert parse_delay(text) == law
    assert str(parse_delay(text)) == text


def test_a_file_may_be_part_of_a_mixture(tmp_path: Path) -> None:
    (tmp_path / "d.csv").write_text("1\n2\n")
    law = parse_delay(f"0.5*0.1+empirical:{tmp_path / 'd.csv'}|0.5*never")
    assert law.survival(1.5) == 0.75


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ("", "there is no duration in it"),
        ("duration\n\n", "there is no duration in it"),
        ("1\n-2\n", "line 2: a duration must be a number of at least 0, not '-2'"),
        ("duration\n1\nfast\n", "line 3: a duration must be a number of at least 0, not 'fast'"),
        ("1.5s\n2\n", "line 1: a duration must be a number of at least 0, not '1.5s'"),
        ("nan\n", "line 1: a duration must be a number of at least 0, not 'nan'"),
        ("1\n2,0\n", "line 2: 1 column as above expected, not '2,0'"),
        ("1,0\n2\n", "line 2: 2 columns as above expected, not '2'"),
        ("1,0,7\n", "line 1: 1 or 2 columns expected, not '1,0,7'"),
        ("1,0\n2,maybe\n", "line 2: censored must be 0/1, true/false or yes/no, not 'maybe'"),
        (
            "duration,finished\n1,1\n",
            "line 1: the columns must be duration,censored, not 'duration,finished'",
        ),
        (
            "censored,duration\n1,1\n",
            "line 1: the columns must be duration,censored, not 'censored,duration'",
        ),
        ("1,1\n2,1\n", "no duration in it is one of a node that finished"),
        ("inf\n", "no duration in it is one of a node that finished"),
        ("x" * 100 + "\n?" + "y" * 100, "line 2: a duration must be a number of at least 0, not '?yyyyy"),
    ],
)
def test_files_that_cannot_be_used_are_refused_by_line(tmp_path: Path, content: str, reason: str) -> None:
    text = _file(tmp_path, content)
    with pytest.raises(InvalidInput) as refusal:
        parse_delay(text)
    assert str(refusal.value).startswith(f"delay = {text}: {reason}")
    assert "\n" not in str(refusal.value)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match=r"the file cannot be read: No such file"):
        parse_delay(f"empirical:{tmp_path / 'missing.csv'}")
    with pytest.raises(InvalidInput, match=r"the file cannot be read: Is a directory"):
        parse_delay(f"empirical:{tmp_path}")
    (tmp_path / "binary.csv").write_bytes(b"\xff\xfe\x00\x81")
    with pytest.raises(InvalidInput, match=r"it is not a text file"):
        parse_delay(f"empirical:{tmp_path / 'binary.csv'}")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "must be one of exponential:MEAN, gamma:SHAPE,SCALE"),
        ("cauchy:1", "must be one of exponential:MEAN"),
        ("exponential", "exponential takes 1 (mean) numbers, not 0"),
        ("gamma:1", "gamma takes 2 (shape, scale) numbers, not 1"),
        ("never:1", "never takes 0 numbers, not 1"),
        ("exponential:fast", "the mean must be a number, not 'fast'"),
        ("exponential:0", "the mean must be a finite number above 0"),
        ("exponential:inf", "the mean must be a finite number above 0"),
        ("gamma:0.25,-1", "the scale must be a finite number above 0"),
        ("lomax:nan,1", "the shape must be a finite number above 0"),
        ("-1+never", "the shift must be a finite number of at least 0"),
        ("inf+never", "the shift must be a finite number of at least 0"),
        ("1+cauchy:1", "in cauchy:1, must be one of"),
        ("0.9*exponential:1|0.2*never", "the weights must be above 0 and sum to 1"),
        ("1.5*exponential:1|-0.5*never", "the weights must be above 0 and sum to 1"),
        ("0.5*exponential:1|never", "a weight must be a number, not 'never'"),
        ("0.5*exponential:1|0.5*", "in an empty part, must be one of"),
        ("scipy:", "must be one of"),
        ("scipy:norm", "its support starts at -inf, but negative delays are impossible"),
        ("scipy:uniform,-1,3", "its support starts at -1, but negative delays are impossible"),
        ("scipy:nolaw,1", "scipy.stats has no continuous law called 'nolaw'"),
        ("scipy:multivariate_normal", "scipy.stats has no continuous law called 'multivariate_normal'"),
        ("scipy:weibull_min", "weibull_min takes c, then optionally loc, scale, not 0 numbers"),
        ("scipy:poisson,1", "scipy.stats has no continuous law called 'poisson'"),
        ("scipy:weibull_min,x", "an argument must be a number, not 'x'"),
        ("scipy:weibull_min,-1", "scipy does not allow these parameters for this law"),
    ],
)
def test_spellings_that_mean_nothing_are_refused(text: str, reason: str) -> None:
    with pytest.raises(InvalidInput) as refusal:
        parse_delay(text)
    assert str(refusal.value).startswith(f"delay = {text}: {reason}" if text else f"delay: {reason}")
    assert refusal.value.parameter == "delay"


def test_constructors_refuse_what_is_no_law() -> None:
    with pytest.raises(InvalidInput, match="there is no duration in it"):
        Empirical([])
    with pytest.raises(InvalidInput, match="a duration must be at least 0, not -1"):
        Empirical([1.0, -1.0])
    with pytest.raises(InvalidInput, match="2 durations need as many censored flags, not 1"):
        Empirical([1.0, 2.0], [True])
    with pytest.raises(InvalidInput, match="as many weights as laws"):
        Mixture([1.0], [Never(), Never()])
    with pytest.raises(InvalidInput, match="the scale must be a number, not 'slow'"):
        Gamma(1.0, "slow")  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="scipy:poisson,3: is a law of whole numbers"):
        ScipyDelay(stats.poisson(3.0))
    for not_frozen in (stats.expon, 3.0, stats.multivariate_normal([0.0, 0.0])):
        with pytest.raises(InvalidInput, match="a frozen law"):
            ScipyDelay(not_frozen)
    with pytest.raises(InvalidInput, match="single numbers"):
        ScipyDelay(stats.expon(scale=np.array([1.0, 2.0])))


def test_questions_without_an_answer_are_refused() -> None:
    with pytest.raises(InvalidInput, match="timeout = nan"):
        Exponential(1.0).survival(math.nan)
    for probability in (-0.1, 1.1, math.nan):
        with pytest.raises(InvalidInput, match="between 0 and 1"):
            Exponential(1.0).quantile(probability)
