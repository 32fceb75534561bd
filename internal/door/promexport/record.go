package promexport

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/internal/history/series"
)

// Recorder turns the content of the page into samples for a store, with the labels that
// a Prometheus would add. It omits the metrics of the process itself. Only Metadata is
// safe for concurrent use.
type Recorder struct {
	from     *Sources
	rest     prometheus.Gatherer
	instance string
	cells    map[place]*cell
	lines    map[string]*cell
	round    uint64 // counts calls, to find missing series
	key      []byte
	recorded leaseSlots
	begun    []series.Sample // see Begun
}

// place identifies the source of a value of a device.
type place struct {
	gpu, index, name string
	family           *family
	more             string
}

// cell is a series that was stored before.
type cell struct {
	labels labels.Labels
	kind   series.Kind
	round  uint64 // when it was last stored
}

// Recorder returns a recorder of the page for an instance, which names the machine.
func (e *Exporter) Recorder(instance string) *Recorder {
	return &Recorder{
		from: &e.from, rest: e.rest, cells: map[place]*cell{}, lines: map[string]*cell{},
		instance: instance,
	}
}

// Devices returns the last measurements of each device. A series that was present at
// the last call and has no value now ends with a stale value.
func (r *Recorder) Devices() []series.Sample {
	r.round++
	list := make([]series.Sample, 0, len(r.cells)+8)
	now := r.from.Devices()
	now.fresh()
	for i := range now.Readings {
		on := &now.Readings[i].Device
		at := place{gpu: on.UUID, index: strconv.Itoa(on.Index), name: on.Name}
		now.each(&now.Readings[i], func(f *family, more string, v float64) {
			at.family, at.more = f, more
			c := r.cells[at]
			if c == nil {
				c = &cell{labels: r.labelsOf(&at), kind: kindOf(f.kind)}
				r.cells[at] = c
			}
			c.round = r.round
			list = append(list, series.Sample{Labels: c.labels, Kind: c.kind, Value: v})
		})
	}
	for at, c := range r.cells {
		if c.round != r.round {
			delete(r.cells, at)
			list = append(list, series.Sample{Labels: c.labels, Kind: c.kind, Value: series.Stale()})
		}
	}
	return list
}

func (r *Recorder) labelsOf(at *place) labels.Labels {
	own := []labels.Label{{Name: "gpu", Value: at.gpu}, {Name: "index", Value: at.index}, {Name: "name", Value: at.name}}
	if at.family.label != "" {
		own = append(own, labels.Label{Name: at.family.label, Value: at.more})
	}
	return r.labelled(at.family.name, own)
}

// labelled returns the name, the given labels that are not empty, and those that every
// series has.
func (r *Recorder) labelled(name string, own []labels.Label) labels.Labels {
	b := labels.NewBuilder(labels.FromStrings(labels.MetricName, name, "instance", r.instance, "job", "berth"))
	for _, l := range own {
		b.Set(l.Name, l.Value)
	}
	return b.Labels()
}

func kindOf(k prometheus.ValueType) series.Kind {
	if k == counter {
		return series.Counter
	}
	return series.Gauge
}

// Rest returns everything else: the page without devices, and what leases hold and use.
// It costs more than Devices; call it every few seconds.
func (r *Recorder) Rest(now time.Time) []series.Sample {
	r.round++
	list := make([]series.Sample, 0, len(r.lines)+8)
	put := func(name string, kind series.Kind, v float64, own ...labels.Label) {
		list = append(list, r.sample(name, kind, v, own))
	}
	put("up", series.Gauge, 1)
	families, _ := r.rest.Gather() // keep what could be gathered
	for _, f := range families {
		for _, m := range f.GetMetric() {
			own := make([]labels.Label, 0, len(m.GetLabel())+1)
			for _, l := range m.GetLabel() {
				own = append(own, labels.Label{Name: l.GetName(), Value: l.GetValue()})
			}
			switch name := f.GetName(); f.GetType() {
			case dto.MetricType_COUNTER:
				put(name, series.Counter, m.GetCounter().GetValue(), own...)
			case dto.MetricType_GAUGE:
				put(name, series.Gauge, m.GetGauge().GetValue(), own...)
			case dto.MetricType_HISTOGRAM:
				h := m.GetHistogram()
				for _, b := range h.GetBucket() {
					put(name+"_bucket", series.Histogram, float64(b.GetCumulativeCount()), append(own[:len(own):len(own)], labels.Label{Name: "le", Value: border(b.GetUpperBound())})...)
				}
				put(name+"_bucket", series.Histogram, float64(h.GetSampleCount()), append(own[:len(own):len(own)], labels.Label{Name: "le", Value: "+Inf"})...)
				put(name+"_sum", series.Histogram, h.GetSampleSum(), own...)
				put(name+"_count", series.Histogram, float64(h.GetSampleCount()), own...)
			}
		}
	}
	r.leases(now, func(name string, kind series.Kind, v float64, before time.Duration, own ...labels.Label) {
		put(name, kind, v, own...)
		list[len(list)-1].Before = before
	})
	for key, c := range r.lines {
		if c.round != r.round {
			delete(r.lines, key)
			list = append(list, series.Sample{Labels: c.labels, Kind: c.kind, Value: series.Stale()})
		}
	}
	return list
}

// Begun returns what the sums that the last call of Rest returned for the first time were
// before, so that whoever reads the store knows by how much they have grown: it belongs to
// the time before that call.
func (r *Recorder) Begun() []series.Sample {
	begun := r.begun
	r.begun = nil
	return begun
}

// border writes the upper bound of a bucket as Prometheus stores it: with a point, even
// if it is whole.
func border(v float64) string {
	s := strconv.FormatFloat(v, 'g', -1, 64)
	if !strings.ContainsAny(s, ".eIN") {
		s += ".0"
	}
	return s
}

// sample returns a sample of a series that has the same labels at every call.
func (r *Recorder) sample(name string, kind series.Kind, v float64, own []labels.Label) series.Sample {
	r.key = append(append(r.key[:0], name...), 0)
	for _, l := range own {
		r.key = append(append(append(append(r.key, l.Name...), 0), l.Value...), 0)
	}
	c := r.lines[string(r.key)]
	if c == nil {
		c = &cell{labels: r.labelled(name, own), kind: kind}
		r.lines[string(r.key)] = c
		if before := before[name]; before != nil {
			now := r.from.Look()
			r.begun = append(r.begun, series.Sample{Labels: c.labels, Kind: kind, Value: before(&now, own[0].Value)})
		}
	}
	c.round = r.round
	return series.Sample{Labels: c.labels, Kind: kind, Value: v}
}

// Metadata describes every metric that Devices and Rest return.
func (r *Recorder) Metadata() []series.Metric {
	list := []series.Metric{{Name: "up", Kind: series.Gauge, Help: "1 while berth measures."}}
	for _, f := range deviceFamilies() {
		list = append(list, series.Metric{Name: f.name, Kind: kindOf(f.kind), Help: f.help})
	}
	list = append(list, leaseMetrics...)
	families, _ := r.rest.Gather()
	for _, f := range families {
		kind := map[dto.MetricType]series.Kind{dto.MetricType_COUNTER: series.Counter, dto.MetricType_GAUGE: series.Gauge, dto.MetricType_HISTOGRAM: series.Histogram}[f.GetType()]
		list = append(list, series.Metric{Name: f.GetName(), Kind: kind, Help: f.GetHelp()})
	}
	slices.SortFunc(list, func(a, b series.Metric) int { return cmp.Compare(a.Name, b.Name) })
	return list
}
