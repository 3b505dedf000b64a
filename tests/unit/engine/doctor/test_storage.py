"""Findings about the metadata store, bookies, explicit LAC, topics and tiered storage, with every result."""

from dataclasses import replace

import pytest
from readonly_engine.doctor.checks import metadata_store
from readonly_engine.doctor.checks.bookies import BookieAnswer, BookieAnswers, bookie_findings
from readonly_engine.doctor.checks.explicit_lac import LacSample, TopicLac, confirmation_s, lac_findings
from readonly_engine.doctor.checks.failure import Failure, FailureKind
from readonly_engine.doctor.checks.finding import Finding, Result
from readonly_engine.doctor.checks.metadata_store import (
    AVAILABLE,
    LEDGERS,
    NodeAnswer,
    ReadPath,
    StoreAnswers,
    read_paths,
    store_findings,
)
from readonly_engine.doctor.checks.tiered import OffloadedCopy, tiered_findings
from readonly_engine.doctor.checks.topics import (
    NamespaceAnswers,
    Policies,
    TopicAnswers,
    namespace_findings,
    policy_findings,
    topic_findings,
)

DENIED = Failure(FailureKind.RIGHTS, "the right read on /x is missing; grant it to that user with setAcl")
LOST = Failure(FailureKind.TIMEOUT, "no answer in time")
TOPICS = ReadPath("/managed-ledgers", "ledgers of topics")
NO_POLICY = Policies("", ["a"])


def results(findings: list[Finding]) -> list[str]:
    return [one.result.value for one in findings]


# Metadata store


def test_a_store_that_cannot_be_used_is_one_failure():
    for failure, remedy in ((LOST, "let this machine reach"), (DENIED, "correct the option or the right")):
        (found,) = store_findings(StoreAnswers("zk:a:1", failure), "p", "")
        assert (found.result, found.subject) == (Result.FAIL, "zk:a:1")
        assert found.remedy.startswith(remedy)


def test_racks_are_read_with_a_locality_only():
    assert [one.path for one in read_paths(locality=True)][-1] == "/bookies"
    assert "/bookies" not in [one.path for one in read_paths(locality=False)]


def test_reads_of_the_store():
    reads = [NodeAnswer(TOPICS), NodeAnswer(LEDGERS), NodeAnswer(AVAILABLE, exists=True)]
    found = store_findings(StoreAnswers("zk:a:1", None, reads), "p", "")
    assert [(one.result.value, one.subject) for one in found] == [
        ("ok", "zk:a:1"),
        ("warn", "/managed-ledgers"),
        ("fail", "/ledgers"),
        ("ok", ""),
    ]
    found = store_findings(StoreAnswers("zk:a:1", None, [NodeAnswer(TOPICS, failure=DENIED)]), "p", "")
    assert (found[1].result, found[1].observed) == (Result.FAIL, DENIED.text)


def test_writes_of_the_store():
    found = store_findings(StoreAnswers("zk:a:1", None, (), {"/a": None, "/b": DENIED, "/c": LOST}), "p", "")
    assert results(found) == ["ok", "ok", "fail", "fail"]
    assert "setAcl" in found[2].remedy
    assert "firewall" in found[3].remedy


@pytest.mark.parametrize(
    ("members", "uid", "result"),
    [
        ({}, "", "ok"),
        ({"pulsar://a": "1"}, "1", "ok"),
        ({"pulsar://a": None}, "1", "ok"),  # of a version that publishes no uid
        ({"pulsar://a": "2", "pulsar://b": "1"}, "1", "fail"),
        ({"pulsar://a": "2"}, "", "fail"),
    ],
)
def test_other_pools_of_the_name(members, uid, result):
    found = store_findings(StoreAnswers("zk:a:1", None, members=members), "p", uid)
    assert results(found) == ["ok", result]
    assert found[1].subject == "p"


def test_unknown_members_of_the_pool():
    found = store_findings(StoreAnswers("zk:a:1", None, members_failure=DENIED), "p", "")
    assert results(found) == ["ok", "fail"]


# Bookies


@pytest.mark.parametrize(
    ("answer", "result", "text"),
    [
        (BookieAnswer("b:1", batch_reads=True), "ok", "4.17 or newer"),
        (BookieAnswer("b:1", read_only=True, batch_reads=True), "ok", "answers, read-only"),
        (BookieAnswer("b:1"), "ok", "batch reads unknown"),
        (BookieAnswer("b:1", batch_reads=False), "warn", "one by one"),
        (BookieAnswer("b:1", failure=LOST), "fail", "no answer"),
    ],
)
def test_a_bookie(answer, result, text):
    (found,) = bookie_findings(BookieAnswers([answer]))
    assert (found.result, found.subject) == (result, "b:1")
    assert text in found.observed


