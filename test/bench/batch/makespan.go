package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/internal/batch"
	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
	"github.com/berth-gpu/berth/internal/batch/worker"
	"github.com/berth-gpu/berth/test/bench/figure"
)

const (
	records = 200
	workers = 8
)

// lengths returns skewed lengths: a few records are many times as long as most.
// Together they keep the workers busy for the bound, and none is longer than
// that.
func lengths(bound time.Duration, seed uint64) []time.Duration {
	rng := rand.New(rand.NewPCG(seed, 2))
	raw, sum := make([]float64, records), 0.0
	for i := range raw {
		raw[i] = math.Exp(1.3 * rng.NormFloat64())
		sum += raw[i]
	}
	out := make([]time.Duration, records)
	for i := range out {
		out[i] = time.Duration(raw[i] / sum * workers * float64(bound))
	}
	return out
}

// lowerBound returns a time that no schedule can beat.
func lowerBound(l []time.Duration) time.Duration {
	var sum time.Duration
	for _, d := range l {
		sum += d
	}
	return max(sum/workers, slices.Max(l))
}

// makespan prints how long the records take in each way to share them out, for
// three orders of the input.
func makespan(bound time.Duration, seed uint64) error {
	random := lengths(bound, seed)
	ascending := slices.Clone(random)
	slices.Sort(ascending)
	descending := slices.Clone(ascending)
	slices.Reverse(descending)
	best := lowerBound(random)
	fmt.Printf("\nmakespan of %d records over %d workers, longest %s, lower bound %s; as multiples of it\n", records, workers,
		slices.Max(random).Round(time.Millisecond), best.Round(time.Millisecond))
	fmt.Printf("%-42s %8s %10s %11s\n", "order of the input", "random", "ascending", "descending")
	ways := []struct {
		name string
		run  func([]time.Duration) (time.Duration, error)
	}{
		{"berth, cost known", func(l []time.Duration) (time.Duration, error) {
			return berth(l, record.Cost{By: record.ByField, Field: "ms"})
		}},
		{"berth, cost learned from the size", func(l []time.Duration) (time.Duration, error) { return berth(l, record.Cost{}) }},
		{"berth, cost unknown", func(l []time.Duration) (time.Duration, error) { return berth(l, record.Cost{By: record.ByNothing}) }},
		{"ideal on-demand dispatch (goroutines)", onDemand},
		{"static chunks (goroutines)", static},
		{"Python multiprocessing.Pool, chunksize 1", pythonPool},
		{"GNU parallel -j 8", gnuParallel},
	}
	var ideal, unknown []time.Duration
	for _, way := range ways {
		fmt.Printf("%-42s", way.name)
		for i, order := range [][]time.Duration{random, ascending, descending} {
			took, err := way.run(order)
			if err != nil {
				fmt.Printf(" %v", err)
				break
			}
			fmt.Printf(" %9.3f", took.Seconds()/best.Seconds())
			if i == 0 && strings.HasPrefix(way.name, "berth") {
				figure.Say("batch, makespan ÷ lower bound, "+way.name, took.Seconds()/best.Seconds(), "ratio", figure.Less)
			}
			switch {
			case strings.HasPrefix(way.name, "ideal"):
				ideal = append(ideal, took)
			case strings.HasSuffix(way.name, "unknown"):
				unknown = append(unknown, took)
			}
		}
		fmt.Println()
	}
	fmt.Printf("%-42s", "berth, cost unknown / ideal on-demand")
	for i := range ideal {
		fmt.Printf(" %9.3f", unknown[i].Seconds()/ideal[i].Seconds())
	}
	fmt.Println()
	return nil
}

// berth runs the engine with workers that sleep. The text of a record is in
// proportion to its time, so the engine can learn the cost from the size.
func berth(l []time.Duration, cost record.Cost) (time.Duration, error) {
	dir, err := os.MkdirTemp("", "berth-bench")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(dir)
	in := filepath.Join(dir, "in.jsonl")
	var text strings.Builder
	for i, d := range l {
		ms := float64(d) / float64(time.Millisecond)
		fmt.Fprintf(&text, "{\"id\":%d,\"ms\":%.3f,\"text\":%q}\n", i, ms, strings.Repeat("x", int(10*ms)))
	}
	if err := os.WriteFile(in, []byte(text.String()), 0o600); err != nil {
		return 0, err
	}
	self, err := os.Executable()
	if err != nil {
		return 0, err
	}
	start := time.Now()
	s, err := work(worker.Command{Args: []string{self}, Env: []string{envMode + "=sleeper"}}, batch.Options{
		Input: record.Spec{Paths: []string{in}, Cost: cost}, Output: filepath.Join(dir, "out.jsonl"), Shape: outcome.Shape{Ordered: true},
		Leases: make(places, workers),
	})
	if err == nil && (s.Records != records || s.Failed != 0) {
		err = fmt.Errorf("%d records, %d failed", s.Records, s.Failed)
	}
	return time.Since(start), err
}

