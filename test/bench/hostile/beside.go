package main

import (
	"context"
	"strings"
	"time"

	"github.com/berth-gpu/berth/test/bench/figure"
)

// lasting returns small in the short version, and full otherwise.
func (a *arena) lasting(small, full time.Duration) time.Duration {
	if a.small {
		return small
	}
	return full
}

// beside measures how long another user waits for leases while processes of the attacker do an act.
func (d *daemon) beside(ctx context.Context, length time.Duration, processes int, what string, asked any) (summary, error) {
	for range processes {
		one, err := d.arena.act(ctx, attacker, 0, what, asked, nil)
		if err != nil {
			return summary{}, err
		}
		defer one.stop()
	}
	var got honest
	if err := d.arena.do(ctx, victim, 0, "honest", askHonest{Door: d.socket, Length: length}, &got); err != nil {
		return summary{}, err
	}
	return got.summary()
}

// besideLoad measures the same beside processes that only compute.
func (d *daemon) besideLoad(ctx context.Context, processes int) (summary, error) {
	return d.beside(ctx, d.arena.lasting(300*time.Millisecond, 10*time.Second), processes, "spin", nil)
}

// besideCalls measures the same beside processes that repeat calls.
func (d *daemon) besideCalls(ctx context.Context, processes int, calls ...call) (summary, error) {
	return d.beside(ctx, d.arena.lasting(300*time.Millisecond, 10*time.Second), processes, "asking", askQueries{Door: d.socket, Calls: calls})
}

// survives judges what an attack cost: the daemon lives, it took little memory, and another
// user got leases nearly as fast as beside an equal load. The short version measures too few
// of them, beside other attacks, and only says how fast.
func (d *daemon) survives(v *verdict, kind string, quiet, loud summary) error {
	if !runs(d.pid()) {
		v.gain("the daemon has ended: %s", panicIn(d.logText()))
		return nil
	}
	if strings.Contains(d.logText(), "panic:") {
		v.gain("a panic in the daemon: %s", panicIn(d.logText()))
	}
	if err := d.small(v, "the daemon"); err != nil {
		return err
	}
	peak, err := d.peakMB()
	if err != nil {
		return err
	}
	ratio := float64(loud.p99) / float64(quiet.p99)
	v.noting("%s; p99 of another user's lease %v, and %v beside an equal load: %.2f times; the daemon took %d MB", v.note, loud.p99, quiet.p99, ratio, peak)
	v.note = strings.TrimPrefix(v.note, "; ")
	if d.arena.small {
		return nil
	}
	figure.Say("p99 of others beside "+kind+" ÷ beside a CPU load", ratio, "ratio", figure.Less)
	if ratio > ratioLimit {
		v.gain("p99 of another user's lease is %v beside %s, and %v beside an equal load: %.1f times", loud.p99, kind, quiet.p99, ratio)
	}
	if loud.failed > quiet.failed {
		v.gain("%d of %d leases of another user failed beside %s", loud.failed, loud.n, kind)
	}
	return nil
}

// small fails a daemon that took too much memory.
func (d *daemon) small(v *verdict, what string) error {
	peak, err := d.peakMB()
	if err == nil && peak > memoryLimitMB {
		v.gain("%s took %d MB (the most is %d)", what, peak, memoryLimitMB)
	}
	return err
}

// panicIn returns the first line of a panic in a log, or the end of the log.
func panicIn(log string) string {
	if at := strings.Index(log, "panic:"); at >= 0 {
		line, _, _ := strings.Cut(log[at:], "\n")
		return line
	}
	return log[max(0, len(log)-200):]
}
