"""Formats of log lines: text, or one JSON object per line."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime


class _JsonFormatter(logging.Formatter):
    def __init__(self, worker: int | None) -> None:
        super().__init__()
        self._worker = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            **self._worker,
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line)


def set_up_logging(level: str, log_format: str, worker: int | None = None) -> None:
    """Log to standard error.

    Args:
        level: debug, info, warning or error.
        log_format: text or json.
        worker: number of this worker process; None for a single process.
    """
    handler = logging.StreamHandler()
    if log_format == "json":
        handler.setFormatter(_JsonFormatter(worker))
    else:
        who = "" if worker is None else f"worker {worker}, "
        handler.setFormatter(logging.Formatter(f"%(asctime)s %(levelname)-7s {who}%(name)s: %(message)s"))
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("kazoo").setLevel(logging.WARNING)
