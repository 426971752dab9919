"""The scattering transform of an image: moduli of its wavelet coefficients, averaged; nothing in it is learned.

An image is convolved with Morlet wavelets of two scales and eight directions, and the modulus is taken; the finer ones'
moduli are convolved with the coarser wavelets once more. The image, the 16 moduli and the 64 moduli of moduli are each
averaged by a Gaussian and kept at every fourth pixel. That gives 81 channels, and for 28 x 28 pixels 81 x 7 x 7 = 3969
numbers (Bruna & Mallat, Invariant scattering convolution networks, 2013). Each image is then normalised by itself, in
27 groups of channels that are neighbours in that order: mean 0 and deviation 1 in each group, and norm 1 for the whole.

Everything is computed in double precision. On a CPU one image is computed at a time, so that what comes out for it
cannot depend on another, not even in its last digit. A GPU computes many at a time and agrees to the last digits.
"""

from __future__ import annotations

import math
import os
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..._threads import cores, one_blas_thread
from ...errors import InvalidInput

_DIRECTIONS = 8
_STRIDE = 4  # 2^J for J = 2: how far apart the averages are
_CHANNELS = 1 + 2 * _DIRECTIONS + _DIRECTIONS**2
_GROUPS = 27
#: Added to the variance in a group, as is usual: in a flat group, noise would be blown up to deviation 1. (It counts
#: where pixels are from 0 to 1.)
_LEAST_VARIANCE = 1e-5
#: Pixels in a row and in a column, and colours, by the number of columns.
_SHAPES = {64: (8, 1), 784: (28, 1), 3072: (32, 3)}
_GPU_IMAGES = 256
#: Norms stay below 1 when numbers are rounded to single precision.
_JUST_BELOW_1 = 1.0 - 2.0**-23


