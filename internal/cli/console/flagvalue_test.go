package console

import (
	"strings"
	"testing"
	"time"
)

func TestFlagValues(t *testing.T) {
	for text, want := range map[string]float64{"90s": 90, "1m30s": 90, "0": 0, "30d": 30 * 86400, "1d12h": 36 * 3600, "500ms": 0.5, "forever": 30 * 86400} {
		var v Seconds
		if err := v.Set(text); err != nil || v.Or(-1) != want {
			t.Errorf("%q: %v, %v; want %v", text, v.Or(-1), err, want)
		}
	}
	for text, want := range map[string]string{"90": "90s, 90m or 90h?", "1.5": "1.5s, 1.5m or 1.5h?", "often": "write it like"} {
		if err := new(Seconds).Set(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
	plain := Seconds{Plain: true}
	if err := plain.Set("300"); err != nil || plain.Or(0) != 300 {
		t.Errorf("300 seconds: %v, %v", plain.Or(0), err)
	}
	never := Seconds{}
	if err := never.Set("forever"); err != nil || never.Limit().Known() {
		t.Errorf("forever is limited to %v, %v", never.Limit(), err)
	}
	if err := new(Memory).Set("8"); err == nil || !strings.Contains(err.Error(), "8GiB or 8MiB?") {
		t.Errorf("8: %v", err)
	}
	for _, text := range []string{"", "soon", "-1", "-1s", "NaN", "Inf", "1e400", "d", "-1d", "1.5d", "99999999d", "1d-1h", "d1"} {
		if err := new(Seconds).Set(text); err == nil {
			t.Errorf("%q was taken for a length of time", text)
		}
	}
	var v Memory
	if err := v.Set("4GiB"); err != nil || v != 4096 || v.String() != "4 GiB" {
		t.Errorf("4GiB: %v, %v", v, err)
	}
	for _, text := range []string{"", "0", "-1", "1.5", "much"} {
		if err := v.Set(text); err == nil {
			t.Errorf("%q was taken for memory", text)
		}
	}
}

func TestAhead(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 30, 0, 0, time.UTC)
	for text, want := range map[string]string{
		"18:00": "2026-01-31T18:00:00Z", "09:15": "2026-02-01T09:15:00Z", "12:30": "2026-02-01T12:30:00Z", "2h": "2026-01-31T14:30:00Z", "1d": "2026-02-01T12:30:00Z",
		"2026-02-03T04:05:06+01:00": "2026-02-03T03:05:06Z", "2026-02-03": "2026-02-03T00:00:00Z", "2026-02-03 18:00": "2026-02-03T18:00:00Z",
	} {
		if got, err := Ahead(text, now); err != nil || got.UTC().Format(time.RFC3339) != want {
			t.Errorf("%q: %v, %v; want %s", text, got, err, want)
		}
	}
	for _, text := range []string{"soon", "-1h", "0s", "25:00", "2026-01-30", "2025-01-01T00:00:00Z", "99999999d"} {
		if got, err := Ahead(text, now); err == nil {
			t.Errorf("%q was taken for %v", text, got)
		}
	}
	if got, err := Ahead("", now); err != nil || !got.IsZero() {
		t.Errorf("nothing: %v, %v", got, err)
	}
}
