# What each target does is said by its ## comment; `make help` prints them.
#
# Everything that a target needs beyond Go, a C compiler, Python 3.11 with pip and
# Node 20 with npm is installed by it into .venv and node_modules, nowhere else.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO       ?= go
PYTHON   ?= python3
NPM      ?= npm
PREFIX   ?= /usr/local
FUZZTIME ?= 20s

# Pinned tools; none of them becomes part of the product.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
UV          := uv==0.13.9

STAMPS := build/stamps
VENV   := .venv
# The Go build's own inputs, so that an unchanged tree builds nothing.
GO_SOURCES := go.mod go.sum $(shell find capi core cmd -name '*.go' 2>/dev/null)

.PHONY: help build test test-go fuzz race lint lock install clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# ---- build ---------------------------------------------------------------

build: build/mcprt ## Build build/mcprt

build/mcprt: $(GO_SOURCES)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $@ ./cmd/mcprt

# ---- what tests need -----------------------------------------------------

$(STAMPS)/venv:
	@mkdir -p $(@D)
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(STAMPS)/testservers-python: testservers/requirements.txt $(STAMPS)/venv
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $<
	@touch $@

$(STAMPS)/testservers-node: testservers/package.json testservers/package-lock.json testservers/.npmrc
	@mkdir -p $(@D)
	cd testservers && $(NPM) ci
	@touch $@

# ---- test ----------------------------------------------------------------

test: test-go ## Run every test; all that they need is installed into the project

test-go: ## Run the Go tests
	CGO_ENABLED=1 $(GO) test ./...

race: ## Run the Go tests under the race detector
	CGO_ENABLED=1 $(GO) test -race ./...

fuzz: ## Run every fuzz target for FUZZTIME (20s)
	@set -f; found=0; \
	while IFS=: read -r file _ line; do \
	  name=$${line#func }; name=$${name%%(*}; found=1; \
	  echo "fuzz $$(dirname $$file) $$name"; \
	  $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) ./$$(dirname $$file); \
	done < <(grep -rn --include='*_test.go' '^func Fuzz' core capi cmd); \
	test $$found = 1 || { echo 'there are no fuzz targets'; exit 1; }

lint: ## Check formatting and run the static analysers
	@unformatted=$$(gofmt -l *.go $(filter %.go,$(GO_SOURCES))); test -z "$$unformatted" || { echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

lock: ## Resolve the versions of the test servers anew
	cd testservers && rm -f package-lock.json && $(NPM) install --package-lock-only
	$(PYTHON) -m venv build/lock-venv
	build/lock-venv/bin/python -m pip install --quiet --disable-pip-version-check $(UV)
	cd testservers && ../build/lock-venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' -o requirements.txt requirements.in

# ---- install, clean ------------------------------------------------------

install: build ## Install into DESTDIR/PREFIX (/usr/local)
	install -D -m 755 build/mcprt $(DESTDIR)$(PREFIX)/bin/mcprt

clean: ## Remove all that was built or installed into the project
	rm -rf build dist $(VENV) testservers/node_modules
