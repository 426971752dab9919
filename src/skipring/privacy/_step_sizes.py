"""How much of one update an observer sees, after others have added their noise to it."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scipy.special import psi

from .._arrays import Floats

StepSizeLaw = Literal["sqrt", "constant"]


def falls(law: StepSizeLaw) -> bool:
    """Return whether step sizes fall with the root of the update number; if not, they stay as they are."""
    return law == "sqrt"


def share(update: Floats, noises: Floats, law: StepSizeLaw) -> Floats:
    """Return rho: the leakage of update number c once H updates (its own included) have added noise, at most 1.

    rho(c, H) = eta_c^2 / (eta_c^2 + ... + eta_{c+H-1}^2), decreasing in both. With step sizes rate/sqrt(c) this is
    1 / (c (psi(c+H) - psi(c))), with constant ones 1/H.

    >>> share(np.array([1.0, 2.0]), np.array([1.0, 2.0]), "sqrt").round(6).tolist()
    [1.0, 0.6]
    """
    update, noises = np.broadcast_arrays(update, noises)
    if not falls(law):
        return 1.0 / noises
    # A hair upwards: the psi are good to some 1e-13.
    result: Floats = np.minimum(1.0, (1.0 + 1e-11) / (update * _psi_gap(update, noises)))
    return result


def share_after(update: Floats, between: float, noises: Floats, law: StepSizeLaw) -> Floats:
    """Return the leakage of update number c that is absorbed in itself and in `noises` updates of others after it.

    At most `between` updates that do not count lie before or among those. With step sizes rate/sqrt(c) the noise of
    update i weighs c/i, so it is 1 / (1 + c (psi(c + between + 1 + noises) - psi(c + between + 1))), which decreases in
    c and in `noises`; with constant step sizes 1 / (1 + noises).

    >>> share_after(np.array([1.0, 2.0]), 0.0, np.array([0.0, 1.0]), "sqrt").round(6).tolist()
    [1.0, 0.6]
    """
    update, noises = np.broadcast_arrays(update, noises)
    if not falls(law):
        return 1.0 / (1.0 + noises)
    gap = _psi_gap(update + between + 1.0, noises)
    result: Floats = np.minimum(1.0, (1.0 + 1e-11) / (1.0 + update * gap))
    return result


def late_noise(update: Floats, between: float, noises: Floats, law: StepSizeLaw) -> Floats:
    """Return the noise of one update and of `noises` after it, the first at most between + 1 later than `update`."""
    if not falls(law):
        return 1.0 + noises + 0.0 * update
    gap = 1.0 / share(update + between + 1.0, 1.0 + noises, "sqrt") / (update + between + 1.0)
    return np.asarray(update * gap * (1.0 - 1e-10))


def _psi_gap(update: Floats, noises: Floats) -> Floats:
    """Return psi(update + noises) - psi(update)."""
    end = update + noises
    late = update > 60.0
    if late.all():
        return _late_gap(update, noises, end)
    if not late.any():
        return np.asarray(psi(end) - psi(update), dtype=np.float64)
    return np.where(late, _late_gap(update, noises, end), psi(end) - psi(update))


def _late_gap(update: Floats, noises: Floats, end: Floats) -> Floats:
    """Return psi(end) - psi(update) for large numbers, which agree to many digits, from their asymptotic series."""
    a, b = 1.0 / update, 1.0 / end
    a2, b2 = a * a, b * b
    return (
        np.log1p(noises * a)
        + 0.5 * (a - b)
        + (a2 - b2) / 12.0
        - (a2 * a2 - b2 * b2) / 120.0
        + (a2 * a2 * a2 - b2 * b2 * b2) / 252.0
    )


def group_starts(length: int, exact: int, ratio: float) -> NDArray[np.int64]:
    """Return the first members of groups of 0..length-1: single up to `exact`, then geometric.

    The share is decreasing, so a group of counts may be represented by its first member: that only adds.
    """
    starts = list(range(min(length, exact)))
    position = float(exact)
    while position < length:
        starts.append(int(position))
        position = max(position + 1.0, math.floor(position * ratio))
    return np.array(starts, dtype=np.int64)
