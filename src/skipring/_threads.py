"""On how many threads work is done: on all cores, each with linear algebra of its own."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from typing import Any


def cores() -> int:
    """Return how many cores this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def one_blas_thread() -> AbstractContextManager[Any]:
    """Keep numpy's linear algebra on the thread that calls it: the last digits depend on how many share the work."""
    from threadpoolctl import threadpool_limits  # slow to import

    limits: AbstractContextManager[Any] = threadpool_limits(1, user_api="blas")
    return limits
