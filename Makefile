# STORE is one of zookeeper, etcd and consul; `make setup` without it takes all, `make demo` files. `make demo` and
# `make conformance` take the URL of a store, too.
STORE ?=
# SUITEFLAGS are further flags for the conformance suite, such as -run TestStore/crash for some of its cases.
SUITEFLAGS ?=
# BENCHFLAGS are further flags for the benchmarks, such as -benchtime 10s.
BENCHFLAGS ?=
# P is how many packages `make test` tests at once: more than there are processors, since they wait more than they work.
P ?= 8
# PART is what `make long` runs: all of these, or some of them.
PART ?= suspended guardian simulation file chaos mutants
# SEEDS are the seeds of PART=simulation, ROUNDS the rounds of PART=chaos, FOR is how long PART=file takes.
SEEDS ?= 1-10000
ROUNDS ?= 1-20
FOR ?= 1h

STATICCHECK = go tool -modfile=tools/go.mod staticcheck

.PHONY: help setup demo quick test long mutants conformance check bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' Makefile

setup: ## install what the tests need (Debian, as root); STORE=etcd for one store's server alone
	@./scripts/setup compiler tmux $(or $(STORE),zookeeper etcd consul)

demo: ## show failovers on this machine; STORE=zookeeper, etcd or consul: on a real server; STORE='etcd://host:2379/?ttl=3s'
ifeq ($(filter-out file,$(STORE)),)
	@go run ./examples/failover/demo
else
	@$(if $(findstring ://,$(STORE)),,./scripts/setup $(STORE))
	@go run ./examples/failover/demo/server -store '$(value STORE)'
endif

# The tests of the command start some hundred processes, and the race detector costs each of them more than the rest of its
# work. Both lines run at once, since the command's tests wait more than they work.
quick: ## run the tests that need no server, with the race detector but for the command: under a minute
	@./scripts/setup compiler
	packages=$$(./scripts/serverless | grep -v '/cmd/leadership$$') && { \
		go test -short -count=1 ./cmd/leadership & command=$$!; \
		go test -p 4 -short -race -count=1 ./store/file $$packages; code=$$?; \
		wait $$command && exit $$code; } # -short: 40 schedules of the simulation, not 200, and not the suite on files

test: ## run all tests, with the race detector, on real servers: up to 12 minutes
	@./scripts/setup compiler tmux zookeeper etcd consul
	go -C tools test -race -count=1 ./...
	go test -count=1 -run '^TestSimulation$$' ./simulation -seeds 1-1000 # 2,000 schedules; with the race detector they are 200
	go test -count=1 -run '^TestBrokenStores$$' ./conformance -every # without the race detector, which makes it take minutes
	@# The packages that take long come first.
	go test -p $(P) -race -count=1 -timeout 40m ./store/zookeeper ./store/consul ./conformance/cluster/... ./...

long: ## run what takes hours, and go on where it was interrupted; PART=simulation SEEDS=1-1000
	@./scripts/long $(PART)

mutants: ## change the core, the engine and package store in one place at a time: does a test notice? Takes hours, goes on as long does
	@./scripts/long mutants

conformance: ## run the conformance suite on a running cluster; STORE='etcd://host:2379/?ttl=3s'
	@go test -v -count=1 -timeout 2h ./conformance/servers -store='$(value STORE)' $(SUITEFLAGS)

check: ## check format, vet, staticcheck, and that go.mod is tidy
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w is needed for:"; echo "$$unformatted"; exit 1; } >&2
	go vet ./...
	go vet -tags timens ./store
	go vet -tags mutants ./store/file ./internal/guard
	go -C tools vet ./...
	$(STATICCHECK) ./...
	$(STATICCHECK) -tags timens ./store
	$(STATICCHECK) -tags mutants ./store/file ./internal/guard
	go -C tools tool staticcheck ./...
	go mod tidy -diff
	go -C tools mod tidy -diff

bench: ## run the benchmarks; BENCHFLAGS="-benchtime 10s"
	go test -run '^$$' -bench . $(BENCHFLAGS) ./...

export SEEDS ROUNDS FOR
