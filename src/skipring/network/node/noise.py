"""Noise that nobody can predict: Gaussian numbers from the operating system's randomness, never from a seed.

A simulation draws its noise from a seed, so that it can be repeated. A real node must not. An attacker who knows the
seed, or recovers the state of an ordinary generator from numbers it has seen, subtracts the noise and has the data.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._arrays import Doubles
from ...errors import InvalidInput, require_non_negative, require_positive

#: Gaussians in each sum: the low bits of one can be traced back to the bits it was made from, those of a sum cannot.
_TERMS = 4
#: How many numbers are made at a time: what they are made from fits into a processor's cache.
_CHUNK = 8192
#: What a number is made from: per term, two words of 8 bytes for two numbers.
_BYTES = 8 * _TERMS
#: Results are multiples of the deviation's power of two over this one.
_GRID_BITS = 20
#: No number is beyond 18.84 deviations (twice the largest radius); beyond this many, radii are too coarse to trust.
_REACH = 16.0
#: A smaller deviation is taken for a mistake.
_SMALLEST_STD = 1e-100


class NoiseSource:
    """Gaussian noise that nobody can predict, and that nobody can draw again.

    Each call takes a new 256-bit key from the operating system, turns it into a stream with AES in counter mode, and
    lets it go. A source has no state: processes that fork, threads, and copies of a source never share a stream. And
    there is no key to steal later (Python frees its memory, though it does not overwrite it).

    The distribution: a number is half the sum of four independent Box-Muller Gaussians, each from 63 bits for its
    radius and 64 for its angle. None is beyond 18.84 standard deviations (a true Gaussian is with probability
    4e-79); the arithmetic is good to 1e-14 standard deviations as a rule, and to 5e-8 at worst (of radii near 0).
    `add` rounds its results to a grid that depends on the deviation alone: multiples of a power of two between 2**-21
    and 2**-20 of it.

    What is not guaranteed: accounting is about real numbers and exactly Gaussian noise, and this is neither. Attacks
    on floating-point noise are known (Mironov 2012; Jin, McMurtry, Rubinstein and Ohrimenko 2022). They look at the
    lowest bits of a result, which not every data value can lead to. Sums of four (Holohan and Braghin 2021) and the
    grid take away what they look at. No draw is ever rejected, since the time that takes would tell something of the
    noise. That is a defence, not a proof: a proof needs exact samplers of integers, which take hundreds of times as
    long.
    """

    def add(self, vector: NDArray[np.floating[Any]], std: float) -> None:
        """Add independent noise of this standard deviation to each number of a vector, in place.

        A float32 vector is computed in float64 and rounded once. Numbers that are not finite are refused: noise does
        not hide them.

        >>> import numpy as np
        >>> gradient = np.zeros(1000)
        >>> NoiseSource().add(gradient, 2.0)
        >>> round(float(gradient.std()))
        2
        """
        _require_vector(vector)
        _require_std(std, vector.dtype)
        if std == 0.0 or not vector.size:
            return
        grid = math.ldexp(1.0, math.frexp(std)[1] - 1 - _GRID_BITS)
        start = 0
        for noise in _chunks(len(vector)):
            part = vector[start : start + len(noise)]
            # A data value shifts the pattern of the lowest bits, and no noise hides that. Rounding to a grid that is
            # the same for all data comes after the noise, and so costs no privacy.
            part[:] = np.rint((part + std * noise) / grid) * grid
            start += len(noise)


def unreached(noise_multiplier: float, numbers: float, rise: float = 1.0) -> float:
    """Return what is to be added to delta because noise is Gaussian only up to 16 standard deviations.

    Replacing a node's data moves each of its gradients by at most 2 / noise multiplier standard deviations. An account
    hides no more than that behind any one noise, as long as step sizes never grow. Behind a step that is `rise` times
    an earlier one it may hide `rise` times as much. A result that is Gaussian in one world is out of reach in the other
    only if some noise lies so close to the end of its reach. `numbers` is how many numbers of noise are drawn in the
    whole run: parameters times updates.

    >>> unreached(10.0, 1e9) < 1e-45, unreached(0.1, 1.0)
    (True, 1.0)
    """
    require_positive("noise_multiplier", noise_multiplier)
    return min(1.0, float(numbers) * math.erfc((_REACH - 2.0 * rise / float(noise_multiplier)) / math.sqrt(2.0)))


def _require_vector(vector: object) -> None:
    if not isinstance(vector, np.ndarray):
        raise InvalidInput("vector", f"a {type(vector).__name__}", "a numpy vector of float32 or float64")
    if vector.ndim != 1 or vector.dtype not in (np.float32, np.float64):
        given = f"an array of {vector.dtype} in {vector.ndim} dimensions"
        raise InvalidInput("vector", given, "a numpy vector of float32 or float64")
    if not vector.flags.writeable:
        raise InvalidInput("vector", "a read-only array", "writeable: noise is added in place")
    largest = _largest(vector.dtype)
    low, high = (float(vector.min()), float(vector.max())) if vector.size else (0.0, 0.0)
    if not (low >= -largest and high <= largest):  # not a number: both comparisons are false
        raise InvalidInput("vector", f"from {low:g} to {high:g}", f"of finite numbers of at most {largest:.0e}")


def _require_std(std: float, dtype: np.dtype[Any]) -> None:
    require_non_negative("std", std)
    largest = _largest(dtype)
    if std != 0.0 and not _SMALLEST_STD <= std <= largest:
        raise InvalidInput("std", std, f"0, or between {_SMALLEST_STD:.0e} and {largest:.0e}")


def _largest(dtype: np.dtype[Any]) -> float:
    """Return what is still far from overflowing, whatever is added or divided."""
    return 1e18 if dtype == np.float32 else 1e150


def _chunks(count: int) -> Iterator[Doubles]:
    """Yield `count` standard normal numbers, some at a time, from a new key."""
    from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes

    # A key is used for this stream alone, so the counter may start at 0.
    stream = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
    zeros = memoryview(bytes((min(count, _CHUNK) + 1) * _BYTES))
    for start in range(0, count, _CHUNK):
        wanted = min(_CHUNK, count - start)
        pairs = (wanted + 1) // 2
        bits = stream.update(zeros[: 2 * pairs * _BYTES])
        yield _gaussians(np.frombuffer(bits, dtype=np.uint64))[:wanted]


def _gaussians(words: NDArray[np.uint64]) -> Doubles:
    """Turn random words into standard normal numbers: the cosines' sums, then the sines' sums."""
    for_radius, for_angle = words.reshape(2, _TERMS, -1)
    # The middles of 2**63 equal stretches of (0, 1): never 0, and as fine as doubles are near 0, where the tail is.
    radius = (for_radius >> np.uint64(1)).view(np.int64).astype(np.float64)
    radius += 0.5
    radius *= 2.0**-63
    np.log(radius, out=radius)
    radius *= -2.0
    np.sqrt(radius, out=radius)
    # Sine and cosine from the tangent of half the angle, for which numpy is ten times as fast.
    tangent = for_angle.view(np.int64) * (math.pi * 2.0**-64)
    np.tan(tangent, out=tangent)
    square = tangent * tangent
    radius /= 1.0 + square
    tangent *= radius  # half of radius * sine
    np.subtract(1.0, square, out=square)
    square *= radius  # radius * cosine
    numbers = np.empty((2, words.size // (2 * _TERMS)))
    np.add.reduce(square, axis=0, out=numbers[0])
    numbers[0] *= 1.0 / math.sqrt(_TERMS)
    np.add.reduce(tangent, axis=0, out=numbers[1])
    numbers[1] *= 2.0 / math.sqrt(_TERMS)
    return numbers.ravel()
