"""Servers that answer rubbish, too much, or not at all: bounds, deadlines, and no false findings about others."""

import asyncio
import contextlib
import io
import time

import pytest
from readonly_engine.doctor import clients as doctor_clients
from readonly_engine.doctor.checks.bookies import bookie_findings
from readonly_engine.doctor.checks.failure import FailureKind
from readonly_engine.doctor.checks.finding import Result
from readonly_engine.doctor.checks.metadata_store import store_findings
from readonly_engine.doctor.checks.versions import version_findings
from readonly_engine.doctor.clients import Clients, open_clients
from readonly_engine.doctor.deadline import Deadline
from readonly_engine.doctor.examination import Subjects, examine
from readonly_engine.doctor.examination import _Examination as Examination
from readonly_engine.doctor.observe import bookies as observe_bookies
from readonly_engine.doctor.observe.admin_api import MAX_CONCURRENT, ask_admin_apis, lac_intervals
from readonly_engine.doctor.observe.bookies import ask_bookies
from readonly_engine.doctor.observe.brokers import MAX_CONCURRENT_LOOKUPS, look_up_owners
from readonly_engine.doctor.observe.metadata_store import ask_store, connect_stores
from readonly_engine.doctor.observe.policies import ask_about_namespace, ask_about_topic
from readonly_engine.doctor.observe.subjects import find_namespaces, find_topics
from readonly_engine.doctor.progress import Progress
from readonly_engine.doctor.redaction import MAX_RAW_TEXT, MAX_TEXT, Redactor
from readonly_engine.metadata.connect import ClusterStores
from readonly_engine.metadata.errors import AccessDeniedError, MetadataError, MetadataUnavailableError
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.metadata.url import MetadataUrl
from readonly_engine.owner.directory import OwnerDirectory

from tests.support.waiting import until
from tests.unit.engine.doctor.played_cluster import AdminApi, MemoryStore, MemoryStores, config_of, topic_node
from tests.unit.engine.doctor.test_command import healthy_api, played_cluster
from tests.unit.engine.doctor.test_observe import (
    CONFIGURATION,
    LEDGERS,
    NODES,
    ORDERS,
    ask_admin_api,
    clients_of,
    clients_of_admin,
)

PATH = "persistent/public/default/orders"


# The admin API


@pytest.mark.parametrize(
    "stats",
    [
        {"subscriptions": ["s"]},
        {"subscriptions": {"s": "Shared"}},
        {"subscriptions": {"s": {"type": "Shared", "consumers": {"a": 1}}}},
        {"subscriptions": {"s": {"type": "Shared", "consumers": ["c", None]}}},
        {"subscriptions": {"s": {"type": "Shared", "consumers": [{"metadata": "m"}]}}},
        {"subscriptions": {"s": {"type": ["Shared"]}}},
    ],
)
async def test_statistics_of_another_shape(stats):
    api = AdminApi(**{f"{PATH}/internalStats": {}, f"{PATH}/stats": stats, f"{PATH}/entryFilters": ["x"]})
    api.answers[f"{PATH}/replication"] = "5"
    async with clients_of_admin(api) as (clients, _):
        store = MemoryStore({f"{LEDGERS}/orders": topic_node(3)})
        (topic,) = await find_topics([ORDERS], MemoryStores(store).cluster, Deadline(5))
        found = await ask_about_topic(topic, clients.admin, "red", Deadline(5))
    assert found.state_failure is None
    assert set(found.direct) <= {"s"}
    assert (found.policies.entry_filters, found.policies.clusters) == ("", [])


@pytest.mark.parametrize("clusters", [5, "abc", {"a": "b"}, True])
async def test_policies_of_another_shape(clusters):
    api = AdminApi(**{"namespaces/public/default": {"replication_clusters": clusters, "entryFilters": [1]}})
    async with clients_of_admin(api) as (clients, _):
        (namespace,) = await find_namespaces(["public/default"], MemoryStores(MemoryStore(NODES)).cluster, Deadline(5))
        allowed = {"allowOverrideEntryFilters": "true"}
        found = await ask_about_namespace(namespace, clients.admin, allowed, Deadline(5))
    assert found.policies.clusters == []


@pytest.mark.parametrize("body", ["[" * 100_000, "[]", "nothing", '"x"', "9" * 5000])
async def test_a_configuration_that_is_none(body):
    answer = await ask_admin_api(AdminApi(**{"brokers/configuration/runtime": body}))
    assert (answer.failure, answer.version, answer.configuration) == (None, "4.0.8", None)
    assert answer.configuration_failure.kind is FailureKind.OTHER


