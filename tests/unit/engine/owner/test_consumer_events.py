import pytest
from readonly_engine.owner.consumer_events import OwnerCursorState
from readonly_engine.owner.errors import OwnerRefusedError
from readonly_engine.topic.position import Position
from readonly_engine.wire.pulsar_pb2 import BaseCommand, ServerError


def answer(mark_delete=None):
    command = BaseCommand(type=BaseCommand.GET_LAST_MESSAGE_ID_RESPONSE)
    response = command.get_last_message_id_response
    response.last_message_id.ledger_id, response.last_message_id.entry_id = 4, 7
    if mark_delete is not None:
        response.consumer_mark_delete_position.ledger_id, response.consumer_mark_delete_position.entry_id = mark_delete
    return command


@pytest.mark.parametrize("mark_delete", [None, Position(3, -1), Position(4, 2)])
def test_an_answer_has_the_last_entry_and_perhaps_the_mark_delete_position(mark_delete):
    assert OwnerCursorState.from_response(answer(mark_delete)) == (mark_delete, Position(4, 7))


def test_a_refusal_is_an_error():
    refusal = BaseCommand(type=BaseCommand.ERROR)
    refusal.error.error, refusal.error.message = ServerError.MetadataError, "cannot parse"
    with pytest.raises(OwnerRefusedError, match="cannot parse"):
        OwnerCursorState.from_response(refusal)
