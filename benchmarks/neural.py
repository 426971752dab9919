"""Milliseconds and GPU memory per update of the paper's two networks, clipped per node and per record.

    python benchmarks/neural.py [--updates 200] [--networks mnist,cifar10] [--only node,record,...]

Batch 500, clipping and noise included, rows gathered anew for every update from data that lies on the GPU. `record` is
what skipring does by default. For comparison `node-eager-f32` (plain torch), `record-eager` (the same without
compiling), `vmap` (a gradient for each record by torch.func, compiled), and `opacus` (ghost clipping, if it is
installed; it cannot be recorded as a graph).
"""

from __future__ import annotations

import argparse
import gc
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, Literal, cast

import torch
from torch import nn
from torch.func import functional_call, grad, vmap
from torch.nn.functional import cross_entropy

from skipring.learning import Hardware, NeuralModel, NeuralToken, Protection
from skipring.learning.torch_module import paper_cnn
from skipring.privacy import Unit

BATCH, BOUND, STEP, STD = 500, 1.0, 1e-3, 1e-3
Update = Callable[[torch.Tensor], None]
Name = Literal["mnist", "cifar10"]


class Data:
    """Random images of the right shape, on the GPU."""

    def __init__(self, name: Name) -> None:
        shape = (60_000, 1, 28, 28) if name == "mnist" else (50_000, 3, 32, 32)
        generator = torch.Generator().manual_seed(1)
        self.name = name
        images = torch.rand(shape, generator=generator).cuda() * 2.0 - 1.0
        self.images = images.contiguous(memory_format=torch.channels_last)
        self.labels = torch.randint(0, 10, (shape[0],), generator=generator).cuda()

    def token(self, unit: Unit = "node", **changes: Any) -> Update:
        protection = Protection(unit=unit, batch=BATCH, rows_per_person=2 if unit == "person" else 1)
        token = NeuralToken(
            NeuralModel(features=784 if self.name == "mnist" else 3072, clip=BOUND),
            paper_cnn(self.name),
            self.images,
            self.labels,
            protection=protection,
            hardware=replace(Hardware.fastest(torch.device("cuda"), BATCH), **changes),
        )
        persons = torch.arange(BATCH) // 2 if unit == "person" else None
        return lambda rows: token.update(rows, persons, step_size=STEP, noise_std=STD)

    def of(self, rows: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return self.images[rows].to(torch.bfloat16) / 127.5 - 1.0, self.labels[rows]


def on_gpu(name: Name) -> nn.Module:
    module: nn.Module = paper_cnn(name).cuda()
    for parameter in module.parameters():
        if parameter.dim() == 4:
            parameter.data = parameter.data.contiguous(memory_format=torch.channels_last)
    return module


def by_vmap(data: Data) -> Update:
    """A gradient for each record, compiled and recorded as a CUDA graph."""
    module = on_gpu(data.name)
    parameters = {name: each.detach() for name, each in module.named_parameters()}

    def loss(learned: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.autocast("cuda", dtype=torch.bfloat16):
            answers = functional_call(module, learned, (x[None],))
        return cross_entropy(answers.float(), y[None])

    def clipped(learned: dict[str, torch.Tensor], x: torch.Tensor, y: torch.Tensor) -> dict[str, torch.Tensor]:
        each = vmap(grad(loss), in_dims=(None, 0, 0))(learned, x, y)
        square = torch.stack([value.flatten(1).square().sum(1) for value in each.values()]).sum(0)
        scale = torch.clamp(BOUND / square.sqrt(), max=1.0)
        return {name: torch.einsum("n,n...->...", scale, value) for name, value in each.items()}

    compiled = torch.compile(clipped, dynamic=False)
    chosen = torch.zeros(BATCH, dtype=torch.int64, device="cuda")

    def update() -> None:
        with torch.no_grad():
            for name, value in compiled(parameters, *data.of(chosen)).items():
                noisy = value / BATCH + STD * torch.randn_like(value)
                parameters[name].add_(noisy, alpha=-STEP)

    for _ in range(3):
        update()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        update()

    def replay(rows: torch.Tensor) -> None:
        chosen.copy_(rows)
        graph.replay()

    return replay


def by_opacus(data: Data) -> Update:
    """Opacus' ghost clipping, with its own optimizer and noise."""
    from opacus.grad_sample import GradSampleModuleFastGradientClipping
    from opacus.optimizers import DPOptimizerFastGradientClipping
    from opacus.utils.fast_gradient_clipping_utils import DPLossFastGradientClipping

    module = GradSampleModuleFastGradientClipping(
        on_gpu(data.name), max_grad_norm=BOUND, use_ghost_clipping=True, loss_reduction="mean"
    )
    optimizer = DPOptimizerFastGradientClipping(
        torch.optim.SGD(module.parameters(), lr=STEP),
        noise_multiplier=STD * BATCH / BOUND,
        max_grad_norm=BOUND,
        expected_batch_size=BATCH,
    )
    criterion = DPLossFastGradientClipping(
        module, optimizer, nn.CrossEntropyLoss(reduction="mean"), loss_reduction="mean"
    )

    def update(rows: torch.Tensor) -> None:
        images, labels = data.of(rows)
        optimizer.zero_grad()
        criterion(module(images.float()), labels).backward()
        optimizer.step()

    return update


WAYS: dict[str, Callable[[Data], Update]] = {
    "node": lambda data: data.token(),
    "node-eager-f32": lambda data: data.token(graph=False, compile_loss=False, bf16=False),
    "record": lambda data: data.token("record"),
    "record-eager": lambda data: data.token("record", compile_loss=False),
    "record-f32": lambda data: data.token("record", bf16=False),
    "person": lambda data: data.token("person"),
    "opacus": by_opacus,
    "vmap": by_vmap,
}
#: What is measured unless other ways are asked for.
USUAL = ("node", "node-eager-f32", "record", "record-eager", "opacus", "vmap")


@contextmanager
def a_clean_gpu() -> Iterator[None]:
    gc.collect()
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    torch._dynamo.reset()
    yield


def measured(make: Callable[[Data], Update], data: Data, updates: int) -> str:
    """Return the milliseconds of the best of three rounds, the most memory, and what was spent before the first."""
    with a_clean_gpu():
        held = torch.cuda.memory_allocated()
        rows = torch.randint(0, len(data.images), (updates, BATCH), generator=torch.Generator().manual_seed(2)).cuda()
        begin = time.perf_counter()
        update = make(data)
        for i in range(5):
            update(rows[i % updates])
        torch.cuda.synchronize()
        before = time.perf_counter() - begin
        best = float("inf")
        for _ in range(3):
            torch.cuda.synchronize()
            begin = time.perf_counter()
            for i in range(updates):
                update(rows[i])
            torch.cuda.synchronize()
            best = min(best, (time.perf_counter() - begin) / updates * 1e3)
        peak = (torch.cuda.max_memory_allocated() - held) / 2**30
        return f"{best:8.3f} ms  {peak:6.2f} GiB  (first update after {before:.0f} s)"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--updates", type=int, default=200)
    parser.add_argument("--networks", default="mnist,cifar10")
    parser.add_argument("--only", default=",".join(USUAL), help=f"some of {', '.join(WAYS)}")
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("this benchmark needs a GPU")
    warnings.filterwarnings("ignore", message="Full backward hook is firing")  # torch, of opacus
    torch.backends.cudnn.benchmark = True
    print(torch.cuda.get_device_name(), "torch", torch.__version__, flush=True)
    for network in options.networks.split(","):
        data = Data(cast(Name, network))
        for way in options.only.split(","):
            try:
                found = measured(WAYS[way], data, options.updates)
            except ImportError as error:
                found = f"not measured: {error}"
            except Exception as error:  # one way that fails must not take the others with it
                found = f"failed: {type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
            print(f"{network:8} {way:14} {found}", flush=True)


if __name__ == "__main__":
    main()
