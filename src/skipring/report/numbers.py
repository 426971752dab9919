"""Numbers as people read them."""

from __future__ import annotations

from .._numbers import number, upper

__all__ = ["number", "upper"]
