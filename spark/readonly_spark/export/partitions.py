"""Partitions of a table: the rows of a record batch by the folder that holds them, as Spark names folders. Pure.

Source of the names: Spark's ExternalCatalogUtils (`escapePathName`, `getPartitionPathString`). A test compares them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

NO_VALUE: Final = "__HIVE_DEFAULT_PARTITION__"
"""Spark's name for null and for an empty text."""

_ESCAPED: Final = frozenset("\"#%'*/:=?\\\x7f{[]^") | frozenset(map(chr, range(1, 0x20)))

_HOUR_US: Final = 3_600_000_000
_PERIODS: Final = {"publishDate": 24 * _HOUR_US, "publishHour": _HOUR_US}
"""Microseconds of the periods of the columns that are derived from the publish time."""


def folder_of(names: Sequence[str], texts: Sequence[str | None]) -> str:
    """Return the folder of a partition, relative to the table.

    Args:
        names: the columns of the partition.
        texts: their values as text; None for null.
    """
    return "/".join(f"{_escaped(name)}={_escaped(text or NO_VALUE)}" for name, text in zip(names, texts, strict=True))


def _escaped(text: str) -> str:
    return "".join(f"%{ord(one):02X}" if one in _ESCAPED else one for one in text)


def by_folder(batch: pa.RecordBatch, names: Sequence[str]) -> Iterator[tuple[str, pa.RecordBatch]]:
    """Yield the partitions of a record batch, each once, with their rows in order.

    Args:
        batch: the rows.
        names: the columns of the partition: columns of the batch, or ones that are derived from its publish time.
    """
    codes = pa.repeat(pa.scalar(0, pa.int64()), batch.num_rows)
    texts: list[tuple[str | None, ...]] = [()]
    for name in names:
        period = _PERIODS.get(name)
        values = batch[name] if period is None else _periods(batch["publishTime"], period)
        encoded = values.dictionary_encode(null_encoding="encode")
        found = [_text(one, name) for one in encoded.dictionary.to_pylist()]
        both = pc.add(pc.multiply(codes, len(found)), encoded.indices.cast(pa.int64())).dictionary_encode()
        pairs = [divmod(code, len(found)) for code in both.dictionary.to_pylist()]
        codes, texts = both.indices.cast(pa.int64()), [(*texts[first], found[second]) for first, second in pairs]
    if len(texts) == 1:
        yield folder_of(names, texts[0]), batch
        return
    order = pc.sort_indices(codes)
    start = 0
    for code, count in sorted((one["values"], one["counts"]) for one in pc.value_counts(codes).to_pylist()):
        # A copy, so that rows of one folder do not keep those of all in memory.
        yield folder_of(names, texts[code]), batch.take(order.slice(start, count))
        start += count


def _periods(times: pa.Array, period: int) -> pa.Array:
    """Return the number of the period that holds each time; periods before 1970 are negative."""
    found = times.cast(pa.int64())
    early = pc.if_else(pc.less(found, 0), period - 1, 0)
    return pc.divide(pc.subtract(found, early), period)


def _text(found: Any, name: str) -> str | None:
    """Return a value as Spark writes it as text."""
    if found is None:
        return None
    if name == "publishDate":
        return _date(found)
    if name == "publishHour":
        return f"{_date(found // 24)} {found % 24:02d}:00:00"
    return str(found).lower() if isinstance(found, bool) else str(found)


def _date(days: int) -> str:
    """Return a date as Spark writes it; Python's dates end with the year 9999."""
    parts = pc.year_month_day(pa.scalar(days, pa.date32())).as_py()
    year = parts["year"]
    sign = "-" if year < 0 else "+" if year > 9999 else ""
    return f"{sign}{abs(year):04d}-{parts['month']:02d}-{parts['day']:02d}"
