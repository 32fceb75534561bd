package kinship

import "testing"

func TestPast(t *testing.T) {
	var past Past
	if got := past.LeaseOf(from(Origin{"a", 1, 7}, line(1))); got != "" {
		t.Errorf("an empty past knows %q", got)
	}
	past.Note(Lease{ID: "first", Fence: 1, UID: 7, Holder: id(10)}, 50)
	past.Note(Lease{ID: "a", Fence: 2, UID: 7, Holder: id(10)}, 100)
	for name, test := range map[string]struct {
		process Process
		want    string
	}{
		"the holder":                    {Process{Ancestry: line(10)}, "a"},
		"a descendant":                  {Process{Ancestry: line(30, 20, 10)}, "a"},
		"a late descendant":             {Process{Ancestry: line(100, 10)}, ""},
		"an origin":                     {from(Origin{"a", 2, 7}, line(30)), "a"},
		"a late origin":                 {from(Origin{"a", 2, 7}, line(200)), ""},
		"an origin of another user":     {from(Origin{"a", 2, 8}, line(30)), ""},
		"an origin nobody remembers":    {from(Origin{"b", 2, 7}, line(30)), ""},
		"an origin to an earlier lease": {from(Origin{"first", 1, 7}, line(30)), ""},
		"another process with the pid":  {Process{Ancestry: []ID{{PID: 10, Start: 11}}}, ""},
	} {
		if got := past.LeaseOf(test.process); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	past.Note(Lease{ID: "named", Fence: 3, UID: 7}, 100)
	past.Note(Lease{ID: "other", Fence: 4, UID: 7}, 100)
	for _, name := range []string{"named", "other"} { // leases without a holder
		fence := map[string]uint64{"named": 3, "other": 4}[name]
		if got := past.LeaseOf(from(Origin{name, fence, 7}, line(30))); got != name {
			t.Errorf("the origin %s leads to %q", name, got)
		}
	}
	for n := range remembered {
		past.Note(Lease{ID: "b", Fence: uint64(n), Holder: ID{PID: 1000 + n}}, 100)
	}
	if got := past.LeaseOf(Process{Ancestry: line(10)}); got != "" || len(past.ended) != remembered || len(past.origins) != remembered || len(past.order) != remembered {
		t.Errorf("after many: %q, and %d processes are remembered", got, len(past.ended))
	}
}
