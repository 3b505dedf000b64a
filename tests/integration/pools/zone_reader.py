"""Stock readers of one zone: `python -m tests.integration.pools.zone_reader URL LISTENER TOPIC READERS MESSAGES`.

Prints `ready` when all have subscribed, and then the payload bytes that they received, all together. Exits with an error unless
each of them receives the numbers 0 to MESSAGES - 1, once and in order.
"""

import sys
import threading
from typing import Final

import pulsar

DEADLINE_S: Final = 120


def main() -> None:
    """Read as the command line asks for."""
    url, listener, topic, readers, messages = sys.argv[1:]
    options = {"listener_name": listener} if listener else {}
    client = pulsar.Client(url, logger=pulsar.ConsoleLogger(pulsar.LoggerLevel.Warn), **options)
    made = [client.create_reader(topic, pulsar.MessageId.earliest) for _ in range(int(readers))]
    sys.stdout.write("ready\n")
    sys.stdout.flush()
    received: list[int] = []
    wrong: list[str] = []

    def read(reader: pulsar.Reader) -> None:
        total = 0
        for number in range(int(messages)):
            data = reader.read_next(DEADLINE_S * 1000).data()
            total += len(data)
            if int(data[:10]) != number:
                wrong.append(f"{int(data[:10])} instead of {number}")
                return
        received.append(total)

    threads = [threading.Thread(target=read, args=(reader,)) for reader in made]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if len(received) != len(made):
        sys.exit(f"{len(made) - len(received)} of {len(made)} readers failed: {wrong}")
    sys.stdout.write(f"{sum(received)}\n")
    client.close()


if __name__ == "__main__":
    main()
