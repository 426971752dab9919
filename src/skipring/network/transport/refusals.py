"""What is said of connections that were refused, here or there; and where the run of another node differs."""

from __future__ import annotations

import re
import ssl
import time
from collections.abc import Callable

from .agreement import Agreement, shown_in
from .roster import Roster
from .stream import Closed, Refusal, Refused, Refusing
from .tls import is_turned_away

_THERE = 15.0  # seconds: a node that was refused not longer ago is still there
_QUIET = 600.0  # seconds in which the same refusal is said once
#: Numbers that stand alone: two refusals that differ only in them are of one kind.
_NUMBER = re.compile(r"(?<![\w-])\d[\d.]*(e[+-]?\d+)?(?![\w-])")
#: Ends of a connection of which nothing is said.
_IN_ORDER = (Refusal.REPLACED, Refusal.NOT_WANTED)


class Refusals:
    """Says each refusal once, and remembers who has another run.

    Parameters
    ----------
    roster, agreement : who the nodes are, and what they agree on.
    say : tells the people who run the node (an event, and facts about it).
    """

    def __init__(self, roster: Roster, agreement: Agreement, say: Callable[..., None]) -> None:
        self._roster, self._agreement, self._say = roster, agreement, say
        self._said: dict[str, tuple[float, int]] = {}
        self._disagreements: dict[int, tuple[float, str]] = {}  # when a node was last refused for its run, and why
        #: To whom which values are shown, because they differ.
        self.shows: dict[int, dict[str, str]] = {}

    @property
    def disagreeing(self) -> dict[int, str]:
        """The nodes that are there but have another run, and where theirs differs."""
        since = time.monotonic() - _THERE
        return {node: what for node, (at, what) in self._disagreements.items() if at > since}

    def agreed(self, node: int) -> None:
        """Take the news that a node has the same run."""
        self._disagreements.pop(node, None)

    def arrived(self, node: int) -> None:
        """Take the news that a node can be reached."""
        self.agreed(node)
        self.shows.pop(node, None)

    def other_run(self, node: int, shown: dict[str, str]) -> Refusing:
        """Return the refusal of a node that has another run, and has shown some of it."""
        name = self._roster.names[node]
        why = f"{name} speaks of another run"
        if compared := self._agreement.compared(shown):  # it was refused before, and says what it has
            why = f"{name} has another run: {compared}"
            self._disagreements[node] = time.monotonic(), compared
        facts = {"marks": self._agreement.marks, "shows": self._agreement.shown(shown)}
        return Refusing(Refusal.OTHER_RUN, why, facts)

    def failed(self, node: int, problem: BaseException) -> None:
        """Say why a connection to a node has ended or not come about, if it is more than being away."""
        name = self._roster.names[node]
        if isinstance(problem, Refusing):
            self.refusing(problem, name)
        elif isinstance(problem, Refused):
            self._was_refused(node, problem)
        elif isinstance(problem, ssl.SSLError) and not is_turned_away(problem):
            self.say_once("refused", f"{name}: what answers at {self._roster.addresses[node]} is not it")
        elif isinstance(problem, ssl.SSLError | Closed):
            self.say_once("refused", f"{name} hangs up; it may not accept the certificate of this node")
        elif not isinstance(problem, OSError):  # nobody has thought of it; OSError is being away
            self.say_once("refused", f"{name}: {type(problem).__name__}: {problem}")

    def refusing(self, problem: Refusing, name: str = "a caller") -> None:
        """Say that this node has hung up, and why; `name` is that of the other end, if it is known."""
        if problem.code not in (*_IN_ORDER, Refusal.TAKEN_OVER, Refusal.LEFT):
            self.say_once("refused", problem.why if problem.named else f"{name}: {problem.why}")

    def _was_refused(self, node: int, refused: Refused) -> None:
        name = self._roster.names[node]
        if refused.code is Refusal.OTHER_RUN:
            self._has_another_run(node, refused)
        elif refused.code is Refusal.TAKEN_OVER:
            self.say_once("refused", f"{name}: another process has called it with the certificate of this node")
        elif refused.code not in _IN_ORDER:
            self.say_once("refused", f"{name} does not listen: {refused.why}", f"{name} {refused.code}")

    def _has_another_run(self, node: int, refused: Refused) -> None:
        name, marks = self._roster.names[node], refused.facts.get("marks")
        theirs = shown_in(refused.facts.get("shows"))
        differs = self._agreement.differing(marks if isinstance(marks, dict) else {})
        known = [key for key in differs if key in self._agreement.marks]
        differing, compared = ", ".join(known) or "unknown keys", self._agreement.compared(theirs)
        self._disagreements[node] = time.monotonic(), compared or differing
        # From the next call on it is shown what they are here, and answers what they are there.
        self.shows[node] = self._agreement.shown(known)
        what = f": {compared}" if compared else f"; differing: {differing}"
        self.say_once("refused", f"{name} has another run{what}")

    def say_once(self, event: str, text: str, kind: str | None = None) -> None:
        """Say something, but not again and again; if no kind is given, texts with other numbers are of the same."""
        now, (who, colon, what) = time.monotonic(), text.partition(": ")
        key = f"{event} {who}{colon}{_NUMBER.sub('#', what)}" if kind is None else f"{event} {kind}"
        shown = "".join(sign if sign.isprintable() else "?" for sign in text[:500])  # others have a say in it
        last, times = self._said.pop(key, (-_QUIET, 0))
        again = now - last < _QUIET
        self._said[key] = (last, times + 1) if again else (now, 1)
        if len(self._said) > 1000:
            del self._said[next(iter(self._said))]
        if not again:
            self._say(event, why=shown, **({"before": times} if times else {}))
