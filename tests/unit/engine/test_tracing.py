"""Traces, as an OTLP receiver gets them: a real SDK, and a server that decodes what it sends."""

import asyncio
import subprocess
import sys
import threading

import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from readonly_engine import tracing

from tests.support.played_http import played_http


@pytest.fixture
def receiver():
    """URL of an OTLP receiver, and the spans that it has got."""
    spans, resources, lock = [], [], threading.Lock()

    def answer(request):
        assert (request.method, request.path) == ("POST", "/v1/traces")
        for one in ExportTraceServiceRequest.FromString(request.body).resource_spans:
            with lock:
                resources.append({item.key: item.value.string_value for item in one.resource.attributes})
                spans.extend(span for scope in one.scope_spans for span in scope.spans)
        return 200, b""

    with played_http(answer) as port:
        yield f"http://127.0.0.1:{port}", spans, resources


def attributes(span):
    return {one.key: one.value.string_value or one.value.int_value for one in span.attributes}


async def test_spans_of_a_request_are_one_trace_and_slow_reads_of_others_have_their_own(receiver):
    url, spans, resources = receiver
    tracing.start(url, {"service.instance.id": "pulsar://a:6650"})

    async def later():
        tracing.on_owner_answer("FLOW", 1.0, "pulsar://owner:6650", 8)
        tracing.on_read("bookie read", 2.5, {"server.address": "bookie:3181"})

    with tracing.span("SUBSCRIBE", {"pulsar.topic": "t", "pulsar.request_id": 3}):
        tracing.on_owner_answer("SUBSCRIBE", 0.25, "pulsar://owner:6650", 7)
        task = asyncio.create_task(later())
    await task  # it has the context of the span, which has ended
    with pytest.raises(ValueError, match="refused"), tracing.span("LOOKUP", {"pulsar.topic": "u"}):
        raise ValueError("refused")
    await tracing.stop()
    named = {one.name: one for one in spans}
    assert set(named) == {"SUBSCRIBE", "owner SUBSCRIBE", "bookie read", "LOOKUP"}
    request, owner, read = named["SUBSCRIBE"], named["owner SUBSCRIBE"], named["bookie read"]
    assert attributes(request) == {"pulsar.topic": "t", "pulsar.request_id": 3}
    assert (owner.trace_id, owner.parent_span_id) == (request.trace_id, request.span_id)
    assert attributes(owner) == {"server.address": "pulsar://owner:6650", "pulsar.request_id": 7}
    assert owner.end_time_unix_nano - owner.start_time_unix_nano == 250_000_000
    assert read.parent_span_id == b""
    assert read.trace_id != request.trace_id
    assert read.end_time_unix_nano - read.start_time_unix_nano == 2_500_000_000
    assert named["LOOKUP"].status.code == 2
    assert resources[0]["service.name"] == "pulsar-readonly-broker"
    assert resources[0]["service.instance.id"] == "pulsar://a:6650"


async def test_a_receiver_that_is_away_delays_the_end_of_a_broker_by_seconds_only():
    tracing.start("http://127.0.0.1:1", {})
    for _ in range(10_000):  # more than the queue of the SDK
        with tracing.span("LOOKUP", {}):
            pass
    async with asyncio.timeout(30):
        await tracing.stop()
    assert tracing.state.tracer is None


def test_nothing_of_opentelemetry_is_imported_while_traces_are_off():
    code = (
        "import sys; from readonly_engine import assembly, tracing\n"
        "with tracing.span('LOOKUP', {}): pass\n"
        "tracing.on_owner_answer('LOOKUP', 1.0, 'u', 1)\n"
        "assert tracing.state.slow_s == float('inf')\n"
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_missing_packages_are_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(
        tracing.TracingError, match=r"opentelemetry.sdk.trace is missing: install pulsar-readonly\[engine,tracing\]"
    ):
        tracing.start("http://127.0.0.1:1", {})
