package service

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

var now = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

// events returns every event, in the order above.
func events() []Event {
	return []Event{Want, Drop, Leave, Granted, Refused, Ordered, Opens, Fails, Overdue, Closed, Gone, Unable, Withdrawn, Ended, Lost}
}

// The table stands in the documentation as it is.
func TestTheTableIsShown(t *testing.T) {
	const page = "../../../docs/develop/services.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	var shown strings.Builder
	shown.WriteString("| in state | comes | if | becomes | and the owner |\n|---|---|---|---|---|\n")
	for _, r := range table {
		acts := []string{}
		for _, a := range r.do {
			acts = append(acts, string(a))
		}
		fmt.Fprintf(&shown, "| %s | %s | %s | %s | %s |\n", r.in, r.on, r.If, r.to, strings.Join(acts, ", "))
	}
	if !strings.Contains(string(text), shown.String()) {
		t.Errorf("%s does not show the table as it is:\n%s", page, shown.String())
	}
	shown.Reset()
	shown.WriteString("```mermaid\nstateDiagram-v2\n")
	for _, from := range States() {
		for _, to := range States() {
			var events []string
			for _, r := range table {
				if r.in == from && r.to == to && !slices.Contains(events, string(r.on)) {
					events = append(events, string(r.on))
				}
			}
			if len(events) > 0 {
				fmt.Fprintf(&shown, "  %s --> %s: %s\n", from, to, strings.Join(events, ", "))
			}
		}
	}
	if shown.WriteString("```\n"); !strings.Contains(string(text), shown.String()) {
		t.Errorf("%s does not show the picture as it is:\n%s", page, shown.String())
	}
}

// Every state can be left, every event happens somewhere, and a service whose program or
// lease has ended keeps neither, whatever it was in.
func TestTheTableIsWhole(t *testing.T) {
	for _, s := range States() {
		if !slices.ContainsFunc(table, func(r row) bool { return r.in == s && r.to != s }) || !slices.ContainsFunc(table, func(r row) bool { return r.in != s && r.to == s }) {
			t.Errorf("%s cannot be left, or not be reached", s)
		}
		if !s.Leases() {
			continue
		}
		for _, f := range []Facts{{}, {Expected: true}} {
			if to, acts, ends := Next(s, Ended, f); !ends || to.Leases() || !slices.Contains(acts, Release) {
				t.Errorf("a program that ends in %s makes it %s, with %v", s, to, acts)
			}
		}
		if to, acts, _ := Next(s, Lost, Facts{}); to != Leaving || !slices.Contains(acts, End) {
			t.Errorf("a lease that ends in %s makes it %s", s, to)
		}
	}
	for i, r := range table {
		first := slices.IndexFunc(table, func(other row) bool { return other.in == r.in && other.on == r.on })
		if to, acts, changes := Next(r.in, r.on, Facts{}); first == i && r.If == "" && (!changes || to != r.to || !slices.Equal(acts, r.do)) {
			t.Errorf("%s in %s makes it %s, with %v", r.on, r.in, to, acts)
		}
	}
	for _, e := range events() {
		if !slices.ContainsFunc(table, func(r row) bool { return r.on == e }) {
			t.Errorf("%s happens nowhere", e)
		}
	}
	for _, r := range table { // nothing is parked, put to sleep or stopped that takes requests
		for _, a := range r.do {
			if r.in == Serving && r.on != Lost && (a == DoPark || a == DoSleep || a == End) {
				t.Errorf("in ready, %s makes the owner %s", r.on, a)
			}
		}
	}
}