def test_a_bookie_with_another_address_or_an_unknown_name():
    lost = BookieAnswer("b", address="b-0.cluster:3181", failure=Failure(FailureKind.NAME, "unknown"))
    (found,) = bookie_findings(BookieAnswers([lost]))
    assert found.subject == "b at b-0.cluster:3181"
    assert "advertisedAddress" in found.remedy
    refused = BookieAnswer("b:1", failure=Failure(FailureKind.CREDENTIALS, "login refused"))
    assert "bookie-login-file" in bookie_findings(BookieAnswers([refused]))[0].remedy


def test_missing_bookies():
    assert results(bookie_findings(BookieAnswers())) == ["fail"]
    found = bookie_findings(BookieAnswers([BookieAnswer("b:1", batch_reads=True)], ["c:1"]))
    assert [(one.result.value, one.subject) for one in found] == [("ok", "b:1"), ("warn", "c:1")]
    assert results(bookie_findings(BookieAnswers(failure=DENIED))) == ["fail"]


# Explicit LAC


def samples(*ends: tuple[float, int, int], explicit: bool = False) -> list[LacSample]:
    return [LacSample(at, lac, last, explicit) for at, lac, last in ends]


@pytest.mark.parametrize(
    ("ends", "expected"),
    [
        ([], (None, 0.0)),
        ([(0, 4, 4), (1, 4, 4)], (None, 0.0)),
        ([(0, 3, 4), (0.25, 3, 4), (0.5, 4, 4)], (0.5, 0.0)),
        ([(0, 3, 4), (1, 4, 5), (2, 5, 5)], (1, 0.0)),  # 4 was confirmed by 5
        ([(0, 3, 4), (3, 3, 4)], (None, 3)),
        ([(0, 3, 4), (1, 4, 4), (2, 4, 5), (5, 4, 5)], (1, 3)),
    ],
)
def test_how_long_a_confirmation_takes(ends, expected):
    assert confirmation_s(samples(*ends)) == expected


@pytest.mark.parametrize(
    ("interval", "result"), [(200, "ok"), (1000, "ok"), (5000, "warn"), (0, "warn"), (-1, "warn"), (None, "warn")]
)
def test_the_setting_of_explicit_lac(interval, result):
    assert results(lac_findings({"b:8080": interval}, ())) == [result]


def test_settings_of_several_brokers():
    found = lac_findings({"b:1": 200, "b:2": 0, "b:3": 200}, ())
    assert [(one.result.value, one.subject) for one in found] == [("warn", "b:2"), ("ok", "b:1, b:3")]
    assert results(lac_findings({}, ())) == ["warn"]


@pytest.mark.parametrize(
    ("topic", "result", "text"),
    [
        (TopicLac("t", problem="no bookie answered"), "warn", "not measured: no bookie"),
        (TopicLac("t"), "ok", "no open ledger"),
        (TopicLac("t", open=True, samples=samples((0, -1, -1))), "ok", "has no entry"),
        (TopicLac("t", open=True, samples=samples((0, 4, 4), explicit=True)), "ok", "up to entry 4 of 4"),
        (
            TopicLac("t", open=True, samples=samples((0, 3, 4), (0.25, 4, 4), explicit=True)),
            "ok",
            "confirmed within 0.25 s",
        ),
        (TopicLac("t", open=True, samples=samples((0, 3, 4), (3, 3, 4), explicit=True)), "warn", "after 3.0 s"),
        (TopicLac("t", open=True, samples=samples((0, 3, 4), (3, 3, 4))), "warn", "entry 4 of the open ledger is"),
        (TopicLac("t", open=True, samples=samples((0, 3, 4), (0.5, 4, 4))), "ok", "within 0.50 s"),
        (TopicLac("t", open=True, samples=samples((0, 4, 4))), "warn", "bookies have none"),
    ],
)
def test_explicit_lac_of_a_topic(topic, result, text):
    (found,) = lac_findings({}, [topic])
    assert (found.result, found.subject) == (result, "t")
    assert text in found.observed


