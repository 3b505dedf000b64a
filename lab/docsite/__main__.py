"""`python -m docsite`: write the generated reference pages and pictures below docs/, the dashboard, and the README of the chart."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

from docsite import chart, cli, conditions, configuration, doctor, evidence, metrics, names, sequence, support
from docsite.dashboard import rows

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

DOCS: Final = Path(__file__).resolve().parents[2] / "docs"
PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "../charts/pulsar-readonly/README.md": chart.page,
    "reference/cli.md": cli.page,
    "reference/conditions.md": conditions.page,
    "reference/configuration.md": configuration.page,
    "reference/configuration.schema.json": configuration.schema_text,
    "reference/doctor.md": doctor.page,
    "reference/evidence.md": evidence.page,
    "reference/metrics.md": metrics.page,
    "reference/names.md": names.page,
    "reference/support.md": support.page,
}
"""Each generated page or file, from docs/, and its generator."""

DASHBOARD: Final = DOCS.parent / "monitoring" / "grafana-dashboard.json"
"""The dashboard. `make chart` copies it into the chart."""


def pictures() -> Mapping[str, str]:
    """Return each picture below docs/ with its content.

    Raises:
        DiagramError: a diagram cannot be read; names the file.
    """
    found = {}
    for path in sorted(DOCS.glob("pictures/*.mmd")):
        try:
            drawn = sequence.draw(sequence.parse(path.read_text(encoding="utf-8")))
        except sequence.DiagramError as error:
            raise sequence.DiagramError(f"{path.name}: {error}") from error
        found[f"pictures/{path.stem}.svg"] = drawn
    return found


def main() -> int:
    """Write every generated file; returns the exit status."""
    for name, made in PAGES.items():
        (DOCS / name).write_text(made(), encoding="utf-8")
    DASHBOARD.write_text(rows.text(), encoding="utf-8")
    for name, drawn in pictures().items():
        (DOCS / name).write_text(drawn, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
