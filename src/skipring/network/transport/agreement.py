"""What all nodes of a run agree on, as it travels with their messages, and where two nodes see it differently."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..._digest import digest

__all__ = ["PROTOCOL", "Agreement"]

#: Nodes with another number do not understand each other.
PROTOCOL = 2
_MARK = 16  # hexadecimal digits that tell two values of a key apart


class Agreement:
    """The agreed values, each with its key; their digest travels in every message.

    >>> ours, theirs = Agreement({"steps": 8, "seed": 1}), Agreement({"steps": 9, "seed": 1})
    >>> ours.digest == theirs.digest, ours.differing(theirs.marks)
    (False, ('steps',))
    """

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = dict(sorted(values.items()))
        #: A short digest of each value: enough to find the keys that differ, without sending the values.
        self.marks = {key: digest(value).hex()[:_MARK] for key, value in self.values.items()}
        self.digest = digest(self.values)

    def differing(self, marks: Mapping[str, str]) -> tuple[str, ...]:
        """Return the keys whose values are others, or missing, on one of the two sides."""
        return tuple(key for key in sorted({*self.marks, *marks}) if self.marks.get(key) != marks.get(key))
