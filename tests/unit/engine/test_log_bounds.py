"""Lines that clients cause are logged at a bounded rate; what is left out is counted."""

import logging

from readonly_engine import log_bounds
from readonly_engine.log_bounds import BoundedLines

LINE_S = 1.0


def test_a_text_is_logged_once_in_a_while_and_the_next_line_counts_the_others(caplog, monkeypatch):
    monkeypatch.setattr(log_bounds, "LINE_S", LINE_S)
    caplog.set_level(logging.DEBUG)
    now = 5.0
    log = logging.getLogger("test-bounds")
    log.addFilter(BoundedLines(lambda: now))
    for client in "abc":
        log.info("refused: client=%s", client)
        log.warning("closed: client=%s", client)
        log.debug("lost: client=%s", client)
    now += LINE_S
    log.info("refused: client=%s", "d")
    now += LINE_S
    log.info("refused: client=%s", "e")
    assert [line for line in caplog.messages if not line.startswith("lost")] == [
        "refused: client=a",
        "closed: client=a",
        "refused: client=d unlogged=2",
        "refused: client=e",
    ]
    assert len(caplog.messages) == 4 + 3, "debug lines are not bounded"
