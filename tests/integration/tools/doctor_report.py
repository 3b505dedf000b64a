"""`pulsar-readonly doctor` as the tests of clusters run it, and the record of its reports for docs/reference/doctor.md."""

import json
import os
import subprocess
import sys
import time
import uuid
from collections.abc import Sequence
from typing import Any, Final

from bench.document import machine
from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.status import Endpoints
from docsite import doctor
from tests.support.pulsar.fleet import quiet_client

TIMEOUT_S = 60
"""Of the command; its process may take a little longer."""

WRITE_VARIABLE: Final = "PULSAR_READONLY_WRITE_REPORTS"
"""Set to 1, the tests write the reports of docs/reference/doctor.md."""

PROGRAM: Final = ("-m", "readonly_engine.command")


class Report:
    """What the command printed.

    Attributes:
        status: its exit status.
        shown: everything that it printed.
        findings: the findings.
        seconds: how long it took.
    """

    def __init__(self, *words: str, program: Sequence[str] = PROGRAM) -> None:
        command = [sys.executable, *program, "doctor", "--output", "json", *words]
        began = time.monotonic()
        done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S + 60, check=False)
        self.seconds = time.monotonic() - began
        self.status, self.shown = done.returncode, done.stdout + done.stderr
        assert done.stdout.startswith("{"), self.shown
        self.findings: list[dict[str, str]] = json.loads(done.stdout)["findings"]

    def of(self, check: str) -> list[dict[str, str]]:
        return [one for one in self.findings if one["check"] == check]

    def results(self, check: str) -> list[str]:
        return [one["result"] for one in self.of(check)]

    def record(self, scenario: str) -> None:
        """Write the report for the page, if this run is to; a report that does not show its scenario is an error."""
        if os.environ.get(WRITE_VARIABLE) == "1":
            day = time.strftime("%Y-%m-%d", time.gmtime())
            doctor.record(scenario, self.status, self.findings, day, machine())

    @property
    def failed(self) -> list[dict[str, str]]:
        return [one for one in self.findings if one["result"] == "fail"]


def addresses(endpoints: Endpoints, **replaced: str) -> list[str]:
    """Return the options with the addresses of a cluster, and the name of a pool that no other test has."""
    values = {
        "metadata-store-url": endpoints.pool_store,
        "service-url": endpoints.writer_url,
        "admin-url": endpoints.admin_url,
        "pool": f"doctor-{uuid.uuid4().hex}",
        "timeout": str(TIMEOUT_S),
        **{name.replace("_", "-"): value for name, value in replaced.items()},
    }
    if endpoints.bookkeeper_metadata_store:
        values.setdefault("bookkeeper-metadata-store-url", endpoints.bookkeeper_metadata_store)
    return [*endpoints.pool_options, *(word for name, value in values.items() for word in (f"--{name}", value))]


def publish(url: str, topic: str, count: int = 3, **options: Any) -> None:
    client = quiet_client(url, operation_timeout_seconds=90, **options)
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(count):
        producer.send(b"%d" % number)
    client.close()


def end(stack: PulsarCluster) -> None:
    if os.environ.get("CI") == "true" or os.environ.get("KEEP_PULSAR") == "0":
        stack.down()
