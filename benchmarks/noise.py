"""What a noise that nobody can predict costs: nanoseconds per Gaussian number, for every way to draw it.

Run it with `python benchmarks/noise.py`. All ways run in this process, one after the other, and each adds noise of
standard deviation 1 to the same vectors, in place where it can. OpenDP is measured if it is installed.
"""

from __future__ import annotations

import importlib.util
import math
import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms, modes
from numpy.typing import NDArray

from skipring.network.node import NoiseSource
from skipring.network.node.noise import _gaussians

Floats = NDArray[np.float64]
Add = Callable[[Floats], object]

SIZES = (30, 10_000, 1_000_000)
CHUNK = 8192
PATIENCE = 2.0  # seconds for each cell of the table
LONGEST = 20.0  # what would take longer than this is not run, but extrapolated from the size before


def of_generator(bits: Callable[[], np.random.BitGenerator]) -> Add:
    generator = np.random.Generator(bits())  # seeded by the operating system

    def add(vector: Floats) -> None:
        vector += generator.standard_normal(len(vector))

    return add


def of_stream(begin: Callable[[], Callable[[int], bytes]]) -> Add:
    """Sums of four Box-Muller Gaussians as in skipring, without its checks and its grid."""

    def add(vector: Floats) -> None:
        draw = begin()
        for start in range(0, len(vector), CHUNK):
            part = vector[start : start + CHUNK]
            part += _gaussians(np.frombuffer(draw((len(part) + 1) // 2 * 64), dtype=np.uint64))[: len(part)]

    return add


def chacha20() -> Callable[[int], bytes]:
    stream = Cipher(algorithms.ChaCha20(os.urandom(32), bytes(16)), None).encryptor()
    return lambda count: stream.update(bytes(count))


def aes() -> Callable[[int], bytes]:
    stream = Cipher(algorithms.AES(os.urandom(32)), modes.CTR(bytes(16))).encryptor()
    return lambda count: stream.update(bytes(count))


def of_opendp(granularity: int | None) -> Add:
    """OpenDP's exact sampler of the Gaussian on a grid of 2**granularity (the finest there is, if None)."""
    dp: Any = importlib.import_module("opendp.prelude")
    dp.enable_features("contrib")
    made: dict[int, Any] = {}

    def add(vector: Floats) -> object:
        if len(vector) not in made:
            domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(vector))
            made[len(vector)] = dp.m.make_gaussian(domain, dp.l2_distance(T=float), scale=1.0, k=granularity)
        return made[len(vector)](vector.tolist())

    return add


def nanoseconds(add: Add, size: int) -> float:
    """The best of as many runs as patience allows, per number."""
    vector = np.zeros(size)
    add(vector[: min(size, 30)].copy())
    best, until = math.inf, time.perf_counter() + PATIENCE
    while True:
        begin = time.perf_counter()
        add(vector)
        end = time.perf_counter()
        best = min(best, end - begin)
        if end > until:
            return best / size * 1e9


def main() -> None:
    source = NoiseSource()
    ways: dict[str, tuple[Add, str]] = {
        "skipring: AES-256-CTR, sums of 4, on a grid": (lambda vector: source.add(vector, 1.0), "yes"),
        "AES-256-CTR, sums of 4": (of_stream(aes), "yes"),
        "ChaCha20, sums of 4": (of_stream(chacha20), "yes"),
        "os.urandom, sums of 4": (of_stream(lambda: os.urandom), "yes"),
        "numpy, PCG64 seeded by the system": (of_generator(np.random.PCG64), "no"),
        "numpy, SFC64 seeded by the system": (of_generator(np.random.SFC64), "no"),
    }
    if importlib.util.find_spec("opendp"):
        ways["OpenDP, exact, on a grid of 2**-20"] = of_opendp(-20), "yes"
        ways["OpenDP, exact, on the finest grid"] = of_opendp(None), "yes"
    else:
        print("OpenDP is not installed: left out")
    print(
        f"{'nanoseconds per number, for vectors of':46}" + "".join(f"{size:>13,}" for size in SIZES) + "  unpredictable"
    )
    for name, (add, unpredictable) in ways.items():
        cells: list[str] = []
        each = 0.0
        for size in SIZES:
            guessed = each * size * 1e-9 > LONGEST
            each = each if guessed else nanoseconds(add, size)
            cells.append(f"{'~' if guessed else ''}{each:,.{1 if each < 1000 else 0}f}")
        print(f"{name:46}" + "".join(f"{cell:>13}" for cell in cells) + f"  {unpredictable}")


if __name__ == "__main__":
    main()