async def test_an_answer_has_a_bound(monkeypatch):
    monkeypatch.setattr(doctor_clients, "COMMAND_ANSWER_BYTES", 1000)
    for size, accepted in ((900, True), (1100, False)):
        answer = await ask_admin_api(AdminApi(**{"brokers/configuration/runtime": {"a": "x" * size}}))
        assert (answer.configuration is not None) is accepted
    assert "more than 1000 bytes" in answer.configuration_failure.text


async def test_a_version_has_a_bound():
    answer = await ask_admin_api(AdminApi(**{"brokers/version": "9" * 1_000_000}))
    assert len(answer.version) <= 1024
    (found,) = version_findings({"http://a": answer.version})
    assert found.result is Result.WARN
    (found,) = version_findings({"http://a": "9" * 5000 + ".1.2"})
    assert found.result is Result.WARN


async def test_listed_brokers_that_are_no_addresses_are_not_asked(monkeypatch):
    api = AdminApi(**{"brokers/configuration/runtime": CONFIGURATION})
    api.answers["brokers"] = [None, 5, {"a": 1}, ["b"], "", "me:word@127.0.0.1:1"]
    asked = []
    real = Clients.admin_at

    def admin_at(clients, *urls):
        asked.append(urls)
        return real(clients, *urls)

    async with clients_of_admin(api) as (clients, url):
        answers = await ask_admin_apis(clients, Deadline(5))
        monkeypatch.setattr(Clients, "admin_at", admin_at)
        assert await lac_intervals(clients, answers, Deadline(5)) == {url: 200}
    assert asked == [("http://127.0.0.1:1",)]


class Requests:
    """The limits of all requests. They end when `expire` is called, not by the clock of the machine.

    Attributes:
        begun: limits of the requests whose turn has come.
    """

    def __init__(self, monkeypatch):
        self.begun = []
        monkeypatch.setattr(Deadline, "request", lambda *_: self._begin())

    def _begin(self):
        self.begun.append(asyncio.timeout(None))
        return self.begun[-1]

    def expire(self):
        """End the requests whose turn has come."""
        for one in self.begun:
            with contextlib.suppress(RuntimeError):  # it has been answered
                one.reschedule(0)


class SilentBroker(asyncio.Protocol):
    """Takes connections and never answers.

    Attributes:
        connections: all that have come.
    """

    def __init__(self):
        self.connections = []

    def connection_made(self, transport):
        self.connections.append(transport)

    @contextlib.asynccontextmanager
    async def serving(self):
        """Yield the address, HOST:PORT."""
        server = await asyncio.get_running_loop().create_server(lambda: self, "127.0.0.1", 0)
        yield f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        server.close()
        for transport in self.connections:
            transport.abort()


async def test_silent_brokers_take_no_time_from_the_others(monkeypatch):
    """The time of a request begins with its turn: more silent brokers than turns must not make the others fail."""
    requests, silent = Requests(monkeypatch), SilentBroker()
    api = AdminApi(**{"brokers/configuration/runtime": CONFIGURATION})
    async with api.serving() as url, silent.serving() as address:
        good = url.removeprefix("http://")
        api.answers["brokers"] = [*[address] * MAX_CONCURRENT, good]
        clients = open_clients(config_of(admin_url=url))
        answers = await ask_admin_apis(clients, Deadline(60))
        asking = asyncio.ensure_future(lac_intervals(clients, answers, Deadline(60)))
        await until(lambda: len(silent.connections) == MAX_CONCURRENT)
        requests.expire()
        found = await asyncio.wait_for(asking, 30)
        await clients.close()
    assert found == {good: 200}


async def test_silent_brokers_leave_the_topics_their_time(monkeypatch):
    """The admin API may list brokers that this machine does not reach. A topic is examined beside them."""
    requests, silent = Requests(monkeypatch), SilentBroker()
    examined = asyncio.Event()
    topics = Examination._topics

    async def examine_topics(*arguments):
        found = await topics(*arguments)
        examined.set()
        return found

    monkeypatch.setattr(Examination, "_topics", examine_topics)
    api = healthy_api()
    async with played_cluster(monkeypatch, api=api) as config, silent.serving() as address:
        api.answers["brokers"] = [address] * MAX_CONCURRENT
        progress = Progress(io.StringIO(), "doctor")
        examining = asyncio.ensure_future(examine(config, Subjects((ORDERS,)), 60, progress))
        await until(lambda: examined.is_set() or examining.done(), 8)  # the client gives up after 10 s
        await until(lambda: len(silent.connections) == MAX_CONCURRENT)
        requests.expire()
        found = {one.check: one for one in await examining}
    assert (found["topic"].result, found["explicit LAC"].result) == (Result.OK, Result.OK)


