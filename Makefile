# What each target does is said by its ## comment; `make help` prints them.
#
# Everything that a target needs beyond Go, a C compiler, Python 3.11 with pip and
# Node 20.19 with npm is installed by it into .venv and node_modules, nowhere else.

SHELL       := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

GO       ?= go
CC       ?= cc
PYTHON   ?= python3
NODE     ?= node
NPM      ?= npm
PREFIX   ?= /usr/local
LIBDIR   ?= $(PREFIX)/lib
FUZZTIME ?= 20s
ROUNDS   ?= 9
SCALE    ?=
BROWSER  ?= $(firstword $(foreach program,chromium chromium-browser google-chrome,$(shell command -v $(program))))

# Pinned tools; none of them becomes part of the product.
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
UV          := uv==0.13.9

STAMPS      := build/stamps
VENV        := .venv
# A lock names all that is needed. With dependencies looked up, pip asks for the newest release of
# a pinned package that is wanted with an extra, too, and fails on the day there is a newer one.
PIP_INSTALL := -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes
OS_NAME     := $(shell uname)
LIB         := build/$(if $(filter Darwin,$(OS_NAME)),libmcprt.0.dylib,libmcprt.so.0)
LINKED      := build/$(if $(filter Darwin,$(OS_NAME)),libmcprt.dylib,libmcprt.so)

