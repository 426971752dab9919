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
- `experiments`: the paper's figures and tables, as data
- `report`: tables and figures for people
- `cli`: the commands
"""

from __future__ import annotations

__version__ = "0.1.0"
