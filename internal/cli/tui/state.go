package tui

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/fleet"
	"github.com/berth-gpu/berth/internal/cli/view"
)

// State is the content of a screen. Its methods change it; Frame writes it.
type State struct {
	machine
	Width, Height int
	Colours       bool
	Version       string        // of this program
	Interval      time.Duration // how often the daemon is asked

	gpus      []fleet.Row     // devices that match the filter, in order
	leases    []row           // leases and processes that match the filter, in order
	queue     []api.Waiting   // requests that match the filter
	services  []api.Service   // services that match the filter
	jobs      []api.Job       // jobs that match the filter, in order
	processes []processRow    // processes that match the filter, in order
	users     []userRow       // users that match the filter, in order
	news      []gpu.Event     // events that match the filter, newest first
	seen      uint64          // id of the newest event that the screen has shown
	keys      [panes][]string // of these rows, to find a row again
	needs     []need          // what needs a person, the worst first

	pane    Pane
	cursor  [panes]string // key of the chosen row; empty for the first
	place   [panes]int    // the last index of that row
	top     [panes]int    // number of rows above the first visible one
	zoomed  bool          // the pane has the whole screen
	tree    bool          // processes are shown under their leases
	order   [panes]int    // see gpuOrders, leaseOrders and processOrders
	turned  [panes]bool   // the order is reversed
	filter  string
	typing  bool // keys go to the filter
	detail  *detail
	dialog  *dialog
	help    int // lines that the help is scrolled up; -1 if it is hidden
	said    line
	saidAt  time.Time
	working string // what the daemon is doing for the user
}

// machine has the facts about the machine or the machines, and their time.
type machine struct {
	Now time.Time

	// Local says that no daemon runs, and that the devices are those that this process
	// sees. Nothing can be changed then.
	Local bool

	// Several says that the screen shows several machines: their devices and their
	// leases. It only looks at them. Asking says what is going on if asking takes long.
	Several bool
	Asking  string
	nodes   nodes
	parts   []fleet.Part // the leases

	facts   Facts
	curves  map[string]curve           // by UUID
	events  []gpu.Event                // oldest first
	reasons map[string]api.Explanation // why requests wait, by Request.Key
	lost    *outage                    // nil while the daemon answers
}

// Facts has answers of the daemon. A nil field has not changed.
type Facts struct {
	Status    *api.StatusAll
	Available *api.Available
	Leases    *api.Leases
	Strays    *api.Strays
	Services  *api.Services
	Jobs      *api.Jobs
	Programs  map[int]Program            // what this machine says of processes, by pid
	Reasons   map[string]api.Explanation // why requests wait, by Request.Key
	Samples   map[string][]gpu.Sample    // of the last minutes, by UUID
	Refused   string                     // why the daemon does not list the leases; empty if it does
	At        time.Time
}

// outage is a daemon that does not answer.
type outage struct {
	since time.Time
	why   string
}

// Pane is a part of the screen that can have the keys.
type Pane int

// The panes, in the order of their keys.
const (
	Devices Pane = iota
	Leases
	Queue
	Events
	Services
	Jobs
	Processes
	Users
	panes
)

// downward has the panes from top to bottom.
var downward = [panes]Pane{Devices, Leases, Services, Jobs, Queue, Users, Events, Processes}

// mostEvents limits the events that a screen keeps.
const mostEvents = 500

// New returns an empty screen.
func New() *State {
	return &State{machine: machine{curves: map[string]curve{}, reasons: map[string]api.Explanation{}}, help: -1}
}

