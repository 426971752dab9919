"""Straggler-resilient, differentially private learning without a server.

People who cannot pool their data train one model: a token carrying the model walks a ring of nodes, whoever holds it
takes one noisy gradient step on its own data, and a node that is not ready within a timeout is skipped. This package
tells beforehand what that costs in time, error and privacy, and picks timeout, length and noise for a budget.

The rooms, each using only those before it:

- `delays`: how long a node takes
- `timeouts`: how long to wait for it
- `schedules`: who gets the token next
- `convergence`: how far from the best model a run is expected to end
- `privacy`: what an observer learns about a target, before and after a run
- `planning`: from a budget to timeout, length, noise and learning rate
- `data`: what nodes learn from, and how it is spread over them
- `learning`: one update of a model
- `simulation`: many runs in virtual time
- `estimator`: one run as a scikit-learn classifier
- `network`: the same protocol between real machines
- `experiments`: sweeps, and the paper's figures and tables, as data
- `report`: tables and figures for people
- `cli`: the commands

`skipring.simulate` and `skipring.SkipRingClassifier` are the short way in from Python.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .estimator import SkipRingClassifier
    from .simulation import simulate

__all__ = ["SkipRingClassifier", "__version__", "simulate"]

_HOMES = {"SkipRingClassifier": "estimator", "simulate": "simulation"}


def __getattr__(name: str) -> Any:
    """Load a name when it is first used: most commands need neither scikit-learn nor the simulator."""
    from importlib import import_module

    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{_HOMES[name]}", __name__), name)
