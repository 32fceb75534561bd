// Command hostile attacks a daemon that runs as root, as an unprivileged user,
// over the socket and over TCP.
//
// Each attack is one file; those with batches share one. The attacker's part runs
// in processes of uid 65534. The referee, which is root, starts a daemon for each
// attack, checks it from outside, and prints what the attacker gained. The command
// exits with status 1 if the attacker gained anything.
//
//	make build && go run ./test/bench/hostile
//
// With -fair it measures instead how much slower berth answers an honest user
// while one hostile user does everything at full speed.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
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
	flag.BoolVar(&o.small, "small", false, "play the short version (less than a minute)")
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
