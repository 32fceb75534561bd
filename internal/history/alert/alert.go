// Package alert evaluates alert rules as Prometheus does.
//
// An alert is one element of the answer to the expression of a rule, known by
// its labels: it is pending from the first answer that has it, fires when it
// has been there for the time that the rule asks for, and is resolved by the
// first answer without it, or, with keep_firing_for, by the first one after
// that time.
//
// Rules are read with Prometheus' own reader, and templates are expanded with
// its own functions. What fires and what is resolved becomes an event, so that it
// reaches the log, streams and hooks; ALERTS and the results of recording rules
// go to the store. The alerts survive a restart in a small file, with who
// acknowledged them.
//
// What an answer means is decided without a clock and without I/O: answers and
// times are arguments of Step, Tell, Restore and carry.
package alert

import (
	"encoding/hex"
	"hash/fnv"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/history/series"
)

// Names of labels and series, as Prometheus has them.
const (
	NameLabel     = "alertname"
	SeverityLabel = "severity"
	PhaseLabel    = "alertstate"
	Series        = "ALERTS"
	SinceSeries   = "ALERTS_FOR_STATE"
)

// Phase says where an alert stands.
type Phase string

// The phases, as Prometheus writes them.
const (
	Inactive Phase = "inactive"
	Pending  Phase = "pending"
	Firing   Phase = "firing"
)

// State is an alert that is pending or fires.
type State struct {
	Fingerprint string        // of the labels
	Labels      series.Labels // with alertname
	Annotations series.Labels // expanded
	Phase       Phase
	Value       float64   // of the newest answer that had it
	ActiveAt    time.Time // of the first answer that had it
	FiredAt     time.Time // zero: it is pending
	// KeptSince is the time of the first answer without it, while keep_firing_for
	// lets it fire; zero: the newest answer has it.
	KeptSince time.Time

	Told         time.Time        // when people last heard that it fires; zero: they have not
	Acknowledged *Acknowledgement // nil: nobody did
}

// Name returns the name of the alert.
func (s *State) Name() string { return s.Labels.Get(NameLabel) }

// Severity returns how much the alert matters: critical if its label says so,
// and otherwise warning.
func (s *State) Severity() gpu.Severity {
	if s.Labels.Get(SeverityLabel) == string(gpu.Serious) {
		return gpu.Serious
	}
	return gpu.Warning
}

// Acknowledgement says that somebody takes care of an alert.
type Acknowledgement struct {
	By      gpu.By
	At      time.Time
	Until   time.Time
	Comment string
}

// Fingerprint returns the fingerprint of labels, which are in the order of their
// names. It is the one by which Alertmanager knows the alert.
func Fingerprint(labels series.Labels) string {
	h := fnv.New64a()
	end := []byte{0xff} // in no label
	for _, l := range labels {
		_, _ = h.Write([]byte(l.Name)) // a hash takes everything
		_, _ = h.Write(end)
		_, _ = h.Write([]byte(l.Value))
		_, _ = h.Write(end)
	}
	return hex.EncodeToString(h.Sum(nil))
}
