# Everything a contributor runs. `make` alone prints this list.
SHELL := /bin/bash
.DEFAULT_GOAL := help
# VERSION, the file, says which release this is; at other commits than its tag, -dev and
# the commit are added.
VERSION := $(shell $(dir $(lastword $(MAKEFILE_LIST)))deploy/version.sh)
# NVIDIA marks what it renames as deprecated; the bindings cover both names.
# The compiler adds checks of bounds and of the stack to what is written in C.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations -fstack-protector-strong -fstack-clash-protection -U_FORTIFY_SOURCE -D_FORTIFY_SOURCE=2
# The daemon is loaded at an address that nobody can foresee, and the tables of the
# linker are read-only once it runs, but for those of functions: the driver's are
# bound when they are first called, because its library may come later (-z,lazy).
# `make audit` checks that.
# The compiler takes a quarter less time if it collects its garbage less often. Tests must not
# inherit that, so COMPILE compiles all but the last package of each test before go test does.
GO := GOGC=400 go
COMPILE := $(GO) list -test -export -deps
LINK := -s -w -X main.version=$(VERSION) -linkmode external
BUILD = $(GO) build $(SHARED) -ldflags '$(LINK) -extldflags "-Wl,-z,relro,-z,lazy,-z,noexecstack"'
# Every command starts sooner without a dynamic linker. berth-serve needs one: it
# loads the driver's library while it runs. Nor is berth position-independent: that
# takes a quarter more time at every start (docs/reference/performance.md), and it runs as the
# user who types it, for a moment.
STATIC := -trimpath -tags netgo,osusergo
BUILD_STATIC := $(GO) build $(STATIC) -ldflags '$(LINK) -extldflags "-static -Wl,-z,relro,-z,now,-z,noexecstack"'
# The flags of the daemon. What make demo and make test compile has them, unless it has the
# race detector: on a new machine, every other set of flags is two more minutes.
SHARED := -buildmode=pie -trimpath
ifdef QUICK
BUILD_STATIC := $(BUILD)
endif

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z][a-z0-9-]*:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: tools
tools:
	@deploy/tools.sh

# On a new machine the compiler is silent for minutes. go build -v names each package that
# it compiled: this counts them, and passes on everything else.
COUNTED = 2>&1 | { n=0; while IFS= read -r line; do \
	if [[ $$line == *' '* ]]; then echo "$$line"; else ((++n % 50)) || echo "  $$n packages are compiled"; fi; done; }

# The page is built beside what does not embed it.
.PHONY: build
build: tools ## build bin/berth and bin/berth-serve, with the page where npm is
	@$(MAKE) --no-print-directory -j 2 page compiled
	@echo "Linking bin/berth-serve, with the page and the manual in it."
	@set -o pipefail; $(BUILD) -v -o bin/ ./cmd/berth-serve $(COUNTED)

# bin/berth has the flags of the daemon here, and starts a millisecond later for it.
.PHONY: quick
quick:
	@$(MAKE) --no-print-directory build QUICK=yes

.PHONY: compiled
compiled:
	@echo "Compiling bin/berth: minutes on a new machine, seconds after that."
	@set -o pipefail; $(BUILD_STATIC) -v -o bin/ ./cmd/berth $(COUNTED)
	@echo "Compiling the parts of bin/berth-serve."
	@set -o pipefail; $(BUILD) -v $$(go list -f '{{join .Imports "\n"}}' ./cmd/berth-serve ./internal/daemon | grep -vxF -e C -e unsafe | grep -v -e /internal/daemon -e /door/webui) $(COUNTED)

# The lock file decides which packages there are; npm writes the second name when it
# has installed what the lock file says.
web/node_modules/.package-lock.json: web/package-lock.json web/package.json
	cd web && npm ci
	@touch $@

