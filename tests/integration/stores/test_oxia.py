"""A real Oxia of three servers: records, watches and sessions, while leaders are killed and hang."""

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import grpc
import pytest
from readonly_engine.clock import lease_time
from readonly_engine.metadata.connect import store_at
from readonly_engine.metadata.errors import MetadataError, MetadataUnavailableError
from readonly_engine.metadata.lease import SESSION_TIMEOUT_S, SessionLease
from readonly_engine.metadata.oxia.channels import ASSIGNMENTS, Channels
from readonly_engine.metadata.oxia.keys import routing_key
from readonly_engine.metadata.security import OPEN_STORE, StoreSecurity
from readonly_engine.metadata.store import OWN_ROOT
from readonly_engine.metadata.url import MetadataUrl
from readonly_engine.net.tls import TlsFiles
from readonly_engine.wire.oxia_pb2 import ShardAssignmentsRequest

from devstack.common import processes
from devstack.common.certificates import issue, make_authority
from devstack.common.processes import Server
from devstack.oxia.program import ensure_program
from devstack.pulsar.oxia_servers import COORDINATOR, oxia_plan, oxia_server
from devstack.pulsar.spec import HOST, OXIA, OXIA_NAMESPACE, PulsarSpec
from devstack.pulsar.state import StateFolder
from tests.support.waiting import until, wait_until

pytestmark = pytest.mark.own_stack

BASE_PORT = 21650
DEADLINE_S = 60
USAGES = "digitalSignature,keyEncipherment"
ELECTED_S = 150
"""Time for an election. The coordinator notices a dead server after some seconds, and pauses longer after each try."""

CLAIMER = """
import asyncio, sys
from readonly_engine.metadata.connect import store_at
from readonly_engine.metadata.url import MetadataUrl

async def main():
    store = store_at(MetadataUrl.parse(sys.argv[1]))
    await store.start()
    print((await store.claim(sys.argv[2], b"dies")).session, flush=True)
    await asyncio.sleep(3600)

asyncio.run(main())
"""


class OxiaCluster:
    """Three servers and their coordinator."""

    def __init__(
        self, folder: StateFolder, servers: int = 3, base_port: int = BASE_PORT, options: tuple[str, ...] = ()
    ) -> None:
        self.spec = PulsarSpec(name="oxia", metadata=OXIA, metadata_servers=servers, base_port=base_port, quick=True)
        self.state = folder
        self.state.make()
        self.servers = {name: oxia_server(self.spec, folder, name, port) for name, port in oxia_plan(self.spec)}
        for name, server in self.servers.items():
            if name != COORDINATOR:
                self.servers[name] = replace(server, argv=(*server.argv, *options))

    @property
    def url(self) -> str:
        return self.spec.oxia_url()

    def start(self, name: str) -> None:
        server = self.servers[name]
        self.state.conf(name).write_text(server.config)
        self.state.data(name).mkdir(exist_ok=True)
        server.start()
        wait_until(server.answers, DEADLINE_S)

    def stop(self) -> None:
        processes.stop([server.record for server in self.servers.values()], 10.0)

    def at(self, address: str) -> tuple[str, int]:
        """Name and pid of the server with an address."""
        port = int(address.rpartition(":")[2])
        server: Server = next(one for one in self.servers.values() if one.port == port)
        running = server.running()
        assert running is not None
        return server.name, running.pid


@pytest.fixture(scope="module")
def oxia(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OxiaCluster]:
    cluster = OxiaCluster(StateFolder(tmp_path_factory.mktemp("oxia")))
    try:
        for name in cluster.servers:
            cluster.start(name)
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture
def whole(oxia: OxiaCluster) -> Iterator[OxiaCluster]:
    """The cluster, for a test that breaks it; what it leaves broken is mended."""
    yield oxia
    for name, server in oxia.servers.items():
        running = server.running()
        if running is None:
            oxia.start(name)
        else:
            os.kill(running.pid, signal.SIGCONT)


@asynccontextmanager
async def store(oxia: OxiaCluster) -> AsyncIterator[Any]:
    made = store_at(MetadataUrl.parse(oxia.url))
    await started(made)
    try:
        yield made
    finally:
        await made.close()


