"""Publication of a planned workload by the stock Python client."""

from __future__ import annotations

import subprocess
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from threading import Lock, Thread
from typing import TYPE_CHECKING, Final, TypeVar

import pulsar

from longtests.oracle.workload import messages

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from longtests.oracle.workload import Round

T = TypeVar("T")

THREADS: Final = 3
SEND_TIMEOUT_MS: Final = 180_000
"""Longer than any disturbance: the topic must get every message that the client accepted."""

_CREATE_ATTEMPTS: Final = 20
_CREATE_TIMEOUT_S: Final = 120.0
"""Twice the client's operation timeout.

Client 3.13.0 never returned when an owner could not load the topic for 60 s (measured).
"""


class PublishError(Exception):
    """A message could not be published within the longest time that the cluster may need."""


def make_keys(folder: Path) -> pulsar.CryptoKeyReader:
    """Create an RSA key pair for producers that encrypt."""
    private, public = folder / "private.pem", folder / "public.pem"
    for command in (
        ["openssl", "genrsa", "-out", str(private), "2048"],
        ["openssl", "rsa", "-in", str(private), "-pubout", "-out", str(public)],
    ):
        subprocess.run(command, check=True, capture_output=True, timeout=60)
    return pulsar.CryptoKeyReader(str(public), str(private))


def within(seconds: float, call: Callable[[], T]) -> T:
    """Return the result of a blocking call, which cannot be cancelled, so it has a daemon thread.

    Raises:
        TimeoutError: there is no result in time.
    """
    result: Future[T] = Future()

    def run() -> None:
        try:
            result.set_result(call())
        except BaseException as error:  # noqa: BLE001 - the caller gets it
            result.set_exception(error)

    Thread(target=run, daemon=True).start()
    return result.result(seconds)


class Publisher:
    """Publishes rounds, several concurrently.

    Args:
        url: the source cluster.
        keys: for producers that encrypt.
        log: file of the client's log.
    """

    def __init__(self, url: str, keys: pulsar.CryptoKeyReader, log: Path) -> None:
        self._client = pulsar.Client(
            url,
            operation_timeout_seconds=60,
            # Reconnects during restarts of servers are expected, so they stay out of the output.
            logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, str(log)),
        )
        self._keys = keys
        self._lock = Lock()
        self.messages = 0

    def publish(self, rounds: Sequence[Round], done: Callable[[Round], None]) -> None:
        """Publish all of these rounds; call `done` after each.

        Raises:
            PublishError: a message was not accepted.
        """
        with ThreadPoolExecutor(THREADS) as threads:
            for future in [threads.submit(self._publish, plan, done) for plan in rounds]:
                future.result()

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    def _publish(self, plan: Round, done: Callable[[Round], None]) -> None:
        producer = self._producer(plan)
        failures: list[str] = []

        def sent(result: pulsar.Result, _: pulsar.MessageId) -> None:
            if result != pulsar.Result.Ok:
                failures.append(str(result))

        count = 0
        for message in messages(plan):
            producer.send_async(
                message.content,
                sent,
                properties=message.properties,
                partition_key=message.key,
                ordering_key=message.ordering_key,
                event_timestamp=message.event_timestamp,
                deliver_after=None
                if message.deliver_after_ms is None
                else timedelta(milliseconds=message.deliver_after_ms),
            )
            count += 1
        producer.flush()
        producer.close()
        if failures:
            raise PublishError(f"{plan.topic.name}: {len(failures)} messages were not accepted, first {failures[0]}")
        with self._lock:
            self.messages += count
        done(plan)

    def _producer(self, plan: Round) -> pulsar.Producer:
        options = {}
        if plan.encrypted:
            options = {"encryption_key": "oracle", "crypto_key_reader": self._keys}
        create = partial(
            self._client.create_producer,
            plan.topic.name,
            compression_type=pulsar.CompressionType.__members__[plan.compression],
            send_timeout_millis=SEND_TIMEOUT_MS,
            block_if_queue_full=True,
            max_pending_messages=500,
            batching_enabled=plan.batch > 1,
            batching_max_messages=max(2, plan.batch),
            batching_max_publish_delay_ms=1000,
            batching_type=pulsar.BatchingType.KeyBased if plan.by_key else pulsar.BatchingType.Default,
            chunking_enabled=plan.chunked,
            message_routing_mode=pulsar.PartitionsRoutingMode.RoundRobinDistribution,
            **options,
        )
        for attempt in range(1, _CREATE_ATTEMPTS + 1):
            try:
                return within(_CREATE_TIMEOUT_S, create)
            except TimeoutError as error:
                raise PublishError(f"{plan.topic.name}: no producer within {_CREATE_TIMEOUT_S:g} s") from error
            except pulsar.PulsarException:
                # The broker is being restarted. The client's own retries end with its operation timeout.
                if attempt == _CREATE_ATTEMPTS:
                    raise
        raise AssertionError
