"""How long to wait for a node: what a timeout costs in time, and the one that is best.

Where nodes begin anew at each turn, formulas say it exactly (`expected_latency`, `time_between_updates`,
`choose_timeout`). Where they remember what they have prepared, a round's duration decides who is ready in it and the
other way round: `round_law` finds the duration that fits itself, and `choose_timeout_ready` the best timeout.
"""

from __future__ import annotations

from .fresh import (
    TimeoutChoice,
    best_timeout,
    choose_timeout,
    expected_latency,
    no_update_probability,
    skip_probability,
    time_between_updates,
    timeout_for_skip,
)
from .remembering import RoundLaw, best_timeout_ready, choose_timeout_ready, round_law

__all__ = [
    "RoundLaw",
    "TimeoutChoice",
    "best_timeout",
    "best_timeout_ready",
    "choose_timeout",
    "choose_timeout_ready",
    "expected_latency",
    "no_update_probability",
    "round_law",
    "skip_probability",
    "time_between_updates",
    "timeout_for_skip",
]
