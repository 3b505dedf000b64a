"""A stock client before and in a replay. Arguments: a URL, a topic, `publish` or `receive`, and the number of messages.

It prints JSON: the publish times in ms, or the numbers and arrivals in s of what it received.
"""

import json
import sys
import time

import pulsar

url, topic, what, count = sys.argv[1:]
client = pulsar.Client(url)
if what == "publish":
    producer = client.create_producer(topic, batching_enabled=False)
    for number in range(int(count)):
        producer.send(str(number).encode())
        time.sleep(0.05)  # the pace of the recording
    reader = client.create_reader(topic, pulsar.MessageId.earliest)
    answer = [reader.read_next(10_000).publish_timestamp() for _ in range(int(count))]
else:
    consumer = client.subscribe(topic, "past", initial_position=pulsar.InitialPosition.Earliest)
    answer = []
    for _ in range(int(count)):
        message = consumer.receive(60_000)
        answer.append((int(message.data()), time.time()))
        consumer.acknowledge(message)
client.close()
sys.stdout.write(json.dumps(answer) + "\n")
