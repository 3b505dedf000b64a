"""The metrics of workers as one exposition."""

import pytest
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families
from readonly_engine.workers.merge import merge


def exposition(messages, topics, seconds):
    registry = CollectorRegistry()
    Counter("served_messages", "Messages served.", ["topic"], registry=registry).labels("a b\n").inc(messages)
    Gauge("open_topics", "Topics.", registry=registry).set(topics)
    Histogram("wait_seconds", "Waits.", buckets=[0.1, 1], registry=registry).observe(seconds)
    return generate_latest(registry).decode()


def test_each_sample_says_of_which_worker_it_is():
    merged = merge({0: exposition(3, 1, 0.05), 1: exposition(4, 2, 0.5)}).decode()
    samples = {
        (sample.name, sample.labels["worker"], sample.labels.get("le", "")): sample.value
        for family in text_string_to_metric_families(merged)
        for sample in family.samples
    }
    assert samples["served_messages_total", "0", ""] == 3
    assert samples["served_messages_total", "1", ""] == 4
    assert samples["open_topics", "1", ""] == 2
    assert samples["wait_seconds_bucket", "0", "0.1"] == 1
    assert samples["wait_seconds_bucket", "1", "0.1"] == 0
    assert merged.count("# TYPE served_messages_total counter") == 1
    assert r'topic="a b\n"' in merged


def test_a_worker_that_tells_nothing_is_left_out():
    assert merge({1: exposition(1, 1, 1)}).count(b'worker="1"') == merge({1: exposition(1, 1, 1)}).count(b"worker=")
    assert merge({}) == b""


def test_what_is_no_exposition_is_an_error():
    with pytest.raises(ValueError, match=r".+"):
        merge({0: "not {a metric"})