# Vite writes index.html last.
PAGE := internal/door/webui/page/index.html
$(PAGE): web/node_modules/.package-lock.json web/index.html web/vite.config.ts web/tsconfig.json web/clean.mjs web/size.mjs \
		$(shell find web/src web/public -type f)
	cd web && npm run --silent build
	@touch $@

.PHONY: web
web: $(PAGE) ## build the page into internal/door/webui/page (Node 20.19 or newer)

# A binary is built without the page where there is no npm, or where npm cannot fetch
# what the page needs; the daemon then says how to get it.
.PHONY: page
page:
	@if command -v npm >/dev/null; then $(MAKE) --no-print-directory web || echo "The page could not be built, so the daemon will have none: make web shows why."; \
	else echo "There is no npm, so the daemon will have no page. Install Node 20.19 or newer and run make build again."; fi

.PHONY: check-web
check-web: web/node_modules/.package-lock.json ## check the types of the page and run its unit tests
	cd web && npm run check

.PHONY: test-web
test-web: build site ## use the page in Chromium as a person would (minutes; installs Chromium with apt if it is missing)
	@deploy/tools.sh chromium
	cd web && node --test --test-concurrency=1 --test-timeout=600000 test/browser/*.test.mjs

.PHONY: bench-web
bench-web: build ## what the page takes and costs beside an empty one, on 16 and 64 devices (minutes)
	@deploy/tools.sh chromium
	cd web && node test/browser/bench.mjs

.PHONY: week
week: build ## play a week of five people who want more than there is, with kills and an upgrade, in five minutes, and hold its account
	python3 examples/days/week.py

.PHONY: pictures
pictures: build ## draw the pictures of the page in docs/pictures
	@deploy/tools.sh chromium
	cd web && node test/browser/pictures.mjs
	cd web && node test/browser/pictures-views.mjs

# The driver is a module of its own: it brings the libraries of Kubernetes.
.PHONY: driver
driver: ## build bin/berth-dra, the driver for Kubernetes
	cd kubernetes && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w -X main.version=$(VERSION)' -o $(CURDIR)/bin/ ./cmd/berth-dra

# No registry is asked for anything: the images consist of these programs and of two of
# Debian's packages. The time in them is that of the newest commit.
IMAGE_TAG ?= dev
.PHONY: images
images: build driver archives ## write dist/images/*.tar, for ctr images import, docker load and podman load

.PHONY: archives
archives:
	kubernetes/images/debian.sh dist/debian
	cd kubernetes/images && CGO_ENABLED=0 go run -trimpath . -programs $(CURDIR)/bin -debian $(CURDIR)/dist/debian \
		-out $(CURDIR)/dist/images -tag $(IMAGE_TAG) -version $(VERSION) -created $$(git log -1 --format=%ct 2>/dev/null || echo 0)

# Both programs for ARCH, as make build builds them for this machine.
ARCH ?= $(shell go env GOHOSTARCH)
CROSS_amd64 := x86_64-linux-gnu-gcc
CROSS_arm64 := aarch64-linux-gnu-gcc
FOR_ARCH = CGO_ENABLED=1 GOOS=linux GOARCH=$(ARCH) CC=$(if $(filter $(ARCH),$(shell go env GOHOSTARCH)),gcc,$(CROSS_$(ARCH)))
.PHONY: programs
programs:
	$(FOR_ARCH) $(BUILD_STATIC) -o dist/programs/$(ARCH)/ ./cmd/berth
	$(FOR_ARCH) $(BUILD) -o dist/programs/$(ARCH)/ ./cmd/berth-serve

# MAINTAINER='Name <address>' says who answers for the packages, if it is not the project.
.PHONY: release
release: tools web ## write dist/release: archives, packages, wheels, images, bill of materials, manual, notes, sums (minutes)
	BERTH_VERSION=$(VERSION) deploy/release/make.sh

.PHONY: release-twice
release-twice: ## make the release of this commit again elsewhere, and compare every byte (COLD=yes: compile all anew)
	deploy/release/twice.sh

.PHONY: test-arm64
test-arm64: ## run the programs of the release for arm64 under qemu, to a lease on simulated GPUs
	test/release/arm64.sh

.PHONY: test-images
test-images: ## import the images into a containerd of its own, and run them, to a lease on simulated GPUs (root)
	test/release/images.sh

.PHONY: test-bill
test-bill: ## hold the bill of materials of the release against the schema of CycloneDX
	test/release/bill.sh

.PHONY: test-package
test-package: ## install, use, upgrade, downgrade, kill, reboot and purge the package under a real systemd (root; minutes)
	test/release/package.sh

.PHONY: demo
demo: quick ## show the main job, on real GPUs or on four simulated ones
	@examples/demo.sh

# What fetches something, and tests, which wait for other processes most of the time, run
# beside what compiles. The first begins at once because it compiles longest; the others follow
# in this order when one ends. What measures how long an answer takes runs alone, after them.
# `make histories` and its neighbours play the same properties far longer.
.PHONY: test
test: quick ## run every check a change must pass (minutes)
	@$(MAKE) --no-print-directory -j 4 test-race test-go test-python check-web modules rules forge test-kubernetes-pure test-access
	go run $(SHARED) ./test/bench/hostile -berth bin/berth -small

.PHONY: vet
vet:
	test -z "$$(gofmt -l . | tee /dev/stderr)"
	$(GO) vet $(SHARED) -cgocall=false ./...

# When a requirement of the root module moves, the modules that use it do not build
# until somebody tidies them. go mod tidy fetches the tests of every dependency. On a
# new machine that is 40 MB for the modules that are tidied here, and 250 MB for the
# root module and test/bench/prometheus: go vet loads the packages of the first, and go list
# those of the second.
.PHONY: modules
modules: ## check go.mod and go.sum of every module
	cd test/bench/prometheus && go list -deps ./... >/dev/null
	@find . -name node_modules -prune -o -name go.mod -printf '%h\n' | grep -vxF -e . -e ./test/bench/prometheus | sort | while read -r folder; do \
		echo "cd $$folder && go mod tidy -diff"; (cd $$folder && go mod tidy -diff) || { echo "Run go mod tidy in $$folder."; exit 1; }; \
	done

# PURE lists the packages that order_test.go forbids to import sync, context and os:
# they start nothing at the same time, so the race detector finds nothing in them, and
# makes their properties ten times slower.
PURE = $(shell grep -rl --include='*.go' '^// Pure: no clock, no I/O\.$$' api gpu internal | xargs -n 1 dirname | sort -u | sed 's,^,./,')

# RACE lists those that make test runs with the race detector: not the whole program and the
# commands, nor what needs Prometheus's store, which takes four minutes more to compile. make
# race runs all of them so, and so does the forge once a week.
RACE = $(shell go list -test -f '{{if not .ForTest}}{{.ImportPath}} {{.Deps}}{{end}}' ./... | \
	awk '$$1 ~ /\.test$$/ && !/prometheus\/prometheus/ && $$1 !~ /berth(\/(cmd|deploy|test|internal\/cli).*)?\.test$$/ { sub(/\.test$$/, "", $$1); print $$1 }' | \
	grep -vxF "$$(go list $(PURE))")

# Tests wait for processes and disks: twice as many as cores run at once. go vet has looked at
# them already. GORACE: each package would take a second more otherwise.
TWICE = $$((2 * $$(nproc)))
.PHONY: test-go
test-go: vet
	others=$$(go list ./... | grep -vxF "$$(printf '%s\n' $(RACE))"); $(COMPILE) $(SHARED) $$others >/dev/null; \
		go test -vet=off $(SHARED) -parallel $(TWICE) -timeout 40m $$others

# cgocall reads C from where it was compiled, which with -trimpath may be another checkout that
# is gone: it looks here, where nothing is trimmed.
.PHONY: test-race
test-race:
	race="$(RACE)"; $(COMPILE) -race $$race >/dev/null && \
		$(GO) vet -race -cgocall $$(go list -f '{{if .CgoFiles}}{{.ImportPath}}{{end}}' ./...) && \
		GORACE=atexit_sleep_ms=50 go test -race -vet=off -timeout 40m $$race

.PHONY: race
race: quick ## run the tests in Go with the race detector, those of the whole program too (minutes)
	GORACE=atexit_sleep_ms=50 go test -race -p $(TWICE) -timeout 40m $$(go list ./... | grep -vxF "$$(go list $(PURE))")

.PHONY: test-access
test-access:
	go run $(SHARED) ./test/bench/access -berth bin/berth

.PHONY: test-python
test-python:
	cd python && BERTH_BIN=$(CURDIR)/bin/berth python3 -m unittest
	@deploy/tools.sh arrays
	cd python && PYTHONPATH=$(CURDIR)/bin/arrays/usr/lib/python3/dist-packages BERTH_BIN=$(CURDIR)/bin/berth \
		/usr/bin/python3 -m unittest tests.test_real_arrays

# What the Kubernetes driver decides, without its clients: a few seconds. The flags are
# those of the daemon, whose compiled parts it shares. make test-kubernetes tries the
# rest of the driver.
KUBERNETES_PURE := ./words ./slice ./claim ./cdi
.PHONY: test-kubernetes-pure
test-kubernetes-pure:
	cd kubernetes && go vet $(SHARED) $(KUBERNETES_PURE)
	cd kubernetes && go test -vet=off $(SHARED) $(KUBERNETES_PURE)

.PHONY: test-kubernetes
test-kubernetes: ## play kubelet against the driver and a real daemon, and kill both at every step (minutes; ROUNDS=200)
	$(BUILD) -o bin/ ./cmd/berth-serve
	cd kubernetes && CGO_ENABLED=0 go vet -trimpath ./plugin ./export ./deploy ./cmd/...
	cd kubernetes && CGO_ENABLED=0 go test -vet=off -trimpath ./export ./deploy ./cmd/...
	cd kubernetes/images && CGO_ENABLED=0 go test -trimpath ./...
	cd test/kubernetes && CGO_ENABLED=0 go test -trimpath ./...
	cd kubernetes && BERTH_SERVE=$(CURDIR)/bin/berth-serve CGO_ENABLED=0 \
		go test -vet=off -trimpath -count=1 -timeout 60m -v ./plugin -args -rounds $(or $(ROUNDS),200)

.PHONY: test-top
test-top: build ## berth top in tmux at three sizes, with keys pressed (two minutes; needs tmux and python3)
	internal/cli/top/tmux.sh

.PHONY: site
site: ## write the manual as a static site into dist/site, as a daemon serves it under /help
	@rm -rf dist/site
	go run $(STATIC) ./deploy/site dist/site
	@echo "dist/site/index.html leads to all pages."

.PHONY: docs
docs: ## write the pages, and the types of the page and of the Python package, that come from the code
	go test ./internal/door/httpapi -run TestTypesOfClients -update
	go test ./internal/config -run 'TestDocumentation|TestSample' -update
	python3 python/reference.py

.PHONY: openapi-lint
openapi-lint: ## check /openapi.json with Redocly's recommended rules (Node 20 or newer; fetches it from npm)
	mkdir -p dist
	go test ./internal/door/httpapi -run TestWriteOpenAPI -openapi.write=$(CURDIR)/dist/openapi.json
	REDOCLY_TELEMETRY=off npx --yes @redocly/cli@2.73.0 lint --extends=recommended dist/openapi.json

KUBE_RULES := kubernetes/deploy/components/monitoring
.PHONY: rules
rules: ## check and test the alert rules with promtool
	@deploy/tools.sh promtool
	PATH="$$PATH:$(CURDIR)/bin" promtool check rules deploy/prometheus/berth.rules.yml
	PATH="$$PATH:$(CURDIR)/bin" promtool test rules deploy/prometheus/berth.rules.test.yml
	@mkdir -p dist/rules && cp $(KUBE_RULES)/rules.test.yml dist/rules/
	@sed '1,/^spec:/d; s/^  //' $(KUBE_RULES)/rules.yaml > dist/rules/berth-kubernetes.rules.yml # what the operator makes of it
	PATH="$$PATH:$(CURDIR)/bin" promtool check rules dist/rules/berth-kubernetes.rules.yml
	PATH="$$PATH:$(CURDIR)/bin" promtool test rules dist/rules/rules.test.yml

.PHONY: forge
forge: ## check the workflows of the forge with actionlint
	go run $(SHARED) github.com/rhysd/actionlint/cmd/actionlint@v1.7.12

.PHONY: test-prometheus
test-prometheus: build ## hold the answers of berth to queries against those of real Prometheus servers (builds one: minutes)
	@deploy/tools.sh prometheus
	cd test/bench/prometheus && go build -tags remove_all_sd -o $(CURDIR)/bin/prometheus github.com/prometheus/prometheus/cmd/prometheus && go build -o $(CURDIR)/bin/bench-prometheus .
	bin/bench-prometheus

.PHONY: chaos
chaos: build ## kill the daemon, holders of leases and minders of jobs over and over, and count (5 minutes)
	go run ./test/chaos -berth bin/berth

.PHONY: systemd
systemd: ## jobs and services of a real daemon under a real systemd, in a small machine of its own (root; two minutes)
	test/systemd/run.sh

.PHONY: test-hosts
test-hosts: build ## batches over ssh on three machines in network namespaces, which are killed, cut off and slow (root; five minutes)
	test/hosts/run.sh

.PHONY: past-chaos
past-chaos: ## kill a writer of the past with -9 a hundred times (a minute)
	go test ./internal/history/past -run TestKill -past.kills=100 -timeout 30m -v

.PHONY: audit
audit: build ## look for known faults and mistakes, rate the unit, and list what the binaries are made of (minutes)
	go test ./test/audit -audit.database
	go run ./test/audit -version $(VERSION)

.PHONY: fuzz
fuzz: fuzz-binaries ## hand broken input to every parser, FUZZTIME for each (30s)
	dist/fuzz/run.sh $(or $(FUZZTIME),30s)

.PHONY: fuzz-binaries
fuzz-binaries: tools ## build the fuzz targets into dist/fuzz, for machines without Go
	test/fuzz/build.sh

.PHONY: histories
histories: ## play a thousand random histories of faults, heat, leases, services and kills (three minutes)
	go test ./internal/desk/oversight -run TestHistories -oversight.histories=1000 -v
	go test ./internal/daemon -run TestCareHistories -daemon.histories=30
	go test ./internal/enforce/park -run TestHistoriesOfTheTable -rapid.checks=100000
	go test ./internal/enforce/park/mover -run TestHistories -parking.histories=50 -timeout 30m
	go test ./internal/job/owner -run 'TestHistories|TestMixes|TestOneWhoFloods' -owner.histories=500 -timeout 30m
	go test ./internal/lease/ledger -run 'TestWorkOfALongQueue|TestAWaitForWhatHasNoEndIsFinite' -ledger.waiting=12288 -ledger.endless=1000

MINUTES ?= 10
.PHONY: world
world: ## play whole daemons in a simulated machine from a seed, and kill them (root; MINUTES=10 SEED=1)
	go test ./test/world -run TestWorld -world.for $(MINUTES)m -world.seed $(or $(SEED),1) -world.counts -timeout 0 -v

PACKAGE ?= internal/lease/quota
.PHONY: mutants
mutants: ## break PACKAGE=internal/lease/quota in NUMBER=100 places, one at a time, and list what its tests do not see (minutes)
	@mkdir -p dist/mutants
	go test -vet=off $(SHARED) -coverprofile dist/mutants/coverage $(PACKAGE:%=./%)
	go run $(SHARED) ./test/mutants -coverage dist/mutants/coverage -out dist/mutants -number $(or $(NUMBER),100) -seed $(or $(SEED),1) $(PACKAGE:%=./%)
	$(foreach one,$(PACKAGE),go test -c $(SHARED) -ldflags '-s -w' -overlay dist/mutants/overlay.json -o dist/mutants/$(subst /,-,$(one)).test ./$(one) &&) true
	test/mutants/run.py dist/mutants

.PHONY: account
account: ## hold what can be leased against what the devices really have left (a minute)
	go test ./internal/lease/ledger -run AvailableIs -account.hundreds=10
	go test ./cmd/berth-serve -run AvailableIs -account.runs=50 -timeout 30m

.PHONY: bench
bench: build ## measure the cost of a decision, a scrape and the idle daemon
	go run ./test/bench/foundations

.PHONY: bench-lease
bench-lease: build ## acquire and release, beside Redis, PostgreSQL and etcd
	cd test/bench/lease && go run . -berth ../../../bin/berth

.PHONY: bench-handover
bench-handover: build ## how soon a dead holder's lease, or a released one, is somebody else's
	go run ./test/bench/handover -berth bin/berth

.PHONY: bench-all
bench-all: build ## run every benchmark twice, and mark what moved since the last table (half an hour; ONLY=lease,exec: only those)
	go run ./test/bench/all -berth bin/berth -only '$(ONLY)'

.PHONY: bench-growth
bench-growth: build ## how costs grow with leases, users, requests, events, devices and series, with pictures in docs (minutes; as root)
	go run ./test/bench/growth -berth bin/berth -pictures docs/pictures

.PHONY: bench-event
bench-event: build ## how soon a program in Go or Python hears of an event, beside a byte on a socket
	go run ./test/bench/event -berth bin/berth

.PHONY: bench-many
bench-many: build ## 50,000 leases: acquire, list, restart and rest (minutes)
	go run ./test/bench/many -berth bin/berth

.PHONY: bench-exec
bench-exec: build ## start a program under a lease, beside fork and exec, task-spooler and GNU parallel
	go run ./test/bench/exec -berth bin/berth

.PHONY: bench-jobs
bench-jobs: build ## run programs as jobs, beside fork and exec, Slurm, task-spooler and GNU parallel, and 10,000 tasks (as root)
	go run ./test/bench/jobs -berth bin/berth

.PHONY: bench-front
bench-front: build ## pass requests and streams through the front, beside a direct connection and nginx
	go run ./test/bench/front -berth bin/berth-serve

SOAK ?= 1h
.PHONY: soak
soak: build ## do everything at once for SOAK=1h, and say whether memory, files, goroutines, disk and acquires stay flat
	go run ./test/soak -berth bin/berth -length $(SOAK)

.PHONY: bench-heavy
bench-heavy: build ## whether samplers keep their second with 5,000 processes and 10,000 control groups (two minutes; as root)
	go run ./test/bench/heavy -berth bin/berth

.PHONY: bench-startup
bench-startup: build ## how soon berth status says something, beside a Go hello-world
	go run ./test/bench/startup -berth bin/berth

.PHONY: bench-past
bench-past: ## write a month of eight devices into the past: its size, its memory, the time of its graphs beside Prometheus' storage (minutes)
	go run ./test/bench/past -explain -beside

.PHONY: bench-hostile
bench-hostile: build ## play a hostile user without rights, and measure what it costs others (minutes; as root)
	go run ./test/bench/hostile -berth bin/berth
	go run ./test/bench/hostile -berth bin/berth -fair
	go run ./test/bench/hostile -berth bin/berth -fair -queries

.PHONY: bench-journal
bench-journal: ## the journal beside bbolt
	cd test/bench/journal && go run .

.PHONY: bench-forecast
bench-forecast: ## forecast the temperature on recordings in test/bench/data, or on TRACE=FILE
	go run ./test/bench/forecast $(TRACE)

.PHONY: bench-batch
bench-batch: build ## a batch beside its lower bound, static chunks, GNU parallel and a process pool
	go run ./test/bench/batch

.PHONY: batch-chaos
batch-chaos: ## hundreds of batches with something killed in each (minutes)
	go test ./internal/batch -run Chaos -batch.runs=300 -timeout 30m
	go test ./cmd/berth-serve -run TestBatchesOutliveTheDaemon -batch.runs=100 -timeout 30m

.PHONY: audit-chaos
audit-chaos: ## kill the daemon a hundred times while the configuration is changed, and look for every entry of the audit log
	go test ./cmd/berth-serve -run TestAuditOutlivesKills -audit.rounds=100 -timeout 10m -v

# A container on this machine: runc without what it would load while it runs, and the
# program that leases and writes CDI files as the Kubernetes driver does.
.PHONY: gpu-container
gpu-container: build ## build what test/bench/gpu/container.sh needs: runc and bundle
	cd test/bench/gpu/runc && go build -trimpath -tags netgo,osusergo -ldflags '-s -w -linkmode external -extldflags "-static"' -o $(CURDIR)/bin/runc github.com/opencontainers/runc
	cd test/kubernetes && CGO_ENABLED=0 go build -trimpath -ldflags '-s -w' -o $(CURDIR)/bin/bundle ./bundle

.PHONY: gpu
gpu: build gpu-container ## try and measure it on this machine's NVIDIA GPU
	$(BUILD) -o bin/samplecost ./test/bench/gpu/samplecost
	$(BUILD) -o bin/filtered ./test/bench/gpu/filtered
	test/bench/gpu/foundations.sh
	test/bench/gpu/exec.sh
	test/bench/gpu/plan.sh
	test/bench/gpu/batch.sh
	test/bench/gpu/users.sh
	test/bench/gpu/energy.sh
	test/bench/gpu/check.sh
	test/bench/gpu/pace.sh
	test/bench/gpu/park.sh driver
	test/bench/gpu/park.sh
	test/bench/gpu/past.sh
	test/bench/gpu/isolation.sh || [ $$? = 2 ] # 2: it could not be asked here
	test/bench/gpu/residue.sh || [ $$? = 2 ]
	test/bench/gpu/unit.sh
	test/bench/gpu/container.sh
	PYTHONPATH=python python3 test/bench/gpu/conversions.py

# The first run builds Kubernetes 1.36.3 into ~/.cache, outside git (minutes); it needs root.
.PHONY: k8s
k8s: ## pass the scenarios of the Kubernetes driver on a real cluster of two nodes, or SCENARIO=4 alone (root; minutes)
	cd test/kubernetes && CGO_ENABLED=0 go run -trimpath . $(if $(SCENARIO),-scenario $(SCENARIO)) $(if $(KEEP),-keep)

.PHONY: k8s-up
k8s-up: ## start that cluster for people, with the driver and simulated GPUs (root)
	cd test/kubernetes && CGO_ENABLED=0 go run -trimpath . up

.PHONY: k8s-down
k8s-down: ## end it
	test/kubernetes/cluster/down.sh

# It runs in namespaces of its own, beside the cluster of k8s-up if that runs.
.PHONY: k8s-scale
k8s-scale: ## load a control plane with 200 nodes of 8 GPUs and 3,000 pods, or NODES=1000 PODS=… OUT=file (root; minutes)
	test/kubernetes/fleet/fleet.sh $(if $(NODES),-nodes $(NODES)) $(if $(PODS),-pods $(PODS)) $(if $(OUT),-out $(OUT))
