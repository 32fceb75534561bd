package quota

import (
	"errors"
	"reflect"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/when/later"
)

func alice() lease.Holder {
	return lease.Holder{User: "alice", UID: 1000, PID: 42, Start: 7, Boot: "b1"}
}

func TestAdmit(t *testing.T) {
	render := Service{Name: "render", MinMemory: 20, MaxMemory: 60, Priority: 3, Quota: lease.Usage{Memory: 100, Slots: 4}, Users: []string{"alice", "carol"}, Nameless: func(uid int) bool { return uid == 2000 }}
	base := lease.Request{ID: "a", Holder: alice(), GPUs: 1, Memory: 30, Slots: 1}
	cases := []struct {
		name  string
		edit  func(*lease.Request)
		used  lease.Usage
		err   error
		later bool
		text  string // of the error, or the note
	}{
		{"as it is", func(r *lease.Request) {}, lease.Usage{}, nil, false, ""},
		{"raised", func(r *lease.Request) { r.Memory = 5 }, lease.Usage{}, nil, false, "raised from 5 MiB to the service's minimum of 20 MiB"},
		{"raised from none", func(r *lease.Request) { r.Memory = 0 }, lease.Usage{}, nil, false, "raised from 0 MiB to the service's minimum of 20 MiB"},
		{"over the maximum", func(r *lease.Request) { r.Memory = 61 }, lease.Usage{}, ErrMaxMemory, false, "service render: 61 MiB is more than its max_memory_mb of 60 MiB"},
		{"at the maximum", func(r *lease.Request) { r.Memory = 60 }, lease.Usage{}, nil, false, ""},
		{"a stranger", func(r *lease.Request) { r.Holder.User = "mallory" }, lease.Usage{}, ErrUser, false, "service render: user mallory is not one of its users (alice, carol)"},
		{"one whose name is not known", func(r *lease.Request) { r.Holder.User = "1000" }, lease.Usage{}, ErrUnnamed, false, "service render: its users are alice, carol, and the user database has not said who user 1000 is"},
		{"one who has no name", func(r *lease.Request) { r.Holder.User, r.Holder.UID = "2000", 2000 }, lease.Usage{}, ErrUser, false, "service render: user 2000 is not one of its users (alice, carol)"},
		{"modest", func(r *lease.Request) { r.Priority = -2 }, lease.Usage{}, nil, false, ""},
		{"pushing", func(r *lease.Request) { r.Priority = 9 }, lease.Usage{}, nil, false, "priority lowered from 9 to the service's 3"},
		{"raised and pushing", func(r *lease.Request) { r.Memory, r.Priority = 5, 9 }, lease.Usage{}, nil, false, "raised from 5 MiB to the service's minimum of 20 MiB; priority lowered from 9 to the service's 3"},
		{"exactly the quota", func(r *lease.Request) {}, lease.Usage{Memory: 70, Slots: 3}, nil, false, ""},
		{"memory quota in use", func(r *lease.Request) {}, lease.Usage{Memory: 71, Slots: 0}, ErrQuota, true, "service render: 71 MiB of its quota of 100 MiB are in use, and the request is for 30 MiB"},
		{"slot quota in use", func(r *lease.Request) {}, lease.Usage{Memory: 0, Slots: 4}, ErrQuota, true, "service render: 4 of its quota of 4 slots are in use, and the request is for 1"},
		{"more than the quota", func(r *lease.Request) { r.GPUs = 4 }, lease.Usage{}, ErrQuota, false, "service render: 120 MiB is more than its whole quota of 100 MiB"},
		{"more slots than the quota", func(r *lease.Request) { r.Slots = 5 }, lease.Usage{}, ErrQuota, false, "service render: 5 slots are more than its whole quota of 4"},
		{"the whole quota", func(r *lease.Request) { r.GPUs, r.Memory, r.Slots = 2, 50, 2 }, lease.Usage{}, nil, false, ""},
		{"over the quota once raised", func(r *lease.Request) { r.Memory = 1 }, lease.Usage{Memory: 90, Slots: 0}, ErrQuota, true, "service render: 90 MiB of its quota of 100 MiB are in use, and the request is for 20 MiB"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			r := base
			c.edit(&r)
			if r.Priority != 0 {
				r.AskedPriority = gpu.Some(r.Priority)
			}
			got, err := Admit(render, r, c.used)
			if !errors.Is(err, c.err) {
				t.Fatalf("%v, want %v", err, c.err)
			}
			if passes := later.Passes(err); passes != errors.Is(err, ErrUnnamed) {
				t.Errorf("it passes: %v", passes)
			}
			text := got.Note
			if refusal := (*AdmitError)(nil); errors.As(err, &refusal) {
				text = err.Error()
				if refusal.Later != c.later {
					t.Errorf("later is %v", refusal.Later)
				}
			}
			if text != c.text {
				t.Errorf("it says %q, want %q", text, c.text)
			}
		})
	}
	if got, _ := Admit(render, base, lease.Usage{}); got.Priority != 3 || got.Raised || got.Least != 20 {
		t.Errorf("priority %d, raised %v, at least %v", got.Priority, got.Raised, got.Least)
	}
	if got, err := Admit(Service{}, base, lease.Usage{Memory: 1 << 40, Slots: 99}); err != nil || !reflect.DeepEqual(got, base) {
		t.Errorf("without settings: %+v, %v", got, err)
	}
}

