package api

import (
	"time"

	"github.com/berth-gpu/berth/gpu"
)

// Service is a service whose program berth runs.
type Service struct {
	Name   string   `json:"name" example:"chat"`
	Models []string `json:"models,omitempty" doc:"The names of models that mean the service; * stands for any characters."`
	User   string   `json:"user" doc:"Whom the program runs as."`

	State string    `json:"state" enum:"away,waiting,starting,ready,closing,leaving,parked,asleep,returning,failed,stopped" doc:"away: its program does not run. waiting: it waits for its lease. starting: its program runs and is not ready. ready: it takes requests. closing: it takes no more, and ends those that it has. leaving: it is parked, put to sleep or stopped. returning: it comes back from where it was parked or asleep. failed: it failed, and is started again after a pause. stopped: a person stopped it."`
	Since time.Time `json:"since" doc:"Since when it is in this state."`
	Why   string    `json:"why,omitempty" doc:"Why it is in this state, in words."`

	Start   string `json:"start" enum:"on_demand,always,never"`
	Away    string `json:"away" enum:"auto,park,sleep,stop" doc:"How it is sent away, as its settings say."`
	Goes    string `json:"goes,omitempty" enum:"park,sleep,stop" doc:"How it would be sent away now."`
	GoesWhy string `json:"goes_why,omitempty" doc:"Why that way, in words."`

	Lease   string           `json:"lease,omitempty" doc:"The id of its lease, while it has one."`
	Devices []string         `json:"devices,omitempty" doc:"UUIDs of the devices that it is on, or will return to."`
	Memory  gpu.Opt[gpu.MiB] `json:"memory_mb,omitzero" doc:"The memory that it leases on each device. Absent: a whole device, because it is not known yet."`
	Learned bool             `json:"learned,omitempty" doc:"The memory was learned from earlier runs."`

	Open       int       `json:"open" doc:"Requests that it answers now."`
	Waiting    int       `json:"waiting" doc:"Requests that wait for it."`
	LastAnswer time.Time `json:"last_answer,omitzero" doc:"When its last answer ended. Absent: none has since the front began."`

	Callers []ServiceCaller `json:"callers,omitempty" doc:"Who has requests open or waiting, by name. For its user and operators."`

	Requests  uint64 `json:"requests" doc:"Since the start of the daemon, as the following."`
	Failed    uint64 `json:"failed_requests"`
	Refused   uint64 `json:"refused_requests"`
	TokensIn  uint64 `json:"tokens_in"`
	TokensOut uint64 `json:"tokens_out"`
	Switches  uint64 `json:"switches" doc:"How often it came to a device."`

	Took ServiceTimes `json:"took" doc:"How long its comings and goings took."`

	Failure *ServiceFailure `json:"failure,omitempty" doc:"The last failure, until it was ready again."`
	Stopped *FrontStopped   `json:"stopped,omitempty" doc:"Who stopped it."`

	Port      int      `json:"port,omitempty" doc:"Where its program listens, on 127.0.0.1."`
	PID       int      `json:"pid,omitempty" doc:"The process that berth started. For its user and operators, as the following."`
	Command   []string `json:"command,omitempty"`
	Directory string   `json:"directory,omitempty"`
	Log       string   `json:"log,omitempty" doc:"The file with its output."`
}

// ServiceCaller is somebody who uses a service, or waits for it.
type ServiceCaller struct {
	User    string  `json:"user,omitempty" doc:"Login name, user id if there is none, or token:NAME. Absent: those whom the front did not keep apart."`
	Open    int     `json:"open,omitempty"`
	Waiting int     `json:"waiting,omitempty"`
	Used    float64 `json:"used" doc:"The share of the machine that they have used through services, from 0 to 1; what is 5 minutes old counts half. A service waits in the place of that caller who has used least."`
}

// Services lists the services whose programs berth runs.
type Services struct {
	Services []Service   `json:"services" doc:"In the order of their names."`
	Front    *FrontState `json:"front,omitempty" doc:"Where requests for services come in. Absent: nowhere, because front.listen is not set."`
}

// FrontState says how the front is.
type FrontState struct {
	Listen  string `json:"listen" doc:"Where it has to take requests: front.listen." example:"127.0.0.1:8080"`
	Address string `json:"address,omitempty" doc:"Where it takes requests. Absent: it does not."`
	Why     string `json:"why,omitempty" doc:"Why it does not, in words."`
}

// ServiceTimes says how long the comings and goings of a service took, each as a running
// mean of the last ones. What never happened is absent.
type ServiceTimes struct {
	Start  ServiceTime `json:"start,omitzero" doc:"From the start of its program until it was ready."`
	Stop   ServiceTime `json:"stop,omitzero" doc:"From the order to stop until its memory was free."`
	Park   ServiceTime `json:"park,omitzero"`
	Resume ServiceTime `json:"resume,omitzero"`
	Sleep  ServiceTime `json:"sleep,omitzero"`
	Wake   ServiceTime `json:"wake,omitzero"`
}

// ServiceTime is how long something took.
type ServiceTime struct {
	Seconds float64 `json:"seconds" doc:"The mean, in which later ones weigh more."`
	Last    float64 `json:"last_seconds"`
	Count   int     `json:"count"`
}

// ServiceFailure says how a service failed.
type ServiceFailure struct {
	At    time.Time `json:"at"`
	Why   string    `json:"why"`
	Count int       `json:"count" doc:"How often it failed since it was last ready for a while."`
	Next  time.Time `json:"next,omitzero" doc:"When it is started again, if somebody asks. Absent: not by itself."`
	Log   []string  `json:"log,omitempty" doc:"The last lines of its log. For its user and operators."`
}

// ServiceOrder starts, stops, restarts or moves a service.
type ServiceOrder struct {
	Why string `json:"why,omitempty" maxLength:"256" doc:"The reason, for those who read the events or whose requests are refused."`
	GPU string `json:"gpu,omitempty" maxLength:"128" doc:"Index or UUID of the device that it shall come to; for move alone."`
}
