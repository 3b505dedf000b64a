"""Capture what a real cluster puts on its connections and into its metadata store, as the golden files of the unit tests.

    python -m longtests.golden.capture --zookeeper HOST:PORT --broker HOST:PORT --admin http://HOST:PORT

The cluster must have explicit LAC on; `python -m devstack pulsar up` starts such a one. Frames of brokers and of the stock
Python client are taken by a proxy that stands between them and changes nothing but the addresses in lookups, after it has
noted the frame. Replies of bookies are asked for with the engine's own requests.
"""

import argparse
import contextlib
import socket
import threading
import time
import urllib.request
from contextlib import closing
from pathlib import Path
from typing import Any

import pulsar
from kazoo.client import KazooClient
from readonly_engine.metadata.cluster import ledger_path
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.wire import bookie, bookie_v2
from readonly_engine.wire.commands import command_name, decode_command, encode_command
from readonly_engine.wire.entry import LAST_ENTRY
from readonly_engine.wire.framing import FrameSplitter
from readonly_engine.wire.ledgers import decode_bookie_address, decode_ledger_metadata, decode_managed_ledger
from readonly_engine.wire.pulsar_pb2 import BaseCommand, CommandAck, CommandConnect

from devstack.pulsar.admin import PulsarAdmin

FOLDER = Path(__file__).parents[3] / "tests" / "unit" / "engine" / "golden"
DEADLINE_S = 60.0
QUIET = pulsar.ConsoleLogger(pulsar.LoggerLevel.Error)


def save(name: str, what: str, data: bytes) -> None:
    """Write one golden file: comment lines, then hex."""
    digits = data.hex()
    lines = [f"# {what}", "# Made by capture.py."]
    lines += [digits[start : start + 120] for start in range(0, len(digits), 120)]
    (FOLDER / f"{name}.txt").write_text("\n".join(lines) + "\n", encoding="ascii")
    print(f"{name}: {len(data)} bytes")  # noqa: T201


def exchange(address: tuple[str, int], request: bytes, timeout: float = 20.0) -> bytes:
    """Send a frame, return the next one without its length prefix."""
    with socket.create_connection(address, timeout) as connection:
        connection.sendall(request)
        splitter = FrameSplitter()
        while True:
            data = connection.recv(65536)
            if not data:
                raise ConnectionError(f"{address} closed the connection")
            frames = splitter.receive_data(data)
            if frames:
                return frames[0]


class Proxy:
    """Listens for one target, passes frames on, and notes them by their direction and command, the first of each kind."""

    def __init__(
        self, target: tuple[str, int], notes: dict[tuple[str, str], list[bytes]], urls: dict[str, str]
    ) -> None:
        self._target = target
        self._notes = notes
        self._urls = urls
        self._server = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._server.getsockname()[1]
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            client, _ = self._server.accept()
            server = socket.create_connection(self._target)
            for side, one, other in (("client", client, server), ("broker", server, client)):
                threading.Thread(target=self._carry, args=(side, one, other), daemon=True).start()

    def _carry(self, side: str, source: socket.socket, sink: socket.socket) -> None:
        splitter = FrameSplitter()
        try:
            while data := source.recv(65536):
                for frame in splitter.receive_data(data):
                    sink.sendall(self._note(side, frame))
        except OSError:
            pass
        sink.close()

    def _note(self, side: str, frame: bytes) -> bytes:
        whole = len(frame).to_bytes(4, "big") + frame
        command, _ = decode_command(frame)
        self._notes.setdefault((side, command_name(command)), []).append(whole)
        if command.type == BaseCommand.LOOKUP_RESPONSE:
            response = command.lookup_topic_response
            response.broker_service_url = self._urls[response.broker_service_url]
            return encode_command(command)
        return whole


def wait_for(condition: Any, what: str) -> Any:
    """The first true value of a condition."""
    end = time.monotonic() + DEADLINE_S
    while not (value := condition()):
        if time.monotonic() > end:
            raise TimeoutError(what)
        time.sleep(0.1)
    return value


