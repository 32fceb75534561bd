// Command soak does everything at once to one daemon on simulated devices, for an hour, and
// says whether what the daemon takes stays flat.
//
// Jobs, services behind the front, batches, leases, queries, pages and readers of events come
// and go; holders of leases are killed. The daemon remembers as many jobs that have ended as it
// ever does, or it would grow by those alone. Every few seconds it looks at the memory, the open
// files, the goroutines and the folder of the daemon, and at how long an acquire takes. At the
// end it prints the slope of each with its noise, and what a day would come to.
//
//	make build && go run ./test/soak -length 1h
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/test/bench/daemon"
)

// options are what a run is made from.
type options struct {
	berth    string
	source   string
	length   time.Duration
	every    time.Duration
	restarts time.Duration
	ended    int
}

func main() {
	var o options
	flag.StringVar(&o.berth, "berth", "bin/berth", "the binary to try")
	flag.StringVar(&o.source, "source", ".", "the folder of the repository, which has the model server and the Python package")
	flag.DurationVar(&o.length, "length", time.Hour, "how long to go on")
	flag.DurationVar(&o.every, "every", 5*time.Second, "how often to look at the daemon")
	flag.DurationVar(&o.restarts, "restarts", 0, "how often to kill the daemon with -9 and start it again; 0: never")
	flag.IntVar(&o.ended, "ended", 100_000, "how many jobs have ended before it begins; a daemon remembers 100,000")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, o); err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, o options) error {
	machine, err := daemon.Machine(o.berth)
	if err != nil {
		return err
	}
	fmt.Printf("%s\n%v, a look every %v, restarts every %v\n\n", machine, o.length, o.every, o.restarts)
	l, err := newLoad(o)
	if err != nil {
		return err
	}
	defer l.close()
	if err := l.fill(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, o.length)
	defer cancel()
	l.begin(ctx)
	looks := watch(ctx, l, o)
	l.wait()
	fmt.Println(l.counted())
	return judge(looks)
}
