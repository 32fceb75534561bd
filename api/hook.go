package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

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
