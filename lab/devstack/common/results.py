"""Files of results: JSON with one record a line, so that a new record changes one line and a file stays short."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path


def _lines(records: Sequence[object]) -> str:
    rows = ",\n".join(json.dumps(record, ensure_ascii=False) for record in records)
    return f"[\n{rows}\n]" if records else "[]"


def encode_results(results: Mapping[str, object] | Sequence[object]) -> str:
    """Return results as JSON.

    Args:
        results: a list of records, or an object of which each value that is a list has records.

    Returns:
        the text: one line for each record, and for each other value of the object.
    """
    if not isinstance(results, Mapping):
        return _lines(results) + "\n"
    parts = (
        f"{json.dumps(key)}: {_lines(value) if isinstance(value, list) else json.dumps(value, ensure_ascii=False)}"
        for key, value in results.items()
    )
    return "{\n" + ",\n".join(parts) + "\n}\n"


def save_results(path: Path, results: Mapping[str, object] | Sequence[object]) -> None:
    """Write results into a file, in the form of `encode_results`."""
    path.write_text(encode_results(results), encoding="utf-8")
