package promexport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/cli/view"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/health/monitor"
	"github.com/berth-gpu/berth/internal/history/energy"
	"github.com/berth-gpu/berth/internal/history/hours"
	"github.com/berth-gpu/berth/internal/history/past"
	"github.com/berth-gpu/berth/internal/history/query"
	"github.com/berth-gpu/berth/internal/history/report"
	reportpage "github.com/berth-gpu/berth/internal/history/report/page"
	"github.com/berth-gpu/berth/internal/history/series"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/text/term"
)

// An hour in which the daemon is stopped and killed has the same sums, however long the
// time that a report is asked for, and they are those of the leases.
func TestReportsOfAnyLengthAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { testReports(t, false, 0.01, hourOfLives) })
}

// A daemon that is killed seven times in 200 seconds counts what the journal says, once.
func TestReportsAfterSevenKills(t *testing.T) {
	var lives []life
	for i := range 7 {
		lives = append(lives, life{time.Duration(21+3*(i%4)) * time.Second, time.Duration(100+270*i) * time.Millisecond, true})
	}
	lives = append(lives, life{21 * time.Second, 0, false})
	synctest.Test(t, func(t *testing.T) { testReports(t, false, 0.01, lives) })
}

// An earlier version of berth kept samples of what users held, and no sums: with a sample
// every ten seconds, short leases are known less well.
func TestReportsOfAnOldPastAgree(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { testReports(t, true, 0.25, hourOfLives) })
}

// life is the time in which a daemon runs, and that until the next one.
type life struct {
	lasts, away time.Duration
	killed      bool
}

var hourOfLives = []life{{5 * time.Minute, 2 * time.Second, true}, {8 * time.Minute, time.Minute, false}, {20 * time.Minute, 7 * time.Minute, true}, {15*time.Minute + 7*time.Second, 0, false}}

// lab is a machine whose daemon comes and goes.
type lab struct {
	t     *testing.T
	old   bool // it keeps no sums
	book  *ledger.Ledger
	store *past.Past
	used  *energy.Meters

	mu      sync.Mutex   // guards what follows
	hours   *hours.Hours // of the daemon that runs; nil if none does
	kept    hours.Kept   // as the file of the daemon has it
	entries [][]byte     // of the journal

	file string // of the energy

	counter gpu.Joules // of the driver
	held    map[string]*account
	spans   [][2]time.Time // in which a daemon ran, from its first look to its last
	joules  [2]gpu.Joules  // of the driver at the first and the last look
}

// account is what a user truly had in the time in which a daemon ran.
type account struct {
	seconds, memory, waited float64
	stands                  map[string]span
}

type span struct {
	asked, granted, ended time.Time
	memory                gpu.MiB
}

// noted is a journal that a lab reads.
type noted struct {
	journal.Journal
	l *lab
}

func (n noted) Append(group [][]byte, _ journal.Care) error {
	n.l.mu.Lock()
	defer n.l.mu.Unlock()
	for _, entry := range group {
		n.l.entries = append(n.l.entries, slices.Clone(entry))
	}
	return nil
}

