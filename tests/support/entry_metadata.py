"""Brokers that write metadata of their own before each entry: its time, and the index of its last message."""

from typing import Final

from devstack.pulsar.spec import Setting

_INTERCEPTORS: Final = ",".join(
    f"org.apache.pulsar.common.intercept.{name}"
    for name in ("AppendBrokerTimestampMetadataInterceptor", "AppendIndexMetadataInterceptor")
)

WRITTEN: Final = Setting("broker", "brokerEntryMetadataInterceptors", _INTERCEPTORS)
"""It is stored, and stripped for consumers."""

EXPOSED: Final = Setting("broker", "exposingBrokerEntryMetadataToClientEnabled", "true")
"""It is sent to consumers that take it."""
