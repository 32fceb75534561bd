package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/berth-gpu/berth/api"
)

// expansions sends bodies that are short and expand to gigabytes: a job whose parameters make
// its commands long, plans with millions of empty pipelines or libraries, and bodies in which
// everything is wrong. No answer may be much longer than what was asked.
func expansions(ctx context.Context, a *arena) (v verdict, err error) {
	d, err := a.serve(ctx, setup{})
	if err != nil {
		return v, err
	}
	post := func(path, body string) call { return call{Method: "POST", Path: path, Body: body} }
	list := func(begin, each string, size int, end string) string {
		return begin + strings.Repeat(each+",", size/(len(each)+1)) + each + end
	}
	numbered := func(begin string, each func(int) string, n int, end string) string {
		fields := make([]string, n)
		for i := range fields {
			fields[i] = each(i)
		}
		return begin + strings.Join(fields, ",") + end
	}
	const mega = 1 << 20
	bodies := []struct {
		what string
		call call
	}{
		{"a plan to run with millions of pipelines", post("/api/plans/run", list(`{"id":"x","plan":{"pipelines":[`, `{}`, 7*mega, `]}}`))},
		{"a plan with a million libraries", post("/api/plans", numbered(`{"name":"p","libraries":{`, func(n int) string { return fmt.Sprintf(`"%d":{}`, n) }, 600_000, `},"pipelines":[]}`))},
		{"a lease with 350,000 wrong parts", post("/api/leases", list(`{"parts":[`, `{}`, mega-100, `]}`))},
		{"a lease with 500,000 wrong scopes", post("/api/leases", list(`{"scope":[`, `1`, mega-100, `]}`))},
		{"a lease with 80,000 unknown fields", post("/api/leases", numbered(`{`, func(n int) string { return fmt.Sprintf(`"x%d":1`, n) }, 80_000, `}`))},
	}
	played := 0
	try := func(what string, calls ...call) error {
		got, err := a.calls(ctx, attacker, d.socket, calls...)
		if err != nil {
			return err
		}
		for i, each := range got {
			if len(each.Body) > len(calls[i].Body)+mega {
				v.gain("%s: %s were answered with %s", what, bytesOf(len(calls[i].Body)), bytesOf(len(each.Body)))
			}
		}
		before := len(v.gained)
		if !runs(d.pid()) {
			v.gain("%s: the daemon has ended", what)
		} else if err := d.small(&v, what+": the daemon"); err != nil {
			return err
		}
		played++
		if len(v.gained) > before { // the next one is measured alone
			d.kill()
			d, err = a.serve(ctx, setup{})
		}
		return err
	}
	for _, each := range bodies {
		if err := try(each.what, each.call); err != nil {
			return v, err
		}
	}
	// The job expands to 4 MB for each word of its template, if it is taken.
	words := a.size(5_000, 20_000)
	job := post("/api/jobs", fmt.Sprintf(`{"command":["/bin/echo",%q],"hold":true,"directory":"/","params":[{"name":"a","values":[%s]}]}`,
		strings.Repeat("{a}", words), numbered("", func(n int) string { return fmt.Sprintf(`"%02d%s"`, n, strings.Repeat("x", 4000)) }, 32, "")))
	got, err := a.calls(ctx, attacker, d.socket, job)
	if err != nil {
		return v, err
	}
	show := call{Method: "GET", Path: "/api/jobs"}
	var j api.Job
	if json.Unmarshal([]byte(got[0].Body), &j) == nil && j.ID != "" {
		show.Path += "/" + j.ID
	}
	if err := try(fmt.Sprintf("a job of %s", bytesOf(len(job.Body))), job, show); err != nil {
		return v, err
	}
	quiet, err := d.besideLoad(ctx, 2)
	if err != nil {
		return v, err
	}
	calls := []call{job, show}
	for _, each := range bodies {
		calls = append(calls, each.call)
	}
	loud, err := d.besideCalls(ctx, 2, calls...)
	if err != nil {
		return v, err
	}
	v.noting("%d bodies", played)
	return v, d.survives(&v, "bodies that expand", quiet, loud)
}
