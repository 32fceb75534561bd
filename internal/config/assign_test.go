package config

import (
	"strings"
	"testing"
)

func TestAssignments(t *testing.T) {
	body, names, err := Assignments([]string{"gpu.temp_optimal=60", "memory_reserve_mb=1GiB", "devices.GPU-5a.temp_critical=null"})
	want := `{"devices":{"GPU-5a":{"temp_critical":null}},"memory_reserve_mb":"1GiB","temp_optimal":60}`
	if err != nil || string(body) != want || strings.Join(names, " ") != "temp_optimal memory_reserve_mb devices.GPU-5a.temp_critical" {
		t.Errorf("%s, %q, %v", body, names, err)
	}
	body, names, err = Assignments([]string{"services.a_b.users=[ada, bob]", "optimization.interval=5m", "unknown_services=refuse", `hooks.h.codes=["gap"]`})
	want = `{"hooks":{"h":{"codes":["gap"]}},"optimization":{"interval":"5m"},"services":{"a-b":{"users":["ada","bob"]}},"unknown_services":"refuse"}`
	if err != nil || string(body) != want || names[0] != "services.a-b.users" {
		t.Errorf("%s, %q, %v", body, names, err)
	}
	for change, want := range map[string]string{
		"temp_optimal":   "is not FIELD=VALUE",
		"=1":             "is not FIELD=VALUE",
		"daemon.listen=": "daemon.listen",
		"a=1 a=2":        "a is set twice",
		"a=1 a.b=2":      "a has a value already",
	} {
		if _, _, err := Assignments(strings.Fields(change)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", change, err, want)
		}
	}
}
