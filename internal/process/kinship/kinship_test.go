package kinship

import (
	"reflect"
	"slices"
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

// from is a process with an origin, given with its ancestors.
func from(c Origin, line []ID) Process { return Process{line, Facts{Origin: c}} }

// register has one lease: of user 7, called a, with fence 5, held by process 10.
// Process 20 holds something too.
func register() Register {
	a := Lease{ID: "a", Fence: 5, UID: 7, Holder: id(10)}
	return Register{
		Holds: func(p ID) bool { return p == a.Holder || p == id(20) },
		Lease: func(c Origin) (Lease, bool) { return a, c.Lease == a.ID },
		Here:  ListLeases([]Lease{a}),
	}
}

func TestOwner(t *testing.T) {
	good := Origin{"a", 5, 7}
	for name, test := range map[string]struct {
		process Process
		want    Tie // zero: none
	}{
		"the holder itself":           {Process{Ancestry: line(10, 2)}, Tie{By: Descent, Holder: id(10)}},
		"a descendant":                {Process{Ancestry: line(30, 11, 10, 2)}, Tie{By: Descent, Holder: id(10)}},
		"the nearest of several":      {Process{Ancestry: line(30, 20, 10)}, Tie{By: Descent, Holder: id(20)}},
		"a recycled pid":              {Process{Ancestry: []ID{id(30), {PID: 10, Start: 999}}}, Tie{}},
		"a stranger":                  {Process{Ancestry: line(30, 2)}, Tie{}},
		"an origin":                   {from(good, line(30, 2)), Tie{By: Environment, Leases: []uint64{5}}},
		"descent before an origin":    {from(good, line(30, 20)), Tie{By: Descent, Holder: id(20)}},
		"both say the same":           {from(good, line(30, 10)), Tie{By: Descent, Holder: id(10)}},
		"an origin with an old fence": {from(Origin{"a", 4, 7}, line(30)), Tie{}},
		"an origin of another user":   {from(Origin{"a", 5, 8}, line(30)), Tie{}},
		"an origin to nothing":        {from(Origin{"b", 5, 7}, line(30)), Tie{}},
	} {
		if got, found := register().Owner(test.process); !reflect.DeepEqual(got, test.want) || found != (test.want.By != "") {
			t.Errorf("%s: %v, %v; want %v", name, got, found, test.want)
		}
	}
}

// An origin leads to the other leases of the holder where the one that it names is not.
func TestOwnerByTheHolderOfAnOrigin(t *testing.T) {
	r := register()
	r.Here = Leases{}
	if got, found := r.Owner(from(Origin{"a", 5, 7}, line(30))); !found || !reflect.DeepEqual(got, Tie{By: Environment, Holder: id(10)}) {
		t.Errorf("it belongs to %v, %v", got, found)
	}
	r.Lease = func(Origin) (Lease, bool) { return Lease{ID: "a", Fence: 5, UID: 7}, true } // whose holder is of an earlier boot
	if got, found := r.Owner(from(Origin{"a", 5, 7}, line(30))); found {
		t.Errorf("it belongs to %v", got)
	}
}

func TestAbove(t *testing.T) {
	good := Origin{"a", 5, 7}
	for name, test := range map[string]struct {
		process     Process
		under, tied bool // to process 10
	}{
		"the holder itself":              {Process{Ancestry: line(10)}, false, true},
		"a child":                        {Process{Ancestry: line(30, 10)}, true, true},
		"a child with its own lease":     {Process{Ancestry: line(20, 10)}, false, true},
		"a child of a nearer holder":     {Process{Ancestry: line(30, 20, 10)}, false, true},
		"a child below a former holder":  {Process{Ancestry: line(30, 10, 20)}, true, true},
		"an origin":                      {from(good, line(30)), true, true},
		"an origin, and a nearer holder": {from(good, line(30, 20)), false, true},
		"a stranger":                     {Process{Ancestry: line(30)}, false, false},
	} {
		r := register()
		if got := slices.Contains(slices.Collect(r.Above(test.process)), id(10)); got != test.under {
			t.Errorf("%s: it is under process 10: %v", name, got)
		}
		if got := r.Tied(test.process, id(10)); got != test.tied {
			t.Errorf("%s: Tied = %v", name, got)
		}
	}
}

// A process concerns the lease that it was started under also when that has just ended.
func TestConcerns(t *testing.T) {
	ended := Lease{ID: "gone", Fence: 3, UID: 7, Holder: id(40)}
	for name, test := range map[string]struct {
		process Process
		want    bool
	}{
		"a descendant":   {Process{Ancestry: line(30, 40)}, true},
		"an origin":      {from(Origin{"gone", 3, 7}, line(30)), true},
		"a wrong origin": {from(Origin{"gone", 2, 7}, line(30)), false},
		"a stranger":     {Process{Ancestry: line(30)}, false},
	} {
		if got := register().Concerns(test.process, ended); got != test.want {
			t.Errorf("%s: %v", name, got)
		}
	}
	if (Origin{}).names(Lease{}) {
		t.Error("no origin names a lease without a name")
	}
}

func TestParseOrigin(t *testing.T) {
	if got := ParseOrigin("a", "5", 7); got != (Origin{"a", 5, 7}) {
		t.Errorf("ParseOrigin = %v", got)
	}
	for _, bad := range [][2]string{{"", "5"}, {"a", ""}, {"a", "x"}, {"a", "-1"}} {
		if got := ParseOrigin(bad[0], bad[1], 7); got != (Origin{}) {
			t.Errorf("ParseOrigin(%q, %q) = %v", bad[0], bad[1], got)
		}
	}
}