func TestReview(t *testing.T) {
	onDemand, idle, always := &Spec{Start: OnDemand}, &Spec{Start: OnDemand, IdleAfter: gpu.Some(10 * time.Second)}, &Spec{Start: Always, Restart: true}
	once, never, def := &Spec{Start: Always}, &Spec{Start: Never}, &Spec{Start: OnDemand, Default: true, IdleAfter: gpu.Some(time.Second)}
	ago := func(d time.Duration) time.Time { return now.Add(-d) }
	i := &Instance{Ordered: ago(time.Second)}
	failed := &api.ServiceFailure{Next: now.Add(time.Minute)}
	for name, c := range map[string]struct {
		life Life
		at   Situation
		want Event
		why  Reason
		next time.Time
	}{
		"nobody asks":                {Life{State: Away}, Situation{Spec: onDemand, Known: true}, "", "", time.Time{}},
		"somebody asks":              {Life{State: Away}, Situation{Spec: onDemand, Waiting: 1}, Want, "", time.Time{}},
		"parked, somebody asks":      {Life{State: Parked, Instance: i}, Situation{Spec: onDemand, Waiting: 1}, Want, "", time.Time{}},
		"stopped, somebody asks":     {Life{State: Away, Stopped: &api.FrontStopped{}}, Situation{Spec: onDemand, Waiting: 1}, "", "", time.Time{}},
		"parked and stopped":         {Life{State: Parked, Instance: i, Stopped: &api.FrontStopped{}}, Situation{Spec: onDemand}, Leave, ForGood, time.Time{}},
		"in no settings":             {Life{State: Serving, Since: ago(time.Hour), Instance: i}, Situation{Known: true}, Leave, ForGood, time.Time{}},
		"restarted":                  {Life{State: Serving, Since: ago(time.Hour), Instance: i, Again: "why"}, Situation{Spec: onDemand, Known: true, Open: 3}, Leave, ForGood, time.Time{}},
		"restarted, fronts unknown":  {Life{State: Serving, Since: ago(time.Hour), Instance: i, Again: "why"}, Situation{Spec: onDemand}, "", "", time.Time{}},
		"a person called it":         {Life{State: Away, Called: now}, Situation{Spec: onDemand}, Want, "", time.Time{}},
		"always":                     {Life{State: Away}, Situation{Spec: always}, Want, "", time.Time{}},
		"always, sent away":          {Life{State: Away, Sent: true}, Situation{Spec: always}, "", "", time.Time{}},
		"always, failed":             {Life{State: Failed, Failures: 1, Failure: failed}, Situation{Spec: always}, "", "", failed.Next},
		"always, failed, no restart": {Life{State: Failed, Failures: 1, Failure: &api.ServiceFailure{}}, Situation{Spec: once}, "", "", time.Time{}},
		"never":                      {Life{State: Away}, Situation{Spec: never, Waiting: 1}, "", "", time.Time{}},
		"never, started":             {Life{State: Away, Started: true}, Situation{Spec: never, Waiting: 1}, Want, "", time.Time{}},
		"default":                    {Life{State: Away, Sent: true}, Situation{Spec: def, Quiet: true}, Want, "", time.Time{}},
		"default, others are asked":  {Life{State: Away, Sent: true}, Situation{Spec: def}, "", "", time.Time{}},
		"default does not idle":      {Life{State: Serving, Since: ago(time.Hour), Instance: i}, Situation{Spec: def, Known: true, Quiet: true}, "", "", time.Time{}},
		"failed, nobody asks":        {Life{State: Failed, Failure: failed}, Situation{Spec: onDemand}, "", "", time.Time{}},
		"failed, rests":              {Life{State: Failed, Failure: failed}, Situation{Spec: onDemand, Waiting: 1}, "", "", failed.Next},
		"failed, has rested":         {Life{State: Failed, Failure: &api.ServiceFailure{Next: now}}, Situation{Spec: onDemand, Waiting: 1}, Want, "", time.Time{}},
		"comes for somebody":         {Life{State: Starting, Instance: i}, Situation{Spec: onDemand, Waiting: 1, Known: true}, "", "", time.Time{}},
		"gets no order":              {Life{State: Starting, Instance: &Instance{Granted: ago(time.Minute)}}, Situation{Spec: onDemand, Waiting: 1, Known: true}, "", "", now.Add(usualTimeout - time.Minute)},
		"got no order in time":       {Life{State: Starting, Instance: &Instance{Granted: ago(usualTimeout)}}, Situation{Spec: onDemand, Waiting: 1, Known: true}, Fails, "", time.Time{}},
		"comes for nobody":           {Life{State: Starting, Instance: i}, Situation{Spec: onDemand, Left: ago(time.Minute), Known: true}, Drop, "", time.Time{}},
		"comes for one who left now": {Life{State: Starting, Instance: i}, Situation{Spec: onDemand, Left: now, Known: true}, "", "", now.Add(dropAfter)},
		"comes, fronts unknown":      {Life{State: Starting, Instance: i}, Situation{Spec: onDemand, Left: ago(time.Minute)}, "", "", time.Time{}},
		"comes and is stopped":       {Life{State: Returning, Instance: i, Stopped: &api.FrontStopped{}}, Situation{Spec: onDemand, Waiting: 1}, Leave, ForGood, time.Time{}},
		"ready without idle_after":   {Life{State: Serving, Since: ago(time.Hour), Instance: i}, Situation{Spec: onDemand, Known: true}, "", "", time.Time{}},
		"idle":                       {Life{State: Serving, Since: ago(time.Hour), Instance: i}, Situation{Spec: idle, Known: true, Last: ago(10 * time.Second)}, Leave, ForIdle, time.Time{}},
		"not long idle":              {Life{State: Serving, Since: ago(time.Hour), Instance: i}, Situation{Spec: idle, Known: true, Last: ago(4 * time.Second)}, "", "", now.Add(6 * time.Second)},
		"busy":                       {Life{State: Serving, Since: ago(time.Hour), Instance: i}, Situation{Spec: idle, Known: true, Open: 1, Last: ago(time.Minute)}, "", "", time.Time{}},
		"idle, fronts unknown":       {Life{State: Serving, Since: ago(time.Hour), Instance: i}, Situation{Spec: idle, Last: ago(time.Minute)}, "", "", time.Time{}},
		"closes":                     {Life{State: Closing, Since: ago(usualSlice - time.Second), Instance: i}, Situation{Known: true}, "", "", now.Add(time.Second)},
		"closes for too long":        {Life{State: Closing, Since: ago(usualSlice), Instance: i}, Situation{Known: true}, Overdue, "", time.Time{}},
		"its own slice":              {Life{State: Closing, Since: ago(20 * time.Second), Instance: &Instance{For: ForOthers}}, Situation{Spec: &Spec{Slice: 20 * time.Second}, Known: true}, Overdue, "", time.Time{}},
		"closed":                     {Life{State: Closing, Since: ago(usualSlice), Instance: i}, Situation{Known: true, Closed: true}, "", "", time.Time{}},
		"broken off":                 {Life{State: Closing, Since: ago(usualSlice), Instance: &Instance{Cut: true}}, Situation{Known: true}, "", "", time.Time{}},
		"closes, fronts unknown":     {Life{State: Closing, Since: ago(usualSlice), Instance: i}, Situation{}, "", "", now},
		"idle, has just come":        {Life{State: Serving, Since: now, Instance: i}, Situation{Spec: &Spec{IdleAfter: gpu.Some[time.Duration](0)}, Known: true}, "", "", now.Add(settle)},
	} {
		c.at.Now = now
		e, why, at := c.life.Review(&c.at)
		if e != c.want || why != c.why || e == "" && !at.Equal(c.next) {
			t.Errorf("%s: %q because of %q, next at %v; want %q because of %q, next at %v", name, e, why, at, c.want, c.why, c.next)
		}
	}
}

