"""Conversion of messages, ids and schemas between the protocol's JSON and the client's objects."""

from __future__ import annotations

import base64
import dataclasses
from typing import Any

import pulsar
from errors import BadRequest, Unsupported
from pulsar import schema as schemas

_FIELDS = {"int": schemas.Integer, "long": schemas.Long, "string": schemas.String, "boolean": schemas.Boolean}

EDGES = {"earliest": pulsar.MessageId.earliest, "latest": pulsar.MessageId.latest}
STORED = "stored/"


@dataclasses.dataclass(frozen=True)
class Values:
    """Conversion of the values of one topic.

    Attributes:
        schema: schema for the client.
        kind: bytes, string, json or avro.
        record: the class of a json schema's values.
    """

    schema: Any
    kind: str
    record: Any = None

    @classmethod
    def of(cls, spec: Any) -> Values:
        """Return the conversion for a schema of the protocol."""
        if spec in (None, "bytes"):
            return cls(schemas.BytesSchema(), "bytes")
        if spec == "string":
            return cls(schemas.StringSchema(), "string")
        if not isinstance(spec, dict):
            raise Unsupported(f"schema {spec}")
        if spec["type"] == "avro":
            return cls(schemas.AvroSchema(None, schema_definition=spec["definition"]), "avro")
        record = _record(spec["definition"])
        return cls(schemas.JsonSchema(record), "json", record)

    def content(self, value: Any) -> Any:
        """Return the argument of `send` for a value."""
        if self.kind == "bytes":
            return base64.b64decode(value)
        return self.record(**value) if self.kind == "json" else value

    def value(self, content: Any) -> Any:
        """Return a received value as in the protocol."""
        if self.kind == "bytes":
            return base64.b64encode(content).decode()
        if self.kind == "json":
            return {name: getattr(content, name) for name in self.record._fields}
        return content


def _record(definition: dict[str, Any]) -> Any:
    fields: dict[str, Any] = {}
    for field in definition["fields"]:
        kinds = [field["type"]] if isinstance(field["type"], str) else field["type"]
        kind = _FIELDS[next(kind for kind in kinds if kind != "null")]
        fields[field["name"]] = kind(required="null" not in kinds, default=field.get("default"))
    return type(definition["name"], (schemas.Record,), fields)


def id_text(message_id: Any) -> str:
    """Return the text of a message id in the protocol."""
    numbers = (message_id.ledger_id(), message_id.entry_id(), message_id.partition(), message_id.batch_index())
    return ":".join(str(number) for number in numbers)


def parse_id(text: str) -> Any:
    """Return the id of a text."""
    if text in EDGES:
        return EDGES[text]
    try:
        ledger, entry, partition, batch_index = (int(word) for word in text.split(":"))
    except ValueError:
        raise BadRequest(f"{text}: invalid message id") from None
    return pulsar.MessageId(partition, ledger, entry, batch_index)


def read_back(message_id: Any) -> Any:
    """Return an id as it is after it was stored as bytes."""
    return pulsar.MessageId.deserialize(message_id.serialize())


def message_json(message: Any, values: Values) -> dict[str, Any]:
    """Return a received message as in an answer."""
    encryption = message.encryption_context() if hasattr(message, "encryption_context") else None
    encrypted = encryption is not None and encryption.is_decryption_failed()
    data = message.data()
    if hasattr(message, "has_null_value") and message.has_null_value():
        value = None
    elif encrypted:
        value = base64.b64encode(data).decode()
    else:
        value = values.value(data if values.kind == "bytes" else message.value())
    version = message.schema_version()
    ordering_key = message.ordering_key() if hasattr(message, "ordering_key") else ""
    return {
        "id": id_text(message.message_id()),
        "topic": message.topic_name(),
        "value": value,
        "key": message.partition_key() or None,
        "ordering_key": base64.b64encode(ordering_key.encode()).decode() if ordering_key else None,
        "properties": dict(message.properties()),
        "event_time": message.event_timestamp(),
        "publish_time": message.publish_timestamp(),
        "redelivery_count": message.redelivery_count(),
        "schema_version": base64.b64encode(
            version if isinstance(version, bytes) else version.encode("latin-1")
        ).decode()
        if version
        else None,
        "encrypted": encrypted,
        **({"producer": message.producer_name()} if hasattr(message, "producer_name") else {}),
    }
