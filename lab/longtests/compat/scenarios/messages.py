"""Contents of messages: payloads, keys, properties, compression, encryption, schemas."""

from __future__ import annotations

import hashlib
import time
from typing import TYPE_CHECKING, Any

from longtests.compat.process import UnsupportedError
from longtests.compat.registry import Theme
from longtests.compat.scenarios.common import numbers

if TYPE_CHECKING:
    from collections.abc import Callable

    from longtests.compat.session import Session

theme = Theme("Messages")
schemas = Theme("Schemas")

_BATCH = {"max_messages": 10, "max_delay_ms": 10_000}
_USER = {
    "type": "record",
    "name": "User",
    "fields": [{"name": "name", "type": "string"}, {"name": "age", "type": "int"}],
}
_USER_MORE = {**_USER, "fields": [*_USER["fields"], {"name": "mail", "type": ["null", "string"], "default": None}]}
_USER_OTHER = {**_USER, "fields": [{"name": "name", "type": "long"}, {"name": "age", "type": "string"}]}
_TOLD = ("value", "key", "ordering_key", "properties", "event_time", "sequence_id", "schema_version", "encrypted")


def _compressed(kind: str, title: str) -> Callable[[Session], Any]:
    def scenario(s: Session) -> Any:
        client, topic = s.client(), s.topic()
        values = [f"{number} {'again and ' * 200}" for number in range(20)]
        client.producer(topic, compression=kind).send_all(values[:5])
        client.producer(topic, compression=kind, batching=_BATCH).send_all(values[5:])
        got = client.consumer(topic).values(20, ack=True)
        s.equal(got, values, "received values")
        s.wait_backlog(topic, 0)
        return [value.split()[0] for value in got]

    scenario.__name__ = f"compression_{kind}"
    scenario.__doc__ = f"Compression {title}, single messages and batches."
    return theme(scenario)


for _kind, _title in (("lz4", "LZ4"), ("zlib", "ZLib"), ("zstd", "Zstandard"), ("snappy", "Snappy")):
    _compressed(_kind, _title)


@theme
def attributes(s: Session) -> Any:
    """Key, ordering key, properties, event time, sequence id, producer name, topic."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic, name=f"maker-{s.tag}", initial_sequence_id=41)
    sent = producer.send(
        "v", key="k", ordering_key="b3JkZXI=", properties={"a": "1", "b": "ä"}, event_time=1_600_000_000_000
    )
    producer.send("w")
    consumer = client.consumer(topic)
    messages = consumer.take(2)
    seen = [{name: message.raw[name] for name in _TOLD if name in message.raw} for message in messages]
    first = seen[0]
    s.equal(
        [first["key"], first["properties"], first["event_time"]], ["k", {"a": "1", "b": "ä"}, 1_600_000_000_000], "it"
    )
    s.equal([m.raw["topic"] for m in messages], [topic, topic], "its topic")
    s.equal(messages[0].id.split(":")[:2], sent.split(":")[:2], "its id")
    s.check(abs(messages[0].raw["publish_time"] - time.time() * 1000) < 600_000, "its publish time is about now")
    names = [message.raw.get("producer", "").replace(s.tag, "") for message in messages]
    return [seen, names]


@theme
def entry_metadata(s: Session) -> Any:
    """Index and broker publish time: messages and batches, backlog and tail, after nacks; four types, a reader."""
    client, topic = s.client(), s.topic()
    single, batching = client.producer(topic), client.producer(topic, batching=_BATCH)
    single.send_all(numbers(5))
    batching.send_all(numbers(10, 5))
    readers = {
        kind: client.consumer(topic, kind, type=kind) for kind in ("exclusive", "shared", "failover", "key_shared")
    }
    readers["reader"] = client.reader(topic)
    seen = {}
    for name, reader in readers.items():
        messages = reader.take(15)
        if "index" not in messages[0].raw:
            raise UnsupportedError("Unsupported", "", "index and broker publish time")
        seen[name] = messages
    single.send("15")
    batching.send_all(numbers(10, 16))
    for name, reader in readers.items():
        seen[name] += reader.take(11)
        s.equal([[m.value, m.raw["index"]] for m in seen[name]], [[n, int(n)] for n in numbers(26)], f"indexes, {name}")
        apart = [m.raw["broker_time"] - m.raw["publish_time"] for m in seen[name]]
        s.check(max(map(abs, apart)) < 600_000, f"broker publish times are about the publish times: {apart}, {name}")
    reader = client.consumer(topic, "again", type="shared")
    again: dict[int, int] = {}
    for message in reader.take(26):
        (reader.nack if int(message.value) > 3 else reader.ack)(message)

    def redelivered() -> bool:  # some perhaps twice: a client may nack the messages of a batch at several times
        again.update({int(m.value): m.raw["index"] for m in reader.take(22, timeout_ms=1_200)})
        return len(again) == 22

    s.until(redelivered, "all messages with a nack come again")
    s.equal(again, {n: n for n in range(4, 26)}, "indexes after the nacks")
    return {name: [m.raw["index"] for m in messages] for name, messages in seen.items()}


@theme
def sequence_ids(s: Session) -> Any:
    """Sequence ids set by the application."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    for sequence_id in (5, 6, 9):
        producer.send(str(sequence_id), sequence_id=sequence_id)
    last = producer.call("last_sequence_id")["last_sequence_id"]
    seen = [[message.value, message.raw.get("sequence_id")] for message in client.consumer(topic).take(3)]
    s.equal([last, [value for value, _ in seen]], [9, ["5", "6", "9"]], "last sequence id and received values")
    return [last, seen]


