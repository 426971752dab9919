"""The version, for those who must not load anything else to know it."""

from __future__ import annotations

__version__ = "0.1.0"

#: Raised with each change of what a seed gives, or of what is said of its privacy: results of sweeps that were computed
#: before are then not reused.
RESULTS = 3
