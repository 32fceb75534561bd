package kin

import (
	"testing"
	"time"
)

func TestPast(t *testing.T) {
	var past Past
	if got := past.LeaseOf(Process{Line: line(1), Claim: Claim{"a", 1, 7}}); got != "" {
		t.Errorf("an empty past knows %q", got)
	}
	past.Note(Lease{ID: "first", Fence: 1, UID: 7, Holder: id(10)}, 50)
	past.Note(Lease{ID: "a", Fence: 2, UID: 7, Holder: id(10)}, 100)
	for name, test := range map[string]struct {
		process Process
		want    string
	}{
		"the holder":                   {Process{Line: line(10)}, "a"},
		"a descendant":                 {Process{Line: line(30, 20, 10)}, "a"},
		"a late descendant":            {Process{Line: line(100, 10)}, ""},
		"a claim":                      {Process{Line: line(30), Claim: Claim{"a", 2, 7}}, "a"},
		"a late claim":                 {Process{Line: line(200), Claim: Claim{"a", 2, 7}}, ""},
		"a claim of another user":      {Process{Line: line(30), Claim: Claim{"a", 2, 8}}, ""},
		"a claim nobody remembers":     {Process{Line: line(30), Claim: Claim{"b", 2, 7}}, ""},
		"a claim to an earlier lease":  {Process{Line: line(30), Claim: Claim{"first", 1, 7}}, ""},
		"another process with the pid": {Process{Line: []ID{{PID: 10, Start: 11}}}, ""},
	} {
		if got := past.LeaseOf(test.process); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
	for n := range remembered {
		past.Note(Lease{ID: "b", Fence: uint64(n), Holder: ID{PID: 1000 + n}}, 100)
	}
	if got := past.LeaseOf(Process{Line: line(10)}); got != "" || len(past.ended) != remembered || len(past.order) != remembered {
		t.Errorf("after many: %q, and %d processes are remembered", got, len(past.ended))
	}
}

func TestMemory(t *testing.T) {
	var memory Memory
	now := time.Unix(1e9, 0)
	reads := 0
	read := func(p ID) Process { reads++; return Process{Line: []ID{p, id(reads)}} }
	first := memory.See(id(10), now, read)
	if again := memory.See(id(10), now.Add(time.Hour), read); reads != 1 || again.Line[1] != first.Line[1] {
		t.Errorf("it was read %d times, and is %v after %v", reads, again, first)
	}
	recycled := ID{PID: 10, Start: 999}
	if got := memory.See(recycled, now.Add(time.Hour), read); got.ID() != recycled || memory.Len() != 1 {
		t.Errorf("another process with the pid is %v, and %d are known", got, memory.Len())
	}
	memory.Weed(now.Add(time.Hour))
	memory.Weed(now.Add(time.Hour + forgetAfter - 1)) // too soon
	if memory.Len() != 1 {
		t.Error("it was forgotten too soon")
	}
	memory.Weed(now.Add(time.Hour + 2*forgetAfter))
	if memory.Len() != 0 {
		t.Error("it was not forgotten")
	}
}
