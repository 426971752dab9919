"""What a node's account says of a model: its epsilon for other nodes, and for those who see the final model alone."""

from __future__ import annotations

import math

from ...models import EpsilonClaim
from ...privacy import OwnTranscript, gdp_epsilon
from ..protocol import Token, updated_hops
from .account_terms import AccountTerms
from .ledger import OwnAccount
from .settled_account import append_hops


def final_claims(
    account: OwnAccount, node: str, delta: float, outcome: Token | None, checkpoint: Token | None = None
) -> tuple[EpsilonClaim, ...]:
    """Return what a node's account says of its own data, and nobody else's: what other nodes know, and outsiders.

    What the final model alone tells is said once there is one; before that, what a `checkpoint` alone tells.
    """
    claim, terms = account.claim, account.terms
    stated = [(claim.view, account.epsilon(delta)), ("final", final_epsilon(terms, outcome, delta))]
    stated.append(("checkpoint", final_epsilon(terms, checkpoint if outcome is None else None, delta)))
    return tuple(
        EpsilonClaim(
            whose=f"node {node}, by its own account",
            unit=claim.unit,
            relation=claim.relation,
            delta=delta,
            view=view,
            method=claim.method,
            epsilon=epsilon,
        )
        for view, epsilon in stated
        if epsilon is not None
    )


def final_epsilon(terms: AccountTerms, outcome: Token | None, delta: float) -> float | None:
    """Return epsilon for somebody outside who is shown the final model and nothing else; None before there is one.

    It holds for any one token in its place, whatever became of the run: all that it tells is on its own chain.
    """
    return None if outcome is None else gdp_epsilon(_final_mu(terms, outcome.chain), delta)


def _final_mu(terms: AccountTerms, chain: bytes) -> float:
    """Return what the final model alone tells of this node: all noise on its way hides each of its updates."""
    if not terms.noise_multiplier:
        own = (hop for hop in updated_hops(chain) if terms.part_at(hop) is not None)
        return 0.0 if next(own, None) is None else math.inf
    # An observer that is never sent the token but at the end: a number that no node has.
    outsider = terms.nodes
    run = OwnTranscript(terms.nodes + 1, terms.me, convex=terms.convex, parts=terms.parts, protects=terms.protects)
    append_hops(run, terms, (1, terms.steps), chain, 0, {})
    return math.sqrt(float(run.mu2_by_observer()[outsider]))
