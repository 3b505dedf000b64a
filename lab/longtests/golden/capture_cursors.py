"""Capture where a real cluster keeps its subscriptions, and how it compresses its metadata, as golden files of the unit tests.

    python -m longtests.golden.capture_cursors [BASE_PORT]

Starts a stack of its own, once for each of the brokers' settings, and forgets it.
"""

import sys
import time

import pulsar
from kazoo.client import KazooClient
from readonly_engine.metadata.cluster import ledger_path
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.wire import bookie
from readonly_engine.wire.digest import digest_for
from readonly_engine.wire.entry import LAST_ENTRY, decode_entry
from readonly_engine.wire.ledgers import decode_bookie_address, decode_ledger_metadata
from readonly_engine.wire.managed_ledger_pb2 import CursorInfo

from devstack.pulsar.cluster import PulsarCluster
from devstack.pulsar.spec import PulsarSpec, Setting
from devstack.pulsar.status import Endpoints
from longtests.golden.capture import QUIET, exchange, save

ALWAYS = {
    "managedLedgerMaxEntriesPerLedger": "100",
    "defaultRetentionTimeInMinutes": "60",
    "defaultRetentionSizeInMB": "1024",
    "acknowledgmentAtBatchIndexLevelEnabled": "true",
    "managedLedgerDefaultMarkDeleteRateLimit": "0",
}
CODECS = ("LZ4", "ZLIB", "ZSTD", "SNAPPY")


def publish_and_ack(endpoints: Endpoints, topic: str) -> pulsar.Client:
    """Two full ledgers and a bit, a batch at the end; of the subscription `s` acks that leave holes."""
    client = pulsar.Client(endpoints.service_url, logger=QUIET)
    consumer = client.subscribe(
        topic, "s", consumer_type=pulsar.ConsumerType.Shared, properties={"made-for": "golden"},
        batch_index_ack_enabled=True,
    )  # fmt: skip
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(203):
        producer.send(b"%d" % number)
    batching = client.create_producer(topic, batching_enabled=True, batching_max_publish_delay_ms=200)
    for number in range(203, 208):
        batching.send_async(b"%d" % number, lambda *_: None)
    batching.flush()
    for _ in range(208):
        message = consumer.receive(20_000)
        # Up to 9; then 20 to 29, 95 to 104 (of two ledgers), and of the batch the second and the fourth.
        number = int(message.data())
        if number < 10 or 20 <= number < 30 or 95 <= number < 105 or number in {204, 206}:
            consumer.acknowledge(message)
    return client


def last_entry(zookeeper: KazooClient, ledger_id: int) -> bytes:
    """The payload of a ledger's last entry, from whichever bookie has it."""
    metadata = decode_ledger_metadata(zookeeper.get(ledger_path("/ledgers", ledger_id))[0])
    found = []
    for member in metadata.ensembles[-1][1]:
        address = decode_bookie_address(zookeeper.get(f"/ledgers/available/{member}")[0])
        assert address is not None
        reply = bookie.decode_reply(exchange(address, bookie.encode_read(1, ledger_id, LAST_ENTRY)))[1]
        if reply.body:
            found.append(decode_entry(reply.body, digest_for(metadata.digest_type, metadata.password), ledger_id))
    return max(found, key=lambda entry: entry.entry_id).payload


def capture(stack: PulsarCluster, what: str, names: dict[str, str]) -> None:
    """Save the nodes that `names` asks for."""
    endpoints, topic = stack.up(), f"persistent://public/default/golden-{time.time_ns()}"
    client = publish_and_ack(endpoints, topic)
    path = parse_topic_name(topic).managed_ledger_path
    zookeeper = KazooClient(endpoints.metadata_store.removeprefix("zk:"))
    zookeeper.start(10)
    by = f"Pulsar {stack.spec.version}, {what}"
    time.sleep(2)  # the owner writes a cursor after it has answered
    value = zookeeper.get(f"{path}/s")[0]
    if name := names.get("open"):
        save(name, f"znode of a subscription in use, {by}", value)
    if name := names.get("entry"):
        ledger_id = CursorInfo.FromString(value).cursor_ledger_id
        save(name, f"payload of the last entry of a cursor ledger, {by}", last_entry(zookeeper, ledger_id))
    if name := names.get("topic"):
        save(name, f"znode of a topic of three ledgers, {by}", zookeeper.get(path)[0])
    client.close()
    stack.admin().unload(topic)
    time.sleep(1)
    if name := names.get("closed"):
        save(name, f"znode of a subscription after an unload, {by}", zookeeper.get(f"{path}/s")[0])
    zookeeper.stop()
    zookeeper.close()


def main() -> None:
    """Capture everything."""
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 21650

    def stack(settings: dict[str, str]) -> PulsarCluster:
        told = tuple(Setting("broker", key, value) for key, value in {**ALWAYS, **settings}.items())
        return PulsarCluster(
            PulsarSpec(name=f"golden-{port}", bookies=2, brokers=1, base_port=port, quick=True, settings=told)
        )

    try:
        capture(
            stack({}),
            "stock settings but for batch index acks",
            {"open": "zk_cursor_open", "entry": "cursor_entry", "closed": "zk_cursor_closed"},
        )
        capture(
            stack({"managedLedgerPersistIndividualAckAsLongArray": "true"}),
            "managedLedgerPersistIndividualAckAsLongArray=true",
            {"entry": "cursor_entry_long_arrays"},
        )
        for codec in CODECS:
            settings = {"managedLedgerInfoCompressionType": codec, "managedCursorInfoCompressionType": codec}
            settings |= {key.replace("Type", "ThresholdInBytes"): "0" for key in settings}
            names = {"topic": f"zk_managed_ledger_{codec.lower()}", "closed": f"zk_cursor_{codec.lower()}"}
            capture(stack(settings), f"metadata compressed with {codec}", names)
    finally:
        stack({}).down(purge=True)


if __name__ == "__main__":
    main()