func newLab(t *testing.T, old bool) *lab {
	dir := t.TempDir()
	l := &lab{t: t, old: old, file: filepath.Join(dir, "energy.json"), held: map[string]*account{}}
	book, err := ledger.Open(ledger.Options{
		Settings:  quota.Settings{Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{} }},
		Processes: process.Proc(), CPUs: 8,
		Open: func(func(journal.Entry) error) (journal.Journal, error) { return noted{journal.Forgetful(), l}, nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	l.book = book
	book.Subscribe(ledger.Hooks{Changed: l.changed})
	run(t, book)
	l.store, err = past.Open(filepath.Join(dir, "past"), past.Options{Settings: past.Settings{Recent: 48 * time.Hour, Long: 90 * 24 * time.Hour, Size: 1024, Every: time.Second}})
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func testReports(t *testing.T, old bool, part float64, lives []life) {
	l := newLab(t, old)
	defer func() {
		if err := l.store.Close(); err != nil {
			t.Error(err)
		}
	}()
	ctx, cancel := context.WithCancel(t.Context())
	defer synctest.Wait()
	defer cancel()
	random := rand.New(rand.NewPCG(1, 2))
	l.observe() // before anybody asks: without a device there is nothing to wait for
	for i, user := range []string{"anna", "bob", "carol"} {
		l.held[user] = &account{stands: map[string]span{}}
		seed := random.Uint64()
		go l.user(ctx, user, []time.Duration{4 * time.Second, 40 * time.Second, 7 * time.Minute}[i], seed)
		synctest.Wait() // who asks first is first
	}
	for _, life := range lives {
		l.live(life.lasts, life.killed)
		l.pass(life.away)
	}
	now := time.Now()
	cancel()
	synctest.Wait()

	want := map[string]*account{}
	stood := [][2]time.Time{{l.spans[0][0], l.spans[len(l.spans)-1][1]}} // whether a daemon ran or not
	if old {
		stood = l.spans
	}
	for user, a := range l.held {
		for _, s := range a.stands {
			for _, ran := range stood {
				a.seconds += overlap(s.granted, s.ended, ran)
				a.memory += overlap(s.granted, s.ended, ran) * float64(s.memory)
			}
			for _, ran := range l.spans {
				a.waited += overlap(s.asked, s.granted, ran)
			}
		}
		want[user] = a
	}
	for i := range 30 { // wherever a step begins
		for _, u := range l.report(report.Period{From: now.Add(-time.Hour), Until: now.Add(time.Duration(i) * time.Second)}).Users {
			if a := want[u.Name]; a != nil && !old {
				near(t, time.Duration(i)*time.Second, u.Name+" had MiB·s", u.Leased*3600, a.memory, part)
			}
		}
	}
	var first *api.PeriodReport
	shown := ""
	for _, since := range []time.Duration{time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour, 17*time.Hour + 1234*time.Millisecond} {
		r := l.report(report.Period{From: now.Add(-since), Until: now})
		if first == nil {
			first = r
		}
		for _, u := range r.Users {
			a := want[u.Name]
			if a == nil {
				continue
			}
			near(t, since, u.Name+" held", u.Leases*3600, a.seconds, part)
			near(t, since, u.Name+" had MiB·s", u.Leased*3600, a.memory, part)
			near(t, since, u.Name+" waited", u.Waiting*3600, a.waited, part)
		}
		near(t, since, "time of the GPU with leases and nothing to do", r.GPUs[0].Idle, l.idle(), 0.03)
		near(t, since, "energy", float64(r.GPUs[0].Energy.Or(0)), float64(l.joules[1]-l.joules[0]), 0.01)
		covered := 0.0
		for i, ran := range l.spans {
			covered += ran[1].Sub(ran[0]).Seconds()
			if i > 0 && ran[0].Sub(l.spans[i-1][1]) < 45*time.Second { // too short for a gap
				covered += ran[0].Sub(l.spans[i-1][1]).Seconds()
			}
		}
		near(t, since, "what is covered", r.Covered, covered, 0.01)
		if diff := cmp.Diff(rough(t, first), rough(t, r)); diff != "" {
			t.Errorf("%v has other sums than an hour (-hour +%v):\n%s", since, since, diff)
		}
		tables := tablesOf(t, r)
		if shown == "" {
			shown = tables
		}
		if diff := cmp.Diff(shown, tables); diff != "" {
			t.Errorf("the page of %v shows other sums than that of an hour (-hour +%v):\n%s", since, since, diff)
		}
	}
	for _, p := range first.Programs { // only the leases of carol are long enough to be measured
		if p.Hours == 0 || p.User == "carol" && len(lives) == len(hourOfLives) && (p.Idle < 0.1 || p.Used == 0) {
			t.Errorf("%+v", p)
		}
	}
	if len(first.Programs) != 3 || len(first.Users) < 3 || !strings.Contains(shown, "carol") {
		t.Errorf("users: %+v, shown as %s", first.Users, shown)
	}
}

// A lease that stands through a week without a daemon is held in each day of it.
func TestReportsAfterALongStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLab(t, false)
		defer func() {
			if err := l.store.Close(); err != nil {
				t.Error(err)
			}
		}()
		l.observe()
		r := request("anna", "", 3000)
		if _, err := l.book.Acquire(t.Context(), r); err != nil {
			t.Fatal(err)
		}
		granted := time.Now()
		l.live(5*time.Minute, true)
		l.pass(7 * 24 * time.Hour)
		l.live(5*time.Minute, false)
		now := time.Now()
		for _, p := range []report.Period{
			{From: now.Add(-30 * 24 * time.Hour), Until: now}, {From: now.Add(-24 * time.Hour), Until: now}, {From: now.Add(-3 * time.Hour), Until: now},
			{From: now.Add(-4 * 24 * time.Hour), Until: now.Add(-3 * 24 * time.Hour)},
		} {
			held, length := 0.0, p.Until.Sub(p.From)
			for _, u := range l.report(p).Users {
				held += u.Leases * 3600
			}
			near(t, length, "anna held", held, min(length, p.Until.Sub(granted)).Seconds(), 0.01)
		}
	})
}

