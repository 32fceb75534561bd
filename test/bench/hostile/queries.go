package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"
)

// instantQuery is a query about this moment.
func instantQuery(expr string) call {
	return call{Method: "GET", Path: "/api/v1/query?query=" + url.QueryEscape(expr)}
}

// rangeQuery is a query about a number of seconds up to now, one after the other.
func rangeQuery(expr string, seconds int) call {
	now := time.Now().Unix()
	return call{Method: "GET", Path: fmt.Sprintf("/api/v1/query_range?start=%d&end=%d&step=1&query=%s", now-int64(seconds), now, url.QueryEscape(expr))}
}

// labelBomb makes a label of ten bytes ten times as long again and again, and then
// many times as long at once.
func labelBomb(levels, last int) string {
	expr := `label_replace(vector(1),"a","xxxxxxxxxx","","")`
	for range levels {
		expr = fmt.Sprintf(`label_replace(%s,"a","%s","a","(.*)")`, expr, strings.Repeat("${1}", 10))
	}
	return fmt.Sprintf(`label_replace(%s,"a","%s","a","(.*)")`, expr, strings.Repeat("${1}", last))
}

// endless is a query of 80 bytes that took minutes, whatever its caller did.
const endless = `sum_over_time(sum_over_time(sum_over_time(vector(1)[1d:1s])[1d:1s])[1d:1s])`

// slow is a query that is within the limits and takes seconds.
func slow() call {
	term := `sum_over_time(vector(1)[1h:1s])`
	return rangeQuery(term+strings.Repeat(" + "+term, 40), 10_000)
}

// worst are the largest queries that are within the limits, or just beyond them:
// of time, of memory, and of what an answer has.
func worst() []call {
	return []call{
		slow(),
		rangeQuery(`{__name__=~".+"} and on() vector(1)`, 2000),
		rangeQuery(`({__name__=~".+"} > 0) or ({__name__=~".+"} < 1)`, 600),
		rangeQuery(`count_values("v", vector(time()))`, 900),
		rangeQuery(`quantile_over_time(0.5, {__name__=~"gpu_.+"}[10m])`, 1800),
		instantQuery(labelBomb(3, 10)),
		instantQuery(`label_replace({__name__=~".+"}, "x", "` + strings.Repeat("$1", 50) + `", "__name__", "(.*)")`),
		instantQuery(`{__name__=~".+"}[10m]`),
		instantQuery(`max_over_time(max_over_time(sum({__name__=~"(.*a.*)*_.+"})[2m:1s])[30m:1s])`),
		instantQuery(labelBomb(6, 100)),
		instantQuery(endless),
	}
}

// expensive asks for more than the daemon has, stops alerts and the past, and keeps
// the own requests waiting.
func expensive(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{config: "gpu: {max_pipelines: 1000}"})
	if err != nil {
		return v, err
	}
	hungUp, err := a.act(ctx, attacker, 0, "asking", askQueries{Door: d.socket, Calls: []call{instantQuery(endless)}}, nil)
	if err != nil {
		return v, err
	}
	pause(ctx, time.Second)
	hungUp.stop() // and the query went on
	before, err := d.stored(ctx)
	if err != nil {
		return v, err
	}
	if !eventually(30*time.Second, func() bool { now, err := d.stored(ctx); return err == nil && now > before }) {
		v.gain("nothing is stored in the past any more")
	}
	asked, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	if err := d.root(asked, "GET", "/api/v1/query?query=up", "", nil); err != nil {
		v.gain("root's query is not answered: %v", err)
	}
	for _, refs := range []int{10, 100, 300} {
		got, err := a.calls(ctx, attacker, d.socket, instantQuery(labelBomb(6, refs)))
		if err != nil {
			return v, err
		}
		if got[0].Status != http.StatusBadRequest {
			v.gain("a label of %s was built: status %d", bytesOf(10_000_000*refs), got[0].Status)
		}
	}
	var others []string
	if err := a.do(ctx, attacker, 0, "beside", d.socket, &others); err != nil {
		return v, err
	}
	for _, path := range others {
		v.gain("%s waits for a query of the same user", path)
	}
	if !runs(d.pid()) {
		v.gain("the daemon has ended")
		return v, nil
	}
	peak, err := d.peakMB()
	if err != nil {
		return v, err
	}
	if peak > memoryLimitMB {
		v.gain("the daemon took %d MB (the most is %d)", peak, memoryLimitMB)
	}
	took, err := a.endDuringQueries(ctx, d)
	if most := time.Duration(a.size(30, 5)) * time.Second; took > most {
		v.gain("SIGTERM took %v during queries (the most is %v)", took, most)
	}
	v.noting("%d MB, SIGTERM during queries took %v", peak, took.Round(10*time.Millisecond))
	return v, err
}

// stored returns how many samples the past has stored.
func (d *daemon) stored(ctx context.Context) (n float64, err error) {
	r, err := http.NewRequestWithContext(ctx, "GET", "http://localhost/metrics", nil)
	if err != nil {
		return 0, err
	}
	web := d.socket.client(20 * time.Second)
	defer web.CloseIdleConnections()
	answer, err := web.Do(r)
	if err != nil {
		return 0, err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		return 0, err
	}
	_, rest, _ := strings.Cut(string(text), "\nberth_past_samples_total ")
	_, err = fmt.Sscan(rest, &n)
	return n, err
}

// besideAQuery asks a slow query, and meanwhile for the leases and the metrics. It
// says what was not answered before the query was.
func besideAQuery(ctx context.Context, in json.RawMessage, say func(any)) error {
	var at door
	if err := json.Unmarshal(in, &at); err != nil {
		return err
	}
	web := at.client(time.Minute)
	answered := make(chan struct{})
	asking := make(chan struct{})
	go func() {
		defer close(answered)
		close(asking)
		_, _ = slow().make(ctx, at, web) // however it ends
	}()
	<-asking
	pause(ctx, 300*time.Millisecond) // the query runs
	late := []string{}
	for _, path := range []string{"/api/leases", "/metrics"} {
		if _, err := (call{Method: "GET", Path: path}).make(ctx, at, web); err != nil {
			return err
		}
		select {
		case <-answered:
			late = append(late, path)
		default:
		}
	}
	say(late)
	<-ctx.Done()
	return nil
}

// endDuringQueries ends the daemon with SIGTERM while slow queries run, and returns
// how long that took.
func (a *arena) endDuringQueries(ctx context.Context, d *daemon) (time.Duration, error) {
	for n := range 3 {
		one, err := a.act(ctx, attacker-10-n, 0, "asking", askQueries{Door: d.socket, Calls: []call{slow(), instantQuery(endless)}}, nil)
		if err != nil {
			return 0, err
		}
		defer one.stop()
	}
	began := time.Now()
	if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return 0, err
	}
	select {
	case <-d.exited:
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
	return time.Since(began), nil
}

// askQueries asks a process to repeat queries.
type askQueries struct {
	Door  door
	Calls []call
}

// askAgain repeats queries until it is ended.
func askAgain(ctx context.Context, in json.RawMessage, say func(any)) error {
	var asked askQueries
	if err := json.Unmarshal(in, &asked); err != nil {
		return err
	}
	web := asked.Door.client(30 * time.Second)
	go func() {
		for n := 0; ctx.Err() == nil; n++ {
			if _, err := asked.Calls[n%len(asked.Calls)].make(ctx, asked.Door, web); err != nil {
				pause(ctx, time.Millisecond)
			}
		}
	}()
	pause(ctx, 200*time.Millisecond) // the first is being answered
	say("asking")
	<-ctx.Done()
	return nil
}
