"""What an observer learns about a target: before a run, after it, and the noise that keeps it within a budget.

A record says what happens (`PlannedRun` before a run, `Transcript` after it); an accountant says what that costs
(`forecast`, `TranscriptAccountant`, `GossipAccountant`, and `PaperBound` for the paper's own theorems). Every
`Accountant` has epsilon, delta, curve and a `Claim`: who is protected from whom, and by which argument. It refuses what
it cannot account for. `PrivacyReport` puts together what each method says of one run. `noise_for_budget` and
`steps_for_budget` go the other way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .accountant import Accountant, Claim
from .by_mu import GaussianAccountant
from .calibrate import noise_for_budget, paper_noise_for_budget, steps_for_budget
from .forecast import Composition, Forecast, forecast
from .gaussian import gdp_delta, gdp_epsilon, gdp_mu
from .gossip import (
    GossipAccountant,
    GossipGraph,
    federated_mu,
    federated_node_mu,
    gossip_mu,
    gossip_mu_curve,
    muffliato_epsilon,
)
from .own import OwnTranscript
from .paper import PaperBound
from .record import PlannedRun, whole_node
from .report import (
    HIDDEN,
    Histogram,
    PrivacyReport,
    PublishedEpsilon,
    RealisedPrivacy,
    StatedEpsilon,
    average_words,
    promised,
)
from .transcript import Transcript, TranscriptAccountant, WorstPair

if TYPE_CHECKING:
    from .accountant import AMPLIFIED, IN_FULL, USUAL_UNIT, Relation, Unit, large_delta
    from .lateness import sure_others
    from .leakage import Leakage
    from .record import ScheduleName, View
    from .theorems import paper_noise_multiplier, stated_epsilon, theorem_curve

__all__ = [
    "AMPLIFIED",
    "HIDDEN",
    "IN_FULL",
    "USUAL_UNIT",
    "Accountant",
    "Claim",
    "Composition",
    "Forecast",
    "GaussianAccountant",
    "GossipAccountant",
    "GossipGraph",
    "Histogram",
    "Leakage",
    "OwnTranscript",
    "PaperBound",
    "PlannedRun",
    "PrivacyReport",
    "PublishedEpsilon",
    "RealisedPrivacy",
    "Relation",
    "ScheduleName",
    "StatedEpsilon",
    "Transcript",
    "TranscriptAccountant",
    "Unit",
    "View",
    "WorstPair",
    "average_words",
    "federated_mu",
    "federated_node_mu",
    "forecast",
    "gdp_delta",
    "gdp_epsilon",
    "gdp_mu",
    "gossip_mu",
    "gossip_mu_curve",
    "large_delta",
    "muffliato_epsilon",
    "noise_for_budget",
    "paper_noise_for_budget",
    "paper_noise_multiplier",
    "promised",
    "stated_epsilon",
    "steps_for_budget",
    "sure_others",
    "theorem_curve",
    "whole_node",
]

__getattr__, __dir__ = lazily(
    __name__,
    {
        "AMPLIFIED": "accountant",
        "IN_FULL": "accountant",
        "USUAL_UNIT": "accountant",
        "large_delta": "accountant",
        "Leakage": "leakage",
        "Relation": "accountant",
        "ScheduleName": "record",
        "Unit": "accountant",
        "View": "record",
        "paper_noise_multiplier": "theorems",
        "stated_epsilon": "theorems",
        "sure_others": "lateness",
        "theorem_curve": "theorems",
    },
)
