"""`topic show`: a topic's ledgers and subscriptions, from the metadata store and bookies."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from readonly_engine.bookkeeper.errors import BookKeeperError
from readonly_engine.bookkeeper.ledger import LedgerReader
from readonly_engine.metadata.errors import MetadataError
from readonly_engine.tool.start import show_time
from readonly_engine.tool.table import table
from readonly_engine.topic.chain import LedgerChain
from readonly_engine.topic.cursors import read_cursor
from readonly_engine.topic.position import EARLIEST, Position
from readonly_engine.wire.cursors import NO_LEDGER
from readonly_engine.wire.errors import WireError

if TYPE_CHECKING:
    from readonly_engine.metadata.topic_name import TopicName
    from readonly_engine.tool.storage import Storage
    from readonly_engine.wire.cursors import CursorState
    from readonly_engine.wire.ledgers import LedgerMetadata
    from readonly_engine.wire.managed_ledger_pb2 import LedgerInfo

Fields = dict[str, Any]


async def describe(storage: Storage, topic: TopicName) -> Fields:
    """Return the state of a topic or partition in storage, for `render` and for JSON.

    Raises:
        MetadataError: the metadata store does not answer.
        WireError: the topic's list of ledgers is damaged.
    """
    info = await storage.cluster.topic(topic)
    if info is None:
        return {"topic": str(topic), "exists": False}
    chain = LedgerChain()
    chain.topic_changed(info)
    ledgers = [
        await _ledger(storage, chain, ledger) for ledger in sorted(info.ledger_info, key=lambda one: one.ledger_id)
    ]
    count = 0 if chain.limit is None else chain.distance(EARLIEST, chain.limit)
    return {
        "topic": str(topic),
        "exists": True,
        "first": None if chain.first is None else str(chain.first),
        "last": None if chain.limit is None else str(chain.limit),
        "entries": count,
        "bytes": sum(ledger["bytes"] for ledger in ledgers),
        "terminated": chain.terminated,
        "properties": {str(pair.key): str(pair.value) for pair in info.properties},
        "ledgers": ledgers,
        "subscriptions": [
            await _subscription(storage, chain, topic, name) for name in await storage.cluster.subscriptions(topic)
        ],
    }


async def _ledger(storage: Storage, chain: LedgerChain, info: LedgerInfo) -> Fields:
    fields: Fields = {"ledger": info.ledger_id, "state": "UNKNOWN", "entries": info.entries, "bytes": info.size}
    if info.timestamp:
        fields["closed_at"] = show_time(info.timestamp)
    if info.offload_context.complete:
        fields["offloaded"] = str(info.offload_context.driver_metadata.name) or "yes"
    try:
        metadata = await storage.cluster.ledger(info.ledger_id)
    except (MetadataError, WireError) as error:
        return fields | {"error": str(error)}
    if metadata is None:
        return fields | {"state": "OFFLOADED" if info.offload_context.complete else "DELETED"}
    fields |= {
        "state": metadata.state,
        "quorums": f"{len(metadata.ensembles[-1][1])}/{metadata.write_quorum}/{metadata.ack_quorum}",
        "ensembles": [{"first_entry": first, "bookies": list(bookies)} for first, bookies in metadata.ensembles],
    }
    if metadata.closed:
        chain.ledger_changed(info.ledger_id, metadata)
        fields["entries"] = metadata.last_entry_id + 1
    else:
        fields |= await _tail(storage, chain, info.ledger_id, metadata)
    return fields


async def _tail(storage: Storage, chain: LedgerChain, ledger_id: int, metadata: LedgerMetadata) -> Fields:
    """Return the end of an open ledger, from its bookies."""
    try:
        answer = await LedgerReader(ledger_id, metadata, storage.pool).read_lac()
    except BookKeeperError as error:
        return {"error": str(error)}
    chain.lac_advanced(ledger_id, answer.lac)
    fields: Fields = {"entries": answer.lac + 1, "lac": answer.lac}
    if answer.last_entry > answer.lac:
        fields["unconfirmed"] = answer.last_entry - answer.lac
    return fields


async def _subscription(storage: Storage, chain: LedgerChain, topic: TopicName, name: str) -> Fields:
    fields: Fields = {"name": name}
    try:
        state = await read_cursor(storage.cluster, storage.pool, topic, name)
    except (MetadataError, BookKeeperError, WireError) as error:
        return fields | {"error": str(error)}
    return fields if state is None else fields | _cursor(chain, state)


def _cursor(chain: LedgerChain, state: CursorState) -> Fields:
    mark_delete = Position(*state.mark_delete)
    holes = [(Position(*lower), Position(*upper)) for lower, upper in state.holes]
    acked = sum(max(chain.distance(max(lower, mark_delete), upper), 0) for lower, upper in holes)
    behind = 0 if chain.limit is None else max(chain.distance(mark_delete, chain.limit), 0)
    fields: Fields = {
        "mark_delete": str(mark_delete),
        "backlog": behind - acked,
        "acked_ranges": [f"({lower}..{upper}]" for lower, upper in holes],
        "acked_behind": acked,
        "stored_in": "metadata" if state.cursor_ledger == NO_LEDGER else f"ledger {state.cursor_ledger}",
    }
    if state.batches:
        fields["partly_acked_batches"] = {
            str(Position(*position)): [index for index in range(left.bit_length()) if left >> index & 1]
            for position, left in state.batches
        }
    if state.properties or state.cursor_properties:
        fields["properties"] = {**dict(state.properties), **dict(state.cursor_properties)}
    if state.last_active:
        fields["last_active"] = show_time(state.last_active)
    return fields


# Text
MAX_RANGES = 5


def render(topic: Fields) -> list[str]:
    """Return the lines of text for a topic from `describe`."""
    if not topic["exists"]:
        return [f"{topic['topic']}", "  no entry is stored yet"]
    end = ", terminated" if topic["terminated"] else ""
    span = "empty" if topic["first"] is None else f"{topic['entries']} entries, {topic['first']} to {topic['last']}"
    lines = [topic["topic"], f"  {span}{end}"]
    lines += [f"  {name} = {value}" for name, value in topic["properties"].items()]
    rows = [["LEDGER", "STATE", "ENTRIES", "BYTES", "CLOSED", "E/QW/QA", "BOOKIES"]]
    lines += table(rows + [_ledger_row(ledger) for ledger in topic["ledgers"]])
    if topic["subscriptions"]:
        rows = [["SUBSCRIPTION", "MARK-DELETE", "BACKLOG", "ACKED BEHIND", "STORED IN", "LAST ACTIVE"]]
        lines += table(rows + [_subscription_row(one) for one in topic["subscriptions"]])
    return lines


def _ledger_row(ledger: Fields) -> list[str]:
    state = ledger["state"]
    if "offloaded" in ledger:
        state += f" (offloaded: {ledger['offloaded']})"
    if "lac" in ledger:
        beyond = f", {ledger['unconfirmed']} unconfirmed" if "unconfirmed" in ledger else ""
        state += f" (LAC {ledger['lac']}{beyond})"
    bookies = " | ".join(
        ", ".join(part["bookies"]) + (f" from entry {part['first_entry']}" if part["first_entry"] else "")
        for part in ledger.get("ensembles", [])
    )
    return [
        str(ledger["ledger"]),
        state,
        str(ledger["entries"]),
        str(ledger["bytes"]) if ledger["bytes"] or not ledger["entries"] else "-",
        ledger.get("closed_at", "-"),
        ledger.get("quorums", "-"),
        ledger.get("error", bookies),
    ]


def _subscription_row(one: Fields) -> list[str]:
    if "mark_delete" not in one:
        return [one["name"], one.get("error", "gone"), "", "", "", ""]
    ranges = one["acked_ranges"]
    shown = " ".join(ranges[:MAX_RANGES]) + (
        f" and {len(ranges) - MAX_RANGES} more" if len(ranges) > MAX_RANGES else ""
    )
    behind = f"{one['acked_behind']} in {shown}" if ranges else "0"
    if "partly_acked_batches" in one:
        behind += f", {len(one['partly_acked_batches'])} batches in part"
    return [one["name"], one["mark_delete"], str(one["backlog"]), behind, one["stored_in"], one.get("last_active", "-")]
