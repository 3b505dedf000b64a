# Variables of the Makefile of the root, and of that of lab/.
SHELL := /bin/bash
# The first that runs; a shim of a version manager may be there and not run.
ifndef PYTHON
PYTHON := $(or $(shell for one in python3.11 python3.12 python3.13 python3; do $$one -c '' 2>/dev/null && echo $$one && break; done),python3)
endif
export PYTHON
# A machine that forbids bytecode would compile some 1,700 modules again for each Python.
unexport PYTHONDONTWRITEBYTECODE
ifdef PULSAR
export PULSAR_READONLY_PULSAR := $(PULSAR)
endif
ifdef METADATA
export PULSAR_READONLY_METADATA := $(METADATA)
endif
ifdef STORES
export PULSAR_READONLY_STORES := $(STORES)
endif
