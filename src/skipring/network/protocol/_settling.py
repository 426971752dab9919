"""After the end: nodes tell each other where they went on from, and who may have looked where."""

from __future__ import annotations

from dataclasses import dataclass, field

from ...errors import InvalidInput
from ._core import Core
from .actions import Rule, Timer
from .forks import settled
from .looks import MOST_PLACES, Told
from .messages import Looks, WantLooks

#: Those who do not answer are asked so often, a lease apart; then it is settled without them.
_ASKED = 5


@dataclass
class _Answers:
    """What the others have told, and how often they were asked."""

    told: dict[int, Told] = field(default_factory=dict)
    asked: int = 0
    used: frozenset[int] = frozenset()  # those whose answers are in what was last written down


class Settling:
    """A node's part in finding out, after the end, what recoveries have cost its privacy."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self._answers = _Answers()

    @property
    def wants(self) -> set[int]:
        """Those whose answers are still asked for; nobody's if there was no recovery, or if it is no use."""
        if not self._is_of_use or self._answers.asked > _ASKED:
            return set()
        return self.missing

    @property
    def missing(self) -> set[int]:
        """Those that have not answered, though it would be of use."""
        return set(self.core.others) - self._answers.told.keys() if self._is_of_use else set()

    @property
    def _is_of_use(self) -> bool:
        """Whether recoveries are all that makes releases count in full.

        After a proven fork, or with updates that the journal has forgotten, it does not help to know more.
        """
        memory = self.core.memory
        if memory.outcome is None or memory.decided is None:
            return False
        recovered = bool(memory.starts) or memory.decided[0] > 0
        return recovered and bool(memory.ledger) and memory.forked is None and not memory.reminded

    def begin(self) -> None:
        """Ask all others, if it is of use; after a restart anew."""
        self.ask()

    def ask(self) -> None:
        """Ask those who have not answered."""
        core, answers = self.core, self._answers
        if not self.wants:
            return
        answers.asked += 1
        if answers.asked > _ASKED:
            self.settle()
            return
        for node in sorted(self.missing):
            core.send(node, WantLooks())
        core.wait(Timer.LOOKS, core.rules.lease)

    def on_want_looks(self, sender: int) -> None:
        """Tell what the journal tells; one that is known to be an old copy tells nothing."""
        memory = self.core.memory
        if memory.outcome is not None and not memory.reminded:
            places = Told.of(memory).places
            if len(places) <= MOST_PLACES:
                self.core.send(sender, Looks(places))

    def on_looks(self, sender: int, message: Looks) -> None:
        """Take what a node tells; once all have, or later than the last question, it is settled anew."""
        core, answers = self.core, self._answers
        if not self._is_of_use or sender in answers.told:
            return
        try:
            told = Told.read(message.places, nodes=core.rules.nodes, steps=core.rules.steps)
        except InvalidInput as problem:
            core.broke(sender, Rule.LOOKS, str(problem))
            return
        answers.told[sender] = told
        if not self.missing:
            core.stop(Timer.LOOKS)
        if not self.missing or answers.asked > _ASKED:
            self.settle()

    def settle(self) -> None:
        """Write down what is certain by now."""
        core, memory, answers = self.core, self.core.memory, self._answers
        assert memory.outcome is not None
        assert memory.decided is not None
        told = {**answers.told, core.me: Told.of(memory)}
        found = settled(core.rules, memory.outcome, memory.decided, told)
        if found is not None and found != memory.settled and answers.told.keys() >= answers.used:
            answers.used = frozenset(answers.told)
            core.write(found)
