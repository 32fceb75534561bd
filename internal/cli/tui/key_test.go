package tui

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

// press presses keys and returns what the last one wants.
func press(s *State, keys ...string) (want Want) {
	for _, key := range keys {
		want = s.Press(key)
	}
	return want
}

// A service is started, stopped and restarted after a question, and what cannot be done is
// told.
func TestActsOnServices(t *testing.T) {
	for name, c := range map[string]struct {
		keys []string
		says string
		want *Act
	}{
		"stop":             {[]string{"5", "c"}, "also after a restart of the daemon. 2 open requests end", &Act{Verb: "stop", Service: "chat", About: "chat"}},
		"restart":          {[]string{"5", "j", "enter", "r"}, "The same: berth restart draw", &Act{Verb: "restart", Service: "draw", About: "draw"}},
		"start":            {[]string{"5", "G", "k", "u"}, "Start old?", &Act{Verb: "start", Service: "old", About: "old"}},
		"what is ready":    {[]string{"5", "u"}, "chat is ready already", nil},
		"what is stopped":  {[]string{"5", "j", "j", "c"}, "old is stopped already", nil},
		"another act":      {[]string{"5", "p"}, "That is not for services", nil},
		"a lease, as ever": {[]string{"2", "c"}, "Cancel train-vit of bob?", &Act{Verb: "cancel", User: "bob", ID: "train-vit", Fence: 10, About: "train-vit of bob"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene(110, 40, serviceFacts(), c.keys...)
			if text := frameText(s); !strings.Contains(text, c.says) {
				t.Errorf("it does not say %q:\n%s", c.says, text)
			}
			if diff := cmp.Diff(c.want, press(s, "y").Act); diff != "" {
				t.Error(diff)
			}
		})
	}
	if s := scene(110, 40, someFacts(), "5", "c"); strings.Contains(frameText(s), "SERVICES") {
		t.Error("a machine without services has a pane for them")
	}
}

// Nothing is changed before it is confirmed, and what is confirmed is exactly what
// was shown: a lease by its user, id and fence.
func TestActs(t *testing.T) {
	for name, c := range map[string]struct {
		keys []string
		says string // in the question
		want *Act
	}{
		"release":          {[]string{"tab", "r"}, "Release train-vit of bob?", &Act{Verb: "release", User: "bob", ID: "train-vit", Fence: 10, About: "train-vit of bob"}},
		"park":             {[]string{"tab", "j", "j", "p"}, "Park embedder of ada?", &Act{Verb: "park", User: "ada", ID: "embedder", Fence: 8, About: "embedder of ada"}},
		"resume":           {[]string{"tab", "j", "u"}, "Resume notebook of eve?", &Act{Verb: "resume", User: "eve", ID: "notebook", Fence: 8, About: "notebook of eve"}},
		"from the details": {[]string{"tab", "enter", "r"}, "100 GiB", nil},
		"drain":            {[]string{"d"}, "2 leases there go on", &Act{Verb: "drain", GPU: "GPU-0", About: "GPU 0"}},
		"undrain":          {[]string{"j", "j", "d"}, "GPU 2 is drained", &Act{Verb: "undrain", GPU: "GPU-2", About: "GPU 2"}},
		"cancel":           {[]string{"tab", "c"}, "The same: berth cancel bob/train-vit", &Act{Verb: "cancel", User: "bob", ID: "train-vit", Fence: 10, About: "train-vit of bob"}},
		"withdraw":         {[]string{"3", "r"}, "Withdraw big-batch of cy?", &Act{Verb: "release", User: "cy", ID: "big-batch", About: "big-batch of cy"}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, no := range []string{"n", "esc", "q"} {
				s := scene(100, 30, someFacts(), c.keys...)
				if want := press(s, "enter", no); want != (Want{}) || !strings.Contains(frameText(s), "Nothing was changed") {
					t.Errorf("%s: %+v\n%s", no, want, frameText(s))
				}
			}
			s := scene(100, 30, someFacts(), c.keys...)
			if c.want == nil {
				return
			}
			if text := frameText(s); !strings.Contains(text, c.says) {
				t.Errorf("it does not say %q:\n%s", c.says, text)
			}
			got := press(s, "y")
			if diff := cmp.Diff(c.want, got.Act); diff != "" {
				t.Error(diff)
			}
			if again := press(s, "y"); again.Act != nil {
				t.Errorf("a second y does it again: %+v", again.Act)
			}
		})
	}
}

