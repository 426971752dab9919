"""Getting ready for an update: for one turn only, going on after it, or ahead of it.

What a node has got ready is for one update, of the rows of one part: it is never used twice, nor for another part.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from ...runs import Ready


class Readiness:
    """What a node has ready, and what it gets ready.

    Parameters
    ----------
    ready : ``fresh``: begun anew for each turn, and thrown away if the turn goes to another node. ``kept``: a node that
        was skipped goes on, and is ready for its next turn. ``ahead``: also begun right after an update.
    turns : how many turns the node has in the whole run.
    parts : how many parts the node's rows have; a turn uses the part of its number.
    at_once : gets ready for a turn if that takes no time, and says whether it did.
    prepare : gets ready for a turn.
    clock : the time in seconds; only differences matter.
    spawn : begins something beside other things.
    """

    def __init__(
        self,
        ready: Ready,
        turns: int,
        parts: int,
        at_once: Callable[[int], bool],
        prepare: Callable[[int], Coroutine[Any, Any, None]],
        clock: Callable[[], float],
        spawn: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
    ) -> None:
        self._mode, self._turns, self._parts = ready, turns, parts
        self._at_once, self._prepare, self._clock, self._spawn = at_once, prepare, clock, spawn
        self._task: asyncio.Task[None] | None = None
        self._part: int | None = None  # what is ready, or being got ready
        self._is_ready = False
        self._wanted: tuple[float, Callable[[], None]] | None = None  # since when, and who is to be told
        #: How long the turn that is on has waited for this node to be ready.
        self.waited = 0.0

    def want(self, turn: int, then: Callable[[], None]) -> None:
        """Get ready for a turn that has come; `then` is called when it is."""
        self._wanted = self._clock(), then
        if self._mode == "fresh" or self._part != turn % self._parts:
            self._begin(turn)
        elif self._is_ready:
            self._tell()

    def turn_is_over(self) -> None:
        """Take note that the token has gone to another node."""
        self._wanted = None
        if self._mode == "fresh":
            self._stop()

    def used(self) -> None:
        """Take note that an update takes what was ready."""
        self._wanted = None
        self._stop()

    def go_ahead(self, turn: int) -> None:
        """Get ready for the next turn of this node, if it does so ahead."""
        if self._mode == "ahead" and self._part is None and turn < self._turns:
            self._begin(turn)

    def _begin(self, turn: int) -> None:
        self._stop()
        self._part = turn % self._parts
        if self._at_once(turn):
            self._is_ready = True
            self._tell()
        else:
            self._task = self._spawn(self._work(turn))

    def _stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._task, self._part, self._is_ready = None, None, False

    async def _work(self, turn: int) -> None:
        await self._prepare(turn)
        self._task, self._is_ready = None, True
        self._tell()

    def _tell(self) -> None:
        if self._wanted is not None:
            (since, then), self._wanted = self._wanted, None
            self.waited = self._clock() - since
            then()
