"""The messages of a disturbed run: as many follow as the program still waits for."""

import time
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, cast

from longtests.frameworks.cases import BY_NAME
from longtests.frameworks.events import Events, Received
from longtests.frameworks.program import PROGRAMS, load_program
from longtests.frameworks.run import MESSAGES, Job, RunMessages
from longtests.frameworks.workload import Planned, Sent

REPEATED = 30


def test_messages_that_come_again_late_are_not_made_up_for_twice() -> None:
    """The program has 200 of 400 messages, then 30 of them again: 170 are missing, not 200."""
    events = Events()

    def receive(payload: str) -> None:
        events.messages.append(Received(payload, None, -1, None))
        events.payloads.add(payload)

    def publish(block: Sequence[Planned]) -> list[Sent]:
        for one in block:
            receive(one.payload)
        return [Sent(one.payload, one.key, -1, (7, 0), -1) for one in block]

    def settle() -> None:
        for message in events.messages[:REPEATED]:
            receive(message.payload)

    publisher, process = SimpleNamespace(publish=publish), SimpleNamespace(events=events, wait_for=lambda *_: True)
    job = Job(load_program(PROGRAMS / "camel"), "Shared", BY_NAME["pool-unload"])
    run = RunMessages(job, cast("Any", publisher), "tag")
    run.publish_first_half()
    run.publish_rest(cast("Any", process), lambda: None, settle, time.monotonic() + 10)
    assert len(run.sent) == 2 * MESSAGES - REPEATED
    assert len(events.messages) == 2 * MESSAGES
