// Command batch measures the batch engine: how close the makespan of skewed
// records comes to the lower bound, with and without a known cost, compared with
// other ways to share them out; how many trivial records pass through one
// worker; how much memory the runner takes for a long stream; how long berth.map takes
// beside berth run; and how many records pass through a worker behind ssh (it needs an sshd).
//
//	go run ./test/bench/batch            two to three minutes
//	go run ./test/bench/batch -stream 10 a stream of 10 GB
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/internal/batch"
)

func main() {
	if mode := os.Getenv(envMode); mode != "" {
		if err := again(mode); err != nil {
			fmt.Fprintln(os.Stderr, "batch:", err)
			os.Exit(1)
		}
		return
	}
	bound := flag.Duration("bound", 3*time.Second, "lower bound of the makespan to measure against")
	stream := flag.Float64("stream", 2, "length of the stream in GB")
	seed := flag.Uint64("seed", 1, "seed of the random lengths of the records")
	part := flag.String("part", "all", "what to measure, separated by commas: makespan, throughput, memory, map, ssh or all")
	program := flag.String("berth", "bin/berth", "the binary, for the part map")
	mapped := flag.Int("map", 100_000, "how many records the part map has")
	flag.Parse()
	fmt.Printf("%s %s/%s, %d CPUs, %s\n", runtime.Version(), runtime.GOOS, runtime.GOARCH, runtime.NumCPU(), time.Now().UTC().Format(time.DateOnly))
	for _, m := range []struct {
		name    string
		measure func() error
	}{
		{"makespan", func() error { return makespan(*bound, *seed) }},
		{"throughput", throughput},
		{"memory", func() error { return memory(*stream) }},
		{"map", func() error { return mapBesideRun(*program, *mapped) }},
		{"ssh", overSSH},
	} {
		if *part == "all" || slices.Contains(strings.Split(*part, ","), m.name) {
			if err := m.measure(); err != nil {
				fmt.Fprintln(os.Stderr, "batch:", err)
				os.Exit(1)
			}
		}
	}
}

// envMode is the variable with which this program starts itself as a worker or a
// runner.
const envMode = "BERTH_BENCH_MODE"

func again(mode string) error {
	switch mode {
	case "sleeper":
		return sleeper()
	case "runner":
		return streamRunner()
	case "host":
		return host()
	}
	return fmt.Errorf("unknown %s %q: use sleeper, runner or host", envMode, mode)
}

// places is a Leaser of n places on one GPU, which need not exist.
type places chan struct{}

func (p places) Acquire(ctx context.Context, _ batch.WorkerRequest) (batch.Grant, error) {
	select {
	case p <- struct{}{}:
	case <-ctx.Done():
		return batch.Grant{}, ctx.Err()
	}
	return batch.Grant{GPU: batch.GPU{UUID: "bench", Name: "none"}, Release: func() { <-p }}, nil
}
