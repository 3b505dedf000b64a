import pytest

from devstack.common.run import tail
from longtests.chaos.stack import lacked_store

REFUSED = "pulsar-readonly serve: --metadata-store-url: no ZooKeeper answers at 198.18.17.9:31870 within 10 s"


@pytest.mark.parametrize(
    "log",
    [
        REFUSED,
        f"2026-11-23 13:29:13 WARNING kazoo.client: Connection dropped\n{REFUSED}\n",
        tail(f"earlier\n{REFUSED}\n"),
        "pulsar-readonly serve: --metadata-store-url: Oxia at 198.18.17.9:31870: no Oxia answers within 10 s (refused)",
        "pulsar-readonly serve: --metadata-store-url: ZooKeeper at 198.18.17.9:31870: ConnectionLoss",
    ],
)
def test_the_last_line_of_the_log_shows_a_start_without_the_metadata_store(log):
    assert lacked_store(log)


@pytest.mark.parametrize("log", ["", f"{REFUSED}\n2026-11-23 13:29:16 INFO readonly_engine: serving\n"])
def test_any_other_exit_is_a_violation(log):
    assert not lacked_store(log)
