"""The catalogue of scenarios, and their known differences."""

from collections import Counter

import pytest

from devstack.clients import CLIENTS
from longtests.compat.differences import ANY, LOCAL_REASONS, QUIRKS, REASONS, quirk, reason
from longtests.compat.scenarios.catalogue import SCENARIOS, SPLIT_SCENARIOS

NAMES = {scenario.name for scenario in SPLIT_SCENARIOS}
CLIENT_NAMES = {str(client) for client in CLIENTS} | {client.language for client in CLIENTS}


def test_there_are_enough_rows_and_each_is_there_once() -> None:
    assert len(SCENARIOS) >= 60
    for what in ([s.name for s in SPLIT_SCENARIOS], [s.title for s in SPLIT_SCENARIOS]):
        assert [name for name, count in Counter(what).items() if count > 1] == []


def test_titles_fit_into_a_table() -> None:
    assert [s.name for s in SCENARIOS if "|" in s.title or "\n" in s.title or not s.title[0].isupper()] == [
        s.name for s in SCENARIOS if s.title.startswith("1,000") or s.title.startswith("20 ")
    ]


def test_reasons_are_of_scenarios_and_clients_that_are_there() -> None:
    assert {scenario for scenario, _ in [*REASONS, *LOCAL_REASONS, *QUIRKS]} <= NAMES
    assert {client for _, client in [*REASONS, *LOCAL_REASONS, *QUIRKS]} <= CLIENT_NAMES | {ANY}


def test_a_reason_is_of_a_release_of_all_releases_or_of_all_clients(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(REASONS, ("commit", "go"), "Go is like that.")
    assert reason("commit", "go-0.19.0")
    assert not reason("commit", "java-4.0.0")
    assert reason("owner_dispatch_stats", "python-3.5.0")
    assert not reason("owner_dispatch_stats", "python-3.5.0", "local")
    assert reason("ack_committed", "python-3.5.0", "local")
    assert not reason("exclusive", "go-0.19.0")
    assert quirk("seek_id", "go-0.14.0")
    assert not quirk("seek_id", "go-0.19.0")
    assert quirk("abort", "go-0.19.0")
