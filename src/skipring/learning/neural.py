"""Updates of neural networks with PyTorch: any module and loss, one clipped and noisy step at a time.

The parameters, and their gradient, are one vector, so that norm, clipping, noise, step and projection are a few
operations on it, whatever the network. On a GPU a whole update (gathering the batch, forward, backward, clip, noise,
step) is one CUDA graph: a single launch. Install with ``pip install skipring[torch]``.

No amplification holds for neural networks: an update is no contraction. Account for them with ``convex=False``, and
only if their gradients are clipped.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any, Literal

import torch
from torch import nn

from ..errors import InvalidInput, require_integer, require_non_negative, require_positive

__all__ = ["NeuralToken", "paper_cnn"]

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
_DRAWING = threading.Lock()


def paper_cnn(data: Literal["mnist", "cifar10"]) -> nn.Sequential:
    """Return one of the paper's two networks: 3x3 convolutions with SELU, the last layer linear.

    >>> sum(p.numel() for p in paper_cnn("mnist").parameters())
    279498
    """
    if data == "mnist":
        return _convolutions(1, [(64, 1), (64, 2), (128, 1), (128, 2)], padding=0, outputs=128 * 4 * 4)
    if data == "cifar10":
        layers = [(64, 1), (64, 2), (128, 1), (128, 2), (256, 1), (256, 1), (256, 2), (512, 1), (512, 1), (512, 2)]
        return _convolutions(3, layers, padding=1, outputs=512 * 2 * 2)
    raise InvalidInput("model", data, "mnist or cifar10")


def _convolutions(channels: int, layers: Sequence[tuple[int, int]], *, padding: int, outputs: int) -> nn.Sequential:
    modules: list[nn.Module] = []
    for width, stride in layers:
        modules += [nn.Conv2d(channels, width, 3, stride=stride, padding=padding), nn.SELU()]
        channels = width
    return nn.Sequential(*modules, nn.Flatten(), nn.Linear(outputs, 10))


class NeuralToken:
    """A network that walks: its parameters, and the update that its holder makes.

    Parameters
    ----------
    module, loss : the network, and a function of its outputs and the labels that returns the mean loss of a batch.
    images, labels : all rows of all nodes, kept on the device; an update says which of them it uses. Images of type
        uint8 are scaled to [-1, 1].
    batch : rows per update.
    gradient_bound : the node's averaged gradient is clipped to this norm; None means no clipping, and no privacy.
    diameter : of the ball that the parameters are projected onto; None means none.
    device, seed : where to compute, and where the noise comes from.
    graph, compile_loss, bf16 : how a GPU does it; by default all of it, as fast as it goes. Matrix products are then in
        bfloat16, parameters and noise stay in single precision.
    """

    def __init__(
        self,
        module: nn.Module,
        loss: Loss,
        images: torch.Tensor,
        labels: torch.Tensor,
        *,
        batch: int,
        gradient_bound: float | None = None,
        diameter: float | None = None,
        device: str = "cpu",
        seed: int = 0,
        graph: bool | None = None,
        compile_loss: bool | None = None,
        bf16: bool | None = None,
    ) -> None:
        require_integer("batch", batch, 1)
        require_integer("seed", seed, 0)
        if len(images) != len(labels):
            raise InvalidInput("labels", len(labels), f"as many as the {len(images)} images")
        if batch > len(images):
            raise InvalidInput("batch", batch, f"at most the number of rows, {len(images)}")
        for name, value in (("gradient_bound", gradient_bound), ("diameter", diameter)):
            if value is not None:
                require_positive(name, value)
        self.device = torch.device(device)
        on_gpu = self.device.type == "cuda"
        self.gradient_bound, self.diameter = gradient_bound, diameter
        self._bf16 = on_gpu if bf16 is None else bf16
        self._graph = on_gpu if graph is None else graph
        self.module = module.to(self.device)
        self._loss = loss
        self._images = images.to(self.device)
        if self._images.dim() == 4:
            # Convolutions are fastest if the colours of a pixel lie side by side.
            self._images = self._images.contiguous(memory_format=torch.channels_last)
        self._labels = labels.to(self.device)
        self._flatten()
        self._noise = torch.Generator(self.device).manual_seed(seed)
        #: The stream for all work with this token if several tokens are at work on one GPU.
        self.stream: Any = torch.cuda.Stream(self.device) if on_gpu else None  # type: ignore[no-untyped-call] # torch's
        self._rows = torch.zeros(batch, dtype=torch.int64, device=self.device)
        self._step_size = torch.zeros((), device=self.device)
        self._noise_std = torch.zeros((), device=self.device)
        compiled = on_gpu if compile_loss is None else compile_loss
        self._evaluate: Any = torch.compile(self._batch_loss, dynamic=False) if compiled else self._batch_loss
        self._replay: Any = None

    def _flatten(self) -> None:
        """Lay all parameters, and their gradients, out in one vector each; convolutions by pixel, not by channel."""
        parameters = [p for p in self.module.parameters() if p.requires_grad]
        self.vector = torch.empty(sum(p.numel() for p in parameters), device=self.device)
        self._gradient = torch.zeros_like(self.vector)
        first = 0
        for p in parameters:
            last = first + p.numel()
            pieces = [whole[first:last] for whole in (self.vector, self._gradient)]
            if p.dim() == 4:
                out, channels, height, width = p.shape
                pieces = [piece.view(out, height, width, channels).permute(0, 3, 1, 2) for piece in pieces]
            else:
                pieces = [piece.view(p.shape) for piece in pieces]
            pieces[0].copy_(p.data)
            p.data, p.grad = pieces
            first = last

    def _batch_loss(self, images: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
        if images.dtype == torch.uint8:
            images = images.to(torch.bfloat16 if self._bf16 else torch.float32) / 127.5 - 1.0
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self._bf16):
            outputs = self.module(images)
        return self._loss(outputs.float(), labels)

    def _update(self) -> None:
        self._gradient.zero_()
        self._evaluate(self._images[self._rows], self._labels[self._rows]).backward()
        with torch.no_grad():
            if self.gradient_bound is not None:
                norm = torch.linalg.vector_norm(self._gradient)
                self._gradient.mul_(torch.clamp(self.gradient_bound / (norm + 1e-12), max=1.0))
                # No noise hides what is not a number: such a gradient counts as 0, as at the nodes of a network.
                self._gradient.masked_fill_(~torch.isfinite(norm), 0.0)
            noise = torch.randn(len(self.vector), generator=self._noise, device=self.device)
            self._gradient.addcmul_(noise, self._noise_std)
            self.vector.addcmul_(self._gradient, self._step_size, value=-1.0)
            if self.diameter is not None:
                norm = torch.linalg.vector_norm(self.vector)
                self.vector.mul_(torch.clamp(0.5 * self.diameter / (norm + 1e-12), max=1.0))

    def _capture(self) -> None:
        """Record the update as a CUDA graph: some rehearsals first, then the model and the noise are put back."""
        before, state = self.vector.clone(), self._noise.get_state()
        side = torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call] # torch's own
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(3):
                self._update()
        torch.cuda.current_stream().wait_stream(side)
        self._noise.set_state(state)
        graph = torch.cuda.CUDAGraph()
        graph.register_generator_state(self._noise)
        # Other threads may be at work with tokens of their own. Graphs that were recorded on the same stream share the
        # scratch memory of the matrix products, and spoil each other's when they run at the same time.
        with torch.cuda.graph(graph, stream=self.stream, capture_error_mode="thread_local"):
            self._update()
        self.vector.copy_(before)
        self._replay = graph.replay

    def prepare(self) -> None:
        """Do now what the first update would do before it begins: compile, and record a graph, where there is a GPU."""
        if self._graph and self._replay is None:
            self._capture()

    def restart(self, make: Callable[[], nn.Module], seed: int) -> None:
        """Begin again with a fresh network and a fresh stream of noise; a recorded graph stays."""
        # A network is drawn from the generator that all threads of torch share.
        with _DRAWING, torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            fresh = make()
        with torch.no_grad():
            for mine, new in zip(self.module.parameters(), fresh.parameters(), strict=True):
                mine.copy_(new)
        self._noise.manual_seed(seed)

    def update(self, rows: torch.Tensor, *, step_size: float, noise_std: float) -> None:
        """Take one step on some rows: w <- project(w - step size x (clipped gradient + noise))."""
        if rows.shape != self._rows.shape:
            raise InvalidInput("rows", tuple(rows.shape), f"{len(self._rows)} row numbers, the batch")
        require_positive("step_size", step_size)
        require_non_negative("noise_std", noise_std)
        self._rows.copy_(rows, non_blocking=True)
        self._step_size.fill_(step_size)
        self._noise_std.fill_(noise_std)
        self.prepare()
        if self._replay is not None:
            self._replay()
        else:
            self._update()

    def error(self, images: torch.Tensor, labels: torch.Tensor, *, chunk: int = 2000) -> float:
        """Return the share of images whose class is not the network's first choice."""
        wrong = torch.zeros((), dtype=torch.int64, device=self.device)
        with torch.no_grad():
            for start in range(0, len(images), chunk):
                some = images[start : start + chunk].to(self.device)
                if some.dtype == torch.uint8:
                    some = some.float() / 127.5 - 1.0
                choice = self.module(some).argmax(dim=1)
                wrong += (choice != labels[start : start + chunk].to(self.device)).sum()
        return int(wrong) / max(1, len(images))  # the device is waited for once

    def __repr__(self) -> str:
        bound = "none" if self.gradient_bound is None else f"{self.gradient_bound:g}"
        return f"NeuralToken({len(self.vector)} parameters on {self.device}, gradient bound {bound})"
