"""What the end-to-end tests make of a history of messages, and of a client's log."""

from typing import Any

import pytest
from readonly_engine.broker.server.drain import DISCONNECT_GRACE_S

from tests.e2e.traffic import History, moves

TOPIC = "persistent://public/default/t"
FOREVER = 1e12
FIRST, SECOND = "10.0.0.9:1 -> 10.0.0.1:6650", "10.0.0.9:2 -> 10.0.0.2:6650"


def history(
    kind: str, *received: list[tuple[int, int]], sent: int = 4, partitions: int = 0, client_log: str = ""
) -> History:
    """A subscription's history: numbers and times in ms, of each consumer; a message is sent each 10 ms."""
    consumers = [
        {"name": f"c{index}", "topic": TOPIC, "subscription": "s", "type": kind} for index in range(len(received))
    ]
    report: dict[str, Any] = {
        "began": 0,
        "ended": 60_000,
        "sent": {TOPIC: [10 * number for number in range(sent)]},
        "failed": [],
        "backlogs": {"s": 0},
        "received": {f"c{index}": [(*got, 0) for got in one] for index, one in enumerate(received)},
    }
    return History({"topics": {TOPIC: partitions}, "consumers": consumers}, report, client_log)


@pytest.mark.parametrize("kind", ["Exclusive", "Shared", "Key_Shared", "Reader"])
def test_a_history_in_which_all_is_well(kind: str) -> None:
    seen = history(kind, [(0, 5), (2, 25)], [(1, 15), (3, 90)])
    seen.check()
    assert seen.gaps() == {"s": 0.06}


def test_what_is_lost_or_comes_twice_is_named() -> None:
    with pytest.raises(AssertionError, match=r"lost: \{'s': \[1\]\}"):
        history("Shared", [(0, 5), (2, 25), (3, 35)]).check()
    with pytest.raises(AssertionError, match=r"more than once: \{'s': \[2\]\}"):
        history("Shared", [(0, 5), (1, 6), (2, 25), (3, 35)], [(2, 40)]).check()


@pytest.mark.parametrize(
    ("kind", "partitions", "wrong"),
    [("Shared", 0, []), ("Key_Shared", 0, [1]), ("Exclusive", 0, [1, 10]), ("Exclusive", 4, [1])],
)
def test_the_order_is_that_of_the_topic_or_of_a_key(kind: str, partitions: int, wrong: list[int]) -> None:
    numbers = [0, *range(2, 10), 11, 1, 10]  # 1 and 11 have the same key
    got = [(number, 200 + index) for index, number in enumerate(numbers)]
    assert history(kind, got, sent=12, partitions=partitions).disorder() == ({"s": wrong} if wrong else {})


def log(*lines: tuple[float, str]) -> str:
    """Lines of a client's log: seconds and text."""
    return "\n".join(f"1970-01-01 00:00:{at:06.3f} INFO  [77] Some:1 | {text}" for at, text in lines)


CREATED = (1.0, f"[{TOPIC}, s, 0] Created consumer on broker [{FIRST}] ")
TOLD = (5.0, "Broker notification of Closed consumer: 0")
GONE = (5.2, f"[{FIRST}] Connection disconnected (refCnt: 4)")


def test_a_consumer_that_moves_between_addresses_of_ipv6() -> None:
    first, second = "[fd00::4f]:45624 -> [fd00::a]:6650", "[fd00::4f]:45630 -> [fd00::b]:6650"
    created, moved = (f"[{TOPIC}, s, 0] Created consumer on broker [{one}] " for one in (first, second))
    found = moves(log((1.0, created), TOLD, (5.1, moved), (5.2, f"[{first}] Connection disconnected")), FOREVER)
    assert [(move.told, move.back) for move in found.done] == [(5.0, 5.1)]
    found.check()


def test_a_consumer_that_moves_in_time() -> None:
    found = moves(log(CREATED, TOLD, (5.1, f"[{TOPIC}, s, 0] Created consumer on broker [{SECOND}] "), GONE), FOREVER)
    assert [(move.told, move.back) for move in found.done] == [(5.0, 5.1)]
    found.check()


def test_a_consumer_whose_connection_ended_too_soon() -> None:
    found = moves(log(CREATED, TOLD, GONE, (5.3, f"[{TOPIC}, s, 0] Created consumer on broker [{SECOND}] ")), FOREVER)
    assert not found.done
    assert [(move.told, move.back) for move in found.late] == [(5.0, 5.3)]
    found.done.append(found.late[0])
    with pytest.raises(AssertionError, match="their connection ended before they were elsewhere"):
        found.check()


def test_a_consumer_that_took_its_time() -> None:
    back = 5.1 + DISCONNECT_GRACE_S
    found = moves(log(CREATED, TOLD, GONE, (back, f"[{TOPIC}, s, 0] Created consumer on broker [{SECOND}] ")), FOREVER)
    found.done.append(found.late[0])
    found.check()


def test_a_consumer_that_was_told_nothing() -> None:
    found = moves(log(CREATED, GONE), FOREVER)
    assert found.cut == [f"{TOPIC}, s, 0"]
    found.done.append(None)  # type: ignore[arg-type]
    with pytest.raises(AssertionError, match="not told before their connection ended"):
        found.check()


def test_what_clients_do_at_their_end_does_not_count() -> None:
    assert moves(log(CREATED, GONE), 5.0).cut == []


def test_what_comes_again_because_its_ack_was_under_way_is_no_fault() -> None:
    moved = log(CREATED, (9.0, TOLD[1]), (9.4, f"[{TOPIC}, s, 0] Created consumer on broker [{SECOND}] "))
    got = [(0, 2_000), (1, 8_900), (2, 9_500), (0, 9_600), (1, 9_700), (2, 9_800)]
    seen = history("Shared", got, sent=3, client_log=moved)
    assert seen.again() == ({"s": [0, 2]}, {"s": [1]})
    with pytest.raises(AssertionError, match=r"more than once: \{'s': \[0, 2\]\}"):
        seen.check()


def test_a_failover_consumer_takes_over_a_second_after_it_is_back() -> None:
    moved = log(CREATED, (9.0, TOLD[1]), (9.4, f"[{TOPIC}, s, 0] Created consumer on broker [{SECOND}] "))
    got = [(0, 10_300), (1, 10_500), (0, 10_600), (1, 10_700)]
    seen = history("Failover", got, sent=2, client_log=moved)
    assert seen.again() == ({"s": [1]}, {"s": [0]})
    with pytest.raises(
        AssertionError, match=r"s: delivered 1 to c0 at 10.50, 1 to c0 at 10.70; moved .* from 9.00 to 9.40"
    ):
        seen.check()
