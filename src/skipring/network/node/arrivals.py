"""The check of tokens that arrive: the protocol is told of none that cannot be of this run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Protocol

from ..protocol import Broke, Final, Message, Outcome, Parameters, Pass, Peer, Rule, Token, wrong_way
from ..storage import ModelFile


def discard(parameters: Parameters) -> None:
    """Delete a large model that nobody has taken."""
    if isinstance(parameters, ModelFile):
        parameters.discard()


class Gate(Protocol):
    """The node that tokens come to: it says what is wrong with them, and is given what is let in."""

    def why_wrong(self, token: Token) -> str:
        """Say why the model of a token cannot be of this run; nothing if it can."""

    def too_far(self, token: Token) -> str:
        """Say why it cannot have come from the one that was seen last; nothing if it can."""

    def lets_in(self, sender: int, message: Pass | Final | Outcome) -> bool:
        """Say whether the own updates on a token are such as this node knows."""

    def take(self, sender: int, message: Message) -> None:
        """Take what is let in, and who sent it."""

    def refuse(self, sender: int, problem: str) -> None:
        """Take the news who sent what is not let in, and why."""

    def broke(self, broken: Broke) -> None:
        """Take the news whose token no honest node sends."""


class Arrivals:
    """Looks at each message that arrives, and lets in those whose token, if they have one, may be of this run.

    Parameters
    ----------
    node : whose messages they are.
    peer : the protocol: it knows what was left out of a token, and who has signed which update.
    path : the node of each hop.
    at_once : whether models are so small that nobody has to wait for the check; else it is done in a thread.
    spawn : begins something beside other things.
    """

    def __init__(
        self,
        node: Gate,
        peer: Peer,
        path: Sequence[int],
        *,
        at_once: bool,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
    ) -> None:
        self._node, self._peer, self._path, self._at_once, self._spawn = node, peer, path, at_once, spawn
        self._checking = 0

    @property
    def busy(self) -> bool:
        """Whether large models have arrived that are being checked."""
        return self._checking > 0

    def received(self, sender: int, message: Message) -> None:
        """Take a message that is well formed; what is in it is checked here."""
        if isinstance(message, Pass):
            known = self._peer.whole(sender, message)
            if known is None:
                discard(message.token.parameters)  # as if it were lost
                return
            message = known
        if not isinstance(message, Pass | Final | Outcome):
            self._node.take(sender, message)
        elif self._at_once:
            self._judge(sender, message, self._look(message.token))
        else:
            self._spawn(self._check_large(sender, message))

    async def _check_large(self, sender: int, message: Pass | Final | Outcome) -> None:
        self._checking += 1
        try:
            self._judge(sender, message, await asyncio.to_thread(self._look, message.token))
        finally:
            self._checking -= 1
            discard(message.token.parameters)  # if the journal has not taken it

    def _look(self, token: Token) -> tuple[str, str]:
        """Look at the model of a token, which takes long if it is large."""
        problem = self._node.why_wrong(token)
        return problem, "" if problem else self._node.too_far(token)

    def _judge(self, sender: int, message: Pass | Final | Outcome, found: tuple[str, str]) -> None:
        hop = message.hop if isinstance(message, Pass) else None
        recovered = message.ballot[0] > 0
        # The protocol checks both, too; here, so that nothing is written down of own updates on a made-up token.
        way = wrong_way(message.token, self._path, sender=sender, hop=hop, recovered=recovered)
        problem, far = found
        if problem:
            self._node.refuse(sender, problem)
        elif way:
            self._node.broke(Broke(sender, Rule.WAY, way))
        elif unsigned := self._peer.unsigned(message):
            self._node.broke(Broke(sender, Rule.STAMPS, f"its token {unsigned}"))
        elif far and not isinstance(message, Outcome):  # whether that is taken, the votes of a majority decide
            self._node.broke(Broke(sender, Rule.STRIDE, far))
        elif self._node.lets_in(sender, message):
            self._node.take(sender, message)
