package console

import (
	"testing"
	"time"
)

func TestMoment(t *testing.T) {
	now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.FixedZone("CET", 3600))
	for text, want := range map[string]string{
		"7d":                   "2026-01-24T12:00:00+01:00",
		"10m":                  "2026-01-31T11:50:00+01:00",
		"2026-01-31T10:00:00Z": "2026-01-31T10:00:00Z",
		"2026-01-31 10:00":     "2026-01-31T10:00:00+01:00",
		"2026-01-30":           "2026-01-30T00:00:00+01:00",
		"":                     "0001-01-01T00:00:00Z",
	} {
		got, err := Moment(text, now)
		if err != nil || got.Format(time.RFC3339) != want {
			t.Errorf("%q: %s, %v; want %s", text, got.Format(time.RFC3339), err, want)
		}
	}
	for _, text := range []string{"-10m", "-7d", "soon", "2026-13-01"} {
		if _, err := Moment(text, now); err == nil {
			t.Errorf("%q was taken", text)
		}
	}
}
