"""Memory of a topic that an owner pushes, and of its subscription, before the first entry: a broker has tens of thousands."""

from __future__ import annotations

import gc
import sys
from collections import Counter

from tests.support.pushed_topics import Stage

TOPICS = 100
LIMIT_BYTES = 3_100
"""Some 3 % more than this test has with Python 3.11. Their positions, names and numbers come on top of the objects."""


def our_bytes():
    sizes = Counter()
    for one in gc.get_objects():
        kind = type(one)
        if str(kind.__module__).startswith("readonly_engine.") and not kind.__module__.endswith(".latency"):
            sizes[kind.__qualname__] += sys.getsizeof(one)
    return sizes


async def test_an_idle_topic_with_a_subscription_is_small():
    stage = Stage()
    client, _ = await stage.client()
    try:
        before = our_bytes()
        for _ in range(TOPICS):
            (await stage.topic()).subscribe(client)
        added = our_bytes()
        added.subtract(before)
    finally:
        stage.close()
    assert added.total() / TOPICS < LIMIT_BYTES, added
