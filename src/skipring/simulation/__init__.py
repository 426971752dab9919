"""Many runs in virtual time: how schedule, timeout and privacy budget play out on real data.

`simulate` carries out what a run file (`skipring.runs`) describes on all cores, and `Result` holds the metrics of all
runs with the privacy they cost. `compare_runs` puts `alternatives` side by side.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._lazy import lazily
from .build import build as build
from .comparison import Alternative as Alternative
from .comparison import Comparison as Comparison
from .comparison import alternatives as alternatives
from .comparison import compare_runs as compare_runs
from .lateness import Lateness as Lateness
from .result import ResolvedFacts as ResolvedFacts
from .result import Result as Result
from .result import RunSummary as RunSummary
from .result import Spread as Spread
from .result import gather as gather
from .setup import Interrupted as Interrupted
from .setup import RunOutput as RunOutput
from .simulate import simulate as simulate

if TYPE_CHECKING:
    from .account import noise_for as noise_for
    from .account import planned as planned
    from .account import privacy_of as privacy_of
    from .account import transcript_account as transcript_account
    from .build import DealtRows as DealtRows
    from .build import setup_on as setup_on
    from .comparison import Compared as Compared
    from .engine import prepare_runs as prepare_runs
    from .engine import run_many as run_many
    from .engine import run_one as run_one
    from .lap_account import planned_laps as planned_laps
    from .rivals import gossip_graphs as gossip_graphs
    from .rivals.privacy import chosen_pairs as chosen_pairs
    from .rivals.privacy import gossip_run as gossip_run
    from .rivals.privacy import why_not_hidden as why_not_hidden
    from .rivals.runs import who_is_ready as who_is_ready
    from .setup import Course as Course
    from .setup import Setup as Setup
    from .table import COLUMNS as COLUMNS
    from .table import WORDS as WORDS
    from .table import ResultRow as ResultRow
    from .table import latex_rows as latex_rows
    from .table import result_row as result_row


__getattr__, __dir__ = lazily(__name__, __file__)
