package promexport

import (
	"github.com/prometheus/client_golang/prometheus"
)

// family is a metric: the lines of one name.
type family struct {
	desc       *prometheus.Desc
	name, help string
	kind       prometheus.ValueType
	label      string // of a metric of devices, the label beside those of the device; empty if none
}

const gauge, counter = prometheus.GaugeValue, prometheus.CounterValue

// metric returns a metric with these labels.
func metric(kind prometheus.ValueType, name, help string, labels ...string) *family {
	return &family{desc: prometheus.NewDesc(name, help, labels, nil), name: name, help: help, kind: kind}
}

// lines takes the lines of the page.
type lines chan<- prometheus.Metric

// put adds a line.
func (l lines) put(f *family, v float64, labels ...string) {
	l <- prometheus.MustNewConstMetric(f.desc, f.kind, v, labels...)
}

// group is metrics that are read together.
type group struct {
	families []*family
	put      func(*Values, lines)
}

// page is a collector of the groups of a page. It looks once for all of them.
type page struct {
	from   *Sources
	groups []group
}

// Describe sends the description of every metric.
func (p *page) Describe(out chan<- *prometheus.Desc) {
	for _, g := range p.groups {
		for _, f := range g.families {
			out <- f.desc
		}
	}
}

// Collect sends every line.
func (p *page) Collect(out chan<- prometheus.Metric) {
	now := p.from.Look()
	now.fresh()
	for _, g := range p.groups {
		g.put(&now, out)
	}
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
