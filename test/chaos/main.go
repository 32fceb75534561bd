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
// Then users submit jobs and cancel some, while the daemon is killed or asked to end, some
// 200 times. Each command writes down that it was started, and at the end:
//
//   - every job that was acknowledged is there, once;
//   - every command was started once, and its exit code is right;
//   - jobs of a user that cannot run side by side were started in their order;
//   - no lease, no record and no process is left.
//
// At last minders are killed, the machine is started again, or so it seems, and the disk
// is full; the last two need root.
//
// With -replace, leases and jobs are those of the daemon that is installed here, with the
// devices and slots that this program would give it, and a command that replaces its package
// takes the place of the kills.
//
// It prints a summary and ends with an error if a promise was broken.
//
//	make build && go run ./test/chaos -seconds 60
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"
	"time"
)

// options are what a run is made from.
type options struct {
	berth    string
	replace  string
	seconds  float64
	clients  int
	minKills int
	jobKills int
	scenes   string
	seed     uint64
}

func main() {
	if len(os.Args) == 5 && os.Args[1] == submitVerb {
		exitWith(submitAs(os.Args[2:]))
	}
	var o options
	flag.StringVar(&o.berth, "berth", "bin/berth", "the binary to try")
	flag.StringVar(&o.replace, "replace", "", "try the daemon that is installed on this machine, and have this command replace it instead of killing one")
	flag.Float64Var(&o.seconds, "seconds", 60, "how long to go on")
	flag.IntVar(&o.clients, "clients", 64, "how many clients there are")
	flag.IntVar(&o.minKills, "kills", 100, "how often the daemon is killed at least")
	flag.IntVar(&o.jobKills, "job-kills", 200, "how often the daemon is killed while it runs jobs")
	flag.StringVar(&o.scenes, "scenes", "leases,jobs,minders,reboot,disk", "what to play")
	flag.Uint64Var(&o.seed, "seed", rand.Uint64(), "where chance begins: the same seed makes the same choices")
	flag.Parse()
	exitWith(play(o))
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// play plays the scenes, one after the other.
func play(o options) error {
	if o.replace == "" { // the daemon that is installed runs no jobs of those who see other files
		if inside, err := withOwnMounts(); inside || err != nil {
			return err
		}
	}
	scenes := map[string]func(options) error{"leases": leases, "jobs": jobs, "minders": minders, "reboot": reboot, "disk": fullDisk}
	for name := range strings.SplitSeq(o.scenes, ",") {
		scene, known := scenes[name]
		if !known {
			return fmt.Errorf("there is no scene %q", name)
		}
		begun := time.Now()
		fmt.Printf("%s, -seed %d\n", name, o.seed)
		if err := scene(o); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		fmt.Printf("%s: %v\n\n", name, time.Since(begun).Round(time.Second))
	}
	return nil
}

// patience is how much longer than asked for a run may take to get its kills
// together, on a machine that is busy with something else.
const patience = 10

func leases(o options) error {
	dir, err := os.MkdirTemp("", "berth-chaos-")
	if err != nil {
		return err
	}
	fmt.Printf("%d clients, %g seconds, at least %d kills\n", o.clients, o.seconds, o.minKills)

	d := &daemon{berth: o.berth, dir: dir, replace: o.replace, random: rand.New(rand.NewPCG(o.seed, 0)), over: make(chan struct{})}
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
		c := newClient(n, d.socket(), d.over, record, rand.New(rand.NewPCG(o.seed, uint64(n+1))))
		clients.Go(func() { c.live(ctx) })
	}
	watching, endWatch := context.WithCancel(context.Background())
	inspector := newClient(-1, d.socket(), d.over, record, nil)
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
