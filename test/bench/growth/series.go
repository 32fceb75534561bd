package main

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"

	"github.com/berth-gpu/berth/internal/history/past"
	kept "github.com/berth-gpu/berth/internal/history/series"
)

// series writes series into a store as the daemon does, for some minutes of every second,
// and asks for a graph of all of them.
func series(ctx context.Context, g *ground) ([]curve, error) {
	curves := []curve{{name: "a second is written", kind: whole}, {name: "a graph of the sum of all, 100 points", kind: whole}, {name: "a graph of one of them, 100 points", kind: call}}
	for _, n := range g.sizes() {
		costs, err := store(ctx, n)
		if err != nil {
			return nil, err
		}
		for i, cost := range costs {
			curves[i].points = append(curves[i].points, point{float64(n), cost})
		}
	}
	return curves, nil
}

// seconds is how much time is written.
const seconds = 300

// store measures a store with n series: a second that is written, a graph of all and a graph
// of one.
func store(ctx context.Context, n int) ([3]time.Duration, error) {
	var costs [3]time.Duration
	dir, err := os.MkdirTemp("", "growth")
	if err != nil {
		return costs, err
	}
	defer os.RemoveAll(dir)
	p, err := past.Open(dir, past.Options{Settings: past.Settings{Recent: 48 * time.Hour, Long: 90 * 24 * time.Hour, Size: 4096}})
	if err != nil {
		return costs, err
	}
	defer p.Close()
	list := make([]kept.Sample, n)
	for i := range list {
		list[i] = kept.Sample{Labels: labels.FromStrings(labels.MetricName, "growth", "number", fmt.Sprint(i)), Kind: kept.Gauge}
	}
	begin := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	before := used()
	for second := range seconds {
		for i := range list {
			list[i].Value = float64((second*31 + i*17) % 100)
		}
		if err := p.Write(begin.Add(time.Duration(second)*time.Second), list); err != nil {
			return costs, err
		}
	}
	costs[0] = (used() - before) / seconds
	engine := promql.NewEngine(promql.EngineOpts{MaxSamples: 50_000_000, Timeout: time.Minute, Parser: parser.NewParser(parser.Options{})})
	for i, graph := range []struct {
		expr  string
		times int
	}{{"sum(growth)", max(5, 1000/n)}, {`growth{number="0"}`, 1000}} {
		before := used()
		for range graph.times {
			q, err := engine.NewRangeQuery(ctx, p.Queryable(), nil, graph.expr, begin, begin.Add(seconds*time.Second), seconds*time.Second/100)
			if err != nil {
				return costs, err
			}
			answer := q.Exec(ctx)
			q.Close()
			if answer.Err != nil {
				return costs, answer.Err
			}
		}
		costs[1+i] = (used() - before) / time.Duration(graph.times)
	}
	return costs, nil
}

// used returns the processor time of this process.
func used() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
