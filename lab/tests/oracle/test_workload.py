"""A seed determines the workload, and every workload has the features of the oracle's documentation."""

import random

from hypothesis import given
from hypothesis import strategies as st

from longtests.oracle.workload import (
    MAX_MESSAGE_BYTES,
    ROUNDS,
    Round,
    message_count,
    messages,
    plan_rounds,
    plan_topics,
)


def plan(seed: int, topics: int, entries: int) -> list[list[Round]]:
    rng = random.Random(seed)
    return plan_rounds(rng, plan_topics(rng, "public/oracle", topics), entries)


@given(st.integers(0, 1 << 31))
def test_a_seed_repeats_the_plan_and_another_seed_does_not(seed: int) -> None:
    assert plan(seed, 10, 500) == plan(seed, 10, 500)
    assert plan(seed, 10, 500) != plan(seed + 1, 10, 500)


@given(st.integers(0, 1 << 31), st.integers(1, 60), st.integers(1, 10_000))
def test_every_topic_is_written_in_every_round_and_the_entries_suffice(seed: int, topics: int, entries: int) -> None:
    rounds = plan(seed, topics, entries)
    assert len(rounds) == ROUNDS
    names = {each.topic.name for each in rounds[0]}
    assert len(names) == topics
    assert all({each.topic.name for each in turn} == names for turn in rounds)
    assert sum(each.entries for turn in rounds for each in turn) >= entries
    assert any(each.chunked for turn in rounds for each in turn)


def test_the_full_plan_has_every_feature() -> None:
    rounds = [each for turn in plan(1, 50, 200_000) for each in turn]
    topics = {each.topic for each in rounds}
    assert {each.compression for each in rounds} == {"NONE", "LZ4", "ZLib", "ZSTD", "SNAPPY"}
    for feature in ("by_key", "chunked", "encrypted", "keyed", "delayed"):
        assert any(getattr(each, feature) for each in rounds), feature
        assert any(not getattr(each, feature) for each in rounds), feature
    assert {each.batch > 1 for each in rounds} == {True, False}
    assert any(topic.partitions for topic in topics)
    assert any(topic.transactional for topic in topics)
    assert any(topic.compacted for topic in topics)


def test_messages_repeat_and_keep_to_pulsars_limit() -> None:
    rounds = [each for turn in plan(7, 10, 2_000) for each in turn]
    for each in rounds[:20]:
        made = list(messages(each))
        assert made == list(messages(each))
        assert len(made) == message_count(each) + 2 * each.chunked
        largest = max(len(message.content) for message in made)
        assert largest > MAX_MESSAGE_BYTES if each.chunked else largest <= MAX_MESSAGE_BYTES
    sizes = {len(message.content) for each in rounds for message in messages(each)}
    assert 0 in sizes
    assert max(sizes) > MAX_MESSAGE_BYTES
