"""Examples of hypothesis and coroutines in the tests of lab/: as in all tests."""

from tests.conftest import pytest_configure, pytest_pyfunc_call

__all__ = ["pytest_configure", "pytest_pyfunc_call"]
