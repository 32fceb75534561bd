package tui

import (
	"cmp"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/view"
)

// Program is what this machine says of a process: its command, and what it takes of the
// processors and the memory of the machine. Of a daemon elsewhere nobody knows it.
type Program struct {
	Command string
	CPU     gpu.Opt[gpu.Percent] // of one processor, since the last look
	Host    gpu.Opt[gpu.MiB]     // resident
}

// processRow is a process on a device.
type processRow struct {
	key, user, name string
	pid             int
	gpu             string // UUID
	memory          gpu.Opt[gpu.MiB]
	load            gpu.Opt[gpu.Percent] // of the device, by the process
	lease           *api.Lease           // nil if there is none
	stray           *api.Stray           // nil if there is a lease
	evidence        string
	Program
}

// Watched returns the processes that the screen shows, by their numbers, with the names
// that the daemon has for them.
func (s *State) Watched() map[int]string {
	list := map[int]string{}
	for _, p := range s.allProcesses() {
		if p.pid != 0 {
			list[p.pid] = p.name
		}
	}
	return list
}

// allProcesses returns the processes on the devices: those of leases, and those under
// none.
func (s *machine) allProcesses() []processRow {
	var rows []processRow
	add := func(r processRow) {
		r.Program = s.facts.Programs[r.pid]
		if d, there := s.device(r.gpu); there && d.Sample != nil && r.pid != 0 {
			if v, known := d.Sample.ProcessUtilization[r.pid]; known {
				r.load = gpu.Some(v)
			}
		}
		rows = append(rows, r)
	}
	if s.facts.Leases != nil {
		for i := range s.facts.Leases.Leases {
			l := &s.facts.Leases.Leases[i]
			for n, p := range l.Processes {
				add(processRow{
					key: fmt.Sprintf("%s process %s %d %d", leaseKey(l), p.GPU, p.PID, n), user: l.Holder.User, name: p.Name, pid: p.PID, gpu: p.GPU,
					memory: gpu.Some(p.Memory), lease: l, evidence: p.Evidence,
				})
			}
		}
	}
	if s.facts.Strays != nil {
		for _, list := range [][]api.Stray{s.facts.Strays.Orphans, s.facts.Strays.Foreign} {
			for i := range list {
				p := &list[i]
				add(processRow{key: fmt.Sprintf("stray %s %d %s", p.GPU, p.PID, p.Name), user: p.User, name: p.Name, pid: p.PID, gpu: p.GPU, memory: p.Memory, stray: p})
			}
		}
	}
	return rows
}

// processRows returns the processes that match the filter, in order, and of equal ones the
// one with the most memory first.
func (s *State) processRows() []processRow {
	rows := slices.DeleteFunc(s.allProcesses(), func(p processRow) bool {
		return !s.matches(p.name, p.user, p.leaseName(), strconv.Itoa(p.pid), p.Command, "GPU "+s.index(p.gpu))
	})
	by := s.processOrders()[s.order[Processes]]
	slices.SortStableFunc(rows, func(a, b processRow) int {
		return cmp.Or(s.turnedBy(Processes, by.compare(a, b)), cmp.Compare(b.memory.Or(-1), a.memory.Or(-1)), cmp.Compare(a.pid, b.pid))
	})
	return rows
}

// leaseName returns the lease of a process in a column.
func (p processRow) leaseName() string {
	switch {
	case p.lease != nil:
		return p.lease.ID
	case p.stray.Lease != "":
		return "(was " + p.stray.Lease + ")"
	}
	return "(no lease)"
}

// command returns the command of a process, or its name if nobody knows the command.
func (p processRow) command() string { return cmp.Or(p.Command, p.name, "-") }

// short returns the command for a column, without the folder of its program.
func (p processRow) short() string {
	program, rest, _ := strings.Cut(p.command(), " ")
	return strings.TrimSpace(path.Base(program) + " " + rest)
}

