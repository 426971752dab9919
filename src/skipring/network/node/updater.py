"""A node's updates: what is done with its learner, one thing after the other."""

from __future__ import annotations

import asyncio
import math
import os
import random
import time
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..._function import error_line
from ...errors import InvalidInput
from ...learning import BUILT_IN, LinearLearner, NothingFits
from ...privacy import Guarantee
from ..protocol import Compute, Token, sealed, stamped
from ..storage import digest_of, load_parameters, store_parameters
from .cutter import Cutter
from .events import Event, Prepared, StillPreparing
from .node_setup import NodeSetup
from .noise import NoiseSource
from .worker import Worker

#: Models of so few bytes are checked and stored at once; larger ones in a thread.
_QUICK = 1 << 16
#: An update is made at once where none of the newest has taken longer than this; otherwise messages are answered
#: meanwhile. (The first one is slow: much is loaded with it.)
_INSTANT, _RECENT = 0.005, 8
_PIECE = 1 << 20
#: Seconds after which it is said that rows are still being got ready, and after which it is said again.
_FIRST_TOLD, _TOLD_EVERY = 10.0, 60.0
#: A gradient of this many bytes is not held twice without need.
_LARGE = 1 << 26


class Stopped(Exception):
    """The node had to stop; the message says why."""


class Updater:
    """Makes the updates of a node, each within the time of its turn; messages are answered meanwhile.

    What has taken too long goes on until it is done, for nobody can stop a thread, and comes to nothing. Until then the
    node is busy, and takes no other turn.
    """

    def __init__(self, setup: NodeSetup, clock: Callable[[], float], note: Callable[[Event], None]) -> None:
        self._setup, self._seal, self._clock, self._note = setup, setup.seal, clock, note
        self._noise = NoiseSource()
        self._learning, self._preparing, self._keeping = (Worker(name) for name in ("learner", "rows", "model"))
        self._emulated = np.random.default_rng()
        #: Whether models are so small that nobody has to wait for what is done with one.
        self.is_quick = setup.shape.size <= _QUICK
        self._error = math.nan
        self._newest: NDArray[Any] | None = None  # the model of the newest token, if nobody has tested it yet
        # What an update takes by itself: a thread that waits for others is not slow. Where time is made up, so is this.
        self._effort = time.thread_time if clock is time.monotonic else clock
        # A user's loss may take long whenever it likes.
        own = type(setup.learner) is LinearLearner and setup.learner.name in BUILT_IN
        self._own_model = own and setup.compute is None
        self._took: deque[float] = deque(maxlen=_RECENT)
        self._at_work = 0
        self._cutter = Cutter(
            clock,
            random.Random(setup.me),
            # How many rows a person has is a secret, and time depends on it: it must not decide who else is in it.
            whole=setup.run.compute.late in ("skip", "decline") or setup.learner.protection.unit == "person",
            large=setup.shape.size >= _LARGE,
        )

    @property
    def is_instant(self) -> bool:
        """Whether an update takes no time worth noticing."""
        took = self._took
        return self.is_quick and self._own_model and not self._at_work and bool(took) and max(took) < _INSTANT

    @property
    def cut(self) -> str:
        """Of how many rows the last update was made."""
        cutter = self._cutter
        return "all" if cutter.taken == cutter.of else f"{cutter.taken} of {cutter.of}"

    @property
    def function(self) -> str:
        """What computes."""
        return self._setup.learner.name

    def too_slow(self, seconds: float) -> str:
        """Say why an update would not be made within these seconds, as far as is known; nothing if it may be."""
        if self._at_work:
            return "it is still busy with an update that came too late"
        if self._cutter.may_be_in_time(self._cutter.of, seconds):
            return ""
        return f"its updates take longer than the timeout of {seconds:.3g} s"

    @property
    def test_error(self) -> float | None:
        """On the node's own test rows, of the newest token that was tested; None before that, or without such rows."""
        return None if math.isnan(self._error) else self._error

    async def test(self) -> None:
        """Test the newest token that was sent to this node, if nobody has; messages are answered meanwhile."""
        if self._newest is not None and not self._at_work:
            newest, self._newest = self._newest, None
            self._error = await _in(self._keeping, self._setup.learner.test_error, newest)

    def prepare_at_once(self, turn: int) -> bool:
        """Get the rows of an update ready if it takes no time; say whether they are."""
        setup = self._setup
        if not self.is_instant or setup.prepare_rows is not None or setup.delay is not None:
            return False
        setup.learner.prepare(turn)
        self._note(Prepared(turn, 0.0))
        return True

    async def prepare(self, turn: int) -> None:
        """Get the rows of an update ready; a node that is to be slow takes its time."""
        setup, began = self._setup, self._clock()
        if setup.delay is not None:
            await asyncio.sleep(min(float(setup.delay.sample(self._emulated, 1)[0]), 1e6))
        await self._told_of(_in(self._preparing, self._prepare, turn), turn, began)
        self._note(Prepared(turn, self._clock() - began))

    async def _told_of(self, work: asyncio.Future[None], turn: int, began: float) -> None:
        """Wait for rows to be ready, and say now and then that it takes long: others see a node that is never ready."""
        work.add_done_callback(_seen)
        wait = _FIRST_TOLD
        while not (await asyncio.wait([work], timeout=wait))[0]:
            what = self._setup.config.data.prepare or self.function
            self._note(StillPreparing(turn, self._clock() - began, what))
            wait = _TOLD_EVERY
        work.result()

    def _prepare(self, turn: int) -> None:
        try:
            self._setup.learner.prepare(turn, self._setup.prepare_rows)
        except InvalidInput:
            raise
        except BaseException as error:  # a user's function may raise anything, and may want to end the process
            raise Stopped(f"data.prepare = {self._setup.config.data.prepare}: {error_line(error)}") from error

    def update(self, action: Compute) -> Token | None:
        """Make the update of a hop: gradient, noise, step; None if there is no time for any row.

        It is released only once it is in the journal.
        """
        began = self._effort()
        self._cutter.begin(action.seconds)
        try:
            return self._update(action)
        except NothingFits:
            return None
        finally:
            self._cutter.end()
            self._took.append(self._effort() - began)

    def _update(self, action: Compute) -> Token:
        setup, token = self._setup, action.token
        parameters = load_parameters(token.parameters, setup.learner.dtype)
        if self.is_quick:
            self._newest = parameters.copy()  # nobody waits for a test that nobody has asked for
        else:
            self._error = setup.learner.test_error(parameters)
        step_size = float(np.asarray(setup.terms.step_sizes)[token.updates])
        multiplier = setup.terms.noise_multiplier
        if setup.terms.closes(action.hop):
            updated = setup.learner.close(
                parameters, step_size=step_size, noise_multiplier=multiplier, noise=self._noise
            )
        else:
            updated = setup.learner.update(
                parameters,
                turn=setup.terms.turn(action.hop),
                step_size=step_size,
                noise_multiplier=multiplier,
                noise=self._noise,
                pieces=self._pieces,
            )
        # Piece by piece: one truth value for each of a billion parameters would be a gigabyte.
        if not all(np.isfinite(updated[at : at + _PIECE]).all() for at in range(0, len(updated), _PIECE)):
            raise Stopped(f"the update of hop {action.hop} is not finite; nothing was released")
        stored = store_parameters(updated, setup.models)
        # A fresh secret in the digest: without it, a later observer could check a guess of what was released here.
        secret = sealed(bytes.fromhex(digest_of(stored)), os.urandom(32))
        return stamped(token, action.ballot, action.hop, stored, secret, me=setup.me, seal=self._seal)

    def _pieces(self, rows: int) -> Iterator[slice]:
        """Cut the rows of an update; a node that is to compute slowly takes its time for each piece."""
        law = self._setup.compute
        if law is None:
            yield from self._cutter(rows)
            return
        seconds = min(float(law.sample(self._emulated, 1)[0]), 1e6)
        for piece in self._cutter(rows):
            time.sleep(seconds * (piece.stop - piece.start) / rows)
            yield piece

    def update_in_thread(self, action: Compute) -> asyncio.Future[Token | None]:
        """Make the update of a hop while messages are answered."""
        self._at_work += 1
        work: asyncio.Future[Token | None] = _in(self._learning, self.update, action)
        work.add_done_callback(self._is_done)
        return work

    def _is_done(self, work: asyncio.Future[Any]) -> None:
        self._at_work -= 1
        _seen(work)

    async def keep_model(self, token: Token, guarantee: Callable[[], Guarantee]) -> None:
        """Write the final model, with what it cost, to where its owner finds it, and test it."""
        await _in(self._keeping, self._keep_model, token, guarantee)

    def close(self) -> None:
        """Begin nothing more."""
        for worker in (self._learning, self._preparing, self._keeping):
            worker.shutdown(wait=False, cancel_futures=True)

    def _keep_model(self, token: Token, guarantee: Callable[[], Guarantee]) -> None:
        setup = self._setup
        setup.write_model(token.parameters)
        setup.write_trained(token, guarantee())
        if not self._at_work:  # a learner does one thing at a time, and what it does may never end
            self._newest, self._error = (
                None,
                setup.learner.test_error(load_parameters(token.parameters, setup.learner.dtype)),
            )


def _seen(work: asyncio.Future[Any]) -> None:
    """Look at what became of some work; a caller that waits for it is told, if there is one."""
    if not work.cancelled():
        work.exception()


def _in(worker: Worker, work: Callable[..., Any], *given: Any) -> Any:
    """Do something in a thread, after what is done there already."""
    return asyncio.get_running_loop().run_in_executor(worker, work, *given)