func TestChoose(t *testing.T) {
	calls := []api.FrontHTTPCall{{Path: "/x"}}
	took := func(seconds float64) api.ServiceTime { return api.ServiceTime{Seconds: seconds, Count: 1} }
	again := func(seconds float64) api.ServiceTime { return api.ServiceTime{Seconds: seconds, Count: 2} }
	full := errors.New("the memory of the machine is full")
	h200 := api.ServiceTimes{Start: again(9), Stop: took(0.5), Park: took(27), Resume: took(7.2)}
	sleepy := h200
	sleepy.Sleep, sleepy.Wake = took(3), took(2)
	for name, c := range map[string]struct {
		spec       Spec
		took       api.ServiceTimes
		unparkable error
		failed     map[Way]time.Time
		want       Way
		says       string
	}{
		"parking is slow":                {Spec{Away: Auto}, h200, nil, nil, Stop, "shortest"},
		"parking is quick":               {Spec{Away: Auto}, api.ServiceTimes{Start: again(60), Stop: took(1), Park: took(15), Resume: took(6)}, nil, nil, Park, "21 s"},
		"the first start was long":       {Spec{Away: Auto}, api.ServiceTimes{Start: took(60), Park: took(15), Resume: took(6)}, nil, nil, Stop, "second start"},
		"the first start was too long":   {Spec{Away: Auto}, api.ServiceTimes{Start: took(90), Park: took(15), Resume: took(6)}, nil, nil, Park, "21 s"},
		"never tried":                    {Spec{Away: Auto}, api.ServiceTimes{Start: took(9)}, nil, nil, Park, "nobody knows"},
		"parked, not yet back":           {Spec{Away: Auto}, api.ServiceTimes{Start: took(9), Park: took(99)}, nil, nil, Park, "nobody knows"},
		"never tried, not parkable":      {Spec{Away: Auto}, api.ServiceTimes{Start: took(9)}, full, nil, Stop, "full"},
		"sleep is tried first":           {Spec{Away: Auto, Sleep: calls, Wake: calls}, h200, nil, nil, Sleep, "nobody knows"},
		"sleep is quickest":              {Spec{Away: Auto, Sleep: calls, Wake: calls}, sleepy, nil, nil, Sleep, "5 s"},
		"sleep without calls":            {Spec{Away: Auto}, sleepy, nil, nil, Stop, "shortest"},
		"sleep failed a moment ago":      {Spec{Away: Auto, Sleep: calls, Wake: calls}, sleepy, nil, map[Way]time.Time{Sleep: now.Add(-time.Minute)}, Stop, "shortest"},
		"sleep failed long ago":          {Spec{Away: Auto, Sleep: calls, Wake: calls}, sleepy, nil, map[Way]time.Time{Sleep: now.Add(-2 * avoidFor)}, Sleep, "5 s"},
		"park":                           {Spec{Away: Park}, h200, nil, nil, Park, "settings"},
		"park, which cannot be":          {Spec{Away: Park}, h200, full, nil, Stop, "full"},
		"sleep that cannot be":           {Spec{Away: Sleep}, h200, nil, nil, Stop, "no calls"},
		"sleep without a way back":       {Spec{Away: Sleep, Sleep: calls}, h200, nil, nil, Stop, "no calls"},
		"stop":                           {Spec{Away: Stop}, sleepy, nil, nil, Stop, "settings"},
		"nothing said, nothing possible": {Spec{}, h200, full, nil, Stop, ""},
	} {
		if way, why := Choose(&c.spec, &c.took, c.unparkable, c.failed, now); way != c.want || !strings.Contains(why, c.says) || why == "" {
			t.Errorf("%s: %s because %q; want %s because %q", name, way, why, c.want, c.says)
		}
	}
}

