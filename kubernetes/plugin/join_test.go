package plugin

import (
	"fmt"
	"slices"
	"testing"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/cdi"
	"github.com/berth-gpu/berth/kubernetes/claim"
)

// podsFrom returns pods with the UIDs first, first+1 and so on.
func podsFrom(first, n int) (pods []claim.Pod) {
	for i := range n {
		pods = append(pods, claim.Pod{Name: "p", UID: fmt.Sprint(first + i)})
	}
	return pods
}

// A claim that lasts sees more pods than a lease has room for. Those that are gone make
// room, the oldest first, and none does that is still there.
func TestJoin(t *testing.T) {
	s := &state{Request: &api.LeaseRequest{}}
	for _, c := range []struct {
		pods        []claim.Pod
		added, left int
		first       string
	}{
		{podsFrom(0, 1), 1, 0, "pod0"},
		{podsFrom(0, claim.MaxScope), claim.MaxScope - 1, 0, "pod0"},
		{podsFrom(0, claim.MaxScope), 0, 0, "pod0"},
		{podsFrom(1, claim.MaxScope), 1, 1, "pod1"},
		{podsFrom(claim.MaxScope, 3), 2, 2, "pod3"},
		{append(podsFrom(3, 1), podsFrom(500, claim.MaxScope-1)...), claim.MaxScope - 1, claim.MaxScope - 1, "pod3"},
	} {
		added, left := s.join(c.pods)
		if len(added) != c.added || len(left) != c.left || s.Request.Scope[0] != c.first || len(s.Request.Scope) > claim.MaxScope || !slices.Equal(s.Pods, c.pods) {
			t.Errorf("%d pods from %s: %d added, %d left, %q", len(c.pods), c.pods[0].UID, len(added), len(left), s.Request.Scope)
		}
		for _, p := range c.pods {
			if !slices.Contains(s.Request.Scope, "pod"+p.UID) {
				t.Errorf("pod %s is missing", p.UID)
			}
		}
	}
}

// During a rollout, the other driver may unprepare a claim that this one remembers.
func TestForgetsWhatTheOtherDriverUnprepared(t *testing.T) {
	dir := t.TempDir()
	d, err := New(Options{Plugins: dir, CDI: cdi.Folder{Dirs: []string{dir}}})
	if err != nil {
		t.Fatal(err)
	}
	kept := &state{UID: "kept", Request: &api.LeaseRequest{}}
	if err := d.states.put(kept); err != nil {
		t.Fatal(err)
	}
	gone := &state{UID: "gone", Request: &api.LeaseRequest{}}
	d.learn(kept)
	d.learn(gone)
	d.teller.prepared(gone, api.Lease{ID: "gone"})
	if err := d.removeStrayFiles(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n, _ := d.Claims(); n != 1 || d.known["kept"] == nil || len(d.teller.reports) != 0 {
		t.Errorf("it remembers %d claims and %d reports", n, len(d.teller.reports))
	}
}

// Kubelet gets every result of a claim, and all of one GPU with the same names.
func TestDevicesOfManyResults(t *testing.T) {
	d := &Driver{}
	st := &state{UID: "u", Request: &api.LeaseRequest{}}
	for i, uuid := range []string{"SIM-0", "SIM-1", "SIM-0"} {
		st.Results = append(st.Results, result{Request: fmt.Sprint(i), Device: uuid, GPU: uuid})
	}
	if _, err := d.devices(st); err == nil {
		t.Error("devices that the daemon does not list")
	}
	for _, uuid := range []string{"SIM-0", "SIM-1"} {
		d.facts.Status = append(d.facts.Status, api.Status{Device: gpu.Device{UUID: uuid, Vendor: gpu.Simulated}})
	}
	all, err := d.devices(st)
	if err != nil || len(all) != 3 {
		t.Fatal(all, err)
	}
	for i, one := range all {
		if one.result != st.Results[i] || !slices.Equal(one.cdi, []string{cdi.Name("u")}) {
			t.Errorf("%d: %+v", i, one)
		}
	}
}
