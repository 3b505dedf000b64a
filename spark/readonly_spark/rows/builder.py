"""The interface of row builders, which turn decoded messages into Arrow columns. Pure.

`PythonRowBuilder` keeps the columns in lists. `NativeRowBuilder` writes Arrow's memory in C and decodes simple entries itself.
Both give the same rows and pass the same tests.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa
    from readonly_engine.wire.entry import Entry

ROW_BYTES: Final = 96
"""Estimated bytes of a row without its payload, key and properties; they count for the size of a record batch."""


@dataclass(frozen=True, slots=True)
class Projection:
    """The message columns to build.

    Attributes:
        values: payloads.
        keys: keys and ordering keys.
        properties: properties.
        times: event times.
        sequence: sequence ids.
    """

    values: bool = True
    keys: bool = True
    properties: bool = True
    times: bool = True
    sequence: bool = True


class EntryHeader(NamedTuple):
    """Fields that all messages of an entry share.

    Attributes:
        ledger_id: the ledger.
        entry_id: the entry.
        batch_size: number of messages in the batch; None for an entry without a batch.
        publish_time: ms since the epoch.
        broker_time: ms since the epoch; 0 if the broker did not record it.
        last_index: number of the entry's last message in the topic; negative if the broker did not record it.
        producer_name: the producer.
        schema_version: the stored schema version; None for none.
        replicated_from: the source cluster of a replicated message; None for a local one.
        encryption: the value of the column of this name.
    """

    ledger_id: int
    entry_id: int
    batch_size: int | None
    publish_time: int
    broker_time: int
    last_index: int
    producer_name: str
    schema_version: bytes | None
    replicated_from: str | None
    encryption: dict[str, Any] | None


class RowBatch(NamedTuple):
    """Finished rows as Arrow arrays. The arrays of columns outside of the projection have no meaning.

    Attributes:
        rows: number of rows.
        headers: the fields of EntryHeader for each entry.
        entry_of_row: for each row the index of its entry; None if every entry has one row.
        batch_indexes: null outside of a batch.
        values: payloads.
        keys: keys.
        ordering_keys: ordering keys.
        properties: maps.
        event_times: null for no event time, and for a time that a timestamp cannot hold.
        sequence_ids: sequence ids of the producers.
    """

    rows: int
    headers: Sequence[tuple[Any, ...]]
    entry_of_row: pa.Array | None
    batch_indexes: pa.Array
    values: pa.Array
    keys: pa.Array
    ordering_keys: pa.Array
    properties: pa.Array
    event_times: pa.Array
    sequence_ids: pa.Array


class RowBuilder(Protocol):
    """Collects rows."""

    @property
    def count(self) -> int:
        """Rows of the entries that were ended."""

    @property
    def size(self) -> int:
        """Estimated bytes of these rows."""

    def append_entries(self, entries: list[Entry], start: int, max_bytes: int, refuse_transactions: bool, /) -> int:
        """Append entries from `start` on, up to the first one that is not simple.

        Args:
            entries: entries of one topic, in order.
            start: index of the first one.
            max_bytes: stop after the entry with which `size` reaches this.
            refuse_transactions: whether an entry of a transaction is not simple.

        Returns:
            The index after the last appended entry. If `size` is below `max_bytes`, the entry there is not simple.
        """

    def append_batch(self, body: bytes, count: int, first_sequence_id: int, /) -> bool:
        """Append the messages of a decompressed batch; if the batch is not simple, append nothing and return False."""

    def append_message(
        self,
        value: bytes | None,
        batch_index: int,
        key: bytes | None,
        ordering_key: bytes | None,
        properties: Mapping[str, str],
        event_time: int,
        sequence_id: int,
        /,
    ) -> None:
        """Append one message; a `batch_index` of -1 means that it is not in a batch."""

    def end_entry(self, header: EntryHeader, /) -> None:
        """Set the header of the messages since the last call."""

    def finish(self) -> RowBatch:
        """Return all rows, and start anew."""

    def message_ids(self, entry_ids: list[str], batch: RowBatch, /) -> pa.Array:
        """Return message ids as text: the entry's id, in a batch followed by a colon and the batch index.

        Args:
            entry_ids: the text of each entry's id.
            batch: the rows.
        """