async def started(made: Any, security: StoreSecurity = OPEN_STORE) -> None:
    """Start a store; a cluster that has just begun has no leaders yet."""
    deadline = time.monotonic() + DEADLINE_S
    while True:
        try:
            return await made.start()
        except MetadataError:
            assert time.monotonic() < deadline
            made.__init__(made.address, OXIA_NAMESPACE, security)


def fresh() -> str:
    return f"{OWN_ROOT}/test-{uuid.uuid4().hex[:8]}"


def leader_of(made: Any, path: str) -> str:
    found = made._router.leader(routing_key(path))
    return "" if found is None else str(found[1])


async def test_records_children_and_watches(oxia: OxiaCluster) -> None:
    root, values, names = fresh(), [], []
    async with store(oxia) as one, store(oxia) as other:
        one.watch(f"{root}/a/x", lambda found: values.append(None if found is None else found.value))
        one.watch_children(f"{root}/a", names.append)
        await until(lambda: values == [None] and names == [frozenset()])
        assert await one.get(f"{root}/a/x") is None
        assert await one.children(f"{root}/a") is None
        await other.put(f"{root}/a/x", b"1")
        await until(lambda: values[-1] == b"1" and names[-1] == {"x"})
        before = await one.get(f"{root}/a/x")
        await other.put(f"{root}/a/x", b"2")
        await until(lambda: values[-1] == b"2")
        after = await one.get(f"{root}/a/x")
        assert after.version > before.version
        assert after.created_ms == before.created_ms > 0
        await other.put(f"{root}/a/y/z", b"")
        await until(lambda: names[-1] == {"x", "y"})
        assert await one.children(root) == {"a"}
        await other.remove(f"{root}/a/x")
        await until(lambda: values[-1] is None and names[-1] == {"y"})
        await other.remove(f"{root}/a/x")


async def test_of_two_writers_of_a_version_one_is_told_that_it_was_late(oxia: OxiaCluster) -> None:
    path = f"{fresh()}/a/b"
    async with store(oxia) as one:
        first = await one.put_if(path, b"1", None)
        assert first is not None
        assert await one.put_if(path, b"2", None) is None
        second = await one.put_if(path, b"2", first)
        assert second is not None
        assert await one.put_if(path, b"3", first) is None
        assert (await one.get(path)).value == b"2"


async def test_records_of_pulsar_are_in_all_shards(oxia: OxiaCluster) -> None:
    """Written as Pulsar does: by their path alone."""
    folder = f"/managed-ledgers/{uuid.uuid4().hex}"
    async with store(oxia) as one:
        names: list[frozenset[str]] = []
        one.watch_children(folder, names.append)
        await until(lambda: names == [frozenset()])
        for number in range(8):
            client(oxia, "put", f"{folder}/{number}", f"value-{number}")
        await until(lambda: names[-1] == {str(number) for number in range(8)})
        for number in range(8):
            assert (await one.get(f"{folder}/{number}")).value == b"value-%d" % number
        assert len({one._router.leader(f"{folder}/{number}")[0] for number in range(8)}) == 2


async def test_a_copy_of_an_own_record_in_another_shard_is_adopted(oxia: OxiaCluster) -> None:
    """A migration copies records by their path alone (MigrationCoordinator)."""
    root = fresh()
    async with store(oxia) as one:
        for number in range(8):
            client(oxia, "put", f"{root}/{number}", f"{number}")
        shards = {one._router.leader(f"{root}/{number}")[0] for number in range(8)}
        assert len(shards) == 2
        assert await one.children(root) == {str(number) for number in range(8)}
        for number in range(4):
            assert (await one.get(f"{root}/{number}")).value == b"%d" % number
            await one.put(f"{root}/{number}", b"mine")
        for number in range(8):
            await one.remove(f"{root}/{number}")
        assert await one.children(root) == frozenset()


def client(oxia: OxiaCluster, *words: str) -> str:
    """Run Oxia's own client."""
    address = f"{HOST}:{oxia.spec.oxia_port(0)}"
    return subprocess.run(
        [str(ensure_program()), "client", "--service-address", address, "--namespace", OXIA_NAMESPACE, *words],
        check=True, capture_output=True, text=True, timeout=DEADLINE_S,
    ).stdout  # fmt: skip


