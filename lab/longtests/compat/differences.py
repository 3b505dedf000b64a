"""Known differences between pool and owner, with reasons."""

from __future__ import annotations

from typing import Final

ANY: Final = ""

REASONS: Final[dict[tuple[str, str], str]] = {
    ("consumer_metadata", ANY): (
        "The client's metadata is complete. The pool adds its own name (`pulsar-readonly.pool`), to distinguish "
        "its consumers from those connected directly to the owner."
    ),
    ("owner_dispatch_stats", ANY): (
        "The pool dispatches the messages, so the pool counts them: `GET /stats` of its brokers, and the metrics. "
        "The owner has a zero-permit consumer."
    ),
}
"""By scenario and client: `go-0.14.0`, `go` for all of its releases, or ANY."""

_TRANSACTION: Final = "A local subscription takes no acks in transactions; `cursors: Owner` does."

LOCAL_REASONS: Final[dict[tuple[str, str], str]] = {
    ("consumer_metadata", ANY): REASONS["consumer_metadata", ANY],
    ("made_by_admin", ANY): (
        "A subscription that the owner has is refused, until `pulsar-readonly subscriptions import` moves it to the pool."
    ),
    **{(name, ANY): _TRANSACTION for name in ("ack_committed", "ack_aborted", "ack_conflict", "consume_and_produce")},
}
"""The same for a pool that keeps its cursors itself."""

_NO_TXN: Final = (
    "Go's client does not write a transaction's id into its messages' metadata. The owner and the pool hold these "
    "messages back until the transaction ends, and then deliver those of aborted transactions like others."
)
_EMPTY: Final = "Go's newer client drops a single message with an empty payload when it reads it."
_INCLUSIVE: Final = "Go's older client delivers also the message to which it seeks."
_WHOLE_BATCH: Final = "Go's older client delivers all of the batch into which it seeks."
_EMPTIED: Final = (
    "Go's older client clears its queue after a seek, with messages that arrived since; then messages are missing."
)
_STUCK: Final = "Go's older client sometimes does not return from the close of a reader of a terminated topic."

QUIRKS: Final[dict[tuple[str, str], str]] = {
    ("abort", "go"): _NO_TXN,
    ("abort_shared", "go"): _NO_TXN,
    ("transaction_backlog", "go"): _NO_TXN,
    ("empty_payload", "go-0.19.0"): _EMPTY,
    ("schema_string", "go-0.19.0"): _EMPTY,
    (
        "deduplication",
        "go",
    ): "Go's client does not expose the last sequence id that the broker sends to a new producer.",
    ("seek_id", "go-0.14.0"): _INCLUSIVE,
    ("seek_stored", "go-0.14.0"): _WHOLE_BATCH,
    ("unload_seek", "go-0.14.0"): _INCLUSIVE,
    ("reader_seek", "go-0.14.0"): _EMPTIED,
    ("reader_time", "go-0.14.0"): _EMPTIED,
    ("terminated_reader", "go-0.14.0"): _STUCK,
    ("zero_queue", "go-0.14.0"): "Without a queue, Go's older client requests a message before the application does.",
}
"""Defects of a client, at the owner too, by scenario and client (`go` or `go-0.14.0`). The scenario must fail in the same check
through the pool."""


SOMETIMES: Final = frozenset({_EMPTIED, _STUCK})
"""Differences that depend on timing: a row may be equal and right."""


def reason(scenario: str, client: str, cursors: str = "owner") -> str:
    """Return why a scenario differs with this client and keeper of cursors; empty if it should not."""
    names, reasons = (client, client.partition("-")[0], ANY), LOCAL_REASONS if cursors == "local" else REASONS
    return next((reasons[scenario, name] for name in names if (scenario, name) in reasons), "")


def quirk(scenario: str, client: str) -> str:
    """Return why a scenario fails with this client at any server; empty if it should not."""
    return QUIRKS.get((scenario, client)) or QUIRKS.get((scenario, client.partition("-")[0]), "")