// Take takes answers of the daemon. A daemon that was away is back.
func (s *State) Take(f Facts) {
	if f.Status != nil {
		s.facts.Status, s.facts.At, s.lost = f.Status, f.At, nil
		for _, d := range f.Status.GPUs {
			if d.Sample != nil && !d.Stale {
				s.curves[d.Device.UUID] = s.curves[d.Device.UUID].add(pointOf(*d.Sample))
			}
		}
	}
	for uuid, samples := range f.Samples {
		for _, sample := range samples {
			s.curves[uuid] = s.curves[uuid].add(pointOf(sample))
		}
	}
	s.facts.Available, s.facts.Strays = cmp.Or(f.Available, s.facts.Available), cmp.Or(f.Strays, s.facts.Strays)
	s.facts.Services, s.facts.Jobs = cmp.Or(f.Services, s.facts.Services), cmp.Or(f.Jobs, s.facts.Jobs)
	if f.Leases != nil || f.Refused != "" {
		s.facts.Leases, s.facts.Refused = f.Leases, f.Refused
	}
	if s.parts = nil; s.facts.Leases != nil {
		s.parts = fleet.Leases([]api.Node{view.NodeOf(s.facts.Leases.Leases, s.indexes())})
	}
	if f.Programs != nil {
		s.facts.Programs = f.Programs
	}
	if f.Reasons != nil {
		s.reasons = f.Reasons
	}
	s.needs = s.findNeeds()
	s.settle()
}

// TakeEvents takes events as they come, oldest first. It ignores known events.
func (s *State) TakeEvents(list ...gpu.Event) {
	for _, e := range list {
		if n := len(s.events); n > 0 && e.ID <= s.events[n-1].ID && e.Code != gpu.EventGap {
			continue
		}
		s.events = append(s.events, e)
	}
	if more := len(s.events) - mostEvents; more > 0 {
		s.events = slices.Delete(s.events, 0, more)
	}
	s.settle()
}

// TakeNodes takes the answers of several machines.
func (s *State) TakeNodes(all api.Nodes, at time.Time) {
	s.Several, s.facts.At, s.lost, s.Asking = true, at, nil, ""
	s.nodes, s.parts = nodesOf(all.Nodes), fleet.Leases(all.Nodes)
	s.needs = s.findNeeds()
	s.settle()
}

// Lose records that the daemon does not answer. Its previous answers stay, and are
// shown as old.
func (s *State) Lose(why string, at time.Time) {
	if s.lost == nil {
		s.lost = &outage{since: at}
	}
	s.lost.why, s.Asking = why, ""
	s.settle()
}

// Lost reports whether the daemon does not answer.
func (s *State) Lost() bool { return s.lost != nil }

// Resize takes the size of the terminal.
func (s *State) Resize(width, height int) {
	s.Width, s.Height = width, height
	s.settle()
}

// Tick sets the time.
func (s *State) Tick(now time.Time) {
	const saidFor = 12 * time.Second
	if s.Now = now; now.Sub(s.saidAt) > saidFor {
		s.said = nil
	}
	s.needs = s.findNeeds() // they include how long each lasts
}

// say shows a line for a while.
func (s *State) say(t tone, text string) { s.said, s.saidAt = line{{plain(text), t}}, s.Now }

// devices returns the devices.
func (s *machine) devices() []api.Status {
	if s.facts.Status == nil {
		return nil
	}
	return s.facts.Status.GPUs
}

// device returns the device with a UUID. It returns false if there is none.
func (s *machine) device(uuid string) (api.Status, bool) {
	for _, d := range s.devices() {
		if d.Device.UUID == uuid {
			return d, true
		}
	}
	return api.Status{}, false
}

// leasable returns the amounts that can be leased on a device.
func (s *machine) leasable(uuid string) api.DeviceAvailable {
	if s.facts.Available == nil {
		return api.DeviceAvailable{}
	}
	return view.LeasableOf(*s.facts.Available, uuid)
}

// index returns the name of a device in a column.
func (s *machine) index(uuid string) string {
	if d, there := s.device(uuid); there {
		return strconv.Itoa(d.Device.Index)
	}
	return "gone"
}

// indexes returns the indexes of the devices.
func (s *machine) indexes() view.GPUs {
	if s.facts.Status == nil {
		return nil
	}
	return view.GPUsOf(*s.facts.Status)
}

// name returns the name of a device in a sentence.
func (s *machine) name(uuid string) string {
	if d, there := s.device(uuid); there {
		return d.Device.Label()
	}
	return plain(uuid)
}
