"""From a budget of privacy and of time (or steps) to a timeout, a length, a noise level and a learning rate.

The planner looks for the timeout and the length whose error bound is smallest once the noise has been raised to what
the privacy budget asks for. A long timeout wastes time on stragglers, a short one wastes hops; and since each update
asks for more noise, the whole time is not always worth using. Where records or persons are protected, it also proposes
how many rows an update takes. Laps have a planner of their own, and `verdict` compares the two.
"""

from __future__ import annotations

from .budget import ASSUMED_SMOOTHNESS as ASSUMED_SMOOTHNESS
from .budget import Budget as Budget
from .budget import Ready as Ready
from .laps import LAPS_CLOSE as LAPS_CLOSE
from .laps import LapsBudget as LapsBudget
from .laps import LapsPlan as LapsPlan
from .laps import plan_laps as plan_laps
from .laps import verdict as verdict
from .planner import FrontierPoint as FrontierPoint
from .planner import Plan as Plan
from .planner import Plans as Plans
from .planner import frontier as frontier
from .planner import plan as plan
