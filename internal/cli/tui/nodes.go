package tui

import (
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/fleet"
)

// Nodes is the screen for several machines: their devices, and their leases. It is
// only to look at, so it wants nothing done but to quit.
type Nodes struct {
	Width, Height int
	Colours       bool
	Interval      time.Duration // how often the machines are asked
	Now           time.Time

	all    api.Nodes
	at     time.Time // when they answered; zero: not yet
	lost   *outage   // nobody can be asked; nil: they can
	asking string    // what goes on, while it takes long

	gpus   []fleet.GPU  // of all
	leases []fleet.Part // of all
	needs  []need       // what a person should look at, the worst first
	sum    string       // what there is together

	devices []nodeRow    // that match the filter, in their order
	parts   []fleet.Part // the same for leases
	rowKeys [2][]string  // of both, by which a row is found again
	pane    Pane         // Devices or Leases
	cursor  [2]string    // the key of the row that is chosen; empty: the first
	place   [2]int       // where that row was
	top     [2]int       // how many rows are above the first that is shown
	order   [2]int       // see nodeOrders and partOrders
	turned  [2]bool
	zoomed  bool
	filter  string
	typing  bool
	detail  *detail
	help    int // lines that it is moved up; -1: it is not shown
	said    line
	saidAt  time.Time
}

// nodeRow is a device, or a machine that shows none.
type nodeRow struct {
	node *api.Node
	gpu  *fleet.GPU // nil: the machine does not answer, or has none
}

func (r nodeRow) key() string {
	if r.gpu == nil {
		return r.node.Name
	}
	return r.node.Name + "/" + r.gpu.Device.UUID
}

func partKey(p fleet.Part) string {
	return p.Node + "/" + p.Holder.User + "/" + p.ID + "/" + strconv.FormatUint(p.Fence, 10) + "/" + p.On.GPU
}

// NewNodes returns a screen that shows nothing yet.
func NewNodes() *Nodes { return &Nodes{help: -1} }

// Take takes what the machines said.
func (s *Nodes) Take(all api.Nodes, at time.Time) {
	s.all, s.at, s.lost, s.asking = all, at, nil, ""
	s.gpus, s.leases = fleet.GPUs(all.Nodes), fleet.Parts(all.Nodes)
	s.needs, s.sum = s.findNeeds(), s.summary()
	s.settle()
}

// Ask takes what goes on while the machines are asked.
func (s *Nodes) Ask(doing string) { s.asking = doing }

// Lose takes note that nobody can be asked. What they said before stays.
func (s *Nodes) Lose(why string, at time.Time) {
	if s.lost == nil {
		s.lost = &outage{since: at}
	}
	s.lost.why, s.asking = why, ""
	s.settle()
}

// Resize takes the size of the terminal.
func (s *Nodes) Resize(width, height int) {
	s.Width, s.Height = width, height
	s.settle()
}

// Tick says what time it is.
func (s *Nodes) Tick(now time.Time) {
	const saidFor = 12 * time.Second
	if s.Now = now; now.Sub(s.saidAt) > saidFor {
		s.said = nil
	}
	s.needs = s.findNeeds() // they say how long each lasts
}

// Press takes a key, by the name that the terminal library gives it.
func (s *Nodes) Press(key string) Want {
	defer s.settle()
	switch {
	case key == "ctrl+c":
		return Want{Quit: true}
	case key == "ctrl+z":
		return Want{Suspend: true}
	case s.typing:
		s.filter, s.typing = typed(s.filter, key)
		s.top = [2]int{}
	case s.help >= 0:
		s.help = scrolled(s.help, key, s.bodyHeight())
		if slices.Contains([]string{"?", "esc", "q", "enter"}, key) {
			s.help = -1
		}
	case s.detail != nil:
		s.pressDetail(key)
	default:
		return s.pressList(key)
	}
	return Want{}
}

func (s *Nodes) pressDetail(key string) {
	switch key {
	case "esc", "q", "enter", "backspace", "left":
		s.detail = nil
	case "?":
		s.help = 0
	case "tab":
		s.detail = nil
		s.pane = 1 - s.pane
	default:
		s.detail.top = scrolled(s.detail.top, key, s.bodyHeight())
	}
}

func (s *Nodes) pressList(key string) Want {
	if by, moves := steps(key, s.rows(s.pane)); moves {
		s.step(by)
		return Want{}
	}
	switch key {
	case "q":
		return Want{Quit: true}
	case "?", "h", "f1":
		s.help = 0
	case "tab", "right", "l", "shift+tab", "left":
		s.pane = 1 - s.pane
	case "1", "2":
		s.pane = Pane(key[0] - '1')
	case "/":
		s.typing = true
	case "esc":
		if s.filter == "" {
			s.zoomed = false
		}
		s.filter, s.said = "", nil
	case "s":
		s.order[s.pane], s.turned[s.pane] = (s.order[s.pane]+1)%s.orders(), false
	case "S":
		s.turned[s.pane] = !s.turned[s.pane]
	case "z":
		s.zoomed = !s.zoomed
	case "!":
		s.detail = &detail{pane: panes}
	case "enter":
		if keys := s.rowKeys[s.pane]; len(keys) > 0 {
			s.detail = &detail{pane: s.pane, key: keys[s.chosen(s.pane)]}
		}
	case "r", "p", "u", "d":
		s.said, s.saidAt = line{{"On several machines berth top only looks. To act, go to the node, or use --url.", warning}}, s.Now
	}
	return Want{}
}

// orders returns how many orders the rows of the pane can have.
func (s *Nodes) orders() int {
	if s.pane == Devices {
		return len(nodeOrders())
	}
	return len(partOrders())
}

// Type takes a character that was pasted.
func (s *Nodes) Type(character string) {
	if s.typing {
		s.Press(character)
	}
}

// Wheel moves what is chosen, or the text that is shown.
func (s *Nodes) Wheel(by int) {
	key := "down"
	if by < 0 {
		key = "up"
	}
	if !s.typing {
		s.Press(key)
	}
}

// step moves the choice by rows, as far as there are any.
func (s *Nodes) step(by int) {
	if keys := s.rowKeys[s.pane]; len(keys) > 0 {
		s.cursor[s.pane] = keys[min(max(s.chosen(s.pane)+by, 0), len(keys)-1)]
	}
}

// chosen returns which row of a pane is chosen: the one that was, or, if it has gone,
// the one that is in its place.
func (s *Nodes) chosen(p Pane) int {
	keys := s.rowKeys[p]
	if s.cursor[p] == "" || len(keys) == 0 {
		return 0
	}
	if at := slices.Index(keys, s.cursor[p]); at >= 0 {
		return at
	}
	return min(s.place[p], len(keys)-1)
}

// settle chooses what the lists show, and moves each so that its choice is in sight.
func (s *Nodes) settle() {
	s.sift()
	for _, p := range []Pane{Devices, Leases} {
		keys := s.rowKeys[p]
		at, height := s.chosen(p), s.rows(p)
		if s.cursor[p] != "" && len(keys) > 0 {
			s.cursor[p], s.place[p] = keys[at], at
		}
		s.top[p] = max(0, min(s.top[p], len(keys)-height, at))
		s.top[p] = max(s.top[p], at-height+1)
	}
	if s.detail != nil {
		s.detail.top = max(0, min(s.detail.top, len(s.detailLines(s.Width))-s.bodyHeight()))
	}
	if s.help >= 0 {
		s.help = max(0, min(s.help, len(nodesHelp(s.Width))-s.bodyHeight()))
	}
}
