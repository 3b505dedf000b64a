"""Logs of a broker: to standard error, as text or as one JSON object per line."""

from __future__ import annotations

import logging

from readonly_engine.config.log_lines import JsonFormatter, TextFormatter


def set_up_logging(level: str, log_format: str, worker: int | None = None) -> None:
    """Log to standard error.

    Args:
        level: debug, info, warning or error.
        log_format: text or json.
        worker: number of this worker process; None for a single process.
    """
    handler = logging.StreamHandler()
    if log_format == "json":
        handler.setFormatter(JsonFormatter({} if worker is None else {"worker": worker}))
    else:
        handler.setFormatter(TextFormatter("" if worker is None else f"worker {worker}, "))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
