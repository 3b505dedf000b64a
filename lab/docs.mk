# The documentation's site, by MkDocs in a virtual environment of its own.
DOCS_VENV := $(ROOT)/.venv-docs
DOCS_STAMP := $(DOCS_VENV)/.stamp-$(shell { cat $(ROOT)/requirements/docs.txt; echo $(ROOT); } | sha256sum | cut -c1-16)
MKDOCS := cd $(ROOT) && NO_MKDOCS_2_WARNING=1 $(DOCS_VENV)/bin/mkdocs

$(DOCS_STAMP):
	@$(DOCS_VENV)/bin/python -c '' 2>/dev/null || $(PYTHON) -m venv --clear $(DOCS_VENV)
	@echo "installing the locked packages of the documentation into .venv-docs"
	@$(DOCS_VENV)/bin/python -m pip install -q --disable-pip-version-check --require-hashes -r $(ROOT)/requirements/docs.txt
	@rm -f $(DOCS_VENV)/.stamp-* && touch $@

.PHONY: docs docs-pages docs-serve docs-test docs-version screenshots
docs-pages: venv ## generate the reference pages and pictures of docs/ and the dashboard again from the code
	@$(PY) -m docsite
screenshots: venv ## pictures of status pages and terminal in docs/pictures/screens, from a real pool (SCREENSHOTS_OPTIONS=--help)
	@$(DEVSTACK) screenshots $(SCREENSHOTS_OPTIONS)
docs-test: venv ## the commands of the documentation: without a server, and on a real Pulsar (KUBERNETES=1: those of Kubernetes too)
	@$(PY) -m pytest $(PYTEST_OPTIONS) tests/unit/docs tests/integration/tools/test_shell_blocks.py
	@$(if $(KUBERNETES),$(MAKE) -C $(ROOT) test-e2e E2E_TESTS=tests/e2e/test_shell_blocks.py)
docs: $(DOCS_STAMP) ## build the documentation into build/site; a broken link or a page outside the navigation fails the build
	@$(MKDOCS) build --clean --quiet
	@! grep -rhoE '<(script|link|img|iframe)[^>]+(src|href)="?https?://[^" >]+' $(ROOT)/build/site --include='*.html' || \
		{ echo "the site needs another server: see above" >&2; exit 1; }
	@echo "the site is in build/site: open build/site/index.html"
docs-serve: $(DOCS_STAMP) ## serve the documentation on 127.0.0.1:8000 and rebuild it on every change
	@$(MKDOCS) serve --dev-addr 127.0.0.1:8000
docs-version: $(DOCS_STAMP) ## commit the site to the branch gh-pages as version VERSION= and as latest, by mike; pushes nothing
	@test -n "$(VERSION)" || { echo "give the version: make -C lab docs-version VERSION=0.1" >&2; exit 1; }
	@cd $(ROOT) && PATH="$(DOCS_VENV)/bin:$$PATH" mike deploy --update-aliases $(VERSION) latest
	@cd $(ROOT) && PATH="$(DOCS_VENV)/bin:$$PATH" mike set-default latest
