"""Files of killed exports in object stores: which of them are removed."""

import json
import uuid

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from readonly_spark.export import store_leftovers
from readonly_spark.export.errors import ExportError
from readonly_spark.export.store_leftovers import KEY, StoreLeftovers, owner_in

OWN, OTHER = (str(uuid.uuid4()) for _ in range(2))


def parquet(schema: object = None) -> bytes:
    """A file with what Spark writes down of its columns."""
    key = b"org.apache.spark.sql.parquet.row.metadata"
    table = pa.table({"value": ["x"]})
    if schema is not None:
        table = table.replace_schema_metadata({key: schema if isinstance(schema, str) else json.dumps(schema)})
    out = pa.BufferOutputStream()
    pq.write_table(table, out)
    return out.getvalue().to_pybytes()


def of(checkpoint: str, number: object) -> bytes:
    return parquet(
        {"fields": [{"name": "x", "metadata": {}}, {"name": "value", "metadata": {KEY: f"{checkpoint}:{number}"}}]}
    )


@pytest.mark.parametrize(
    ("content", "owner"),
    [
        (of(OWN, 7), (OWN, 7)),
        (of(OWN, "x"), None),
        (parquet({"fields": [{"name": "value", "metadata": {}}]}), None),
        (parquet(), None),
        (parquet("[]"), None),
        (parquet('{"fields": 3}'), None),
        (parquet("{"), None),
        (b"", None),
        (b"PAR1", None),
        (of(OWN, 7)[:-9], None),
    ],
)
def test_a_footer_names_its_micro_batch(content, owner):
    assert owner_in(content) == owner


class Store:
    """An object store."""

    def __init__(self, content: dict[str, bytes]) -> None:
        self.content = content

    def listing(self):
        return list(self.content)

    def names(self, folder):
        return [name.removeprefix(f"{folder}/") for name in self.content if name.startswith(f"{folder}/")]

    def read(self, name):
        return self.content.get(name)

    def tail(self, name, size):
        return self.content[name][-size:]

    def remove(self, name):
        del self.content[name]


def name(folder: str = "") -> str:
    # Spark writes a dot before the c in folders of partitions.
    return f"{folder}part-00000-{uuid.uuid4()}{'.' if '=' in folder else '-'}c000.snappy.parquet"


def logged(*names: str) -> bytes:
    lines = [json.dumps({"path": f"s3a://lake/t/{one.replace(' ', '%20')}", "action": "add"}) for one in names]
    return "\n".join(["v1", *lines]).encode()


def test_only_what_this_table_wrote_and_nobody_can_commit_any_more_is_removed():
    committed, compacted, spaced = name(), name(), name("day=a b/")
    store = Store({
        committed: of(OWN, 10), compacted: of(OWN, 3), spaced: of(OWN, 10),
        name(): of(OTHER, 3), name(): parquet(), name(): b"no Parquet", name("_checkpoint/"): of(OWN, 3),
        f"x-{name()}": of(OWN, 3), "_spark_metadata/9.compact": logged(compacted), "_spark_metadata/8": b"v7",
        "_spark_metadata/10": logged(committed, spaced), "_spark_metadata/.10.crc": b"",
    })  # fmt: skip
    kept = set(store.content)
    of_lost_task, killed, meanwhile = name(), name("day=1/"), name()
    store.content |= {of_lost_task: of(OWN, 10), killed: of(OWN, 11), meanwhile: of(OWN, 11)}
    leftovers = StoreLeftovers(store)
    leftovers.find({OWN})
    leftovers.remove(10)
    assert set(store.content) - kept == {killed, meanwhile}, "a suspended export may commit them yet"
    store.content["_spark_metadata/11"] = logged(meanwhile)
    leftovers.remove(11)
    assert set(store.content) - kept == {meanwhile, "_spark_metadata/11"}
    leftovers.remove(11)


def test_nothing_is_removed_with_a_log_that_is_not_understood():
    left = name()
    store = Store({left: of(OWN, 1), "_spark_metadata/0": b"v2"})
    leftovers = StoreLeftovers(store)
    leftovers.find({OWN})
    leftovers.remove(1)
    store.content["_spark_metadata/0"] = logged()
    leftovers.find({OWN})
    store.content["_spark_metadata/1"] = b"v2"
    leftovers.remove(1)
    assert left in store.content


@pytest.mark.parametrize("most", [2, 3])
def test_footers_are_read_up_to_a_number(monkeypatch, most):
    monkeypatch.setattr(store_leftovers, "MAX_FOOTERS", most)
    store = Store({name(): of(OWN, 0) for _ in range(3)})
    leftovers = StoreLeftovers(store)
    leftovers.find({OWN})
    leftovers.remove(0)
    assert len(store.content) == 3 - most


@pytest.mark.parametrize("allowed", [True, False])
def test_a_large_footer_is_read_up_to_a_size(monkeypatch, allowed):
    size = int.from_bytes(of(OWN, 0)[-8:-4], "little") + 8
    monkeypatch.setattr(store_leftovers, "FIRST_TAIL_BYTES", 100)
    monkeypatch.setattr(store_leftovers, "MAX_TAIL_BYTES", size if allowed else size - 1)
    store = Store({name(): of(OWN, 0)})
    leftovers = StoreLeftovers(store)
    leftovers.find({OWN})
    leftovers.remove(0)
    assert bool(store.content) is not allowed


def test_an_error_of_the_store_does_not_end_the_export(caplog):
    class Refusing(Store):
        def remove(self, name):
            raise ExportError("Access Denied")

    store = Refusing({name(): of(OWN, 0)})
    leftovers = StoreLeftovers(store)
    leftovers.find({OWN})
    leftovers.remove(0)
    assert "files of killed exports are not removed: Access Denied" in caplog.text
