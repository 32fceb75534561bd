// Package service has the words and the rules for services whose programs berth runs: in
// which state such a service is, what follows from what happens to it, and in which way it
// is sent away.
//
// Pure: no clock, no I/O.
package service

import (
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// Spec is what the settings say about a service and its program.
type Spec struct {
	Name string

	Command     []string // never empty. ${PORT} in it, and in Environment, is the port of the server
	User        string
	UID         int      // negative: nobody knows the user, and nothing is started until somebody does
	Directory   string   // empty: the home of the user
	Environment []string // NAME=value, beside what every program of the user has
	Port        int      // 0: berth chooses one that is free

	Memory gpu.Opt[gpu.MiB] // absent: learned from earlier runs, or else a whole device
	GPUs   int              // 0 means 1

	Ready        Ready
	StartTimeout time.Duration // from the start of its program until it is ready
	Start        Start
	Restart      bool // start: always starts it again after it has ended

	IdleAfter gpu.Opt[time.Duration] // it is sent away so long after its last answer; absent: only if others need the room
	Away      Way
	Sleep     []api.FrontHTTPCall
	Wake      []api.FrontHTTPCall
	Default   bool          // it comes back when nobody asks for another one
	Slice     time.Duration // how long requests may go on after it takes no more

	Models  []string
	Hosts   []string
	Ignore  []string
	Users   []string // as api.FrontService
	MaxOpen int
}

// Ready says how its server shows that it is ready. At most one field is set; if none is,
// it accepts connections.
type Ready struct {
	Path string // GET of it is answered with 200
	Log  string // a line of its log has this text
}

// Start says when a service is started.
type Start string

// When a service is started.
const (
	OnDemand Start = "on_demand"
	Always   Start = "always"
	Never    Start = "never" // a person starts it
)

// Way is a way to send a service away.
type Way string

// The ways.
const (
	Auto  Way = "auto" // the one whose next switch is shortest
	Park  Way = "park"
	Sleep Way = "sleep"
	Stop  Way = "stop"
)
