"""Conversion of the protocol's options to arguments of the client."""

from __future__ import annotations

import base64
import re
from datetime import timedelta
from typing import Any

import pulsar
from errors import BadRequest, Unsupported

TYPES = {
    "exclusive": pulsar.ConsumerType.Exclusive,
    "shared": pulsar.ConsumerType.Shared,
    "failover": pulsar.ConsumerType.Failover,
    "key_shared": pulsar.ConsumerType.KeyShared,
}
_COMPRESSION = {
    "none": pulsar.CompressionType.NONE,
    "lz4": pulsar.CompressionType.LZ4,
    "zlib": pulsar.CompressionType.ZLib,
    "zstd": pulsar.CompressionType.ZSTD,
    "snappy": pulsar.CompressionType.SNAPPY,
}
_ROUTING = {
    "round_robin": pulsar.PartitionsRoutingMode.RoundRobinDistribution,
    "single": pulsar.PartitionsRoutingMode.UseSinglePartition,
}
_FAILURE = {"fail": "FAIL", "discard": "DISCARD", "consume": "CONSUME"}
_MAX_BATCH_BYTES = 1 << 20


class Fields:
    """The fields of a request. This client does not offer those that are left at the end."""

    def __init__(self, request: dict[str, Any]) -> None:
        self._rest = {
            name: value for name, value in request.items() if value is not None and name not in {"request", "op"}
        }

    def take(self, name: str, default: Any = None) -> Any:
        """Take a field; return its value, or the default."""
        return self._rest.pop(name, default)

    def need(self, name: str) -> Any:
        """Take a required field."""
        if name not in self._rest:
            raise BadRequest(f"{name} is missing")
        return self._rest.pop(name)

    def only_default(self, name: str, default: Any) -> None:
        """Take a field for which this client supports the default only."""
        if self._rest.pop(name, default) != default:
            raise Unsupported(f"no option for {name}")

    def end(self) -> None:
        """Raise Unsupported if any field is left."""
        if self._rest:
            raise Unsupported(f"no option for {', '.join(sorted(self._rest))}")


