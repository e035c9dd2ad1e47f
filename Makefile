# What there is to run. `make` alone prints this list; `make test` needs only Go.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

# Flags for go test in every test target: make test ARGS='-run TestLaws -v'
ARGS ?=
# Steps of CI: all of them if empty.
STEPS ?=
# How long each fuzz target runs.
FUZZTIME ?= 30s
# Which benchmarks run, and how often each.
BENCH ?= .
COUNT ?= 1
# Where the documentation is written.
SITE ?= dist/site
# Where the function is written.
LAMBDA ?= dist/lambda

.PHONY: help
help: ## Print this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: test
test: ## Vet and test every module but that of test-sdks; needs nothing but Go
	@scripts/test.sh $(ARGS)

.PHONY: test-race
test-race: ## Test every module with the race detector; needs a C compiler
	@CGO_ENABLED=1 scripts/test.sh -race $(ARGS)

.PHONY: test-sdks
test-sdks: ## Test llm/llmhttp with the providers' SDKs, which take minutes to compile
	@cd llm/llmhttp/sdks && go vet . && go test -timeout=20m -vet=off $(ARGS) .

.PHONY: clients
clients: ## Call llmhttp by the SDKs for Python and Node; installs them once, with pip and npm
	@scripts/clients.sh

.PHONY: test-engine
test-engine: ## Test against a third-party DynamoDB engine too; installs it once, with cargo
	@scripts/test-engine.sh $(ARGS)

.PHONY: test-lean
test-lean: ## Test the limiter and its laws over package leanddb
	@DYNALIMIT_TEST_LEAN=1 go test -timeout=20m -vet=off $(ARGS) .

.PHONY: ci
ci: ## Run all of CI on this machine, or the steps named by STEPS (test lint …)
	@scripts/ci.sh $(STEPS)

.PHONY: lint
lint: ## Check format, vet, linters, shell scripts, templates, vulnerabilities and how much runs for a call
	@scripts/lint.sh

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (30s)
	@FUZZTIME=$(FUZZTIME) scripts/fuzz.sh

.PHONY: mutants
mutants: ## Put dangerous changes into a copy of the source; the tests must notice (up to an hour)
	@scripts/mutants.sh $(ARGS)

.PHONY: bench
bench: ## Measure the limiter and print one table beside what must hold (9 minutes)
	@cd bench && go run ./report $(ARGS)

.PHONY: bench-go
bench-go: ## Run the Go benchmarks named by BENCH (all) COUNT times (1)
	@go test -run='^$$' -bench='$(BENCH)' -benchmem -count=$(COUNT) -timeout=1h $(ARGS) $$(scripts/modules.sh | sed 's|$$|/...|')

.PHONY: cover
cover: ## Test with coverage, write coverage.txt and print the total
	@scripts/test.sh -coverprofile=coverage.txt -covermode=atomic $(ARGS)
	@go tool cover -func=coverage.txt | tail -n 1

.PHONY: release-check
release-check: ## Build a release of the command twice, for every platform, and compare (minutes)
	@scripts/release.sh check $(ARGS)

.PHONY: lambda
lambda: ## Build the function of AWS Lambda that reads the stream, as a zip, into LAMBDA (dist/lambda)
	@scripts/release.sh lambda "$(LAMBDA)"

.PHONY: site
site: ## Write the documentation as a web site into SITE (dist/site); every link is checked
	@go run ./site -root . -out "$(SITE)"
