"""What becomes of a token with own updates that the journal does not know: they count, and the node stops.

Each of them is signed by this node itself (the stamps on a token are checked before), so nobody can have made them up.
Then the journal is an old copy, or was lost. They are in the account and in the journal at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..protocol import Entry, Final, Forgotten, Memory, Outcome, Pass
from .events import Event, OwnUpdatesForgotten
from .ledger import OwnAccount
from .updater import Stopped

#: What the others are told, and what the next start says.
OLD_JOURNAL = "is an old copy, or was lost and made anew: others have updates of this node that are not in it"


class OldJournal(Stopped):
    """The node has to stop because its journal is an old copy: what it promised and released since is not in it."""


def is_old(memory: Memory) -> bool:
    """Say whether another node has shown own updates that the journal does not know."""
    return bool(memory.reminded)


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
        updates, trail = self._account.updates, message.token.trail
        unknown = updates.unknown(trail)
        if not unknown:
            return True
        if sender not in self.senders or not updates.all_counted(trail):
            self.senders.add(sender)
            self._write(Forgotten(trail, sender))
            self._note(OwnUpdatesForgotten(self._names[sender], unknown[::-1], self._account.releases))
        if isinstance(message, Outcome):  # nothing is released any more, and the owner shall have the model
            return True
        self._give_up()
        return False
