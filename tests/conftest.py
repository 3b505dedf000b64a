"""Marks for all tests."""

from __future__ import annotations

import pytest

from tests.nightly import is_nightly


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the nightly tests, before `-m` chooses."""
    for item in items:
        if is_nightly(item.nodeid):
            item.add_marker(pytest.mark.nightly)
