"""Shared pytest set-up: the repository root on the path, so that tests can import tools, and small models with plans."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.cli_harness import Bench, make_bench


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Small models with plans, for the tests of the command line."""
    return make_bench(tmp_path_factory.mktemp("cli"))
