# `make help` lists the targets. All of them use $(VENV), with pinned and hashed packages.
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
SBOM ?= build/sbom.json

.PHONY: help setup run clients quick test conformance lint types check pins profile audit sbom clean

help: ## List the targets
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

setup: $(VENV)/runtime.txt .env ## Create .venv with the service's packages, and .env with new secrets

run: setup build/clients/python ## Set up, then serve with demo data (PORT, default 8000)
	@$(BIN)/python manage.py quickstart --demo-key-to .env
	@SIGN_UP=$${SIGN_UP-open} ACCESS_LOG=$${ACCESS_LOG-false} exec $(BIN)/python manage.py serve

clients: build/clients/python build/clients/typescript ## Build the client packages into build/clients

quick: $(VENV)/development.txt ## Set up, then run the tests that need no other process, on SQLite
	@$(BIN)/python -m tests.run --quick

test: $(VENV)/development.txt ## Set up, then run every test, on SQLite and on PostgreSQL
	@$(BIN)/python -m tests.run

conformance: $(VENV)/development.txt ## Check the deployment at URL, with KEY, against the contract (WRITE=1: also writes)
	@CONFORMANCE_URL="$$URL" CONFORMANCE_KEY="$${KEY:-$$PETSTORE_KEY}" CONFORMANCE_WRITE="$$WRITE" \
		$(BIN)/python -m pytest -n 0 tests/conformance

check: lint types ## Run every static check
	$(BIN)/python -m tests.checks

lint: $(VENV)/development.txt ## Check style, common mistakes, and import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache --no-logo

types: $(VENV)/development.txt ## Check the types
	DEBUG=1 PYTHON_DOTENV_DISABLED=1 $(BIN)/mypy .

profile: $(VENV)/development.txt ## Profile mixed requests into profile.svg (needs DATABASE_URL and wrk)
	$(BIN)/py-spy record --subprocesses --output profile.svg -- \
		$(BIN)/python -m tests.load.requests --operations mixed --rounds 1 --seconds 10

audit: $(VENV)/development.txt ## Check the pinned packages for known vulnerabilities
	@$(BIN)/python -m tests.audit

sbom: $(VENV)/development.txt ## Write the software bill of materials to build/sbom.json (CycloneDX)
	@mkdir -p $(dir $(SBOM))
	@$(BIN)/python -W ignore -m cyclonedx_py requirements --pyproject pyproject.toml --output-reproducible \
		--short-PURLs --of JSON --output-file $(SBOM) requirements.txt

pins: ## Pin the newest versions that requirements*.in allow (needs uv)
	for name in requirements requirements-otel requirements-dev; do \
		uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
			--no-annotate --no-header $$name.in -o $$name.txt || exit 1; \
	done

clean: ## Remove the environment and the caches, but no data
	rm -rf .venv build .mypy_cache .pytest_cache .ruff_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.version_info >= (3, 11) or sys.exit( \
		"Python 3.11 or newer is needed. Name one: make PYTHON=python3.12 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/runtime.txt: requirements.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements.txt
	@touch $@

$(VENV)/development.txt: requirements-dev.txt | $(VENV)/bin/python
	$(BIN)/pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.txt
	@touch $@

# What is in these folders is served under /docs/clients/.
build/clients/python: $(wildcard clients/python/* clients/python/src/*/*) | $(VENV)/runtime.txt
	@rm -rf $@ && mkdir -p $@
	$(BIN)/python -m flit_core.wheel --outdir $@ clients/python

build/clients/typescript: $(wildcard clients/typescript/*.json clients/typescript/src/*)
	@rm -rf $@ && mkdir -p $@
	@if command -v npm >/dev/null; then \
		cd clients/typescript && npm ci --silent && npm run --silent build && npm pack --silent --pack-destination ../../$@; \
	else echo "SKIPPED: the TypeScript package, since npm is not installed."; fi

.env:
	@umask 077; $(PYTHON) -c 'import secrets; \
		print("# Secrets of this machine, made by `make setup`. Never commit this file."); \
		print("SECRET_KEY=" + secrets.token_urlsafe(48)); \
		print("API_KEY_PEPPERS=1:" + secrets.token_urlsafe(48))' > $@
