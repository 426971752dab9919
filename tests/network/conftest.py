"""The world that the protocol is tried in, for all test files here."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture(scope="session")
def world() -> Any:
    """The module with virtual time, a misbehaving network and crashing nodes."""
    path = Path(__file__).with_name("world.py")
    spec = importlib.util.spec_from_file_location("protocol_world", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module
