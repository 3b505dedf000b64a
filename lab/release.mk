# Locked packages, and the files of a release.
.PHONY: lock
lock: venv ## resolve and lock the Python packages again (needs uv)
	@$(ROOT)/requirements/lock

.PHONY: olm
OLM ?= build/olm
olm: venv ## a bundle for the Operator Lifecycle Manager (OPERATOR_IMAGE= ENGINE_IMAGE= OLM=build/olm REPLACES=)
	@$(PY) -m readonly_operator.api.olm --operator-image '$(OPERATOR_IMAGE)' --engine-image '$(ENGINE_IMAGE)' --replaces '$(REPLACES)' '$(OLM)'

.PHONY: release release-check
OUT ?= build/release
RELEASE = --version '$(VERSION)' --registry '$(REGISTRY)' --source '$(SOURCE)' $(RELEASE_OPTIONS)
release: venv ## packages, images, chart and manifests of this commit (VERSION=0.1.0 REGISTRY=registry.example.com/team OUT= RELEASE_OPTIONS=)
	@$(DEVSTACK) release build $(RELEASE) --out '$(OUT)'
release-check: venv ## build a release twice and compare every file (VERSION= REGISTRY=)
	@$(DEVSTACK) release check $(RELEASE)
