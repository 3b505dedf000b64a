"""Building blocks of the dashboard: expressions, panels, rows, their places, and variables.

Fields are those of Grafana's documented dashboard JSON model (classic), https://grafana.com/docs/grafana/latest/dashboards/.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

WIDTH: Final = 24
"""Columns of a dashboard."""

SCHEMA_VERSION: Final = 39
SOURCE: Final[Mapping[str, str]] = {"type": "prometheus", "uid": "${datasource}"}

STATES: Final[Mapping[str, str]] = {"ok": "green", "info": "blue", "warning": "orange", "critical": "red"}
"""Colour of each severity of monitoring/rules.yaml, and of the absence of an alert. No panel has another colour for a state."""

SIZES: Final[Mapping[str, tuple[int, int]]] = {"stat": (4, 4), "timeseries": (8, 8), "state-timeline": (24, 6)}
"""Width and height of each type of panel."""

BROKER: Final = 'namespace=~"$namespace", pool=~"$pool", pod=~"$broker"'
"""Labels of the chosen brokers."""

POD: Final = 'namespace=~"$namespace", pod=~"$broker"'
"""Labels of pods with the names of the chosen brokers, for metrics without the label `pool`."""

ANY_POOL: Final = 'pool!=""'
"""Leaves out the processes of other programs, whose metrics have the same names and no label `pool`."""

OF_TOPIC: Final = 'topic=~"$topic"'
BY_POOL: Final = ("namespace", "pool")
BY_BROKER: Final = ("namespace", "pool", "pod")


def of_brokers(metric: str, *labels: str) -> str:
    """Return a selector of the chosen brokers' samples of a metric, with further labels."""
    return _selector(metric, BROKER, *labels)


def of_pods(metric: str, *labels: str) -> str:
    """Return a selector of the samples of a metric of Kubernetes, which has no label with the pool."""
    return _selector(metric, POD, *labels)


def _selector(metric: str, *labels: str) -> str:
    joined = ", ".join(labels)
    return f"{metric}{{{joined}}}"


def rate(selector: str) -> str:
    """Return the rate of a counter."""
    return f"rate({selector}[$__rate_interval])"


def total(expression: str, *by: str) -> str:
    """Return the sum of an expression, by labels."""
    return f"sum by ({', '.join(by)}) ({expression})" if by else f"sum({expression})"


def quantile(share: float, buckets: str, *by: str) -> str:
    """Return a quantile of a histogram, by labels."""
    return f"histogram_quantile({share:g}, {total(rate(buckets), *by, 'le')})"


@dataclass(frozen=True, slots=True)
class Panel:
    """A panel.

    Attributes:
        title: its title.
        description: what it shows.
        queries: expression and legend of each series; no legend for the labels.
        unit: Grafana's name of the unit.
        kind: Grafana's type of the panel.
        alert: severity of the alert that the figure has from `limit` on; empty for none.
        limit: figure from which it has that colour.
        maximum: largest value of the axis; None for any.
        severities: whether the names of the series begin with a severity, whose colour they have.
    """

    title: str
    description: str
    queries: Sequence[tuple[str, str]]
    unit: str = "short"
    kind: str = "timeseries"
    alert: str = ""
    limit: float = 1
    maximum: float | None = None
    severities: bool = False


@dataclass(frozen=True, slots=True)
class PanelRow:
    """A row: a title, and its panels from left to right."""

    title: str
    panels: Sequence[Panel] = field(default_factory=tuple)


def laid_out(rows: Sequence[PanelRow]) -> list[dict[str, Any]]:
    """Return all panels with identifiers and places."""
    made: list[dict[str, Any]] = []
    top = 0
    for row in rows:
        made.append(
            {
                "id": len(made) + 1,
                "type": "row",
                "title": row.title,
                "collapsed": False,
                "gridPos": {"h": 1, "w": WIDTH, "x": 0, "y": top},
                "panels": [],
            }
        )
        top, left, height = top + 1, 0, 0
        for panel in row.panels:
            width, size = SIZES[panel.kind]
            if left + width > WIDTH:
                top, left, height = top + height, 0, 0
            place = {"h": size, "w": width, "x": left, "y": top}
            made.append({"id": len(made) + 1, **_panel(panel, place)})
            left, height = left + width, max(height, size)
        top += height
    return made


def variable(name: str, label: str, query: str) -> dict[str, Any]:
    """Return a variable with the values of a query; all of them at first."""
    return {
        "name": name,
        "label": label,
        "type": "query",
        "datasource": dict(SOURCE),
        "query": {"query": query, "refId": name},
        "definition": query,
        "refresh": 2,
        "includeAll": True,
        "allValue": ".*",
        "multi": True,
        "sort": 1,
        "current": {"text": ["All"], "value": ["$__all"]},
    }


def _panel(panel: Panel, place: Mapping[str, int]) -> dict[str, Any]:
    return {
        "type": panel.kind,
        "title": panel.title,
        "description": panel.description,
        "datasource": dict(SOURCE),
        "gridPos": dict(place),
        "fieldConfig": {"defaults": _defaults(panel), "overrides": _overrides(panel)},
        "options": _options(panel),
        "targets": [
            {
                "refId": chr(ord("A") + index),
                "datasource": dict(SOURCE),
                "expr": expression,
                **({"legendFormat": legend} if legend else {}),
            }
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }


def _defaults(panel: Panel) -> dict[str, Any]:
    steps: list[dict[str, Any]] = [{"color": STATES["ok"] if panel.alert else STATES["info"], "value": None}]
    if panel.alert:
        steps.append({"color": STATES[panel.alert], "value": panel.limit})
    made: dict[str, Any] = {"unit": panel.unit, "thresholds": {"mode": "absolute", "steps": steps}}
    if panel.kind == "stat":
        return {**made, "color": {"mode": "thresholds"}}
    if panel.kind == "state-timeline":
        return {**made, "color": {"mode": "fixed", "fixedColor": STATES["info"]}, "custom": {"fillOpacity": 80}}
    shown = "line" if panel.alert else "off"
    return {
        **made,
        "min": 0,
        **({} if panel.maximum is None else {"max": panel.maximum}),
        "color": {"mode": "palette-classic"},
        "custom": {
            "lineWidth": 1,
            "fillOpacity": 0,
            "showPoints": "never",
            "stacking": {"mode": "none"},
            "thresholdsStyle": {"mode": shown},
        },
    }


def _overrides(panel: Panel) -> list[dict[str, Any]]:
    if not panel.severities:
        return []
    return [
        {
            "matcher": {"id": "byRegexp", "options": f"/^{severity}:/"},
            "properties": [{"id": "color", "value": {"mode": "fixed", "fixedColor": color}}],
        }
        for severity, color in STATES.items()
    ]


def _options(panel: Panel) -> dict[str, Any]:
    if panel.kind == "stat":
        reduced = {"calcs": ["lastNotNull"], "fields": "", "values": False}
        return {"reduceOptions": reduced, "colorMode": "value", "graphMode": "area"}
    legend = {"displayMode": "list", "placement": "bottom"}
    if panel.kind == "state-timeline":
        return {"mergeValues": True, "showValue": "never", "rowHeight": 0.8, "legend": {**legend, "showLegend": False}}
    return {"legend": legend, "tooltip": {"mode": "multi", "sort": "desc"}}
