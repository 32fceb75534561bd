package daemon

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/gpu"
)

// A change is told with what it changed; one that changes nothing is not told.
func TestChangeIsTold(t *testing.T) {
	c, _ := newPlace(t, "sim:1").start(t)
	for _, body := range []string{`{"temp_optimal": 61, "devices": {"SIM-h200-0": {"max_pipelines": 3}}}`, `{"temp_optimal": 61}`, `{}`, `{"devices": null}`} {
		if _, err := c.SetConfig(t.Context(), json.RawMessage(body)); err != nil {
			t.Fatalf("%s: %v", body, err)
		}
	}
	var told []string
	for e, err := range c.Events(t.Context(), 0, false) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Code == gpu.EventConfig {
			told = append(told, e.Text)
		}
	}
	want := []string{
		"The configuration was changed: gpu.devices.SIM-h200-0.max_pipelines = 3 (was not set), gpu.temp_optimal = 61 (was 65)",
		"The configuration was changed: gpu.devices.SIM-h200-0.max_pipelines is not set (was 3)",
	}
	if !slices.Equal(told, want) {
		t.Errorf("told:\n%s\nwant:\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
}
