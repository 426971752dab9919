"""Who is there: the nodes that were heard from in the last two rounds, as far as the holder of the token can know.

A few nodes that have lost all others must not use up the hops of all. So the holder of the token counts who has made an
update in the last two rounds: the token's chain tells that. It also counts who has answered another node in that time:
that is passed on with the token. A node that is always late, or whose budget is spent, is there all the same.
"""

from __future__ import annotations

from ._core import Core
from ._state import Computing, Offering, Unconfirmed, Waiting
from .chain import updated_by
from .messages import (
    Accepted,
    Agree,
    Answer,
    FinalAccepted,
    Fine,
    Here,
    Message,
    Moved,
    Pass,
    Promise,
    Ready,
    Refuse,
    Reject,
    Resumed,
)

#: Bytes of the hop at which a node was last heard from.
HOP_BYTES = 4

#: What only a node says that has heard something before. A node that is heard, and does not hear, takes no part in the
#: run.
_Answers = (
    Accepted | Agree | Answer | FinalAccepted | Fine | Here | Moved | Pass | Promise | Ready | Refuse | Reject | Resumed
)


class Presence:
    """What a node knows of who is there; it forgets it in a crash, and finds what matters in the token's chain."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def hear(self, sender: int, message: Message) -> None:
        """Take note that a node has answered."""
        if isinstance(message, _Answers):
            heard = self.core.state.heard
            heard[sender] = max(heard.get(sender, 0), self._hop)

    @property
    def _hop(self) -> int:
        """The newest hop that this node knows of."""
        doing = self.core.state.doing
        return doing.hop if isinstance(doing, Offering | Unconfirmed | Computing | Waiting) else self.core.furthest[1]

    def told(self) -> bytes:
        """Return what goes with the token: the hop at which each node was last heard from."""
        heard, nodes = self.core.state.heard, range(self.core.rules.nodes)
        return b"".join(heard.get(node, 0).to_bytes(HOP_BYTES, "big") for node in nodes)

    def learn(self, told: bytes, hop: int) -> None:
        """Take what has come with the token of a hop; nobody was heard from after it, whatever is claimed."""
        heard = self.core.state.heard
        for node in range(len(told) // HOP_BYTES):
            known = int.from_bytes(told[HOP_BYTES * node : HOP_BYTES * (node + 1)], "big")
            heard[node] = max(heard.get(node, 0), min(known, hop))

    def present(self, hop: int) -> set[int]:
        """Return the nodes that were heard from in the two rounds before a hop; in the first two, that is all nodes."""
        core, heard = self.core, self.core.state.heard
        since = hop - core.rules.two_rounds
        if since <= 0:
            return set(range(core.rules.nodes))
        for node, last in heard.items():
            # On a branch that was lost the run had come further; what counts is how far it has come since on this one.
            heard[node] = min(last, hop)
        answered = {node for node, last in heard.items() if last >= since}
        return {core.me} | answered | updated_by(core.memory.copy.token.chain, core.rules.path, since, hop - 1)

    def is_enough(self, hop: int) -> bool:
        """Say whether enough nodes are there for a hop to be offered."""
        return self.core.rules.is_quorum(self.present(hop))
