package desk

import (
	"context"
	"errors"
	"os/user"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/when/later"
)

// A run of a user whose groups nobody knows at present asks again: it neither ends nor gets a
// time limit by the limits of a group that its user may not be in.
func TestRunsWaitUntilTheirGroupsAreKnown(t *testing.T) {
	const students = 777
	bounded := quota.Group{Name: "students", Configured: quota.Configured{
		LongestWait: gpu.Some(time.Hour), LongestTime: gpu.Some(2 * time.Hour),
	}}
	together := quota.Group{Name: "students", Together: quota.Together{Leases: gpu.Some(1)}}
	type database func(string) (int, []int, error)
	in := func(groups ...int) database { return func(string) (int, []int, error) { return adaUID, groups, nil } }
	away := database(func(string) (int, []int, error) { return 0, nil, errors.New("no server answers") })
	gone := database(func(name string) (int, []int, error) { return 0, nil, user.UnknownUserError(name) })
	job, service := lease.Run{Kind: lease.OfJob, Number: 1}, lease.Run{Kind: lease.OfService, Number: 1}
	for _, c := range []struct {
		name    string
		of      lease.Run
		group   quota.Group
		groups  database
		full    bool
		want    string // passes, waited, or with what time limit it is granted
		granted float64
	}{
		{name: "a job that has waited longer than students may", of: job, group: bounded, groups: away, full: true, want: "passes"},
		{name: "which users share limits", of: job, group: together, groups: away, want: "passes"},
		{name: "a job without a time limit", of: job, group: bounded, groups: away, want: "passes"},
		{name: "a service", of: service, group: bounded, groups: away, want: "passes"},
		{name: "which a service shares limits with", of: service, group: together, groups: away, want: "passes"},
		{name: "the database names no groups", of: job, group: bounded, groups: in(), full: true, want: "passes"},
		{name: "no student", of: job, group: bounded, groups: in(adaUID), want: "granted"},
		{name: "a service of no student", of: service, group: bounded, groups: in(adaUID), want: "granted"},
		{name: "who shares no limits", of: job, group: together, groups: in(adaUID), want: "granted"},
		{name: "a student", of: job, group: bounded, groups: in(students), full: true, want: "waited"},
		{name: "a student whose turn comes", of: job, group: bounded, groups: in(students), want: "granted", granted: 2 * 3600},
		{name: "nobody has the name", of: job, group: bounded, full: true, groups: gone, want: "waits"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := open(t, "1")
			db := users.Database{Name: func(int) (string, error) { return "ada", nil }, Account: c.groups}
			var rules atomic.Pointer[quota.Rules]
			rules.Store(&quota.Rules{Groups: map[int]quota.Group{students: c.group}})
			o.parts.Users, o.parts.Limits = db.Names(time.Minute), &rules
			o.remake()
			if c.full {
				olga := local(t, olgaUID, "olga", access.Admin)
				all := api.LeaseRequest{ID: "all", AllMemory: true, Slots: gpu.Some(0), Binding: "named", Timeout: gpu.Some(0.0)}
				if _, err := o.Leases.Acquire(t.Context(), olga, all); err != nil {
					t.Fatal(err)
				}
			}
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			o.listen(func(e gpu.Event) {
				if e.Code == gpu.EventWaiting { // as long as olga holds the device
					leave()
				}
			})
			got, err := runLeases{o.Leases}.Acquire(ctx, run.Ask{
				Key: lease.Key{Owner: lease.Owner{UID: adaUID}, ID: "train-1", Run: c.of}, User: "ada", Name: "train",
				Since: time.Now().Add(-3 * time.Hour), Request: api.LeaseRequest{ID: "train-1", GPUs: 1, Memory: 3000},
			})
			is := "waits"
			switch {
			case err == nil:
				is = "granted"
			case errors.Is(err, run.ErrWaited):
				is = "waited"
			case later.Passes(err):
				is = "passes"
			case codeOf(err) != "withdrawn":
				t.Error(codeOf(err), err)
			}
			if is != c.want || got.TimeLimit != c.granted {
				t.Errorf("%s with a time limit of %v s (%v); want %s with %v s", is, got.TimeLimit, err, c.want, c.granted)
			}
		})
	}
}
