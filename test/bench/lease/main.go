// Command lease measures how fast berth grants and releases leases, and
// compares it with what people would otherwise build leases on: Redis,
// PostgreSQL and etcd doing the same work.
//
// It starts all of them itself, in a folder of its own and on Unix sockets,
// measures them in turn, so that other load on the machine hits all of them
// alike, and prints rates, latencies and ratios.
//
//	make build && go run -C test/bench/lease .
//
// The work: there are eight devices with 141 GiB and 16 slots each. An acquire
// names a lease and takes the least loaded device that has the memory; the lease
// expires after a minute. A release ends it before. Each of the two is one
// operation, and is on disk before the answer, if the contender promises that.
// berth-process and redis-everysec promise less: their leases survive a kill of
// the server, but not a loss of power. They are compared with each other.
//
// It is a module of its own, so that berth does not depend on what it is
// compared with.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

func main() {
	var o options
	flag.StringVar(&o.berth, "berth", "../../../bin/berth", "the binary to measure")
	flag.StringVar(&o.dir, "dir", "", "where to write: a folder on the disk to measure (default: the folder for temporary files)")
	flag.IntVar(&o.rounds, "rounds", 5, "how many rounds to measure; the contenders take turns")
	flag.DurationVar(&o.each, "each", time.Second, "how long each measurement takes")
	clients := flag.String("clients", "1,16,64", "how many clients at a time")
	peers := flag.String("peers", "", "compare only with these of redis, postgres and etcd, separated by commas, and install nothing (default: all; those that are missing are installed)")
	only := flag.String("only", "", "measure only berth and the contenders with these names, separated by commas")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := o.parse(*clients, *peers, *only)
	if err == nil {
		err = run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lease:", err)
		os.Exit(1)
	}
}

type options struct {
	berth, dir string
	rounds     int
	each       time.Duration
	clients    []int
	install    bool            // install missing peers
	skip       map[string]bool // peers to leave out
	only       map[string]bool // empty: all
}

func (o *options) parse(clients, peers, only string) error {
	for text := range strings.SplitSeq(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > slots*devices {
			return fmt.Errorf("-clients %s: each number must be from 1 to %d", clients, slots*devices)
		}
		o.clients = append(o.clients, n)
	}
	o.only = names(only)
	o.install = only == "" && peers == ""
	var err error
	if peers != "" {
		if o.skip, err = leftOut(names(peers)); err != nil {
			return fmt.Errorf("-peers %s: %w", peers, err)
		}
	}
	o.berth, err = filepath.Abs(o.berth)
	return err
}

// names returns the names in a list that is separated by commas.
func names(list string) map[string]bool {
	set := map[string]bool{}
	for name := range strings.SplitSeq(list, ",") {
		if name != "" {
			set[name] = true
		}
	}
	return set
}

func run(ctx context.Context, o options) error {
	dir, err := os.MkdirTemp(o.dir, "bench-lease-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := os.Chmod(dir, 0o755); err != nil { // PostgreSQL runs as a user of its own
		return err
	}
	if o.install {
		if err := install(ctx); err != nil {
			return fmt.Errorf("install the peers: %w; name those that are there with -peers", err)
		}
	}
	all, err := start(ctx, dir, o)
	defer func() { stopAll(all) }()
	if err != nil {
		return err
	}
	if err := describe(os.Stdout, dir, o); err != nil {
		return err
	}
	table := newTable(all, o.clients)
	for round := range o.rounds {
		for _, clients := range o.clients {
			for _, c := range all {
				m, err := measure(ctx, c.contender, clients, o.each)
				if err != nil {
					return fmt.Errorf("%s, %d clients: %w", c.name, clients, err)
				}
				table.add(c.name, clients, m)
				fmt.Fprintf(os.Stderr, "round %d of %d, %2d clients, %-16s %7.0f ops/s\n", round+1, o.rounds, clients, c.name, m.rate())
			}
		}
	}
	table.print(os.Stdout)
	table.printPair(os.Stdout, processBound, everySecond)
	table.say()
	stopAll(all)
	all = nil // the decisions have the machine for themselves
	return decisions(ctx, os.Stdout)
}
