package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"github.com/berth-gpu/berth/gpu"
)

// words sends control characters, line ends and long texts wherever a warning may
// repeat them. They must not appear in events, in the log or on the metrics
// page.
func words(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{guests: true, config: "gpu: {monitor_interval: 0.2, max_pipelines: 100}"})
	if err != nil {
		return v, err
	}
	for _, name := range []string{"\x1b[31mred\x07", "two\nlines"} {
		process, err := a.act(ctx, attacker, 0, "idle", name, nil)
		if err != nil {
			return v, err
		}
		if err := d.guest("SIM-h200-0", process.pid(), attacker, 1000); err != nil {
			return v, err
		}
		if _, err := a.calls(ctx, attacker, d.socket, call{Method: "POST", Path: "/api/leases", Body: fmt.Sprintf(`{"id":"comm-%d","memory_mb":10,"slots":0,"ttl_seconds":1,"pid":%d}`, process.pid(), process.pid())}); err != nil {
			return v, err
		}
	}
	dirty := "\x1b]0;owned\x07\nlevel=ERROR msg=\"a line of the attacker's\"\r\u202e\u2066\u0000 " + strings.Repeat("w", 3000)
	short := "\x1b[31mred\x07\nline\r\u202e\u2066"
	huge := "\x1b[2J\n" + strings.Repeat("h", 100_000)
	for i, door := range d.doors() {
		var asked []call
		for j, plain := range []string{short, dirty, huge} {
			text := quoted(plain)
			id := fmt.Sprintf("w-%d-%d", i, j)
			batch := func(id, output, failure string) call {
				return call{Method: "PUT", Path: "/api/batches/" + id, Body: batchBody(id, "failed", output, failure)}
			}
			asked = append(asked, batch(id, "o", plain), batch(id+"o", plain, "e"),
				call{Method: "PUT", Path: "/api/batches/%1b%5b31m" + id, Body: batchBody("\x1b[31m"+id, "failed", "o", "e")},
				call{Method: "POST", Path: "/api/plans", Body: fmt.Sprintf(`{"name":%s,"pipelines":[{"name":"p","steps":[{"name":"s","input":"numpy","output":"numpy"}]}]}`, text)},
				call{Method: "POST", Path: "/api/plans", Body: fmt.Sprintf(`{"name":"p","pipelines":[{"name":%s,"steps":[{"name":%[1]s,"input":"numpy","output":"numpy"}]}]}`, text)},
				call{Method: "POST", Path: "/api/plans/run", Body: fmt.Sprintf(`{"plan":{"pipelines":[{"name":%s,"slots":0,"memory_mb":1,"runs":[{"name":%[1]s,"gpu":%[1]s}]}]},"id":%q,"pid":$PID}`, text, id)},
				call{Method: "POST", Path: "/api/plans/run", Body: fmt.Sprintf(`{"plan":{"pipelines":[{"name":"p","slots":0,"memory_mb":1,"runs":[{"name":"r","gpu":%s}]}]},"id":"%s-gpu","pid":$PID}`, text, id)},
				call{Method: "POST", Path: "/api/leases", Body: fmt.Sprintf(`{"name":%s,"service":%[1]s,"memory_mb":1,"slots":0,"ttl_seconds":1}`, text)},
				call{Method: "POST", Path: "/api/measurements", Body: fmt.Sprintf(`{"name":%s,"step":%[1]s,"memory_mb":1,"seconds":1}`, text)},
			)
		}
		if _, err := a.calls(ctx, attacker, door, asked...); err != nil {
			return v, err
		}
	}
	time.Sleep(1500 * time.Millisecond) // until leases expire, and the daemon samples strangers
	return v, lookForDirt(ctx, d, &v)
}

func lookForDirt(ctx context.Context, d *daemon, v *verdict) error {
	all, longest, err := d.events(ctx)
	if err != nil {
		return err
	}
	if longest > eventLimit {
		v.gain("an event of %s", bytesOf(longest))
	}
	seen := map[gpu.EventCode]bool{}
	for _, e := range all {
		data, err := json.Marshal(e.Data)
		if err != nil {
			return err
		}
		if where := dirtIn(e.Text + e.Lease + e.GPU + e.User); where != "" && !seen[e.Code] {
			seen[e.Code] = true
			v.gain("the words of an event %s have %s: %q", e.Code, where, cut(e.Text, 80))
		}
		if where := dirtInJSON(string(data)); where != "" && !seen[e.Code+"/data"] {
			seen[e.Code+"/data"] = true
			v.gain("the data of an event %s have %s", e.Code, where)
		}
	}
	if strings.ContainsAny(d.logText(), "\x1b\x07\r") || strings.Contains(d.logText(), "\nlevel=ERROR msg=\"a line") {
		v.gain("the log has control characters, or a line of the attacker's")
	}
	for _, path := range []string{"/metrics", "/api/batches", "/api/measurements", "/api/leases", "/api/orphans", "/api/gpu/status/all"} {
		var page string
		if err := d.root(ctx, "GET", path, "", &page); err != nil {
			return err
		}
		if where := dirtInJSON(strings.ReplaceAll(page, "\n", "")); where != "" {
			v.gain("%s has %s", path, where)
		}
	}
	return nil
}

// quoted returns a text as JSON.
func quoted(text string) string {
	b, err := json.Marshal(text)
	if err != nil {
		panic(err) // cannot happen: it is a string
	}
	return string(b)
}

// dirtIn returns the first character that a terminal or a log must not get.
func dirtIn(text string) string {
	for _, c := range text {
		if unicode.IsControl(c) || unicode.Is(unicode.Bidi_Control, c) {
			return fmt.Sprintf("%U", c)
		}
	}
	return ""
}

// dirtInJSON is dirtIn for a text in which such characters are escaped.
func dirtInJSON(text string) string {
	for _, escape := range []string{`\u001b`, `\u0007`, `\n`, `\r`, `\u0000`, `\u202e`, "\u202e", "\u2066"} {
		if strings.Contains(text, escape) {
			return fmt.Sprintf("%+q", escape)
		}
	}
	return dirtIn(text)
}
