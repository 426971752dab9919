"""Wishing that the run ends before its last hop: each node's owner may, and a majority of wishes ends it.

A wish is signed by its node for this run, and cannot be taken back. A node that knows of wishes hands them on. As soon
as the holder of the token knows of a majority of them, it proposes the token as it is for the final model.
"""

from __future__ import annotations

from ._core import Core
from .actions import News, Rule
from .journal import Wished
from .messages import Signatures, WishesKnown
from .standing import asked_in_words


class Wishing:
    """A node's own wish, and what it knows of the others'."""

    def __init__(self, core: Core) -> None:
        self.core = core

    def wish(self) -> None:
        """Wish that the run ends, as the owner of this node has asked for, and tell all."""
        core = self.core
        if core.me not in dict(core.memory.wishes):
            self._learn(((core.me, core.seal.wish()),))

    def on_wishes(self, sender: int, message: WishesKnown) -> None:
        """Take the wishes of others, and hand on what is new."""
        self.learn(sender, message.wishes)

    def learn(self, sender: int, wishes: Signatures) -> bool:
        """Take wishes that a node has sent; say whether they are those of a majority, each signed by its node."""
        core = self.core
        known = dict(core.memory.wishes)
        good = [(node, wish) for node, wish in wishes if known.get(node) == wish or core.seal.is_wish(node, wish)]
        if len(good) < len(wishes):
            core.broke(sender, Rule.WISH, "speaks of the wish of a node that has not signed it")
            return False
        self._learn(tuple(each for each in good if each[0] not in known))
        return len(dict(good)) >= core.rules.majority

    def _learn(self, new: Signatures) -> None:
        if not new:
            return
        core = self.core
        core.write(Wished(new))
        core.send_all(WishesKnown(core.memory.wishes))
        names = [core.rules.name_of(node) for node, _ in core.memory.wishes]
        core.say(asked_in_words(names, core.rules.majority), News.WISHES)
