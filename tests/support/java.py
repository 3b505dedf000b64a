"""Tests of a release whose Java is not on this machine are skipped: Debian 12 has none for Pulsar 5.0."""

import pytest

from devstack.errors import DevstackError
from devstack.pulsar.java import java_environment


def need_java(version: str) -> None:
    """Skip the test, and name what is missing, where no Java runs a release of Pulsar."""
    try:
        java_environment(version)
    except DevstackError as error:
        pytest.skip(f"{error}; {error.hint}")
