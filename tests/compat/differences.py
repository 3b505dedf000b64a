"""Rows that are known not to be equal, and why."""

from __future__ import annotations

from typing import Final

ANY: Final = ""

_BATCH_ACKS: Final = (
    "As long as a consumer is connected, what is acked of a batch counts in the pool as at the owner. When the last one has "
    "gone, the pool keeps it for the next one, at whichever broker. But an owner that stores its cursor meanwhile may have "
    "been told to go back, and tells it nowhere: then the whole batch comes again, as it does without batch-index acks."
)

REASONS: Final[dict[tuple[str, str], str]] = {
    ("batch_index", ANY): _BATCH_ACKS,
    ("batch_index_cumulative", ANY): _BATCH_ACKS,
    ("consumer_metadata", ANY): (
        "What the client gave is there; beside it the pool notes its own name (`pulsar-readonly.pool`), by which it "
        "tells its consumers from those that are connected straight to the owner."
    ),
    ("owner_dispatch_stats", ANY): (
        "Messages go out at the pool, so the pool counts them: `GET /stats` of its brokers, and the metrics. "
        "The owner sees a consumer that asks for nothing."
    ),
}
"""By scenario and client: `go-0.14.0`, `go` for all of its releases, or ANY."""

_NO_TXN: Final = (
    "Go's client does not write a transaction's id into its messages' metadata. The owner keeps these back until the "
    "transaction ends, and so does the pool; then it delivers aborted ones as any others."
)
_EMPTY: Final = "Go's newer client drops a single message with an empty payload when it reads it."
_INCLUSIVE: Final = "Go's older client hands over the message too that it seeks to."
_EMPTIED: Final = (
    "Go's older client empties its queue when a seek is done, also of what has come since; then messages are missing."
)

QUIRKS: Final[dict[tuple[str, str], str]] = {
    ("abort", "go"): _NO_TXN,
    ("abort_shared", "go"): _NO_TXN,
    ("transaction_backlog", "go"): _NO_TXN,
    ("empty_payload", "go-0.19.0"): _EMPTY,
    ("schema_string", "go-0.19.0"): _EMPTY,
    ("deduplication", "go"): "Go's client does not say what the broker tells a new producer of its last sequence id.",
    ("seek_id", "go-0.14.0"): _INCLUSIVE,
    ("unload_seek", "go-0.14.0"): _INCLUSIVE,
    ("reader_seek", "go-0.14.0"): _EMPTIED,
    ("reader_time", "go-0.14.0"): _EMPTIED,
    ("zero_queue", "go-0.14.0"): "Go's older client without a queue asks for a message before the application does.",
}
"""By scenario and client (`go` or `go-0.14.0`): what a client does not do right at the owner either, by a fault of its own.
The scenario must then fail in the same check through the pool."""


SOMETIMES: Final = frozenset({_EMPTIED, _BATCH_ACKS})
"""Those that depend on what is faster: a row may be equal and right all the same."""


def reason(scenario: str, client: str) -> str:
    """Why a scenario is not equal with this client; empty when it should be."""
    names = (client, client.partition("-")[0], ANY)
    return next((REASONS[scenario, name] for name in names if (scenario, name) in REASONS), "")


def quirk(scenario: str, client: str) -> str:
    """Why a scenario fails with this client wherever it connects; empty when it should not."""
    return QUIRKS.get((scenario, client)) or QUIRKS.get((scenario, client.partition("-")[0]), "")
