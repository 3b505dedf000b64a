"""Two releases side by side: what consumers see, and the defaults of the brokers' settings, for docs/reference/releases.md."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

BEGIN: Final = "<!-- two releases: made by make -C lab releases RELEASES_OPTIONS=--write -->"
END: Final = "<!-- end of two releases -->"
SAME: Final = "="
NONE: Final = "-"

_OF_THE_STACK: Final = ("port", "url", "address", "path", "directory", "hostname", "clustername")
"""Words in names of settings whose values belong to a stack or a machine, in lower case."""


@dataclass(frozen=True, slots=True)
class Observed:
    """One release.

    Attributes:
        version: its version.
        seen: what was seen by subject.
        settings: the broker's settings at their defaults, by name.
    """

    version: str
    seen: Mapping[str, str]
    settings: Mapping[str, str]


def changed_settings(before: Observed, after: Observed) -> list[tuple[str, str, str]]:
    """Return name, value before and value after of each setting that both releases have, and whose default has changed."""
    return [
        (name, before.settings[name], after.settings[name])
        for name in sorted(before.settings.keys() & after.settings.keys())
        if before.settings[name] != after.settings[name] and not any(word in name.lower() for word in _OF_THE_STACK)
    ]


def table(before: Observed, after: Observed) -> list[str]:
    """Return both tables, in Markdown."""
    new, gone = after.settings.keys() - before.settings.keys(), before.settings.keys() - after.settings.keys()
    return [
        f"| subject | {before.version} | {after.version} |",
        "|---|---|---|",
        *(
            f"| {subject} | {text} | {SAME if after.seen[subject] == text else after.seen[subject]} |"
            for subject, text in before.seen.items()
        ),
        "",
        f"{_count(new, 'new')}. {_count(gone, 'gone')}. These have another default:",
        "",
        f"| setting | {before.version} | {after.version} |",
        "|---|---|---|",
        *_rows(changed_settings(before, after)),
    ]


def _count(names: Collection[str], word: str) -> str:
    """Return the number and the names of settings."""
    return f"{len(names)} {word}: {', '.join(f'`{name}`' for name in sorted(names))}"


def _rows(changes: Sequence[tuple[str, str, str]]) -> list[str]:
    return [f"| `{name}` | {_cell(old)} | {_cell(new)} |" for name, old, new in changes]


def _cell(value: str) -> str:
    """Return a value as code, in one line; long names of classes without their package."""
    text = " ".join(value.split()).replace("|", "\\|")
    short = text.rsplit(".", 1)[-1] if text.startswith("org.apache.") else text
    return f"`{short}`" if short else NONE