def client_arguments(fields: Fields) -> dict[str, Any]:
    """Return the arguments of `Client`."""
    arguments: dict[str, Any] = {
        "service_url": fields.need("url"),
        "operation_timeout_seconds": max(1, fields.take("operation_timeout_ms", 30_000) // 1000),
        "listener_name": fields.take("listener_name"),
        "tls_trust_certs_file_path": fields.take("tls_ca"),
    }
    auth = fields.take("auth")
    if auth is not None and auth["type"] == "token":
        arguments["authentication"] = pulsar.AuthenticationToken(auth["token"])
    elif auth is not None:
        arguments["authentication"] = pulsar.AuthenticationBasic(auth["user"], auth["password"])
    fields.only_default("transactions", False)
    fields.end()
    return {name: value for name, value in arguments.items() if value is not None}


def producer_arguments(fields: Fields, schema: Any) -> dict[str, Any]:
    """Return the arguments of `create_producer` without the topic."""
    arguments: dict[str, Any] = {
        "schema": schema,
        "producer_name": fields.take("name"),
        "compression_type": _COMPRESSION[fields.take("compression", "none")],
        "message_routing_mode": _ROUTING[fields.take("routing", "round_robin")],
        "initial_sequence_id": fields.take("initial_sequence_id"),
        "chunking_enabled": fields.take("chunking", False),
        "send_timeout_millis": fields.take("send_timeout_ms", 30_000),
        "properties": fields.take("properties"),
        "max_pending_messages": fields.take("queue", 1000),
        "block_if_queue_full": True,
    }
    access = fields.take("access", "shared")
    if access != "shared":
        name = {"exclusive": "Exclusive", "wait": "WaitForExclusive", "fencing": "ExclusiveWithFencing"}[access]
        arguments["access_mode"] = getattr(pulsar.ProducerAccessMode, name)
    batching = fields.take("batching")
    if batching is not None:
        arguments |= {
            "batching_enabled": True,
            "batching_max_messages": batching["max_messages"],
            "batching_max_publish_delay_ms": batching["max_delay_ms"],
            "batching_max_allowed_size_in_bytes": _MAX_BATCH_BYTES,
        }
        if batching.get("key_based"):
            arguments["batching_type"] = pulsar.BatchingType.KeyBased
    encrypt = fields.take("encrypt")
    if encrypt is not None:
        arguments["encryption_key"] = encrypt["key"]
        arguments["crypto_key_reader"] = pulsar.CryptoKeyReader(encrypt["public"], encrypt["private"])
    fields.only_default("chunk_max_size", 0)
    fields.end()
    return {name: value for name, value in arguments.items() if value is not None}


def message_arguments(fields: Fields) -> dict[str, Any]:
    """Return the arguments of `send` without the content."""
    ordering_key = fields.take("ordering_key")
    after = fields.take("deliver_after_ms")
    arguments = {
        "partition_key": fields.take("key"),
        "ordering_key": base64.b64decode(ordering_key).decode() if ordering_key else None,
        "properties": fields.take("properties"),
        "event_timestamp": fields.take("event_time"),
        "sequence_id": fields.take("sequence_id"),
        "deliver_after": None if after is None else timedelta(milliseconds=after),
        "deliver_at": fields.take("deliver_at"),
    }
    if fields.take("txn") is not None:
        raise Unsupported("no transactions")
    if fields.take("null", False):
        raise Unsupported("no null values")
    fields.end()
    return {name: value for name, value in arguments.items() if value is not None}


def consumer_arguments(fields: Fields, schema: Any) -> dict[str, Any]:
    """Return the arguments of `subscribe` without subscription and listener."""
    arguments: dict[str, Any] = {
        "topic": _topic(fields),
        "schema": schema,
        "consumer_type": TYPES[fields.take("type", "exclusive")],
        "receiver_queue_size": fields.take("queue", 1000),
        "consumer_name": fields.take("name"),
        "negative_ack_redelivery_delay_ms": fields.take("nack_delay_ms", 200),
        "is_read_compacted": fields.take("read_compacted", False),
        "properties": fields.take("properties"),
        "pattern_auto_discovery_period": max(1, fields.take("discovery_ms", 60_000) // 1000),
        "initial_position": pulsar.InitialPosition.Earliest
        if fields.take("initial", "latest") == "earliest"
        else pulsar.InitialPosition.Latest,
        "replicate_subscription_state_enabled": fields.take("replicated", False),
        "max_pending_chunked_message": fields.take("max_pending_chunked", 10),
        "start_message_id_inclusive": fields.take("start_inclusive", False),
        "unacked_messages_timeout_ms": fields.take("ack_timeout_ms", 0) or None,
        "batch_index_ack_enabled": fields.take("batch_index_ack", False),
    }
    policy = fields.take("batch_receive")
    if policy is not None:
        arguments["batch_receive_policy"] = pulsar.ConsumerBatchReceivePolicy(
            policy["max_messages"], policy["max_bytes"], policy["timeout_ms"]
        )
    domain = fields.take("pattern_domain")
    if domain is not None:
        mode = {"persistent": "PersistentOnly", "non_persistent": "NonPersistentOnly", "all": "AllTopics"}[domain]
        arguments["regex_subscription_mode"] = getattr(pulsar.RegexSubscriptionMode, mode)
    arguments |= _key_shared(fields) | _dead_letter(fields) | _decrypt(fields)
    fields.take("ack_group_ms")  # no such option: fixed to 100 ms
    for name, default in (
        ("priority", 0),
        ("retry", False),
        ("ack_receipt", False),
        ("durable", True),
        ("events", False),
    ):
        fields.only_default(name, default)
    fields.end()
    return {name: value for name, value in arguments.items() if value is not None}


def reader_arguments(fields: Fields, schema: Any) -> dict[str, Any]:
    """Return the arguments of `create_reader` without start and listener."""
    arguments: dict[str, Any] = {
        "topic": fields.need("topic"),
        "schema": schema,
        "receiver_queue_size": fields.take("queue", 1000),
        "reader_name": fields.take("name"),
        "is_read_compacted": fields.take("read_compacted", False),
        "start_message_id_inclusive": fields.take("inclusive", False),
    }
    arguments |= _decrypt(fields)
    fields.end()
    return {name: value for name, value in arguments.items() if value is not None}


def _topic(fields: Fields) -> Any:
    topic, topics, pattern = (fields.take(name) for name in ("topic", "topics", "pattern"))
    if pattern is not None:
        return re.compile(pattern)
    if topic is None and topics is None:
        raise BadRequest("topic, topics or pattern is missing")
    return topic or topics


def _key_shared(fields: Fields) -> dict[str, Any]:
    policy = fields.take("key_shared")
    if policy is None:
        return {}
    sticky = policy["mode"] == "sticky"
    return {
        "key_shared_policy": pulsar.ConsumerKeySharedPolicy(
            pulsar.KeySharedMode.Sticky if sticky else pulsar.KeySharedMode.AutoSplit,
            policy.get("allow_out_of_order", False),
            [tuple(pair) for pair in policy["ranges"]] if sticky else None,
        )
    }


def _dead_letter(fields: Fields) -> dict[str, Any]:
    policy = fields.take("dead_letter")
    if policy is None:
        return {}
    if policy.get("retry_topic"):
        raise Unsupported("no retry letter topic")
    return {
        "dead_letter_policy": pulsar.ConsumerDeadLetterPolicy(
            policy["max_redeliver"], policy.get("topic"), policy.get("initial_subscription")
        )
    }


def _decrypt(fields: Fields) -> dict[str, Any]:
    keys = fields.take("decrypt")
    if keys is None:
        return {}
    arguments: dict[str, Any] = {}
    if keys.get("private"):
        arguments["crypto_key_reader"] = pulsar.CryptoKeyReader(keys["public"], keys["private"])
    if keys.get("failure", "fail") != "fail":
        if not hasattr(pulsar, "ConsumerCryptoFailureAction"):
            raise Unsupported("no option for messages that cannot be decrypted")
        arguments["crypto_failure_action"] = getattr(pulsar.ConsumerCryptoFailureAction, _FAILURE[keys["failure"]])
    return arguments
