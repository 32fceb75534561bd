package owner

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/job/service"
)

// A service whose program is not known any more is away, its lease is given back, and
// nothing is left of the settings with which it was started. What people decided stays.
func TestWithout(t *testing.T) {
	const text = `{"version":1,"services":{
		"a":{"state":"ready","since":"2026-01-01T00:00:00Z","epoch":3,"instance":{"spec":{"Name":"a","UID":7,"User":"u","Environment":["K=secret"]},"number":4,"fence":9},"took":{}},
		"b":{"state":"starting","since":"2026-01-01T00:00:00Z","epoch":1,"instance":{"spec":{"Name":"b","UID":7,"User":"u"},"number":5,"fence":10},"took":{}},
		"c":{"state":"away","since":"2026-01-01T00:00:00Z","epoch":1,"stopped":{"by":"ann"},"took":{}}},"fronts":["x"]}`
	without, gone, err := Without([]byte(text), func(run string) bool { return run == "5.0.1" })
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
	if a.State != service.Away || a.Instance != nil || a.Epoch != 3 || b.State != service.Starting || b.Instance == nil || c.Stopped == nil || len(k.Fronts) != 0 {
		t.Errorf("%s", without)
	}
	if len(k.Leftovers) != 1 || k.Leftovers[0].Fence != 9 || k.Leftovers[0].Service != "a" {
		t.Errorf("%+v", k.Leftovers)
	}
	for _, bad := range []string{"", "{", `{"version":2,"services":{}}`} {
		if _, _, err := Without([]byte(bad), func(string) bool { return false }); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
}
