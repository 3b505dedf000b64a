"""Health of a process that waits."""

from __future__ import annotations

import socket

import pytest
from readonly_operator.cluster.fetch import FetchError, get
from readonly_operator.runtime.standby import standing_by


@pytest.fixture
def port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def test_the_probe_is_answered_while_it_waits_and_the_address_is_free_afterwards(port):
    url = f"http://127.0.0.1:{port}/healthz"
    for _ in range(2):
        with standing_by(url):
            status, body = get(url, 5)
            assert (status, body) == (200, b'{"controller": "waits for the Lease"}')
            assert get(f"http://127.0.0.1:{port}/other", 5)[0] == 404
    with pytest.raises(FetchError):
        get(url, 1)


def test_nothing_listens_where_no_address_is_given():
    with standing_by(None):
        pass


def test_an_address_in_use_is_an_error(port):
    url = f"http://127.0.0.1:{port}/healthz"
    with standing_by(url), pytest.raises(OSError, match="in use"), standing_by(url):
        pass
