"""Where a non-durable subscription goes on at an owner that has none of its cursor. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

_MAX_ENTRY_ID: Final = (1 << 63) - 1


def set_resume_position(subscribe: CommandSubscribe, mark_delete: Position) -> None:
    """Have a SUBSCRIBE of a non-durable subscription start behind a position, whatever it began with.

    A non-durable cursor lives in its owner's memory only. The client's own start (latest, a time, a message id) would name
    another place by now. An owner takes a step back from the entry that it is given, of which a batch may be half read
    (PersistentTopic.getNonDurableSubscription): so it is given the next one.

    Args:
        subscribe: changed in place.
        mark_delete: everything up to here is acked; EARLIEST for nothing.
    """
    subscribe.ClearField("start_message_rollback_duration_sec")
    ledger_id, entry_id = mark_delete
    start = subscribe.start_message_id
    start.Clear()
    start.ledger_id = ledger_id
    start.entry_id = min(entry_id + (ledger_id >= 0), _MAX_ENTRY_ID)