async def test_a_silent_owner_makes_no_other_topic_fail(monkeypatch):
    requests = Requests(monkeypatch)
    topics = [parse_topic_name(f"t-{number}") for number in range(MAX_CONCURRENT_LOOKUPS + 1)]

    class Owner:
        url = "pulsar://good"

    async def owner_of(_directory, topic, _identity):
        if topic != str(topics[-1]):
            await asyncio.Event().wait()
        return Owner

    monkeypatch.setattr(OwnerDirectory, "owner_of", owner_of)
    looking = asyncio.ensure_future(look_up_owners(topics, open_clients(config_of()), Deadline(60)))
    await until(lambda: len(requests.begun) == MAX_CONCURRENT_LOOKUPS)
    requests.expire()
    found = await asyncio.wait_for(looking, 30)
    assert [one.failure is None for one in found] == [False] * MAX_CONCURRENT_LOOKUPS + [True]


# Bookies and the metadata store


async def test_bookies_have_a_bound(monkeypatch):
    monkeypatch.setattr(observe_bookies, "MAX_BOOKIES", 3)
    nodes = {
        **{f"/ledgers/available/127.0.0.1:{port}": b"" for port in range(1, 6)},
        **{f"/ledgers/cookies/gone-{number}": b"" for number in range(4)},
    }
    clients = clients_of(MemoryStore(nodes))
    found = await ask_bookies(clients, Deadline(10))
    await clients.close()
    assert (len(found.answers), len(found.unregistered), found.more) == (3, 3, 3)
    assert bookie_findings(found)[-1].observed == "3 more bookies were not asked"


def two_stores(monkeypatch, failure=None, slow=0.0):
    """The first store, and both; the second one fails or is slow."""
    main, second = MemoryStore({}), MemoryStore({})
    second.failure, second.slow = failure, slow
    parts = iter([main, second])
    monkeypatch.setattr("readonly_engine.metadata.connect.store_at", lambda *_: next(parts))
    return main, ClusterStores(MetadataUrl.parse("zk:a:1"), MetadataUrl.parse("zk:b:1"))


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (MetadataUnavailableError("x"), MetadataUnavailableError),
        (AccessDeniedError("x"), AccessDeniedError),
        (MetadataError("the chroot /x does not exist"), MetadataError),
    ],
)
def test_no_session_is_left_where_the_second_store_fails(monkeypatch, failure, kind):
    main, stores = two_stores(monkeypatch, failure)
    with pytest.raises(kind, match=r"^the bookies' store: ") as caught:
        asyncio.run(stores.start())
    assert type(caught.value) is kind
    assert main.closed


async def test_no_session_is_left_after_the_deadline(monkeypatch):
    main, stores = two_stores(monkeypatch, slow=60)
    assert (await connect_stores(Clients(config_of(), stores=stores), Deadline(0.4))).kind is FailureKind.TIMEOUT
    assert main.closed


async def test_the_remedy_for_the_bookies_store_names_its_option(monkeypatch):
    _, stores = two_stores(monkeypatch, MetadataUnavailableError("no ZooKeeper answers"))

    clients = Clients(config_of(bookkeeper_metadata_store_url="zk:b:1/root"), stores=stores)
    failure = await connect_stores(clients, Deadline(5))
    (found,) = store_findings(await ask_store(clients, failure, Deadline(5)), "p", "")
    assert (found.subject, found.observed) == ("zk:b:1/root", "the bookies' store: no ZooKeeper answers")
    assert "bookkeeper-metadata-store-url" in found.remedy


# Texts


def test_a_huge_text_is_cut_before_it_is_read():
    redactor = Redactor(["a-secret-of-some-length"])
    began = time.process_time()
    assert len(redactor.text("x y" * 10_000_000)) == MAX_TEXT + 3
    assert time.process_time() - began < 1
    # The cut is within a secret, and whitespace moves its begin to the front.
    assert "a-secret" not in redactor.text(" " * (MAX_RAW_TEXT - 10) + "a-secret-of-some-length")
