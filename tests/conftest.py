"""Marks for all tests."""

from __future__ import annotations

import pytest

from tests.nightly import is_nightly
from tests.support.examples import load_profile


def pytest_configure(config: pytest.Config) -> None:
    """Let hypothesis try fewer examples where the nightly tests are left out."""
    load_profile(short="not nightly" in config.option.markexpr)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the nightly tests, before `-m` chooses."""
    for item in items:
        if is_nightly(item.nodeid):
            item.add_marker(pytest.mark.nightly)
