"""Examples of hypothesis for the tests of lab/: as many as in all tests."""

from tests.conftest import pytest_configure

__all__ = ["pytest_configure"]
