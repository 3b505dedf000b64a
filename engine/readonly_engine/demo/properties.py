"""Java properties files of Pulsar's distribution, with changed keys. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping


def edit_properties(text: str, changes: Mapping[str, str]) -> str:
    """Set keys of a Java properties file.

    The distribution's files end without a newline, so an appended line would be joined with the last one. For a key with two
    lines the first value can win. So each key is set in its first line, and its other lines are dropped.

    Args:
        text: text of the file.
        changes: values by key; a key that is not in the file is appended.

    Returns:
        The changed text, with a newline at its end.
    """
    missing = dict(changes)
    lines: list[str] = []
    for line in text.splitlines():
        key, equals, _ = line.partition("=")
        key = key.strip()
        if not equals or key.startswith(("#", "!")) or key not in changes:
            lines.append(line)
        elif key in missing:
            lines.append(f"{key}={missing.pop(key)}")
    lines.extend(f"{key}={value}" for key, value in missing.items())
    return "\n".join(lines) + "\n"
