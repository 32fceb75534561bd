// Command chaos kills the daemon with -9 over and over while many clients take
// and release leases and holders die, and checks what must hold all the same:
// nothing is granted twice, no acknowledged lease is lost, no lease of a dead
// holder stays, fences only grow.
//
//	go run ./chaos -berth bin/berth -seconds 60
//
// What a client knows for certain is all that is judged: a lease counts as held
// from the moment its grant was read until just before its release is sent. An
// answer that never came is resolved by asking again.
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"time"
)

func main() {
	berth := flag.String("berth", "bin/berth", "the binary to torment")
	seconds := flag.Int("seconds", 60, "for how long")
	clients := flag.Int("clients", 64, "how many clients")
	kills := flag.Int("kills", 100, "how often the daemon is killed at least; it goes on until then, at most twice as long")
	seed := flag.Uint64("seed", uint64(time.Now().UnixNano()), "of all that is random")
	flag.Parse()
	if err := run(*berth, time.Duration(*seconds)*time.Second, *clients, *kills, *seed); err != nil {
		fmt.Fprintln(os.Stderr, "chaos:", err)
		os.Exit(1)
	}
}

func run(berth string, duration time.Duration, clients, kills int, seed uint64) error {
	fmt.Printf("seed %d, %d clients, %v\n", seed, clients, duration)
	d, err := newDaemon(berth)
	if err != nil {
		return err
	}
	defer d.remove()
	if err := d.start(); err != nil {
		return err
	}
	w, err := newWitness(d)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	for i := range clients {
		c := &customer{witness: w, name: fmt.Sprintf("c%02d", i), random: rand.New(rand.NewPCG(seed, uint64(i)))}
		group.Go(func() { c.work(ctx) })
	}
	err = torment(d, w, duration, kills, rand.New(rand.NewPCG(seed, 1<<32)))
	cancel()
	group.Wait()
	if err == nil {
		err = w.settled()
	}
	if stopped := d.stop(); err == nil {
		err = stopped
	}
	w.report(d)
	if err != nil {
		return err
	}
	return w.verdict()
}

// torment kills the daemon at random moments, starts it again, and looks each
// time whether everything that must be there is.
func torment(d *daemon, w *witness, duration time.Duration, kills int, random *rand.Rand) error {
	begun := time.Now()
	for time.Since(begun) < duration || d.kills < kills && time.Since(begun) < 2*duration {
		time.Sleep(time.Duration(random.IntN(500)) * time.Millisecond)
		if err := d.kill(); err != nil {
			return err
		}
		if err := d.start(); err != nil {
			return err
		}
		if err := w.inspect(); err != nil {
			return err
		}
	}
	if d.kills < kills {
		return fmt.Errorf("only %d of %d kills: the machine is too slow for a verdict", d.kills, kills)
	}
	return nil
}