// Times are means in which later ones weigh more.
func TestTook(t *testing.T) {
	var m api.ServiceTime
	for _, s := range []int{10, 20} {
		Took(&m, time.Duration(s)*time.Second)
	}
	if m.Seconds != 15 || m.Last != 20 || m.Count != 2 {
		t.Errorf("10 and 20 s make %+v", m)
	}
	for range 20 {
		Took(&m, 40*time.Second)
	}
	if m.Seconds < 39 || m.Count != 22 {
		t.Errorf("after twenty of 40 s, they make %+v", m)
	}
	m = api.ServiceTime{}
	for _, s := range []int{15, 5, 6} { // the first reads from the disk
		Took(&m, time.Duration(s)*time.Second)
	}
	if m.Seconds > 5.5 || m.Count != 3 {
		t.Errorf("15, 5 and 6 s make %+v", m)
	}
}

// A service rests for longer after each failure, and the count begins anew after it was
// ready for a while.
func TestRest(t *testing.T) {
	for n, want := range map[int]time.Duration{0: leastRest, 1: leastRest, 2: 2 * leastRest, 3: 4 * leastRest, 99: mostRest} {
		if got := Rest(n); got != want {
			t.Errorf("after %d failures it rests for %v; want %v", n, got, want)
		}
	}
	for ready, want := range map[time.Duration]int{time.Second: 4, steady: 1} {
		l := Life{State: Serving, Since: now, Failures: 3, Instance: &Instance{}}
		l.Fail("it died", []string{"x"}, now)
		l.Fail("its lease is gone", nil, now)
		if l.Enter(Failed, []Act{Release}, now.Add(ready)); l.Failure.Count != want || l.Failure.Why != "it died" || !l.Failure.Next.Equal(now.Add(ready+Rest(want))) || l.Instance != nil {
			t.Errorf("ready for %v, it has failed %+v", ready, l.Failure)
		}
		if !l.Failure.At.Equal(now) || !slices.Equal(l.Failure.Log, []string{"x"}) || l.Why != "it died" {
			t.Errorf("ready for %v, it failed because %s: %+v", ready, l.Why, l.Failure)
		}
	}
	l := Life{State: Waiting, Why: "no room", Called: now, GPU: "g"}
	if l.Enter(Failed, nil, now); l.Failure.Why != "no room" || !l.Called.IsZero() || l.GPU != "" {
		t.Errorf("it was refused: %+v, %+v", l, l.Failure)
	}
}

