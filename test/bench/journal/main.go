// Command journal measures how many commits per second a journal does.
//
// It compares berth's log with bbolt, which does the same work, and with the
// bare system calls that every journal needs. Run it with "go run ." in this
// folder. It is a module of its own, so that berth does not depend on bbolt.
package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/berth-gpu/berth/test/bench/figure"
)

func main() {
	dir := flag.String("dir", ".", "where to write: a folder on the disk to measure")
	rounds := flag.Int("rounds", 15, "how many rounds to measure; the journals take turns, and the median counts")
	each := flag.Duration("each", 150*time.Millisecond, "how long each measurement takes")
	size := flag.Int("size", 250, "bytes in a record")
	flag.Parse()
	if err := run(*dir, *rounds, *each, *size); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// load is one kind of work: how many records a commit has, and whether it waits
// for the disk.
type load struct {
	records int
	durable bool
}

func (l load) String() string {
	if l.durable {
		return fmt.Sprintf("%d, durable", l.records)
	}
	return fmt.Sprintf("%d, not durable", l.records)
}

func run(dir string, rounds int, each time.Duration, size int) error {
	tmp, err := os.MkdirTemp(dir, "bench-journal-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	record := make([]byte, size)
	for i := range record {
		record[i] = 'a' + byte(i%26)
	}
	fmt.Println(machine())
	fmt.Printf("Commits per second (median of %d rounds of %v; records of %d bytes)\n\n", rounds, each, size)
	fmt.Printf("| records per commit |")
	for _, c := range contenders() {
		fmt.Printf(" %s |", c.name)
	}
	fmt.Printf(" berth / bbolt |\n|---|")
	for range contenders() {
		fmt.Printf("---:|")
	}
	fmt.Println("---:|")
	for _, l := range []load{{1, true}, {16, true}, {64, true}, {1, false}, {16, false}, {64, false}} {
		rates, err := compare(tmp, l, rounds, each, record)
		if err != nil {
			return err
		}
		fmt.Printf("| %v |", l)
		for _, r := range rates {
			fmt.Printf(" %.0f |", r)
		}
		fmt.Printf(" %.1f |\n", rates[0]/rates[1])
		figure.Say(fmt.Sprintf("journal ÷ bbolt, %v", l), rates[0]/rates[1], "ratio", figure.More)
	}
	return nil
}

// machine describes the machine that is measured.
func machine() string {
	kernel, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		kernel = []byte("unknown")
	}
	return fmt.Sprintf("%s, %d CPUs, %s/%s, kernel %s, %s", time.Now().Format(time.DateOnly),
		runtime.NumCPU(), runtime.GOOS, runtime.GOARCH, strings.TrimSpace(string(kernel)), runtime.Version())
}

// compare returns the median rate of each contender. The contenders take turns,
// so that a disk that becomes slower does so for all of them.
func compare(tmp string, l load, rounds int, each time.Duration, record []byte) ([]float64, error) {
	group := slices.Repeat([][]byte{record}, l.records)
	all := make([][]float64, len(contenders()))
	for round := range rounds {
		for i, c := range contenders() {
			path := filepath.Join(tmp, fmt.Sprintf("%d-%d", round, i))
			rate, err := measure(c, path, l, each, group)
			if err != nil {
				return nil, fmt.Errorf("%s, %v: %w", c.name, l, err)
			}
			all[i] = append(all[i], rate)
			if err := os.RemoveAll(path); err != nil {
				return nil, err
			}
		}
	}
	medians := make([]float64, len(all))
	for i, rates := range all {
		slices.Sort(rates)
		medians[i] = rates[len(rates)/2]
	}
	return medians, nil
}

func measure(c contender, path string, l load, each time.Duration, group [][]byte) (float64, error) {
	commit, done, err := c.open(path, l.durable)
	if err != nil {
		return 0, err
	}
	n := 0
	start := time.Now()
	for time.Since(start) < each {
		if err := commit(group); err != nil {
			done()
			return 0, err
		}
		n++
	}
	rate := float64(n) / time.Since(start).Seconds()
	return rate, done()
}
