"""Refused SUBSCRIBEs are counted, and logged with a bounded length."""

import logging

from readonly_engine.broker.session.subscribe_refusals import MAX_CHARACTERS, SubscribeRefusals
from readonly_engine.wire.pulsar_pb2 import ServerError


def test_refusals_are_counted_by_error_and_logged(caplog):
    caplog.set_level(logging.INFO)
    refusals = SubscribeRefusals()
    for code in (ServerError.ServiceNotReady, ServerError.ServiceNotReady, ServerError.ConsumerBusy):
        refusals.add("t" * (MAX_CHARACTERS + 1), "s", code, "not served now")
    assert refusals.by_error == {"ServiceNotReady": 2, "ConsumerBusy": 1}
    line, *_ = caplog.messages
    topic = "t" * MAX_CHARACTERS
    assert line == f"SUBSCRIBE refused: topic={topic} subscription=s reason=not served now error=ServiceNotReady"
