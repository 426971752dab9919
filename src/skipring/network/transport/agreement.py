"""What all nodes of a run agree on, as it travels with their messages, and where two nodes see it differently."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any

from ..._digest import digest

#: Nodes with another number do not understand each other.
PROTOCOL = 4
_SHOWN, _MOST = 60, 12  # signs of a value, and keys, that two nodes show each other
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

    def shown(self, keys: Iterable[str]) -> dict[str, str]:
        """Return the values of some keys as short texts: what is agreed on is no secret among the nodes."""
        texts = {key: json.dumps(self.values.get(key), default=str) for key in list(keys)[:_MOST]}
        return {key: text if len(text) <= _SHOWN else f"{text[: _SHOWN - 3]}..." for key, text in texts.items()}

    def compared(self, theirs: Mapping[str, str]) -> str:
        """Say for the keys that another node has shown what they are there, and here.

        >>> Agreement({"steps": 8}).compared({"steps": "9"})
        'steps is 9 there, 8 here'
        """
        shown = {key: text for key, text in theirs.items() if key in self.values}
        here = self.shown(shown)
        return "; ".join(f"{key} is {shown[key][:_SHOWN]} there, {text} here" for key, text in here.items())


def shown_in(found: object) -> dict[str, str]:
    """Return the values that the other end of a connection shows; what is no such thing is nothing."""
    if not isinstance(found, dict) or len(found) > _MOST:
        return {}
    return {key: value for key, value in found.items() if isinstance(key, str) and isinstance(value, str)}
