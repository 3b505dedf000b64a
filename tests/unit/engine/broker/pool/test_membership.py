from dataclasses import replace
from types import SimpleNamespace

import pytest
from readonly_engine.broker.pool.membership import Member, PoolMembership, decode_member, encode_member
from readonly_engine.config.listeners import Urls
from readonly_engine.metadata.errors import MetadataUnavailableError
from readonly_engine.metadata.store import Versioned

URL = "pulsar://pool-0.pool-headless.team.svc:6650"


OUTSIDE = Urls("pulsar://pool-0.example.com:6650", "pulsar+ssl://pool-0.example.com:6651")


@pytest.mark.parametrize("listeners", [{}, {"external": OUTSIDE, "plain": Urls("pulsar://a:1")}])
def test_a_member_is_read_as_it_was_written(listeners):
    member = Member(URL, "pulsar+ssl://pool-0.pool-headless.team.svc:6651", 17, listeners)
    assert decode_member(URL, encode_member(member)) == member
    assert decode_member(URL, encode_member(replace(member, locality="/eu/a"))) == replace(member, locality="/eu/a")


def test_clients_of_a_listener_reach_a_member_at_its_addresses_only():
    member = Member(URL, listeners={"external": OUTSIDE})
    assert [member.urls_for(name) for name in ("", "external", "other")] == [Urls(URL), OUTSIDE, Urls()]


@pytest.mark.parametrize(
    "value",
    [
        b"",
        b"{",
        b"[]",
        b'"x"',
        b"\xff",
        b'{"tls_url": 3, "consumers": "many", "listeners": {"a": 5, "b": ["x"]}}',
        b'{"consumers": -1}',
        b'{"locality": "zone a"}',
        b'{"locality": ["/a"]}',
    ],
)
def test_what_another_version_wrote_is_a_member_all_the_same(value):
    assert decode_member(URL, value) == Member(URL)


class Store:
    """A metadata store of one process; every change calls the watches at once."""

    def __init__(self):
        self.nodes, self.watches, self.folders, self.down = {}, {}, {}, False

    async def register(self, path, value, admit):
        self.set(path, value)

    async def update(self, path, value):
        if self.down:
            raise MetadataUnavailableError("no answer")
        self.set(path, value)

    def set(self, path, value):
        self.nodes[path] = value
        folder = path.rpartition("/")[0]
        for told in self.folders.get(folder, []):
            told(self.names(folder))
        for told in self.watches.get(path, []):
            told(Versioned(value, 0))

    def names(self, folder):
        return frozenset(path.rpartition("/")[2] for path in self.nodes if path.rpartition("/")[0] == folder)

    def watch(self, path, changed):
        self.watches.setdefault(path, []).append(changed)
        changed(Versioned(self.nodes[path], 0))
        return SimpleNamespace(stop=lambda: None)

    def watch_children(self, folder, changed):
        self.folders.setdefault(folder, []).append(changed)
        changed(self.names(folder))
        return SimpleNamespace(stop=lambda: None)


async def test_members_publish_their_locality_also_when_it_changes():
    store = Store()
    one = PoolMembership(store, "p", "pulsar://one:6650", locality="/eu/a")
    two = PoolMembership(store, "p", "pulsar://two:6650")
    for pool in (one, two):
        await pool.join()
    assert {url: member.locality for url, member in two.members.items()} == {one.url: "/eu/a", two.url: ""}
    assert [member.url for member in one.neighbours] == [one.url]

    two.move("/eu/a")
    assert two.locality == "/eu/a"
    assert {member.url for member in two.neighbours} == {one.url, two.url}, "at once, before it is published"
    store.down = True
    await two.publish(0)
    assert one.members[two.url].locality == ""
    store.down = False
    await two.publish(0)  # the next attempt, although nothing has changed since
    assert one.members[two.url].locality == "/eu/a"
    assert {member.url for member in one.neighbours} == {one.url, two.url}

    writes = []
    store.set = lambda *written: writes.append(written)
    await one.publish(0)
    assert writes == [], "nothing has changed"
    await one.publish(3)
    assert len(writes) == 1


def test_a_broker_publishes_the_port_of_its_status_page():
    member = Member("pulsar://a:1", http_port=8080)
    assert decode_member(member.url, encode_member(member)) == member
    assert b"http_port" not in encode_member(Member("pulsar://a:1")), "as before, for those without one"
