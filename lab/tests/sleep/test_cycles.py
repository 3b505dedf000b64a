"""The table of cycles, and when a run has failed."""

import pytest

from longtests.sleep.cycles import Cycle, failed, table

NEVER = float("inf")


def made(client="go 1", subscribed=2.0, first=3.0, lost=0, twice=0):
    return Cycle(client, subscribed, first, lost, twice, 30 << 10, 0.0025)


def test_the_table_has_a_row_for_each_client_and_one_for_all():
    cycles = [made(first=3.0), made(first=16.0, twice=1), made("java 2", NEVER, NEVER, lost=20), made(first=4.0)]
    assert [row.split(" | ") for row in table(cycles)[2:]] == [
        ["| go 1", "3", "2.0 s, 2.0 s", "4.0 s, 16.0 s", "1", "0", "1", "30 MiB, 0.25 % of a core |"],
        ["| java 2", "1", "none", "none", "1", "20", "0", "30 MiB, 0.25 % of a core |"],
        ["| all", "4", "2.0 s, never", "4.0 s, never", "2", "20", "1", "30 MiB, 0.25 % of a core |"],
    ]
    assert len(table([made()])) == 3


@pytest.mark.parametrize(
    ("cycle", "wrong"), [(made(first=15.0), False), (made(first=15.1), True), (made(lost=1), True)]
)
def test_a_run_fails_for_a_long_wait_or_a_lost_message(cycle, wrong):
    assert failed([cycle]) is wrong
