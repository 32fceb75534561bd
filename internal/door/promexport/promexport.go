// Package promexport shows what berth knows as metrics of Prometheus.
//
// A scrape reads the last measurements of the monitor and asks no driver, so it costs
// the same whatever the devices are doing.
package promexport

import (
	"net/http"
	"runtime"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/batch/runs"
	"github.com/berth-gpu/berth/internal/enforce/throttle"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/history/hooks"
	"github.com/berth-gpu/berth/internal/history/throughput"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// Sources provide the numbers.
type Sources struct {
	Readings func() []monitor.Reading
	Ledger   func() *ledger.Ledger
	Batches  func() []runs.Total
	Services func() []throughput.Total
	Energy   func() *energy.Meters // nil if energy is not measured
	Paced    func() []Paced        // nil if leases are never paced
	Parking  func() Parking        // nil if leases are never parked
	Idle     func() int            // number of idle leases; nil if not watched
	Labels   *Names
	Limits   func() *quota.Rules // limits of users; nil if not known
	Hooks    []string            // names of the hooks
	// TokenFailures are the reasons for which a token is refused.
	TokenFailures []string
	Drained       func(gpu.Device) bool       // nil if none is drained
	Optimized     func() Optimized            // nil if there is no optimizer
	Watching      func() bool                 // whether devices are being sampled
	Unlogged      func() uint64               // lines that the log did not take; nil if none
	Expires       func() time.Time            // when the certificate of the daemon ends; nil or zero if it has none
	Past          func() Past                 // nil if nothing is kept
	Evaluated     func() map[string]time.Time // when each group of rules was last evaluated; nil if none is
	Compat        func() string               // "dcgm" to show the devices under those names too; nil for no other names
	Host          string                      // name of the machine
	Version       string
	// Audit returns how many entries the audit log was given, and how often it could
	// not be written. It is nil if there is no audit log.
	Audit func() (entries, failures uint64)
}

// Exporter serves the page and counts single events.
type Exporter struct {
	http.Handler
	// Nameless serves the page without the lines that name users and services.
	Nameless http.Handler

	sampled *prometheus.HistogramVec
	failed  *prometheus.CounterVec
	events  *prometheus.CounterVec
	asked   *prometheus.CounterVec
	unmet   *prometheus.CounterVec
	decided prometheus.Histogram
	hooks   *prometheus.CounterVec
	lost    *prometheus.CounterVec
	dropped *prometheus.CounterVec

	turnedAway prometheus.Counter
	steps      *prometheus.CounterVec
	tokens     *prometheus.CounterVec

	xids *xids
	from Sources
	rest prometheus.Gatherer // the page without devices and most of the Go runtime
}

// New returns an exporter with its own registry, apart from any other in the process.
func New(from Sources) *Exporter {
	e := &Exporter{
		from: from, xids: &xids{},
		sampled: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "berth_sample_duration_seconds", Help: "What reading a device cost, by tier: fast every tick, slow rarely.",
			Buckets: []float64{10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 1e-3, 5e-3, 25e-3, 100e-3, 1},
		}, []string{"backend", "tier"}),
		failed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_sample_failures_total", Help: "Readings that a device did not answer.",
		}, []string{"gpu", "tier"}),
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_events_total", Help: "Events that happened, by code, those that were rationed included.",
		}, []string{"code"}),
		asked: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpu_allocation_requests_total", Help: "Requests for a lease that were answered: granted, failed, or withdrawn by whoever asked.",
		}, []string{"status"}),
		unmet: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "gpu_allocation_failures_total", Help: "Requests for a lease that failed, by reason: refused at once, or timeout after waiting.",
		}, []string{"reason"}),
		decided: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gpu_allocation_duration_seconds", Help: "From a request to its answer, waiting in the queue included.",
			Buckets: []float64{100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 10e-3, 100e-3, 1, 10, 60},
		}),
		hooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_hook_deliveries_total", Help: "Attempts to tell a hook of an event: delivered, retried, or failed for good.",
		}, []string{"hook", "status"}),
		lost: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_events_dropped_total", Help: "Events that were not published because their user had too many (rationed), or that newer ones displaced within 10 minutes (displaced).",
		}, []string{"severity", "reason"}),
		turnedAway: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "berth_connections_refused_total", Help: "Connections that were turned away because their user, or all users together, had too many open.",
		}),
		steps: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_throttle_steps_total", Help: "Steps that berth took by itself about devices that should run slower: power limits lowered, raised and restored, leases paced, fans set.",
		}, []string{"kind"}),
		tokens: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_token_failures_total", Help: "Requests whose token was refused, by reason: it was malformed or unknown, or it has expired or was revoked.",
		}, []string{"reason"}),
		dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "berth_hook_dropped_total", Help: "Events that were not sent to a hook because its queue was full.",
		}, []string{"hook"}),
	}
	for _, status := range []string{"granted", "failed", "withdrawn"} {
		e.asked.WithLabelValues(status) // present from the start, so that rates are right
	}
	for _, reason := range failures {
		e.unmet.WithLabelValues(reason)
	}
	for _, code := range gpu.EventCodes() {
		e.events.WithLabelValues(string(code))
	}
	for _, severity := range []gpu.Severity{gpu.Note, gpu.Warning, gpu.Serious} {
		e.lost.WithLabelValues(string(severity), Displaced)
		if severity != gpu.Note {
			e.lost.WithLabelValues(string(severity), Rationed)
		}
	}
	for _, kind := range throttle.Kinds() {
		e.steps.WithLabelValues(kind)
	}
	for _, reason := range from.TokenFailures {
		e.tokens.WithLabelValues(reason)
	}
	for _, name := range from.Hooks {
		e.dropped.WithLabelValues(name)
		for _, status := range hooks.Statuses() {
			e.hooks.WithLabelValues(name, string(status))
		}
	}
	build := prometheus.NewGauge(prometheus.GaugeOpts{
		Name: "berth_build_info", Help: "Always 1; the version is in the label.", ConstLabels: prometheus.Labels{"version": from.Version},
	})
	build.Set(1)
	watching := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "berth_monitoring", Help: "1 while devices are sampled; 0: nothing is measured, and no measurement shown.",
	}, func() float64 { return truth(from.Watching()) })
	unlogged := prometheus.NewCounterFunc(prometheus.CounterOpts{
		Name: "berth_log_dropped_total", Help: "Lines that were dropped because the log did not take them in time.",
	}, func() float64 {
		if from.Unlogged == nil {
			return 0
		}
		return float64(from.Unlogged())
	})
	expiry := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "berth_tls_expiry_timestamp_seconds", Help: "When the certificate of the daemon ends; 0: it has none.",
	}, func() float64 {
		if from.Expires == nil || from.Expires().IsZero() {
			return 0
		}
		return float64(from.Expires().Unix())
	})
	audited := func(name, help string, pick func(entries, failures uint64) uint64) prometheus.Collector {
		return prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help}, func() float64 {
			if from.Audit == nil {
				return 0
			}
			return float64(pick(from.Audit()))
		})
	}
	all := []prometheus.Collector{
		audited("berth_audit_entries_total", "Entries that were written to the audit log.", func(entries, _ uint64) uint64 { return entries }),
		audited("berth_audit_write_failures_total", "Entries that could not be written to the audit log, so that the act was refused, and failed syncs of it.", func(_, failures uint64) uint64 { return failures }),
		expiry, e.sampled, e.failed, e.events, e.asked, e.unmet, e.decided, e.hooks, e.lost, e.dropped, e.turnedAway, e.tokens, e.steps, build, watching, unlogged,
		&leases{from}, &pacing{from}, &reclaiming{from}, &remembering{from}, &dcgm{from, e.xids},
	}
	page := append(all,
		&devices{from},
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics()),
	)
	nameless := []prometheus.Collector{&work{from: from}, &consumption{from: from}}
	named := []prometheus.Collector{&work{from: from, named: true}, &consumption{from: from, named: true}, &holders{from}, &limits{from}}
	e.Nameless = promhttp.HandlerFor(registryOf(page, nameless), promhttp.HandlerOpts{})
	e.Handler = promhttp.HandlerFor(registryOf(page, named), promhttp.HandlerOpts{})
	// Of the metrics that every Go program has, the past keeps the cost of the daemon.
	e.rest = registryOf(all, named, []prometheus.Collector{
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "go_goroutines", Help: "Number of goroutines that currently exist."}, func() float64 { return float64(runtime.NumGoroutine()) }),
	})
	return e
}

