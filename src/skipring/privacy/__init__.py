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
from .gaussian import gdp_delta, gdp_epsilon, gdp_mu, rdp_delta, rdp_epsilon
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
from .running import RunningTranscript
from .transcript import Transcript, TranscriptAccountant, WorstPair

if TYPE_CHECKING:
    from .accountant import AMPLIFIED, IN_FULL, USUAL_UNIT, Relation, Unit, large_delta
    from .lateness import sure_others
    from .leakage import Leakage
    from .record import ScheduleName, View
    from .theorems import paper_noise_multiplier, theorem3, theorem_curve

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
    "RunningTranscript",
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
    "rdp_delta",
    "rdp_epsilon",
    "steps_for_budget",
    "sure_others",
    "theorem3",
    "theorem_curve",
    "whole_node",
]

__getattr__, __dir__ = lazily(__name__, __file__)
