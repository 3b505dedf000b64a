"""Errors by the kinds of the protocol (PROTOCOL.md)."""

from __future__ import annotations

from typing import Any

import pulsar

_KINDS = {
    "AlreadyClosed": "AlreadyClosed",
    "AuthenticationError": "Authentication",
    "AuthorizationError": "Authorization",
    "BrokerMetadataError": "Metadata",
    "BrokerPersistenceError": "Persistence",
    "ChecksumError": "Checksum",
    "ConnectError": "Connect",
    "ConsumerBusy": "ConsumerBusy",
    "ConsumerNotFound": "ConsumerNotFound",
    "CryptoError": "Crypto",
    "ErrorGettingAuthenticationData": "Authentication",
    "IncompatibleSchema": "IncompatibleSchema",
    "InvalidConfiguration": "InvalidConfiguration",
    "InvalidMessage": "InvalidMessage",
    "InvalidTopicName": "InvalidTopicName",
    "InvalidTxnStatusError": "InvalidTransaction",
    "MessageTooBig": "MessageTooBig",
    "NotAllowedError": "NotAllowed",
    "NotConnected": "NotConnected",
    "ProducerBlockedQuotaExceededError": "ProducerBlocked",
    "ProducerBlockedQuotaExceededException": "ProducerBlocked",
    "ProducerBusy": "ProducerBusy",
    "ProducerFenced": "ProducerFenced",
    "ServiceUnitNotReady": "ServiceNotReady",
    "SubscriptionNotFound": "SubscriptionNotFound",
    "Timeout": "Timeout",
    "TooManyLookupRequestException": "TooManyRequests",
    "TopicNotFound": "TopicNotFound",
    "TopicTerminated": "TopicTerminated",
    "TransactionConflict": "TransactionConflict",
    "TransactionNotFound": "TransactionNotFound",
}


class Unsupported(Exception):  # noqa: N818 - the protocol's word
    """The client's API does not offer the operation or option."""


class BadRequest(Exception):  # noqa: N818 - the protocol's word
    """The request is invalid."""


def describe(error: Exception) -> dict[str, Any]:
    """Return the `error` of an answer."""
    raw = type(error).__name__
    if isinstance(error, Unsupported | BadRequest):
        kind = raw
    elif isinstance(error, pulsar.PulsarException):
        kind = _KINDS.get(raw, "Other")
    else:
        kind = "Other"
    return {"kind": kind, "raw": raw, "message": str(error)}
