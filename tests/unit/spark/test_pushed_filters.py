"""Filters that Spark passes to the source: only by versions that forget them after the scan."""

from __future__ import annotations

import pyspark
import pytest
from pyspark.sql.types import BinaryType, StructField, StructType
from readonly_spark.options import OptionError
from readonly_spark.source import BatchReader, FilteringBatchReader, PulsarReadOnly

OPTIONS = {"metadataUrl": "zk:127.0.0.1:1", "topic": "persistent://public/default/orders"}
SCHEMA = StructType([StructField("value", BinaryType())])


@pytest.mark.parametrize(
    ("version", "refused"),
    [("4.0.3", True), ("4.1.4", True), ("4.2.1", True), ("4.3.0", False), ("4.10.0.dev1", False), ("5.0.0", False)],
)
def test_filters_are_refused_by_versions_that_keep_them(monkeypatch, version, refused) -> None:
    monkeypatch.setattr(pyspark, "__version__", version)
    assert type(PulsarReadOnly(OPTIONS).reader(SCHEMA)) is BatchReader
    filtering = PulsarReadOnly({**OPTIONS, "pushFilters": "true"})
    if not refused:
        assert type(filtering.reader(SCHEMA)) is FilteringBatchReader
        return
    with pytest.raises(OptionError, match=rf"pushFilters requires Spark 4\.3 or later; this is {version}"):
        filtering.reader(SCHEMA)
