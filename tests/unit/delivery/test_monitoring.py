"""Dashboard and alerts name metrics and labels that exist, and the alerts are raised when they should be."""

from __future__ import annotations

import json
import re
import subprocess

import pytest
import yaml
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from devstack.kube import programs
from docsite.metrics import labels, of_broker, of_operator
from tests.unit.delivery.conftest import ROOT, run, template_run

FOLDER = ROOT / "monitoring"
CHART_FILES = ROOT / "charts" / "pulsar-readonly" / "files"
OF_SCRAPES = {"namespace", "pool", "pod", "le"}
"""Labels that Prometheus adds, as docs/how-to/monitoring.md says, and those of histograms."""
SAMPLES = {"counter": ("_total",), "gauge": ("",), "histogram": ("_bucket", "_count", "_sum")}


def dashboard() -> dict:
    return json.loads((FOLDER / "grafana-dashboard.json").read_text())


def rules() -> list[dict]:
    groups = yaml.safe_load((FOLDER / "rules.yaml").read_text())["groups"]
    return [rule for group in groups for rule in group["rules"]]


def expressions() -> list[tuple[str, str]]:
    """Every expression, with the name of the panel or alert."""
    found = [(rule["alert"], rule["expr"]) for rule in rules()]
    for panel in dashboard()["panels"]:
        found += [(panel["title"], target["expr"]) for target in panel.get("targets", ())]
    return found


EXPRESSIONS = [pytest.param(text, id=f"{name}-{index}") for index, (name, text) in enumerate(expressions())]


@pytest.fixture(scope="module")
def metrics() -> dict[str, set[str]]:
    """The labels of every sample that brokers and operator serve, by its name."""
    families = (*of_broker(), *of_operator())
    return {f"{one.name}{end}": set(labels(one)) for one in families for end in SAMPLES[one.type]}


@pytest.fixture(scope="session")
def promtool():
    path = str(programs.find("promtool", programs.PROMTOOL))
    return lambda *arguments: run(path, *arguments)


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_every_metric_exists_and_has_these_labels(metrics, expression):
    named = set(re.findall(r"\b[a-z_]*pulsar_readonly_\w+", expression))
    assert named
    assert named <= set(metrics)
    grouped = {label.strip() for part in re.findall(r"by \(([^)]*)\)", expression) for label in part.split(",")}
    matched = set(re.findall(r'(\w+)(?:=|=~|!=|!~)"', expression))
    allowed = OF_SCRAPES | {label for name in named for label in metrics[name]}
    assert grouped | matched <= allowed


def test_every_metric_is_shown(metrics):
    shown = {name for _, text in expressions() for name in re.findall(r"pulsar_readonly_\w+", text)}
    ends = ("_sum", "_count", "_bucket")
    assert {name for name in metrics if not name.endswith(ends)} - shown == set()


class Families(Collector):
    """Metrics that were collected before."""

    def __init__(self, families):
        self._families = families

    def collect(self):
        return self._families


@pytest.mark.parametrize("collect", [of_broker, of_operator])
def test_promtool_finds_no_fault_with_names_and_texts(collect):
    registry = CollectorRegistry(auto_describe=False)
    registry.register(Families(collect()))
    text = generate_latest(registry)
    path = str(programs.find("promtool", programs.PROMTOOL))
    done = subprocess.run([path, "check", "metrics"], input=text, capture_output=True, timeout=60, check=False)
    assert (done.returncode, done.stderr.decode()) == (0, "")


def test_the_alerts_are_raised_when_they_should_be(promtool):
    done = promtool("test", "rules", str(FOLDER / "rules-test.yaml"))
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_alert_is_tried():
    tests = yaml.safe_load((FOLDER / "rules-test.yaml").read_text())["tests"]
    raised = {case["alertname"] for test in tests for case in test.get("alert_rule_test", ()) if case.get("exp_alerts")}
    assert raised == {rule["alert"] for rule in rules()}


