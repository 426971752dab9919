"""A node's updates: what is done with its learner, one thing after the other."""

from __future__ import annotations

import asyncio
import math
import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...models import EpsilonClaim
from ..protocol import Compute, Token, sealed, stamped
from ..storage import digest_of, load, store
from .node_setup import NodeSetup
from .noise import NoiseSource

__all__ = ["Stopped", "Updater"]

#: An update of so few bytes is made at once; a larger one in a thread, so that messages are answered meanwhile.
_QUICK = 1 << 16
_PIECE = 1 << 20


class Stopped(Exception):
    """The node had to stop; the message says why."""


class Updater:
    """Makes the updates of a node; large ones in a thread of their own, while messages are answered."""

    def __init__(self, setup: NodeSetup) -> None:
        self._setup, self._seal = setup, setup.seal
        self._noise = NoiseSource()
        self._worker = ThreadPoolExecutor(1, thread_name_prefix="learner")
        self._emulated = np.random.default_rng()
        self._error = math.nan
        self._newest: NDArray[Any] | None = None  # the model of the newest token, if nobody has tested it yet

    @property
    def is_quick(self) -> bool:
        """Whether models are so small that nobody has to wait for what is done with one."""
        return self._setup.shape.size <= _QUICK

    @property
    def test_error(self) -> float:
        """On the node's own test rows, of the newest token sent to it; nan before that."""
        if self._newest is not None:
            self._error, self._newest = self._setup.learner.test_error(self._newest), None
        return self._error

    async def prepare(self) -> None:
        """Load what the next update needs; a node that is to be slow takes its time."""
        delay = self._setup.delay
        if delay is not None:
            await asyncio.sleep(min(float(delay.sample(self._emulated, 1)[0]), 1e6))
        if self.is_quick:
            self._setup.learner.prepare()
        else:
            await self._alone(self._setup.learner.prepare)

    def update(self, action: Compute) -> Token:
        """Make the update of a hop: gradient, noise, step. It is released only once it is in the journal."""
        setup, token = self._setup, action.token
        parameters = load(token.parameters, setup.learner.dtype)
        if self.is_quick:
            self._newest = parameters.copy()  # nobody waits for a test that nobody has asked for
        else:
            self._error = setup.learner.test_error(parameters)
        step_size = float(np.asarray(setup.terms.step_sizes)[token.updates])
        updated = setup.learner.update(
            parameters,
            turn=setup.terms.turn(action.hop),
            step_size=step_size,
            noise_multiplier=setup.terms.noise_multiplier,
            noise=self._noise,
        )
        # Piece by piece: one truth value for each of a billion parameters would be a gigabyte.
        if not all(np.isfinite(updated[at : at + _PIECE]).all() for at in range(0, len(updated), _PIECE)):
            raise Stopped(f"the update of hop {action.hop} is not finite; nothing was released")
        stored = store(updated, setup.models)
        # A fresh secret in the digest: without it, a later observer could check a guess of what was released here.
        secret = sealed(bytes.fromhex(digest_of(stored)), os.urandom(32))
        return stamped(token, action.ballot, action.hop, stored, secret, me=setup.me, seal=self._seal)

    async def update_in_thread(self, action: Compute) -> Token:
        """Make the update of a hop while messages are answered."""
        token: Token = await self._alone(self.update, action)
        return token

    async def keep_model(self, token: Token, claims: Callable[[], tuple[EpsilonClaim, ...]]) -> None:
        """Write the final model, with what it cost, to where its owner finds it, and test it."""
        await self._alone(self._keep_model, token, claims)

    def close(self) -> None:
        """Begin nothing more."""
        self._worker.shutdown(wait=False, cancel_futures=True)

    def _keep_model(self, token: Token, claims: Callable[[], tuple[EpsilonClaim, ...]]) -> None:
        self._setup.write_model(token.parameters)
        self._setup.write_trained(token, claims())
        self._newest, self._error = (
            None,
            self._setup.learner.test_error(load(token.parameters, self._setup.learner.dtype)),
        )

    def _alone(self, work: Callable[..., Any], *given: Any) -> Any:
        """Do something with the learner in a thread, one thing after the other: it has room for one model."""
        return asyncio.get_running_loop().run_in_executor(self._worker, work, *given)
