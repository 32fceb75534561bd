package desk

import (
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/peaks"
)

func TestLasts(t *testing.T) {
	t.Parallel()
	known := peaks.New()
	for i := range 10 {
		known.Add(peaks.Key{User: "ada", Name: "train"}, peaks.Run{Seconds: float64(60 * (i + 1))}, time.Unix(int64(i), 0))
	}
	d := New(Parts{Peaks: known})
	minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	for _, c := range []struct {
		name          string
		lasted, limit time.Duration
		likely, late  time.Duration // -1 if not known
	}{
		{"train", 0, 0, minutes(5), minutes(9)},
		{"train", minutes(4), 0, minutes(7 - 4), minutes(10 - 4)},
		{"train", minutes(20), 0, -1, -1}, // longer than ever before
		{"train", 0, minutes(7), minutes(5), minutes(7)},
		{"train", minutes(20), minutes(30), minutes(10), minutes(10)},
		{"new", 0, minutes(30), minutes(30), minutes(30)},
		{"new", minutes(5), 0, -1, -1},
	} {
		of := lease.Holder{User: "ada", Name: c.name}
		for share, want := range map[float64]time.Duration{likelyShare: c.likely, lateShare: c.late} {
			got, is := d.lasts(share)(of, c.lasted, c.limit)
			if is != (want >= 0) || is && got != want {
				t.Errorf("%+v: with %g it lasts %v (%v), want %v", c, share, got, is, want)
			}
		}
	}
}