@theme
def batch_attributes(s: Session) -> Any:
    """Messages of a batch have their own keys, properties and ids."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic, batching=_BATCH)
    ids = producer.send_all(numbers(10), lambda value: {"key": f"k{value}", "properties": {"n": value}})
    messages = client.consumer(topic).take(10)
    seen = [[m.value, m.raw["key"], m.raw["properties"], m.id.split(":")[3]] for m in messages]
    s.equal(seen, [[n, f"k{n}", {"n": n}, n] for n in numbers(10)], "received values")
    s.equal([m.id for m in messages], ids, "ids")
    return seen


@theme
def key_based_batches(s: Session) -> Any:
    """Key-based batching, read by Key_Shared."""
    client, topic = s.client(), s.topic()
    values = [f"{number % 4}:{number}" for number in range(40)]
    producer = client.producer(topic, batching={**_BATCH, "max_messages": 100, "key_based": True})
    producer.send_all(values, lambda value: {"key": value.split(":")[0]})
    consumer = client.consumer(topic, type="key_shared")
    got = consumer.values(40, ack=True)
    by_key = {str(key): [v for v in got if v.startswith(f"{key}:")] for key in range(4)}
    s.equal(by_key, {str(key): [v for v in values if v.startswith(f"{key}:")] for key in range(4)}, "by key")
    s.wait_backlog(topic, 0)
    return by_key


@theme
def empty_payload(s: Session) -> Any:
    """An empty payload, alone and in a batch."""
    client, topic = s.client(), s.topic()
    client.producer(topic).send("")
    client.producer(topic, batching=_BATCH).send_all(["", "x", ""])
    values = client.consumer(topic).values(4, ack=True)
    s.equal([value or "" for value in values], ["", "", "x", ""], "received values")
    return values


@theme
def null_value(s: Session) -> Any:
    """A null value (a tombstone)."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic, schema="string")
    producer.send("a", key="k")
    producer.send(None, key="k", null=True)
    messages = client.consumer(topic, schema="string").take(2)
    seen = [[message.raw["key"], message.value] for message in messages]
    s.equal([key for key, _ in seen], ["k", "k"], "keys")
    s.check(not seen[1][1], "the second has a value")
    return seen


@theme
def big(s: Session) -> Any:
    """A message of 4 MB."""
    client, topic = s.client(), s.topic()
    value = "0123456789abcdef" * 262_144
    producer = client.producer(topic)
    producer.send(value[:-4096])
    producer.send("after")
    got = client.consumer(topic).values(2, ack=True)
    s.equal(
        [hashlib.sha256(v.encode()).hexdigest() for v in got[:1]],
        [hashlib.sha256(value[:-4096].encode()).hexdigest()],
        "it",
    )
    s.equal(got[1:], ["after"], "later values")
    return [len(v) for v in got]


@theme
def too_big(s: Session) -> Any:
    """A message larger than the broker allows is refused."""
    client, topic = s.client(), s.topic()
    producer = client.producer(topic)
    kind = s.refused(lambda: producer.send("0123456789abcdef" * 400_000), "MessageTooBig", "InvalidMessage")
    producer.send("small")
    value = client.consumer(topic).receive().value
    s.equal(value, "small", "the next message")
    return [kind, value]


@theme
def chunked(s: Session) -> Any:
    """A chunked message of 12 MB between others."""
    client, topic = s.client(), s.topic()
    value = "0123456789abcdef" * 786_432
    producer = client.producer(topic, chunking=True)
    producer.send("before")
    producer.send(value)
    producer.send("after")
    got = client.consumer(topic).values(3, ack=True)
    s.equal([len(v) for v in got], [6, len(value), 5], "lengths")
    s.check(got[1] == value, "the content")
    s.wait_backlog(topic, 0)
    return [len(v) for v in got]


@theme
def chunked_shared(s: Session) -> Any:
    """A chunked message on a Shared subscription, acked, then seek to it."""
    client, topic = s.client(), s.topic()
    value = "0123456789abcdef" * 786_432
    producer = client.producer(topic, chunking=True)
    producer.send(value)
    producer.send("after")
    consumer = client.consumer(topic, type="shared")
    got = consumer.take(2, ack=True)
    s.equal(sorted(len(m.value) for m in got), [5, len(value)], "lengths")
    s.wait_backlog(topic, 0)
    return sorted(len(m.value) for m in got)


