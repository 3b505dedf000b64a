"""Findings about names, brokers, admin API, versions, clocks and this machine, with every result."""

import re
from pathlib import Path

import pytest
from readonly_engine.doctor.checks.admin_api import AdminAnswer, admin_findings
from readonly_engine.doctor.checks.brokers import (
    BrokerHandshake,
    OwnerLookup,
    broker_findings,
    owner_findings,
    version_in,
)
from readonly_engine.doctor.checks.clocks import ClockSample, clock_difference, clock_findings
from readonly_engine.doctor.checks.failure import ADMIN_API, BOOKIES, Failure, FailureKind, remedy_of
from readonly_engine.doctor.checks.finding import Finding, Result, fail, ok, warn, worst
from readonly_engine.doctor.checks.machine import Machine, machine_findings
from readonly_engine.doctor.checks.names import HostName, Resolution, name_findings
from readonly_engine.doctor.checks.versions import TESTED_PULSAR, version_findings

SUPPORT = Path(__file__).parents[4] / "docs" / "reference" / "support.md"
DATE = "Thu, 26 Nov 2026 00:00:10 GMT"
AT = 1795651210.0
REFUSED = Failure(FailureKind.REFUSED, "refused")
WRONG_TOKEN = Failure(FailureKind.CREDENTIALS, "Failed to authenticate")


def results(findings: list[Finding]) -> list[str]:
    return [one.result.value for one in findings]


def test_the_worst_result_counts():
    assert worst([]) is Result.OK
    assert worst([ok("a", "x"), warn("b", "x", "y")]) is Result.WARN
    assert worst([fail("c", "x", "y"), ok("a", "x"), warn("b", "x", "y")]) is Result.FAIL


@pytest.mark.parametrize("kind", FailureKind)
def test_every_kind_of_failure_has_a_remedy(kind):
    for options in (ADMIN_API, BOOKIES):
        assert remedy_of(Failure(kind, "x"), options)


def test_names_of_one_option():
    resolved = Resolution(HostName("a", "service-url"), tuple(f"10.0.0.{number}" for number in range(6)))
    lost = Resolution(HostName("b", "service-url"), problem="Name or service not known")
    assert results(name_findings([resolved, lost])) == ["ok", "warn"]
    assert results(name_findings([lost])) == ["fail"]
    assert name_findings([resolved])[0].observed == "10.0.0.0, 10.0.0.1, 10.0.0.2, 10.0.0.3 and 2 more"
    (found,) = name_findings([lost])
    assert found.subject == "b (service-url)"
    assert "does not resolve: Name or service not known" in found.observed


def test_a_name_for_clients_alone_is_a_warning():
    (found,) = name_findings([Resolution(HostName("x", "advertised-url", required=False), problem="no")])
    assert found.result is Result.WARN


def test_a_broker_that_answers():
    shaken = BrokerHandshake("pulsar://a", None, "Pulsar Server4.0.8", 21)
    (found,) = broker_findings([shaken], "token", required=False)
    assert found == ok(
        "service URL", "answers: Pulsar Server4.0.8, protocol 21; accepts the token of the pool", "pulsar://a"
    )
    old = BrokerHandshake("pulsar://a", None, "Pulsar Server3.0.0", 20)
    (found,) = broker_findings([old], "", required=False)
    assert (found.result, "accepts clients without credentials" in found.observed) == (Result.WARN, True)


def test_one_broker_of_several_is_enough():
    lost, good = BrokerHandshake("pulsar://a", REFUSED), BrokerHandshake("pulsar://b", None, "Pulsar Server4.0.8", 21)
    assert results(broker_findings([lost, good], "", required=False)) == ["warn", "ok"]
    assert results(broker_findings([lost], "", required=False)) == ["fail"]


@pytest.mark.parametrize(
    ("credentials", "required", "result"), [("token", False, "fail"), ("", False, "ok"), ("", True, "fail")]
)
def test_refused_credentials(credentials, required, result):
    """Without credentials of its own a pool passes those of clients on, unless it keeps cursors itself."""
    (found,) = broker_findings([BrokerHandshake("pulsar://a", WRONG_TOKEN)], credentials, required=required)
    assert found.result == result


def test_owners_of_topics():
    forbidden = Failure(FailureKind.RIGHTS, "not authorized")
    cases = [
        (OwnerLookup("t", "pulsar://a"), "token", "ok"),
        (OwnerLookup("t", failure=forbidden), "token", "fail"),
        (OwnerLookup("t", failure=forbidden), "", "warn"),
        (OwnerLookup("t", failure=REFUSED), "", "fail"),
    ]
    for lookup, credentials, result in cases:
        assert results(owner_findings([lookup], credentials)) == [result]
    assert "advertisedAddress" in owner_findings([cases[3][0]], "")[0].remedy


@pytest.mark.parametrize(
    ("text", "version"),
    [("Pulsar Server4.0.8", "4.0.8"), ("Pulsar Server5.0.0-M1", "5.0.0-M1"), ("", ""), ("proxy", "")],
)
def test_the_version_in_a_handshake(text, version):
    assert version_in(text) == version


