// Command chaos tries to make berth break its word.
//
// Clients take, renew and release leases as fast as they can; the daemon is
// killed with -9 at random moments, and so are the processes that hold leases.
// Each client writes down what it was promised, and every promise is held
// against what the others were promised and against what the daemon says after
// each restart:
//
//   - nothing is granted twice: what clients hold at the same time fits on the
//     device, and no fence is given out a second time or after a larger one;
//   - no acknowledged lease is lost: it is listed until its holder gives it up;
//   - no dead holder's lease stays.
//
// It prints a summary and ends with an error if a promise was broken.
//
//	make build && go run ./chaos -seconds 60
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

// options are what a run is made from.
type options struct {
	berth    string
	seconds  float64
	clients  int
	minKills int
	seed     uint64
}

func main() {
	var o options
	flag.StringVar(&o.berth, "berth", "bin/berth", "the binary to try")
	flag.Float64Var(&o.seconds, "seconds", 60, "how long to go on")
	flag.IntVar(&o.clients, "clients", 64, "how many clients there are")
	flag.IntVar(&o.minKills, "kills", 100, "how often the daemon is killed at least")
	flag.Uint64Var(&o.seed, "seed", rand.Uint64(), "where chance begins: the same seed makes the same choices")
	flag.Parse()
	if err := run(o); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

// patience is how much longer than asked for a run may take to get its kills
// together, on a machine that is busy with something else.
const patience = 2

func run(o options) error {
	dir, err := os.MkdirTemp("", "berth-chaos-")
	if err != nil {
		return err
	}
	fmt.Printf("%d clients, %g seconds, at least %d kills, -seed %d\n", o.clients, o.seconds, o.minKills, o.seed)

	d := &daemon{berth: o.berth, dir: dir, random: rand.New(rand.NewPCG(o.seed, 0)), over: make(chan struct{})}
	if err := d.prepare(); err != nil {
		return err
	}
	machine, err := d.look()
	if err != nil {
		return err
	}
	record := newRecord(machine)
	length := time.Duration(o.seconds * float64(time.Second))
	ctx, cancel := context.WithTimeout(context.Background(), length)
	defer cancel()

	var clients, others sync.WaitGroup
	for n := range o.clients {
		c := newClient(n, d, record, rand.New(rand.NewPCG(o.seed, uint64(n+1))))
		clients.Go(func() { c.live(ctx) })
	}
	watching, endWatch := context.WithCancel(context.Background())
	inspector := newClient(-1, d, record, nil)
	others.Go(func() { inspector.inspect(watching) })

	crashed := d.killAgainAndAgain(ctx, o.minKills, patience*length)
	cancel() // from here on the daemon lives, and clients give back what they have
	clients.Wait()
	endWatch()
	others.Wait()
	if err = cmp.Or(crashed, d.err()); err == nil {
		inspector.inspectTheEnd()
	}
	d.stop()
	record.print(d)
	err = errors.Join(err, record.verdict(), d.enough(o.minKills))
	if err != nil {
		return fmt.Errorf("%w\nthe log and the journal of the daemon are in %s", err, dir)
	}
	return os.RemoveAll(dir)
}
