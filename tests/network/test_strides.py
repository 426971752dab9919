"""Honest updates are never found too long, a step beyond what they can go is, and forks are left alone."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from skipring.learning import Learner, LinearLearner
from skipring.network.node import NoiseSource, OwnData, make_learner
from skipring.network.node.strides import Strides
from skipring.network.protocol import Token, blank_chain, extended_chain
from skipring.runs import parse_run, step_sizes_of

STEPS = 60


def setting(unit: str, ridge: float, diameter: float, multiplier: float) -> tuple[Learner, Strides, list[float]]:
    run = parse_run(
        {
            "data": {"name": "breast-cancer"},
            "model": {"name": "logistic", "ridge": ridge},
            "learning": {"rate": 2.0, "diameter": diameter, **({} if unit == "node" else {"batch": 20})},
            "privacy": {"protects": unit, "noise_multiplier": multiplier},
            "schedule": {"steps": STEPS},
        }
    )
    data = OwnData()
    made, _ = make_learner(run, index=1, nodes=5, name="ann", data=data, rng=np.random.default_rng(3))
    assert isinstance(made, LinearLearner)
    sizes = step_sizes_of(run).first(STEPS).tolist()
    return made, Strides(made, step_sizes=sizes, noise_multiplier=multiplier, ridge=ridge), sizes


def tokens(made: Learner, sizes: list[float], multiplier: float, seed: int) -> list[tuple[int, Token]]:
    """The tokens of a run in which two of three hops are updates, and the hop of each."""
    rng, noise = np.random.default_rng(seed), NoiseSource()
    chain, w = blank_chain(STEPS, b"run"), made.initial()
    found = [(0, Token(0, w.tobytes(), chain))]
    updates = 0
    for hop in range(1, STEPS + 1):
        if rng.random() < 1.0 / 3.0:
            continue
        made.prepare()
        w = made.update(w, turn=hop // 5, step_size=sizes[updates], noise_multiplier=multiplier, noise=noise)
        updates, chain = updates + 1, extended_chain(chain, (0, 0), hop, bytes(32))
        found.append((hop, Token(updates, w.tobytes(), chain)))
    return found


@pytest.mark.parametrize("multiplier", [0.0, 0.5, 20.0])
@pytest.mark.parametrize(
    ("unit", "ridge", "diameter"), [("node", 0.0, 10.0), ("record", 0.1, 0.5), ("record", 0.0, 1e3)]
)
def test_honest_updates_are_never_too_long(unit: str, ridge: float, diameter: float, multiplier: float) -> None:
    made, strides, sizes = setting(unit, ridge, diameter, multiplier)
    for seed in range(4):
        found = tokens(made, sizes, multiplier, seed)
        for i, (hop, first) in enumerate(found):
            for _, second in found[i : i + 12]:
                assert strides.too_far(first, hop, second) == ""


@pytest.mark.parametrize("multiplier", [0.0, 0.5, 20.0])
def test_one_step_is_judged_within_a_factor_of_what_it_can_be(multiplier: float) -> None:
    """The bound is of use: it is not far from what the noise, and the gradient's bound, come to."""
    made, strides, sizes = setting("node", 0.0, 1e6, multiplier)
    found = tokens(made, sizes, multiplier, 9)
    ways = [
        float(np.linalg.norm(of(second) - of(first))) / strides.most(first.updates, second.updates, 0.0)
        for (_, first), (_, second) in pairwise(found)
    ]
    assert max(ways) <= 1.0
    # 30 parameters: noise has a length of about 5.5, and 13.8 is allowed for; gradients are mostly below their bound.
    assert max(ways) > (0.3 if multiplier else 0.05)


def of(token: Token) -> NDArray[Any]:
    assert isinstance(token.parameters, bytes)
    return np.frombuffer(token.parameters)


@pytest.mark.parametrize("multiplier", [0.0, 2.0])
def test_a_step_beyond_it_is_refused(multiplier: float) -> None:
    made, strides, sizes = setting("node", 0.0, 1e6, multiplier)
    found = tokens(made, sizes, multiplier, 5)
    (hop, first), (_, second), (_, third) = found[10:13]
    direction = np.ones(made.shape) / math.sqrt(math.prod(made.shape))
    for token in (second, third):
        most = strides.most(first.updates, token.updates, float(np.linalg.norm(of(first))))
        for factor, refused in ((0.999, False), (1.001, True), (50.0, True)):
            forged = replace(token, parameters=(of(first) + factor * most * direction).tobytes())
            said = strides.too_far(first, hop, forged)
            assert bool(said) == refused
            assert not refused or f"in {token.updates - first.updates} updates since this node saw it" in said
    moved = replace(first, parameters=(of(first) + 1e-3).tobytes())
    assert "in 0 updates" in strides.too_far(first, hop, moved)


def test_nothing_is_said_of_what_does_not_go_on_from_the_last_look() -> None:
    made, strides, sizes = setting("node", 0.0, 1e6, 1.0)
    first, other = tokens(made, sizes, 1.0, 1), tokens(made, sizes, 1.0, 2)
    far = (of(other[-1][1]) + 1e5).tobytes()
    hop, last = first[20]
    assert strides.too_far(last, hop, replace(other[-1][1], parameters=far)) == ""  # another chain
    assert strides.too_far(last, hop, replace(first[10][1], parameters=far)) == ""  # an earlier token: a recovery
    assert strides.too_far(last, hop, replace(first[30][1], parameters=far)) != ""
