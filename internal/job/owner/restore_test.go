package owner

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/job/service"
)

// A service whose program is not known any more is away, its lease is given back, and
// nothing is left of the settings with which it was started. What people decided stays.
func TestWithout(t *testing.T) {
	const text = `{"version":1,"services":{
		"a":{"state":"ready","since":"2026-01-01T00:00:00Z","epoch":3,"instance":{"spec":{"Name":"a","UID":7,"User":"u","Environment":["K=secret"]},"number":4,"fence":9},"took":{}},
		"b":{"state":"starting","since":"2026-01-01T00:00:00Z","epoch":1,"instance":{"spec":{"Name":"b","UID":7,"User":"u"},"number":5,"fence":10},"took":{}},
		"c":{"state":"away","since":"2026-01-01T00:00:00Z","epoch":1900000000,"stopped":{"by":"ann"},"took":{}}},"fronts":["x"]}`
	now := time.Unix(1_800_000_000, 0)
	without, gone, err := Without([]byte(text), now, func(run string) bool { return run == "5.0.1" })
	if err != nil || gone != 1 || strings.Contains(string(without), "secret") {
		t.Fatalf("%s, %d, %v", without, gone, err)
	}
	var k kept
	if err := json.Unmarshal(without, &k); err != nil {
		t.Fatal(err)
	}
	o := newOwner(Options{}, nil)
	if err := o.load(k); err != nil {
		t.Error(err)
	}
	a, b, c := k.Services["a"], k.Services["b"], k.Services["c"]
	if a.State != service.Away || a.Instance != nil || a.Epoch != 1_800_000_000 || b.Epoch != a.Epoch || c.Epoch != 1_900_000_000 || b.State != service.Starting || b.Instance == nil || c.Stopped == nil || len(k.Fronts) != 0 {
		t.Errorf("%s", without)
	}
	if len(k.Leftovers) != 1 || k.Leftovers[0].Fence != 9 || k.Leftovers[0].Service != "a" {
		t.Errorf("%+v", k.Leftovers)
	}
	for _, bad := range []string{"", "{", `{"version":2,"services":{}}`} {
		if _, _, err := Without([]byte(bad), now, func(string) bool { return false }); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}

// A front that lives on believes a daemon whose states of services are older than what it
// knows, or gone: requests do not go to the server of before, but bring the service.
func TestAFrontOutlivesTheStatesOfServices(t *testing.T) {
	for name, restored := range map[string]func(disk []byte) []byte{
		"lost": func([]byte) []byte { return nil },
		"restored": func(old []byte) []byte {
			without, _, err := Without(bytes.Replace(old, []byte("{"), []byte(`{"version":1,`), 1), time.Now(), func(string) bool { return false })
			if err != nil {
				t.Fatal(err)
			}
			return without
		},
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, []service.Spec{spec("a", idleAfter(time.Minute))}, func(t *testing.T, w *world) {
				var old []byte
				for range 3 {
					pass(2 * time.Minute)
					w.is("a", "away")
					answered(t, w.ask(t.Context(), "a", time.Second))
					if old == nil {
						w.Mu.Lock()
						old = bytes.Clone(w.disk)
						w.Mu.Unlock()
					}
				}
				w.is("a", "ready")
				pid := w.life("a").Instance.PID
				w.daemon.Kill()
				<-w.daemon.Over
				w.endRun(pid, 137, "SIGKILL")
				w.disk = restored(old)
				w.start()
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				answered(t, w.ask(ctx, "a", time.Second))
			})
		})
	}
}
