"""Metrics of a broker's own process: CPU, memory and open files."""

from __future__ import annotations

from typing import Any

from prometheus_client import ProcessCollector
from readonly_engine.http.server import HttpServer
from readonly_engine.topic.cache import EntryCache

from tests.support.played_broker import STORES, PlayedBroker

NOTHING: Any = None


def test_a_broker_has_the_metrics_of_its_process():
    server = HttpServer(PlayedBroker({}), STORES, EntryCache(1000), NOTHING, NOTHING)
    (process,) = (one for one in server._registry._collector_to_names if isinstance(one, ProcessCollector))
    values = {sample.name: sample.value for metric in process.collect() for sample in metric.samples}
    names = {"process_cpu_seconds_total", "process_resident_memory_bytes", "process_open_fds", "process_max_fds"}
    assert names <= values.keys()
    assert all(values[name] > 0 for name in names)
