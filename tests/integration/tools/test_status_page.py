"""The status page of a running pool: figures of real topics, and hostile names of a real client."""

import json
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import urlencode

import pulsar
import pytest
from readonly_engine.http.status.style import HEADERS

from devstack.pool import BrokerProcess, Pool
from tests.support.pulsar.fleet import SHARED, TESTS, quiet_client
from tests.support.waiting import wait_until

pytestmark = pytest.mark.second_stack

MESSAGES: Final = 200
HOSTILE: Final = "<script>alert(1)</script>\x1b[2J"


@pytest.fixture
def pair(own_pool) -> Iterator[Pool]:
    """A pool of two brokers."""
    return own_pool(2, "--topics", TESTS)


def status(broker: BrokerProcess, **query: Any) -> Any:
    """The document of /status."""
    return json.loads(broker.get(f"/status?{urlencode(query)}"))


def serving(pool: Pool, topic: str) -> BrokerProcess:
    """The broker that serves a topic's subscription."""
    return wait_until(
        lambda: next((one for one in pool.brokers if any(found["tail"] != "relayed" for found in of(one, topic))), None)
    )


def of(broker: BrokerProcess, topic: str) -> list[Any]:
    return [one for one in status(broker, prefix=topic)["topics"] if one["name"] == topic]


def test_a_page_of_real_topics(pair, pulsar_client, topic) -> None:
    producer = pulsar_client.create_producer(topic)
    client = quiet_client(pair.url)
    consumer = client.subscribe(topic, "audit", SHARED, consumer_name=HOSTILE, receiver_queue_size=10)
    for number in range(MESSAGES):
        producer.send(b"%d" % number)
    for _ in range(MESSAGES // 2):
        consumer.acknowledge(consumer.receive(10_000))
    broker = serving(pair, topic)

    def lag() -> bool:
        (one,) = of(broker, topic)
        return bool(one["lag"] == MESSAGES // 2 and one["slowest"] == "audit" and one["message_rate"] is not None)

    wait_until(lag)
    found = status(broker)
    assert found["broker"]["pool"] == pair.name
    assert found["source"]["connected"]
    assert found["relief"]["delivered_messages"] >= MESSAGES // 2
    assert {one["url"] for one in found["members"]} == {one.url for one in pair.brokers}
    assert {one["status_url"] for one in found["members"]} == {f"{one.http_url}/" for one in pair.brokers}
    assert status(broker, topic=topic)["subscriptions"][0]["kind"] == "Shared"
    (one,) = status(broker, topic=topic, subscription="audit")["clients"]
    assert one["name"] == HOSTILE
    page = broker.get(f"/?{urlencode({'topic': topic, 'subscription': 'audit'})}")
    assert "&lt;script&gt;" in page
    assert "<script" not in page
    assert "\x1b" not in page
    client.close()


@pytest.mark.nightly
def test_what_an_owner_pushed_is_no_relief(pair, pulsar_client, topic) -> None:
    """One reader of a slow topic gets each message by a push of the owner, and two share the push."""
    producer = pulsar_client.create_producer(topic)
    client = quiet_client(pair.url)
    readers = [client.create_reader(topic, pulsar.MessageId.latest) for _ in range(2)]
    producer.send(b"first")
    for reader in readers:
        reader.read_next(10_000)
    for number in range(50):
        producer.send(b"%d" % number)
    for reader in readers:
        for _ in range(50):
            reader.read_next(10_000)
    relieved = [status(one)["relief"] for one in pair.brokers]
    assert sum(one["delivered_messages"] for one in relieved) >= 100
    for one in relieved:
        assert 0 <= one["pushed_messages"] <= max(one["delivered_messages"], 51)
    client.close()


def test_headers_head_and_errors(pair) -> None:
    url = pair.brokers[0].http_url
    for method, path, code in (
        ("GET", "/", 200),
        ("HEAD", "/", 200),
        ("GET", "/?page=x", 400),
        ("GET", "/?topic=no", 404),
        ("GET", "/pool", 200),
        ("HEAD", "/pool/status", 200),
        ("GET", "/pool?refresh=1", 400),
    ):
        request = urllib.request.Request(url + path, method=method)
        try:
            response = urllib.request.urlopen(request, timeout=5)
        except urllib.error.HTTPError as error:
            response = error
        assert response.status == code
        assert {key: response.headers[key] for key in HEADERS} == dict(HEADERS)
        assert (response.read() == b"") == (method == "HEAD")


def test_the_page_of_the_pool_has_all_brokers_and_names_one_that_is_gone(pair, pulsar_client, topic) -> None:
    client = quiet_client(pair.url)
    client.subscribe(topic, "audit", SHARED)
    serving(pair, topic)
    asked, other = pair.brokers
    urls = {one.url for one in pair.brokers}

    def whole() -> bool:
        found = json.loads(asked.get("/pool/status"))
        states = {one["url"]: one["status"] for one in found["members"]}
        return bool(
            found["member_count"] == 2
            and states.keys() == urls
            and all(states.values())
            and sum(one["broker"]["consumers"] for one in states.values()) >= 1
        )

    wait_until(whole)
    page = asked.get("/pool")
    assert "2 of 2" in page
    assert other.url in page
    assert "<script" not in page
    client.close()
    other.kill()  # its member node stays until its session ends
    wait_until(lambda: "has no figures" in asked.get("/pool") or other.url not in asked.get("/pool"))
    assert asked.url in asked.get("/pool")
