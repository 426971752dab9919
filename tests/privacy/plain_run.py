"""What several tests of transcripts share: a run as plain lists, and protocols whose leakage is known exactly."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from skipring.privacy.orders import AgreedOrder, DesignedOrder
from skipring.privacy.record import Against, PlannedRun
from skipring.privacy.transcript import Transcript, TranscriptAccountant
from skipring.schedules import SCHEDULES, KnownOrder, schedule

Floats = NDArray[np.float64]

AGAINST: tuple[Against, ...] = ("node", "skipped-node")


def order_of(run: PlannedRun) -> KnownOrder:
    """The order that is agreed on before a run."""
    assert isinstance(run.order, AgreedOrder | DesignedOrder)
    return run.order.known


@dataclass(frozen=True)
class Run:
    """Hops (node offered to, whether it updated), of each update step size, noise and Lipschitz factor, and of each
    node the number of its parts."""

    nodes: int
    against: Against
    hops: list[tuple[int, bool]]
    steps: list[float]
    noises: list[float]
    factors: list[float]
    parts: list[int]

    @property
    def updaters(self) -> list[int]:
        return [node for node, updated in self.hops if updated]

    def transcript(self, **changes: Any) -> Transcript:
        arguments: dict[str, Any] = {
            "nodes": self.nodes,
            "offered": np.array([node for node, _ in self.hops], dtype=np.int64),
            "updated": np.array([updated for _, updated in self.hops], dtype=np.bool_),
            "step_sizes": self.steps,
            "noise_multiplier": self.noises,
            "contraction": self.factors,
            "against": self.against,
            "parts": self.parts,
            "protects": "record",
        }
        return Transcript(**(arguments | changes))

    def account(self, **changes: Any) -> TranscriptAccountant:
        return TranscriptAccountant(self.transcript(**changes))

    def first(self, hops: int) -> Run:
        """The run if it had ended after this many hops."""
        made = sum(updated for _, updated in self.hops[:hops])
        cut = {name: getattr(self, name)[:made] for name in ("steps", "noises", "factors")}
        return dataclasses.replace(self, hops=self.hops[:hops], **cut)

    def used(self) -> list[tuple[int, int]]:
        """Who made each update, and with which part: turns are counted hop by hop."""
        turns, made = [0] * self.nodes, []
        for node, updated in self.hops:
            if updated:
                made.append((node, turns[node] % self.parts[node]))
            turns[node] += 1
        return made

    def seen(self, observers: Sequence[int]) -> list[int]:
        """After how many updates they know the token; nobody inside (no observers): the final model only."""
        made, known = 0, {0}
        for node, updated in self.hops:
            if node in observers and (updated or self.against == "node"):
                known.add(made)
            made += updated
            if updated and node in observers:
                known.add(made)
        return sorted(known | {made})

    def intervals(self, observers: Sequence[int]) -> Iterator[range]:
        """The updates between one token that the observers know and the next."""
        return (range(low, high) for low, high in pairwise(self.seen(observers)))

    def shifts(self, target: int, part: int = 0) -> Floats:
        """How far each update brings two worlds apart that differ in a unit of this part."""
        mine = np.array([made == (target, part) for made in self.used()], dtype=np.bool_)
        return np.where(mine, 2.0 * np.array(self.steps), 0.0)


def random_run(
    rng: np.random.Generator, *, factors: tuple[float, float] = (1.0, 1.0), most_parts: int = 1, most_hops: int = 40
) -> Run:
    nodes = int(rng.integers(2, 7))
    hops = int(rng.integers(1, most_hops + 1))
    offered = schedule(list(SCHEDULES)[int(rng.integers(3))], nodes).path(hops, rng).tolist()
    updated = (rng.random(hops) >= rng.choice([0.0, 0.3, 0.7])).tolist()
    made, spread = sum(updated), float(rng.choice([0.0, 0.5, 2.0]))
    return Run(
        nodes=nodes,
        against=AGAINST[int(rng.integers(2))],
        hops=list(zip(offered, updated, strict=True)),
        steps=(np.exp(spread * rng.standard_normal(made)) / np.sqrt(1.0 + np.arange(made))).tolist(),
        noises=np.exp(rng.uniform(-1.0, 2.0) + spread * rng.standard_normal(made)).tolist(),
        factors=rng.uniform(*factors, made).tolist(),
        parts=rng.integers(1, most_parts + 1, nodes).tolist(),
    )


def exact_mu(run: Run, observers: Sequence[int], factors: Floats, shifts: Floats) -> float:
    """mu of the whole view in the protocol x <- factor x + shift (one world) or + 0 (other world) + noise.

    The view is all tokens that the observers know, and the noise of their own updates: jointly Gaussian, with the same
    covariance in both worlds. mu is the length of the difference of means in the metric of that covariance.
    """
    updates = len(run.steps)
    std = np.array(run.steps) * np.array(run.noises)
    token = np.zeros((updates + 1, updates))  # token[c] as a combination of the inputs of updates 0..c-1
    for c in range(updates):
        token[c + 1] = factors[c] * token[c]
        token[c + 1, c] += 1.0
    own = [c for c, node in enumerate(run.updaters) if node in observers]
    view = np.concatenate([token[[c for c in run.seen(observers) if c > 0]], np.eye(updates)[own]])
    means, spread = view @ shifts, view * std
    scale = np.linalg.norm(spread, axis=1, keepdims=True)
    whitened = np.linalg.lstsq(spread / scale, means / scale[:, 0], rcond=1e-12)[0]
    return float(np.linalg.norm(whitened))


def worst_factors(run: Run, observers: Sequence[int], shifts: Floats) -> Floats:
    """The Lipschitz factors, at most those of the run, for which the observers learn most from the shifts.

    In each interval, in units that shrink with the factors of the run, the token must weigh the updates like the
    monotone regression of shift over variance, here by its max-min formula.
    """
    factors = np.array(run.factors)
    variances = (np.array(run.steps) * np.array(run.noises)) ** 2
    for interval in run.intervals(observers):
        scale, size = np.cumprod(factors[interval.start : interval.stop]), len(interval)
        shift, noise = (
            np.concatenate([[0.0], np.cumsum(what)])
            for what in (shifts[interval] / scale, variances[interval] / scale**2)
        )
        slope = [[(shift[b + 1] - shift[a]) / (noise[b + 1] - noise[a]) for b in range(a, size)] for a in range(size)]
        fit = [max(min(slope[a][i - a :]) for a in range(i + 1)) for i in range(size)]
        for i, c in enumerate(interval):
            if i > 0 and fit[i] > 0.0:
                factors[c] *= min(1.0, fit[i - 1] / fit[i])
    return factors
