"""The driver of the Python client: a request and its answer are one line of JSON each (PROTOCOL.md)."""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import time
from typing import Any

import options
import pulsar
from errors import BadRequest, Unsupported, describe
from options import Fields
from values import EDGES, STORED, Values, id_text, message_json, parse_id, read_back

Answer = dict[str, Any]

_NEVER_S = 3600.0


class Held:
    """The object of a handle, with its received messages.

    Attributes:
        thing: the object of the client's API.
        values: conversion of its values.
        received: last message with each id, by the id's text.
        heard: messages of a listener.
        unbuffered: a consumer with a receiver queue of 0, whose `receive` takes no timeout.
    """

    def __init__(self, thing: Any, values: Values | None = None, *, listener: bool = False) -> None:
        self.thing = thing
        self.values = values or Values.of("bytes")
        self.received: dict[str, Any] = {}
        self.heard: queue.Queue[Any] | None = queue.Queue() if listener else None
        self.unbuffered = False

    def receive(self, timeout_ms: int) -> Any:
        """Return the next message; raise Timeout if none arrives."""
        if self.heard is not None:
            try:
                message = self.heard.get(timeout=timeout_ms / 1000)
            except queue.Empty:
                raise pulsar.Timeout("no message") from None
        elif self.unbuffered:
            message = self.thing.receive()
        elif isinstance(self.thing, pulsar.Reader):
            message = self.thing.read_next(timeout_ms)
        else:
            message = self.thing.receive(timeout_ms)
        self.received[id_text(message.message_id())] = message
        return message


