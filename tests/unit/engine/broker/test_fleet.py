from __future__ import annotations

import pytest
from readonly_engine.broker.fleet import Member, decode_member, encode_member

URL = "pulsar://pool-0.pool-headless.team.svc:6650"


def test_a_member_is_read_as_it_was_written():
    member = Member(URL, "pulsar+ssl://pool-0.pool-headless.team.svc:6651", 17)
    assert decode_member(URL, encode_member(member)) == member


@pytest.mark.parametrize(
    "value", [b"", b"{", b"[]", b'"x"', b"\xff", b'{"tls_url": 3, "consumers": "many"}', b'{"consumers": -1}']
)
def test_what_another_version_wrote_is_a_member_all_the_same(value):
    assert decode_member(URL, value) == Member(URL)
