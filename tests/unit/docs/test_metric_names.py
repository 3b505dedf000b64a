"""Names of metrics follow the conventions of Prometheus."""

import re

import pytest

from docsite.metrics import of_broker, of_operator

NOT_BASE_UNITS = re.compile(r"_(ms|milliseconds|micros|nanos|minutes|hours|kib|mib|gib|kb|mb|percent)(_|$)")


@pytest.fixture(scope="module")
def families():
    return [*of_broker(), *of_operator()]


def test_names_follow_the_conventions(families):
    """https://prometheus.io/docs/practices/naming: base units, `_total` for counters only, the unit right before it."""
    for family in families:
        assert re.fullmatch(r"pulsar_readonly_[a-z_]+[a-z]", family.name), family.name
        assert not NOT_BASE_UNITS.search(family.name), family.name
        assert not family.name.endswith(("_total", "_count", "_sum", "_bucket")), family.name
        for unit in ("seconds", "bytes"):
            if unit in family.name.split("_"):
                assert family.name.endswith(f"_{unit}"), family.name
        if family.type == "histogram":
            assert family.name.endswith("_seconds"), family.name
        if family.type == "gauge" and family.name.endswith("_info"):
            assert "version" in family._labelnames


def test_labels_have_pulsars_meaning_wherever_they_are(families):
    of_topics = [family for family in families if "topic" in family._labelnames]
    assert len(of_topics) >= 7
    for family in of_topics:
        assert tuple(family._labelnames) == ("cluster", "namespace", "topic", "subscription"), family.name
