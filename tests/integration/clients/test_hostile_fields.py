"""Every field that a client can set at the ends of its range, at a real broker with a real owner, beside an innocent client."""

import sys
import uuid
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Final

import pytest

from devstack.pool import Pool
from devstack.pulsar.status import Endpoints
from longtests.hostile.commands import SILENT
from longtests.hostile.field_run import react_to_all
from longtests.hostile.frames import CLIENT_COMMANDS
from longtests.hostile.run import Innocent, make_topic

pytestmark = [pytest.mark.nightly, pytest.mark.second_stack]

TOPICS: Final = "persistent://public/default/test-fields-"
TURN_MS: Final = 20.0
"""Longest turn of the event loop that one of these frames may cause, in time of the processor."""

SLACK: Final = 5.0
"""Allowed on machines that run much else, where the processor's caches are shared."""


@pytest.mark.parametrize("cursors", ["owner", "local"])
def test_no_value_of_a_field_harms_anybody(pulsar: Endpoints, tmp_path: Path, cursors: str) -> None:
    """Each frame is answered, ignored or closes its connection; no error is unexpected, and no turn of the loop is long."""
    turns, launcher = tmp_path / "turns", tmp_path / "python"
    turns.touch()
    launcher.write_text(f'#!/bin/sh\nshift 3\nexec {sys.executable} -m longtests.hostile.measured {turns} "$@"\n')
    launcher.chmod(0o755)
    options = ["--topics", f"{TOPICS}.*", "--cursors", cursors]
    with closing(Pool(pulsar, tmp_path, uuid.uuid4().hex, options, python=str(launcher))) as pool:
        (broker,) = pool.start()
        begun = turns.stat().st_size
        with Innocent(broker.url, make_topic(broker.url, TOPICS)) as innocent, ThreadPoolExecutor(4) as attackers:

            def react(name: str) -> dict[object, str]:
                return {**react_to_all(name, broker.url, lambda: f"{TOPICS}{uuid.uuid4().hex[:12]}")}

            found = dict(zip(CLIENT_COMMANDS, attackers.map(react, CLIENT_COMMANDS), strict=True))
        log = broker.log.read_text()
        assert innocent.losses == 0
        assert [frame for reactions in found.values() for frame, what in reactions.items() if what == SILENT] == []
        assert "Traceback" not in log
        long = [line.split(" ", 1) for line in turns.read_text()[begun:].splitlines()]
        assert [line for line in long if float(line[0]) > SLACK * TURN_MS] == []
