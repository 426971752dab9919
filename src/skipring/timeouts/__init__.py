"""How long to wait for a node: what a timeout costs in time, and the one that is best.

Where nodes begin anew at each turn, formulas say it exactly (`expected_latency`, `time_between_updates`,
`choose_timeout`). Where they remember what they have prepared, a round's duration decides who is ready in it and the
other way round. `round_law` finds the duration that fits itself, and `choose_timeout_ready` the best timeout.
In laps all nodes are waited for at once; `best_deadline` finds the deadline with the most contributions per time.
"""

from __future__ import annotations

from .deadlines import DeadlineChoice as DeadlineChoice
from .deadlines import best_deadline as best_deadline
from .deadlines import chance_of_enough as chance_of_enough
from .deadlines import longest_deadline as longest_deadline
from .fresh import TimeoutChoice as TimeoutChoice
from .fresh import best_timeout as best_timeout
from .fresh import choose_timeout as choose_timeout
from .fresh import expected_latency as expected_latency
from .fresh import no_update_probability as no_update_probability
from .fresh import skip_probability as skip_probability
from .fresh import time_between_updates as time_between_updates
from .fresh import timeout_for_skip as timeout_for_skip
from .remembering import RoundLaw as RoundLaw
from .remembering import TurnLaw as TurnLaw
from .remembering import choose_timeout_ready as choose_timeout_ready
from .remembering import round_law as round_law
