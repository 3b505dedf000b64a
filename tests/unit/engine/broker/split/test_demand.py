"""The number of entries that consumers with permits for messages can take."""

import pytest
from readonly_engine.broker.split.demand import FIRST_ENTRIES, entries_wanted


@pytest.mark.parametrize(
    ("permits", "undelivered", "dispatched", "wanted"),
    [
        pytest.param({}, 0, (0, 0), (0, 0), id="nobody has permits"),
        pytest.param({0: 50}, 0, (0, 0), (0, 50), id="fewer than the first"),
        pytest.param({0: 4000}, 0, (0, 0), (0, FIRST_ENTRIES), id="of unknown sizes"),
        pytest.param({0: 4000}, FIRST_ENTRIES, (0, 0), (0, FIRST_ENTRIES), id="of unknown sizes, the second time"),
        pytest.param({0: 4000}, 0, (1, 1), (0, 4000), id="without batches"),
        pytest.param({0: 4001}, 0, (10, 1000), (0, 41), id="in batches"),
        pytest.param({0: 4000}, 40, (10, 1000), (0, 0), id="enough wait"),
        pytest.param({1: 50, 3: 20}, 60, (1, 1), (3, 10), id="the next level"),
    ],
)
def test_entries_wanted(permits, undelivered, dispatched, wanted):
    assert entries_wanted(permits, undelivered, *dispatched) == wanted
