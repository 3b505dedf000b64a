"""Marks for the tests of lab/: those of all tests."""

from tests.conftest import pytest_collection_modifyitems, pytest_configure

__all__ = ["pytest_collection_modifyitems", "pytest_configure"]
