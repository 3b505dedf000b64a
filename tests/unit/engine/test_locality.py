"""Where a broker is, from a file that is written after it has started."""

import asyncio
import logging

from readonly_engine.bookkeeper.replicas import ReplicaOrder
from readonly_engine.locality import LocalityFile


def test_a_broker_reads_near_bookies_first_once_it_knows_where_it_is(tmp_path):
    choice = ReplicaOrder("", lambda: 0.0)
    choice.place({"bookie-a": "/zone-a", "bookie-b": "/zone-b"})
    file = LocalityFile(tmp_path / "locality", choice.move)
    file.reload()
    assert choice.order(["bookie-a", "bookie-b"], 0.0) == ["bookie-a", "bookie-b"]
    (tmp_path / "locality").write_text("")
    file.reload()
    (tmp_path / "locality").write_text("/zone-b\n")
    file.reload()
    assert choice.order(["bookie-a", "bookie-b"], 0.0) == ["bookie-b", "bookie-a"]


def test_nonsense_is_complained_about_once_and_changes_nothing(tmp_path, caplog):
    found = []
    path = tmp_path / "locality"
    file = LocalityFile(path, found.append)
    path.write_text("zone-a")
    with caplog.at_level(logging.WARNING):
        file.reload()
        file.reload()
    assert found == []
    assert [record.getMessage() for record in caplog.records] == [
        f"locality-file {path}: must be /RACK or /ZONE/RACK, not 'zone-a'"
    ]


async def _followed(path):
    found: asyncio.Queue[str] = asyncio.Queue()
    task = asyncio.create_task(LocalityFile(path, found.put_nowait).follow())
    try:
        path.write_text("/zone-a")
        return await asyncio.wait_for(found.get(), 30)
    finally:
        task.cancel()


def test_the_file_is_followed(tmp_path):
    assert asyncio.run(_followed(tmp_path / "locality")) == "/zone-a"
