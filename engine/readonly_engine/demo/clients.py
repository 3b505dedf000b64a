"""The stock clients of the demo: a program of its own that needs the Python client of Apache Pulsar, also in a pod.

    clients.py delete   ADMIN_URL TOPIC
    clients.py prepare  ADMIN_URL TOPIC PARTITIONS SUBSCRIPTION...
    clients.py produce  SERVICE_URL TOPIC COUNT [MESSAGES_PER_SECOND]
    clients.py consume  SERVICE_URL TOPIC SUBSCRIPTION TYPE CONSUMERS COUNT

Each prints progress to standard error, and one line of JSON as its result. The variable PULSAR_READONLY_DEMO_TOKEN_FILE names a
file with the clients' token.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import urllib.error
import urllib.request
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

TOKEN_FILE = "PULSAR_READONLY_DEMO_TOKEN_FILE"  # noqa: S105 - the name of a variable
SUBSCRIBED = "has subscribed"
RECEIVE_MS = 500
TICK_S = 0.02
DEADLINE_S = 120.0
DELETE_S = 10.0
LINGER_S = 2.0
"""Time to wait for duplicates after the last expected message."""


def print_progress(text: str) -> None:
    """Print progress."""
    print(text, file=sys.stderr, flush=True)


def read_token(file: str | None) -> str:
    """Return the token in a file; empty without one."""
    if not file:
        return ""
    with open(file, encoding="utf-8") as opened:  # noqa: PTH123 - the program is also a text in a ConfigMap
        return opened.read().strip()


def connect(url: str) -> Any:
    """Return a stock client."""
    import pulsar  # noqa: PLC0415 - not every user of this module has it

    token = read_token(os.environ.get(TOKEN_FILE))
    login = {"authentication": pulsar.AuthenticationToken(token)} if token else {}
    return pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Error), **login)


def request(method: str, url: str, body: str | None = None) -> None:
    """Send a request to the admin API. An object that exists already, or is deleted already, is no error."""
    headers = {"Content-Type": "application/json"}
    if token := read_token(os.environ.get(TOKEN_FILE)):
        headers["Authorization"] = f"Bearer {token}"
    call = urllib.request.Request(  # noqa: S310 - the demo's own cluster
        url, method=method, data=None if body is None else body.encode(), headers=headers
    )
    try:
        urllib.request.urlopen(call, timeout=30).close()  # noqa: S310
    except urllib.error.HTTPError as error:
        if error.code == 307:  # to the owner; urllib follows it for GET only
            request(method, error.headers["Location"], body)
        elif error.code not in {404, 409}:
            raise


def topic_path(admin: str, topic: str) -> str:
    """Return the URL of a topic in the admin API."""
    return f"{admin}/admin/v2/{topic.replace('://', '/')}"


def delete(admin: str, topic: str) -> dict[str, Any]:
    """Delete the topic with its subscriptions, also partitions that a client has created again meanwhile."""
    deadline = time.monotonic() + DELETE_S
    while True:
        request("DELETE", f"{topic_path(admin, topic)}/partitions?force=true")
        left = [one for one in topics(admin, topic) if one.startswith(f"{topic}-partition-")]
        if not left:
            return {"topic": topic}
        if time.monotonic() > deadline:
            raise SystemExit(f"left: {', '.join(left)}")
        for one in left:
            request("DELETE", f"{topic_path(admin, one)}?force=true")
        time.sleep(TICK_S)


def topics(admin: str, topic: str) -> list[str]:
    """Return the topics of a topic's namespace; none where the admin API does not tell."""
    headers = {"Authorization": f"Bearer {token}"} if (token := read_token(os.environ.get(TOKEN_FILE))) else {}
    call = urllib.request.Request(topic_path(admin, topic).rpartition("/")[0], headers=headers)  # noqa: S310
    try:
        with urllib.request.urlopen(call, timeout=30) as answer:  # noqa: S310
            return list(json.load(answer))
    except urllib.error.HTTPError:
        return []


def prepare(admin: str, topic: str, partitions: str, *subscriptions: str) -> dict[str, Any]:
    """Create the topic, with subscriptions at its start."""
    path = topic_path(admin, topic)
    request("PUT", f"{path}/partitions", partitions)
    earliest = json.dumps({"ledgerId": -1, "entryId": -1})
    for subscription in subscriptions:
        request("PUT", f"{path}/subscription/{subscription}", earliest)
    return {"topic": topic, "partitions": int(partitions)}


