# pulsar-readonly. `make help` lists the targets, `make -C lab help` those of the laboratory.
include lab/common.mk
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

.PHONY: help
help:
	@grep -hE '^[a-z0-9-]+:.*##' Makefile | sed -E 's/^([a-z0-9-]+):.*## /\1\t/' | expand -t 20
	@echo 'More builds, long tests and benches: make -C lab help'

# The main job
$(DEMO_STAMP):
	@$(NEW_PYTHON)
	@echo "installing 38 locked Python packages into $(DEMO_VENV): half a minute, once"
	@$(DEMO_PY) -m pip --version >/dev/null 2>&1 || $(PYTHON) -m venv --clear $(DEMO_VENV)
	@$(DEMO_PY) -m pip install -q --disable-pip-version-check --require-hashes -r requirements/engine.txt -r requirements/build.txt
	@$(DEMO_PY) -m pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f $(DEMO_VENV)/.stamp-* && touch $@
.PHONY: demo demo-addresses demo-kubernetes clean-demo
DEMO_OPTIONS = $(if $(PULSAR_URL)$(ADMIN_URL),--service-url '$(PULSAR_URL)' --admin-url '$(ADMIN_URL)' --metadata-store-url '$(METADATA)') \
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

# Set-up. Each target installs what it needs; a package that is missing is named before anything is downloaded.
.PHONY: system packages-demo packages-kubernetes packages-test packages-system setup venv
packages-demo packages-kubernetes packages-test packages-system: packages-%:
	@PULSAR_URL='$(PULSAR_URL)' NO_INSTALL='$(NO_INSTALL)' lab/devstack/install-packages $*
system: packages-system
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

# Checks
NODES ?= 2
E2E_OPTIONS = --kind-bin=lab/devstack/bin/kind --kind-kubectl-bin=$(KUBE_BIN)/kubectl --cluster-name=pulsar-readonly --keep-cluster
E2E_TESTS ?= tests/e2e
.PHONY: test test-all test-unit test-integration test-e2e lint types
test: SELECTED = not slow and not nightly
test: test-all ## unit, integration (Pulsar processes) and end-to-end tests (Kubernetes), and one line of totals: 15 minutes on 2 cores, 25 more the first time
SELECTED = not slow
test-all: setup lint types ## the same with the nightly tests
	@$(PY) -m tests.suites -m "$(SELECTED)" $(PYTEST_OPTIONS) $(E2E_OPTIONS)
test-unit: $(STAMP) ## the fast ones
	@$(PY) -m pytest -m "not slow" $(PYTEST_OPTIONS) tests/unit lab/tests
test-integration: $(STAMP) ## on a real Pulsar
	@$(PY) -m pytest -m "not slow" $(PYTEST_OPTIONS) tests/integration
test-e2e: packages-test $(STAMP) ## on a real Kubernetes of two nodes (INSTALL=helm: the operator by the chart instead of kustomize)
	@$(PY) -m devstack kube build $(if $(filter helm,$(INSTALL)),--with helm)
	@$(PY) -m devstack kube up --fresh --nodes $(NODES)
	@$(PY) -m pytest $(PYTEST_OPTIONS) $(E2E_OPTIONS) $(if $(INSTALL),--install-by=$(INSTALL)) $(E2E_TESTS)
ifneq ($(filter lint types,$(MAKECMDGOALS)),)
# A failure of one check hides no other.
MAKEFLAGS += --keep-going
endif
lint: $(STAMP) ## ruff: rules and formatting
	@$(PY) -m ruff check .; rules=$$?; $(PY) -m ruff format --check . && exit $$rules
types: $(STAMP) ## mypy, strict
	@$(PY) -m mypy

# Generated files. A unit test compares each with its source.
.PHONY: generate crds chart proto
generate: proto docs-pages chart ## make the generated files again: definitions, protobuf modules, pages of reference, copies in the chart
crds: $(STAMP)
	@$(PY) -m readonly_operator.api.crds crds charts/pulsar-readonly/crds
	@$(PY) -m readonly_operator.api.reference docs/reference/api.md
RULE := examples/platform/prometheus-rule.yaml
chart: crds
	@cp monitoring/grafana-dashboard.json monitoring/rules.yaml charts/pulsar-readonly/files/
	@sed -i '/^spec:/q' $(RULE) && sed 's/^./  &/' monitoring/rules.yaml >> $(RULE)
WIRE := engine/readonly_engine/wire
proto: $(STAMP)
	@$(PY) -m grpc_tools.protoc -I $(WIRE) --python_out=$(WIRE) --pyi_out=$(WIRE) $(notdir $(wildcard $(WIRE)/*.proto))

# By the laboratory
.PHONY: docs docs-pages bench
docs: ## build the documentation into build/site; a broken link or a page outside the navigation fails the build
	@$(MAKE) -s -C lab docs
docs-pages:
	@$(MAKE) -s -C lab docs-pages
bench: ## read-only brokers and stock brokers by turns: takes hours; writes docs/explanation/performance*.md (BENCH=options)
	@$(MAKE) -s -C lab bench
