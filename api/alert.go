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
