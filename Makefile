# STORE is the store that the demo runs on.
STORE ?= zookeeper
# BENCHFLAGS are further flags for the benchmarks, such as -benchtime 10s.
BENCHFLAGS ?=

STATICCHECK = go tool -modfile=tools/go.mod staticcheck

.PHONY: help setup demo test check bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-8s %s\n", $$1, $$2 }' Makefile

setup: ## install what the tests and the demo need (Debian, as root)
	@./scripts/setup

demo: setup ## show a failover on a real server; STORE=zookeeper
	go run ./examples/failover/demo -store $(STORE)

test: setup ## run all tests with the race detector
	go test -race -count=1 -timeout 14m ./...

check: ## check format, vet, staticcheck, and that go.mod is tidy
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w is needed for:"; echo "$$unformatted"; exit 1; } >&2
	go vet ./...
	$(STATICCHECK) ./...
	go mod tidy -diff
	go -C tools mod tidy -diff

bench: ## run the benchmarks; BENCHFLAGS="-benchtime 10s"
	go test -run '^$$' -bench . $(BENCHFLAGS) ./...
