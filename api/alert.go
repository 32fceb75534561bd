package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Alerts lists the alerts that are pending or firing.
type Alerts struct {
	Alerts []Alert `json:"alerts" doc:"Those that fire first, the critical ones before others, and then the newest."`
	Note   string  `json:"note,omitempty" doc:"Why no rules are evaluated; absent: they are."`
}

// Alert is an alert that is pending or firing.
type Alert struct {
	Fingerprint  string            `json:"fingerprint" example:"f3c2b1a09e8d7c6b" doc:"Identifies the alert by its labels, as in Alertmanager."`
	Alert        string            `json:"alert" example:"GPUTemperatureHigh" doc:"Name of the alert."`
	Severity     gpu.Severity      `json:"severity" enum:"warning,critical" doc:"critical if the label severity says so, else warning."`
	State        string            `json:"state" enum:"pending,firing" doc:"pending: what the rule asks for is true, and not for long enough."`
	Labels       map[string]string `json:"labels"`
	Annotations  map[string]string `json:"annotations"`
	Value        *float64          `json:"value,omitempty" doc:"What the expression of the rule says; absent: it is not a finite number."`
	Since        time.Time         `json:"since" doc:"Since when what the rule asks for is true."`
	FiredAt      *time.Time        `json:"fired_at,omitempty" doc:"Since when it fires; absent: it is pending."`
	Acknowledged *Acknowledgement  `json:"acknowledged,omitempty" doc:"Who takes care of it; absent: nobody has said so."`
}

// Acknowledgement says that somebody takes care of an alert.
type Acknowledgement struct {
	By      string    `json:"by" doc:"Login name, or the name of a token."`
	At      time.Time `json:"at"`
	Until   time.Time `json:"until" doc:"When it ends, unless the alert is resolved before."`
	Comment string    `json:"comment,omitempty"`
}

// AcknowledgeRequest asks to acknowledge an alert.
type AcknowledgeRequest struct {
	Hours   float64 `json:"hours,omitempty" minimum:"0.01" maximum:"720" default:"4" doc:"How long it lasts. It ends before if the alert is resolved."`
	Comment string  `json:"comment,omitempty" maxLength:"200" doc:"What is done about it, for others to read."`
}

// Hooks lists the hooks of the configuration.
type Hooks struct {
	Hooks []Hook `json:"hooks" doc:"In the order of their names."`
}

// Hook describes a hook and its last delivery. Its address, its secret and its
// command are in the configuration, which administrators read.
type Hook struct {
	Name     string        `json:"name" example:"pager"`
	Kind     string        `json:"kind" enum:"url,command"`
	Codes    []string      `json:"codes" doc:"The codes of events that it gets; empty: all."`
	Severity gpu.Severity  `json:"severity" doc:"The least severity of events that it gets."`
	Waiting  int           `json:"waiting" doc:"Events that it has not received yet."`
	Last     *HookDelivery `json:"last,omitempty" doc:"The last attempt to deliver something; absent: there was none since the daemon started."`
}

// HookDelivery is one attempt to deliver an event to a hook.
type HookDelivery struct {
	Time        time.Time     `json:"time" doc:"When it began."`
	Event       uint64        `json:"event" doc:"Id of the event."`
	Code        gpu.EventCode `json:"code" doc:"Code of the event; hook for a test."`
	Status      string        `json:"status" enum:"delivered,retried,failed" doc:"retried: it failed and is tried again."`
	TookSeconds float64       `json:"took_seconds"`
	Error       string        `json:"error,omitempty" doc:"Why it failed; absent: it did not."`
}

// HookTest is the result of testing a hook.
type HookTest struct {
	Hook string `json:"hook"`
	Kind string `json:"kind" enum:"url,command"`
	HookDelivery
}
