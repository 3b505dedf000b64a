"""Requests to the admin API: redirects to the topic's owner, several hosts, missing things."""

from dataclasses import replace

import pytest
from readonly_operator.cluster.fetch import FetchError
from readonly_operator.cluster.local_cursors.admin import CursorTopic

from tests.support.played_http import played_http
from tests.unit.operator.cluster.local_cursors.admin_world import GUARD, IDENTITY

TOPIC = "persistent://shop/eu/orders"


@pytest.fixture
def redirecting(world):
    """A broker that owns nothing, and redirects all requests."""

    with played_http(lambda asked: (307, None, {"Location": f"{world.source.admin_url}{asked.path}"})) as port:
        yield replace(world.source, admin_url=f"http://127.0.0.1:{port}")


def test_requests_follow_the_topic_to_its_owner(world, redirecting):
    world.add("shop/eu", "orders", guards=[f"{GUARD}7", "audit"])
    admin = world.admin(redirecting)
    assert admin.guards(TOPIC, IDENTITY) == [f"{GUARD}7"]
    admin.delete_guard(TOPIC, f"{GUARD}7")
    assert world.topics[TOPIC] == ["audit"]


def test_a_refusal_is_an_answer(world):
    world.refused["GET tenants"] = 401
    source = replace(world.source, admin_url=f"http://127.0.0.1:{world.port},127.0.0.1:1")
    with pytest.raises(FetchError) as caught:
        world.admin(source).namespaces()
    assert caught.value.status == 401


def test_what_is_missing_is_no_error(world):
    admin = world.admin()
    assert admin.policies("no/one") == {}
    assert admin.guards(TOPIC, IDENTITY) == []
    assert admin.cursor_topic("shop/eu", IDENTITY) == CursorTopic()
    admin.delete_guard(TOPIC, f"{GUARD}1")
    admin.delete_cursor_topic("shop/eu", IDENTITY)


def test_a_topic_without_the_property_belongs_to_nobody(world):
    world.add("shop/eu", pool="x")
    world.cursors = {name: (count, "") for name, (count, _) in world.cursors.items()}
    assert world.admin().cursor_topic("shop/eu", IDENTITY) == CursorTopic(16, "")