func TestPriority(t *testing.T) {
	for _, test := range []struct {
		service int
		asked   gpu.Opt[int]
		want    int
		note    string
	}{
		{10, gpu.Opt[int]{}, 10, ""},
		{10, gpu.Some(0), 0, ""},
		{-5, gpu.Opt[int]{}, -5, ""},
		{-5, gpu.Some(0), -5, "priority lowered from 0 to the service's -5"},
	} {
		got, err := Admit(Service{Priority: test.service}, lease.Request{AskedPriority: test.asked}, lease.Usage{})
		if err != nil || got.Priority != test.want || got.Note != test.note {
			t.Errorf("asked for %v of %d: got %d, %q, %v", test.asked, test.service, got.Priority, got.Note, err)
		}
	}
	if got := WithoutPrecedence(lease.Request{Priority: 7}); got.Priority != 0 || got.Note == "" {
		t.Errorf("without precedence: %+v", got)
	}
	for _, low := range []int{0, -7} {
		if got := WithoutPrecedence(lease.Request{Priority: low}); got.Priority != low || got.Note != "" {
			t.Errorf("without precedence: %+v", got)
		}
	}
}

// What is admitted is within all the settings, and admitting it again changes
// nothing.
func TestAdmittedIsWithinSettings(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		low, high, quota := drawUsage(t, "min", 4, 4), drawUsage(t, "max", 9, 4), drawUsage(t, "quota", 30, 9)
		s := Service{MinMemory: low.Memory, MaxMemory: high.Memory + low.Memory, Priority: low.Slots, Quota: quota}
		asked, used := drawUsage(t, "asked", 12, 3), drawUsage(t, "used", 20, 6)
		r, err := Admit(s, lease.Request{GPUs: rapid.IntRange(1, 3).Draw(t, "gpus"), Memory: asked.Memory, Slots: asked.Slots}, used)
		if err != nil {
			return
		}
		sum := lease.Usage{Memory: used.Memory + r.Total().Memory, Slots: used.Slots + r.Total().Slots}
		if r.Memory < s.MinMemory || s.MaxMemory > 0 && r.Memory > s.MaxMemory || r.Priority > s.Priority ||
			s.Quota.Memory > 0 && sum.Memory > s.Quota.Memory || s.Quota.Slots > 0 && sum.Slots > s.Quota.Slots {
			t.Fatalf("admitted %+v under %+v with %+v in use", r, s, used)
		}
		if r.Raised != (r.Memory != asked.Memory) {
			t.Fatalf("raised is %v", r.Raised)
		}
		r.AskedPriority = gpu.Some(r.Priority)
		if again, err := Admit(s, r, used); err != nil || !reflect.DeepEqual(again, r) {
			t.Fatalf("admitted %+v and then %+v, %v", r, again, err)
		}
	})
}

func drawUsage(t *rapid.T, name string, memory, slots int) lease.Usage {
	return lease.Usage{Memory: gpu.MiB(rapid.IntRange(0, memory).Draw(t, name)), Slots: rapid.IntRange(0, slots).Draw(t, name)}
}

// That berth may park the leases of a service is nothing to its pools, which it cannot park.
func TestPoolsOfAParkableService(t *testing.T) {
	s := Service{Name: "render", Parkable: gpu.Some(true)}
	for pool, want := range map[bool]bool{true: false, false: true} {
		r, err := Admit(s, lease.Request{Memory: 1, Terms: lease.Terms{Pool: pool}}, lease.Usage{})
		if err != nil || r.Parkable != want {
			t.Errorf("a pool is %v: parkable is %v, %v", pool, r.Parkable, err)
		}
	}
}
