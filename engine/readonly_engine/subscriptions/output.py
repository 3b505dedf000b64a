"""Local subscriptions as JSON, with Pulsar's names where it has one, and as text."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from readonly_engine.broker.cursors.local_requests import migration_of, own_properties
from readonly_engine.tool.output import escaped
from readonly_engine.tool.start import show_time
from readonly_engine.tool.table import table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from readonly_engine.broker.cursors.local_cursor import LocalCursor
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.subscriptions.backlog import TopicEntries

Fields = dict[str, Any]

MAX_RANGES = 5
"""Ranges that a text shows."""


def fields_of(cursor: LocalCursor, entries: TopicEntries) -> Fields:
    """Return the state of a subscription for JSON.

    `msgBacklog` is the number of unacked entries. It and `subscriptionProperties` are as in Pulsar's statistics,
    `markDeletePosition` and `individuallyDeletedMessages` as in its internal statistics. `createdTimestamp` is in UTC. Batches
    that are acked in part have `unackedBatchIndexes`. An unfinished migration has `migration`.
    """
    ranges = ",".join(f"({lower}..{upper}]" for lower, upper in cursor.ranges)
    found: Fields = {
        "msgBacklog": entries.backlog(cursor),
        "markDeletePosition": str(cursor.mark_delete),
        "individuallyDeletedMessages": f"[{ranges}]",
        "totalNonContiguousDeletedMessagesRange": len(cursor.ranges),
        "subscriptionProperties": dict(own_properties(cursor.definition.properties)),
        "createdTimestamp": show_time(cursor.definition.created_ms),
    }
    if cursor.batches:
        found["unackedBatchIndexes"] = {
            str(position): [index for index in range(unacked.bit_length()) if unacked >> index & 1]
            for position, unacked in cursor.batches
        }
    migration = migration_of(cursor.definition)
    if migration is not None:
        found["migration"] = migration.word
    return found


def list_as_json(
    found: Mapping[TopicName, Sequence[LocalCursor]], entries: Mapping[TopicName, TopicEntries]
) -> Iterator[str]:
    """Yield parts of a document: an object, or a list of them for several partitions, with `topic` and `subscriptions`."""
    yield "[" if len(found) > 1 else ""
    for number, (topic, cursors) in enumerate(found.items()):
        yield f'{"," if number else ""}{{"topic": {_json(str(topic))}, "subscriptions": {{'
        for place, cursor in enumerate(cursors):
            yield f"{',' if place else ''}\n {_json(cursor.name)}: {_json(fields_of(cursor, entries[topic]))}"
        yield "}}"
    yield "]\n" if len(found) > 1 else "\n"


def list_as_text(
    found: Mapping[TopicName, Sequence[LocalCursor]], entries: Mapping[TopicName, TopicEntries]
) -> Iterator[str]:
    """Yield the lines of a table for each topic."""
    for topic, cursors in found.items():
        yield f"{topic}\n"
        rows = [["SUBSCRIPTION", "MARK-DELETE", "BACKLOG", "ACKED RANGES", "BATCHES IN PART", "CREATED", "NOTE"]]
        rows += [_row(cursor, entries[topic]) for cursor in cursors]
        yield from (f"{line}\n" for line in table(rows) if len(rows) > 1)
        if not cursors:
            yield "  no local subscription\n"


def _row(cursor: LocalCursor, entries: TopicEntries) -> list[str]:
    migration = migration_of(cursor.definition)
    return [
        escaped(cursor.name),
        str(cursor.mark_delete),
        str(entries.backlog(cursor)),
        str(len(cursor.ranges)),
        str(len(cursor.batches)),
        show_time(cursor.definition.created_ms),
        "" if migration is None else f"{migration.word} not finished",
    ]


def one_as_json(found: Mapping[TopicName, LocalCursor], entries: Mapping[TopicName, TopicEntries]) -> str:
    """Return a document: the subscription, or a list with that of each partition."""
    shown = [
        {"topic": str(topic), "subscription": one.name, **fields_of(one, entries[topic])}
        for topic, one in found.items()
    ]
    return json.dumps(shown if len(shown) > 1 else shown[0], indent=1, ensure_ascii=False) + "\n"


def one_as_text(found: Mapping[TopicName, LocalCursor], entries: Mapping[TopicName, TopicEntries]) -> Iterator[str]:
    """Yield lines for a subscription in each partition."""
    for topic, cursor in found.items():
        fields = fields_of(cursor, entries[topic])
        yield f"{topic}\n"
        ranges = [f"({lower}..{upper}]" for lower, upper in cursor.ranges[:MAX_RANGES]]
        more = [f"and {len(cursor.ranges) - MAX_RANGES} more"] if len(cursor.ranges) > MAX_RANGES else []
        rows = [
            ["subscription", escaped(cursor.name)],
            ["mark-delete", fields["markDeletePosition"]],
            ["backlog", str(fields["msgBacklog"])],
            ["acked ranges", " ".join([*ranges, *more]) or "none"],
            ["created", fields["createdTimestamp"]],
        ]
        rows += [["property", escaped(f"{key}={value}")] for key, value in fields["subscriptionProperties"].items()]
        rows += [
            ["batch in part", f"{position}, unacked {' '.join(map(str, indexes[:MAX_RANGES]))}"]
            for position, indexes in list(fields.get("unackedBatchIndexes", {}).items())[:MAX_RANGES]
        ]
        if "migration" in fields:
            rows.append(["migration", f"{fields['migration']} not finished: run it again"])
        yield from (f"{line}\n" for line in table(rows))


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False)
