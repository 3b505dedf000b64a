"""Traces of a real broker, as an OTLP receiver gets them."""

import threading
import uuid
from pathlib import Path

import pulsar as pulsar_lib
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from devstack.pool import BrokerProcess
from devstack.pulsar.status import Endpoints
from tests.support.messages import publish_numbers
from tests.support.played_http import HttpRequest, played_http
from tests.support.pulsar.fleet import TESTS, quiet_client

pytestmark = pytest.mark.nightly


def test_a_subscribe_is_one_trace_with_the_owners_request_id(
    pulsar: Endpoints, pulsar_client: pulsar_lib.Client, topic: str, tmp_path: Path
) -> None:
    spans: list[Span] = []
    lock = threading.Lock()

    def answer(request: HttpRequest) -> tuple[int, bytes]:
        with lock:
            for one in ExportTraceServiceRequest.FromString(request.body).resource_spans:
                spans.extend(span for scope in one.scope_spans for span in scope.spans)
        return 200, b""

    publish_numbers(pulsar_client, topic, range(3))
    with played_http(answer) as port:
        options = ["--topics", TESTS, "--pool", uuid.uuid4().hex, "--otlp-endpoint", f"http://127.0.0.1:{port}"]
        broker = BrokerProcess(pulsar, tmp_path / "broker.log", options)
        try:
            broker.wait_ready()
            client = quiet_client(broker.url)
            client.subscribe(topic, "traced")
            client.close()
            assert broker.stop() == 0, "the last spans are sent at the end"
        finally:
            broker.kill()
    named = {one.name: one for one in spans}
    found = {one.key: one.value.string_value or one.value.int_value for one in named["SUBSCRIBE"].attributes}
    assert (found["pulsar.topic"], found["pulsar.subscription"]) == (topic, "traced")
    assert named["LOOKUP"].trace_id != named["SUBSCRIBE"].trace_id
    owner = named["owner SUBSCRIBE"]
    assert (owner.trace_id, owner.parent_span_id) == (named["SUBSCRIBE"].trace_id, named["SUBSCRIBE"].span_id)
    assert {one.key for one in owner.attributes} == {"server.address", "pulsar.request_id"}
