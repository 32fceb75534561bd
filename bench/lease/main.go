// Command lease measures leases taken and given back, beside what people would
// otherwise build them on: Redis, PostgreSQL and etcd doing the same work. It
// starts all of them itself, in a folder of its own and on Unix sockets, lets
// them take turns so that whatever else the machine does hits all alike, and
// prints rates, latencies and ratios.
//
//	make build && go run -C bench/lease .
//
// The work: eight devices with 141 GiB and 16 slots each. An acquire names a
// lease, takes the least loaded device that has the memory, and lives for a
// minute unless it is released; then comes the release. Each of the two is one
// operation, and each is on disk before it is answered, where the contender
// promises that. berth-process and redis-everysec promise less: what they
// answered survives a kill of the server, and not a loss of power; they are
// compared with each other.
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
	flag.StringVar(&o.berth, "berth", "../../bin/berth", "the binary to measure")
	flag.StringVar(&o.dir, "dir", "", "where to write: a folder on the disk to measure (default: the one for temporary files)")
	flag.IntVar(&o.rounds, "rounds", 5, "how often each is measured; they take turns")
	flag.DurationVar(&o.each, "each", time.Second, "how long one measurement takes")
	clients := flag.String("clients", "1,16,64", "how many clients at a time")
	peers := flag.String("peers", "", "compare with these alone, and install nothing: redis, postgres, etcd, separated by commas (default: all, installed where missing)")
	only := flag.String("only", "", "measure berth and these alone: names, separated by commas")
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
	install    bool            // the peers that are missing
	skip       map[string]bool // the peers to leave out
	only       map[string]bool // empty: all
}

func (o *options) parse(clients, peers, only string) error {
	for text := range strings.SplitSeq(clients, ",") {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > slots*devices {
			return fmt.Errorf("-clients %s: each is a number from 1 to %d", clients, slots*devices)
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
			return fmt.Errorf("install the others: %w", err)
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
	stopAll(all)
	all = nil // what follows has the machine for itself
	return decisions(ctx, os.Stdout)
}