// A service has a new epoch whenever it comes, and when it opens after it was closed, because
// a closed one never opens again.
func TestEpochs(t *testing.T) {
	for _, c := range []struct {
		from, to State
		acts     []Act
		is       bool
	}{
		{Waiting, Starting, []Act{Launch}, true},
		{Starting, Starting, []Act{Probe}, false},
		{Starting, Serving, []Act{Open}, false},
		{Serving, Closing, []Act{Close}, false},
		{Closing, Serving, []Act{Open}, true},
		{Closing, Leaving, []Act{DoPark}, false},
		{Parked, Returning, []Act{Resume}, true},
		{Returning, Returning, []Act{Withdraw}, false},
	} {
		l := Life{State: c.from, Since: now, Epoch: 7, Instance: &Instance{}}
		if l.Enter(c.to, c.acts, now); (l.Epoch == 8) != c.is || l.Epoch < 7 || l.Epoch > 8 {
			t.Errorf("from %s to %s: epoch %d after 7", c.from, c.to, l.Epoch)
		}
		since := now
		if l.Enter(c.from, nil, now.Add(time.Second)); c.to != c.from {
			since = now.Add(time.Second)
		}
		if l.State != c.from || !l.Since.Equal(since) {
			t.Errorf("back in %s: %s since %v", c.from, l.State, l.Since)
		}
	}
}

// A service that was sent away for others or because it was idle comes only for somebody.
func TestSent(t *testing.T) {
	for _, c := range []struct {
		from, to State
		instance Instance
		was, is  bool
	}{
		{Away, Waiting, Instance{}, true, false},
		{Parked, Returning, Instance{}, true, false},
		{Closing, Leaving, Instance{For: ForIdle}, false, true},
		{Closing, Leaving, Instance{For: ForGood}, false, false},
		{Starting, Leaving, Instance{Failed: true}, false, false},
		{Serving, Parked, Instance{}, false, true},
	} {
		l := Life{State: c.from, Sent: c.was, Instance: &c.instance}
		if l.Enter(c.to, nil, now); l.Sent != c.is {
			t.Errorf("from %s to %s, for %q: %v", c.from, c.to, c.instance.For, l.Sent)
		}
	}
}

// A service that opens forgets why it left and who called it. If it was only closed, that was
// no switch.
func TestOpens(t *testing.T) {
	for from, switches := range map[State]int{Starting: 6, Returning: 6, Closing: 5} {
		i := Instance{For: ForIdle, ForWhom: "b", Way: Park, Cut: true, Port: 81}
		l := Life{State: from, Called: now, GPU: "g", Failure: &api.ServiceFailure{}, Why: "why", Switches: 5, Instance: &i}
		l.Enter(Serving, []Act{Open}, now)
		if int(l.Switches) != switches || !l.Called.IsZero() || l.GPU+l.Why != "" || l.Failure != nil ||
			i.For != "" || i.ForWhom != "" || i.Way != "" || i.Cut || i.Port != 81 {
			t.Errorf("from %s: %+v, %+v", from, l, i)
		}
	}
}

// Only a service that is to start again is called when its program has ended.
func TestAgain(t *testing.T) {
	for again, want := range map[string]time.Time{"": {}, "its settings have changed": now} {
		l := Life{State: Leaving, Since: now, Again: again, Instance: &Instance{}}
		if l.Enter(Away, []Act{Release}, now); !l.Called.Equal(want) || l.Again != "" {
			t.Errorf("%q: it is called at %v, and again because of %q", again, l.Called, l.Again)
		}
	}
}