// work runs the engine with workers of a command.
func work(command worker.Command, o batch.Options) (batch.Summary, error) {
	starter, err := worker.NewStarter(command)
	if err != nil {
		return batch.Summary{}, err
	}
	defer starter.Close()
	o.Start = func(prefix string, env []string) (batch.Process, error) { return starter.Start(prefix, env) }
	run, err := batch.Open(context.Background(), o)
	if err != nil {
		return batch.Summary{}, err
	}
	return run.Run(context.Background())
}

// sleeper is a worker that sleeps for the time in each record.
func sleeper() error {
	in, out := bufio.NewReaderSize(os.NewFile(3, "in"), 1<<20), os.NewFile(4, "out")
	if _, err := out.WriteString(`{"type":"ready","protocol":1}` + "\n"); err != nil {
		return err
	}
	for {
		line, err := in.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var frame struct {
			Type    string
			ID      int64
			Records []struct {
				ID int
				MS float64
			}
		}
		if err := json.Unmarshal(line, &frame); err != nil {
			return err
		}
		if frame.Type == "bye" {
			return nil
		}
		var outcomes []string
		for _, r := range frame.Records {
			time.Sleep(time.Duration(r.MS * float64(time.Millisecond)))
			outcomes = append(outcomes, strconv.Itoa(r.ID))
		}
		if _, err := fmt.Fprintf(out, `{"type":"result","id":%d,"outcomes":[%s]}`+"\n", frame.ID, strings.Join(outcomes, ",")); err != nil {
			return err
		}
	}
}

// onDemand returns the best time without knowledge of the cost: each worker
// takes the next record when it is free, and taking it costs nothing.
func onDemand(l []time.Duration) (time.Duration, error) {
	queue := make(chan time.Duration, len(l))
	for _, d := range l {
		queue <- d
	}
	close(queue)
	return together(func(int) {
		for d := range queue {
			time.Sleep(d)
		}
	}), nil
}

// static gives each worker an equal part in advance.
func static(l []time.Duration) (time.Duration, error) {
	return together(func(w int) {
		for _, d := range l[w*len(l)/workers : (w+1)*len(l)/workers] {
			time.Sleep(d)
		}
	}), nil
}

func together(work func(worker int)) time.Duration {
	start := time.Now()
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() { work(w) })
	}
	group.Wait()
	return time.Since(start)
}

func pythonPool(l []time.Duration) (time.Duration, error) {
	python, err := exec.LookPath("python3")
	if err != nil {
		return 0, errors.New("not installed, so not measured")
	}
	const program = `
import sys, time, multiprocessing
if __name__ == "__main__":
    with multiprocessing.Pool(8) as pool:
        for _ in pool.imap_unordered(time.sleep, [float(x) for x in sys.stdin], chunksize=1):
            pass
`
	return piped(l, exec.Command(python, "-c", program))
}

func gnuParallel(l []time.Duration) (time.Duration, error) {
	// moreutils has another program with the same name.
	version, err := exec.Command("parallel", "--version").Output()
	if err != nil || !strings.HasPrefix(string(version), "GNU parallel") {
		return 0, errors.New("not installed, so not measured")
	}
	return piped(l, exec.Command("parallel", "--will-cite", "-j", strconv.Itoa(workers), "sleep", "{}"))
}

// piped runs a command and writes the lengths to its input, in seconds, one per
// line.
func piped(l []time.Duration, cmd *exec.Cmd) (time.Duration, error) {
	var text strings.Builder
	for _, d := range l {
		fmt.Fprintf(&text, "%.6f\n", d.Seconds())
	}
	cmd.Stdin = strings.NewReader(text.String())
	cmd.Stderr = os.Stderr
	start := time.Now()
	err := cmd.Run()
	return time.Since(start), err
}
