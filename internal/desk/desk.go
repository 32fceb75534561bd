// Package desk decides what becomes of a question: who asks, for what, and what they get.
//
// Every door brings its callers here, so that every lease is requested, equipped and
// given back in the same way, whichever door the question came through.
//
// Each subject is a type, with the parts of the daemon that it needs. A subject asks those
// that stand above it here, and no other:
//
//	Devices    how they are, drains, checks
//	People     quotas, tokens
//	Memory     what earlier runs used
//	Foresight  when requests will be granted
//	Leases     from the request to the end
//	Attention  what may need a person
//	Strays     processes without a lease
//	Jobs       programs that berth runs for its users
//	Services   programs that berth brings when somebody asks
//	Plans      pipelines
//
// The desk takes and returns the types of the API, and refuses with a *Refusal, whose
// code never changes. It knows neither HTTP nor any other protocol.
package desk

import (
	"io"
	"sync/atomic"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/lease/numbers"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// Desk answers the questions of callers, each subject its own.
type Desk struct {
	Devices   *Devices
	People    *People
	Memory    *Memory
	Foresight *Foresight
	Leases    *Leases
	Attention *Attention
	Strays    *Strays
	Jobs      *Jobs
	Services  *Services
	Plans     *Plans

	socket string // of the daemon, for minders
	backup func(to io.Writer, what BackupQuery) error
	record recorder
}

// New returns a desk with these parts.
func New(p Parts) *Desk {
	if p.MPS == nil {
		p.MPS = noMPS{}
	}
	if p.Energy == nil {
		p.Energy = energy.New(energy.Options{})
	}
	if p.Config == nil {
		p.Config = func() *config.Config { return &config.Config{} }
	}
	if p.Limits == nil {
		p.Limits = &atomic.Pointer[quota.Rules]{}
		p.Limits.Store(&quota.Rules{})
	}
	if p.Numbers == nil {
		p.Numbers = numbers.New()
	}
	record := recorder(p.Record)
	if record == nil {
		record = func(api.AuditEntry) error { return nil }
	}
	d := &Desk{
		Devices: &Devices{
			monitor: p.Monitor, ledger: p.Ledger, energy: p.Energy, drains: p.Drains, checkup: p.Checkup, throttle: p.Throttle,
			config: p.Config, publish: p.Publish, note: p.Note, record: record,
		},
		People:    &People{users: p.Users, tokens: p.Tokens, limits: p.Limits, ledger: p.Ledger, keeper: p.Jobs, processes: p.Processes, record: record},
		Memory:    &Memory{peaks: p.Peaks, ledger: p.Ledger, config: p.Config},
		Foresight: &Foresight{peaks: p.Peaks, ledger: p.Ledger, config: p.Config},
		Strays:    &Strays{monitor: p.Monitor, ledger: p.Ledger, processes: p.Processes, users: p.Users, mps: p.MPS},
		socket:    p.Socket, backup: p.Backup, record: record,
	}
	d.Leases = &Leases{
		devices: d.Devices, people: d.People, memory: d.Memory, foresight: d.Foresight,
		equip: &equipper{
			devices: d.Devices, ledger: p.Ledger, mps: p.MPS, groups: p.Groups, checkup: p.Checkup, clearedBy: p.ClearedBy, config: p.Config,
		},
		ledger: p.Ledger, peaks: p.Peaks, monitor: p.Monitor, processes: p.Processes, numbers: p.Numbers, mps: p.MPS, parking: p.Parking, pacer: p.Pacer,
		optimizer: p.Optimizer, idle: p.Idle, faults: p.Faults, config: p.Config, publish: p.Publish, record: record,
	}
	d.Attention = &Attention{leases: d.Leases, monitor: p.Monitor, ledger: p.Ledger, peaks: p.Peaks, mps: p.MPS}
	d.Jobs = &Jobs{
		leases: d.Leases, devices: d.Devices, foresight: d.Foresight,
		keeper: p.Jobs, logs: p.Logs, ledger: p.Ledger, monitor: p.Monitor, watchdog: p.Watchdog, processes: p.Processes, config: p.Config, record: record,
	}
	d.Services = &Services{
		leases: d.Leases, devices: d.Devices,
		owner: p.Services, front: p.Front, logs: p.Logs, operations: p.Operations, ledger: p.Ledger, users: p.Users, config: p.Config, record: record,
	}
	d.Plans = &Plans{leases: d.Leases, devices: d.Devices, ledger: p.Ledger, monitor: p.Monitor, peaks: p.Peaks, cpus: p.CPUs, config: p.Config, publish: p.Publish}
	return d
}
