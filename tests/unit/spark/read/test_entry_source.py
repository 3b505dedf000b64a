"""Ledgers that were offloaded, and removed from the bookies, after the plan was made."""

from types import SimpleNamespace

import pytest
from readonly_engine.bookkeeper.errors import NoSuchLedgerError, ReadFailedError
from readonly_engine.metadata.errors import AccessDeniedError, MetadataUnavailableError
from readonly_engine.wire.managed_ledger_pb2 import LedgerInfo, OffloadContext
from readonly_spark.errors import SourceError
from readonly_spark.options import parse_options
from readonly_spark.read import entry_source
from readonly_spark.read.entry_source import EntrySource
from readonly_spark.read.task_reader import read_task
from readonly_spark.task import LedgerLocation, TaskPlan

LOST = "no bookie knows it"


class Cluster:
    """The bookies, the metadata store and tiered storage of a topic with ledger 5, which has entries 0 to 9."""

    def __init__(self) -> None:
        self.removed_at = 4
        self.listed: list[LedgerInfo] | None = None
        self.refusal: Exception | None = None
        self.lookups = 0

    def at_bookies(self, ledger_id, metadata, first, last, entry_bytes):
        for entry_id in range(first, last + 1):
            if entry_id >= self.removed_at:
                raise NoSuchLedgerError(LOST)
            yield [SimpleNamespace(entry_id=entry_id, place="bookies")]

    def stores(self, *_):
        async def nothing():
            pass

        async def start():
            self.lookups += 1
            if self.refusal is not None:
                raise self.refusal

        async def topic(_):
            return None if self.listed is None else SimpleNamespace(ledger_info=self.listed)

        return SimpleNamespace(start=start, close=nothing, cluster=SimpleNamespace(topic=topic))

    def tiered(self, _):
        async def read(first, last, *, views):
            return [SimpleNamespace(entry_id=entry_id, place="tiered") for entry_id in range(first, last + 1)]

        async def opened(*_):
            return SimpleNamespace(read=read)

        return SimpleNamespace(open=opened)


@pytest.fixture
def cluster(monkeypatch):
    made = Cluster()
    monkeypatch.setattr(entry_source, "ClusterStores", made.stores)
    monkeypatch.setattr(entry_source, "TieredStorage", made.tiered)
    return made


@pytest.fixture
def source(cluster):
    options = parse_options({"metadataStoreUrl": "zk:h:1", "topic": "a"}, streaming=False)
    made = EntrySource(TaskPlan((), {}, options))
    made._bookies.close()
    made._bookies = SimpleNamespace(read=cluster.at_bookies, close=lambda: None)
    yield made
    made.close()


def read(source):
    location = LedgerLocation(5, 9, SimpleNamespace())
    found = source.read("persistent://a/b/c", location, 0, 9, 1000.0)
    return [(one.entry_id, one.place) for part in found for one in part]


def listed(*, complete: bool) -> list[LedgerInfo]:
    context = OffloadContext(uid_msb=1, uid_lsb=2, complete=complete)
    return [LedgerInfo(ledger_id=4), LedgerInfo(ledger_id=5, offload_context=context), LedgerInfo(ledger_id=6)]


def test_a_ledger_that_was_offloaded_after_the_plan_is_read_from_there(source, cluster):
    cluster.listed = listed(complete=True)
    places = ["bookies"] * 4 + ["tiered"] * 6
    assert read(source) == list(enumerate(places))
    assert read(source) == [(entry_id, "tiered") for entry_id in range(10)]
    assert cluster.lookups == 1


@pytest.mark.parametrize("found", [None, [], [LedgerInfo(ledger_id=6)], listed(complete=False)])
def test_a_ledger_that_was_not_offloaded_is_lost(source, cluster, found):
    cluster.listed = found
    for _ in range(2):
        with pytest.raises(NoSuchLedgerError, match=LOST):
            read(source)
    assert cluster.lookups == 1


@pytest.mark.parametrize(
    ("refusal", "refused"),
    [(MetadataUnavailableError("no answer"), False), (AccessDeniedError("no rights"), True), (TimeoutError(), False)],
)
def test_a_ledger_is_not_lost_while_the_metadata_store_does_not_answer(source, cluster, refusal, refused):
    cluster.refusal = refusal
    with pytest.raises(ReadFailedError, match="whether it was offloaded meanwhile is unknown") as caught:
        read(source)
    assert caught.value.refused == refused
    cluster.refusal, cluster.listed = None, listed(complete=True)
    assert read(source)[-1] == (9, "tiered")


def test_a_task_fails_on_a_machine_without_the_required_file(tmp_path):
    file = tmp_path / "table.json"
    options = {"metadataStoreUrl": "zk:h:1", "topic": "a", "requiredFile": str(file)}
    task = TaskPlan((), {}, parse_options(options, streaming=True))
    with pytest.raises(SourceError, match=rf"requires the file {file}, which does not exist on \S+; share its folder"):
        list(read_task(task, None))
    file.touch()
    assert list(read_task(task, None)) == []