func near(t *testing.T, since time.Duration, what string, got, want, part float64) {
	t.Helper()
	if math.Abs(got-want) > part*want {
		t.Errorf("by %v, %s %.1f, want %.1f", since, what, got, want)
	}
}

func overlap(from, until time.Time, ran [2]time.Time) float64 {
	if from.IsZero() {
		return 0
	}
	if from.Before(ran[0]) {
		from = ran[0]
	}
	if until.IsZero() || until.After(ran[1]) {
		until = ran[1]
	}
	return max(until.Sub(from).Seconds(), 0)
}

// rough returns the sums of a report, without what rounding adds, as somebody who asks for
// JSON gets them.
func rough(t *testing.T, r *api.PeriodReport) string {
	text, err := json.Marshal(map[string]any{"users": r.Users, "services": r.Services, "programs": r.Programs, "idle": r.GPUs[0].Idle, "waiting": r.Waiting.Times, "answered": r.Waiting.Answered, "faults": r.Faults})
	if err != nil {
		t.Fatal(err)
	}
	var all any
	if err := json.Unmarshal(text, &all); err != nil {
		t.Fatal(err)
	}
	var walk func(v any) any
	walk = func(v any) any {
		switch v := v.(type) {
		case float64:
			return fmt.Sprintf("%.6g", v)
		case []any:
			for i := range v {
				v[i] = walk(v[i])
			}
		case map[string]any:
			for k := range v {
				v[k] = walk(v[k])
			}
		}
		return v
	}
	text, err = json.MarshalIndent(walk(all), "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tableLine is a line of a table that begins with a user or a program.
var tableLine = regexp.MustCompile(`^\s*(\| |<tr><td>|)(anna|bob|carol)(\.py)?( |<)`)

// tablesOf returns the lines of users and programs as Markdown, HTML and text have them.
func tablesOf(t *testing.T, r *api.PeriodReport) string {
	var markdown, html strings.Builder
	all := api.Report{Time: r.Until, Period: r}
	if err := errors.Join(reportpage.Markdown(&markdown, &all), reportpage.HTML(&html, &all)); err != nil {
		t.Fatal(err)
	}
	kept := ""
	text := strings.Join(view.Report(all, term.Screen{Width: 100}), "\n")
	for line := range strings.Lines(markdown.String() + html.String() + text) {
		if tableLine.MatchString(line) && !strings.ContainsAny(line, "▁▂▃▄▅▆▇█") { // and no curve
			kept += line
		}
	}
	return kept
}

// report makes a report as the daemon does.
func (l *lab) report(p report.Period) *api.PeriodReport {
	engine := query.New(l.store.Queryable(), query.Default())
	a := report.Answers{Series: map[string][]api.QuerySeries{}}
	for user, held := range l.held {
		for id, s := range held.stands {
			holder, on := api.Holder{User: user, Name: user + ".py"}, []api.LeasePart{{GPU: "GPU-a", Memory: s.memory}}
			if s.granted.Before(s.ended) {
				a.Past.Leases = append(a.Past.Leases, api.PastLease{ID: id, Holder: holder, Granted: s.granted, Ended: s.ended, Parts: on})
			}
		}
	}
	for _, q := range p.Questions() {
		answer, err := engine.Range(l.t.Context(), q.Expr, q.From, q.Until, q.Step, series.Options{})
		if err != nil {
			l.t.Fatalf("%s: %v", q.Expr, err)
		}
		for _, each := range answer.Value.(promql.Matrix) {
			one := api.QuerySeries{Labels: each.Metric.Map()}
			for _, f := range each.Floats {
				one.Points = append(one.Points, api.QueryPoint{Time: time.UnixMilli(f.T).UTC(), Value: f.F})
			}
			a.Series[q.Name] = append(a.Series[q.Name], one)
		}
	}
	return report.MakePeriod(&a, p)
}

// pauses are when the device has nothing to do, in minutes of the hour. They are whole
// blocks of five minutes, but one: a report counts no shorter ones.
var pauses = [][2]int{{10, 25}, {37, 43}, {55, 60}}

// idle returns for how long a daemon measured a pause that a report counts.
func (l *lab) idle() (seconds float64) {
	hour := l.spans[0][0].Truncate(time.Hour)
	for _, p := range pauses {
		for _, ran := range l.spans {
			if p[0]%5 == 0 {
				seconds += overlap(hour.Add(time.Duration(p[0])*time.Minute), hour.Add(time.Duration(p[1])*time.Minute), ran)
			}
		}
	}
	return seconds
}

// device is the only one: it draws 200 W.
func (l *lab) device() (gpu.Device, gpu.Sample) {
	now := time.Now()
	s := gpu.Sample{
		Time: now, MemoryTotal: gpu.Some(gpu.MiB(8192)), MemoryUsed: gpu.Some(gpu.MiB(100)), MemoryFree: gpu.Some(gpu.MiB(8092)),
		Power: gpu.Some(gpu.Watts(200)), Utilization: gpu.Some(gpu.Percent(50)),
		Slow: gpu.Slow{Energy: gpu.Some(float64(l.counter)), SlowTime: now},
	}
	if slices.ContainsFunc(pauses, func(p [2]int) bool { return now.Minute() >= p[0] && now.Minute() < p[1] }) {
		s.Utilization = gpu.Some(gpu.Percent(0))
	}
	return gpu.Device{UUID: "GPU-a", MemoryTotal: 8192, PowerLimit: gpu.Some[gpu.Watts](300)}, s
}

func (l *lab) devices() Devices {
	on, s := l.device()
	return Devices{Watching: true, Readings: []monitor.Reading{{Device: on, Sample: s, Sampled: true, State: gpu.Optimal, Health: gpu.Healthy}}}
}

func (l *lab) observe() {
	on, s := l.device()
	l.book.Observe(placement.Observation{Device: on, Sample: &s, State: gpu.Optimal, Health: gpu.Healthy})
}

// pass lets time pass without a daemon.
func (l *lab) pass(away time.Duration) {
	time.Sleep(away)
	l.counter += gpu.Joules(200 * away.Seconds())
}

// live runs a daemon for some time: it measures every second, and keeps everything else
// every ten. One that is killed loses what it has not kept.
func (l *lab) live(lasts time.Duration, killed bool) {
	ctx, cancel := context.WithCancel(l.t.Context())
	defer cancel()
	l.used, _ = energy.Open(l.file, energy.Options{})
	kept := make(chan error, 1)
	go func() { kept <- l.used.Run(ctx) }()
	names := &Names{}
	l.follow(names)
	e := New(Sources{
		Devices: l.devices,
		Look:    func() Values { return Values{Devices: l.devices(), Ledger: l.book, Energy: l.used, Hours: l.hours} },
		Labels:  names,
	})
	r := e.Recorder("box:8000")
	began := time.Now()
	last := began
	if len(l.spans) == 0 {
		l.joules[0] = l.counter
	}
	look := func(all bool) {
		now := time.Now()
		on, s := l.device()
		l.used.Observe(on, &s, nil)
		l.observe()
		list := r.Devices()
		if all {
			l.hours.Look(now, l.book)
			l.kept = l.hours.Keep()
			l.hours.Missed(func(at time.Time, users, services map[string]hours.Sum) { l.write(at, r.OverTime(users, services)) })
			list = append(list, l.inUse(now, r.Rest(now))...)
			l.write(now.Add(-time.Millisecond), r.Begun())
			last = now
			l.joules[1] = l.counter
		}
		l.write(now, list)
	}
	for second := range int(lasts / time.Second) {
		look(second%10 == 0)
		time.Sleep(time.Second)
		l.counter += 200
	}
	if !killed {
		look(true)
	}
	l.spans = append(l.spans, [2]time.Time{began, last})
	l.mu.Lock()
	l.hours = nil
	l.mu.Unlock()
	text, _ := os.ReadFile(l.file)
	cancel()
	if err := <-kept; err != nil {
		l.t.Error(err)
	}
	if killed && text != nil {
		if err := os.WriteFile(l.file, text, 0o600); err != nil {
			l.t.Error(err)
		}
	}
}

// inUse adds that each lease uses half of its memory, which is not measured for two minutes
// of every five.
func (l *lab) inUse(now time.Time, list []series.Sample) []series.Sample {
	for _, s := range list {
		if s.Labels.Get(labels.MetricName) != "berth_lease_memory_mb" || !value.IsStaleNaN(s.Value) && now.Minute()%5 < 2 {
			continue
		}
		s.Labels = labels.NewBuilder(s.Labels).Set(labels.MetricName, "berth_lease_used_mb").Labels()
		if !value.IsStaleNaN(s.Value) {
			s.Value /= 2
		}
		list = append(list, s)
	}
	return list
}

func (l *lab) write(at time.Time, list []series.Sample) {
	if l.old {
		list = slices.DeleteFunc(list, func(s series.Sample) bool { return before[s.Labels.Get(labels.MetricName)] != nil })
	}
	if err := l.store.Write(at, list); err != nil {
		l.t.Error(err)
	}
}

// follow begins to add up as a daemon does: from its file, and from the journal.
func (l *lab) follow(names *Names) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, book := hours.New(names.Label), lease.New()
	h.Recall(l.kept, time.Now(), time.Time{})
	for _, entry := range l.entries {
		_, effect, err := book.Follow(entry)
		if err != nil {
			l.t.Fatal(err)
		}
		h.Replay(&effect)
	}
	l.hours = h
}

func (l *lab) changed(e *lease.Effect) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.hours != nil {
		l.hours.Changed(e)
	}
}

// user leases memory for a time that is about as long as its kind of work takes, again and
// again, and waits for it.
func (l *lab) user(ctx context.Context, name string, takes time.Duration, seed uint64) {
	random := rand.New(rand.NewPCG(seed, 3))
	for i := 0; ctx.Err() == nil; i++ {
		one := span{asked: time.Now(), memory: 3000 + gpu.MiB(random.IntN(2000))}
		r := request(name, "", one.memory)
		r.ID, r.Wait = fmt.Sprintf("%s-%d", name, i), gpu.Some(time.Hour)
		_, err := l.book.Acquire(ctx, r)
		if one.granted = time.Now(); err != nil { // it waited to the end
			one.ended = one.granted
			l.held[name].stands[r.ID] = one
			return
		}
		select {
		case <-time.After(time.Duration((0.5 + random.Float64()) * float64(takes))):
		case <-ctx.Done():
		}
		one.ended = time.Now()
		l.held[name].stands[r.ID] = one
		_, _ = l.book.Release(context.WithoutCancel(ctx), lease.Name{ID: r.ID}, 0, access.Daemon())
		select {
		case <-time.After(time.Duration(random.Float64() * float64(takes) / 2)):
		case <-ctx.Done():
		}
	}
}
