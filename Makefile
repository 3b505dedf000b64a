# pulsar-readonly. `make help` lists the targets for each day, `make help-all` all of them.
SHELL := /bin/bash
# The first that runs; a shim of a version manager may be there and not run.
ifndef PYTHON
PYTHON := $(or $(shell for one in python3.11 python3.12 python3.13 python3; do $$one -c '' 2>/dev/null && echo $$one && break; done),python3)
endif
export PYTHON
# A machine that forbids bytecode would compile some 1,700 modules again for each Python.
unexport PYTHONDONTWRITEBYTECODE
VENV := .venv
PY := $(VENV)/bin/python
NATIVE := $(sort $(wildcard engine/readonly_engine/*/*.[ch] spark/readonly_spark/*/*.[ch]))
# Made again when what it depends on changes, and when the folder was moved.
STAMP := $(VENV)/.stamp-$(shell { cat requirements/dev.txt pyproject.toml lab/pyproject.toml $(NATIVE); pwd; } | sha256sum | cut -c1-16)
# The demo needs a fifth of the packages.
DEMO_VENV := .venv-demo
DEMO_PY := $(DEMO_VENV)/bin/python
DEMO_STAMP := $(DEMO_VENV)/.stamp-$(shell { cat requirements/engine.txt requirements/build.txt pyproject.toml $(NATIVE); pwd; } | sha256sum | cut -c1-16)
NEW_PYTHON := $(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || { echo "Python 3.11 or newer is needed: make PYTHON=python3.12 ..." >&2; exit 1; }
KUBE_BIN = $(shell $(PY) -c 'from devstack.kube.layout import default_layout; print(default_layout().bin)')

.PHONY: help help-all
DAILY := demo demo-kubernetes clean-demo test test-unit test-integration test-e2e test-all lint types pulsar-up kube-up bench docs help-all
help: ## the targets for each day
	@$(MAKE) -s help-all | grep -E '^($(subst $(eval) ,|,$(DAILY))) '
help-all: ## all targets, with the long tests and benches
	@grep -hE '^[a-z0-9-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 20

include lab/pulsar.mk lab/kube.mk lab/checks.mk lab/bench.mk lab/docs.mk

# Set-up. Each target installs what it needs; a package that is missing is named before anything is downloaded.
.PHONY: system packages-demo packages-kubernetes packages-test packages-system setup venv lock
packages-demo packages-kubernetes packages-test packages-system: packages-%:
	@PULSAR_URL='$(PULSAR_URL)' NO_INSTALL='$(NO_INSTALL)' lab/devstack/install-packages $*
system: packages-system ## install all Debian packages that are missing
setup: packages-test $(STAMP) ## download and build now what the tests need, else done on first use: 25 minutes
	@$(PY) -m devstack pulsar fetch --all
	@$(PY) -m devstack kube build --with helm --with promtool
	@$(PY) -m devstack image build all
	@$(PY) -m devstack objectstore build
venv: $(STAMP) ## the locked Python packages, in .venv, and the project with its modules in C
$(STAMP):
	@$(NEW_PYTHON)
	@echo "installing the locked Python packages into $(VENV)"
	@$(PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(VENV)
	@$(PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(if $(CI),CFLAGS=-Werror) $(PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e . -e lab
	@$(PY) -m readonly_engine.native
	@rm -f $(VENV)/.stamp-* && touch $@
lock: $(STAMP) ## resolve and lock the Python packages again (needs uv)
	@requirements/lock

# The main job
$(DEMO_STAMP):
	@$(NEW_PYTHON)
	@echo "installing 26 locked Python packages into $(DEMO_VENV): half a minute, once"
	@$(DEMO_PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(DEMO_VENV)
	@$(DEMO_PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/engine.txt -r requirements/build.txt
	@$(DEMO_PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f $(DEMO_VENV)/.stamp-* && touch $@
.PHONY: demo demo-addresses demo-kubernetes clean-demo
DEMO_OPTIONS = $(if $(PULSAR_URL)$(ADMIN_URL),--writer-url '$(PULSAR_URL)' --admin-url '$(ADMIN_URL)' --metadata-store '$(METADATA)') \
	$(if $(KEEP),--keep) $(if $(OPEN),--open) $(if $(MESSAGES),--messages '$(MESSAGES)') $(if $(TOKEN_FILE),--token-file '$(TOKEN_FILE)') \
	$(if $(NAMESPACE),--namespace '$(NAMESPACE)') $(if $(YES),--yes)
demo-addresses:
	@$(if $(and $(PULSAR_URL)$(ADMIN_URL),$(if $(and $(PULSAR_URL),$(ADMIN_URL),$(METADATA)),,missing)),echo "a cluster of yours needs PULSAR_URL= and ADMIN_URL= and METADATA= together" >&2; exit 2)
demo: demo-addresses packages-demo $(DEMO_STAMP) ## a stock Pulsar, a pool of two, one killed: 0 lost (KEEP=1 OPEN=1, or your own: PULSAR_URL= ADMIN_URL= METADATA=)
	@$(DEMO_PY) -m readonly_engine.command demo $(DEMO_OPTIONS)
demo-kubernetes: packages-kubernetes $(DEMO_STAMP) ## the same by kubectl apply, on kind or on a local Kubernetes, which it builds first: 14 minutes
	@PYTHONPATH=lab $(DEMO_PY) -m devstack demo run
clean-demo: $(DEMO_STAMP) ## end the Kubernetes of demo-kubernetes and all that runs in it
	@PYTHONPATH=lab $(DEMO_PY) -m devstack demo clean

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
E2E_OPTIONS = --kind-bin=lab/devstack/bin/kind --kind-kubectl-bin=$(KUBE_BIN)/kubectl --cluster-name=pulsar-readonly --keep-cluster
E2E_TESTS ?= tests/e2e
.PHONY: test test-all test-unit test-integration test-slow test-e2e e2e test-kind lint types
test: SELECTED = not slow and not nightly
test: test-all ## unit, integration (Pulsar processes) and end-to-end tests (Kubernetes), and one line of totals: 15 minutes on 2 cores, 25 more the first time
SELECTED = not slow
test-all: setup lint types ## the same with the nightly tests (tests/nightly.py)
	@$(PY) -m tests.suites -m "$(SELECTED)" $(PYTEST_OPTIONS) $(E2E_OPTIONS)
test-unit: $(STAMP) ## the fast ones
	@$(PY) -m pytest -m "not slow" $(PYTEST_OPTIONS) tests/unit lab/tests
test-integration: $(STAMP) ## on a real Pulsar
	@$(PY) -m pytest -m "not slow" $(PYTEST_OPTIONS) tests/integration
test-slow: $(STAMP) ## tests that wait long, and are left out of the others (those of Spark: make test-spark)
	@$(PY) -m pytest -m slow --ignore-glob='*/test_spark*.py' $(PYTEST_OPTIONS) tests/unit lab/tests tests/integration
test-e2e: packages-test $(STAMP) ## on a real Kubernetes of two nodes (INSTALL=helm: the operator by the chart instead of kustomize)
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
