package collect

import (
	"context"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/history/report"
)

// A report begins with the first measurement, if that is late.
func TestReportsBeginWithWhatWasMeasured(t *testing.T) {
	now := time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)
	for name, c := range map[string]struct {
		since    time.Duration
		measured [][2]time.Duration // how long ago
		from     time.Duration      // the report, at the least
	}{
		"five minutes in a week":    {7 * 24 * time.Hour, [][2]time.Duration{{5 * time.Minute, 0}}, 5 * time.Minute},
		"five minutes in 90 days":   {90 * 24 * time.Hour, [][2]time.Duration{{5 * time.Minute, 0}}, 5 * time.Minute},
		"with a pause":              {7 * 24 * time.Hour, [][2]time.Duration{{50 * time.Minute, 45 * time.Minute}, {20 * time.Minute, 0}}, 50 * time.Minute},
		"nearly all of it":          {time.Hour, [][2]time.Duration{{59 * time.Minute, 0}}, time.Hour},
		"all of it":                 {time.Hour, [][2]time.Duration{{2 * time.Hour, 0}}, time.Hour},
		"nothing":                   {time.Hour, nil, time.Hour},
		"something that is over":    {24 * time.Hour, [][2]time.Duration{{10 * time.Hour, 9 * time.Hour}}, 10 * time.Hour},
		"a few seconds, at the end": {time.Hour, [][2]time.Duration{{5 * time.Second, 0}}, time.Minute},
	} {
		ask := func(_ context.Context, _ string, over client.QueryRange) (api.QueryResult, error) {
			one := api.QuerySeries{}
			for end := over.From; !end.After(over.To); end = end.Add(over.Step) {
				sum := 0.0
				for _, m := range c.measured {
					from, until := max(now.Add(-m[0]).Sub(end), -over.Step), min(now.Add(-m[1]).Sub(end), 0)
					sum += max(until-from, 0).Seconds()
				}
				one.Points = append(one.Points, api.QueryPoint{Time: end, Value: sum})
			}
			return api.QueryResult{Series: []api.QuerySeries{one}}, nil
		}
		got, err := begin(t.Context(), ask, report.Period{From: now.Add(-c.since), Until: now})
		if err != nil {
			t.Fatal(err)
		}
		if from := now.Sub(got.From); !got.Until.Equal(now) || from < c.from || from > c.from+90*time.Second {
			t.Errorf("%s: the report begins %v ago, want %v", name, from, c.from)
		}
	}
}
