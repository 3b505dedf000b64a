"""Samples are found by name and some of their labels."""

import pytest

from tests.support.samples import value_of, values_of

TEXT = """\
# TYPE sent_total counter
sent_total{topic="a",subscription="s"} 1.0
sent_total{topic="b",subscription="s"} 2.0
"""


def test_samples_are_found_by_some_of_their_labels():
    assert value_of(TEXT, "sent_total", topic="b") == 2
    assert values_of(TEXT, "sent_total", subscription="s") == [1, 2]


@pytest.mark.parametrize("labels", [{"topic": "c"}, {"subscription": "s"}])
def test_there_must_be_exactly_one(labels):
    with pytest.raises(ValueError, match="unpack"):
        value_of(TEXT, "sent_total", **labels)