// processOrders returns the orders for processes, in the sequence in which a key goes
// through them.
func (s *machine) processOrders() []order[processRow] {
	place := func(p processRow) int {
		if d, there := s.device(p.gpu); there {
			return d.Device.Index
		}
		return 1 << 20
	}
	return []order[processRow]{
		{"GPU", func(a, b processRow) int { return cmp.Compare(place(a), place(b)) }},
		{"GPU GiB", func(a, b processRow) int { return cmp.Compare(b.memory.Or(-1), a.memory.Or(-1)) }},
		{"LOAD", func(a, b processRow) int { return cmp.Compare(b.load.Or(-1), a.load.Or(-1)) }},
		{"CPU", func(a, b processRow) int { return cmp.Compare(b.CPU.Or(-1), a.CPU.Or(-1)) }},
		{"RAM GiB", func(a, b processRow) int { return cmp.Compare(b.Host.Or(-1), a.Host.Or(-1)) }},
		{"USER", func(a, b processRow) int { return cmp.Compare(a.user, b.user) }},
	}
}

func (s *State) processColumns() []column[processRow] {
	return columnsOf(s.processes, nil, itself, []column[processRow]{
		{title: "GPU", least: 4, most: 4, right: true, cell: func(p processRow, _ int) line { return text(s.index(p.gpu), strong) }},
		{title: "PID", least: 8, most: 10, cell: func(p processRow, _ int) line { return text(view.PID(p.pid), ordinary) }},
		{title: "USER", least: 6, most: 14, drop: 3, cell: func(p processRow, _ int) line { return text(plain(p.user), ordinary) }},
		{title: "GPU GiB", least: 8, most: 8, right: true, cell: func(p processRow, _ int) line { return text(gibOr(p.memory), ordinary) }},
		{title: "LOAD", least: 5, most: 5, right: true, drop: 4, cell: func(p processRow, _ int) line { return text(percent(p.load), ordinary) }},
		{title: "CPU", least: 5, most: 5, right: true, cell: func(p processRow, _ int) line { return text(view.Number(p.CPU, "%.0f%%"), ordinary) }},
		{title: "RAM GiB", least: 8, most: 8, right: true, cell: func(p processRow, _ int) line { return text(gibOr(p.Host), ordinary) }},
		{title: "LEASE", least: 10, most: 30, fitted: true, drop: 2, cell: func(p processRow, width int) line {
			if p.lease == nil {
				return text(plain(p.leaseName()), warning)
			}
			return text(idCut(p.leaseName(), width), ordinary)
		}},
		{title: "COMMAND", name: "COMMAND " + s.count(len(s.processes), len(s.allProcesses())), least: 14, most: 400, cell: func(p processRow, _ int) line { return text(plain(p.short()), faint) }},
	})
}

// chosenProcess returns the chosen process, or nil if none is chosen.
func (s *State) chosenProcess() *processRow {
	key := s.chosenKey(Processes)
	return find(s.processes, func(p *processRow) bool { return key != "" && p.key == key })
}

// processDetail writes everything that is known about a process.
func (s *machine) processDetail(p processRow, width int) []line {
	or := func(known bool, text string) string {
		if !known {
			return ""
		}
		return text
	}
	belongs := ""
	if p.evidence != "" {
		belongs = "it belongs there by " + p.evidence
	}
	host := or(p.Host.Known(), p.Host.Or(0).String()+" of the machine's memory")
	cpu := or(p.CPU.Known(), fmt.Sprintf("%.0f %% of one processor", float64(p.CPU.Or(0))))
	machine := view.Join(cpu, host)
	if machine == "" {
		machine = "not known here: berth top reads processes of its own machine, and only those that the daemon tells it of"
	}
	next := ""
	switch {
	case p.lease != nil:
		next = "c cancels the lease: it ends all programs of the lease, and this one with them"
	case p.pid != 0:
		next = fmt.Sprintf("berth adopt --pid %d puts it under a lease; to end it, kill %d", p.pid, p.pid)
	}
	return facts(" Process "+pid(p.pid), []fact{
		{"command", p.command()}, {"program", p.name}, {"user", p.user}, {"GPU", s.name(p.gpu)},
		{"GPU memory", or(p.memory.Known(), p.memory.Or(0).String())}, {"GPU load", or(p.load.Known(), percent(p.load))},
		{"machine", machine}, {"lease", view.Join(p.leaseName(), belongs)}, {"next", next},
	}, width)
}