def split_address(text: str) -> tuple[str, int]:
    """HOST:PORT."""
    host, _, port = text.rpartition(":")
    return host, int(port)


def use_the_client(client: pulsar.Client, topic: str, partitioned: str) -> None:
    """Make the stock client say and hear what the golden files show."""
    kinds = pulsar.ConsumerType
    exclusive = client.subscribe(topic, "exclusive", consumer_type=kinds.Exclusive)
    shared = client.subscribe(topic, "shared", consumer_type=kinds.Shared, negative_ack_redelivery_delay_ms=100)
    failover = client.subscribe(topic, "failover", consumer_type=kinds.Failover)
    with contextlib.suppress(pulsar.ConsumerBusy):
        client.subscribe(topic, "exclusive", consumer_type=kinds.Exclusive)
    producer = client.create_producer(topic, batching_enabled=False, properties={"made-for": "golden"})
    producer.send(b"first", properties={"colour": "blue"}, partition_key="k")
    producer.send(b"second")
    batching = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=50)
    for number in range(3):
        batching.send_async(b"batched %d" % number, lambda *_: None)
    batching.flush()
    messages = [exclusive.receive(10_000) for _ in range(5)]
    exclusive.get_last_message_id()
    exclusive.acknowledge(messages[0])
    exclusive.acknowledge_cumulative(messages[1])
    exclusive.redeliver_unacknowledged_messages()
    refused = shared.receive(10_000)
    shared.negative_acknowledge(refused)
    while shared.receive(10_000).redelivery_count() == 0:
        pass
    exclusive.seek(pulsar.MessageId.earliest)
    many = client.subscribe(partitioned, "exclusive")
    to_many = client.create_producer(partitioned, batching_enabled=False, block_if_queue_full=True)
    for _ in range(2):
        to_many.send(b"to a partition")
        many.acknowledge(many.receive(10_000))
    failover.receive(10_000)
    failover.close()
    shared.unsubscribe()
    producer.close()


def capture_frames(broker: tuple[str, int], admin: PulsarAdmin, topic: str, partitioned: str) -> dict[str, bytes]:
    """Frames between the stock client and the brokers."""
    notes: dict[tuple[str, str], list[bytes]] = {}
    urls: dict[str, str] = {}
    entrance = Proxy(broker, notes, urls)
    for name in (topic, partitioned + "-partition-0", partitioned + "-partition-1"):
        url = admin.lookup(name)
        if url not in urls:
            urls[url] = f"pulsar://127.0.0.1:{Proxy(split_address(url.removeprefix('pulsar://')), notes, urls).port}"
    with closing(
        pulsar.Client(f"pulsar://127.0.0.1:{entrance.port}", logger=QUIET, operation_timeout_seconds=20)
    ) as client:
        use_the_client(client, topic, partitioned)
    frames = {
        f"{side}_{name.lower()}": found[0] for (side, name), found in notes.items() if name not in {"SUBSCRIBE", "ACK"}
    }
    for whole in notes["broker", "MESSAGE"]:
        command, end = decode_command(whole[4:])
        message = command.message
        if message.message_id.partition >= 0 and message.message_id.HasField("partition"):
            frames.setdefault("broker_message_of_partition", whole)
        elif message.redelivery_count:
            frames.setdefault("broker_message_redelivered", whole)
        elif b"batched 1" in whole[4 + end :]:
            frames.setdefault("broker_message_batch", whole)
    for whole in notes["client", "ACK"]:
        kind = CommandAck.AckType.Name(decode_command(whole[4:])[0].ack.ack_type)
        frames.setdefault(f"client_ack_{kind.lower()}", whole)
    for whole in notes["client", "SUBSCRIBE"]:
        command, _ = decode_command(whole[4:])
        frames[f"client_subscribe_{command.subscribe.subscription}"] = whole
    return frames


