"""One cycle of a pool that sleeps, as a stock client sees it: arguments are the owner's URL, the pool's URL, a topic, a cycle.

It produces at the owner while the pool sleeps, then subscribes at the pool, and prints the seconds to the first message and what
it received, as JSON.
"""

import json
import sys
import time

import pulsar

MESSAGES = 20

owner_url, pool_url, topic, cycle = sys.argv[1:]
owner = pulsar.Client(owner_url)
producer = owner.create_producer(topic)
for number in range(MESSAGES):
    producer.send(f"{cycle}-{number}".encode())
owner.close()
pool = pulsar.Client(pool_url)
began = time.monotonic()
consumer = pool.subscribe(topic, "sleeper", initial_position=pulsar.InitialPosition.Earliest)
subscribed = time.monotonic() - began
received, first = [], 0.0
while len(received) < MESSAGES:
    message = consumer.receive(60_000)
    first = first or time.monotonic() - began
    received.append(message.data().decode())
    consumer.acknowledge(message)
pool.close()
sys.stdout.write(json.dumps({"subscribed": subscribed, "first": first, "received": received}) + "\n")
