import pytest
from hypothesis import given
from hypothesis import strategies as st
from readonly_engine.wire.bookkeeper_pb2 import ReadLacRequest
from readonly_engine.wire.errors import MalformedFrameError
from readonly_engine.wire.varint import decode_varint, encode_varint

INT64 = st.integers(-(1 << 63), (1 << 63) - 1)


@given(INT64)
def test_numbers_are_encoded_as_protobuf_does(number):
    assert b"\x08" + encode_varint(number) == ReadLacRequest(ledger_id=number).SerializeToString()


@given(INT64, st.binary(max_size=3), st.binary(max_size=3))
def test_a_number_is_read_back_from_where_it_stands(number, before, after):
    encoded = encode_varint(number)
    assert decode_varint(before + encoded + after, len(before)) == (number % (1 << 64), len(before) + len(encoded))


@given(INT64, st.data())
def test_a_number_that_is_cut_off_is_an_error(number, data):
    encoded = encode_varint(number)
    with pytest.raises(MalformedFrameError):
        decode_varint(encoded[: data.draw(st.integers(0, len(encoded) - 1))], 0)
