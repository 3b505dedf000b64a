"""The tables of two releases."""

from longtests.releases.table import Observed, table

BEFORE = Observed(
    "4.2.4",
    {"load manager": "ModularLoadManagerImpl", "policy": "system topic"},
    {"a": "1", "brokerServicePort": "6650", "gone": "x", "same": "2", "shedding": "org.apache.pulsar.A", "text": "x"},
)
AFTER = Observed(
    "5.0.1",
    {"load manager": "ModularLoadManagerImpl", "policy": "store"},
    {"a": "7", "brokerServicePort": "6651", "new": "y", "same": "2", "shedding": "org.apache.pulsar.B", "text": ""},
)


def test_the_tables_have_differences_only_once_and_no_settings_of_the_stack() -> None:
    assert table(BEFORE, AFTER) == [
        "| subject | 4.2.4 | 5.0.1 |",
        "|---|---|---|",
        "| load manager | ModularLoadManagerImpl | = |",
        "| policy | system topic | store |",
        "",
        "1 new: `new`. 1 gone: `gone`. These have another default:",
        "",
        "| setting | 4.2.4 | 5.0.1 |",
        "|---|---|---|",
        "| `a` | `1` | `7` |",
        "| `shedding` | `A` | `B` |",
        "| `text` | `x` | - |",
    ]
