"""Straggler-resilient, differentially private learning without a server.

People who cannot pool their data train one model. A token carrying the model walks a ring of nodes. The node that holds
it takes one noisy gradient step on its own data. A node that is not ready within a timeout is skipped. This package
tells beforehand what that costs in time, error and privacy, and picks timeout, length and noise for a budget.

The rooms, each using only those before it:

- `delays`: how long a node takes
- `timeouts`: how long to wait for it
- `schedules`: who gets the token next
- `convergence`: how far from the best model a run is expected to end
- `privacy`: what an observer learns about a target, before and after a run
- `planning`: from a budget to timeout, length, noise and learning rate
- `data`: what nodes learn from, and how it is spread over them
- `learning`: one update of a model, for simulations and nodes alike
- `runs`: the run file, its defaults, and what it resolves to
- `models`: trained models as files, and what they predict
- `simulation`: many runs in virtual time
- `estimator`: one run as a scikit-learn classifier
- `network`: the same protocol between real machines
- `experiments`: sweeps, what learning together is worth, and the paper's figures and tables, as data
- `report`: tables and figures for people
- `cli`: the commands

`skipring.simulate`, `skipring.SkipRingClassifier` and `skipring.load_model` are the short way in from Python.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from ._version import __version__

if TYPE_CHECKING:
    from .estimator import SkipRingClassifier
    from .models import load_model
    from .simulation import simulate

__all__ = ["SkipRingClassifier", "__version__", "load_model", "simulate"]

# numba reads settings from a file in the current folder, and unpickles what lies in the cache that they name. That
# folder may be one that others have packed. The environment comes before that file.
os.environ.setdefault("NUMBA_CACHE_DIR", "")

_HOMES = {"SkipRingClassifier": "estimator", "load_model": "models", "simulate": "simulation"}


def __getattr__(name: str) -> Any:
    """Load a name or a room when it is first used: most commands need neither scikit-learn nor the simulator."""
    from importlib import import_module

    if name in _HOMES:
        return getattr(import_module(f".{_HOMES[name]}", __name__), name)
    if name in _rooms():
        return import_module(f".{name}", __name__)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    """Show the public names and all rooms, loaded or not."""
    return sorted({*__all__, *_rooms()})


def _rooms() -> set[str]:
    from pkgutil import iter_modules

    return {found.name for found in iter_modules(__path__) if not found.name.startswith("_")}
