"""Generate docs/reference/conditions.md: conditions, their reasons, and the Events of all kinds of objects."""

from __future__ import annotations

from typing import TYPE_CHECKING

from readonly_operator.api.reasons import CONDITIONS, EVENTS, OF_BINDINGS, OF_BOTH, OF_POOLS, OF_SOURCES
from readonly_operator.kube import events
from readonly_operator.kube.status import STALLED_REASONS

from docsite.markdown import NOTE, code, table

if TYPE_CHECKING:
    from collections.abc import Sequence

    from readonly_operator.api.reasons import Meaning

HEAD = f"""# Conditions, reasons and events

{NOTE}

Each condition has a status, a reason for programs, a message for people, and the `observedGeneration` that it describes.
`kubectl describe robp/NAME` and `kubectl describe rotb/NAME` show conditions and events.
"""
_FINAL = ", ".join(code(reason) for reason in sorted(STALLED_REASONS))
STALLED = f"""`Stalled` is True while the reason of `Ready` is one of {_FINAL}. It has that reason.
`Progressing` is True with the reason of the condition that it waits for. While `Stalled` is True, `Progressing` is False with the reason
of `Ready`, and `LookupConfigured` of a pool is Unknown with it. `Reconciling` is True while `Progressing` is, with its reason.
"""
BINDINGS = """`LookupConfigured` of a binding is True while every ready broker holds the binding. Else it has a reason of the pool's
`LookupConfigured`. `Ready` has that reason too while no ready broker holds the binding.
"""
HOW_OFTEN = f"""The same event of an object is counted in one Event, at most every
{events.REPEAT_SECONDS / 60:.0f} minutes. All together are at most {events.PER_SECOND:.0f} per second after a burst of {events.BURST}. A condition makes an event when its status or reason changes.
"""


def page() -> str:
    """Return the whole page, Markdown."""
    return "\n".join(
        [
            HEAD,
            "## Conditions\n",
            table(["condition", "True means"], [[code(name), text] for name, text in CONDITIONS.items()]),
            f"\n{STALLED}",
            "## Reasons of pools\n",
            _reasons([*OF_POOLS, *OF_BOTH]),
            "\n## Reasons of bindings\n",
            _reasons([*OF_BINDINGS, *OF_BOTH]),
            f"\n{BINDINGS}",
            "## Reasons of sources\n",
            _reasons(OF_SOURCES),
            f"\n## Events\n\n{HOW_OFTEN}",
            "Besides the reasons above, events have these:\n",
            table(["reason", "meaning"], [[code(reason), text] for reason, text in EVENTS.items()]),
            "",
        ]
    )


def _reasons(rows: Sequence[Meaning]) -> str:
    head = ["condition", "status", "reason", "event", "meaning"]
    return table(head, [[code(row.condition), row.status, code(row.reason), event(row), row.text] for row in rows])


def event(row: Meaning) -> str:
    """Return the type of the event that a condition makes when it gets this reason; nothing for none."""
    if row.condition not in events._ONCE:  # noqa: SLF001 - the page shows what that module decides
        return ""
    if row.reason in events._TROUBLE:  # noqa: SLF001
        return events.WARNING
    return events._NOTICES.get((row.condition, row.status), "")  # noqa: SLF001
