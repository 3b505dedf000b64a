"""Resume position of a non-durable subscription on an owner without its cursor. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from readonly_engine.topic.position import Position
    from readonly_engine.wire.pulsar_pb2 import CommandSubscribe

_MAX_ENTRY_ID: Final = (1 << 63) - 1


def set_resume_position(subscribe: CommandSubscribe, mark_delete: Position) -> None:
    """Let a SUBSCRIBE of a non-durable subscription start behind a position.

    A non-durable cursor exists in its owner's memory only. The client's own start (latest, a time, a message id) would mean
    another position by now. An owner starts one entry before the given one, since a batch of it may be half read
    (PersistentTopic.getNonDurableSubscription). So the SUBSCRIBE names the next entry.

    Args:
        subscribe: changed in place.
        mark_delete: every entry up to here is acked; EARLIEST for none.
    """
    subscribe.ClearField("start_message_rollback_duration_sec")
    ledger_id, entry_id = mark_delete
    start = subscribe.start_message_id
    start.Clear()
    start.ledger_id = ledger_id
    start.entry_id = min(entry_id + (ledger_id >= 0), _MAX_ENTRY_ID)