async def test_calls_of_a_dropped_channel_fail_and_cancel_no_task(oxia: OxiaCluster) -> None:
    """gRPC ends the calls of a closed channel by CancelledError, which would end the tasks that follow streams."""
    async with store(oxia):
        pass  # the servers have their shards now
    channels, address = Channels(), f"{HOST}:{oxia.spec.oxia_port(0)}"
    request = ShardAssignmentsRequest(namespace=OXIA_NAMESPACE)
    stream = channels.stream(address, ASSIGNMENTS, request)
    await anext(stream)
    reading = asyncio.create_task(anext(stream))  # type: ignore[arg-type] # an asynchronous generator's is a coroutine
    calling = asyncio.create_task(channels.call(address, ASSIGNMENTS, request, DEADLINE_S))
    await asyncio.sleep(0.2)
    await channels.drop(address)
    for task in (reading, calling):
        with pytest.raises(grpc.aio.AioRpcError, match="UNAVAILABLE"):
            await asyncio.wait_for(task, DEADLINE_S)
    calling = asyncio.create_task(channels.call(address, ASSIGNMENTS, request, DEADLINE_S))
    await asyncio.sleep(0.2)
    calling.cancel()
    with pytest.raises(asyncio.CancelledError):
        await calling
    await channels.close()


@pytest.mark.nightly
def test_claims_end_with_a_dead_broker(oxia: OxiaCluster) -> None:
    path = f"{fresh()}/claim"
    dying = subprocess.Popen([sys.executable, "-c", CLAIMER, oxia.url, path], stdout=subprocess.PIPE, text=True)
    try:
        assert dying.stdout is not None
        assert int(dying.stdout.readline()) > 0
        dying.kill()
        killed = time.monotonic()

        async def scenario() -> float:
            async with store(oxia) as one:
                while not (await one.claim(path, b"lives")).session:
                    await asyncio.sleep(0.1)
                return time.monotonic() - killed

        assert asyncio.run(scenario()) < 2 * SESSION_TIMEOUT_S
    finally:
        dying.kill()
        dying.communicate()


@pytest.mark.nightly
@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGSTOP])
async def test_a_lost_leader_costs_no_claim(whole: OxiaCluster, how: int) -> None:
    """Its successor has the sessions. While it hangs, leases end and no other broker gets the claim."""
    root = fresh()
    leases: list[tuple[int, float]] = []

    def note(lease: SessionLease) -> None:
        leases.append((lease.session, lease.until))

    async with store(whole) as holder, store(whole) as other:
        holder.on_session(note)
        names: list[frozenset[str]] = []
        other.watch_children(root, names.append)
        held = await holder.claim(f"{root}/claim", b"holder")
        await holder.register(f"{root}/member", b"holder")
        await until(lambda: bool(names) and names[-1] == {"claim", "member"})
        await until(lambda: leases[-1][1] > lease_time())
        old = leader_of(holder, root)
        _, pid = whole.at(old)
        os.kill(pid, how)
        lost = time.monotonic()
        while leader_of(holder, root) in {old, ""} or leases[-1][1] <= lease_time():
            assert time.monotonic() < lost + ELECTED_S + DEADLINE_S, "no leader has been elected"
            try:
                taken = (await other.claim(f"{root}/claim", b"other")).session
            except MetadataUnavailableError:
                await asyncio.sleep(0.1)
                continue
            if taken:
                # The election took longer than the session lasts. Then the holder must know that it has nothing any more.
                assert leases[-1][0] != held.session or leases[-1][1] <= lease_time()
                assert time.monotonic() - lost > SESSION_TIMEOUT_S / 2
                return
        assert leases[-1][0] == held.session, "the session continues"
        assert (await holder.claim(f"{root}/claim", b"holder")).session == held.session
        await holder.put(f"{root}/after", b"")
        await until(lambda: names[-1] == {"claim", "member", "after"})
        await holder.release(f"{root}/claim")
        assert (await other.claim(f"{root}/claim", b"other")).session