def await_ping(broker: tuple[str, int]) -> bytes:
    """The PING of a broker that hears nothing from its client."""
    connect = BaseCommand(
        type=BaseCommand.CONNECT, connect=CommandConnect(client_version="capture", protocol_version=21)
    )
    with socket.create_connection(broker, DEADLINE_S) as connection:
        connection.sendall(encode_command(connect))
        splitter = FrameSplitter()
        while True:
            for frame in splitter.receive_data(connection.recv(65536)):
                if decode_command(frame)[0].type == BaseCommand.PING:
                    return len(frame).to_bytes(4, "big") + frame


def main() -> None:
    """Capture everything."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--zookeeper", required=True, metavar="HOST:PORT")
    parser.add_argument("--broker", required=True, metavar="HOST:PORT")
    parser.add_argument("--admin", required=True, metavar="http://HOST:PORT")
    arguments = parser.parse_args()
    admin, broker = PulsarAdmin(arguments.admin), split_address(arguments.broker)
    version = urllib.request.urlopen(f"{arguments.admin}/admin/v2/brokers/version", timeout=20).read().decode()
    by = f"Pulsar {version}"
    stamp = int(time.time())
    topic = f"persistent://public/default/golden-{stamp}"
    partitioned = f"persistent://public/default/golden-partitioned-{stamp}"
    admin.create_topic(topic)
    admin.create_partitioned_topic(partitioned, 2)

    zookeeper = KazooClient(arguments.zookeeper)
    zookeeper.start(10)
    name = parse_topic_name(topic)
    save(
        "zk_managed_ledger_new",
        f"znode of a topic that nobody has used, {by}",
        zookeeper.get(name.managed_ledger_path)[0],
    )
    frames = capture_frames(broker, admin, topic, partitioned)
    client_version = f"stock Python client {pulsar.__version__}"
    for key, frame in sorted(frames.items()):
        who = (
            f"{client_version} to a broker of {by}"
            if key.startswith("client")
            else f"a broker of {by} to the {client_version}"
        )
        save(key, f"{key.partition('_')[2].upper()}, whole frame, from {who}, by a proxy", frame)

    # The open ledger.
    value = zookeeper.get(name.managed_ledger_path)[0]
    save("zk_managed_ledger", f"znode of a topic with one open ledger, {by}", value)
    ledger_id = decode_managed_ledger(value).ledger_info[-1].ledger_id
    value = zookeeper.get(ledger_path("/ledgers", ledger_id))[0]
    save("zk_ledger_open", f"znode of an open ledger of a topic (E=2, Qw=2, Qa=2), {by}", value)
    metadata = decode_ledger_metadata(value)
    bookie_id = metadata.replicas_of(0)[0]
    value = zookeeper.get(f"/ledgers/available/{bookie_id}")[0]
    save("zk_bookie", f"registration of a bookie of {by}", value)
    address = decode_bookie_address(value)
    assert address is not None
    for entry_id, what in enumerate(("unbatched entry with properties and a key", "unbatched entry", "batch of three")):
        target = decode_bookie_address(zookeeper.get(f"/ledgers/available/{metadata.replicas_of(entry_id)[0]}")[0])
        assert target is not None
        reply = exchange(target, bookie.encode_read(11 + entry_id, ledger_id, entry_id))
        save(
            f"bookie_read_{entry_id}",
            f"reply to a v3 READ_ENTRY with txn id {11 + entry_id}: {what}, from a bookie of {by}",
            reply,
        )
    save(
        "bookie_read_beyond",
        f"reply to a v3 READ_ENTRY of an entry that is not there, from a bookie of {by}",
        exchange(address, bookie.encode_read(21, ledger_id, 1000)),
    )
    save(
        "bookie_read_no_ledger",
        f"reply to a v3 READ_ENTRY of a ledger that is not there, from a bookie of {by}",
        exchange(address, bookie.encode_read(22, (1 << 30) + 5, 0)),
    )
    save(
        "bookie_read_last",
        f"reply to a v3 READ_ENTRY of entry -1, the last, from a bookie of {by}",
        exchange(address, bookie.encode_read(23, ledger_id, LAST_ENTRY)),
    )
    for case, ledger, first, limits, what in (
        ("all", ledger_id, 0, (100, 1 << 20), "entries 0 to 2, all that there is"),
        ("short", ledger_id, 0, (100, 1), "entry 0 alone, because of the limit on bytes"),
        ("beyond", ledger_id, 1000, (100, 1 << 20), "no such entry"),
        ("no_ledger", (1 << 30) + 5, 0, (100, 1 << 20), "no such ledger"),
    ):
        save(
            f"bookie_batch_{case}",
            f"reply to a BATCH_READ with request id 61: {what}, from a bookie of {by}",
            exchange(address, bookie_v2.encode_batch_read(61, ledger, first, *limits)),
        )

    def explicit_lac() -> bytes | None:
        for member in metadata.ensembles[-1][1]:
            where = decode_bookie_address(zookeeper.get(f"/ledgers/available/{member}")[0])
            assert where is not None
            frame = exchange(where, bookie.encode_read_lac(31, ledger_id))
            if bookie.decode_reply(frame)[1].lac_body:
                return frame
        return None

    save(
        "bookie_read_lac",
        f"reply to a v3 READ_LAC with explicit LAC on, from a bookie of {by}",
        wait_for(explicit_lac, "no explicit LAC: is it on?"),
    )
    save(
        "bookie_long_poll_entry",
        f"reply to a long poll above LAC 0: entry 1 comes along, from a bookie of {by}",
        exchange(address, bookie.encode_long_poll(41, ledger_id, 0, 1000)),
    )
    save(
        "bookie_long_poll_timeout",
        f"reply to a long poll above the last LAC that ended by its time, from a bookie of {by}",
        exchange(address, bookie.encode_long_poll(42, ledger_id, 2, 300)),
    )

    # The same topic after its ledger was closed.
    admin.unload(topic)
    producer_client = pulsar.Client(f"pulsar://{arguments.broker}", logger=QUIET)
    producer = producer_client.create_producer(topic)
    producer.send(b"after the unload")
    value = wait_for(
        lambda: (
            v := zookeeper.get(name.managed_ledger_path)[0],
            v if len(decode_managed_ledger(v).ledger_info) > 1 else None,
        )[1],
        "no second ledger",
    )
    save("zk_managed_ledger_two", f"znode of a topic with a closed and an open ledger, {by}", value)
    save(
        "zk_ledger_closed",
        f"znode of a closed ledger with entries 0 to 2, {by}",
        zookeeper.get(ledger_path("/ledgers", ledger_id))[0],
    )

    # A compacted ledger has another digest.
    producer.send(b"compact me", partition_key="key")
    admin._request("PUT", f"/admin/v2/{name.rest_path}/compaction")
    compacted = wait_for(
        lambda: max(admin.internal_stats(topic).get("compactedLedger", {}).get("ledgerId", -1), 0), "no compaction"
    )
    value = zookeeper.get(ledger_path("/ledgers", compacted))[0]
    save("zk_ledger_compacted", f"znode of a compacted ledger, digest CRC32, {by}", value)
    metadata = decode_ledger_metadata(value)
    target = decode_bookie_address(zookeeper.get(f"/ledgers/available/{metadata.replicas_of(0)[0]}")[0])
    assert target is not None
    save(
        "bookie_read_compacted",
        f"reply to a v3 READ_ENTRY of entry 0 of a compacted ledger, from a bookie of {by}",
        exchange(target, bookie.encode_read(51, compacted, 0)),
    )
    producer_client.close()
    save("broker_ping", f"PING, whole frame, from a broker of {by} to a client that says nothing", await_ping(broker))
    admin.delete_topic(topic)
    admin.delete_partitioned_topic(partitioned)
    zookeeper.stop()
    zookeeper.close()


if __name__ == "__main__":
    main()