def test_the_admin_api():
    good = AdminAnswer("http://a", version="4.0.8", configuration={"x": "y"})
    lost = AdminAnswer("http://b", REFUSED)
    assert results(admin_findings([good, lost])) == ["ok", "warn", "ok"]
    assert results(admin_findings([lost])) == ["fail"]
    wrong = AdminAnswer("http://b", WRONG_TOKEN)
    (_, found, _) = admin_findings([good, wrong])
    assert (found.result, found.remedy) == (Result.FAIL, "set admin-token-file to valid credentials")


def test_a_role_that_is_no_superuser():
    refused = AdminAnswer(
        "http://a", version="4.0.8", configuration_failure=Failure(FailureKind.RIGHTS, "401: not permitted")
    )
    found = admin_findings([refused])
    assert results(found) == ["ok", "warn"]
    assert "superuser" in found[1].remedy
    broken = AdminAnswer("http://a", version="4.0.8", configuration_failure=Failure(FailureKind.OTHER, "500"))
    assert admin_findings([broken])[1].observed == "configuration unknown: 500"


def test_the_tested_versions_are_those_of_the_support_page():
    rows = re.findall(r"^\| Pulsar \| (\S+) \|", SUPPORT.read_text(encoding="utf-8"), re.MULTILINE)
    assert tuple(rows) == TESTED_PULSAR


@pytest.mark.parametrize(
    ("version", "result"),
    [("4.0.8", "ok"), ("4.0.99", "ok"), ("4.1.0", "warn"), ("6.0.0", "warn"), ("3.3.1", "fail"), ("dev", "warn")],
)
def test_versions(version, result):
    assert results(version_findings({"http://a": version})) == [result]


def test_different_and_unknown_versions():
    found = version_findings({"http://a": "4.0.8", "http://b": "4.2.4", "pulsar://a": "4.0.8", "pulsar://b": ""})
    assert results(found) == ["ok", "ok", "warn"]
    assert found[0].subject == "http://a, pulsar://a"
    assert results(version_findings({"http://a": ""})) == ["warn"]
    assert results(version_findings({})) == ["warn"]


def test_the_difference_of_clocks_has_a_bound():
    difference, bound = clock_difference(ClockSample("u", DATE, AT - 1, AT + 3))
    assert (difference, bound) == (-0.5, 2.5)
    difference, bound = clock_difference(ClockSample("u", DATE, AT + 0.5, AT + 0.5))
    assert (difference, bound) == (0.0, 0.5)


@pytest.mark.parametrize(
    ("ahead", "round_trip", "result"),
    [(0, 0.01, "ok"), (1.4, 0.1, "ok"), (5, 0.1, "warn"), (-5, 0.1, "warn"), (5, 10, "ok"), (90, 0.1, "fail")],
)
def test_clocks(ahead, round_trip, result):
    middle = AT + 0.5 - ahead
    sample = ClockSample("u", DATE, middle - round_trip / 2, middle + round_trip / 2)
    (found,) = clock_findings([sample])
    assert found.result == result
    if result != "ok":
        assert ("ahead of" if ahead > 0 else "behind") in found.observed


@pytest.mark.parametrize("date", ["", "yesterday", "Thu, 99 Nov 2026 00:00:10 GMT", "Thu, 26 Nov 99999 00:00:10 GMT"])
def test_a_clock_without_a_valid_date(date):
    (found,) = clock_findings([ClockSample("u", date, AT, AT)])
    assert (found.result, found.observed[:12]) == (Result.WARN, "not measured")


@pytest.mark.parametrize(
    ("machine", "expected"),
    [
        (Machine(65536, 4, 4, 0), ["ok", "ok"]),
        (Machine(1024, 4, 1, 0), ["warn", "ok"]),
        (Machine(1024, 4, 1, 512), ["ok", "ok"]),
        (Machine(1024, 4, 1, 513), ["fail", "ok"]),
        (Machine(1024, 4, 4, 2048), ["ok", "ok"]),  # 512 for each worker
        (Machine(65536, 1.5, 4, 0), ["ok", "warn"]),
        (Machine(65536, 0.5, 1, 0), ["ok", "ok"]),
    ],
)
def test_this_machine(machine, expected):
    assert results(machine_findings(machine)) == expected


def test_the_remedy_for_open_files_has_both_numbers():
    (found, _) = machine_findings(Machine(1024, 4, 2, 4000))
    assert found.observed == "at most 1024 for each process; max-connections needs 2512"
    assert found.remedy.startswith(
        "raise the hard limit (ulimit -Hn, LimitNOFILE) to 2512, or set max-connections to 1024"
    )


def test_no_limit_of_open_files():
    (found, _) = machine_findings(Machine(2**63 - 1, 4, 1, 9000))
    assert found == ok("open files", "no limit; max-connections needs 9512")
