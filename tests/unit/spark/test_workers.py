"""Garbage collection in Spark's workers, and only there."""

import gc
import sys
from collections.abc import Iterator
from types import SimpleNamespace

import pytest
from pyspark.sql.types import BinaryType, StructField, StructType
from readonly_spark import source
from readonly_spark.source import PulsarReadOnly

OPTIONS = {"metadataStoreUrl": "zk:127.0.0.1:1", "topic": "persistent://public/default/orders"}
SCHEMA = StructType([StructField("value", BinaryType())])


@pytest.fixture
def collector() -> Iterator[None]:
    gc.unfreeze()
    source._freeze_loaded_modules.cache_clear()
    yield
    gc.unfreeze()
    source._freeze_loaded_modules.cache_clear()


def started_as(monkeypatch: pytest.MonkeyPatch, module: str | None) -> None:
    spec = SimpleNamespace(name=module) if module else None
    monkeypatch.setitem(sys.modules, "__main__", SimpleNamespace(__spec__=spec))  # type: ignore[arg-type]


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("kind", ["reader", "streamReader"])
@pytest.mark.parametrize("module", ["pyspark.daemon", "pyspark.worker"])
def test_a_worker_excludes_loaded_modules_when_it_plans(
    monkeypatch: pytest.MonkeyPatch, module: str, kind: str
) -> None:
    started_as(monkeypatch, module)
    getattr(PulsarReadOnly(OPTIONS), kind)(SCHEMA)
    assert gc.get_freeze_count() > 10_000


@pytest.mark.usefixtures("collector")
@pytest.mark.parametrize("module", ["pyspark_analysis", None])
def test_a_users_program_keeps_its_collector(monkeypatch: pytest.MonkeyPatch, module: str | None) -> None:
    started_as(monkeypatch, module)
    PulsarReadOnly(OPTIONS).reader(SCHEMA)
    assert gc.get_freeze_count() == 0
