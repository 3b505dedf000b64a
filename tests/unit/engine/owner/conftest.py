"""Fixtures of the tests of connections to owners."""

import pytest
from readonly_engine.owner import identity_session


@pytest.fixture(autouse=True)
def short_verification(monkeypatch):
    """Give owners 50 ms instead of 2 s to refuse renewed credentials."""
    monkeypatch.setattr(identity_session, "VERIFICATION_S", 0.05)
