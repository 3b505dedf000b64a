#!/bin/bash
# A histogram of prometheus_client adds NaN to its sum for ever, and does not count it.
set -eu
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
${PYTHON:-python3} -m venv "$folder/venv"
"$folder/venv/bin/pip" install -q --disable-pip-version-check prometheus-client==0.26.0
"$folder/venv/bin/python" - <<'PROGRAM'
from importlib.metadata import version

from prometheus_client import CollectorRegistry, Histogram

print("prometheus-client", version("prometheus-client"))
registry = CollectorRegistry()
histogram = Histogram("h", "help", registry=registry)
histogram.observe(1.0)
histogram.observe(float("nan"))
seen = (registry.get_sample_value("h_count"), str(registry.get_sample_value("h_sum")))
expected = (1.0, "nan")
print("guess:", 'an observation of NaN is counted, as each other observation')
print("seen: ", seen)
if seen != expected:
    raise SystemExit(f"changed: it was {expected!r}")
PROGRAM
# Here: durations are observed, which are never NaN (operator/readonly_operator/metrics.py).
