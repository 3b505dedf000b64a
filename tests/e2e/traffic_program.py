"""Steady traffic from stock clients; runs in a pod, with nothing but the Python client of Apache Pulsar.

    traffic_program.py PLAN

PLAN is JSON: {"writer": URL, "pool": URL, "admin": URL, "rate": messages a second and topic,
"topics": {full name: partitions, 0 for none}, "consumers": [{"name", "topic", "subscription", "type"}],
"localCursors": whether the pool has the cursors, "others": whether others consume from the same subscriptions}; the type Reader
makes a reader. Each message holds its number in the topic, and one of ten keys. What the clients log goes to standard output.
Answers on port 8080 once everybody has subscribed:

    /progress   what has been published and received so far
    /finish     publishes no more, waits until everything has arrived and is acked, and tells all that was seen
"""

import json
import socket
import sys
import threading
import time
import urllib.error
import urllib.request
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

KEYS = 10
PORT = 8080
RECEIVE_MS = 200
TRY_S = 10
PATIENCE_S = 80.0
"""How long to try to subscribe: the C++ client does not always try again after an error that passes."""

ARRIVAL_S = 60.0
QUIET_S = 2.0
"""How long to look for duplicates after everything has arrived."""

BEGAN = time.time()


def now() -> int:
    """Milliseconds since the program began."""
    return round((time.time() - BEGAN) * 1000)


def admin(method: str, url: str, body: str | None = None) -> Any:
    """Ask the admin API; what is there already is as good as made."""
    call = urllib.request.Request(
        url, method=method, data=None if body is None else body.encode(), headers={"Content-Type": "application/json"}
    )
    try:
        with urllib.request.urlopen(call, timeout=30) as answer:
            return json.loads(answer.read() or b"null")
    except urllib.error.HTTPError as error:
        if error.code == 307:  # to the owner; urllib follows it for GET only
            return admin(method, error.headers["Location"], body)
        if error.code == 409:
            return None
        raise


