# Everything a contributor runs. `make` alone prints this list.
SHELL := /bin/bash
.DEFAULT_GOAL := help
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null || echo dev)
# NVIDIA marks what it renames as deprecated; the bindings cover both names.
export CGO_CFLAGS := -O2 -g -Wno-deprecated-declarations
BUILD := go build -trimpath -ldflags "-s -w -X main.version=$(VERSION)"

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z][a-z-]*:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: tools
tools:
	@deploy/tools.sh

.PHONY: build
build: tools ## build bin/berth
	$(BUILD) -o bin/berth ./cmd/berth

.PHONY: demo
demo: build ## show the main job, on real GPUs or on four simulated ones
	@examples/demo.sh

.PHONY: test
test: build ## run every check a change must pass (minutes)
	go vet ./...
	test -z "$$(gofmt -l . | tee /dev/stderr)"
	go test -race ./...

.PHONY: bench
bench: build ## measure the cost of a decision, a scrape and the idle daemon
	go run ./bench/foundations

.PHONY: gpu
gpu: build ## try and measure it on this machine's NVIDIA GPU
	$(BUILD) -o bin/samplecost ./bench/gpu/samplecost
	bench/gpu/foundations.sh