// registryOf returns a registry of these collectors.
func registryOf(lists ...[]prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	for _, list := range lists {
		registry.MustRegister(list...)
	}
	return registry
}

// Cost counts one reading.
func (e *Exporter) Cost(c monitor.Cost) {
	if c.Err != nil {
		e.failed.WithLabelValues(c.GPU, c.Tier).Inc()
		return
	}
	e.sampled.WithLabelValues(c.Backend, c.Tier).Observe(c.Duration.Seconds())
}

// TurnedAway counts a caller that was turned away for lack of room.
func (e *Exporter) TurnedAway() { e.turnedAway.Inc() }

// Step counts a step about a device that berth took by itself.
func (e *Exporter) Step(kind string) { e.steps.WithLabelValues(kind).Inc() }

// TokenFailed counts a request whose token was refused.
func (e *Exporter) TokenFailed(reason string) { e.tokens.WithLabelValues(reason).Inc() }

// failures are the answers of the ledger that count as a failed request.
var failures = []string{"refused", "timeout"}

// Decided counts one answer to a request for a lease. A failed request counts once
// under its status, so that the statuses add up to all requests, and once under its
// reason in a separate metric.
func (e *Exporter) Decided(status string, took time.Duration) {
	if slices.Contains(failures, status) {
		e.unmet.WithLabelValues(status).Inc()
		status = "failed"
	}
	e.asked.WithLabelValues(status).Inc()
	e.decided.Observe(took.Seconds())
}

// Event counts one event.
func (e *Exporter) Event(event gpu.Event) {
	e.events.WithLabelValues(string(event.Code)).Inc()
	e.xids.note(&event)
}

// Delivery counts one attempt to send an event to a hook.
func (e *Exporter) Delivery(hook string, status hooks.Status) {
	e.hooks.WithLabelValues(hook, string(status)).Inc()
}

// The reasons for which an event is lost.
const (
	Rationed  = "rationed"  // there were too many about its user
	Displaced = "displaced" // newer events took its room
)

// Lost counts one event that readers cannot get.
func (e *Exporter) Lost(severity gpu.Severity, reason string) {
	e.lost.WithLabelValues(string(severity), reason).Inc()
}

// HookDropped counts one event that was not sent to a hook.
func (e *Exporter) HookDropped(hook string) { e.dropped.WithLabelValues(hook).Inc() }
