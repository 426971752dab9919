"""Updates of neural networks with PyTorch: any module and loss, one clipped and noisy step at a time.

The parameters, and their gradient, are one vector, so that norm, clipping, noise, step and projection are a few
operations on it, whatever the network. They are those of `torch_update`, as at the nodes of a network. On a GPU a whole
update (gathering the batch, forward, backward, clip, noise, step) is one CUDA graph: a single launch. Install with
``pip install skipring[torch]``.

What is protected is a node, or every person or record: then each one's gradient is clipped (`torch_units`).
No amplification holds for neural networks: an update is no contraction. Account for them with ``convex=False``, and
only if their gradients are clipped.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from ..errors import InvalidInput, require_integer, require_non_negative, require_positive
from .networks import NeuralModel
from .torch_module import Hardware, as_vector, redraw, require_known_good, trainable, unchanged
from .torch_units import UnitGradients, numbered_persons
from .torch_update import batch_loss, clip_, mean_error, project_, step_
from .units import Protection


class NeuralToken:
    """A network that walks: its parameters, and the update that its holder makes.

    Parameters
    ----------
    model : what its gradients are clipped to, where its parameters stay, its ridge, and what refusals call it.
    module : the network itself.
    images, labels : all rows of all nodes, kept on the device; an update says which of them it uses. Labels that are
        whole numbers are classes.
    protection : whose share is bounded. The sum over persons or records is divided by its batch, and one of them then
        moves a gradient by at most the bound / batch. For nodes the mean is clipped, if the model says so.
    hardware : where and how.
    seed : where the noise comes from.
    """

    def __init__(
        self,
        model: NeuralModel,
        module: nn.Module,
        images: torch.Tensor,
        labels: torch.Tensor,
        *,
        protection: Protection,
        hardware: Hardware,
        seed: int = 0,
    ) -> None:
        require_integer("seed", seed, 0)
        if len(images) != len(labels):
            raise InvalidInput("labels", len(labels), f"as many as the {len(images)} images")
        batch, most = hardware.batch, protection.batch
        if batch is not None and batch > len(images):
            raise InvalidInput("batch", batch, f"at most the number of rows, {len(images)}")
        by_unit = protection.unit != "node"
        if by_unit and batch is not None and most is not None and batch > most:
            raise InvalidInput("batch", batch, f"at most the divisor, {most}")
        require_known_good(module, model.name, apart=by_unit)
        self.device, self.model, self.protection = torch.device(hardware.device), model, protection
        self._batch, self._bf16 = batch, hardware.bf16
        self.module = module.to(self.device).train()
        self._images, self._labels = images.to(self.device), labels.to(self.device)
        self._flatten()
        self._noise = torch.Generator(self.device).manual_seed(seed)
        self._own_noise: np.random.Generator | None = None
        #: The stream for all work with this token if several tokens are at work on one GPU.
        self.stream: Any = torch.cuda.Stream(self.device) if self.device.type == "cuda" else None  # type: ignore[no-untyped-call] # torch's
        self._make_room(batch or 0)
        self._step_size, self._noise_std = torch.zeros(2, device=self.device).unbind()
        compiled = hardware.compile_loss
        self._evaluate: Any = torch.compile(self._batch_loss, dynamic=False) if compiled else self._batch_loss
        self._graph, self._replay = hardware.graph, cast(Any, None)
        self._clipped: UnitGradients | None = None
        if by_unit:
            some = self._images[:0], self._labels[:0]
            self._clipped = UnitGradients(self.module, model, protection, *some, hardware=hardware)
            self._graph = self._graph and self._clipped.recordable

    def _flatten(self) -> None:
        """Lay all parameters, and their gradients, out in one vector each; convolutions by pixel, not by channel."""
        parameters = trainable(self.module)
        self.vector = torch.empty(sum(p.numel() for p in parameters), dtype=torch.float32, device=self.device)
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
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self._bf16):
            outputs = self.module(images)
        return batch_loss(outputs.float(), labels)

    def _clip_node(self) -> None:
        self._gradient.zero_()
        loss = self._evaluate(self._images[self._rows], self._labels[self._rows])
        if loss.requires_grad:  # otherwise the answer depends on no parameter
            loss.backward()
        with torch.no_grad():
            if self.model.clip is not None:
                clip_([self._gradient], self.model.clip)

    def _clip_units(self, clipped: UnitGradients) -> None:
        units = self._units if self.protection.unit == "person" else None
        found = clipped(self._images[self._rows], self._labels[self._rows], used=self._used, units=units)
        with torch.no_grad():
            torch._foreach_copy_([p.grad for p in trainable(self.module) if p.grad is not None], found)
            self._gradient.mul_(1.0 / self.protection.divisor(len(self._rows)))

    def _update(self) -> None:
        with unchanged(self.module, self.model.name, bits=False):  # no GPU is waited for
            if self._clipped is None:
                self._clip_node()
            else:
                self._clip_units(self._clipped)
        with torch.no_grad():
            self._gradient.addcmul_(self._normals(), self._noise_std)
            step_(self.vector, self._gradient, self._step_size, self.model.ridge)
            project_(self.vector, self.model.radius)

    def _normals(self) -> torch.Tensor:
        if self._own_noise is not None:
            return torch.from_numpy(self._own_noise.standard_normal(len(self.vector)).astype(np.float32))
        return torch.randn(len(self.vector), generator=self._noise, device=self.device)

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

    def restart(
        self,
        make: Callable[[], nn.Module],
        seed: int,
        *,
        noise_seed: int | None = None,
        noise: np.random.Generator | None = None,
    ) -> None:
        """Begin again with a fresh network and a fresh stream of noise; a recorded graph stays.

        The weights are drawn with `seed`, as at the nodes of a network, and the noise with `noise_seed`, or the same.
        On a CPU `noise` may draw it instead, since PyTorch's generator there begins with 32 bits only.
        """
        if noise is not None and self.device.type != "cpu":
            raise InvalidInput.because("noise", "given", f"a {self.device.type} draws its own")
        redraw(self.module, make, seed, self.model.name)
        self._noise.manual_seed(seed if noise_seed is None else noise_seed)
        self._own_noise = noise

    def update(
        self, rows: torch.Tensor, units: torch.Tensor | None = None, *, step_size: float, noise_std: float
    ) -> None:
        """Take one step on some rows; `units` says whose they are, if persons are protected.

        w <- project((1 - step size x ridge) w - step size x (clipped gradient + noise)). The clipped gradient is that
        of the rows' mean loss, or the sum over all persons or records, clipped one by one, over the divisor.
        """
        most = self._batch or self.protection.divisor(len(rows))
        of_node = self.protection.unit == "node"
        if rows.dim() != 1 or len(rows) > most or (of_node and len(rows) != most):
            raise InvalidInput(
                "rows", tuple(rows.shape), f"{most} row numbers, the batch" if of_node else f"at most {most} rows"
            )
        require_positive("step_size", step_size)
        require_non_negative("noise_std", noise_std)
        self._take(rows, units)
        self._step_size.fill_(step_size)
        self._noise_std.fill_(noise_std)
        self.prepare()
        if self._replay is not None:
            self._replay()
        else:
            self._update()

    def _take(self, rows: torch.Tensor, units: torch.Tensor | None) -> None:
        """Put the row numbers of an update where the update looks for them, a graph always in the same place."""
        unit = self.protection.unit
        if unit == "record" and rows.device.type == "cpu" and len(torch.unique(rows)) < len(rows):
            raise InvalidInput.because("rows", "repeated", "a record that is used twice has twice the share")
        persons = numbered_persons(units, len(rows), self.protection) if unit == "person" else None
        if self._batch is None:
            self._make_room(len(rows))
        self._rows[: len(rows)].copy_(rows, non_blocking=True)
        # A batch that is not full is filled up with rows that do not count.
        self._used[: len(rows)], self._used[len(rows) :] = True, False
        if persons is not None:
            self._units[: len(rows)].copy_(persons, non_blocking=True)

    def _make_room(self, rows: int) -> None:
        self._rows, self._units = torch.zeros(2, rows, dtype=torch.int64, device=self.device).unbind()
        self._used = torch.zeros(rows, dtype=torch.bool, device=self.device)

    def error(self, images: torch.Tensor, labels: torch.Tensor) -> float:
        """Return the share of images whose class is not the network's first choice, or the mean squared error."""
        found = mean_error(self.module, images, labels)
        self.module.train()
        return found

    def parameters(self) -> NDArray[np.float32]:
        """Return a copy of the parameters as they travel between nodes."""
        return as_vector(self.module)