def produce(url: str, topic: str, count: str, rate: str = "0") -> dict[str, Any]:
    """Publish the numbers below a count, with keys, and wait for every receipt; a rate of 0 is unlimited."""
    import pulsar  # noqa: PLC0415

    client = connect(url)
    producer = client.create_producer(topic, block_if_queue_full=True)
    results = {"ok": 0, "failed": 0}

    def sent(result: Any, _message_id: Any) -> None:
        results["ok" if result == pulsar.Result.Ok else "failed"] += 1

    begin = time.monotonic()
    for number in range(int(count)):
        while float(rate) and number > (time.monotonic() - begin) * float(rate):
            time.sleep(TICK_S)
        producer.send_async(b"%d" % number, sent, partition_key=f"customer-{number % 97}")
        if number % 2500 == 0:
            print_progress(f"produced {number}")
    producer.flush()
    client.close()
    return {"produced": results["ok"], "failed": results["failed"]}


def number_of(body: bytes) -> int | None:
    """Return the number in a message; None for a message of somebody else, as anyone may publish to a demo that is kept."""
    return int(body) if body.isdigit() else None


class Consumers:
    """Consumers of one subscription that stop together when everything has arrived."""

    def __init__(self, count: int) -> None:
        self.received: list[list[int]] = []
        self.acked = 0
        self.longest_pause_s = 0.0
        """Longest time between two messages of one partition."""
        self._count = count
        self._numbers: set[int] = set()
        self._lock = threading.Lock()
        self._last = self._connected_since = time.monotonic()
        self._last_of: dict[str, float] = {}

    def run(self, consumer: Any, mine: list[int], timeout: type[Exception]) -> None:
        """Receive and ack messages. The end of the demo checks that the owner has the acks."""
        while not self.done():
            try:
                message = consumer.receive(RECEIVE_MS)
            except timeout:
                if not consumer.is_connected():  # what its broker had sent without passing the acks on comes again
                    self._connected_since = time.monotonic()
                continue
            consumer.acknowledge(message)
            if (number := number_of(message.data())) is None:
                continue
            mine.append(number)
            with self._lock:
                self.acked += 1
                self._numbers.add(number)
                self._last = now = time.monotonic()
                pause = now - self._last_of.get(message.topic_name(), now)
                self.longest_pause_s = max(self.longest_pause_s, pause)
                self._last_of[message.topic_name()] = now
                if len(self._numbers) % 2500 == 0:
                    print_progress(f"received {len(self._numbers)}")

    def done(self) -> bool:
        """Return whether all messages arrived, and no further one for LINGER_S with connections, or none for DEADLINE_S."""
        now = time.monotonic()
        if now - self._last > DEADLINE_S:
            return True
        return len(self._numbers) >= self._count and now - max(self._last, self._connected_since) > LINGER_S


def consume(url: str, topic: str, subscription: str, kind: str, consumers: str, count: str) -> dict[str, Any]:
    """Receive and ack all numbers with several consumers, each on a client of its own."""
    import pulsar  # noqa: PLC0415

    group = Consumers(int(count))
    clients, threads = [], []
    for index in range(int(consumers)):
        client = connect(url)
        consumer = client.subscribe(
            topic,
            subscription,
            consumer_type=getattr(pulsar.ConsumerType, kind),
            consumer_name=f"{subscription}-{index}",
            receiver_queue_size=100,
        )
        clients.append(client)
        group.received.append([])
        threads.append(threading.Thread(target=group.run, args=(consumer, group.received[-1], pulsar.Timeout)))
        print_progress(f"{subscription}-{index} {SUBSCRIBED}")
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in clients:
        client.close()
    return {
        "subscription": subscription,
        "type": kind,
        "received": group.received,
        "acked": group.acked,
        "longest_pause_s": group.longest_pause_s,
    }


if __name__ == "__main__":
    parts: dict[str, Callable[..., dict[str, Any]]] = {
        "delete": delete,
        "prepare": prepare,
        "produce": produce,
        "consume": consume,
    }
    print(json.dumps(parts[sys.argv[1]](*sys.argv[2:])), flush=True)
