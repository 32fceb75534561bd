package kin

import (
	"testing"
)

func id(pid int) ID { return ID{PID: pid, Start: uint64(pid)} }

func line(pids ...int) []ID {
	var all []ID
	for _, pid := range pids {
		all = append(all, id(pid))
	}
	return all
}

// register has one lease: of user 7, called a, with fence 5, held by process 10.
// Process 20 holds something too.
func register() Register {
	a := Lease{ID: "a", Fence: 5, UID: 7, Holder: id(10)}
	return Register{
		Holds: func(p ID) bool { return p == a.Holder || p == id(20) },
		Lease: func(name string) (Lease, bool) { return a, name == a.ID },
	}
}

func TestOwner(t *testing.T) {
	good := Claim{"a", 5, 7}
	for name, test := range map[string]struct {
		process Process
		want    Tie // zero: none
	}{
		"the holder itself":         {Process{Line: line(10, 2)}, Tie{id(10), Descent}},
		"a descendant":              {Process{Line: line(30, 11, 10, 2)}, Tie{id(10), Descent}},
		"the nearest of several":    {Process{Line: line(30, 20, 10)}, Tie{id(20), Descent}},
		"a recycled pid":            {Process{Line: []ID{id(30), {PID: 10, Start: 999}}}, Tie{}},
		"a stranger":                {Process{Line: line(30, 2)}, Tie{}},
		"a claim":                   {Process{Line: line(30, 2), Claim: good}, Tie{id(10), Environment}},
		"descent before a claim":    {Process{Line: line(30, 20), Claim: good}, Tie{id(20), Descent}},
		"both say the same":         {Process{Line: line(30, 10), Claim: good}, Tie{id(10), Descent}},
		"a claim with an old fence": {Process{Line: line(30), Claim: Claim{"a", 4, 7}}, Tie{}},
		"a claim of another user":   {Process{Line: line(30), Claim: Claim{"a", 5, 8}}, Tie{}},
		"a claim to nothing":        {Process{Line: line(30), Claim: Claim{"b", 5, 7}}, Tie{}},
	} {
		if got, found := register().Owner(test.process); got != test.want || found != (test.want != Tie{}) {
			t.Errorf("%s: %v, %v; want %v", name, got, found, test.want)
		}
	}
}

func TestUnder(t *testing.T) {
	good := Claim{"a", 5, 7}
	for name, test := range map[string]struct {
		process     Process
		under, tied bool // to process 10
	}{
		"the holder itself":             {Process{Line: line(10)}, false, true},
		"a child":                       {Process{Line: line(30, 10)}, true, true},
		"a child with its own lease":    {Process{Line: line(20, 10)}, false, true},
		"a child of a nearer holder":    {Process{Line: line(30, 20, 10)}, false, true},
		"a child below a former holder": {Process{Line: line(30, 10, 20)}, true, true},
		"a claim":                       {Process{Line: line(30), Claim: good}, true, true},
		"a claim, and a nearer holder":  {Process{Line: line(30, 20), Claim: good}, false, true},
		"a stranger":                    {Process{Line: line(30)}, false, false},
	} {
		r := register()
		if got := r.Under(test.process, id(10)); got != test.under {
			t.Errorf("%s: Under = %v", name, got)
		}
		if got := r.Tied(test.process, id(10)); got != test.tied {
			t.Errorf("%s: Tied = %v", name, got)
		}
	}
}

// A process concerns the lease that it claims also when that has just ended.
func TestConcerns(t *testing.T) {
	ended := Lease{ID: "gone", Fence: 3, UID: 7, Holder: id(40)}
	for name, test := range map[string]struct {
		process Process
		want    bool
	}{
		"a descendant":  {Process{Line: line(30, 40)}, true},
		"a claim":       {Process{Line: line(30), Claim: Claim{"gone", 3, 7}}, true},
		"a wrong claim": {Process{Line: line(30), Claim: Claim{"gone", 2, 7}}, false},
		"a stranger":    {Process{Line: line(30)}, false},
	} {
		if got := register().Concerns(test.process, ended); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (Claim{}).names(Lease{}) {
		t.Error("no claim names a lease without a name")
	}
}

func TestParseClaim(t *testing.T) {
	if got := ParseClaim("a", "5", 7); got != (Claim{"a", 5, 7}) {
		t.Errorf("ParseClaim = %v", got)
	}
	for _, bad := range [][2]string{{"", "5"}, {"a", ""}, {"a", "x"}, {"a", "-1"}} {
		if got := ParseClaim(bad[0], bad[1], 7); got != (Claim{}) {
			t.Errorf("ParseClaim(%q, %q) = %v", bad[0], bad[1], got)
		}
	}
}