GO_SOURCES := go.mod go.sum $(shell find capi core cmd internal -name '*.go') $(wildcard cmd/mcprt/tracepage/*)
C_SOURCES  := include/mcprt.h $(shell find capi -name '*.[ch]') capi/mcprt.map
C_WARNINGS := -std=c11 -Wall -Wextra -Wpedantic -Werror

# The bindings and the examples use this tree's library.
export MCPRT_LIBRARY := $(CURDIR)/$(LIB)

ifeq ($(shell command -v valgrind),)
export MCPRT_NO_VALGRIND := 1
endif

.PHONY: help build demo test test-go test-python test-node test-real test-examples try-signin conformance test-extra test-deep test-adapters test-browser test-gc test-hosts test-wine cross test-cross race sanitize soak fuzz lint lock install uninstall man api test-install wheel test-wheel npm test-npm bench bench-build bench-check bench-scale clean

help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  %-14s %s\n", $$1, $$2}' $(firstword $(MAKEFILE_LIST))

# ---- build ---------------------------------------------------------------

build: $(LIB) $(LINKED) build/mcprt ## Build build/libmcprt.so.0 and build/mcprt

# -extldflags: only mcprt_* is exported, under a soname that names the ABI.
SHARED   = $(GO) build -modfile build/trimmed/go.mod -trimpath -buildmode=c-shared
SO_FLAGS = "-s -w -extldflags \"'-Wl,--version-script=$(CURDIR)/capi/mcprt.map' -Wl,-soname,$(@F)\""
DYLIB_FLAGS = "-s -w -extldflags '-Wl,-exported_symbol,_mcprt_* -Wl,-install_name,@rpath/$(@F)'"

$(LIB): $(GO_SOURCES) $(C_SOURCES) build/trimmed/go.mod
	CGO_ENABLED=1 $(SHARED) -ldflags $(if $(filter Darwin,$(OS_NAME)),$(DYLIB_FLAGS),$(SO_FLAGS)) -o $@ ./capi
	@rm -f build/libmcprt.so.h build/libmcprt.0.h # cgo's own header is not the contract; include/mcprt.h is

build/trimmed/go.mod: go.mod go.sum capi/trim.sh
	GO=$(GO) capi/trim.sh

$(LINKED): $(LIB)
	ln -sf $(<F) $@

build/mcprt: $(GO_SOURCES)
	CGO_ENABLED=0 $(GO) build -trimpath -ldflags '-s -w' -o $@ ./cmd/mcprt

# ---- other systems --------------------------------------------------------

# Their compilers come from the system; macOS builds on macOS (.github/workflows/ci.yml).
CROSS := build/cross

cross: $(CROSS)/linux-arm64/libmcprt.so.0 $(CROSS)/linux-arm64/mcprt $(CROSS)/windows-amd64/mcprt.dll $(CROSS)/windows-amd64/mcprt.exe ## Build library and tool for linux/arm64 and windows/amd64 into build/cross

need = @command -v $(1) >/dev/null || { echo '$@ needs $(1) (apt-get install $(2))' >&2; exit 1; }

$(CROSS)/linux-arm64/libmcprt.so.0: $(GO_SOURCES) $(C_SOURCES) build/trimmed/go.mod
	$(call need,aarch64-linux-gnu-gcc,gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
	CGO_ENABLED=1 GOOS=linux GOARCH=arm64 CC=aarch64-linux-gnu-gcc $(SHARED) -ldflags $(SO_FLAGS) -o $@ ./capi
	@rm -f $(@D)/libmcprt.so.h

$(CROSS)/linux-arm64/mcprt: $(GO_SOURCES)
	CGO_ENABLED=0 GOOS=linux GOARCH=arm64 $(GO) build -trimpath -ldflags '-s -w' -o $@ ./cmd/mcprt

# -static: it needs no library of the compiler's. With libmcprt.dll.a a C program is linked.
$(CROSS)/windows-amd64/mcprt.dll: $(GO_SOURCES) $(C_SOURCES) build/trimmed/go.mod
	$(call need,x86_64-w64-mingw32-gcc,gcc-mingw-w64-x86-64)
	@mkdir -p $(@D)
	CGO_ENABLED=1 GOOS=windows GOARCH=amd64 CC=x86_64-w64-mingw32-gcc $(SHARED) \
	  -ldflags "-s -w -extldflags '-static -Wl,--out-implib,$(CURDIR)/$(@D)/libmcprt.dll.a'" -o $@ ./capi
	@rm -f $(@D)/mcprt.h

$(CROSS)/windows-amd64/mcprt.exe: $(GO_SOURCES)
	CGO_ENABLED=0 GOOS=windows GOARCH=amd64 $(GO) build -trimpath -ldflags '-s -w' -o $@ ./cmd/mcprt

test-cross: cross build/wine/ready ## Run the builds for other systems: arm64 under qemu, Windows under Wine, from C
	$(call need,qemu-aarch64-static,qemu-user-static)
	$(WINE) MCPRT_CROSS=$(CURDIR)/$(CROSS) $(GO) test -count=1 -run 'TestArm64|TestWindows' ./capi

# ---- demo ----------------------------------------------------------------

build/agent-c: examples/agent/c/agent.c examples/c/json.h include/mcprt.h $(LINKED)
	$(CC) $(C_WARNINGS) -O2 $< -Iinclude -Iexamples/c -Lbuild -lmcprt -o $@

build/demo-c: examples/c/demo.c examples/c/json.h include/mcprt.h $(LINKED)
	$(CC) $(C_WARNINGS) -O2 $< -Iinclude -Lbuild -lmcprt -o $@

# A newcomer writes `npm install mcprt`; here the package of this tree takes its place.
examples/node/node_modules/mcprt:
	@mkdir -p $(@D)
	ln -sfn ../../../bindings/node $@

demo: build build/demo-c examples/node/node_modules/mcprt $(STAMPS)/node ## Show the main job from C, Python and Node, with a cold and a warm cache
	@PYTHON=$(PYTHON) NODE=$(NODE) examples/demo.sh

# ---- what tests need -----------------------------------------------------

$(STAMPS)/python: bindings/python/requirements-dev.txt
	@mkdir -p $(@D)
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python $(PIP_INSTALL) -r $<
	@touch $@

# An environment of their own: the servers' pins and the tests' need not agree.
$(STAMPS)/testservers-python: testservers/requirements.txt
	@mkdir -p $(@D)
	$(PYTHON) -m venv testservers/.venv
	testservers/.venv/bin/python $(PIP_INSTALL) -r $<
	@touch $@

$(STAMPS)/node: bindings/node/package.json bindings/node/package-lock.json
	@mkdir -p $(@D)
	cd bindings/node && $(NPM) ci --no-fund --no-audit
	@touch $@

# pyright alone; its package on PyPI would fetch it unpinned.
$(STAMPS)/pyright: bindings/python/package.json bindings/python/package-lock.json
	@mkdir -p $(@D)
	cd bindings/python && $(NPM) ci
	@touch $@

$(STAMPS)/testservers-node: testservers/package.json testservers/package-lock.json testservers/.npmrc
	@mkdir -p $(@D)
	cd testservers && $(NPM) ci
	@touch $@

# The libraries that the adapters are for; neither package has one of them by itself.
$(STAMPS)/testadapters-python: testadapters/requirements.txt
	@mkdir -p $(@D)
	$(PYTHON) -m venv testadapters/.venv
	testadapters/.venv/bin/python $(PIP_INSTALL) -r $<
	@touch $@

# A copy of the Node package, since its imports have to find what is installed here.
NODE_PACKAGE := $(addprefix bindings/node/,index.js index.d.ts ai.js ai.d.ts package.json)
$(STAMPS)/testadapters-node: testadapters/package.json testadapters/package-lock.json testadapters/.npmrc $(NODE_PACKAGE) $(wildcard bindings/node/lib/*)
	@mkdir -p $(@D)
	cd testadapters && $(NPM) ci
	mkdir testadapters/node_modules/mcprt
	cp -R $(NODE_PACKAGE) bindings/node/lib testadapters/node_modules/mcprt/
	@touch $@

build/gosdk-server: testservers/gosdk/main.go testservers/gosdk/go.mod testservers/gosdk/go.sum
	cd testservers/gosdk && $(GO) build -trimpath -o ../../$@ .

build/real_test: testservers/real_test.c examples/c/json.h include/mcprt.h $(LINKED)
	$(CC) $(C_WARNINGS) -g $< -Iinclude -Lbuild -lmcprt -o $@

# ---- test ----------------------------------------------------------------

test: test-go test-python test-node test-real test-examples conformance ## Run every test; all that they need is installed into the project

test-go: build ## Run the tests of the Go and C parts
	@test -z "$${MCPRT_NO_VALGRIND:-}" || echo 'valgrind is not installed: the checks that need it are left out'
	CGO_ENABLED=1 $(GO) test ./...
	CGO_ENABLED=1 $(GO) test -tags mcprt_points -run 'TestPanic' ./core # bugs are injected at every layer

test-python: build $(STAMPS)/python ## Run the tests of the Python package
	cd bindings/python && PYTHONPATH=src ../../$(VENV)/bin/python -m pytest -q

test-node: build $(STAMPS)/node ## Run the tests of the Node package
	cd bindings/node && $(NPM) test

test-real: build build/real_test build/gosdk-server $(STAMPS)/python $(STAMPS)/node $(STAMPS)/testservers-python $(STAMPS)/testservers-node ## Call public MCP servers from C, Python and Node
	project=$$(mktemp -d) && trap 'rm -rf "$$project"' EXIT && testservers/project.sh "$$project" && \
	  TESTSERVERS=$(CURDIR)/testservers TESTPROJECT=$$project LD_LIBRARY_PATH=build testservers/with-remote.sh build/real_test "$$project" testservers/cases.json
	cd testservers && PYTHONPATH=../bindings/python/src ./with-remote.sh ../$(VENV)/bin/python -m pytest -q -p no:cacheprovider test_real.py test_both_ways.py test_signin.py
	testservers/with-remote.sh $(NODE) --test testservers/real.test.mjs testservers/signin.test.mjs

test-adapters: build $(STAMPS)/testadapters-python $(STAMPS)/testadapters-node ## Try the adapters with the SDKs of OpenAI, Anthropic and Google, LangChain, the Agents SDK and the AI SDK
	cd testadapters && .venv/bin/python -m mypy --cache-dir ../build/mypy-adapters
	cd testadapters && PYTHONPATH=../bindings/python/src .venv/bin/python -m pytest -q
	cd testadapters && $(NODE) node_modules/typescript/bin/tsc --project tsconfig.json
	PYTHON=$(PYTHON) $(NODE) --test testadapters/ai.test.mjs

try-signin: build build/gosdk-server $(STAMPS)/testservers-python $(STAMPS)/testservers-node ## Run a server that wants a sign-in, on this machine, until Ctrl-C, and say how to use it
	@testservers/with-remote.sh testservers/try-signin.sh

# ---- the official suite ---------------------------------------------------

$(STAMPS)/suite-%: examples/conformance/suite-%/package.json examples/conformance/suite-%/package-lock.json
	@mkdir -p $(@D)
	cd $(<D) && $(NPM) ci --silent
	@touch $@

build/conformance-c: examples/conformance/c/client.c examples/c/json.h include/mcprt.h $(LINKED)
	$(CC) $(C_WARNINGS) -O2 $< -Iinclude -Lbuild -lmcprt -o $@

conformance: build build/conformance-c $(STAMPS)/node $(STAMPS)/suite-0.2 $(STAMPS)/suite-0.1 ## Run the official MCP conformance suite from C, Python and Node, and print one table
	PYTHON=$(PYTHON) NODE=$(NODE) $(NODE) examples/conformance/run.mjs

test-examples: build build/demo-c build/agent-c examples/node/node_modules/mcprt $(STAMPS)/python $(STAMPS)/node $(STAMPS)/testservers-node ## Run the demo, the agents, and every snippet of the documentation
	$(VENV)/bin/python -m pytest -q -p no:cacheprovider --ignore=examples/packages examples

test-extra: sanitize test-adapters test-browser test-gc test-hosts test-wheel test-npm test-install test-wine test-cross ## Run what CI runs besides test: sanitize, adapters, browser, GC stress, a hundred hosts, the packages, Windows under Wine, other systems' builds

test-deep: race fuzz lint ## Run what takes long or analyses: race, fuzz, lint

test-hosts: ## Let a hundred hosts exit, fork, exec, raise and be killed at random moments
	MCPRT_TEST_HOSTS=100 $(GO) test -count=1 -run TestHosts ./capi

# Wine and a compiler for what it lacks come from the system, too.
WINE := WINEPREFIX=$(CURDIR)/build/wine/prefix WINEDEBUG=-all

build/wine/ready: internal/wine/processprng.c
	@command -v wine x86_64-w64-mingw32-gcc >/dev/null || { echo 'test-wine needs Wine and MinGW (apt-get install wine wine64 gcc-mingw-w64-x86-64)' >&2; exit 1; }
	rm -rf $(@D) && mkdir -p $(@D)
	$(WINE) wineboot -i >/dev/null 2>&1
	$(WINE) wineserver -w
	x86_64-w64-mingw32-gcc -O2 -shared $< -o $(@D)/prefix/drive_c/windows/system32/bcryptprimitives.dll -ladvapi32
	@touch $@

test-wine: build/wine/ready ## Run the Windows build under Wine: the transports' tests, and servers that start, answer and end
	$(WINE) GOOS=windows CGO_ENABLED=0 $(GO) test -count=1 -exec wine ./core/transport ./core/rawjson ./core/safe ./internal/serve
	GOOS=windows CGO_ENABLED=0 $(GO) build -trimpath -o build/wine/mcprt.exe ./cmd/mcprt
	$(WINE) MCPRT_WINE=$(CURDIR)/build/wine/mcprt.exe $(GO) test -count=1 -run TestUnderWine ./cmd/mcprt

# A browser cannot be installed into the project: it needs the system's libraries.
test-browser: ## Run the tests of the pages in a headless Chromium (BROWSER)
	@test -n '$(BROWSER)' || { echo 'test-browser needs Chromium (apt-get install chromium), or BROWSER=program' >&2; exit 1; }
	MCPRT_BROWSER='$(BROWSER)' $(GO) test -count=1 -run 'InABrowser|PageIsReadable' ./cmd/mcprt

# The collector runs all the time, and each mark is checked by a second, stopped one.
test-gc: ## Run the tests of the core and the C boundary under a stressed garbage collector
	GOGC=1 GODEBUG=cgocheck=1,gccheckmark=1 CGO_ENABLED=1 $(GO) test -count=1 ./capi ./core ./core/session

race: ## Run the Go tests under the race detector
	CGO_ENABLED=1 $(GO) test -race ./...
	CGO_ENABLED=1 $(GO) test -race -tags mcprt_points -run 'TestPanic' ./core

sanitize: ## Run the C API's tests over the whole library under ASan with UBSan, and under the race detector
	capi/testdata/sanitize.sh address
	capi/testdata/sanitize.sh race

soak: ## Run what only time shows: ten minutes of chaos, a million calls, ten thousand reconnects, 500 servers
	$(GO) test ./core -run 'TestChaos|TestManyServers' -chaos 10m -many 500 -timeout 30m -v
	$(GO) test ./capi -run TestSoak -soak-calls 1000000 -soak-reconnects 10000 -timeout 30m -v

fuzz: ## Run every fuzz target for FUZZTIME (20s), in seconds
	@found=0; \
	while IFS=: read -r file _ line; do \
	  name=$${line#func }; name=$${name%%(*}; found=1; \
	  echo "fuzz $$(dirname $$file) $$name"; \
	  $(GO) test -run '^$$' -fuzz "^$$name\$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 1s ./$$(dirname $$file); \
	done < <(grep -rn --include='*_test.go' '^func Fuzz' core capi cmd internal); \
	test $$found = 1 || { echo 'there are no fuzz targets'; exit 1; }
	$(GO) test ./capi -run TestFuzzSubmit -fuzz-seconds $(FUZZTIME:s=) -fuzz-seed $$RANDOM

lint: $(STAMPS)/python $(STAMPS)/pyright $(STAMPS)/node ## Check formatting, types, and what static analysers find
	@unformatted=$$(gofmt -l $(filter %.go,$(GO_SOURCES))); test -z "$$unformatted" || { echo "not formatted by gofmt:"; echo "$$unformatted"; exit 1; }
	$(GO) vet ./...
	$(GO) vet -tags mcprt_points ./core/...
	for os in darwin windows freebsd; do CGO_ENABLED=0 GOOS=$$os $(GO) vet ./core/... ./cmd/... ./internal/... || exit 1; done # what this machine cannot run
	$(GO) run $(STATICCHECK) ./...
	cd bindings/python && ../../$(VENV)/bin/python -m mypy
	cd bindings/python && node_modules/.bin/pyright
	cd bindings/node && $(NPM) run types

lock: ## Resolve the versions of the test servers, the libraries that adapters are tried with, and what the benchmark has of Python anew
	$(PYTHON) -m venv build/lock-venv
	build/lock-venv/bin/python -m pip install --quiet --disable-pip-version-check $(UV)
	for dir in testservers testadapters; do (cd $$dir && rm -f package-lock.json && $(NPM) install --package-lock-only) || exit 1; done
	for dir in testservers testadapters bench/python bench/plots; do (cd $$dir && $(CURDIR)/build/lock-venv/bin/uv pip compile --quiet --upgrade --universal --python-version 3.11 --generate-hashes \
	  --no-emit-index-url --no-emit-find-links --custom-compile-command 'make lock' -o requirements.txt requirements.in) || exit 1; done

# ---- benchmarks -----------------------------------------------------------

# oh-my-pi's agent is used as source: it is unpacked over its dependencies, without its native part.
OMP := @oh-my-pi/pi-coding-agent@18.3.4
OMP_SHA512 := ee5a94c516e9992e75bed392ba5e2367f548be4a5450d4d4cff23440853be62b52ceac12b3beba089e3f787e47979e10548d7f1adfdb483ad5fcc0be41fe6778

bench-build: build build/bench/mcprt-c build/bench/mockserver build/bench/raw $(STAMPS)/bench-go $(STAMPS)/bench-python $(STAMPS)/bench-node ## Build the benchmark and install the clients that it compares

build/bench/%: bench/server/%.c
	@mkdir -p $(@D)
	$(CC) -O2 -Wall -Wextra -static $< -o $@

build/bench/raw: bench/raw/raw.c
	@mkdir -p $(@D)
	$(CC) -O2 -Wall -Wextra $< -o $@ -lpthread

build/bench/mcprt-c: bench/c/mcprt.c examples/c/json.h include/mcprt.h
	@mkdir -p $(@D)
	$(CC) -std=gnu11 -O2 -Wall -Wextra $< -Iinclude -o $@ -ldl

$(STAMPS)/bench-go: $(shell find bench/go -type f)
	@mkdir -p $(@D) build/bench
	cd bench/go && $(GO) build -o ../../build/bench/ ./cmd/...
	@touch $@

# The floor needs none of the clients that the rest of bench/go is linked with.
build/bench/gofloor: $(wildcard bench/go/bench/*.go bench/go/cmd/gofloor/*.go) bench/go/go.mod
	@mkdir -p $(@D)
	cd bench/go && $(GO) build -o ../../$@ ./cmd/gofloor

$(STAMPS)/bench-python: bench/python/requirements.txt
	@mkdir -p $(@D) build/bench
	$(PYTHON) -m venv build/bench/venv
	build/bench/venv/bin/python $(PIP_INSTALL) -r $<
	@touch $@

$(STAMPS)/bench-plots: bench/plots/requirements.txt
	@mkdir -p $(@D) build/bench
	$(PYTHON) -m venv build/bench/plots
	build/bench/plots/bin/python $(PIP_INSTALL) -r $<
	@touch $@

$(STAMPS)/bench-node: bench/node/package.json bench/node/package-lock.json bench/node/omp/package.json bench/node/omp/package-lock.json $(STAMPS)/node
	@mkdir -p $(@D) build/bench
	cd bench/node && $(NPM) ci --silent --ignore-scripts
	cd bench/node/omp && $(NPM) install --silent --no-save --no-audit --no-fund --ignore-scripts --omit=optional --legacy-peer-deps # not ci: an optional part was never published
	cd build/bench && $(NPM) pack --silent $(OMP) && echo '$(OMP_SHA512)  oh-my-pi-pi-coding-agent-18.3.4.tgz' | sha512sum --check --quiet
	mkdir -p bench/node/omp/node_modules/@oh-my-pi/pi-coding-agent
	tar xzf build/bench/oh-my-pi-pi-coding-agent-18.3.4.tgz -C bench/node/omp/node_modules/@oh-my-pi/pi-coding-agent --strip-components 1
	@touch $@

bench: bench-build ## Measure this library beside other clients, in nine interleaved rounds, and print the tables
	rm -f build/bench/results.jsonl
	bench/run.py --rounds $(ROUNDS) --out build/bench/results.jsonl

bench-check: ## Hold the last run of bench against the bounds; fails when one is missed
	bench/run.py --check --out build/bench/results.jsonl

bench-scale: build build/bench/mcprt-c build/bench/mockserver build/bench/gofloor $(STAMPS)/bench-plots ## Measure cost per call and per server up to 1,000 calls in flight and 500 servers, and draw it (SCALE=--draw: only draw)
	build/bench/plots/bin/python bench/scale.py $(SCALE)

# ---- install, clean ------------------------------------------------------

VERSION = $(shell awk '/^\#define MCPRT_VERSION_(MAJOR|MINOR|PATCH) /{printf "%s%s", dot, $$3; dot="."}' include/mcprt.h)

# Where each file goes, below DESTDIR. One list, so that uninstall removes what install made.
INCLUDEDIR := $(PREFIX)/include
CMAKEDIR   := $(LIBDIR)/cmake/mcprt
MANDIR     := $(PREFIX)/share/man
BASHDIR    := $(PREFIX)/share/bash-completion/completions
ZSHDIR     := $(PREFIX)/share/zsh/site-functions
FISHDIR    := $(PREFIX)/share/fish/vendor_completions.d
EXAMPLEDIR := $(PREFIX)/share/doc/mcprt/examples

SONAME     := $(notdir $(LIB))
REALNAME    = libmcprt.so.$(VERSION)
PAGES      := $(notdir $(wildcard docs/man/*.1)) $(notdir $(wildcard docs/man/*.3))
EXAMPLES   := $(notdir $(wildcard examples/c/*.*))

INSTALLED   = $(INCLUDEDIR)/mcprt.h $(addprefix $(LIBDIR)/,$(REALNAME) $(SONAME) libmcprt.so) $(LIBDIR)/pkgconfig/mcprt.pc \
              $(CMAKEDIR)/mcprtConfig.cmake $(CMAKEDIR)/mcprtConfigVersion.cmake $(PREFIX)/bin/mcprt \
              $(foreach page,$(PAGES),$(MANDIR)/man$(subst .,,$(suffix $(page)))/$(page)) \
              $(BASHDIR)/mcprt $(ZSHDIR)/_mcprt $(FISHDIR)/mcprt.fish $(addprefix $(EXAMPLEDIR)/,$(EXAMPLES))

# Fills the @NAME@s of a template.
FILL = sed -e 's|@PREFIX@|$(PREFIX)|g' -e 's|@LIBDIR@|$(LIBDIR)|g' -e 's|@VERSION@|$(VERSION)|g' -e 's|@SONAME@|$(SONAME)|g' -e 's|@REALNAME@|$(REALNAME)|g' \
  -e "s|@RELATIVE_INCLUDEDIR@|$$(realpath -m --relative-to='$(CMAKEDIR)' '$(INCLUDEDIR)')|g" -e "s|@RELATIVE_LIBDIR@|$$(realpath -m --relative-to='$(CMAKEDIR)' '$(LIBDIR)')|g"

install: build ## Install library, header, tool, manual pages and completions into DESTDIR and PREFIX (/usr/local)
	install -D -m 644 include/mcprt.h '$(DESTDIR)$(INCLUDEDIR)/mcprt.h'
	install -D -m 755 $(LIB) '$(DESTDIR)$(LIBDIR)/$(REALNAME)'
	ln -sf $(REALNAME) '$(DESTDIR)$(LIBDIR)/$(SONAME)'
	ln -sf $(SONAME) '$(DESTDIR)$(LIBDIR)/libmcprt.so'
	install -d '$(DESTDIR)$(LIBDIR)/pkgconfig' '$(DESTDIR)$(CMAKEDIR)' '$(DESTDIR)$(BASHDIR)' '$(DESTDIR)$(ZSHDIR)' '$(DESTDIR)$(FISHDIR)'
	$(FILL) capi/install/mcprt.pc.in >'$(DESTDIR)$(LIBDIR)/pkgconfig/mcprt.pc'
	$(FILL) capi/install/mcprtConfig.cmake.in >'$(DESTDIR)$(CMAKEDIR)/mcprtConfig.cmake'
	$(FILL) capi/install/mcprtConfigVersion.cmake.in >'$(DESTDIR)$(CMAKEDIR)/mcprtConfigVersion.cmake'
	install -D -m 755 build/mcprt '$(DESTDIR)$(PREFIX)/bin/mcprt'
	for page in $(PAGES); do install -D -m 644 docs/man/$$page '$(DESTDIR)$(MANDIR)'/man$${page##*.}/$$page; done
	for example in $(EXAMPLES); do install -D -m 644 examples/c/$$example '$(DESTDIR)$(EXAMPLEDIR)'/$$example; done
	build/mcprt completion bash >'$(DESTDIR)$(BASHDIR)/mcprt'
	build/mcprt completion zsh >'$(DESTDIR)$(ZSHDIR)/_mcprt'
	build/mcprt completion fish >'$(DESTDIR)$(FISHDIR)/mcprt.fish'

uninstall: ## Remove what install has put below DESTDIR and PREFIX
	@rm -f $(foreach file,$(INSTALLED),'$(DESTDIR)$(file)')
	@for folder in '$(DESTDIR)$(CMAKEDIR)' '$(DESTDIR)$(EXAMPLEDIR)' '$(DESTDIR)$(dir $(EXAMPLEDIR))'; do ! test -d "$$folder" || rmdir --ignore-fail-on-non-empty "$$folder"; done

api: build $(STAMPS)/python $(STAMPS)/node ## Write the kept public APIs of the packages again, after a change that is meant
	cd bindings/python && MCPRT_UPDATE_API=1 PYTHONPATH=src ../../$(VENV)/bin/python -m pytest -q tests/test_api.py
	cd bindings/node && MCPRT_UPDATE_API=1 $(NODE) --test test/api.test.js

man: ## Write docs/man again, from the tool's help and the C header
	$(GO) test -count=1 ./cmd/mcprt -run TestManualPages -update-manual

# ---- packages ------------------------------------------------------------

wheel: build $(STAMPS)/python ## Build the Python wheels, with the library or (for musl) the tool inside, and the sdist into dist/
	rm -f dist/mcprt-*.whl dist/mcprt-*.tar.gz dist/musl/mcprt-*.whl
	cd bindings/python && ../../$(VENV)/bin/python -m hatchling build -t wheel -t sdist -d ../../dist
	cd bindings/python && MCPRT_WHEEL=musl ../../$(VENV)/bin/python -m hatchling build -t wheel -d ../../dist/musl

test-wheel: wheel ## Install the wheel into an empty venv and use it there
	$(VENV)/bin/python -m pytest -q -p no:cacheprovider examples/packages/test_wheel.py

npm: build $(STAMPS)/node ## Build the npm packages, for all and for this platform and its musl, into dist/ and dist/musl
	rm -f dist/mcprt-*.tgz dist/musl/mcprt-*.tgz
	$(NODE) bindings/node/pack.js dist
	$(NODE) bindings/node/pack.js dist/musl linux-$$($(NODE) -p process.arch)-musl=build

# No part of the product: what the packages are tried under, besides Node.
$(STAMPS)/runtimes: bindings/node/runtimes/package.json bindings/node/runtimes/package-lock.json
	@mkdir -p $(@D)
	cd bindings/node/runtimes && $(NPM) ci
	@touch $@

test-npm: npm $(STAMPS)/python $(STAMPS)/runtimes ## Install the npm packages into an empty folder and use them there, under Node, Bun and Deno
	$(VENV)/bin/python -m pytest -q -p no:cacheprovider examples/packages/test_npm.py

test-install: build $(STAMPS)/python ## Install into an empty prefix, and use library, tool and manual pages from there
	@command -v cmake pkg-config >/dev/null || { echo 'test-install needs CMake and pkg-config (apt-get install cmake pkg-config)' >&2; exit 1; }
	$(VENV)/bin/python -m pytest -q -p no:cacheprovider examples/packages/test_install.py

clean: ## Remove all that was built or installed into the project
	rm -rf build dist $(VENV) testservers/.venv testservers/node_modules testadapters/.venv testadapters/node_modules bindings/python/node_modules bindings/node/node_modules bindings/node/runtimes/node_modules examples/node/node_modules examples/conformance/suite-*/node_modules
