// Command front measures what the front adds to a request, beside a direct connection to
// the server, beside nginx, and beside llama-swap if its program is at hand.
//
// The server is a program of its own with answers of 300 bytes and streams of 1,000 small
// pieces. The daemon's side of the front's protocol is played here, with one service that
// is open; the front itself is the real one. The contenders take turns, so that what else
// the machine does meets all of them.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/berth-gpu/berth/test/bench/figure"
)

func main() {
	if len(os.Args) == 2 && os.Args[1] == "server" {
		exitWith(beServer())
	}
	program := flag.String("berth", "bin/berth-serve", "the program with the front")
	swap := flag.String("llama-swap", "", "the program llama-swap; empty: measure without it")
	rounds := flag.Int("rounds", 5, "how many rounds to measure")
	each := flag.Duration("each", time.Second, "how long each contender runs with each number of clients in a round")
	long := flag.Int("long", 100000, "how many requests the memory of the front is watched over")
	open := flag.Int("open", 1000, "how many open streams it is watched with")
	flag.Parse()
	exitWith(run(*program, *swap, *rounds, *each, *long, *open))
}

func exitWith(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "front:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// contender is a way to the server.
type contender struct {
	name    string
	address string
	prefix  string // of paths
}

// result is what one contender did with one number of clients, a value for each round.
type result struct {
	rate     []float64 // requests a second, by usual clients
	p50, p99 []float64 // seconds, by usual clients
	lean     []float64 // requests a second, by lean clients
	streams  []float64 // streams a second
}

func run(program, swap string, rounds int, each time.Duration, long, open int) error {
	s, err := begin(program, swap)
	if err != nil {
		return err
	}
	defer s.end()
	clients := []int{1, 16, 64}
	results := map[string]map[int]*result{}
	for _, c := range s.contenders {
		results[c.name] = map[int]*result{}
		for _, n := range clients {
			results[c.name][n] = &result{}
		}
	}
	for range rounds {
		for _, n := range clients {
			for _, c := range s.contenders {
				r := results[c.name][n]
				rate, times, err := load(c, usual, n, each, short)
				if err != nil {
					return fmt.Errorf("%s with %d clients: %w", c.name, n, err)
				}
				r.rate = append(r.rate, rate)
				r.p50, r.p99 = append(r.p50, figure.Quantile(times, 0.5)), append(r.p99, figure.Quantile(times, 0.99))
				if rate, _, err = load(c, lean, n, each, short); err != nil {
					return fmt.Errorf("%s with %d lean clients: %w", c.name, n, err)
				}
				r.lean = append(r.lean, rate)
				if rate, _, err = load(c, lean, n, 2*each, stream); err != nil {
					return fmt.Errorf("streams of %s with %d clients: %w", c.name, n, err)
				}
				r.streams = append(r.streams, rate)
			}
		}
	}
	fmt.Printf("medians of %d rounds in turns; clients with net/http, and lean ones that cost next to nothing\n\n", rounds)
	fmt.Printf("%-10s %8s %12s %10s %10s %15s %12s\n", "way", "clients", "requests/s", "p50 µs", "p99 µs", "lean requests/s", "streams/s")
	for _, c := range s.contenders {
		for _, n := range clients {
			r := results[c.name][n]
			fmt.Printf("%-10s %8d %12.0f %10.0f %10.0f %15.0f %12.0f\n", c.name, n, median(r.rate), 1e6*median(r.p50), 1e6*median(r.p99), median(r.lean), median(r.streams))
		}
	}
	fmt.Println()
	front, direct, nginx := results["front"], results["direct"], results["nginx"]
	added := 1e6 * (median(front[1].p50) - median(direct[1].p50))
	fmt.Printf("added by the front at p50 with one client: %.0f µs (at most 250)\n", added)
	figure.Say("front, added to a request", added, "µs", figure.Less)
	for _, n := range clients {
		figure.Say(fmt.Sprintf("front, requests, %d at once", n), median(front[n].rate), "requests/s", figure.More)
		figure.Say(fmt.Sprintf("front, streams, %d at once", n), median(front[n].streams), "streams/s", figure.More)
		if nginx != nil {
			figure.Say(fmt.Sprintf("front ÷ nginx, requests, %d at once", n), median(front[n].rate)/median(nginx[n].rate), "ratio", figure.More)
			figure.Say(fmt.Sprintf("front ÷ nginx, streams, %d at once", n), median(front[n].streams)/median(nginx[n].streams), "ratio", figure.More)
		}
	}
	if nginx != nil {
		fmt.Printf("added by nginx at p50 with one client: %.0f µs\n", 1e6*(median(nginx[1].p50)-median(direct[1].p50)))
		for _, n := range clients {
			fmt.Printf("of nginx with %2d clients: requests %.2f (at least 0.4), lean %.2f, streams %.2f (at least 0.7)\n",
				n, median(front[n].rate)/median(nginx[n].rate), median(front[n].lean)/median(nginx[n].lean), median(front[n].streams)/median(nginx[n].streams))
		}
	}
	if peer := results["llama-swap"]; peer != nil {
		fmt.Printf("added by llama-swap at p50 with one client: %.0f µs\n", 1e6*(median(peer[1].p50)-median(direct[1].p50)))
		for _, n := range clients {
			fmt.Printf("of llama-swap with %2d clients: requests %.2f (at least 2), lean %.2f, streams %.2f\n",
				n, median(front[n].rate)/median(peer[n].rate), median(front[n].lean)/median(peer[n].lean), median(front[n].streams)/median(peer[n].streams))
		}
	}
	return s.memory(long, open)
}

// thousands is how often streams are opened and closed again. The garbage collector lets
// the memory grow in the first third, and no further.
const thousands = 24

// flat is by how much the memory may still grow afterwards: it varies by a tenth. A leak of
// what a stream needs would make it grow by two thirds.
const flat = 0.25

// memory prints how much memory the front has, over many requests and with many streams,
// and fails if it grows without end.
func (s *stage) memory(long, open int) error {
	front := s.contenders[len(s.contenders)-1]
	fmt.Println()
	var sizes []float64
	say := func(when string, arguments ...any) error {
		size, err := s.resident()
		if err == nil && when != "" {
			fmt.Printf("memory of the front %-38s %6.1f MiB\n", fmt.Sprintf(when, arguments...), size)
		}
		sizes = append(sizes, size)
		return err
	}
	const parts = 4
	for n := range parts {
		if err := repeat(front, 16, long/parts); err != nil {
			return err
		}
		if err := say("after %d requests:", (n+1)*long/parts); err != nil {
			return err
		}
	}
	requests := sizes[parts-1]/sizes[0] - 1
	for n := range thousands {
		closeAll, err := hold(front, open)
		if err != nil {
			return err
		}
		when := ""
		if n%4 == 3 || n == 0 {
			when = "with %d open streams, time %d:"
		}
		err = say(when, open, n+1)
		closeAll()
		if err != nil {
			return err
		}
	}
	third := thousands / 3
	figure.Say(fmt.Sprintf("front, resident with %d open streams", open), sizes[len(sizes)-1], "MiB", figure.Less)
	streams := slices.Max(sizes[parts+2*third:])/slices.Max(sizes[parts+third:parts+2*third]) - 1
	fmt.Printf("it grew by %.0f %% from the first quarter of the requests to the last, and by %.0f %% from the second third of the streams to the last (at most %.0f %%)\n", 100*requests, 100*streams, 100*flat)
	if requests > flat || streams > flat {
		return errors.New("the memory of the front is not flat")
	}
	return nil
}

func median(values []float64) float64 { return figure.Quantile(values, 0.5) }
