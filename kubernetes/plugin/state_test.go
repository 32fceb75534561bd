package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/kubernetes/claim"
)

// A state file is read as it was written; a damaged one is an error, and what a killed
// driver left of another is removed.
func TestStateFiles(t *testing.T) {
	s := states{t.TempDir()}
	if st, err := s.get("c1"); st != nil || err != nil {
		t.Errorf("%v, %v", st, err)
	}
	want := &state{UID: "c1", Namespace: "shop", Name: "gpu", Pods: []claim.Pod{{Name: "one", UID: "p1"}}, Request: &api.LeaseRequest{ID: "c1"}, Fence: 3}
	if err := s.put(want); err != nil {
		t.Fatal(err)
	}
	if st, err := s.get("c1"); err != nil || st.Name != "gpu" || st.Fence != 3 || st.Request.ID != "c1" || !st.sharesPod(want.Pods) {
		t.Errorf("%+v, %v", st, err)
	}
	for name, text := range map[string]string{"c2.json": "{", "c3.json": `{"version": 99, "uid": "c3"}`, "c4.json": `{"version": 1, "uid": "c5"}`, "c7.json": `{"version": 1, "uid": "c7"}`, unfinished + "c6": "{", "-x.json": "{}"} {
		if err := os.WriteFile(filepath.Join(s.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, uid := range []string{"c2", "c3", "c4", "c7"} {
		if st, err := s.get(uid); err == nil {
			t.Errorf("%s is read as %+v", uid, st)
		}
	}
	uids, err := s.list()
	if err != nil || !slices.Equal(uids, []string{"c1", "c2", "c3", "c4", "c7"}) {
		t.Errorf("%v, %v", uids, err)
	}
	if _, err := os.Stat(filepath.Join(s.dir, unfinished+"c6")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("an unfinished file is left: %v", err)
	}
	for range 2 {
		if err := s.remove("c1"); err != nil {
			t.Error(err)
		}
	}
}

func TestGoodUID(t *testing.T) {
	for uid, want := range map[string]bool{
		"8d1f0a3c-5b0e-4f0e-9a44-1f6d2f0b7c11": true, "c1": true, "": false, "../x": false, "a/b": false, "-a": false, ".": false, strings.Repeat("a", 65): false,
	} {
		if goodUID(uid) != want {
			t.Errorf("goodUID(%q) is %v", uid, !want)
		}
	}
}

// The lock keeps out another driver of the node, and whoever waits for it can give up.
func TestLock(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lock")
	one, other := newLock(path), newLock(path)
	unlock, err := one.take(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range []*lock{one, other} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		if _, err := l.take(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("taken twice: %v", err)
		}
		cancel()
	}
	unlock()
	for _, l := range []*lock{one, other} {
		unlock, err := l.take(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		unlock()
	}
}

func TestExactLeases(t *testing.T) {
	for text, want := range map[string]bool{
		`{"components": {"schemas": {"LeaseRequest": {"properties": {"parts": {}}}}}}`:     true,
		`{"components": {"schemas": {"LeaseRequest": {"properties": {"memory_mb": {}}}}}}`: false,
		`{}`: false,
	} {
		if got, err := exactLeases([]byte(text)); err != nil || got != want {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	if _, err := exactLeases([]byte("<html>")); err == nil {
		t.Error("a page that is no description is one")
	}
}

func TestCut(t *testing.T) {
	for text, want := range map[string]string{"short": "short", "longer text": "longer…", "ääääää": "äää…"} {
		if got := cut(text, 9); got != want {
			t.Errorf("cut(%q) is %q", text, got)
		}
	}
}
