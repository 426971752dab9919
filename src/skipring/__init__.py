"""Straggler-resilient, differentially private learning without a server."""

from __future__ import annotations

__version__ = "0.1.0"
