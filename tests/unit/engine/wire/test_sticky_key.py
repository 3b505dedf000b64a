import pytest
from readonly_engine.wire.message_pb2 import MessageMetadata
from readonly_engine.wire.sticky_key import NO_KEY, key_hash, murmur3_32, sticky_key


@pytest.mark.parametrize(
    ("data", "hash_"),
    [
        (b"", 0),
        (b"hello", 0x248BFA47),
        (b"hello, world", 0x149BBB7F),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_the_published_values_of_murmur3(data, hash_):
    assert murmur3_32(data) == hash_
    assert key_hash(data) == hash_ & 0x7FFFFFFF


def test_the_ordering_key_comes_first_then_the_partition_key_then_the_producer():
    metadata = MessageMetadata()
    assert sticky_key(metadata) == NO_KEY
    metadata.producer_name = "p"
    assert sticky_key(metadata) == NO_KEY
    metadata.sequence_id = 7
    assert sticky_key(metadata) == b"p-7"
    metadata.partition_key = "a2V5"
    assert sticky_key(metadata) == b"a2V5"
    metadata.partition_key_b64_encoded = True
    assert sticky_key(metadata) == b"key"
    metadata.ordering_key = b"order"
    assert sticky_key(metadata) == b"order"


def test_a_key_that_is_not_what_it_says_is_none():
    assert sticky_key(MessageMetadata(partition_key="\u00e9", partition_key_b64_encoded=True)) == NO_KEY