// Keys for another pane, or for a lease in another state, say so and ask nothing.
func TestActsThatCannotBe(t *testing.T) {
	for name, c := range map[string]struct {
		keys []string
		says string
	}{
		"release a GPU":       {[]string{"r"}, "Choose a lease first"},
		"drain a lease":       {[]string{"tab", "d"}, "Choose a GPU first"},
		"park a parked lease": {[]string{"tab", "j", "p"}, "notebook of eve is parked"},
		"resume an active":    {[]string{"tab", "u"}, "train-vit of bob is active"},
		"park a request":      {[]string{"3", "p"}, "can only be withdrawn"},
		"release a stranger":  {[]string{"tab", "G", "r"}, "Choose a lease first"},
		"release an event":    {[]string{"4", "r"}, "Choose a lease first"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene(100, 30, someFacts(), c.keys...)
			if text := frameText(s); !strings.Contains(text, c.says) || s.dialog != nil {
				t.Errorf("want %q:\n%s", c.says, text)
			}
			if want := press(s, "y"); want.Act != nil {
				t.Errorf("%+v", want.Act)
			}
		})
	}
}

// A refusal stays until a key is pressed, and what was done is said for a while.
func TestDone(t *testing.T) {
	s := scene(100, 30, someFacts(), "tab", "r", "y")
	if !strings.Contains(frameText(s), "release train-vit of bob") {
		t.Errorf("it does not say what is under way:\n%s", frameText(s))
	}
	act := Act{Verb: "release", About: "train-vit of bob"}
	s.Done(act, "", errors.New("only bob and operators may\x1b[2J"))
	if text := frameText(s); !strings.Contains(text, "Cannot release train-vit of bob") || !strings.Contains(text, "only bob and operators may?[2J") {
		t.Error(text)
	}
	press(s, "y")
	s.Done(act, "train-vit is released.", nil)
	if !strings.Contains(frameText(s), "train-vit is released.") {
		t.Error(frameText(s))
	}
	s.Tick(now.Add(time.Minute))
	if strings.Contains(frameText(s), "train-vit is released.") {
		t.Error("it is said for ever")
	}
}

// first returns the ids of the leases from top to bottom.
func ids(s *State) (list []string) {
	for _, r := range s.leaseRows() {
		switch {
		case r.process != nil:
			list = append(list, "└")
		case r.lease != nil:
			list = append(list, r.lease.ID)
		default:
			list = append(list, r.stray.Name)
		}
	}
	return list
}