class Publisher:
    """Publishes to one topic at a steady pace until it is stopped.

    Args:
        client: of the source cluster.
        topic: full name.
        rate: messages a second.
    """

    def __init__(self, client: Any, topic: str, rate: float) -> None:
        self.sent: list[int] = []
        self.failed: list[str] = []
        self._unconfirmed = 0
        self._producer = client.create_producer(topic, block_if_queue_full=True, send_timeout_millis=0)
        self._rate = rate
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Publish no more, and wait for all receipts."""
        self._stop.set()
        self._thread.join()
        self._producer.flush()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._stop.wait(max(0.0, began + len(self.sent) / self._rate - time.monotonic())):
            number = len(self.sent)
            self.sent.append(now())
            self._producer.send_async(b"%d" % number, self._receipt, partition_key=f"key-{number % KEYS}")

    def _receipt(self, result: Any, _message_id: Any) -> None:
        if result.name != "Ok":
            self.failed.append(result.name)


class PoolConsumer:
    """A consumer that acks, or a reader, on a client of its own.

    Args:
        pulsar: the client library.
        url: the pool's.
        one: which, as in the plan.
    """

    def __init__(self, pulsar: Any, url: str, one: dict[str, str]) -> None:
        self.one = one
        self.got: list[tuple[int, int, int]] = []
        self._client = pulsar.Client(url, operation_timeout_seconds=TRY_S)
        self._timeout = pulsar.Timeout
        self._stop = threading.Event()
        self._source: Any
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                self._open(pulsar)
                break
            except pulsar.PulsarException:
                if time.monotonic() > deadline:
                    raise
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _open(self, pulsar: Any) -> None:
        one = self.one
        if one["type"] == "Reader":
            self._source = self._client.create_reader(
                one["topic"], pulsar.MessageId.earliest, reader_name=one["name"], receiver_queue_size=50
            )
            self._receive, self._ack = self._source.read_next, None
            return
        self._source = self._client.subscribe(
            one["topic"],
            one["subscription"],
            consumer_type=getattr(pulsar.ConsumerType, one["type"].replace("_", "")),
            consumer_name=one["name"],
            initial_position=pulsar.InitialPosition.Earliest,
            receiver_queue_size=50,
        )
        self._receive, self._ack = self._source.receive, self._source.acknowledge

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                message = self._receive(RECEIVE_MS)
            except self._timeout:
                continue
            self.got.append((int(message.data()), now(), message.redelivery_count()))
            if self._ack is not None:
                self._ack(message)

    def stop(self) -> None:
        """Receive no more, and close."""
        self._stop.set()
        self._thread.join()
        self._client.close()


class Traffic:
    """All of it.

    Args:
        plan: what there is to be.
    """

    def __init__(self, plan: dict[str, Any]) -> None:
        import pulsar  # noqa: PLC0415 - only where it is installed

        self._plan = plan
        for topic, partitions in plan["topics"].items():
            if partitions:
                admin("PUT", f"{plan['admin']}/admin/v2/{topic.replace('://', '/')}/partitions", str(partitions))
        # the library has one logger for all clients of a process: the first one's
        self._writer = pulsar.Client(plan["writer"], logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Info))
        self._receivers = [PoolConsumer(pulsar, plan["pool"], one) for one in plan["consumers"]]
        self._publishers = {topic: Publisher(self._writer, topic, plan["rate"]) for topic in plan["topics"]}

    def progress(self) -> dict[str, Any]:
        """How much has been published and received."""
        return {
            "sent": {topic: len(one.sent) for topic, one in self._publishers.items()},
            "received": {one.one["name"]: len(one.got) for one in self._receivers},
            "now": now(),
        }

    def finish(self) -> dict[str, Any]:
        """End it, and tell everything."""
        for publisher in self._publishers.values():
            publisher.stop()
        deadline = time.monotonic() + ARRIVAL_S
        while not self._plan.get("others") and not self._arrived() and time.monotonic() < deadline:
            time.sleep(0.1)
        backlogs = self._backlogs()
        while any(backlogs.values()) and time.monotonic() < deadline:
            time.sleep(0.2)
            backlogs = self._backlogs()
        time.sleep(QUIET_S)
        ended = now()
        for receiver in self._receivers:
            receiver.stop()
        self._writer.close()
        return {
            "began": BEGAN,
            "ended": ended,
            "sent": {topic: one.sent for topic, one in self._publishers.items()},
            "failed": [text for one in self._publishers.values() for text in one.failed],
            "received": {one.one["name"]: one.got for one in self._receivers},
            "backlogs": backlogs,
        }

    def _arrived(self) -> bool:
        seen: dict[tuple[str, str], set[int]] = {}
        for receiver in self._receivers:
            one = receiver.one
            seen.setdefault((one["topic"], one["subscription"]), set()).update(got[0] for got in receiver.got)
        sent = {topic: len(one.sent) for topic, one in self._publishers.items()}
        return all(len(numbers) >= sent.get(topic, 0) for (topic, _), numbers in seen.items())

    def _backlogs(self) -> dict[str, int]:
        found: dict[str, int] = {}
        if self._plan.get("localCursors"):
            return found  # the owner has none
        for topic, partitions in self._plan["topics"].items():
            path = f"{self._plan['admin']}/admin/v2/{topic.replace('://', '/')}"
            try:
                stats = admin("GET", f"{path}/{'partitioned-stats' if partitions else 'stats'}?getPreciseBacklog=true")
            except OSError as error:
                found[f"{topic}: {error}"] = 1  # its owner may just have changed: asked again
                continue
            wanted = {
                one["subscription"]
                for one in self._plan["consumers"]
                if one["topic"] == topic and one["type"] != "Reader"
            }
            for name in wanted:
                found[name] = stats["subscriptions"][name]["msgBacklog"]
        return found


class Server(ThreadingHTTPServer):
    """Serve on all addresses, IPv4 and IPv6."""

    address_family = socket.AF_INET6 if socket.has_dualstack_ipv6() else socket.AF_INET

    def server_bind(self) -> None:
        """Bind, for both families."""
        if self.address_family == socket.AF_INET6:
            self.socket.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
        super().server_bind()


def serve(traffic: Traffic) -> None:
    """Answer until the pod is deleted."""

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            answers = {"/progress": traffic.progress, "/finish": traffic.finish}
            body = json.dumps(answers[self.path]()).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    Server(("", PORT), Handler).serve_forever()


if __name__ == "__main__":
    serve(Traffic(json.loads(sys.argv[1])))
