"""Traces of lookups, SUBSCRIBEs and slow reads, by OpenTelemetry, to an OTLP endpoint.

Off, as by default, a place that could make a span costs one comparison, and no package of OpenTelemetry is imported. On, a thread
of the SDK sends spans; the SDK drops those above its queue of 2,048.
"""

from __future__ import annotations

import asyncio
import time
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Final

from readonly_engine import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from contextlib import AbstractContextManager

SLOW_READ_S: Final = 0.1
"""Duration from which on a read of a bookie or of tiered storage has a span."""

EXPORT_TIMEOUT_S: Final = 3
"""Time for one request to the endpoint, and for the last spans when the broker ends."""

SERVICE: Final = "pulsar-readonly-broker"
_PATH: Final = "/v1/traces"
_OFF: Final[AbstractContextManager[None]] = nullcontext()


class TracingError(Exception):
    """Traces were asked for, and the packages of OpenTelemetry are missing."""


class State:
    """State of this process.

    Attributes:
        slow_s: duration from which on a read has a span; infinite while traces are off.
        tracer: makes spans; None while traces are off.
        provider: sends them.
    """

    slow_s = float("inf")
    tracer: Any = None
    provider: Any = None


state: Final = State()
"""State of this process. `slow_s` is compared where reads end."""


def start(endpoint: str, attributes: Mapping[str, str]) -> None:
    """Begin to trace.

    Args:
        endpoint: URL of the OTLP receiver for HTTP, without a path.
        attributes: of the broker, as resource attributes of OpenTelemetry.

    Raises:
        TracingError: the packages of OpenTelemetry are missing.
    """
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter  # noqa: PLC0415
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        raise TracingError(
            f"the package {error.name} is missing: install pulsar-readonly[engine,tracing], or leave the option out"
        ) from error
    resource = Resource.create({"service.name": SERVICE, "service.version": __version__, **attributes})
    exporter = OTLPSpanExporter(endpoint=f"{endpoint.rstrip('/')}{_PATH}", timeout=EXPORT_TIMEOUT_S)
    state.provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    state.provider.add_span_processor(BatchSpanProcessor(exporter))
    state.tracer = state.provider.get_tracer("readonly_engine", __version__)
    state.slow_s = SLOW_READ_S


async def stop() -> None:
    """Send the last spans, and end. The event loop goes on meanwhile."""
    provider, state.provider, state.tracer, state.slow_s = state.provider, None, None, float("inf")
    if provider is not None:
        await asyncio.to_thread(provider.shutdown)


def span(name: str, attributes: Mapping[str, str | int]) -> AbstractContextManager[None]:
    """Return the span of a block: one of its own, or a part of the one around it. An exception marks it as failed."""
    return _OFF if state.tracer is None else state.tracer.start_as_current_span(name, attributes=attributes)


def on_read(name: str, seconds: float, attributes: Mapping[str, str | int]) -> None:
    """Note a slow read that has ended now. The caller has compared its duration with `state.slow_s`.

    Args:
        name: of the span.
        seconds: its duration.
        attributes: of the span.
    """
    _ended(name, seconds, attributes, alone=True)


def on_owner_answer(command: str, seconds: float, url: str, request_id: int) -> None:
    """Note an answer of an owner broker, if it is a part of a span: its request id is in the owner's log, too."""
    if state.tracer is not None:
        _ended(f"owner {command}", seconds, {"server.address": url, "pulsar.request_id": request_id}, alone=False)


def _ended(name: str, seconds: float, attributes: Mapping[str, str | int], *, alone: bool) -> None:
    from opentelemetry import trace  # noqa: PLC0415
    from opentelemetry.context import Context  # noqa: PLC0415

    # A task that began inside a span has its context for ever: an ended span gets no more parts.
    inside = trace.get_current_span().is_recording()
    if not inside and not alone:
        return
    end = time.time_ns()
    context = None if inside else Context()
    made = state.tracer.start_span(name, context, attributes=attributes, start_time=end - int(seconds * 1e9))
    made.end(end)