@dataclass(frozen=True)
class Scattering:
    """The scattering transform of images of 8 x 8 or 28 x 28 pixels, or 32 x 32 in colour, pixel by pixel in a row.

    >>> Scattering(784).width
    3969
    """

    columns: int
    device: str = "auto"
    name = "scattering"
    pixels = True
    unit = True
    kept = True
    version = "1"

    def __post_init__(self) -> None:
        if self.columns not in _SHAPES:
            known = "8 x 8 (64 columns), 28 x 28 (784) or 32 x 32 in colour (3072)"
            reason = f"takes images of {known}, and the rows have {self.columns} columns"
            raise InvalidInput.because("encoder", self.name, reason)

    @property
    def width(self) -> int:
        """How many numbers an image becomes."""
        side, colours = _SHAPES[self.columns]
        return colours * _CHANNELS * (side // _STRIDE) ** 2

    def __call__(self, rows: NDArray[Any]) -> NDArray[np.float32]:
        """Return the features of images, pixel by pixel in a row each."""
        if (torch := _torch(self.device)) is not None:
            return self._with_torch(rows, torch, "cuda" if self.device == "auto" else self.device)
        out = np.empty((len(rows), self.width), np.float32)
        bank = _bank(_SHAPES[self.columns][0])
        import scipy.fft  # slow to import

        def each(start: int) -> None:
            for row in range(start, len(rows), threads):
                planes = self._planes(rows[row : row + 1])
                out[row] = _normalised(_coefficients(planes, bank, scipy.fft).reshape(1, -1))[0]

        threads = cores()
        with one_blas_thread(), ThreadPoolExecutor(threads) as pool:
            list(pool.map(each, range(threads)))
        return out

    def _planes(self, rows: NDArray[Any]) -> NDArray[np.float64]:
        """Return a plane for each colour of each image, continued beyond its border as in a mirror."""
        side, colours = _SHAPES[self.columns]
        planes = rows.reshape(-1, side, side, colours).transpose(0, 3, 1, 2).reshape(-1, side, side)
        border = (_STRIDE, _STRIDE)
        return np.pad(planes.astype(np.float64, copy=False), ((0, 0), border, border), mode="reflect")

    def _with_torch(self, rows: NDArray[Any], torch: Any, device: str) -> NDArray[np.float32]:
        out = np.empty((len(rows), self.width), np.float32)
        bank = _Bank(*(torch.from_numpy(part).to(device) for part in _bank(_SHAPES[self.columns][0])))
        for low in range(0, len(rows), _GPU_IMAGES):
            part = rows[low : low + _GPU_IMAGES]
            # The same number of images every time: how a GPU adds up may depend on it.
            whole = np.zeros((_GPU_IMAGES, self.columns))
            whole[: len(part)] = part
            planes = torch.from_numpy(self._planes(whole)).to(device)
            found = _normalised(_coefficients(planes, bank, torch.fft).reshape(_GPU_IMAGES, -1))
            out[low : low + len(part)] = found.to(torch.float32).cpu().numpy()[: len(part)]
        return out


class _Bank(NamedTuple):
    """Filters for planes of one size: wavelets by their Fourier transforms, averages as matrices.

    The transform of a Morlet wavelet is real. An average followed by keeping every fourth pixel is a matrix: one for
    planes as they are, one for those of which every second pixel was kept.
    """

    fine: Any
    coarse: Any
    average: Any
    average_of_half: Any


@cache
def _bank(side: int) -> _Bank:
    size = side + 2 * _STRIDE
    angles = [direction * math.pi / _DIRECTIONS for direction in range(_DIRECTIONS)]
    fine, coarse = (np.stack([_morlet(size, scale, angle) for angle in angles]) for scale in (1.0, 2.0))
    return _Bank(fine, coarse, _average(size, size), _average(size, size // 2))


def _morlet(size: int, scale: float, angle: float) -> NDArray[np.float64]:
    """Return the Fourier transform of a wavelet: a wave under a Gaussian, less so much Gaussian that its mean is 0."""
    wave, gaussian = (_wave(size, 0.8 * scale, angle, at, 4.0 / _DIRECTIONS) for at in (0.75 * math.pi / scale, 0.0))
    return np.fft.fft2(wave - wave.sum() / gaussian.sum() * gaussian).real


def _wave(size: int, width: float, angle: float, frequency: float, slant: float) -> NDArray[np.complex128]:
    """Return a wave under a Gaussian of this width, 1 / `slant` times as wide along its crests, on a torus."""
    position = np.arange(-2 * size, 3 * size)
    x, y = position[:, None], position[None, :]
    along, across = x * math.cos(angle) + y * math.sin(angle), y * math.cos(angle) - x * math.sin(angle)
    wave = np.exp(1j * frequency * along - (along**2 + (slant * across) ** 2) / (2.0 * width**2))
    return wave.reshape(5, size, 5, size).sum(axis=(0, 2)) * (slant / (2.0 * math.pi * width**2))


def _average(size: int, kept: int) -> NDArray[np.float64]:
    """Return the matrix that averages a plane by a Gaussian and keeps every fourth pixel, but for the border's.

    Of a plane of `size` pixels in a row, `kept` are there, equally far apart; the Gaussian has no frequencies that they
    cannot show.
    """
    transform = np.fft.fft2(_wave(size, 0.8 * _STRIDE / 2.0, 0.0, 0.0, 1.0)).real
    frequencies = np.arange(kept) - kept * (np.arange(kept) >= kept // 2)
    gaussian = np.fft.ifft2(transform[np.ix_(frequencies, frequencies)]).real
    centres = np.arange(1, size // _STRIDE - 1) * (kept * _STRIDE // size)
    away = (centres[:, None] - np.arange(kept)) % kept
    weights = gaussian[away[:, None, :, None], away[None, :, None, :]]
    return np.ascontiguousarray(weights.reshape(len(centres) ** 2, kept**2).T)


def _coefficients(planes: Any, bank: _Bank, fft: Any) -> Any:
    """Return the averaged moduli of planes, by plane, channel and place; arrays of numpy or tensors of torch.

    `fft` is `scipy.fft` or `torch.fft`.
    """
    count, size, _ = planes.shape
    transform = fft.fft2(planes)[:, None]
    fine = abs(fft.ifft2(transform * bank.fine))
    coarse = abs(fft.ifft2(_every_second(transform * bank.coarse)))
    twice = abs(fft.ifft2(_every_second(fft.fft2(fine)[:, :, None] * bank.coarse)))
    averages = (
        planes.reshape(count, 1, size**2) @ bank.average,
        fine.reshape(count, _DIRECTIONS, size**2) @ bank.average,
        coarse.reshape(count, _DIRECTIONS, size**2 // 4) @ bank.average_of_half,
        twice.reshape(count, _DIRECTIONS**2, size**2 // 4) @ bank.average_of_half,
    )
    if isinstance(planes, np.ndarray):
        return np.concatenate(averages, axis=1)
    import torch  # an optional extra

    return torch.cat(averages, dim=1)


def _every_second(transform: Any) -> Any:
    """Return the transform of a plane of which every second pixel is kept: frequencies that look alike are added."""
    half = transform.shape[-1] // 2
    rows = transform[..., :half, :] + transform[..., half:, :]
    return (rows[..., :half] + rows[..., half:]) * 0.25


def _normalised(images: Any) -> Any:
    """Return the channels of each image with mean 0 and deviation 1 in each group, and norm 1 over all."""
    groups = images.reshape(len(images), _GROUPS, -1)
    groups = groups - groups.mean(-1)[..., None]
    groups = groups / ((groups * groups).mean(-1) + _LEAST_VARIANCE)[..., None] ** 0.5
    rows = groups.reshape(len(images), -1)
    norms = (rows * rows).sum(-1) ** 0.5
    # A blank image has no features: its row is one of zeros.
    return rows * (_JUST_BELOW_1 / (norms + (norms == 0.0)))[..., None]


@cache
def _torch(device: str) -> ModuleType | None:
    """Return PyTorch if it is to be used: a GPU was asked for, or is there."""
    # Without a driver there is no need to load PyTorch, which takes seconds.
    possible = find_spec("torch") is not None and (os.name == "nt" or Path("/proc/driver/nvidia").exists())
    if device == "cpu" or (device == "auto" and not possible):
        return None
    if device != "auto" and device.partition(":")[0] != "cuda":
        raise InvalidInput("device", device, "auto, cpu or cuda")
    if find_spec("torch") is None:
        raise InvalidInput.because("device", device, "PyTorch is needed: pip install skipring[torch]")
    import torch  # an optional extra

    if torch.cuda.is_available():
        return torch
    if device != "auto":
        raise InvalidInput.because("device", device, "there is no GPU that PyTorch can use")
    return None
