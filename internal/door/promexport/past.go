package promexport

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

var (
	pastBytesDesc   = prometheus.NewDesc("berth_past_bytes", "Space that the past takes on disk.", nil, nil)
	pastSeriesDesc  = prometheus.NewDesc("berth_past_series", "Series of the past that are in memory.", nil, nil)
	pastSamplesDesc = prometheus.NewDesc("berth_past_samples_total", "Samples that were stored.", nil, nil)
	pastWrittenDesc = prometheus.NewDesc("berth_past_last_sample_timestamp_seconds", "When samples were last stored.", nil, nil)
	evaluatedDesc   = prometheus.NewDesc("berth_rule_group_last_evaluation_timestamp_seconds", "When the alert rules of a group were last evaluated.", []string{"group"}, nil)
	pastDroppedDesc = prometheus.NewDesc("berth_past_dropped_total", "Samples that were not stored: the disk was full, failed or too slow, or the clock went back.", nil, nil)
)

// Past has the costs of the store of the past.
type Past struct {
	Bytes, Series    int64
	Samples, Dropped uint64    // since the daemon started
	Written          time.Time // when samples were last stored; zero if not since the daemon started
}

// remembering is a collector over the store of the past.
type remembering struct{ from Sources }

func (c *remembering) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{pastBytesDesc, pastSeriesDesc, pastSamplesDesc, pastDroppedDesc, pastWrittenDesc, evaluatedDesc} {
		out <- d
	}
}

func (c *remembering) Collect(out chan<- prometheus.Metric) {
	if c.from.Evaluated != nil {
		for group, last := range c.from.Evaluated() {
			out <- prometheus.MustNewConstMetric(evaluatedDesc, gauge, seconds(last), group)
		}
	}
	if c.from.Past == nil {
		return
	}
	p := c.from.Past()
	out <- prometheus.MustNewConstMetric(pastBytesDesc, gauge, float64(p.Bytes))
	out <- prometheus.MustNewConstMetric(pastSeriesDesc, gauge, float64(p.Series))
	out <- prometheus.MustNewConstMetric(pastSamplesDesc, counter, float64(p.Samples))
	out <- prometheus.MustNewConstMetric(pastDroppedDesc, counter, float64(p.Dropped))
	if !p.Written.IsZero() {
		out <- prometheus.MustNewConstMetric(pastWrittenDesc, gauge, seconds(p.Written))
	}
}

// seconds returns a time in the form of Prometheus.
func seconds(t time.Time) float64 { return float64(t.UnixMilli()) / 1000 }