func TestSortAndFilter(t *testing.T) {
	f := someFacts()
	f.Leases.Leases[3].ID = "tiny"
	for name, c := range map[string]struct {
		keys []string
		want string
	}{
		"by memory":      {nil, "train-vit notebook embedder tiny left-over jupyter"},
		"turned":         {[]string{"S"}, "tiny embedder notebook train-vit left-over jupyter"},
		"by use":         {[]string{"s"}, "train-vit embedder notebook tiny left-over jupyter"},
		"by age":         {[]string{"s", "s"}, "notebook embedder train-vit tiny left-over jupyter"},
		"by GPU":         {[]string{"s", "s", "s", "s", "s", "s"}, "notebook embedder train-vit tiny left-over jupyter"},
		"round":          {[]string{"S", "s", "s", "s", "s", "s", "s", "s"}, "train-vit notebook embedder tiny left-over jupyter"},
		"filtered":       {[]string{"/", "A", "d", "a", "enter"}, "embedder left-over"},
		"by device":      {[]string{"/", "g", "p", "u", "space", "1", "enter"}, "train-vit jupyter"},
		"none":           {[]string{"/", "q", "q"}, ""},
		"cleared":        {[]string{"/", "q", "q", "esc"}, "train-vit notebook embedder tiny left-over jupyter"},
		"cleared later":  {[]string{"/", "q", "enter", "esc"}, "train-vit notebook embedder tiny left-over jupyter"},
		"corrected":      {[]string{"/", "a", "d", "q", "backspace", "a", "enter"}, "embedder left-over"},
		"with processes": {[]string{"x", "/", "e", "m", "b", "enter"}, "embedder └"},
	} {
		t.Run(name, func(t *testing.T) {
			s := scene(100, 30, f, c.keys...)
			if got := strings.Join(ids(s), " "); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// The choice stays on its lease while others come, go and change places, and on
// its place when the lease ends.
func TestChoiceStays(t *testing.T) {
	s := scene(100, 30, someFacts(), "tab", "j", "j")
	chosen := func() string {
		if l := s.chosenLease(); l != nil {
			return l.ID
		}
		return ""
	}
	if chosen() != "embedder" {
		t.Fatalf("%q is chosen", chosen())
	}
	press(s, "s", "s")
	if chosen() != "embedder" {
		t.Errorf("after a sort, %q is chosen", chosen())
	}
	f := someFacts()
	f.Leases.Leases = append(f.Leases.Leases[1:], someLease("new", "ada", 0, 1, 1, 99*time.Hour))
	s.Take(f)
	if chosen() == "" || chosen() == "embedder" {
		t.Errorf("after the lease ended, %q is chosen", chosen())
	}
	s.Take(Facts{Leases: &api.Leases{}, Strays: &api.Strays{}})
	if chosen() != "" || s.at(Leases) != -1 {
		t.Errorf("of no leases, %q is chosen", chosen())
	}
	check(t, s)
}

// New events move under the first row; one that was chosen stays chosen.
func TestEventsCome(t *testing.T) {
	s := scene(100, 30, someFacts(), "4")
	add := func(id uint64) { s.TakeEvents(gpu.Event{ID: id, Time: now, Code: "gap", Text: "new"}) }
	add(4)
	if at := s.at(Events); at != 0 {
		t.Errorf("row %d is chosen", at)
	}
	press(s, "j")
	add(5)
	if at := s.at(Events); at != 2 {
		t.Errorf("row %d is chosen, want the same event", at)
	}
	s.TakeEvents(someEvents()...) // again, after a break
	if n := len(s.events); n != 5 {
		t.Errorf("%d events", n)
	}
	var many []gpu.Event
	for id := range uint64(2 * mostEvents) {
		many = append(many, gpu.Event{ID: 10 + id, Time: now})
	}
	s.TakeEvents(many...)
	if n := len(s.events); n != mostEvents {
		t.Errorf("%d events are kept", n)
	}
	check(t, s)
}

// A daemon that goes away leaves what it said, and nothing can be changed until
// it is back.
func TestLostDaemon(t *testing.T) {
	s := scene(120, 40, someFacts(), "tab")
	s.Lose("connection refused", now.Add(time.Second))
	s.Tick(now.Add(time.Minute))
	text := frameText(s)
	for _, want := range []string{"No answer from the daemon since 15:04:06 (59 s)", "connection refused", "train-vit"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if press(s, "r"); s.dialog != nil || !strings.Contains(frameText(s), "The daemon does not answer") {
		t.Errorf("it asks:\n%s", frameText(s))
	}
	s.Lose("still refused", now.Add(2*time.Minute))
	if since := s.lost.since; !since.Equal(now.Add(time.Second)) {
		t.Errorf("away since %s", since)
	}
	s.Take(Facts{Status: someFacts().Status, At: now.Add(3 * time.Minute)})
	if s.Lost() || strings.Contains(frameText(s), "No answer") {
		t.Error("it is back, and the screen does not say so")
	}
}

// A daemon that is slow, or that does not tell leases, is said to be.
func TestSlowDaemon(t *testing.T) {
	s := scene(80, 24, someFacts())
	s.Interval = time.Second
	s.Tick(now.Add(5 * time.Second))
	if strings.Contains(frameText(s), "takes its time") {
		t.Error("after 5 s it is slow")
	}
	s.Tick(now.Add(9 * time.Second))
	if !strings.Contains(frameText(s), "what you see is 9 s old") {
		t.Error(frameText(s))
	}
	check(t, s)
	s.Take(Facts{Refused: "You need the role user."})
	press(s, "!")
	if !strings.Contains(frameText(s), "You need the role user.") || s.facts.Leases != nil {
		t.Error(frameText(s))
	}
	s.Take(someFacts())
	if strings.Contains(frameText(s), "You need the role user.") {
		t.Error("it stays refused")
	}
}

// The screen shows what the daemon says needs a person, and for how long.
func TestNeeds(t *testing.T) {
	all := api.StatusAll{Monitoring: true, GPUs: []api.Status{someDevice(0, 1, 1, 40)}}
	s := scene(100, 30, Facts{Status: &all, At: now})
	if text := frameText(s); !strings.Contains(text, "Nothing needs a person") {
		t.Error(text)
	}
	since := now.Add(-3 * time.Minute)
	all.Needs = []api.Need{
		{Kind: "alert", Severity: gpu.Serious, Text: "GPUTemperatureHigh: GPU 0 is at 91 °C", Since: &since},
		{Kind: "alert", Severity: gpu.Warning, Text: "GPUAllocationFailed: requests are refused\x1b[2J", Since: &since},
		{Kind: "monitoring", Severity: gpu.Warning, Text: "Monitoring is stopped"},
	}
	s.Take(Facts{Status: &all, At: now})
	if lines := s.Frame(); !strings.HasPrefix(lines[1], " ✗ GPUTemperatureHigh: GPU 0 is at 91 °C, for 3 min") || !strings.HasPrefix(lines[2], " ! GPUAllocationFailed: requests are refused?[2J, for 3 min") {
		t.Errorf("%q", lines[1:3])
	}
	check(t, s)
	if s.Local = true; len(s.findNeeds()) != 2 {
		t.Error("with no daemon nobody measures, and that is no need")
	}
}

// With no daemon nothing can be changed.
func TestLocal(t *testing.T) {
	s := scene(80, 24, Facts{Status: someFacts().Status, At: now})
	s.Local = true
	for _, key := range []string{"r", "p", "u", "d"} {
		if want := press(s, key); s.dialog != nil || want.Act != nil || !strings.Contains(frameText(s), "No daemon runs") {
			t.Errorf("%s:\n%s", key, frameText(s))
		}
	}
}

func TestQuit(t *testing.T) {
	for _, keys := range [][]string{{"q"}, {"ctrl+c"}, {"/", "ctrl+c"}, {"tab", "r", "ctrl+c"}, {"enter", "q", "q"}, {"?", "q", "q"}} {
		s := scene(80, 24, someFacts(), keys[:len(keys)-1]...)
		if want := press(s, keys[len(keys)-1]); !want.Quit {
			t.Errorf("%q: %+v", keys, want)
		}
	}
	if want := press(scene(80, 24, someFacts()), "ctrl+z"); !want.Suspend {
		t.Errorf("ctrl+z: %+v", want)
	}
}

// A pasted text goes to the filter, or nowhere.
func TestPaste(t *testing.T) {
	s := scene(80, 24, someFacts(), "tab", "r")
	s.Type("y")
	if s.dialog == nil {
		t.Error("a pasted y confirmed something")
	}
	s = scene(80, 24, someFacts(), "/")
	s.Type("a")
	s.Type("\x1b")
	if s.filter != "a" {
		t.Errorf("filter %q", s.filter)
	}
}

// The reasons that the screen asks for are those of the requests in sight.
func TestExplained(t *testing.T) {
	s := scene(120, 40, manyFacts(), "3", "G")
	list := s.Explained()
	if len(list) == 0 || len(list) > 13 || list[len(list)-1] != (Request{"ada", "waits-49"}) {
		t.Errorf("%v", list)
	}
}

// Every row of the queue says why its request waits, explained or not.
func TestWhyOfEveryRow(t *testing.T) {
	f := someFacts()
	f.Leases.Waiting = append(f.Leases.Waiting,
		api.Waiting{ID: "own", Limit: "user", Holder: api.Holder{User: "cy"}},
		api.Waiting{ID: "behind", Estimate: &api.Estimate{Unknown: "train-3 has no history and nobody chose its time limit"}},
		api.Waiting{ID: "plain"}, api.Waiting{ID: "told", Limit: "group"}, api.Waiting{ID: "wide"})
	f.Reasons["/wide"] = api.Explanation{Text: "Place 20 GiB and 1 slot on each of 4 devices: only 2 of 4 devices fit (wait, or ask for less)", Behind: []string{"big-7"}}
	f.Reasons["/told"] = api.Explanation{Limit: "group", Text: "4 GiB of the limit of students is in use. It is number 5 in the queue."}
	s := scene(200, 50, f)
	for id, want := range map[string]string{
		"own": "its user's limit", "behind": "train-3 has no history and nobody chose its time limit", "plain": "waits for a GPU",
		"told": "its group's limit: 4 GiB of the limit of students is in use",
		"wide": "only 2 of 4 devices fit (wait, or ask for less); after big-7",
	} {
		i := slices.IndexFunc(f.Leases.Waiting, func(w api.Waiting) bool { return w.ID == id })
		if got := s.shortReason(f.Leases.Waiting[i]); got != want {
			t.Errorf("%s waits because of %q, want %q", id, got, want)
		}
	}
	for _, size := range [][2]int{{80, 24}, {120, 40}, {200, 50}} {
		text := strings.Join(scene(size[0], size[1], someFacts()).Frame(), "\n")
		if !strings.Contains(text, "STARTS") || !strings.Contains(text, "WHY") {
			t.Errorf("at %v a column is missing:\n%s", size, text)
		}
	}
}

// A curve survives samples in any order, and a clock that jumps.
func TestCurve(t *testing.T) {
	var c curve
	for _, ago := range []time.Duration{3, 1, 2, 1, 60 * 60} {
		c = c.add(point{at: now.Add(-ago * time.Second), load: float64(ago)})
	}
	if len(c) != 1 || c[0].load != 60*60 {
		t.Errorf("after the clock was set back: %v", c)
	}
	c = c.add(point{at: now, load: 50})
	if len(c) != 1 {
		t.Errorf("an hour later: %v", c)
	}
	values := c.values(10, now.Add(75*time.Second), loadOf)
	if !math.IsNaN(values[9]) || values[8] != 50 || values[7] != 50 || !math.IsNaN(values[6]) {
		t.Errorf("%v", values)
	}
}
