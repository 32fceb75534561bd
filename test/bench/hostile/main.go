// Command hostile attacks a daemon that runs as root, as an unprivileged user,
// over the socket and over TCP.
//
// Each attack is one file. The attacker's part runs in processes of uid 65534.
// The referee, which is root, starts a daemon for each attack, checks it from
// outside, and prints what the attacker gained. The command exits with status 1
// if the attacker gained anything.
//
//	make build && go run ./test/bench/hostile
//
// With -fair it measures instead how much slower berth answers an honest user
// while one hostile user does everything at full speed.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

// options says what to play.
type options struct {
	berth string
	small bool
	only  string
	fair  fairness
}

func main() {
	if len(os.Args) > 2 && os.Args[1] == childCommand {
		exitWith(child(os.Args[2:]))
	}
	var o options
	flag.StringVar(&o.berth, "berth", "bin/berth", "the binary to attack")
	flag.BoolVar(&o.small, "small", false, "play the short version (less than half a minute)")
	flag.StringVar(&o.only, "only", "", "play only the attacks with these `NAMES`, separated by commas")
	list := flag.Bool("list", false, "list the attacks")
	fair := flag.Bool("fair", false, "measure what one hostile user costs an honest one")
	flag.IntVar(&o.fair.rounds, "rounds", 5, "with -fair: how many rounds to measure")
	flag.DurationVar(&o.fair.length, "length", 12*time.Second, "with -fair: how long each half of a round lasts")
	flag.BoolVar(&o.fair.queries, "queries", false, "with -fair: 32 hostile users ask the largest queries that are permitted, and nothing else")
	flag.StringVar(&o.fair.kinds, "kinds", "", "with -fair: only these `KINDS` of load, of holds,leases,waits,events,calls,halves")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	switch {
	case *list:
		for _, a := range attacks() {
			fmt.Printf("%-12s %s\n", a.name, a.what)
		}
	case os.Geteuid() != 0:
		fmt.Println("hostile: skipped: only root can start a daemon of root and processes of other users. Run this command with sudo.")
	case *fair:
		exitWith(measureFairness(ctx, o))
	default:
		exitWith(play(ctx, o))
	}
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "hostile:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// play plays the chosen attacks and prints the results in order.
func play(ctx context.Context, o options) error {
	chosen, err := choose(o.only)
	if err != nil {
		return err
	}
	if err := printMachine(o.berth); err != nil {
		return err
	}
	g, err := newGrounds(o.berth)
	if err != nil {
		return err
	}
	defer g.close()
	var lost []string
	began := time.Now()
	for i, next := range begin(ctx, g, o.small, chosen) {
		got := <-next
		if ctx.Err() != nil {
			continue // wait until every attack has ended its processes
		}
		got.print(chosen[i].name)
		if got.err != nil || len(got.gained) > 0 {
			lost = append(lost, chosen[i].name)
		}
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	fmt.Printf("\n%d attacks in %v\n", len(chosen), time.Since(began).Round(100*time.Millisecond))
	if len(lost) > 0 {
		return fmt.Errorf("berth did not hold against: %s", strings.Join(lost, ", "))
	}
	return nil
}

// result is how an attack ended, and how long it took.
type result struct {
	verdict
	took time.Duration
	err  error
}

// begin plays attacks and returns a channel for the result of each. In the short
// version, in which attacks mostly wait, it plays three at a time.
func begin(ctx context.Context, g *grounds, small bool, chosen []attack) []chan result {
	side := 1
	if small {
		side = 3
	}
	turn := make(chan struct{}, side)
	results := make([]chan result, len(chosen))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	go func() {
		for i, each := range chosen {
			turn <- struct{}{}
			go func() {
				defer func() { <-turn }()
				start := time.Now()
				v, err := playOne(ctx, g, small, each)
				results[i] <- result{v, time.Since(start), err}
			}()
		}
	}()
	return results
}

// playOne plays one attack in a folder of its own, and ends every process that
// it started.
func playOne(ctx context.Context, g *grounds, small bool, each attack) (v verdict, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	a, err := g.arena(each.name, small)
	if err := errors.Join(err, ctx.Err()); err != nil {
		return v, err
	}
	defer a.close()
	return each.run(ctx, a)
}
