# STORE is one of zookeeper, etcd, consul and postgres; `make setup` without it takes all, `make demo` files. `make demo` and
# `make conformance` take the URL of a store, too.
STORE ?=
# SUITEFLAGS are further flags for the conformance suite, such as -run TestStore/crash for some of its cases; on PostgreSQL
# those of leadership conformance, such as --run=crash.
SUITEFLAGS ?=
# BENCHFLAGS are further flags for the benchmarks, such as -benchtime 10s.
BENCHFLAGS ?=
# P is how many packages `make test` tests at once: more than there are processors, since they wait more than they work.
P ?= 8
# J is how many of its parts `make test` runs at once. By default all: what computes runs beside what waits for servers.
J ?=
# PART is what `make test` tests: some of library, command, contrib, postgres and tools; or what `make long` runs, see there. All by default.
PART ?=
# SEEDS are the seeds of PART=simulation, ROUNDS the rounds of PART=chaos, FOR is how long PART=file takes.
SEEDS ?= 1-10000
ROUNDS ?= 1-20
FOR ?= 1h

# The library's module is built and tested without go.work, as an importer builds it. The command, the modules of contrib and
# the tools are built with go.work, so that they take the library from this clone.
LIBRARY = GOWORK=off go
STATICCHECK = go tool staticcheck

.PHONY: help setup demo quick quick-race quick-plain test test-library test-packages test-simulation test-suite \
	test-command test-contrib test-postgres test-tools long mutants conformance check bench

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' Makefile

setup: ## install what the tests need (Debian, as root); STORE=etcd for one store's server alone
	@./scripts/setup compiler tmux $(or $(STORE:postgres=postgresql),haproxy prometheus systemd postgresql pgbouncer mariadb chromium zookeeper etcd consul)

demo: ## show failovers on this machine; STORE=zookeeper, etcd, consul or postgres: on a real server; STORE='etcd://host:2379/?ttl=3s'
ifeq ($(filter-out file,$(STORE)),)
	@$(LIBRARY) run ./examples/failover/demo
else
	@$(if $(findstring ://,$(STORE)),,./scripts/setup $(STORE:postgres=postgresql))
	@$(if $(filter postgres%,$(STORE)),go run ./store/postgres/demo,$(LIBRARY) run ./examples/failover/demo/server) -store '$(value STORE)'
endif

quick: ## run the tests that need no server: under a minute; most with the race detector
	@./scripts/setup compiler
	@$(MAKE) --no-print-directory -j -k quick-race quick-plain

quick-race:
	packages=$$(GOWORK=off ./scripts/serverless ./... | grep -vE '/(conformance|docs|internal/lifeline|internal/serve|simulation|store/file)$$') && \
		$(LIBRARY) test -p 4 -short -race -count=1 $$packages

# The race detector would cost these more than the rest of their work: they start hundreds of processes, or compute in
# virtual time. make test runs them with it. With -short the suite is not run on files. Tests that wait run in parallel.
quick-plain:
	go test -p 3 -parallel 16 -short -count=1 ./store/file ./internal/lifeline ./internal/serve ./conformance $$(./scripts/serverless ./cmd/leadership/...) ./contrib/grpcresolver ./contrib/otel ./contrib/prom ./contrib/recipes/... ./contrib/sqltest ./docs ./simulation

# What computes runs beside the tests on servers, which wait more than they work.
test: ## run all tests, with the race detector, on real servers: up to 15 minutes; PART=library, command, contrib, postgres or tools
	@./scripts/setup compiler tmux haproxy prometheus systemd postgresql pgbouncer mariadb chromium zookeeper etcd consul
	@$(MAKE) --no-print-directory -j$(J) -k $(addprefix test-,$(or $(PART),library command contrib postgres tools))

test-library: test-packages test-simulation test-suite

test-packages: # those that take long come first
	$(LIBRARY) test -p $(P) -race -count=1 -timeout 40m ./store/zookeeper ./store/consul ./conformance/cluster/... ./...

test-simulation: # 2,000 schedules; with the race detector they are 200
	nice env $(LIBRARY) test -count=1 -run '^TestSimulation$$' ./simulation -seeds 1-1000

test-suite: # every flaw with every case; with the race detector that takes many minutes
	nice env $(LIBRARY) test -count=1 -run '^TestBrokenStores$$' ./conformance -every

test-command:
	go test -p $(P) -race -count=1 -timeout 40m ./cmd/leadership/...

test-contrib: # to build Kubernetes' packages for the race detector takes minutes
	go test -p $(P) -race -count=1 ./bench/postgres/... ./contrib/browsertest/... ./contrib/grpcresolver/... ./contrib/otel/... ./contrib/prom/... ./contrib/sqltest/...
	go test -p $(P) -count=1 ./contrib/recipes/...

test-postgres: # a module of its own
	go test -p $(P) -race -count=1 -timeout 40m ./store/postgres/...

test-tools:
	nice go test -race -count=1 ./tools/...

long: ## run what takes hours, and go on where it was interrupted; PART=simulation SEEDS=1-1000
	@./scripts/long $(or $(PART),suspended guardian simulation file chaos mutants)

mutants: ## change the core, the engine and package store in one place at a time: does a test notice? Takes hours, goes on as long does
	@./scripts/long mutants

conformance: ## run the conformance suite on a running cluster; STORE='etcd://host:2379/?ttl=3s'
	@$(if $(filter postgres%,$(STORE)),go run ./cmd/leadership conformance --store,$(LIBRARY) test -v -count=1 -timeout 2h ./conformance/servers -store)='$(value STORE)' $(SUITEFLAGS)

check: ## check format, vet, staticcheck, and that each go.mod is tidy, in all modules
	@unformatted=$$(gofmt -l .); test -z "$$unformatted" || { echo "gofmt -w is needed for:"; echo "$$unformatted"; exit 1; } >&2
	$(LIBRARY) vet ./...
	go vet work
	go vet -tags timens ./store
	go vet -tags mutants ./store/file ./store/engine ./internal/lifeline ./cmd/leadership/internal/guard ./store/postgres
	$(STATICCHECK) ./... ./bench/postgres/... ./cmd/leadership/... ./contrib/browsertest/... ./contrib/grpcresolver/... ./contrib/otel/... ./contrib/prom/... ./contrib/recipes/... ./contrib/sqltest/... ./store/postgres/... ./tools/...
	$(STATICCHECK) -tags timens ./store
	$(STATICCHECK) -tags mutants ./store/file ./store/engine ./internal/lifeline ./cmd/leadership/internal/guard ./store/postgres
	./scripts/tidy

bench: ## run the benchmarks; BENCHFLAGS="-benchtime 10s"
	$(LIBRARY) test -run '^$$' -bench . $(BENCHFLAGS) ./...
	go test -run '^$$' -bench . -timeout 2h $(BENCHFLAGS) ./bench/postgres

export SEEDS ROUNDS FOR
