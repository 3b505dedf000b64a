"""Input of a release, and the project's own files as its tree."""

from pathlib import Path

import pytest

from devstack.release.inputs import ReleaseInputs

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture
def inputs():
    return ReleaseInputs(
        version="0.1.0",
        registry="registry.example.com/team",
        commit="0123456789abcdef0123456789abcdef01234567",
        epoch=1_700_000_000,
        source="https://git.example.com/team/pulsar-readonly",
    )