def test_every_expression_of_the_dashboard_can_be_parsed(promtool, tmp_path):
    texts = [
        text.replace("$__rate_interval", "5m")
        for panel in dashboard()["panels"]
        for text in (target["expr"] for target in panel.get("targets", ()))
    ]
    records = [
        {"record": f"panel:expression:{index}".replace(":", "_"), "expr": text} for index, text in enumerate(texts)
    ]
    file = tmp_path / "panels.yaml"
    file.write_text(yaml.safe_dump({"groups": [{"name": "panels", "rules": records}]}))
    done = promtool("check", "rules", "--lint=none", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_panels_say_what_they_show_and_do_not_overlap():
    taken: set[tuple[int, int]] = set()
    panels = dashboard()["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    for panel in panels:
        place = panel["gridPos"]
        cells = {(place["x"] + x, place["y"] + y) for x in range(place["w"]) for y in range(place["h"])}
        assert not cells & taken, panel["title"]
        assert max(x for x, _ in cells) < 24, panel["title"]
        taken |= cells
        assert panel["type"] == "row" or panel["description"], panel["title"]


def test_variables_are_declared():
    text = (FOLDER / "grafana-dashboard.json").read_text()
    declared = {variable["name"] for variable in dashboard()["templating"]["list"]}
    assert set(re.findall(r"\$\{?([a-z]+)", text)) <= declared


def test_the_chart_has_the_same():
    for name in ("grafana-dashboard.json", "rules.yaml"):
        assert (CHART_FILES / name).read_text() == (FOLDER / name).read_text(), "run: make chart"


def test_the_chart_embeds_them(template):
    objects = template("monitoring.rules.enabled=true", "monitoring.dashboard.enabled=true")
    made = {one["kind"]: one for one in objects}
    assert made["PrometheusRule"]["spec"] == yaml.safe_load((FOLDER / "rules.yaml").read_text())
    embedded = next(one for one in objects if one["metadata"]["name"] == "pulsar-readonly-dashboard")
    assert json.loads(embedded["data"]["pulsar-readonly.json"]) == dashboard()
    assert embedded["metadata"]["labels"]["grafana_dashboard"] == "1"


def test_the_operators_own_pod_monitor(template):
    made = {
        one["kind"]: one for one in template("monitoring.podMonitor.enabled=true", "monitoring.podMonitor.labels.a=b")
    }
    monitor = made["PodMonitor"]
    ports = made["Deployment"]["spec"]["template"]["spec"]["containers"][0]["ports"]
    assert monitor["metadata"]["labels"]["a"] == "b"
    assert {one["port"] for one in monitor["spec"]["podMetricsEndpoints"]} <= {port["name"] for port in ports}
    selected = monitor["spec"]["selector"]["matchLabels"].items()
    assert selected <= made["Deployment"]["spec"]["template"]["metadata"]["labels"].items()


def test_every_alert_is_in_the_documentation():
    text = (ROOT / "docs" / "how-to" / "monitoring.md").read_text()
    for rule in rules():
        assert rule["alert"] in text or rule["alert"].replace("PulsarReadonly", "...") in text, rule["alert"]
        assert rule["labels"]["severity"] in {"info", "warning", "critical"}
        assert set(rule["annotations"]) == {"summary", "description", "runbook_url"}


def test_every_alert_has_a_runbook_of_its_own():
    text = (ROOT / "docs" / "how-to" / "runbooks.md").read_text()
    sections = dict(re.findall(r"^## (\w+)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    assert sorted(sections) == sorted(rule["alert"] for rule in rules())
    for rule in rules():
        assert rule["annotations"]["runbook_url"] == f"how-to/runbooks.html#{rule['alert'].lower()}"
        for word in ("Effect", "Check", "Remedy"):
            assert f"**{word}.**" in sections[rule["alert"]], (rule["alert"], word)


def test_runbooks_name_metrics_that_exist(metrics):
    text = (ROOT / "docs" / "how-to" / "runbooks.md").read_text()
    families = {re.sub(r"_(bucket|count|sum)$", "", name) for name in metrics}
    assert set(re.findall(r"pulsar_readonly_\w+", text)) <= families


def test_the_chart_puts_the_site_of_the_documentation_in_front_of_runbooks(template):
    site = "https://docs.example.com/latest/"
    objects = template("monitoring.rules.enabled=true", f"monitoring.rules.runbookUrl={site}")
    made = next(one for one in objects if one["kind"] == "PrometheusRule")
    found = [rule for group in made["spec"]["groups"] for rule in group["rules"]]
    assert len(found) == len(rules())
    for rule in found:
        assert rule["annotations"]["runbook_url"] == f"{site}how-to/runbooks.html#{rule['alert'].lower()}"


@pytest.mark.parametrize("value", ["docs.example.com/", "https://docs.example.com", "https://a b/", "https://x/#y/"])
def test_the_chart_refuses_a_site_that_gives_no_link(helm, value):
    done = template_run(helm, "monitoring.rules.enabled=true", f"monitoring.rules.runbookUrl={value}")
    assert done.returncode != 0
    assert "runbookUrl" in done.stderr