# Topics and namespaces


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (TopicAnswers("t", persistent=False), ["warn"]),
        (TopicAnswers("t", store_failure=DENIED), ["fail"]),
        (TopicAnswers("t", exists=False), ["warn"]),
        (TopicAnswers("t"), ["ok"]),
        (TopicAnswers("t", partitions=4, policies=NO_POLICY), ["ok", "ok"]),
        (TopicAnswers("t", state_failure=DENIED, policies=Policies(problem="401")), ["ok", "fail", "warn"]),
        (TopicAnswers("t", policies=NO_POLICY, direct={"s": 3}), ["ok", "ok", "warn"]),
    ],
)
def test_a_topic(answers, expected):
    assert results(topic_findings(answers, local_cursors=False)) == expected


def test_direct_consumers_do_not_concern_local_cursors():
    answers = TopicAnswers("t", policies=NO_POLICY, direct={f"s{number}": 1 for number in range(6)})
    assert results(topic_findings(answers, local_cursors=True)) == ["ok", "ok"]
    found = topic_findings(answers, local_cursors=False)[-1]
    assert found.observed.endswith("s0 (1), s1 (1), s2 (1), s3 (1) and 2 more")


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        (NamespaceAnswers("a/b", store_failure=LOST), ["fail"]),
        (NamespaceAnswers("a/b", exists=False), ["fail"]),
        (NamespaceAnswers("a/b", topics=3), ["ok"]),
        (NamespaceAnswers("a/b", policies=NO_POLICY), ["ok", "ok"]),
    ],
)
def test_a_namespace(answers, expected):
    assert results(namespace_findings(answers, local_cursors=False)) == expected


@pytest.mark.parametrize(("local", "expected"), [(False, ["ok", "ok"]), (True, ["ok", "ok", "warn"])])
def test_local_cursors_do_not_expire_with_the_subscriptions_of_a_namespace(local, expected):
    answers = NamespaceAnswers("a/b", policies=replace(NO_POLICY, expiration_s=300))
    found = namespace_findings(answers, local_cursors=local)
    assert results(found) == expected
    assert not local or "5 min" in found[-1].observed


@pytest.mark.parametrize(
    ("policies", "local", "expected"),
    [
        (NO_POLICY, False, ["ok"]),
        (Policies("f", ["a"]), False, ["warn"]),
        (Policies("f", ["a"]), True, ["fail"]),
        (Policies("", ["a", "b"]), False, ["warn"]),
        (Policies("", ["a", "b"]), True, ["warn"]),
        (Policies("f", ["a", "b"]), False, ["warn", "warn"]),
        (Policies(None, None, "401"), False, ["warn"]),
    ],
)
def test_policies_that_make_subscriptions_pass_through(policies, local, expected):
    assert results(policy_findings(policies, "t", local_cursors=local)) == expected


# Tiered storage


@pytest.mark.parametrize(
    ("copies", "checked", "expected"),
    [
        ([], 0, []),
        ([], 5, ["ok"]),
        ([OffloadedCopy("t", 1, "aws-s3 b", only_copy=True)], 1, ["ok"]),
        ([OffloadedCopy("t", 1, "aws-s3 b", only_copy=True, problem="no credentials")], 1, ["fail"]),
        ([OffloadedCopy("t", 1, "aws-s3 b", only_copy=False, problem="no credentials")], 1, ["warn"]),
    ],
)
def test_offloaded_ledgers(copies, checked, expected):
    assert results(tiered_findings(copies, checked)) == expected


@pytest.mark.parametrize(
    ("registered", "listed", "result", "text"),
    [
        ({"b1:8080", "b2:8080"}, {"b1:8080"}, "ok", "the admin API's brokers are registered in the store: b1:8080"),
        ({"other:8080"}, {"b1:8080", "b2:8080"}, "fail", "the store has the brokers other:8080, and the admin API"),
        ({f"x{one}:1" for one in range(9)}, {"b1:8080"}, "fail", "x0:1, x1:1, x2:1, x3:1 and 5 more"),
        (set(), {"b1:8080"}, "warn", "no broker is registered in /loadbalance/brokers"),
        (None, {"b1:8080"}, "ok", "not compared: the brokers in /loadbalance/brokers cannot be read"),
        ({"b1:8080"}, None, "ok", "not compared: the admin API's list of brokers cannot be read"),
        ({"b1:8080"}, set(), "ok", "not compared"),
    ],
)
def test_store_and_admin_api_of_two_clusters(registered, listed, result, text):
    """Each of them is healthy. Before, a pool of two clusters was reported as healthy."""
    (found,) = metadata_store.cluster_findings(
        *(None if one is None else frozenset(one) for one in (registered, listed))
    )
    assert (found.check, found.result) == ("same cluster", result)
    assert text in found.observed
    assert ("metadata-store-url" in found.remedy) == (result != "ok")