def _keys(s: Session, **more: str) -> dict[str, str]:
    return {"public": f"{s.place.keys}/public.pem", "private": f"{s.place.keys}/private.pem", **more}


@theme
def encrypted(s: Session) -> Any:
    """Encrypted messages, single, compressed and in batches."""
    client, topic = s.client(), s.topic()
    encrypt = _keys(s, key="compat")
    client.producer(topic, encrypt=encrypt).send_all(numbers(3))
    client.producer(topic, encrypt=encrypt, compression="lz4", batching=_BATCH).send_all(numbers(5, 3))
    values = client.consumer(topic, decrypt=_keys(s, key="compat")).values(8, ack=True)
    s.equal(values, numbers(8), "received values")
    s.wait_backlog(topic, 0)
    return values


@theme
def encrypted_without_key(s: Session) -> Any:
    """Encrypted messages delivered undecrypted to a consumer without the key."""
    client, topic = s.client(), s.topic()
    client.producer(topic, encrypt=_keys(s, key="compat")).send("secret")
    message = client.consumer(topic, decrypt={"failure": "consume"}).receive()
    s.check(message.value != "secret", "the consumer can read it")
    return message.raw.get("encrypted")


@schemas
def schema_string(s: Session) -> Any:
    """String schema."""
    client, topic = s.client(), s.topic()
    client.producer(topic, schema="string").send_all(["a", "ü", ""])
    messages = client.consumer(topic, schema="string").take(3)
    seen = [[message.value, message.raw.get("schema_version")] for message in messages]
    s.equal([value for value, _ in seen], ["a", "ü", ""], "values")
    return seen


@schemas
def schema_json(s: Session) -> Any:
    """JSON schema, single messages and batches."""
    client, topic = s.client(), s.topic()
    schema = {"type": "json", "definition": _USER}
    users = [{"name": f"n{number}", "age": number} for number in range(6)]
    client.producer(topic, schema=schema).send_all(users[:3])
    client.producer(topic, schema=schema, batching=_BATCH).send_all(users[3:])
    messages = client.consumer(topic, schema=schema).take(6)
    seen = [[message.value, message.raw.get("schema_version")] for message in messages]
    s.equal([value for value, _ in seen], users, "values")
    return seen


@schemas
def schema_avro(s: Session) -> Any:
    """Avro schema."""
    client, topic = s.client(), s.topic()
    schema = {"type": "avro", "definition": _USER}
    users = [{"name": f"n{number}", "age": number} for number in range(6)]
    client.producer(topic, schema=schema).send_all(users)
    messages = client.consumer(topic, schema=schema).take(6)
    seen = [[message.value, message.raw.get("schema_version")] for message in messages]
    s.equal([value for value, _ in seen], users, "values")
    return seen


@schemas
def schema_evolves(s: Session) -> Any:
    """Avro schema with an added field: old and new messages, read with the new schema."""
    client, topic = s.client(), s.topic()
    old, new = ({"type": "avro", "definition": definition} for definition in (_USER, _USER_MORE))
    client.producer(topic, schema=old).send({"name": "old", "age": 1})
    client.producer(topic, schema=new).send({"name": "new", "age": 2, "mail": "m"})
    messages = client.consumer(topic, schema=new).take(2)
    seen = [[message.value["name"], message.raw.get("schema_version")] for message in messages]
    s.equal([name for name, _ in seen], ["old", "new"], "names")
    told = any("schema_version" in message.raw for message in messages)
    s.check(not told or seen[0][1] != seen[1][1], "two schema versions")
    return [seen, messages[1].value]


@schemas
def schema_auto(s: Session) -> Any:
    """Auto-consume: the consumer gets the topic's schema from the broker."""
    client, topic = s.client(), s.topic()
    client.producer(topic, schema={"type": "avro", "definition": _USER}).send({"name": "n", "age": 7})
    value = client.consumer(topic, schema="auto_consume").receive().value
    s.equal(value, {"name": "n", "age": 7}, "the value")
    return value


@schemas
def schema_incompatible_consumer(s: Session) -> Any:
    """A consumer with an incompatible schema is refused."""
    client, topic = s.client(), s.topic()
    client.producer(topic, schema={"type": "json", "definition": _USER}).close()
    return s.refused(
        lambda: client.consumer(topic, schema={"type": "json", "definition": _USER_OTHER}), "IncompatibleSchema"
    )


@schemas
def schema_incompatible_producer(s: Session) -> Any:
    """A producer with an incompatible schema is refused."""
    client, topic = s.client(), s.topic()
    client.producer(topic, schema={"type": "json", "definition": _USER}).close()
    return s.refused(
        lambda: client.producer(topic, schema={"type": "json", "definition": _USER_OTHER}), "IncompatibleSchema"
    )