// A front is told the paths that nobody may use, and the port and user of the server.
func TestTold(t *testing.T) {
	s := Spec{Name: "a", Models: []string{"m"}, StartTimeout: time.Minute, Sleep: []api.FrontHTTPCall{{Path: "/sleep?level=1"}, {Path: "/sleep"}}, Wake: []api.FrontHTTPCall{{Path: "/wake_up"}}}
	old := Spec{Name: "a", UID: 5, Sleep: []api.FrontHTTPCall{{Path: "/old"}}}
	told := ForFronts(&Life{State: Serving, Epoch: 7, Instance: &Instance{Spec: old, Port: 99}}, "a", &s)
	if !slices.Equal(told.Refuse, []string{"/sleep", "/wake_up", "/old"}) || told.Port != 99 || told.UID != 5 || told.Epoch != 7 || told.State != "ready" || told.Timeout != 60 || told.Models[0] != "m" {
		t.Errorf("it is told %+v", told)
	}
	leaving := &Instance{ForWhom: "b waits for its device", Cut: true}
	if told := ForFronts(&Life{State: Closing, Instance: leaving}, "a", &s); told.Cut != "The service a had to go (b waits for its device), and this request did not end within 5 min. Ask again." {
		t.Errorf("callers are told %q", told.Cut)
	}
	if told := ForFronts(&Life{State: Leaving, Instance: leaving}, "a", &s); told.Cut != "" {
		t.Errorf("after its requests have ended, callers are told %q", told.Cut)
	}
	if told := ForFronts(&Life{State: Away}, "a", nil); told.Name != "a" || told.State != "away" {
		t.Errorf("of one in no settings, it is told %+v", told)
	}
	if told := ForFronts(&Life{State: Leaving, Instance: &Instance{Spec: s}}, "a", nil); !slices.Equal(told.Models, s.Models) {
		t.Errorf("of one that leaves and is in no settings any more, it is told %+v", told)
	}
}

// ${PORT} stands for the port.
func TestWords(t *testing.T) {
	i := Instance{Port: 81}
	list := []string{"serve", "--port=${PORT}", "$PORT"}
	if got := i.Words(list); !slices.Equal(got, []string{"serve", "--port=81", "$PORT"}) || list[1] != "--port=${PORT}" {
		t.Errorf("the words are %q", got)
	}
}

// A service that has never failed, and one whose rest a person has ended, are restored too.
func TestRestoredWithoutARest(t *testing.T) {
	l := Life{Since: now}
	l.Restore(now)
	l.Failure = &api.ServiceFailure{At: now}
	if l.Restore(now); !l.Failure.Next.IsZero() {
		t.Errorf("it rests until %v", l.Failure.Next)
	}
}

// Times that were stored before the clock was set back are not ahead afterwards, and a rest
// is as long as it was.
func TestRestoredTimes(t *testing.T) {
	now := time.Now()
	for name, by := range map[string]time.Duration{"": 0, "set back": time.Hour} {
		stored := func(ago time.Duration) time.Time { return now.Add(by - ago).Round(0) }
		l := Life{
			State: Failed, Since: stored(time.Minute), Instance: &Instance{Asked: stored(3 * time.Minute)},
			Failure: &api.ServiceFailure{At: stored(2 * time.Minute), Next: stored(-3 * time.Minute)}, Trouble: map[Way]time.Time{Sleep: stored(time.Minute)},
		}
		l.Restore(now)
		ago := func(d time.Duration) time.Time {
			if by > 0 {
				d = 0
			}
			return now.Add(-d)
		}
		if l.Since != ago(time.Minute) || l.Trouble[Sleep] != l.Since || l.Instance.Asked != ago(3*time.Minute) || !l.Instance.Granted.IsZero() ||
			l.Failure.At != ago(2*time.Minute) || l.Failure.Next.Sub(l.Failure.At) != 5*time.Minute {
			t.Errorf("%s: %+v, %+v, %+v", name, l, l.Instance, l.Failure)
		}
	}
}
