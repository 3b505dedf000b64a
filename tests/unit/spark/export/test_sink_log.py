"""The log of Spark's file sink, as an export writes it in an object store."""

import json

import pytest
from readonly_spark.export.errors import ExportError
from readonly_spark.export.sink_log import KEPT_BATCHES, expired, log_file

INTERVAL = 3


def added(*numbers: int) -> bytes:
    return "\n".join(["v1", *(json.dumps({"path": f"s3a://lake/t/{n}", "action": "add"}) for n in numbers)]).encode()


@pytest.mark.parametrize(
    ("number", "name", "holds"),
    [
        (0, "0", [0]),
        (1, "1", [1]),
        (2, "2.compact", [0, 1, 2]),
        (3, "3", [3]),
        (5, "5.compact", [0, 1, 2, 3, 4, 5]),
    ],
)
def test_every_so_many_micro_batches_a_file_has_all_entries(number, name, holds):
    log = {"0": added(0), "1": added(1), "2.compact": added(0, 1, 2), "3": added(3), "4": added(4)}
    assert log_file(number, INTERVAL, added(number), log.get) == (name, added(*holds))


def test_a_micro_batch_without_files_has_no_entries():
    assert log_file(2, INTERVAL, added(), {"0": added(), "1": added(1)}.get) == ("2.compact", added(1))


@pytest.mark.parametrize("earlier", [None, b"", b"v2", b"v1\n{}"])
def test_a_log_that_is_not_understood_is_not_compacted(earlier):
    log = {"0": added(0), "1": earlier}
    with pytest.raises(ExportError, match=r"^_spark_metadata/1 in the table is missing or damaged"):
        log_file(2, INTERVAL, added(2), log.get)


@pytest.mark.parametrize(
    ("number", "left"),
    [
        (KEPT_BATCHES - 1, 0),
        (KEPT_BATCHES + 8, 0),
        (KEPT_BATCHES + 9, 9),  # the compacted file of number 9 has their entries
    ],
)
def test_files_that_no_reader_needs_expire(number, left):
    names = [f"{n}.compact" if (n + 1) % 10 == 0 else str(n) for n in range(number + 1)] + [".1.tmp"]
    assert expired(number, 10, names) == [str(n) for n in range(left)]
