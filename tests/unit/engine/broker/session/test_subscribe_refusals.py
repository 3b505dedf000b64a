"""Refused SUBSCRIBEs are counted, and logged at a bounded rate and length."""

import logging

from readonly_engine.broker.session.subscribe_refusals import LOG_S, MAX_CHARACTERS, SubscribeRefusals
from readonly_engine.wire.pulsar_pb2 import ServerError


def test_refusals_are_counted_by_error_and_logged_once_in_a_while(caplog):
    caplog.set_level(logging.INFO)
    refusals = SubscribeRefusals()
    for now, code in (
        (5.0, ServerError.ServiceNotReady),
        (5.0, ServerError.ServiceNotReady),
        (5.9, ServerError.ConsumerBusy),
    ):
        refusals.add("t", "s", code, "not served now", now)
    refusals.add("t" * (MAX_CHARACTERS + 1), "s", ServerError.ConsumerBusy, "in use", 5.0 + LOG_S)
    assert refusals.by_error == {"ServiceNotReady": 2, "ConsumerBusy": 2}
    first, second = caplog.messages
    assert first == "SUBSCRIBE refused: topic=t subscription=s reason=not served now error=ServiceNotReady unlogged=0"
    assert second.endswith("reason=in use error=ConsumerBusy unlogged=2")
    assert second.count("t" * MAX_CHARACTERS) == 1
    assert "t" * (MAX_CHARACTERS + 1) not in second
