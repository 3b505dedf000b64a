from collections import Counter
from dataclasses import replace

from hypothesis import example, given
from hypothesis import strategies as st
from readonly_engine.broker.pool.member_selector import REFUSED_S, MemberSelector, Nearness, excess
from readonly_engine.broker.pool.membership import Member

MEMBERS = [Member(f"pulsar://pool-{number}.pool-headless.team.svc:6650") for number in range(5)]


@given(st.lists(st.integers(0, 1 << 16), min_size=5, max_size=5), st.integers(1, 40))
def test_many_that_answer_spread_evenly_together(starts, lookups):
    rotations = [MemberSelector(start) for start in starts]
    counts = Counter(rotation.choose(MEMBERS).url for rotation in rotations for _ in range(lookups))
    assert max(counts.values()) - min(counts[member.url] for member in MEMBERS) <= len(rotations)


@given(st.permutations(MEMBERS))
def test_the_order_in_which_members_are_known_does_not_matter(order):
    assert MemberSelector(3).choose(order) == MemberSelector(3).choose(MEMBERS)


def test_clients_with_tls_are_sent_only_where_it_is_spoken():
    secure = replace(MEMBERS[3], tls_url="pulsar+ssl://pool-3.pool-headless.team.svc:6651")
    members = [*MEMBERS[:3], secure]
    rotation = MemberSelector(0)
    assert {rotation.choose(members, tls=True) for _ in range(8)} == {secure}
    assert rotation.choose(MEMBERS, tls=True) is None


ZONES = [replace(member, locality=f"/eu/{zone}") for member, zone in zip(MEMBERS, "aabbb", strict=True)]


def test_without_a_locality_all_members_are_equal():
    selector = MemberSelector(2)
    assert Counter(selector.choose(ZONES).url for _ in range(10)) == {member.url: 2 for member in ZONES}
    assert selector.selected[Nearness.UNKNOWN] == 10


@given(st.integers(0, 1 << 16), st.permutations(["/eu/a"] * 20 + ["/eu/b"] * 30 + ["/us"] * 10))
def test_each_locality_spreads_evenly_whatever_comes_between(start, asked):
    """Turns of one locality must not skip members because another locality took the turn between."""
    selector = MemberSelector(start)
    chosen = [(locality, selector.choose(ZONES, locality=locality).url) for locality in asked]
    at_a = Counter(url for locality, url in chosen if locality == "/eu/a")
    at_b = Counter(url for locality, url in chosen if locality == "/eu/b")
    assert sorted(at_a) == [member.url for member in ZONES[:2]]
    assert sorted(at_b) == [member.url for member in ZONES[2:]]
    totals = Counter(url for _, url in chosen)
    for zone in (ZONES[:2], ZONES[2:]):
        counts = [totals[member.url] for member in zone]
        assert max(counts) - min(counts) <= 2


def test_members_that_left_are_forgotten():
    selector = MemberSelector(0)
    for number in range(100):
        selector.choose([Member(f"pulsar://broker-{number}:6650"), Member(f"pulsar://broker-{number + 1}:6650")])
    assert len(selector._turns) <= 3


def test_excess_is_what_brings_a_broker_to_the_mean():
    members = [replace(MEMBERS[0], consumers=100), MEMBERS[1]]
    assert excess(100, members) == 50
    assert excess(6, [replace(MEMBERS[0], consumers=6), MEMBERS[1]]) == 3


def test_small_differences_are_left_alone():
    assert excess(110, [replace(MEMBERS[0], consumers=110), replace(MEMBERS[1], consumers=90)]) == 0
    assert excess(2, [replace(MEMBERS[0], consumers=2), MEMBERS[1]]) == 0
    assert excess(1000, [replace(MEMBERS[0], consumers=1000)]) == 0, "who is alone keeps all"


@given(st.lists(st.integers(0, 1000), min_size=2, max_size=5))
@example([0, 0, 0, 0, 7])
def test_moving_the_excess_settles(loads):
    """What one sends on, the others get; after a few rounds nobody has any excess."""
    loads = list(loads)
    rotations = [MemberSelector(index) for index in range(len(loads))]
    for _ in range(60):
        members = [replace(member, consumers=load) for member, load in zip(MEMBERS, loads, strict=False)]
        surplus = [excess(load, members) for load in loads]
        if not any(surplus):
            return
        giver = surplus.index(max(surplus))
        for _ in range(max(1, loads[giver] // 10)):
            loads[giver] -= 1
            loads[MEMBERS.index(replace(rotations[giver].choose(members), consumers=0))] += 1
    raise AssertionError(loads)


def test_a_member_that_refused_a_connection_gets_no_clients_for_a_while():
    secure = replace(MEMBERS[2], tls_url="pulsar+ssl://pool-2.pool-headless.team.svc:6651")
    members = [MEMBERS[0], MEMBERS[1], secure]
    selector = MemberSelector(0)
    selector.note_refused(MEMBERS[1].url, members, now=100.0)
    selector.note_refused(secure.tls_url, members, now=100.0)
    selector.note_refused("pulsar://owner:6650", members, now=100.0)
    assert {selector.choose(members, now=100.0 + REFUSED_S - 0.01) for _ in range(8)} == {MEMBERS[0]}
    assert selector.choose([MEMBERS[1]], now=100.0) == MEMBERS[1]
    assert {selector.choose(members, now=100.0 + REFUSED_S) for _ in range(8)} == set(members)
