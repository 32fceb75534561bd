package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"
)

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

// begin plays attacks and returns a channel for the result of each. In the short
// version, in which attacks mostly wait, it plays four at a time.
func begin(ctx context.Context, g *grounds, small bool, chosen []attack) []chan result {
	side := 1
	if small {
		side = 4
	}
	busy := make(chan struct{}, side)
	results := make([]chan result, len(chosen))
	for i := range results {
		results[i] = make(chan result, 1)
	}
	go func() {
		for i, each := range chosen {
			busy <- struct{}{}
			go func() {
				defer func() { <-busy }()
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

// result is how an attack ended, and how long it took.
type result struct {
	verdict
	took time.Duration
	err  error
}

func (r *result) print(name string) {
	line := func(word, text string) { fmt.Printf("%-12s %5.1f s  %-8s %s\n", name, r.took.Seconds(), word, text) }
	switch {
	case r.err != nil:
		line("BROKEN", "the attack could not be played: "+r.err.Error())
	case r.skipped != "":
		line("skipped", r.skipped)
	case len(r.gained) == 0:
		line("held", r.note)
	}
	for _, each := range r.gained {
		line("GAINED", each)
	}
}
