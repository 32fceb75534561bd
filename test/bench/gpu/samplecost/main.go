// Command samplecost measures how long it takes to read an NVIDIA GPU: with
// berth's fast and slow readings, with each NVML call by itself, and with
// nvidia-smi as a program, all in one run on one machine.
//
//	go run ./test/bench/gpu/samplecost [-gpu 0] [-n 2000] [-json]
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/nvml"
)

func main() {
	if err := run(os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "samplecost:", err)
		os.Exit(1)
	}
}

// result is the whole measurement.
type result struct {
	GPU    gpu.Device `json:"gpu"`
	Fast   cost       `json:"fast"`
	Slow   cost       `json:"slow"`
	Scan   cost       `json:"scan"`
	Calls  []cost     `json:"calls"`
	SMI    []cost     `json:"nvidia_smi,omitempty"`
	Factor float64    `json:"factor,omitempty"` // median of the nvidia-smi query / median of Fast
	Sample gpu.Sample `json:"last_sample"`
}

func run(args []string, out io.Writer) error {
	flags := flag.NewFlagSet("samplecost", flag.ContinueOnError)
	index := flags.Int("gpu", 0, "index of the GPU to read")
	most := flags.Int("n", 2000, "repeat each call at most this many times")
	limit := flags.Duration("limit", 3*time.Second, "repeat each call for at most this long")
	cold := flags.Int("cold", 0, "repeat each call this many times once a second too, as the daemon does")
	asJSON := flags.Bool("json", false, "print one JSON object")
	switch err := flags.Parse(args); {
	case errors.Is(err, flag.ErrHelp):
		return nil
	case err != nil:
		return err
	}
	if *most < 1 {
		return fmt.Errorf("-n %d must be 1 or more", *most)
	}
	r, err := measure(*index, stopwatch{most: *most, limit: *limit, cold: *cold})
	if err != nil {
		return err
	}
	if *asJSON {
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	}
	return r.print(out)
}

func measure(index int, w stopwatch) (*result, error) {
	b, err := nvml.Open()
	if err != nil {
		return nil, fmt.Errorf("open NVML: %w; this needs a machine with an NVIDIA driver", err)
	}
	defer b.Close()
	ctx := context.Background()
	devices, err := b.Scan(ctx)
	if err != nil {
		return nil, err
	}
	if index < 0 || index >= len(devices) {
		return nil, fmt.Errorf("there is no GPU %d: this machine has %d", index, len(devices))
	}
	dev := devices[index]
	r := &result{GPU: dev.Describe()}
	if err := r.readings(ctx, b, dev, w); err != nil {
		return nil, err
	}
	if r.Calls, err = singleCalls(r.GPU.UUID, w); err != nil {
		return nil, err
	}
	w.cold = 0 // every start of nvidia-smi is cold
	r.SMI = spawned(r.GPU.UUID, w)
	if len(r.SMI) > 0 && r.Fast.Median > 0 {
		r.Factor = r.SMI[0].Median / r.Fast.Median
	}
	return r, nil
}

// readings measures the readings and the scan that the daemon does.
func (r *result) readings(ctx context.Context, b device.Backend, dev device.Device, w stopwatch) error {
	var failed error
	note := func(err error) string {
		if err != nil {
			failed = err
		}
		return ""
	}
	r.Fast = w.time("berth: fast reading", func() string { return note(dev.Fast(ctx, &r.Sample)) })
	r.Slow = w.time("berth: slow reading", func() string { return note(dev.Slow(ctx, &r.Sample.Slow)) })
	r.Scan = w.time("berth: scan", func() string {
		_, err := b.Scan(ctx)
		return note(err)
	})
	return failed
}
