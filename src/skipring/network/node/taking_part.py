"""Whether a node takes part at a hop: its budget decides, its speed, and whether it was told to stop."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ..protocol import Copy, Place, Token
from .config import NodeBudget
from .events import BudgetSpent, Event, OfferRefused, TooSlow
from .ledger import OwnAccount, willing
from .lifetime import Lifetime


class TakingPart:
    """Says whether the node takes part at a place; data and parameters have no say in it.

    Parameters
    ----------
    account : what the node has given away.
    budget : what it is ready to give away.
    delta : at which its epsilon is told.
    copy : returns the newest copy that the node has.
    note : is told what is refused.
    lifetime : what was given away in other runs counts, too; None if the owner keeps no ledger of it.
    """

    def __init__(
        self,
        account: OwnAccount,
        budget: NodeBudget,
        delta: float,
        copy: Callable[[], Copy],
        note: Callable[[Event], None],
        lifetime: Lifetime | None = None,
    ) -> None:
        self._lifetime = lifetime
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
        token = copy.token if accepted else None
        affordable = self._affords(place, token)
        repeated = not self.renewed and (accepted or self.holding())
        if repeated or ((self.stopping or self.distrusted) and not accepted) or not affordable:
            self._note(OfferRefused())
            return False
        if why := self.too_slow():
            # The node that offers it need not wait: that is better for all than to let the time go by.
            self._note(TooSlow(place[1], why))
            self._note(OfferRefused())
            return False
        if self._lifetime is not None and token is not None and not self._lifetime.reserve(self._budget, place, token):
            self._say_spent(place)  # another node of the same owner was quicker
            self._note(OfferRefused())
            return False
        return True

    def _affords(self, place: Place, token: Token | None) -> bool:
        """Say whether the budget, for this run or for life, has room for one more update."""
        if self._lifetime is None:
            affordable = willing(self._account, self._budget, *place, token)
        else:
            affordable = self._lifetime.affords(self._budget, place, token)
        if not affordable:
            self._say_spent(place)
        return affordable

    def _say_spent(self, place: Place) -> None:
        given = (self._account if self._lifetime is None else self._lifetime.total).epsilon(self._delta)
        self._note(BudgetSpent(place[1], given, self._budget.epsilon))
