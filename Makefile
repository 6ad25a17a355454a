# STORE is the store that the demo runs on.
STORE ?= zookeeper
# SUITEFLAGS are further flags for the conformance suite, such as -run TestStore/crash for some of its cases.
SUITEFLAGS ?=
# BENCHFLAGS are further flags for the benchmarks, such as -benchtime 10s.
BENCHFLAGS ?=

STATICCHECK = go tool -modfile=tools/go.mod staticcheck

.PHONY: help setup demo test conformance check bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' Makefile

setup: ## install what the tests and the demo need (Debian, as root)
	@./scripts/setup

demo: setup ## show a failover on a real server; STORE=zookeeper, etcd or consul
	go run ./examples/failover/demo -store $(STORE)

test: setup ## run all tests with the race detector
	go test -p 4 -race -count=1 -timeout 14m ./... # four packages at once: they wait more than they work

conformance: ## run the conformance suite on a running cluster; STORE='etcd://host:2379/?ttl=3s'
	@go test -v -count=1 -timeout 2h ./conformance -store='$(value STORE)' $(SUITEFLAGS)

check: ## check format, vet, staticcheck, and that go.mod is tidy
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w is needed for:"; echo "$$unformatted"; exit 1; } >&2
	go vet ./...
	$(STATICCHECK) ./...
	go mod tidy -diff
	go -C tools mod tidy -diff

bench: ## run the benchmarks; BENCHFLAGS="-benchtime 10s"
	go test -run '^$$' -bench . $(BENCHFLAGS) ./...
