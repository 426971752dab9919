"""One run of Algorithm 1 for a linear model, compiled. Random numbers come from numpy's generator of that run."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from ..learning._compiled import (
    FAST,
    SOURCE,
    Examples,
    RunMetrics,
    Scratch,
    Test,
    UpdateRule,
    draw_batch,
    draw_noise,
    take_step,
)
from ..learning._evaluated import evaluate, gradients


def _walk_for(source: int) -> Any:
    """Return a run, compiled anew if what it inlines has changed: `source` is part of what it is found by."""

    @njit(nogil=True, cache=True, fastmath=FAST, error_model="numpy")
    def walk(
        rng: np.random.Generator,
        model: Any,
        rows: Examples,
        rule: UpdateRule,
        parts: NDArray[np.int32],
        ready: NDArray[np.bool_],
        fewer: NDArray[np.int64],
        test: Test,
        room: Scratch,
        w: NDArray[np.floating[Any]],
        metrics: RunMetrics,
    ) -> None:
        """Take the token from hop to hop, past nodes that are not ready; w is the model, changed in place.

        `parts` says which part of the rows, and so whose, is used at each hop; at closing hops, -1, it is noise alone.
        `fewer`, where it is not empty, says for each hop how many rows fit before the deadline, and at which row of the
        part to begin.
        """
        if source < 0:  # never
            return
        done = 0
        for point in range(len(metrics.errors)):
            error, loss = evaluate(model, w, test, room)
            metrics.errors[point], metrics.losses[point], metrics.updates[point] = error, loss, done
            for h in range(point * metrics.every, min((point + 1) * metrics.every, len(parts))):
                if not ready[h]:
                    continue
                if parts[h] < 0:
                    if rule.noise_std > 0.0:
                        draw_noise(rng, room)
                    for j in range(len(room.gradient)):
                        room.gradient[j] = 0.0
                    take_step(
                        w, room.gradient, 0.0, room.noise, rule.step_sizes[done] * rule.noise_std, 1.0, rule.radius
                    )
                    done += 1
                    continue
                take = draw_batch(rng, model.choices, rows, parts[h], room)
                if len(fewer) > 0 and fewer[h, 0] < take:
                    low = rows.start[parts[h]]
                    many = rows.start[parts[h] + 1] - low
                    if take == many:  # a batch that was drawn is in random order already
                        for i in range(fewer[h, 0]):
                            room.picked[i] = low + (fewer[h, 1] + i) % many
                    take = fewer[h, 0]
                if rule.noise_std > 0.0:
                    draw_noise(rng, room)
                gradients(model, w, rows, take, room)
                eta = rule.step_sizes[done]
                shrink = 1.0 - eta * rule.ridge
                divisor = rule.divisor if rule.divisor > 0.0 else float(take)
                take_step(w, room.gradient, eta / divisor, room.noise, eta * rule.noise_std, shrink, rule.radius)
                done += 1

    return walk


#: A compiled run.
WALK = _walk_for(SOURCE)
