package tui

import (
	"slices"
	"strconv"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/cli/fleet"
)

// Nodes is the screen for several machines: their devices, and their leases. It is
// read-only, so the only thing it wants is to quit.
type Nodes struct {
	Width, Height int
	Colours       bool
	Interval      time.Duration // how often the machines are asked
	Now           time.Time

	all    api.Nodes
	at     time.Time // when the machines answered; zero before the first answer
	lost   *outage   // nil while machines can be asked
	asking string    // what is going on, if it takes long

	gpus   []fleet.GPU  // of all machines
	leases []fleet.Part // of all machines
	needs  []need       // what a person should look at, the worst first
	sum    string       // the totals

	devices []nodeRow    // rows that match the filter, in order
	parts   []fleet.Part // leases that match the filter, in order
	rowKeys [2][]string  // keys of both lists, to find a row again
	pane    Pane         // Devices or Leases
	cursor  [2]string    // key of the chosen row; empty for the first
	place   [2]int       // the last index of that row
	top     [2]int       // number of rows above the first visible one
	order   [2]int       // see nodeOrders and partOrders
	turned  [2]bool
	zoomed  bool
	filter  string
	typing  bool
	detail  *detail
	help    int // lines that the help is scrolled up; -1 if it is hidden
	said    line
	saidAt  time.Time
}

// nodeRow is a device, or a machine without one.
type nodeRow struct {
	node *api.Node
	gpu  *fleet.GPU // nil if the machine does not answer or has none
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

// NewNodes returns an empty screen.
func NewNodes() *Nodes { return &Nodes{help: -1} }

// Take takes the answers of the machines.
func (s *Nodes) Take(all api.Nodes, at time.Time) {
	s.all, s.at, s.lost, s.asking = all, at, nil, ""
	s.gpus, s.leases = fleet.GPUs(all.Nodes), fleet.Parts(all.Nodes)
	s.needs, s.sum = s.findNeeds(), s.summary()
	s.settle()
}

// Ask takes a description of what is going on while the machines are asked.
func (s *Nodes) Ask(doing string) { s.asking = doing }

// Lose records that no machine can be asked. The previous answers stay.
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

// Tick sets the time.
func (s *Nodes) Tick(now time.Time) {
	const saidFor = 12 * time.Second
	if s.Now = now; now.Sub(s.saidAt) > saidFor {
		s.said = nil
	}
	s.needs = s.findNeeds() // they include how long each lasts
}

// Press handles a key, by its name in the terminal library.
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

// orders returns the number of orders for the rows of the pane.
func (s *Nodes) orders() int {
	if s.pane == Devices {
		return len(nodeOrders())
	}
	return len(partOrders())
}

// Type handles a pasted character.
func (s *Nodes) Type(character string) {
	if s.typing {
		s.Press(character)
	}
}

// Wheel moves the choice, or the text that is shown.
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

// chosen returns the index of the chosen row of a pane: the row that was chosen or, if
// it is gone, the row in its place.
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

// settle selects the rows of the lists, and scrolls each so that its choice is visible.
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