class Driver:
    """The objects that requests have created."""

    def __init__(self) -> None:
        self._held: dict[str, Held] = {}
        self._ids: dict[str, Any] = {}

    def do(self, request: dict[str, Any]) -> Answer:
        """Execute a request; return the `ok` of its answer."""
        operation = getattr(self, "op_" + request["op"], None)
        if operation is None:
            raise Unsupported(f"no {request['op']}")
        return operation(Fields(request)) or {}

    def op_hello(self, fields: Fields) -> Answer:
        return {"client": "python", "version": pulsar.__version__}

    # -- clients and handles-------------------------------------------------------------------------------------------------

    def op_client(self, fields: Fields) -> None:
        name = fields.need("as")
        logger = pulsar.FileLogger(pulsar.LoggerLevel.Warn, os.environ["COMPAT_CLIENT_LOG"])
        self._held[name] = Held(pulsar.Client(**options.client_arguments(fields), logger=logger))

    def op_partitions(self, fields: Fields) -> Answer:
        return {"topics": list(self._on(fields).thing.get_topic_partitions(fields.need("topic")))}

    def op_producer(self, fields: Fields) -> Answer:
        name, client, topic = fields.need("as"), self._client(fields), fields.need("topic")
        values = Values.of(fields.take("schema"))
        producer = client.create_producer(topic, **options.producer_arguments(fields, values.schema))
        self._held[name] = Held(producer, values)
        return {"name": producer.producer_name(), "last_sequence_id": producer.last_sequence_id()}

    def op_consumer(self, fields: Fields) -> None:
        name, client, subscription = fields.need("as"), self._client(fields), fields.need("subscription")
        values = Values.of(fields.take("schema"))
        listener = fields.take("listener", False)
        held = Held(None, values, listener=listener)
        arguments = options.consumer_arguments(fields, values.schema)
        if held.heard is not None:
            heard = held.heard
            arguments["message_listener"] = lambda _, message: heard.put(message)
        held.unbuffered = arguments["receiver_queue_size"] == 0
        held.thing = client.subscribe(subscription_name=subscription, **arguments)
        self._held[name] = held

    def op_reader(self, fields: Fields) -> None:
        name, client, start = fields.need("as"), self._client(fields), fields.need("start")
        if not isinstance(start, str):
            raise Unsupported("a reader cannot start at a time")
        values = Values.of(fields.take("schema"))
        held = Held(None, values, listener=fields.take("listener", False))
        subscription = fields.take("subscription")
        if subscription is not None:
            raise Unsupported("no option for subscription")
        arguments = options.reader_arguments(fields, values.schema)
        if held.heard is not None:
            heard = held.heard
            arguments["reader_listener"] = lambda _, message: heard.put(message)
        held.thing = client.create_reader(start_message_id=self._id(start), **arguments)
        self._held[name] = held

    def op_table_view(self, fields: Fields) -> None:
        name, client, topic = fields.need("as"), self._client(fields), fields.need("topic")
        if not hasattr(client, "create_table_view"):
            raise Unsupported("no table view")
        values = Values.of(fields.take("schema", "string"))
        fields.end()
        self._held[name] = Held(client.create_table_view(topic, schema=values.schema), values)

    def op_txn(self, fields: Fields) -> None:
        raise Unsupported("no transactions")

    def op_close(self, fields: Fields) -> None:
        self._on(fields).thing.close()

    # -- producers ---------------------------------------------------------------------------------------------------------

    def op_send(self, fields: Fields) -> Answer:
        held = self._on(fields)
        content = self._content(held, fields)
        return {"id": self._tell(held.thing.send(content, **options.message_arguments(fields)))}

    def op_send_many(self, fields: Fields) -> Answer:
        held = self._on(fields)
        messages = [Fields(message) for message in fields.need("messages")]
        sends = [(self._content(held, message), options.message_arguments(message)) for message in messages]
        results: list[tuple[pulsar.Result, Any]] = [(pulsar.Result.UnknownError, None)] * len(sends)
        done = threading.Semaphore(0)

        def note(index: int, result: Any, message_id: Any) -> None:
            results[index] = (result, message_id)
            done.release()

        for index, (content, arguments) in enumerate(sends):
            held.thing.send_async(content, lambda r, m, index=index: note(index, r, m), **arguments)
        held.thing.flush()
        for _ in sends:
            if not done.acquire(timeout=_NEVER_S):
                raise pulsar.Timeout("no receipt")
        for result, _ in results:
            if result != pulsar.Result.Ok:
                raise getattr(pulsar, result.name, pulsar.PulsarException)(result)
        return {"ids": [self._tell(message_id) for _, message_id in results]}

    def op_last_sequence_id(self, fields: Fields) -> Answer:
        return {"last_sequence_id": self._on(fields).thing.last_sequence_id()}

    def op_connected(self, fields: Fields) -> Answer:
        return {"connected": self._on(fields).thing.is_connected()}

    # -- consumers and readers ---------------------------------------------------------------------------------------------

    def op_receive(self, fields: Fields) -> Answer:
        held = self._on(fields)
        return message_json(held.receive(fields.take("timeout_ms", 10_000)), held.values)

    def op_receive_many(self, fields: Fields) -> Answer:
        held, count, timeout_ms = self._on(fields), fields.need("count"), fields.take("timeout_ms", 10_000)
        ack = fields.take("ack", False)
        messages: list[Answer] = []
        while len(messages) < count:
            try:
                message = held.receive(timeout_ms)
            except pulsar.Timeout:
                break
            messages.append(message_json(message, held.values))
            if ack:
                held.thing.acknowledge(message)
        return {"messages": messages}

    def op_batch_receive(self, fields: Fields) -> Answer:
        held = self._on(fields)
        messages = list(held.thing.batch_receive())
        for message in messages:
            held.received[id_text(message.message_id())] = message
        return {"messages": [message_json(message, held.values) for message in messages]}

    def op_ack(self, fields: Fields) -> None:
        held = self._on(fields)
        self._no_transaction(fields)
        held.thing.acknowledge(self._message(held, fields.need("id")))

    def op_ack_cumulative(self, fields: Fields) -> None:
        held = self._on(fields)
        self._no_transaction(fields)
        held.thing.acknowledge_cumulative(self._message(held, fields.need("id")))

    def op_nack(self, fields: Fields) -> None:
        held = self._on(fields)
        held.thing.negative_acknowledge(self._message(held, fields.need("id")))

    def op_redeliver(self, fields: Fields) -> None:
        self._on(fields).thing.redeliver_unacknowledged_messages()

    def op_seek(self, fields: Fields) -> None:
        held, to = self._on(fields), fields.need("to")
        if isinstance(to, dict):
            held.thing.seek(to["time"])
        else:
            held.thing.seek(_id_of(self._message(held, to)))

    def op_unsubscribe(self, fields: Fields) -> None:
        held = self._on(fields)
        fields.only_default("force", False)
        held.thing.unsubscribe()

    def op_last_message_id(self, fields: Fields) -> Answer:
        held = self._on(fields)
        if not hasattr(held.thing, "get_last_message_id"):
            raise Unsupported("no last message id of a reader")
        message_id = held.thing.get_last_message_id()
        return {"ids": [{"topic": held.thing.topic(), "id": self._tell(message_id)}]}

    def op_has_next(self, fields: Fields) -> Answer:
        return {"has": self._on(fields).thing.has_message_available()}

    def op_pause(self, fields: Fields) -> None:
        held = self._on(fields)
        if held.heard is None:
            raise Unsupported("only listeners pause")
        held.thing.pause_message_listener()

    def op_resume(self, fields: Fields) -> None:
        self._on(fields).thing.resume_message_listener()

    # -- table views -------------------------------------------------------------------------------------------------------

    def op_table(self, fields: Fields) -> Answer:
        held = self._on(fields)
        entries: dict[str, Any] = {}
        held.thing.for_each(lambda key, value: entries.__setitem__(key, held.values.value(value)))
        return {"entries": entries}

    def op_table_get(self, fields: Fields) -> Answer:
        held = self._on(fields)
        value = held.thing.get(fields.need("key"))
        return {"value": None if value is None else held.values.value(value)}

    # -- handles -----------------------------------------------------------------------------------------------------------

    def _on(self, fields: Fields) -> Held:
        name = fields.need("on")
        if name not in self._held:
            raise BadRequest(f"{name}: no such handle")
        return self._held[name]

    def _client(self, fields: Fields) -> Any:
        name = fields.need("client")
        if name not in self._held:
            raise BadRequest(f"{name}: no such client")
        return self._held[name].thing

    def _content(self, held: Held, fields: Fields) -> Any:
        value = fields.take("value")
        return b"" if value is None else held.values.content(value)

    def _tell(self, message_id: Any) -> str:
        text = id_text(message_id)
        self._ids[text] = message_id
        return text

    def _id(self, text: str) -> Any:
        if text.startswith(STORED):
            return read_back(self._id(text.removeprefix(STORED)))
        if text in EDGES:
            return EDGES[text]
        return self._ids.get(text) or parse_id(text)

    def _message(self, held: Held, text: str) -> Any:
        if text.startswith(STORED):
            return read_back(_id_of(self._message(held, text.removeprefix(STORED))))
        return held.received.get(text) or self._id(text)

    @staticmethod
    def _no_transaction(fields: Fields) -> None:
        if fields.take("txn") is not None:
            raise Unsupported("no transactions")


def _id_of(message: Any) -> Any:
    """Return the id of a message; an id is its own."""
    return message.message_id() if hasattr(message, "message_id") else message


def main() -> None:
    """Serve requests until the end of standard input."""
    driver, lock = Driver(), threading.Lock()

    def serve(request: dict[str, Any]) -> None:
        try:
            answer: dict[str, Any] = {"ok": driver.do(request)}
        except Exception as error:  # noqa: BLE001 - the answer reports any error
            answer = {"error": describe(error)}
        line = json.dumps({"request": request["request"], **answer})
        with lock:
            sys.stdout.write(line + "\n")
            sys.stdout.flush()

    for line in sys.stdin:
        threading.Thread(target=serve, args=(json.loads(line),), daemon=True).start()
    time.sleep(0)
    os._exit(0)


if __name__ == "__main__":
    main()
