"""Milliseconds per update of the paper's two networks on a GPU: one CUDA graph against torch eager, in one run.

    python benchmarks/neural.py [--updates 300]

Batch 500, clipping and noise included, rows gathered anew for every update from data that lies on the GPU.
"""

from __future__ import annotations

import argparse
import time

import torch
from torch.nn.functional import cross_entropy

from skipring.learning.neural import NeuralToken, paper_cnn


def milliseconds(name: str, updates: int, *, eager: bool, bf16: bool) -> float:
    shape = (60_000, 1, 28, 28) if name == "mnist" else (50_000, 3, 32, 32)
    generator = torch.Generator().manual_seed(1)
    images = torch.randint(0, 256, shape, dtype=torch.uint8, generator=generator)
    labels = torch.randint(0, 10, (shape[0],), generator=generator)
    token = NeuralToken(
        paper_cnn("mnist" if name == "mnist" else "cifar10"),
        cross_entropy,
        images,
        labels,
        batch=500,
        gradient_bound=1.0,
        device="cuda",
        graph=not eager,
        compile_loss=not eager,
        bf16=bf16,
    )
    rows = torch.randint(0, shape[0], (updates, 500), generator=generator).to("cuda")
    for i in range(min(20, updates)):
        token.update(rows[i], step_size=1e-3, noise_std=0.01)
    best = float("inf")
    for _ in range(3):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        for i in range(updates):
            token.update(rows[i], step_size=1e-3, noise_std=0.01)
        torch.cuda.synchronize()
        best = min(best, (time.perf_counter() - begin) / updates * 1e3)
    return best


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=300)
    updates = parser.parse_args().updates
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a GPU")
    torch.backends.cudnn.benchmark = True
    print(torch.cuda.get_device_name(), "torch", torch.__version__)
    for name in ("mnist", "cifar10"):
        graph = milliseconds(name, updates, eager=False, bf16=True)
        eager16 = milliseconds(name, updates, eager=True, bf16=True)
        eager32 = milliseconds(name, updates, eager=True, bf16=False)
        print(
            f"{name}: graph {graph:.3f} ms, eager bf16 {eager16:.3f} ms, eager f32 {eager32:.3f} ms per update;"
            f" {eager32 / graph:.1f} times faster than eager f32"
        )


if __name__ == "__main__":
    main()
