# pulsar-readonly. `make help` lists the targets.
SHELL := /bin/bash
PYTHON ?= python3.11
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.stamp-$(shell cat requirements/dev.txt pyproject.toml | sha256sum | cut -c1-16)

.PHONY: help
help: ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 20

$(STAMP): requirements/dev.txt pyproject.toml
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@echo "installing the locked Python packages into $(VENV)"
	@$(VENV)/bin/pip install -q --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(VENV)/bin/pip install -q --disable-pip-version-check --no-deps --no-build-isolation -e .
	@rm -f $(VENV)/.stamp-*; touch $@

.PHONY: venv
venv: $(STAMP) ## the locked Python packages, in .venv

.PHONY: lint types
lint: $(STAMP) ## ruff: rules and formatting
	@$(PY) -m ruff check . && $(PY) -m ruff format --check .
types: $(STAMP) ## mypy, strict
	@$(PY) -m mypy

WIRE := engine/readonly_engine/wire
.PHONY: proto
proto: $(STAMP) ## the protobuf modules, made again from their .proto files
	@$(PY) -m grpc_tools.protoc -I $(WIRE) --python_out=$(WIRE) --pyi_out=$(WIRE) $(notdir $(wildcard $(WIRE)/*.proto))
