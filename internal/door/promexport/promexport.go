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
	"github.com/berth-gpu/berth/internal/enforce/throttle"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/hooks"
)

// Exporter serves the page and counts single events.
type Exporter struct {
	http.Handler
	// Nameless serves the page without the lines that name users, services and hooks.
	Nameless http.Handler

	sampled *prometheus.HistogramVec
	failed  *prometheus.CounterVec
	events  *prometheus.CounterVec
	byCode  map[gpu.EventCode]prometheus.Counter // those of events: looking one up takes longer than counting
	asked   *prometheus.CounterVec
	unmet   *prometheus.CounterVec
	decided prometheus.Histogram
	hooks   *prometheus.CounterVec
	lost    *prometheus.CounterVec
	dropped *prometheus.CounterVec
	calls   *prometheus.CounterVec // names users

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
		from: from, xids: &xids{}, byCode: map[gpu.EventCode]prometheus.Counter{},
		sampled: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "berth_sample_duration_seconds", Help: "What reading a device cost, by tier: fast every tick, slow rarely.",
			Buckets: []float64{10e-6, 25e-6, 50e-6, 100e-6, 250e-6, 1e-3, 5e-3, 25e-3, 100e-3, 1},
		}, []string{"backend", "tier"}),
		decided: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "gpu_allocation_duration_seconds", Help: "From a request to its answer, waiting in the queue included.",
			Buckets: []float64{100e-6, 250e-6, 500e-6, 1e-3, 2.5e-3, 10e-3, 100e-3, 1, 10, 60},
		}),
		turnedAway: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "berth_connections_refused_total", Help: "Connections that were turned away because their user, or all users together, had too many open.",
		}),
		failed:  counters("berth_sample_failures_total", "Readings that a device did not answer.", "gpu", "tier"),
		events:  counters("berth_events_total", "Events that happened, by code, those that were rationed included.", "code"),
		asked:   counters("gpu_allocation_requests_total", "Requests for a lease that were answered: granted, failed, or withdrawn by whoever asked.", "status"),
		unmet:   counters("gpu_allocation_failures_total", "Requests for a lease that failed, by reason: refused at once, or timeout after waiting.", "reason"),
		hooks:   counters("berth_hook_deliveries_total", "Attempts to tell a hook of an event: delivered, retried, or failed for good.", "hook", "status"),
		lost:    counters("berth_events_dropped_total", "Events that were not published because their user had too many (rationed), or that newer ones displaced within 10 minutes (displaced).", "severity", "reason"),
		steps:   counters("berth_throttle_steps_total", "Steps that berth took by itself about devices that should run slower: power limits lowered, raised and restored, leases paced, fans set.", "kind"),
		tokens:  counters("berth_token_failures_total", "Requests whose token was refused, by reason: it was malformed or unknown, or it has expired or was revoked.", "reason"),
		calls:   counters("berth_calls_total", "Calls of the API, by route and user. A call on a lease stream counts under the route of the stream.", "route", "user"),
		dropped: counters("berth_hook_dropped_total", "Events that were not sent to a hook because its queue was full.", "hook"),
	}
	for _, status := range []string{"granted", "failed", "withdrawn"} {
		e.asked.WithLabelValues(status) // present from the start, so that rates are right
	}
	for _, reason := range failures {
		e.unmet.WithLabelValues(reason)
	}
	for _, code := range gpu.EventCodes() {
		e.byCode[code] = e.events.WithLabelValues(string(code))
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
	counted := []prometheus.Collector{e.sampled, e.failed, e.events, e.asked, e.unmet, e.decided, e.lost, e.turnedAway, e.tokens, e.steps, build}
	process := []prometheus.Collector{
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics()),
	}
	devices := group{deviceFamilies(), putDevices}
	rest := []group{single(), leased, pacing, reclaiming, remembering, jobs, {dcgmFamilies(), e.putDCGM}}
	named := append(slices.Clip(rest), programs(from.Labels), work(from.Labels), holders(from.Labels), sums(from.Labels), limits)
	e.Nameless = promhttp.HandlerFor(e.registry(append(slices.Clip(rest), work(nil), devices), counted, process), promhttp.HandlerOpts{})
	telling := []prometheus.Collector{e.calls, e.hooks, e.dropped}
	e.Handler = promhttp.HandlerFor(e.registry(append(slices.Clip(named), devices), counted, telling, process), promhttp.HandlerOpts{})
	// Of the metrics that every Go program has, the past keeps the cost of the daemon.
	e.rest = e.registry(named, counted, telling, []prometheus.Collector{
		process[0],
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "go_goroutines", Help: "Number of goroutines that currently exist."}, func() float64 { return float64(runtime.NumGoroutine()) }),
	})
	return e
}

// counters returns counters by the values of labels.
func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
}

// registry returns a registry of groups and other collectors.
func (e *Exporter) registry(groups []group, others ...[]prometheus.Collector) *prometheus.Registry {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&page{&e.from, groups})
	for _, list := range others {
		registry.MustRegister(list...)
	}
	return registry
}

// Show sets where the numbers come from, for an exporter that began to count before
// those who have them were there. Nobody may have asked it for numbers yet.
func (e *Exporter) Show(devices func() Devices, look func() Values) {
	e.from.Devices, e.from.Look = devices, look
}

// Cost counts one reading.
func (e *Exporter) Cost(c monitor.Cost) {
	if c.Err != nil {
		e.failed.WithLabelValues(c.GPU, c.Tier).Inc()
		return
	}
	e.sampled.WithLabelValues(c.Backend, c.Tier).Observe(c.Duration.Seconds())
}

// Called counts a call of the API. The route is one of those that the API has. A caller
// who is nobody known has the empty label.
func (e *Exporter) Called(route, user string) {
	if user != "" {
		user = e.from.Labels.User(user)
	}
	e.calls.WithLabelValues(route, user).Inc()
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
	e.count(event.Code)
	for _, code := range event.Also {
		e.count(code)
	}
	e.xids.note(&event)
}

func (e *Exporter) count(code gpu.EventCode) {
	if counter, listed := e.byCode[code]; listed {
		counter.Inc()
		return
	}
	e.events.WithLabelValues(string(code)).Inc()
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
