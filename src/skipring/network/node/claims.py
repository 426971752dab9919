"""What a node's account says of a model: its epsilon for other nodes, and for those who see the final model alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from ...privacy import (
    ALL_OTHERS,
    ALONE,
    AMPLIFIED,
    ANOTHER_NODE,
    IN_FULL,
    OUTSIDER,
    SHOWN,
    Guarantee,
    OwnTranscript,
    Unit,
    gdp_epsilon,
)
from ..protocol import Token, updated_hops
from .account_terms import AccountTerms
from .settled_account import append_hops

if TYPE_CHECKING:
    from .ledger import OwnAccount

#: The method of an epsilon of all runs in a ledger.
ALL_RUNS = "own accounts, composed"
#: Why nothing is protected where the run file asks for no noise.
_NO_NOISE = "there is no noise (privacy.noise_multiplier = 0)"
_AT_ITS_TURNS = "which sees the token when it is its turn, knows the path and sees the final model"
#: What an outsider sees who is shown a token of a run that is not over.
_SHOWN_BEFORE = "shown this model, before the run is over, and nothing else, who may know the path"
_ONE_MORE = (
    "it is one more look, beside the final model: with other looks, what holds against all others holds,"
    " and no other node's account counts it"
)


def own_guarantee(account: OwnAccount, delta: float, *, told: bool) -> Guarantee:
    """Return what another node knows of a node's data at most, and what all others do; `told`: as nodes have said."""
    terms = account.terms
    one = Guarantee(
        protects=terms.protects,
        whose=f"node {terms.me}",
        against=ANOTHER_NODE,
        sees=_AT_ITS_TURNS,
        method="own account",
        delta=delta,
        epsilon=account.epsilon(delta),
        refused=None if terms.noise_multiplier else _NO_NOISE,
        assumptions=(
            "it is about what was released so far, which no data may have decided",
            AMPLIFIED if terms.convex else IN_FULL,
            *(("a fork of the run counts from when this node hears of it",) if terms.convex else ()),
            *(("where recoveries went on from, and who saw it, is as nodes have told",) if told else ()),
        ),
    )
    together = replace(
        one,
        against=ALL_OTHERS,
        sees="who put together what they saw, whatever happened elsewhere",
        epsilon=account.epsilon_of_releases(delta),
        assumptions=(one.assumptions[0], IN_FULL),
    )
    return replace(one, also=(together,))


def run_guarantee(
    protects: Unit, relation: str, delta: float, mu2: float, in_full: float, *, not_covered: str | None = None
) -> Guarantee:
    """Return what a ledger says of one run: mu^2 of another node who knows most, and with each release in full."""
    one = Guarantee(
        protects=protects,
        whose="the node",
        against=ANOTHER_NODE,
        sees=_AT_ITS_TURNS,
        method="own account",
        delta=delta,
        epsilon=gdp_epsilon(math.sqrt(mu2), delta),
        not_covered=not_covered,
        relation=relation,
    )
    return replace(one, also=(replace(one, against=ALL_OTHERS, epsilon=gdp_epsilon(math.sqrt(in_full), delta)),))


def life_guarantee(
    protects: Unit, relation: str, delta: float, mu2: float, in_full: float, *, runs: str = "all runs"
) -> Guarantee:
    """Return what a ledger says of several runs together."""
    one = run_guarantee(protects, relation, delta, mu2, in_full)
    refused = "a run had no noise" if math.isinf(mu2) else None
    whom = f"the other nodes of {runs}"
    return replace(one, against=whom, sees="who put together what they saw", method=ALL_RUNS, refused=refused)


def budget_guarantee(protects: Unit, epsilon: float | None, delta: float | None) -> Guarantee:
    """Return what each node keeps by refusing turns, once a run was agreed on and before it has begun."""
    return Guarantee(
        protects=protects,
        whose="each node",
        against=ANOTHER_NODE,
        sees=_AT_ITS_TURNS,
        method="own account",
        delta=delta or 0.0,
        epsilon=epsilon,
        refused="no budget was asked for" if epsilon is None else None,
    )


def model_guarantee(
    account: OwnAccount,
    node: str,
    delta: float,
    token: Token | None,
    *,
    over: bool = True,
    not_covered: str | None = None,
) -> Guarantee:
    """Return what a node's account says of its own data, also against an outsider who is shown one token alone.

    It is the final model, or before the run is `over` any other token; None if there is nothing to be shown.
    """
    first = replace(account.guarantee(delta), whose=f"node {node}", not_covered=not_covered)
    also = [replace(each, whose=first.whose) for each in first.also]
    if token is not None:
        outsider = replace(
            first,
            against=OUTSIDER,
            sees=SHOWN if over else _SHOWN_BEFORE,
            epsilon=final_epsilon(account.terms, token, delta),
            assumptions=(
                first.assumptions[0],
                AMPLIFIED if account.terms.convex else IN_FULL,
                ALONE,
                *(() if over else (_ONE_MORE,)),
            ),
            not_covered=None,
            also=(),
        )
        also.append(outsider)
    return replace(first, also=tuple(also))


def final_epsilon(terms: AccountTerms, outcome: Token | None, delta: float) -> float | None:
    """Return epsilon for an outsider who is shown the final model and nothing else; None before there is one.

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
