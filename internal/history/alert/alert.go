// Package alert evaluates alert rules as Prometheus does.
//
// An alert is one element of the answer to the expression of a rule, identified by its
// labels. It is pending from the first answer that has it, fires when it has been there
// for the time that the rule asks for, and is resolved by the first answer without it,
// or, with keep_firing_for, by the first one after that time.
//
// The package reads rules with Prometheus' own reader, and expands templates with its
// functions. It publishes an event when an alert fires or is resolved, for the log,
// streams and hooks. ALERTS and the results of recording rules go to the store. A small
// file keeps the alerts across a restart, with who acknowledged them.
//
// The rules of what an answer means need no clock and no I/O: Step, Tell, Restore and
// carry get answers and times as arguments.
package alert

import (
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"github.com/berth-gpu/berth/gpu"
)

// Names of labels and series, as Prometheus has them.
const (
	NameLabel     = "alertname"
	SeverityLabel = "severity"
	PhaseLabel    = "alertstate"
	Series        = "ALERTS"
	SinceSeries   = "ALERTS_FOR_STATE"
)

// Phase is the phase of an alert.
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
	Labels      labels.Labels // with alertname
	Annotations labels.Labels // expanded
	Phase       Phase
	Value       float64   // in the newest answer that had it
	ActiveAt    time.Time // time of the first answer that had it
	FiredAt     time.Time // zero if it is pending
	// KeptSince is the time of the first answer without it, while keep_firing_for lets it
	// fire. It is zero if the newest answer has the alert.
	KeptSince time.Time

	Told         time.Time        // when an event last said that it fires; zero if none has
	Acknowledged *Acknowledgement // nil if nobody acknowledged it
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

// Acknowledgement says that somebody takes care of an alert. It does not change.
type Acknowledgement struct {
	By      gpu.By    `json:"by"`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until"`
	Comment string    `json:"comment,omitempty"`
}

// Fingerprint returns the fingerprint of labels. Alertmanager identifies the alert by the
// same fingerprint.
func Fingerprint(l labels.Labels) string {
	return model.Fingerprint(model.LabelsToSignature(l.Map())).String()
}
