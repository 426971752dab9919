"""The check of tokens that arrive: the protocol is told of none that cannot be of this run."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from ..protocol import Broke, Final, Message, Outcome, Parameters, Pass, Rule, Token, wrong_way
from ..storage import ModelFile


def discard(parameters: Parameters) -> None:
    """Delete a large model that nobody has taken."""
    if isinstance(parameters, ModelFile):
        parameters.discard()


class Arrivals:
    """Looks at each message that arrives, and lets in those whose token, if they have one, may be of this run.

    Parameters
    ----------
    check : says why the model of a token cannot be of this run; nothing if it can.
    too_far : says why it cannot have come from the one that was seen last; nothing if it can.
    unsigned : says why a token has updates that their nodes have not signed; nothing if each is signed.
    path : the node of each hop.
    at_once : whether models are so small that nobody has to wait for the check; else it is done in a thread.
    spawn : begins something beside other things.
    whole : puts back what was left out of a token because this node has it; None if it cannot.
    lets_in : says whether the own updates on a token are such as this node knows.
    take : is given what is let in, and who sent it.
    refuse : is told who sent what is not let in, and why.
    broke : is told whose token no honest node sends.
    """

    def __init__(
        self,
        check: Callable[[Token], str],
        too_far: Callable[[Token], str],
        unsigned: Callable[[Pass | Final | Outcome], str],
        path: Sequence[int],
        *,
        at_once: bool,
        spawn: Callable[[Coroutine[Any, Any, None]], object],
        whole: Callable[[int, Pass], Pass | None],
        lets_in: Callable[[int, Pass | Final | Outcome], bool],
        take: Callable[[int, Message], None],
        refuse: Callable[[int, str], None],
        broke: Callable[[Broke], None],
    ) -> None:
        self._check, self._too_far, self._unsigned = check, too_far, unsigned
        self._path, self._at_once = path, at_once
        self._spawn, self._lets_in, self._take, self._refuse, self._broke = spawn, lets_in, take, refuse, broke
        self._whole = whole
        self._checking = 0

    @property
    def busy(self) -> bool:
        """Whether large models have arrived that are being checked."""
        return self._checking > 0

    def received(self, sender: int, message: Message) -> None:
        """Take a message that is well formed; what is in it is checked here."""
        if isinstance(message, Pass):
            known = self._whole(sender, message)
            if known is None:
                discard(message.token.parameters)  # as if it were lost
                return
            message = known
        if not isinstance(message, Pass | Final | Outcome):
            self._take(sender, message)
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
        problem = self._check(token)
        return problem, "" if problem else self._too_far(token)

    def _judge(self, sender: int, message: Pass | Final | Outcome, found: tuple[str, str]) -> None:
        hop = message.hop if isinstance(message, Pass) else None
        recovered = message.ballot[0] > 0
        # The protocol checks both, too; here, so that nothing is written down of own updates on a made-up token.
        way = wrong_way(message.token, self._path, sender=sender, hop=hop, recovered=recovered)
        problem, far = found
        if problem:
            self._refuse(sender, problem)
        elif way:
            self._broke(Broke(sender, Rule.WAY, way))
        elif unsigned := self._unsigned(message):
            self._broke(Broke(sender, Rule.STAMPS, f"its token {unsigned}"))
        elif far and not isinstance(message, Outcome):  # whether that is taken, the votes of a majority decide
            self._broke(Broke(sender, Rule.STRIDE, far))
        elif self._lets_in(sender, message):
            self._take(sender, message)
