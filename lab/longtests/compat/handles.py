"""Handles for scenarios: clients, producers, consumers and readers of a driver, with Python's own values."""

from __future__ import annotations

import base64
import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from concurrent.futures import Future

    from longtests.compat.process import Driver

COMES_MS: Final = 30_000
"""Limit for an expected message on a loaded machine, in milliseconds."""

NOTHING_MS: Final = 1_200
"""Time without a message that counts as the end, in milliseconds."""

_ALL: Final = 100_000
_NAMES = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Message:
    """A received message.

    Attributes:
        id: `LEDGER:ENTRY:PARTITION:BATCH_INDEX`.
        value: text for topics of bytes, else the schema's value.
        raw: the driver's answer.
    """

    id: str
    value: Any
    raw: dict[str, Any]

    @classmethod
    def of(cls, raw: dict[str, Any], schema: Any) -> Message:
        """Return the message of a driver's answer."""
        value = raw["value"]
        if value is not None and (raw.get("encrypted") or schema in (None, "bytes")):
            value = base64.b64decode(value).decode("utf-8", "replace")
        return cls(raw["id"], value, raw)

    @property
    def redelivered(self) -> int:
        """Number of earlier deliveries."""
        return int(self.raw["redelivery_count"])


class Handle:
    """One object of a driver."""

    def __init__(self, driver: Driver, name: str) -> None:
        self.driver = driver
        self.name = name

    def call(self, op: str, **fields: Any) -> dict[str, Any]:
        """Execute an operation on it."""
        return self.driver.call(op, on=self.name, **fields)

    def begin(self, op: str, **fields: Any) -> Future[dict[str, Any]]:
        """Start an operation on it; return the future of its answer."""
        return self.driver.begin(op, on=self.name, **fields)

    def close(self) -> None:
        """Close it."""
        self.call("close")


class Producer(Handle):
    """A producer."""

    schema: Any = None
    told: dict[str, Any]

    def send(self, value: Any = None, **fields: Any) -> str:
        """Send one message; return its id."""
        return str(self.call("send", value=self.content(value), **fields)["id"])

    def send_all(self, values: Iterable[Any], fields: Callable[[Any], dict[str, Any]] | None = None) -> list[str]:
        """Send many messages together (in a batch, if the producer batches); return their ids."""
        messages = [{"value": self.content(value), **(fields(value) if fields else {})} for value in values]
        return list(self.call("send_many", messages=messages)["ids"])

    def content(self, value: Any) -> Any:
        """Return a value as in a request."""
        if value is None or self.schema not in (None, "bytes"):
            return value
        return base64.b64encode(str(value).encode()).decode()


class Consumer(Handle):
    """A consumer or a reader."""

    schema: Any = None

    def receive(self, timeout_ms: int = COMES_MS) -> Message:
        """Return the next message."""
        return Message.of(self.call("receive", timeout_ms=timeout_ms), self.schema)

    def take(self, count: int, *, ack: bool = False, timeout_ms: int = COMES_MS) -> list[Message]:
        """Return `count` messages; fewer if the next one does not arrive in time."""
        answer = self.call("receive_many", count=count, timeout_ms=timeout_ms, ack=ack)
        return [Message.of(raw, self.schema) for raw in answer["messages"]]

    def values(self, count: int, *, ack: bool = False, timeout_ms: int = COMES_MS) -> list[Any]:
        """Return the values of `count` messages, as `take` does."""
        return [message.value for message in self.take(count, ack=ack, timeout_ms=timeout_ms)]

    def rest(self, at_least: int = 0, *, ack: bool = False, timeout_ms: int = NOTHING_MS) -> list[Any]:
        """Return the values of all further messages; wait longer for the first `at_least` of them."""
        values = self.values(at_least, ack=ack) if at_least else []
        return values + self.values(_ALL, ack=ack, timeout_ms=timeout_ms)

    def ack(self, message: Message | str, **fields: Any) -> None:
        """Acknowledge a message."""
        self.call("ack", id=_id(message), **fields)

    def ack_cumulative(self, message: Message | str, **fields: Any) -> None:
        """Acknowledge a message and all before it."""
        self.call("ack_cumulative", id=_id(message), **fields)

    def nack(self, message: Message | str) -> None:
        """Send a negative ack of a message."""
        self.call("nack", id=_id(message))

    def seek(self, to: Message | str | dict[str, int]) -> None:
        """Seek to a message, the earliest or latest position, or a time."""
        self.call("seek", to=to if isinstance(to, dict) else _id(to))

    def last_id(self) -> str:
        """Return the id of the last message of one topic."""
        return str(self.call("last_message_id")["ids"][0]["id"])


class Client(Handle):
    """A client."""

    def producer(self, topic: str, **options: Any) -> Producer:
        """Create a producer."""
        producer = Producer(self.driver, f"p{next(_NAMES)}")
        producer.schema = options.get("schema")
        producer.told = self.driver.call("producer", **{"as": producer.name}, client=self.name, topic=topic, **options)
        return producer

    def consumer(self, topic: str | list[str] | None, subscription: str = "sub", **options: Any) -> Consumer:
        """Create a consumer, by default from the earliest message; without a topic, of a `pattern`."""
        consumer = Consumer(self.driver, f"c{next(_NAMES)}")
        consumer.schema = options.get("schema")
        where = {"topics": topic} if isinstance(topic, list) else {"topic": topic}
        options = {"initial": "earliest", **options}
        self.driver.call(
            "consumer", **{"as": consumer.name}, client=self.name, subscription=subscription, **where, **options
        )
        return consumer

    def reader(self, topic: str | list[str], start: Any = "earliest", **options: Any) -> Consumer:
        """Create a reader."""
        reader = Consumer(self.driver, f"r{next(_NAMES)}")
        reader.schema = options.get("schema")
        where = {"topics": topic} if isinstance(topic, list) else {"topic": topic}
        self.driver.call("reader", **{"as": reader.name}, client=self.name, start=start, **where, **options)
        return reader

    def table_view(self, topic: str) -> Handle:
        """Create a table view of a topic of strings."""
        view = Handle(self.driver, f"v{next(_NAMES)}")
        self.driver.call("table_view", **{"as": view.name}, client=self.name, topic=topic, schema="string")
        return view

    def transaction(self, timeout_ms: int = 60_000) -> Handle:
        """Start a transaction."""
        txn = Handle(self.driver, f"t{next(_NAMES)}")
        self.driver.call("txn", **{"as": txn.name}, client=self.name, timeout_ms=timeout_ms)
        return txn

    def partitions(self, topic: str) -> list[str]:
        """Return the names of a topic's partitions."""
        return list(self.call("partitions", topic=topic)["topics"])


def new_client(driver: Driver, url: str, **options: Any) -> Client:
    """Create a client of a service URL."""
    client = Client(driver, f"k{next(_NAMES)}")
    driver.call("client", **{"as": client.name}, url=url, **options)
    return client


def is_bytes(schema: Any) -> bool:
    """Return whether values of a topic are bytes, which scenarios get as text."""
    return schema is None or schema == "bytes"


def _id(message: Message | str) -> str:
    return message if isinstance(message, str) else message.id
