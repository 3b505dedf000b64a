from __future__ import annotations

import pytest
from readonly_engine.broker.pool.membership import Member, decode_member, encode_member
from readonly_engine.config.listeners import Urls

URL = "pulsar://pool-0.pool-headless.team.svc:6650"


OUTSIDE = Urls("pulsar://pool-0.example.com:6650", "pulsar+ssl://pool-0.example.com:6651")


@pytest.mark.parametrize("listeners", [{}, {"external": OUTSIDE, "plain": Urls("pulsar://a:1")}])
def test_a_member_is_read_as_it_was_written(listeners):
    member = Member(URL, "pulsar+ssl://pool-0.pool-headless.team.svc:6651", 17, listeners)
    assert decode_member(URL, encode_member(member)) == member


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
    ],
)
def test_what_another_version_wrote_is_a_member_all_the_same(value):
    assert decode_member(URL, value) == Member(URL)
