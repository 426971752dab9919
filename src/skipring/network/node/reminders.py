"""What becomes of a token with own updates that the journal does not know: they count, and one sender is not believed.

If the journal is an old copy, or was lost, every node that has the run's token shows it. If it is not, somebody has
forged a chain. The count is for the worst of both: the updates are in the account and in the journal at once. That the
journal is old is concluded only when a second node says so, so that one that lies cannot end another: until then
its token is refused, and so are its offers.

One thing two senders do not exclude: a forged chain that an honest node was given and passes on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..protocol import Entry, Final, Forgotten, Memory, Outcome, Pass, marks_of
from .events import Event, OwnUpdatesForgotten
from .ledger import OwnAccount
from .updater import Stopped

__all__ = ["OLD_JOURNAL", "OldJournal", "Reminders", "is_old"]

#: What the others are told, and what the next start says.
OLD_JOURNAL = "is an old copy, or was lost and made anew: others have updates of this node that are not in it"


class OldJournal(Stopped):
    """The node has to stop because its journal is an old copy: what it promised and released since is not in it."""


def is_old(memory: Memory, nodes: int) -> bool:
    """Say whether so many nodes have shown unknown own updates that the journal is taken for an old copy."""
    return len(memory.reminded) >= min(2, nodes - 1)


class Reminders:
    """Looks at the chain of each token that arrives, and says whether it may be let in.

    Parameters
    ----------
    account : knows the node's own updates.
    names : of all nodes.
    before : the nodes that have shown unknown own updates before this start.
    write : puts an entry into the journal.
    note : is told what was forgotten.
    give_up : is called when the journal must be an old copy.
    """

    def __init__(
        self,
        account: OwnAccount,
        names: Sequence[str],
        before: Sequence[int],
        *,
        write: Callable[[Entry], None],
        note: Callable[[Event], None],
        give_up: Callable[[], None],
    ) -> None:
        self._account, self._names, self._write, self._note, self._give_up = account, names, write, note, give_up
        #: The nodes that have shown unknown own updates.
        self.senders = set(before)

    def lets_in(self, sender: int, message: Pass | Final | Outcome) -> bool:
        """Say whether a token is let in; count the own updates on it that are not known, whatever becomes of it."""
        updates, marks = self._account.updates, marks_of(message.token.chain)
        unknown = updates.unknown(marks)
        if not unknown:
            return True
        if sender not in self.senders or not updates.all_counted(marks):
            self.senders.add(sender)
            self._write(Forgotten(message.token.chain, sender))
            self._note(OwnUpdatesForgotten(self._names[sender], unknown[::-1], self._account.releases))
        if len(self.senders) < min(2, len(self._names) - 1):
            return False
        if isinstance(message, Outcome):  # nothing is released any more, and the owner shall have the model
            return True
        self._give_up()
        return False
