"""When a guard has to move inside of a ledger: where the owner counts its backlog, or would delete it."""

import asyncio

import pytest
from readonly_engine.broker.cursors.guard_policies import GuardPolicies, GuardPolicySource, guard_policies
from readonly_engine.metadata.topic_name import parse_topic_name
from readonly_engine.owner.errors import OwnerUnavailableError
from readonly_engine.owner.namespace_policies import KnownPolicies

from tests.support.played_admin import PlayedAdmin

TOPIC = parse_topic_name("persistent://shop/eu/orders-partition-3")
PRECISE = {"preciseTimeBasedBacklogQuotaCheck": "true"}


def size(limit, name="limitSize"):
    return {"destination_storage": {name: limit, "limitTime": -1, "policy": "producer_exception"}}


def age(limit):
    return {"message_age": {"limitSize": -1, "limitTime": limit, "policy": "producer_request_hold"}}


@pytest.mark.parametrize(
    ("topic", "namespace", "configuration", "expected"),
    [
        ({}, {}, {}, GuardPolicies()),
        ({}, {"backlog_quota_map": {}}, {"backlogQuotaDefaultLimitGB": "-1.0"}, GuardPolicies()),
        ({}, {"backlog_quota_map": size(500)}, {}, GuardPolicies(quota_bytes=500)),
        ({}, {"backlog_quota_map": size(500, "limit")}, {}, GuardPolicies(quota_bytes=500)),
        (size(900), {"backlog_quota_map": size(500)}, {}, GuardPolicies(quota_bytes=500)),
        (size(100), {"backlog_quota_map": size(-1)}, {}, GuardPolicies(quota_bytes=100)),
        ({}, {}, {"backlogQuotaDefaultLimitGB": "0.5"}, GuardPolicies(quota_bytes=1 << 29)),
        ({}, {}, {"backlogQuotaDefaultLimitBytes": "700"}, GuardPolicies(quota_bytes=700)),
        ({}, {"backlog_quota_map": size("nonsense")}, {"backlogQuotaDefaultLimitGB": "inf"}, GuardPolicies()),
        ({}, {"backlog_quota_map": age(60)}, {}, GuardPolicies()),  # the open ledger does not count
        ({}, {"backlog_quota_map": age(60)}, PRECISE, GuardPolicies(quota_s=60)),
        (age(30), {}, PRECISE | {"backlogQuotaDefaultLimitSecond": "40"}, GuardPolicies(quota_s=30)),
        ({}, {"subscription_expiration_time_minutes": 2}, {}, GuardPolicies(expiration_s=120)),
        ({}, {}, {"subscriptionExpirationTimeMinutes": "3"}, GuardPolicies(expiration_s=180)),
        (
            {},
            {"subscription_expiration_time_minutes": 0},
            {"subscriptionExpirationTimeMinutes": "3"},
            GuardPolicies(),
        ),
    ],
)
def test_policies_of_all_levels(topic, namespace, configuration, expected):
    assert guard_policies(topic, namespace, configuration) == expected


MIB = 1 << 20


@pytest.mark.parametrize(
    ("policies", "lag", "entry_bytes", "since_s", "follows"),
    [
        (GuardPolicies(), 10**9, 10**6, 1e9, False),
        (GuardPolicies(quota_bytes=1000 * MIB), 10, MIB, 10.0, True),
        (GuardPolicies(quota_bytes=1000 * MIB), 10, MIB, 9.9, False),
        (GuardPolicies(quota_bytes=1000 * MIB), 9, MIB, 1e9, False),
        (GuardPolicies(quota_bytes=10 * MIB), 1, MIB, 10.0, True),
        (GuardPolicies(quota_bytes=10 * MIB), 1, MIB - 1, 10.0, False),
        (GuardPolicies(quota_bytes=10 * MIB), 1, 0, 10.0, True),  # unknown
        (GuardPolicies(quota_bytes=10 * MIB), 0, MIB, 1e9, False),
        (GuardPolicies(quota_s=600), 1, 1, 60.0, True),
        (GuardPolicies(quota_s=600), 1, 1, 59.9, False),
        (GuardPolicies(quota_s=20), 1, 1, 9.9, False),
    ],
)
def test_it_follows_at_a_share_of_a_quota_and_seldom(policies, lag, entry_bytes, since_s, follows):
    assert policies.follows(lag, entry_bytes, since_s) == follows


@pytest.mark.parametrize(
    ("known", "own", "expected", "asked"),
    [
        (None, None, None, 0),
        (KnownPolicies({"backlog_quota_map": size(7)}, {}, own=False), size(5), GuardPolicies(quota_bytes=7), 0),
        (KnownPolicies({"backlog_quota_map": size(7)}, {}, own=True), size(5), GuardPolicies(quota_bytes=5), 1),
        (KnownPolicies({"backlog_quota_map": size(7)}, {}, own=True), None, GuardPolicies(quota_bytes=7), 1),
        (KnownPolicies({}, {}, own=True), OwnerUnavailableError("silent"), None, 1),
    ],
)
def test_a_topic_is_asked_about_only_where_it_may_have_its_own_quota(known, own, expected, asked):
    admin = PlayedAdmin(topic_policy=own, known=known)
    assert asyncio.run(GuardPolicySource(admin, admin).of(TOPIC)) == expected
    request = (parse_topic_name("persistent://shop/eu/orders"), "backlogQuotaMap")
    assert admin.requests("topic_policy") == [request] * asked


async def test_an_expiration_is_warned_of_once_for_a_namespace(caplog):
    known = KnownPolicies({"subscription_expiration_time_minutes": 2}, {}, own=False)
    admin = PlayedAdmin(known=known)
    source = GuardPolicySource(admin, admin)
    for _ in range(3):
        await source.of(TOPIC)
    (record,) = caplog.records
    assert "namespace=shop/eu minutes=2" in record.getMessage()
