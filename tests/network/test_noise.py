"""Noise that nobody can predict: its law, and that it is never the same twice.

Nothing here can be seeded, so every statistical test fails a correct source with a probability below 1e-9.
"""

from __future__ import annotations

import itertools
import math
import pickle
import random
import subprocess
import sys
from collections.abc import Callable

import mpmath
import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import chisquare, kstest

from skipring.errors import InvalidInput
from skipring.network.node import NoiseSource, unreached
from skipring.network.node.noise import _CHUNK, _chunks, _gaussians

Floats = NDArray[np.float64]

SIGMAS = 6.8  # a Gaussian is beyond with probability 1e-11


def drawn(count: int) -> Floats:
    """Return numbers as they are before they are rounded to a grid."""
    return np.concatenate([np.empty(0), *_chunks(count)])


@pytest.fixture(scope="module")
def numbers() -> Floats:
    return drawn(1_000_000)


def test_the_law_is_normal(numbers: Floats) -> None:
    assert kstest(numbers, "norm").pvalue > 1e-10
    # Both halves of a chunk: the sums of cosines, and of sines.
    halves = numbers[: len(numbers) // _CHUNK * _CHUNK].reshape(-1, 2, _CHUNK // 2)
    for half in (0, 1):
        assert kstest(halves[:, half].ravel(), "norm").pvalue > 1e-10


@pytest.mark.parametrize(("power", "mean", "variance"), [(1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)])
def test_the_moments_are_those_of_a_normal_law(numbers: Floats, power: int, mean: float, variance: float) -> None:
    allowed = (SIGMAS if power < 6 else 10.0) * math.sqrt(variance / len(numbers))  # the sixth moment has tails itself
    assert abs(np.mean(numbers**power) - mean) < allowed


@pytest.mark.parametrize("size", [np.asarray, np.abs], ids=["value", "size"])
def test_neither_values_nor_their_sizes_tell_others(numbers: Floats, size: Callable[[Floats], Floats]) -> None:
    """Lags within a sum's neighbours, to the other half of its pairs, and to the next chunk."""
    values = size(numbers) - size(numbers).mean()
    for lag in (1, 2, 3, 4, 8, _CHUNK // 2 - 1, _CHUNK // 2, _CHUNK // 2 + 1, _CHUNK):
        products = values[:-lag] * values[lag:]
        assert abs(products.mean()) < SIGMAS * values.var() / math.sqrt(len(products)), lag


def test_tails_are_there(numbers: Floats) -> None:
    """Beyond 4 standard deviations: 63.3 of a million expected, a Poisson number."""
    assert 15 < np.count_nonzero(np.abs(numbers) > 4.0) < 130
    assert np.abs(numbers).max() < 10.0


def test_the_arithmetic_is_as_good_as_it_says() -> None:
    """Against forty digits, from the same random words; among them all zeros and all ones, where logarithms end."""
    words = np.random.default_rng(0).integers(0, 2**64, (2, 4, 200), dtype=np.uint64)
    for column, (radius, angle) in enumerate(itertools.product((0, 1, 2**63, 2**64 - 1), repeat=2)):
        words[0, :, column], words[1, :, column] = radius, angle
    made = _gaussians(words.ravel())
    with mpmath.workdps(40):
        for column in range(words.shape[2]):
            cosines = sines = mpmath.mpf(0)
            for bits, turn in words[:, :, column].T.tolist():
                radius = mpmath.sqrt(-2 * mpmath.log(mpmath.mpf(2 * (bits >> 1) + 1) / 2**64))
                angle = 2 * mpmath.pi * turn / 2**64
                cosines, sines = cosines + radius * mpmath.cos(angle) / 2, sines + radius * mpmath.sin(angle) / 2
            allowed = 5e-8 if column < 16 else 1e-14
            assert abs(cosines - made[column]) < allowed
            assert abs(sines - made[words.shape[2] + column]) < allowed
    assert 18.83 < made.max() < 18.84  # all radii from zeros: the largest number there is


@pytest.mark.parametrize("count", [0, 1, 2, 3, 31, _CHUNK - 1, _CHUNK, _CHUNK + 1, 2 * _CHUNK + 7])
def test_any_count_is_filled_with_different_numbers(count: int) -> None:
    numbers = drawn(count)
    assert numbers.shape == (count,)
    assert len(np.unique(numbers)) >= count - 1  # doubles: two are equal once in a hundred million times
    vector = np.zeros(count)
    NoiseSource().add(vector, 1.0)
    assert np.count_nonzero(vector == 0.0) < 4  # the grid has 0 in it, once in 2.6 million


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("std", [1e-30, 0.3, 1.0, 4.0, 1e9])
def test_noise_is_added_in_place_with_its_deviation(dtype: type[np.floating], std: float) -> None:
    vector = np.full(3 * _CHUNK + 5, 2.5 * std, dtype=dtype)
    view = vector[1:-1:2]  # a view with gaps
    NoiseSource().add(view, std)
    assert np.all(vector[::2] == dtype(2.5 * std))
    assert vector.dtype == dtype
    noise = (view.astype(np.float64) - float(dtype(2.5 * std))) / std
    assert kstest(noise, "norm").pvalue > 1e-10
    assert abs(noise.std() - 1.0) < SIGMAS / math.sqrt(2 * len(noise))


def test_no_deviation_adds_nothing() -> None:
    vector = np.array([1.0, math.pi])
    NoiseSource().add(vector, 0.0)
    assert vector.tolist() == [1.0, math.pi]


@pytest.mark.parametrize("value", [0.0, 1 / 3, -1e-9, 12345.678])
@pytest.mark.parametrize("std", [1.0, 0.7, 1.999])
def test_results_lie_on_a_grid_that_does_not_know_the_data(value: float, std: float) -> None:
    vector = np.full(100_000, value)
    NoiseSource().add(vector, std)
    places = vector * 2.0 ** (20 if std >= 1.0 else 21)
    assert np.all(places == np.rint(places))
    # And its lowest bits are all alike: they say nothing about the value.
    assert chisquare(np.bincount(places.astype(np.int64) % 16, minlength=16)).pvalue > 1e-10


def test_no_two_draws_are_the_same() -> None:
    first, second = NoiseSource(), NoiseSource()
    copy = pickle.loads(pickle.dumps(first))
    draws = []
    for source in (first, first, second, copy):
        np.random.seed(1)  # noqa: NPY002 - no seed of anybody may have a say
        random.seed(1)
        draws.append(np.zeros(100))
        source.add(draws[-1], 1.0)
    for one, other in itertools.combinations(draws, 2):
        assert np.intersect1d(one, other).size < 4  # two numbers are on the same point of the grid at times


def test_processes_that_fork_draw_different_noise() -> None:
    program = """
import os
import numpy as np
from skipring.network.node import NoiseSource
source, vector = NoiseSource(), np.zeros(2)
source.add(np.zeros(3), 1.0)
child = os.fork()
source.add(vector, 1.0)
print(vector.tolist(), flush=True)
if child:
    os.waitpid(child, 0)
"""
    told = subprocess.run([sys.executable, "-c", program], check=True, capture_output=True, text=True).stdout
    lines = told.splitlines()
    assert len(lines) == 2
    assert lines[0] != lines[1]


@pytest.mark.parametrize("std", [-1.0, math.nan, math.inf, 1e-101, 1e151, "1"])
def test_a_deviation_that_is_none_is_refused(std: float) -> None:
    vector = np.zeros(3)
    with pytest.raises(InvalidInput, match="std = "):
        NoiseSource().add(vector, std)
    assert not vector.any()


@pytest.mark.parametrize(
    "vector",
    [
        np.zeros(3, dtype=np.int64),
        np.zeros(3, dtype=np.float16),
        np.zeros((3, 3)),
        np.array(1.0),
        [0.0, 1.0],
        np.broadcast_to(0.0, 3),
        np.array([0.0, math.nan]),
        np.array([math.inf, 0.0]),
        np.array([0.0, -1e200]),
        np.array([1e30], dtype=np.float32),
    ],
    ids=["integers", "half", "matrix", "scalar", "list", "read-only", "nan", "infinite", "huge", "huge for float32"],
)
def test_a_vector_that_noise_cannot_hide_is_refused(vector: Floats) -> None:
    with pytest.raises(InvalidInput, match="vector = "):
        NoiseSource().add(vector, 1.0)


@pytest.mark.parametrize("noise_multiplier", [0.3, 1.0, 10.0])
def test_what_the_ends_of_the_noise_add_is_an_upper_bound(noise_multiplier: float) -> None:
    """Exact for one number: noise that ends at 18.83 deviations, and two worlds 2 / noise multiplier apart."""
    with mpmath.workdps(120):
        reach, shift = mpmath.mpf("18.83"), 2 / mpmath.mpf(noise_multiplier)
        kept = 1 - 2 * mpmath.ncdf(-reach)
        # What one world shows and the other cannot: the last `shift` deviations before the end.
        only_here = (mpmath.ncdf(shift - reach) - mpmath.ncdf(-reach)) / kept
        assert only_here < unreached(noise_multiplier, 1.0)
        assert unreached(noise_multiplier, 1e6) == pytest.approx(1e6 * unreached(noise_multiplier, 1.0))


def test_steps_that_grow_hide_more_behind_one_noise() -> None:
    """400 updates of the target with step 1, then one of another node with step 20: its noise is moved by 2 deviations.

    The account is that of the greatest convex minorant: all 401 pooled, each noise moved in proportion to its variance.
    """
    sizes, noise_multiplier = np.append(np.ones(400), 20.0), 10.0
    drift, variances = 2.0 * 400, (sizes * noise_multiplier) ** 2
    moved = drift * variances / variances.sum() / np.sqrt(variances)
    assert moved.max() == pytest.approx(2.0)
    rise = float(np.max(sizes / np.minimum.accumulate(sizes)))
    assert unreached(noise_multiplier, 1.0, rise) >= math.erfc((16.0 - moved.max()) / math.sqrt(2.0))
    assert unreached(noise_multiplier, 1.0) < math.erfc((16.0 - moved.max()) / math.sqrt(2.0))
