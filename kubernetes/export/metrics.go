// Package export serves what people and Prometheus ask a driver: its metrics, whether it
// works, and the page of its node.
package export

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-gpu/berth/gpu"
)

// Metrics counts the driver's work. Several goroutines may call its methods.
type Metrics struct {
	registry   *prometheus.Registry
	prepare    *prometheus.HistogramVec
	refusals   *prometheus.CounterVec
	publishes  prometheus.Counter
	reconciled *prometheus.CounterVec
	cluster    *prometheus.CounterVec
}

// New returns metrics with all counters at zero.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(),
		prepare: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "berth_dra_prepare_seconds", Help: "How long it took to prepare a claim, by result: prepared or failed.",
			Buckets: []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 45},
		}, []string{"result"}),
		refusals: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_dra_refusals_total", Help: "Claims that could not be prepared, by code: the daemon's, or the driver's own.",
		}, []string{"code"}),
		publishes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "berth_dra_publishes_total", Help: "How often the devices of the node were published.",
		}),
		reconciled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_dra_reconciled_total", Help: "What the driver found wrong and put right: leases acquired, ended, adopted or joined by a pod, CDI files written (cdi) or removed (cdi_removed); failed: it could not.",
		}, []string{"what"}),
		cluster: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_dra_api_errors_total", Help: "Questions that the API server refused or did not answer, by what was asked and why it failed.",
		}, []string{"what", "reason"}),
	}
	m.registry.MustRegister(m.prepare, m.refusals, m.publishes, m.reconciled, m.cluster)
	return m
}

// Prepared counts an attempt to prepare a claim.
func (m *Metrics) Prepared(result string, took time.Duration) {
	m.prepare.WithLabelValues(result).Observe(took.Seconds())
}

// Refused counts a claim that could not be prepared.
func (m *Metrics) Refused(code string) { m.refusals.WithLabelValues(code).Inc() }

// Published counts one publication of devices.
func (m *Metrics) Published() { m.publishes.Inc() }

// Reconciled counts a repair by the driver.
func (m *Metrics) Reconciled(what string) { m.reconciled.WithLabelValues(what).Inc() }

// ClusterFailed counts a failed call to the API server.
func (m *Metrics) ClusterFailed(what string, err error) {
	reason := string(errors.ReasonForError(err))
	if reason == "" {
		reason = "NoAnswer"
	}
	m.cluster.WithLabelValues(what, reason).Inc()
}

// Claim is the share and the use of a claim on one device.
type Claim struct {
	Namespace, Pod, Name, GPU string
	Leased                    gpu.MiB
	Measured                  gpu.Opt[gpu.MiB]
}

// Taint is a taint of a published device.
type Taint struct{ Device, Key, Effect string }

// present has the metrics that every scrape reads from the driver.
type present struct{ s Source }

var (
	claimsDesc = prometheus.NewDesc("berth_dra_claims", "Claims that are prepared on the node.", nil, nil)
	upDesc     = prometheus.NewDesc("berth_dra_daemon_up", "1 if the daemon answers, else 0.", nil, nil)
	taintDesc  = prometheus.NewDesc("berth_dra_taints", "Taints of the published devices.", []string{"device", "key", "effect"}, nil)
	memoryDesc = prometheus.NewDesc("berth_dra_claim_memory_mb", "Memory of a claim on a device in MiB: leased, and measured for its processes. The pod is the first that the claim is reserved for.",
		[]string{"namespace", "pod", "claim", "gpu", "kind"}, nil)
)

func (p present) Describe(c chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{claimsDesc, upDesc, taintDesc, memoryDesc} {
		c <- d
	}
}

func (p present) Collect(c chan<- prometheus.Metric) {
	gauge := func(d *prometheus.Desc, v float64, labels ...string) {
		c <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
	}
	up := 0.0
	if p.s.DaemonUp() {
		up = 1
	}
	gauge(upDesc, up)
	prepared, claims := p.s.Claims()
	gauge(claimsDesc, float64(prepared))
	for labels, memory := range sums(claims) {
		gauge(memoryDesc, float64(memory), labels[:]...)
	}
	for _, t := range p.s.Taints() {
		gauge(taintDesc, 1, t.Device, t.Key, t.Effect)
	}
}

// sums adds up the memory of claims by their labels. Two claims have the same ones if
// somebody made a claim again while the lease of the first still exists; Prometheus
// rejects a whole page that has the same labels twice.
func sums(claims []Claim) map[[5]string]gpu.MiB {
	all := map[[5]string]gpu.MiB{}
	for _, one := range claims {
		all[[5]string{one.Namespace, one.Pod, one.Name, one.GPU, "leased"}] += one.Leased
		if measured, ok := one.Measured.Get(); ok {
			all[[5]string{one.Namespace, one.Pod, one.Name, one.GPU, "measured"}] += measured
		}
	}
	return all
}
