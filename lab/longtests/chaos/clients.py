"""The process of one client node: its producers, consumers and Readers, until the command `finish`.

    python -m longtests.chaos.clients NODE URLS FOLDER RUN RATE

It reads one command per line, and answers with a line. `leave SECONDS SEED` and `drop SECONDS SEED` disconnect half of its
consumers for a while. `quiet` ends its producers, `settle` makes consumers ack at once, `finish` closes all.
"""

from __future__ import annotations

import asyncio
import random
import sys
from pathlib import Path
from typing import Final

import pulsar

from longtests.chaos.plan import CLIENT
from longtests.chaos.producers import Publisher, Transactions
from longtests.chaos.readers import ReaderLoop
from longtests.chaos.workload import READER, SUBSCRIPTIONS, TOPICS, Subscription
from longtests.churn.consumer import Consumer
from longtests.churn.history import History
from longtests.churn.link import Patience
from longtests.churn.plan import SubscriptionPlan
from longtests.churn.stock import StockConsumer
from tests.support.service_url import service_url

PATIENCE: Final = Patience(answer_s=8.0, silence_s=12.0)
OPERATION_S: Final = 15
FLUSH_S: Final = 120.0

_Slot = tuple[Subscription, int]


class Clients:
    """All clients of one process.

    Args:
        node: name of the node.
        urls: URLs of the pool.
        folder: folder of histories and logs.
        run: number of earlier starts of the process.
        rate: messages per second of each producer.
    """

    def __init__(self, node: str, urls: list[str], folder: Path, run: int, rate: float) -> None:
        self._node = node
        self._urls = urls
        self._folder = folder
        self._run = run
        self._rate = rate
        self._history = History(folder / f"{node}.{run}.jsonl", keep=False)
        log = pulsar.FileLogger(pulsar.LoggerLevel.Info, str(folder / f"{node}.{run}.log"))
        service = service_url(urls)
        self._client = pulsar.Client(service, logger=log, operation_timeout_seconds=OPERATION_S)
        self._topics = {topic.short: topic for topic in TOPICS}
        self._publishers: list[Publisher | Transactions] = []
        self._readers: list[ReaderLoop] = []
        self._consumers: dict[_Slot, Consumer | StockConsumer] = {}
        self._opened = 0
        self._steady = False

    def start(self) -> None:
        """Create all clients."""
        if self._node == CLIENT[0]:
            service = service_url(self._urls)
            for topic in TOPICS:
                if topic.transactions:
                    self._publishers.append(Transactions(self._history, service, topic, self._rate))
                    continue
                self._publishers += [
                    Publisher(self._history, self._client, topic, number, self._rate) for number in range(2)
                ]
        for subscription in SUBSCRIPTIONS:
            for number, node in enumerate(subscription.nodes):
                if node == self._node:
                    self._open((subscription, number))

    def _open(self, slot: _Slot) -> None:
        subscription, number = slot
        topic = self._topics[subscription.topic].full
        name = f"{self._node[-1]}{number}r{self._run}o{self._opened}"
        self._opened += 1
        if subscription.type == READER:
            session = f"{subscription.name} {name}"
            place = self._folder / f"{subscription.name.replace('/', '-')}.place"
            self._readers.append(ReaderLoop(self._history, subscription, session, topic, self._client, place))
            return
        plan = SubscriptionPlan(
            subscription.name, 0, subscription.type, cumulative=subscription.cumulative, keys=subscription.keys
        )
        rng = random.Random(name)
        made: Consumer | StockConsumer
        if subscription.stock:
            made = StockConsumer(self._history, plan, number, topic, self._client, rng, name)
        else:
            made = Consumer(self._history, plan, number, topic, lambda: self._urls, rng, PATIENCE, name)
        made.steady = self._steady
        self._consumers[slot] = made

    async def obey(self, words: list[str]) -> None:
        """Execute a command."""
        if words[0] in {"leave", "drop"}:
            rng = random.Random(words[2])
            slots = sorted(self._consumers, key=lambda slot: (slot[0].name, slot[1]))
            gone = [slot for slot in slots if rng.random() < 0.5]
            await asyncio.gather(*(self._end(self._consumers.pop(slot), drop=words[0] == "drop") for slot in gone))
            await asyncio.sleep(float(words[1]))
            for slot in gone:
                self._open(slot)
        elif words[0] == "quiet":
            for publisher in self._publishers:
                publisher.stop()
            ended = await asyncio.gather(*(asyncio.to_thread(one.join, FLUSH_S) for one in self._publishers))
            if not all(ended):
                raise TimeoutError(f"a producer has no receipts {FLUSH_S:g} s after its last message")
        elif words[0] == "settle":
            self._steady = True
            for one in (*self._consumers.values(), *self._readers):
                one.settle()
        elif words[0] == "finish":
            await asyncio.gather(*(self._end(consumer, drop=False) for consumer in self._consumers.values()))
            await asyncio.gather(*(asyncio.to_thread(reader.close) for reader in self._readers))
            await asyncio.to_thread(self._client.close)

    async def _end(self, consumer: Consumer | StockConsumer, *, drop: bool) -> None:
        if isinstance(consumer, StockConsumer):
            await asyncio.to_thread(consumer.close)
        elif drop:
            await consumer.drop()
        else:
            await consumer.close()


async def main() -> None:
    """Run until the end of the input, or `finish`."""
    node, urls, folder, run, rate = sys.argv[1:]
    clients = Clients(node, urls.split(","), Path(folder), int(run), float(rate))
    clients.start()
    _say("ok ready")
    reader = asyncio.StreamReader()
    await asyncio.get_running_loop().connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        words = line.decode().split()
        try:
            await clients.obey(words)
        except Exception as error:  # noqa: BLE001 - reported to the harness, which continues
            _say(f"error {words[0]} {error!r}")
        else:
            _say(f"ok {words[0]}")
        if words[0] == "finish":
            return


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    asyncio.run(main())
