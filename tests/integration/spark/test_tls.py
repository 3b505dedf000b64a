"""Bookies that speak TLS and ask for a certificate: read by the planner and by tasks."""

import pickle
import uuid
from contextlib import closing
from pathlib import Path
from typing import Final

import pulsar as pulsar_lib
import pytest

from devstack.pulsar.security import ADMIN_ROLE
from tests.support.pulsar.fleet import quiet_client
from tests.support.pulsar.spark_driver import Driver, numbers, publish
from tests.support.pulsar.spark_session import batch

pytestmark = [pytest.mark.nightly, pytest.mark.own_stack]

COUNT: Final = 150
"""More than a ledger holds."""


@pytest.fixture(scope="module")
def written(secured) -> str:
    """A topic with messages."""
    stack, credentials = secured
    name = f"persistent://public/default/spark-{uuid.uuid4().hex[:12]}"
    token = pulsar_lib.AuthenticationToken(credentials.token(ADMIN_ROLE))
    client = quiet_client(stack.endpoints.writer_url, authentication=token)
    publish(client, name, 0, COUNT - 1)
    client.close()
    return name


@pytest.fixture
def shown(secured) -> dict[str, str]:
    """The options that name the files."""
    _, credentials = secured
    certificate, key = credentials.certificate("reader")
    return {
        "bookieTls.trustCertificates": str(credentials.authority),
        "bookieTls.certificate": str(certificate),
        "bookieTls.key": str(key),
    }


def test_tasks_speak_tls_with_the_bookies(secured, spark, written: str, shown) -> None:
    stack, _ = secured
    with closing(Driver(stack, written, maxBytesPerPartition="2k", **shown)) as driver:
        driver.await_values(numbers(0, COUNT - 1))
        assert Path(shown["bookieTls.key"]).read_bytes() not in pickle.dumps(driver.tasks()), "plans name files"
    frame = batch(spark, stack, written, columns="value binary", **shown)
    assert sorted(bytes(row["value"]).decode() for row in frame.collect()) == sorted(numbers(0, COUNT - 1))
