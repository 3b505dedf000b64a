# pulsar-readonly. `make help` lists the targets.
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
PY := $(VENV)/bin/python
NATIVE := $(sort $(wildcard engine/readonly_engine/*/*.[ch] spark/readonly_spark/*/*.[ch]))
# Made again when what it depends on changes, and when the folder was moved.
STAMP := $(VENV)/.stamp-$(shell { cat requirements/dev.txt pyproject.toml $(NATIVE); pwd; } | sha256sum | cut -c1-16)
KUBE_BIN = $(shell $(PY) -c 'from devstack.kube.layout import default_layout; print(default_layout().bin)')

.PHONY: help
help: ## this list
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 20

include devstack/pulsar.mk devstack/kube.mk tests/checks.mk bench/bench.mk docs.mk

# Set-up: both together make a fresh Debian or Ubuntu ready.
.PHONY: system setup venv lock
system: ## install the Debian packages that are missing (needs root)
	@devstack/install-packages
setup: $(STAMP) ## everything else that demo and tests need: Python packages, the Pulsar distribution, Kubernetes, images, an object store
	@$(PY) -m devstack pulsar fetch --all
	@$(PY) -m devstack kube build --with helm --with promtool
	@$(PY) -m devstack image build all
	@$(PY) -m devstack objectstore build
venv: $(STAMP) ## the locked Python packages, in .venv, and the project with its modules in C
$(STAMP):
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..." >&2; exit 1; }
	@$(PY) -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(VENV)
	@echo "installing the locked Python packages into $(VENV)"
	@$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(if $(CI),CFLAGS=-Werror) $(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@$(PY) -m readonly_engine.native
	@rm -f $(VENV)/.stamp-* && touch $@
lock: $(STAMP) ## resolve and lock the Python packages again (needs uv)
	@requirements/lock

# The main job
.PHONY: demo clean-demo
demo: $(STAMP) ## from nothing to messages read through a pool, with a table of what came of it
	@$(PY) -m devstack demo run
clean-demo: $(STAMP) ## end the demo's Kubernetes and all that runs in it
	@$(PY) -m devstack demo clean

# Checks
ifdef PULSAR
export PULSAR_READONLY_PULSAR := $(PULSAR)
endif
ifdef METADATA
export PULSAR_READONLY_METADATA := $(METADATA)
endif
ifdef STORES
export PULSAR_READONLY_STORES := $(STORES)
endif
NODES ?= 2
E2E_OPTIONS = --kind-bin=devstack/bin/kind --kind-kubectl-bin=$(KUBE_BIN)/kubectl --cluster-name=pulsar-readonly --keep-cluster
E2E_TESTS ?= tests/e2e
.PHONY: test test-all test-unit test-integration test-slow test-e2e e2e test-kind lint types
test: SELECTED = not slow and not nightly
test: test-all ## unit, integration (Pulsar processes) and end-to-end tests (Kubernetes), and one line of totals; 15 to 20 minutes
SELECTED = not slow
test-all: lint types ## the same with the nightly tests (tests/nightly.py)
	@$(PY) -m devstack kube build --with helm --with promtool
	@$(PY) -m tests.suites -m "$(SELECTED)" $(PYTEST_OPTIONS) $(E2E_OPTIONS)
test-unit: $(STAMP) ## the fast ones
	@$(PY) -m pytest -m "not slow" $(PYTEST_OPTIONS) tests/unit
test-integration: $(STAMP) ## on a real Pulsar
	@$(PY) -m pytest -m "not slow" $(PYTEST_OPTIONS) tests/integration
test-slow: $(STAMP) ## tests that wait long, and are left out of the others (those of Spark: make test-spark)
	@$(PY) -m pytest -m slow --ignore-glob='*/test_spark*.py' $(PYTEST_OPTIONS) tests/unit tests/integration
test-e2e: $(STAMP) ## on a real Kubernetes of two nodes (INSTALL=helm: the operator by the chart instead of kustomize)
	@$(PY) -m devstack kube build $(if $(filter helm,$(INSTALL)),--with helm)
	@$(PY) -m devstack kube up --fresh --nodes $(NODES)
	@$(PY) -m pytest $(PYTEST_OPTIONS) $(E2E_OPTIONS) $(if $(INSTALL),--install-by=$(INSTALL)) $(E2E_TESTS)
e2e: test-e2e
test-kind: NODES = 1
test-kind: $(STAMP) ## the same on real kind of one node, on a Docker engine in namespaces of its own, as root (E2E_TESTS=tests/e2e/test_pool.py)
	@$(DEVSTACK) kind up --nodes $(NODES)
	@$(DEVSTACK) kind run -- make test-e2e NODES=$(NODES)
lint: $(STAMP) ## ruff: rules and formatting
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .
types: $(STAMP) ## mypy, strict
	@$(PY) -m mypy

.PHONY: shape
shape: $(STAMP) ## files of each folder, largest files, repeated lines, import circles; fails on a circle
	@$(PY) -m tests.shape $(SHAPE_OPTIONS)

.PHONY: crds
crds: $(STAMP) ## make the custom resource definitions again from the operator's typed specs, here and in the chart
	@$(PY) -m readonly_operator.api.crds crds charts/pulsar-readonly/crds
	@$(PY) -m readonly_operator.api.reference docs/reference/api.md
.PHONY: chart
RULE := examples/platform/prometheus-rule.yaml
chart: crds ## copy what the chart and the examples embed: definitions, dashboard and alerts
	@cp monitoring/grafana-dashboard.json monitoring/rules.yaml charts/pulsar-readonly/files/
	@sed -i '/^spec:/q' $(RULE) && sed 's/^./  &/' monitoring/rules.yaml >> $(RULE)

.PHONY: olm
OLM ?= build/olm
olm: $(STAMP) ## a bundle for the Operator Lifecycle Manager (OPERATOR_IMAGE= ENGINE_IMAGE= OLM=build/olm REPLACES=)
	@$(PY) -m readonly_operator.api.olm --operator-image '$(OPERATOR_IMAGE)' --engine-image '$(ENGINE_IMAGE)' --replaces '$(REPLACES)' '$(OLM)'

.PHONY: release release-check
OUT ?= build/release
RELEASE = --version '$(VERSION)' --registry '$(REGISTRY)' --source '$(SOURCE)' $(RELEASE_OPTIONS)
release: $(STAMP) ## packages, images, chart and manifests of this commit (VERSION=0.1.0 REGISTRY=registry.example.com/team OUT= RELEASE_OPTIONS=)
	@$(PY) -m devstack release build $(RELEASE) --out '$(OUT)'
release-check: $(STAMP) ## build a release twice and compare every file (VERSION= REGISTRY=)
	@$(PY) -m devstack release check $(RELEASE)

WIRE := engine/readonly_engine/wire
.PHONY: proto
proto: $(STAMP) ## make the protobuf modules again from their .proto files
	@$(PY) -m grpc_tools.protoc -I $(WIRE) --python_out=$(WIRE) --pyi_out=$(WIRE) $(notdir $(wildcard $(WIRE)/*.proto))
