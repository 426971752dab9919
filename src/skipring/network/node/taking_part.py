"""Whether a node takes part at a hop: its budget decides, its speed, and whether it was told to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..protocol import Copy, Place
from .config import NodeBudget
from .events import BudgetSpent, Event, OfferRefused, TooSlow
from .ledger import OwnAccount, willing

__all__ = ["TakingPart"]


class TakingPart:
    """Says whether the node takes part at a place; data and parameters have no say in it.

    Parameters
    ----------
    account : what the node has given away.
    budget : what it is ready to give away.
    delta : at which its epsilon is told.
    copy : returns the newest copy that the node has.
    note : is told what is refused.
    """

    def __init__(
        self,
        account: OwnAccount,
        budget: NodeBudget,
        delta: float,
        copy: Callable[[], Copy],
        note: Callable[[Event], None],
    ) -> None:
        self._account, self._budget, self._delta, self._copy, self._note = account, budget, delta, copy, note
        #: Whether the node was told to stop: it begins nothing more.
        self.stopping = False
        #: Whether the node that asks is one whose tokens are not let in.
        self.distrusted = False
        #: Whether the token comes from another node, or from the beginning of the run. With one that only its journal
        #: has brought, a node that was restored from an old copy would make an update a second time, at the same hop
        #: and with other noise, and nobody could tell the two apart: it passes such a token on as it is.
        self.renewed = True
        self.holding: Callable[[], bool] = lambda: False
        #: Says why the node would not be in time; nothing if it may be.
        self.too_slow: Callable[[], str] = lambda: ""

    def __call__(self, place: Place, _ledger: Sequence[Place] = ()) -> bool:
        """Say whether the node takes part at a place."""
        copy = self._copy()
        accepted = place == (copy.ballot, copy.hop)  # a step that has begun is finished
        affordable = willing(self._account, self._budget, *place)
        if not affordable:
            self._note(BudgetSpent(place[1], self._account.epsilon(self._delta), self._budget.epsilon))
        repeated = not self.renewed and (accepted or self.holding())
        if repeated or ((self.stopping or self.distrusted) and not accepted) or not affordable:
            self._note(OfferRefused())
            return False
        if why := self.too_slow():
            # Whoever offers it need not wait: that is better for all than to let the time go by.
            self._note(TooSlow(place[1], why))
            self._note(OfferRefused())
            return False
        return True
