"""A broker tells whether bookies have the explicit LAC of a topic: the operator asks it to see whether explicit LAC works."""

import json
import urllib.error
import urllib.request
from urllib.parse import quote, urlsplit

import pytest

from tests.support.waiting import wait_until


def asked(pool, topic: str) -> dict:
    return json.loads(pool.brokers[0].get(f"/explicit-lac?topic={quote(topic, safe='')}"))


def test_bookies_have_the_last_entry_by_itself(pool, pulsar_client, topic: str) -> None:
    nothing = {"topic": topic, "ledger": None, "open": False, "lastEntry": -1, "lac": -1, "explicit": False}
    assert asked(pool, topic) == nothing
    producer = pulsar_client.create_producer(topic, batching_enabled=False)
    for number in range(2):
        producer.send(b"probe")
        wait_until(lambda last=number: asked(pool, topic)["lac"] == last)
        found = asked(pool, topic)
        assert (found["open"], found["lastEntry"], found["explicit"]) == (True, number, True)


def test_the_topic_of_a_writable_brokers_health_check_needs_no_binding(pool, admin) -> None:
    topic = f"persistent://pulsar/{urlsplit(admin.url).netloc}/healthcheck"
    before = asked(pool, topic)
    with urllib.request.urlopen(f"{admin.url}/admin/v2/brokers/health?topicVersion=V2", timeout=60) as answer:
        assert answer.read() == b"ok"
    wait_until(lambda: asked(pool, topic)["explicit"] and asked(pool, topic) != before)


@pytest.mark.parametrize(
    ("name", "status"), [("non-persistent://x", 400), ("", 400), ("persistent://public/default/not-bound", 404)]
)
def test_topics_that_are_not_bound_are_not_looked_at(pool, name: str, status: int) -> None:
    with pytest.raises(urllib.error.HTTPError) as caught:
        asked(pool, name)
    assert caught.value.code == status
    caught.value.close()