@pytest.mark.nightly
async def test_all_servers_gone_and_back(whole: OxiaCluster) -> None:
    """Reads fail within their deadline, and the session continues or another one has the same records."""
    root, names = fresh(), []
    async with store(whole) as one, store(whole) as other:
        one.on_session(lambda _: None)
        other.watch_children(root, names.append)
        await one.register(f"{root}/member", b"one")
        await until(lambda: bool(names) and names[-1] == {"member"})
        for name in whole.servers:
            if name != COORDINATOR:
                running = whole.servers[name].running()
                assert running is not None
                os.kill(running.pid, signal.SIGKILL)
        began = time.monotonic()
        with pytest.raises(MetadataUnavailableError, match=r"Oxia at .* no answer in 10 s"):
            await one.get(f"{root}/member")
        assert time.monotonic() - began < 15
        assert not one.connected
        for name in whole.servers:
            if name != COORDINATOR:
                await asyncio.to_thread(whole.start, name)
        await until(lambda: one.connected, what="the broker is connected again")
        async with asyncio.timeout(DEADLINE_S):
            while await other.get(f"{root}/member") is None:
                await asyncio.sleep(0.1)
        await one.put(f"{root}/after", b"")
        await until(lambda: "after" in names[-1])


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("oxia://127.0.0.1:1/broker", r"no Oxia answers within 10 s .*refused"),
        ("oxia://{address}/nope", r"namespace not found"),
    ],
)
async def test_a_store_that_cannot_be_used_says_why(oxia: OxiaCluster, url: str, why: str) -> None:
    made = store_at(MetadataUrl.parse(url.format(address=f"{HOST}:{oxia.spec.oxia_port(0)}")))
    with pytest.raises(MetadataError, match=why):
        await made.start()


@pytest.fixture(scope="module")
def encrypted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[OxiaCluster, Path]]:
    """A server that asks its clients for certificates, and the folder with these."""
    folder = tmp_path_factory.mktemp("tls")
    for authority in ("authority", "stranger"):
        make_authority(folder / f"{authority}.pem", authority)
    for name, authority, place in (
        ("server", "authority", f"IP:{HOST}"),
        ("client", "authority", "DNS:client"),
        ("foreign", "stranger", "DNS:client"),
    ):
        issue(folder / f"{authority}.pem", folder / f"{name}.pem", f"/CN={name}", usages=USAGES, alternatives=[place])
    options = (
        *("--tls-cert-file", str(folder / "server.pem"), "--tls-key-file", str(folder / "server.key")),
        *("--tls-trusted-ca-file", str(folder / "authority.pem"), "--tls-client-auth"),
    )
    cluster = OxiaCluster(StateFolder(tmp_path_factory.mktemp("oxia-tls")), 1, BASE_PORT + 50, options)
    try:
        for name in cluster.servers:
            cluster.start(name)
        yield cluster, folder
    finally:
        cluster.stop()


def secured_by(folder: Path, authority: str, client_: str) -> StoreSecurity:
    certificate, key = folder / f"{client_}.pem", folder / f"{client_}.key"
    return StoreSecurity(TlsFiles("metadata-store-tls", folder / f"{authority}.pem", certificate, key))


async def test_tls_with_client_certificates(encrypted: tuple[OxiaCluster, Path]) -> None:
    cluster, folder = encrypted
    made = store_at(MetadataUrl.parse(cluster.url), secured_by(folder, "authority", "client"))
    await started(made, secured_by(folder, "authority", "client"))
    path = f"{fresh()}/x"
    await made.put(path, b"1")
    found = await made.get(path)
    assert found is not None
    assert found.value == b"1"
    await made.close()


@pytest.mark.nightly
@pytest.mark.parametrize(("authority", "client_"), [("stranger", "client"), ("authority", "foreign"), ("", "")])
async def test_a_wrong_certificate_is_one_error(
    encrypted: tuple[OxiaCluster, Path], authority: str, client_: str
) -> None:
    """Of a wrong authority, of a client that the server does not trust, and of no TLS at all."""
    cluster, folder = encrypted
    security = secured_by(folder, authority, client_) if authority else OPEN_STORE
    made = store_at(MetadataUrl.parse(cluster.url), security)
    with pytest.raises(MetadataUnavailableError, match=rf"Oxia at {HOST}:\d+: no Oxia answers within 10 s"):
        await made.start()
