package past

import (
	"fmt"
	"github.com/prometheus/prometheus/model/labels"
	"slices"
	"testing"
	"time"

	"github.com/oklog/ulid/v2"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/series"
)

func TestSurplus(t *testing.T) {
	const hour = int64(3_600_000)
	for name, c := range map[string]struct {
		list []stretch // by position: to, from, size
		room int64
		want []int
	}{
		"nothing":                         {nil, 1000, nil},
		"all fit":                         {[]stretch{{from: 0, to: 1, size: 10}, {from: 1, to: 2, size: 10}}, 1000, nil},
		"too old":                         {[]stretch{{from: 0, to: 1}, {from: 1, to: 2}, {from: 2, to: 4}, {from: 4, to: 6}}, 1000, []int{0, 1}},
		"a part of it is within":          {[]stretch{{from: 0, to: 3}, {from: 3, to: 6}}, 1000, nil},
		"years between them":              {[]stretch{{from: 0, to: 1}, {from: 1, to: 2}, {from: 200_000, to: 200_001}}, 1000, nil},
		"one that seems to cover years":   {[]stretch{{from: 0, to: 1}, {from: 1, to: 200_000}}, 1000, nil},
		"overlapping ones count once":     {[]stretch{{from: 0, to: 2}, {from: 2, to: 5}, {from: 2, to: 5}}, 1000, nil},
		"too large":                       {[]stretch{{from: 0, to: 1, size: 10}, {from: 1, to: 2, size: 600}, {from: 2, to: 3, size: 600}}, 1000, []int{0, 1}},
		"the newest stays, however large": {[]stretch{{from: 0, to: 1, size: 10}, {from: 1, to: 2, size: 6000}}, 1000, []int{0}},
		"replaced":                        {[]stretch{{from: 0, to: 1, replaced: true}, {from: 0, to: 1}}, 1000, []int{0}},
		"no room at all":                  {[]stretch{{from: 0, to: 1, size: 10}, {from: 1, to: 2, size: 10}}, -5, []int{0}},
		"before 1970":                     {[]stretch{{from: -9, to: -8}, {from: -8, to: -5}, {from: -4, to: -1}}, 1000, []int{0}},
	} {
		list := slices.Clone(c.list)
		for i := range list {
			list[i].id = ulid.ULID{byte(i)}
			list[i].from *= hour
			list[i].to *= hour
		}
		gone := beyond(list, 4*hour, 3*hour, c.room)
		var got []int
		for i := range c.list {
			if _, is := gone[ulid.ULID{byte(i)}]; is {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v go, want %v", name, got, c.want)
		}
	}
}

// The past stays within its size, and the recent store does not push the long
// one out.
func TestSize(t *testing.T) {
	const most = 2 // MiB; the configuration allows no less than 64
	p, _ := open(t, t.TempDir(), Settings{Recent: 48 * time.Hour, Long: 90 * 24 * time.Hour, Size: most})
	at := noon
	for range 12 {
		for end := at.Add(30 * time.Minute); at.Before(end); at = at.Add(5 * time.Second) {
			var list []series.Sample
			for i := range 60 {
				s := sample("noise", series.Gauge, float64(at.UnixNano()/1e6*int64(i+7)%1000)/7)
				s.Labels = labels.FromStrings(labels.MetricName, "noise", "gpu", string(rune('A'+i)))
				list = append(list, s)
			}
			if err := p.Write(at, list); err != nil {
				t.Fatal(err)
			}
		}
		p.Tidy(at)
	}
	p.Tidy(at)
	c := p.Cost()
	if c.Bytes > (most+1)<<20 || c.Bytes < most<<19 { // one log file more than the blocks may have
		t.Errorf("it takes %d kB of %d MiB", c.Bytes>>10, most)
	}
	if c.Limit != most<<20 || c.Samples == 0 || c.Series == 0 || c.Dropped != 0 || c.Paused || !c.Oldest.After(noon.Add(-time.Second)) || !c.Oldest.Before(at) {
		t.Errorf("the cost is %+v", c)
	}
	p.Configure(Settings{Recent: 48 * time.Hour, Long: 90 * 24 * time.Hour, Size: gpu.MiB(1024)})
	if got, want := p.Text(), fmt.Sprintf("The past takes %d MiB of 1,024, back to %s", (c.Bytes+1<<20-1)>>20, c.Oldest.Format("2006-01-02 15:04")); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}
