"""A real node that lies: it has its keys, its journal and its connections, and sends what no honest node would.

python lying_node.py FOLDER/NAME/node.toml SEED
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from skipring.network.node.node import Node, over_tls
from skipring.network.protocol import (
    Ask,
    Doubt,
    Final,
    Fork,
    Hello,
    Message,
    Offer,
    Outcome,
    Pass,
    Prepare,
    Reject,
    Token,
)
from skipring.network.setup import load_node, open_journal

#: Seconds between two lies.
EVERY = 1.0


class LyingWires:
    """A node's connections; some of what the node says is left out or changed, and lies are sent beside it."""

    def __init__(self, real: Any, seed: int) -> None:
        self._real, self.rng, self.node = real, random.Random(seed), None
        self.told = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    def send(self, to: int, message: Any) -> None:
        chance = self.rng.random()
        if chance < 0.05:
            return
        if chance < 0.1 and isinstance(message, Pass | Final | Outcome):
            parameters = message.token.parameters
            if isinstance(parameters, bytes):
                message = replace(message, token=replace(message.token, parameters=parameters[::-1]))
        self._real.send(to, message)

    async def lie(self, node: Node) -> None:
        """Send a lie every now and then, to one node or to all."""
        setup, rng = node.setup, self.rng
        others = [other for other in range(len(setup.roster)) if other != setup.me]
        while True:
            await asyncio.sleep(rng.expovariate(1.0 / EVERY))
            message = rng.choice(self._lies(node))()
            for other in others if rng.random() < 0.3 else [rng.choice(others)]:
                self._real.send(other, message)
                self.told += 1

    def _lies(self, node: Node) -> list[Callable[[], Message]]:
        memory, rng, me, steps = node.peer.memory, self.rng, node.setup.me, node.setup.rules.steps
        ballot, hop = memory.promised, rng.randint(1, steps)
        huge = 2**63 - 1, me
        token: Token = memory.copy.token
        marked = bytearray(token.chain)
        marked[32 + rng.randrange(len(marked) - 32)] ^= 1 << rng.randrange(8)
        forged = replace(token, chain=bytes(marked))
        return [
            lambda: Outcome(token, ballot, ((me, node.setup.seal.vote(ballot, token)),)),
            lambda: Final(ballot, node.setup.initial),
            lambda: Final(ballot, forged),
            lambda: Prepare(huge),
            lambda: Prepare((ballot[0] + 1, me)),
            lambda: Reject(huge),
            lambda: Reject((ballot[0] + 1, me)),
            lambda: Hello((ballot[0] + 1, me)),
            lambda: Hello(ballot),
            lambda: Ask(ballot, hop),
            lambda: Ask(ballot, steps + 1),
            lambda: Offer(ballot, hop),
            lambda: Pass(ballot, hop, forged),
            lambda: Doubt(ballot, hop, True),
            lambda: Fork(token.trail, forged.trail),
        ]


def main(config: str, seed: int) -> None:
    setup = load_node(config)
    wires: list[LyingWires] = []

    def connect(given: Any, receiver: Any) -> Any:
        wires.append(LyingWires(over_tls(given, receiver), seed))
        return wires[0]

    async def run() -> None:
        with open_journal(setup) as journal:
            node = Node(setup, journal, lambda event, **facts: None, connect=connect)
            lies = asyncio.create_task(wires[0].lie(node))
            asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, node.stop)
            try:
                await node.run()
            finally:
                lies.cancel()
                print(wires[0].told, "lies", flush=True)

    asyncio.run(run())


if __name__ == "__main__":
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    main(sys.argv[1], int(sys.argv[2]))
