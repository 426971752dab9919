"""What an observer learns about a target: before a run, after it, and the noise that keeps it within a budget.

A record says what happens (`PlannedRun` before a run, `Transcript` after it); an accountant says what that costs
(`forecast`, `TranscriptAccountant`, `GossipAccountant`, and `PaperBound` for the paper's own theorems). Every
`Accountant` has epsilon, delta and a `Guarantee`: the number with all that it cannot be read without. It refuses
what it cannot account for. `PrivacyReport` puts together what each method says of one run. `calibrate` goes the
other way, from a budget to noise, and `METHODS` has the accountants of planned runs by name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .accountant import Accountant as Accountant
from .accountant import Guarantee as Guarantee
from .calibrate import METHODS as METHODS
from .calibrate import RunAccountant as RunAccountant
from .calibrate import accountant as accountant
from .calibrate import calibrate as calibrate
from .calibrate import promise as promise
from .forecast import Composition as Composition
from .forecast import Forecast as Forecast
from .forecast import forecast as forecast
from .gaussian import ROUNDING as ROUNDING
from .gaussian import GaussianAccountant as GaussianAccountant
from .gaussian import gdp_delta as gdp_delta
from .gaussian import gdp_epsilon as gdp_epsilon
from .gaussian import gdp_mu as gdp_mu
from .gossip import GossipAccountant as GossipAccountant
from .gossip import GossipGraph as GossipGraph
from .gossip import GossipRun as GossipRun
from .gossip import federated_mu as federated_mu
from .gossip import federated_node_mu as federated_node_mu
from .gossip import gossip_mu as gossip_mu
from .gossip import gossip_mu_curve as gossip_mu_curve
from .gossip import muffliato_epsilon as muffliato_epsilon
from .laps import FINEST as FINEST
from .laps import Lap as Lap
from .laps import LapsTranscript as LapsTranscript
from .laps import PlannedLaps as PlannedLaps
from .laps import share_of_noise as share_of_noise
from .laps_accountant import LapsAccountant as LapsAccountant
from .laps_accountant import most_laps as most_laps
from .own import OwnTranscript as OwnTranscript
from .own_laps import OwnLaps as OwnLaps
from .paper import PaperBound as PaperBound
from .record import PlannedRun as PlannedRun
from .record import Protected as Protected
from .record import planned_run as planned_run
from .record import whole_node as whole_node
from .report import Histogram as Histogram
from .report import InThisRun as InThisRun
from .report import PrivacyReport as PrivacyReport
from .report import average_words as average_words
from .transcript import Transcript as Transcript
from .transcript import TranscriptAccountant as TranscriptAccountant
from .transcript import WorstPair as WorstPair

if TYPE_CHECKING:
    from .accountant import ALL_OTHERS as ALL_OTHERS
    from .accountant import ALONE as ALONE
    from .accountant import AMPLIFIED as AMPLIFIED
    from .accountant import ANOTHER_NODE as ANOTHER_NODE
    from .accountant import IN_FULL as IN_FULL
    from .accountant import OUTSIDER as OUTSIDER
    from .accountant import PROTECTED as PROTECTED
    from .accountant import RELATION as RELATION
    from .accountant import SERVER as SERVER
    from .accountant import SHOWN as SHOWN
    from .accountant import USUAL_UNIT as USUAL_UNIT
    from .accountant import WHOLE_NODE as WHOLE_NODE
    from .accountant import Unit as Unit
    from .accountant import large_delta as large_delta
    from .accountant import nothing_promised as nothing_promised
    from .accountant import promised as promised
    from .accountant import said as said
    from .lateness import Remembering as Remembering
    from .lateness import sure_others as sure_others
    from .leakage import Leakage as Leakage
    from .paper import paper_noise_multiplier as paper_noise_multiplier
    from .paper import stated_epsilon as stated_epsilon
    from .paper import theorem_curve as theorem_curve
    from .record import Against as Against
    from .record import ScheduleName as ScheduleName


__getattr__, __dir__ = lazily(__name__, __file__)
