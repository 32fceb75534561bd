package batch

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/internal/batch/chunk"
	"github.com/berth-gpu/berth/internal/batch/outcome"
	"github.com/berth-gpu/berth/internal/batch/record"
)

// byGPU is how many records each GPU did.
func byGPU(s Summary) map[string]int64 {
	out := map[string]int64{}
	for _, g := range s.GPUs {
		out[g.UUID] = g.Records
	}
	return out
}

// whenBothAreReady calls do when two workers are ready. Neither takes a record before.
func (b *bench) whenBothAreReady(do func()) {
	before := b.opt.Notify
	var n atomic.Int64
	both := make(chan struct{})
	b.opt.Notify = func(e Event) {
		before(e)
		if e.Code != EventReady {
			return
		}
		if n.Add(1) == 2 {
			do()
			close(both)
		}
		<-both
	}
}

func TestLostLeaseEndsItsWorkerAlone(t *testing.T) {
	t.Parallel()
	jobs := plain(3000)
	b := newBench(t, jobs)
	b.opt.Batch = 4
	b.whenBothAreReady(func() { b.machine.lose(0) })
	s := b.mustRun()
	check(t, jobs, b.lines())
	done := byGPU(s)
	if done["GPU-0"]+done["GPU-1"] != 3000 || done["GPU-1"] == 0 || b.count(EventFailed) != 0 || s.Failed != 0 {
		t.Errorf("%v\n%s", done, b.story())
	}
	if b.count(EventLost) != 1 {
		t.Errorf("nobody noticed that a GPU is gone\n%s", b.story())
	}
}

func TestLeasesThatAreLostAgainAndAgain(t *testing.T) {
	t.Parallel()
	jobs := plain(2000)
	b := newBench(t, jobs)
	b.opt.Batch = 4
	var n atomic.Int64
	before := b.opt.Notify
	b.opt.Notify = func(e Event) {
		before(e)
		if e.Code == EventCommitted && n.Add(1) < 8 {
			b.machine.loseLeases(int(n.Load()) % 2)
		}
	}
	s := b.mustRun()
	check(t, jobs, b.lines())
	if s.Failed != 0 {
		t.Errorf("%+v", s)
	}
}

func TestRecalledPlaceIsGivenBack(t *testing.T) {
	t.Parallel()
	jobs := plain(3000)
	b := newBench(t, jobs)
	b.opt.Batch = 4
	b.whenBothAreReady(func() { b.machine.recallAll(0) })
	s := b.mustRun()
	check(t, jobs, b.lines())
	if s.Retries != 0 || b.count(EventRecalled) != 1 || byGPU(s)["GPU-1"] == 0 || s.GPUs[0].Trouble != "" {
		t.Errorf("%+v\n%s", s, b.story())
	}
}

// What is wrong with a GPU whose workers leave is told at once, and in the summary.
func TestTroubleOfAGPUIsTold(t *testing.T) {
	t.Parallel()
	const trouble = "is in quarantine until 10:50 at least: XID 79"
	for _, test := range []struct {
		name string
		make func(*machine)
		code EventCode
		text string
	}{
		{"its places are wanted back", func(m *machine) { m.recallAll(0) }, EventRecalled, "GPU 0 " + trouble + ": it leaves after its batch"},
		{"it is lost", func(m *machine) { m.lose(0) }, EventLost, "GPU 0 " + trouble + ": other workers take its records"},
	} {
		t.Run(test.name, func(t *testing.T) {
			jobs := plain(300)
			b := newBench(t, jobs)
			b.opt.Batch = 4
			b.machine.trouble = trouble
			said := make(chan string, len(jobs)) // its workers are two
			b.whenBothAreReady(func() { test.make(b.machine) })
			before := b.opt.Notify
			b.opt.Notify = func(e Event) {
				before(e)
				if e.Code == test.code {
					said <- e.Text
				}
			}
			s := b.mustRun()
			check(t, jobs, b.lines())
			if got := <-said; got != test.text {
				t.Errorf("it says %q", got)
			}
			if s.GPUs[0].Trouble != trouble || s.GPUs[1].Trouble != "" {
				t.Errorf("the summary is %+v", s.GPUs)
			}
		})
	}
}

func TestGPUThatJoinsIsUsed(t *testing.T) {
	t.Parallel()
	jobs := plain(3000)
	b := newBench(t, jobs)
	b.machine = newMachine(1, 1)
	b.opt.Leases = b.machine
	// The first GPU is paused from its first moment until the other has come.
	joined := make(chan struct{})
	b.machine.speed = func(uuid string) float64 {
		select {
		case <-joined:
			return 1
		default:
			if uuid == "GPU-0" {
				return 0
			}
			return 1
		}
	}
	b.on(EventReady, 0, func() { b.machine.join(1) })
	b.on(EventReady, 1, func() { close(joined) })
	s := b.mustRun()
	check(t, jobs, b.lines())
	if byGPU(s)["GPU-1"] == 0 {
		t.Errorf("the GPU that joined did nothing: %v", byGPU(s))
	}
}

// Every worker on GPU 0 dies of its first batch: the GPU is given up, and no
// record is marked for it.
func TestBrokenGPUIsGivenUp(t *testing.T) {
	t.Parallel()
	jobs := plain(200)
	b := newBench(t, jobs)
	b.command.Args = []string{"/bin/sh", "-c", `[ "$CUDA_VISIBLE_DEVICES" = GPU-0 ] && { echo '{"type":"ready","protocol":1}' >&4; read line <&3; exit 7; }; exec "$0"`, b.command.Args[0]}
	b.opt.Batch = 2
	b.opt.Restarts = 4
	// GPU 1 waits until GPU 0 is given up, or it would do everything before.
	givenUp := make(chan struct{})
	b.on(EventGivenUp, 0, func() { close(givenUp) })
	b.machine.speed = func(uuid string) float64 {
		if uuid == "GPU-1" {
			select {
			case <-givenUp:
			default:
				return 0
			}
		}
		return 1
	}
	s := b.mustRun()
	check(t, jobs, b.lines())
	if s.Failed != 0 || b.count(EventGivenUp) != 1 || byGPU(s)["GPU-0"] != 0 {
		t.Errorf("%+v\n%s", s, b.story())
	}
}

// No worker can start on GPU 0, which is asked for first, and one worker is
// enough: the other GPU is tried before the run is given up.
func TestOneWorkerTriesEveryGPU(t *testing.T) {
	t.Parallel()
	jobs := plain(20)
	b := newBench(t, jobs)
	b.opt.Workers = 1
	b.command.Args = []string{"/bin/sh", "-c", `[ "$CUDA_VISIBLE_DEVICES" = GPU-0 ] && exit 7; exec "$0"`, b.command.Args[0]}
	s := b.mustRun()
	check(t, jobs, b.lines())
	if byGPU(s)["GPU-1"] != 20 || b.count(EventFailed) != 1 {
		t.Errorf("%+v\n%s", s, b.story())
	}
}

func TestEveryGPUBroken(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain(50))
	b.command.Args = []string{"/bin/sh", "-c", `echo '{"type":"ready","protocol":1}' >&4; read line <&3; echo CUDA error >&2; exit 7`}
	b.opt.Restarts = 3
	b.opt.Tries = 10
	_, err := b.run(context.Background())
	if !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "CUDA error") {
		t.Errorf("%v\n%s", err, b.story())
	}
}

func TestNoGPUAtAll(t *testing.T) {
	t.Parallel()
	b := newBench(t, plain(5))
	b.machine.err = fmt.Errorf("%w: this machine has no GPU", ErrRefused)
	if _, err := b.run(context.Background()); !errors.Is(err, ErrRefused) || !strings.Contains(err.Error(), "has no GPU") {
		t.Error(err)
	}
}

// A daemon that does not answer for a while is asked again.
func TestLeaserThatFailsForAWhile(t *testing.T) {
	t.Parallel()
	jobs := plain(100)
	b := newBench(t, jobs)
	b.machine.err = errors.New("the daemon does not answer")
	b.on(EventWaiting, 3, func() {
		b.machine.mu.Lock()
		defer b.machine.mu.Unlock()
		b.machine.err = nil
	})
	b.mustRun()
	check(t, jobs, b.lines())
}

// A multiplier of zero pauses the GPU, and one in between slows it down.
func TestMultiplier(t *testing.T) {
	t.Parallel()
	jobs := plain(40)
	b := newBench(t, jobs)
	b.machine = newMachine(1, 1)
	b.opt.Leases = b.machine
	b.opt.Batch = 8
	var asked atomic.Int64
	var mu sync.Mutex
	var while []int64 // records done each time that the multiplier was zero
	var r *Run
	b.machine.speed = func(string) float64 {
		if n := asked.Add(1); n > 3 {
			return 0.5
		}
		mu.Lock()
		defer mu.Unlock()
		while = append(while, asked.Load())
		return 0
	}
	r, err := b.open()
	if err != nil {
		t.Fatal(err)
	}
	s, err := r.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	check(t, jobs, b.lines())
	if len(while) != 3 || s.Records != 40 {
		t.Errorf("%v, %+v", while, s)
	}
	if p := r.Progress(); p.GPUs[0].Speed != 0.5 || p.GPUs[0].Batch > 4 {
		t.Errorf("%+v", p.GPUs[0])
	}
}

// The longest go first, by a cost in the record or by its size.
func TestLongestFirst(t *testing.T) {
	t.Parallel()
	costs := []float64{3, 100, 1, 50, 7, 1000, 20}
	for _, cost := range []record.Cost{{By: record.ByField, Field: "cost"}, {}, {By: record.ByNothing}} {
		jobs := plain(len(costs))
		for i, c := range costs {
			jobs[i].Cost = c
			if cost.By == record.BySize {
				jobs[i].Do = strings.Repeat("x", int(c)) // unknown, so nothing goes wrong
			}
		}
		b := newBench(t, jobs)
		b.machine = newMachine(1, 1)
		b.opt.Leases = b.machine
		b.opt.Batch = 1
		b.opt.Input.Cost = cost
		r, err := b.open()
		if err != nil {
			t.Fatal(err)
		}
		// The journal would say in which order they came; so does the pool.
		var order []float64
		go r.read()
		w := &worker{run: r, card: &card{pace: 1, speed: 1}}
		for range costs {
			g := r.take(w, true)
			var j job
			if err := json.Unmarshal(g.records[0].Data, &j); err != nil {
				t.Fatal(err)
			}
			order = append(order, j.Cost)
		}
		want := slices.Clone(costs)
		if cost.By != record.ByNothing {
			slices.Sort(want)
			slices.Reverse(want)
		}
		if diff := cmp.Diff(want, order); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", cost, diff)
		}
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// Workers without work give their places back while others are busy.
func TestIdleWorkersLeave(t *testing.T) {
	t.Parallel()
	jobs := with(2, "hang")
	b := newBench(t, jobs)
	b.opt.IdleGrace = time.Millisecond
	b.opt.Timeout = time.Minute
	b.opt.Batch = 1
	b.opt.Workers = 2
	left := false
	b.whenBothAreReady(func() {
		b.machine.mu.Lock()
		freed := b.machine.more
		b.machine.mu.Unlock()
		go func() {
			<-freed
			left = b.count(EventFailed) == 0 // the other one still hangs
			b.machine.loseLeases(0)
			b.machine.loseLeases(1)
		}()
	})
	b.mustRun()
	check(t, jobs, b.lines())
	if !left {
		t.Error("a worker without work kept its place")
	}
}

func TestProgress(t *testing.T) {
	t.Parallel()
	jobs := with(1000, "bad", "die")
	b := newBench(t, jobs)
	b.opt.Batch = 4
	var r *Run
	var during api.Batch
	b.on(EventCommitted, 0, func() { during = r.Progress() })
	r, err := b.open()
	if err != nil {
		t.Fatal(err)
	}
	if p := r.Progress(); p.Stage != StageOpen || p.Done != 0 {
		t.Errorf("before the run: %+v", p)
	}
	if _, err := r.Run(context.Background()); err != nil {
		t.Fatal(err)
	}
	if during.Stage != StageRunning || during.Done == 0 || during.Total.Or(0) < during.Done || len(during.GPUs) == 0 {
		t.Errorf("during the run: %+v", during)
	}
	after := r.Progress()
	var done, observed int64
	for _, g := range after.GPUs {
		done += g.Done
		for _, n := range g.Latency.Counts {
			observed += int64(n)
		}
	}
	if after.Stage != StageDone || after.Done != 1000 || done != 1000 || observed != 1000 || after.Failed != 1 || !after.Exact || after.Workers != 0 {
		t.Errorf("after the run: %+v", after)
	}
	if _, err := json.Marshal(after); err != nil {
		t.Error(err)
	}
}

// The only GPU breaks in the middle: no record is blamed for it, and when the
// GPU is well again the run goes on.
func TestOnlyGPUBreaksForAWhile(t *testing.T) {
	t.Parallel()
	jobs := plain(300)
	b := newBench(t, jobs)
	b.machine = newMachine(1, 1)
	b.opt.Leases = b.machine
	b.opt.Batch = 1
	broken := b.path("broken")
	b.command.Args = []string{"/bin/sh", "-c", `[ -e "$1" ] && { echo '{"type":"ready","protocol":1}' >&4; read line <&3; exit 7; }; exec "$0"`, b.command.Args[0], broken}
	// A worker dies of job 150, and from then on all do, until eight have.
	jobs[150].Do = "die"
	b.write("in.jsonl", jobs)
	b.on(EventFailed, 0, func() { b.write("broken", nil) })
	b.on(EventFailed, 8, func() { _ = os.Remove(broken) })
	s := b.mustRun()
	check(t, jobs, b.lines())
	if s.Failed != 0 || s.Restarts != 9 {
		t.Errorf("%+v\n%s", s, b.story())
	}
	if strings.Contains(b.story(), "worker 2") {
		t.Errorf("a worker that follows another has another name:\n%s", b.story())
	}
}

// unkillable is a process that does not die of SIGKILL, because it hangs in a
// driver.
type unkillable struct{ Process }

func (unkillable) Gone() <-chan struct{}          { return nil }
func (unkillable) Rested(time.Time) time.Duration { return 0 }
func (unkillable) LastOutput() string             { return "" }
func (unkillable) Read(p []byte) (int, error)     { return 0, os.ErrClosed }
func (unkillable) Destroy()                       {}

// A process that cannot be killed is left behind, and that is said.
func TestProcessThatCannotBeKilled(t *testing.T) {
	t.Parallel()
	p := &process{Process: unkillable{}, messages: make(chan answer)}
	go p.listen(1 << 20)
	p.destroy()
	if !strings.Contains(p.exitText(nil), "cannot be killed") {
		t.Errorf("exitText: %s", p.exitText(nil))
	}
}

// An answer that came before its time limit counts, although the runner reads it later.
func TestAnswerThatIsReadLate(t *testing.T) {
	t.Parallel()
	r := &Run{opt: Options{}.withDefaults()}
	p := &process{Process: unkillable{}, messages: make(chan answer, 1)}
	for range 100 {
		p.messages <- answer{message: message{kind: messageResult}}
		w := &worker{run: r, card: &card{}, proc: p, flight: []*group{{probe: true}}}
		if err := w.receive(); err != nil {
			t.Fatal(err)
		}
	}
}

// A record that failed on a GPU is tried on another one first, unless that one takes no
// records.
func TestWhereASuspectMayBeTried(t *testing.T) {
	s := newStaff()
	_, a := s.add(&Grant{GPU: GPU{UUID: "a"}})
	_, b := s.add(&Grant{GPU: GPU{UUID: "b"}})
	suspect := &group{tried: []string{"a"}}
	if s.mayTry(suspect, a) || !s.mayTry(suspect, b) {
		t.Error("it is tried again where it failed")
	}
	b.speed = 0
	if !s.mayTry(suspect, a) {
		t.Error("it waits for a GPU that is too hot to take records")
	}
	split := &group{records: make([]record.Record, 4)}
	for _, part := range split.parts(chunk.OutOfMemory, "a") {
		if b.speed = 1; !s.mayTry(part, a) {
			t.Error("a batch that was too large is held against its GPU")
		}
	}
}

// A worker that waits hears that the GPU which was to try a suspect takes no more records.
func TestSuspectOfAGPUThatStandsStill(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &Run{opt: Options{}.withDefaults(), staff: newStaff()}
		r.changed.L, r.room.L = &r.mu, &r.mu
		r.stock = newStock(r.opt)
		r.stock.suspect(&group{records: make([]record.Record, 1), tried: []string{"a"}})
		speed := 1.0
		waits, stops := &worker{run: r, left: make(chan struct{})}, &worker{run: r, left: make(chan struct{})}
		stops.grant = &Grant{GPU: GPU{UUID: "b"}, Speed: func() float64 { return speed }}
		_, waits.card = r.staff.add(&Grant{GPU: GPU{UUID: "a"}})
		_, stops.card = r.staff.add(stops.grant)
		var got *group
		go func() { got = r.take(waits, true) }()
		synctest.Wait()
		speed = 0
		stops.leave()
		synctest.Wait() // that has woken everybody, too
		stops.coolDown()
		synctest.Wait()
		if got == nil {
			t.Error("nobody tries the suspect")
		}
		waits.leave()
	})
}

// Every GPU is used as soon as there is work for it, however the records come: one first,
// and the others while its worker loads or works.
func TestStreamThatBeginsSlowly(t *testing.T) {
	t.Parallel()
	for _, code := range []EventCode{EventStarted, EventReady, EventCommitted} {
		b := newBench(t, nil)
		in, records := io.Pipe()
		b.opt.Input = record.Spec{Stream: in, Format: record.JSONL, Cost: record.Cost{By: record.ByNothing}}
		b.opt.Batch, b.opt.Shape = 1, outcome.Shape{}
		more := make(chan struct{})
		b.on(code, 0, func() { close(more) })
		both := make(chan struct{})
		b.on(EventStarted, 1, func() { close(both) })
		b.machine.speed = func(string) float64 { // nobody takes a record before both are there
			select {
			case <-both:
				return 1
			default:
				if code == EventCommitted && b.count(EventCommitted) == 0 {
					return 1
				}
				return 0
			}
		}
		go func() {
			say := func(id int) { _, _ = fmt.Fprintf(records, "{\"id\":%d}\n", id) }
			say(0)
			<-more
			for id := 1; id < 10; id++ {
				say(id)
			}
			<-both
			_ = records.Close()
		}()
		if s := b.mustRun(); s.Records != 10 {
			t.Errorf("%+v", s)
		}
	}
}

// A worker that is ready takes the record that it was started for: no other is wanted for
// that one, unless its GPU may not work now.
func TestReadyWorkerTakesItsRecord(t *testing.T) {
	for speed, wanted := range map[float64]bool{1: false, 0.5: false, 0: true} {
		r := &Run{opt: Options{Notify: func(Event) {}}.withDefaults(), staff: newStaff()}
		r.changed.L, r.room.L = &r.mu, &r.mu
		r.stock = newStock(r.opt)
		r.stock.primed = true
		r.stock.put(record.Record{Data: []byte("1"), Weight: 1})
		g := &Grant{Speed: func() float64 { return speed }}
		w := &worker{run: r, grant: g, left: make(chan struct{})}
		_, w.card = r.staff.add(g)
		w.leave()
		r.sated = true // nobody waits beside the worker that loads
		w.ready()
		if r.sated == wanted {
			t.Errorf("at a speed of %v: the supervisor wants another worker: %v", speed, !r.sated)
		}
	}
}

// Workers load side by side: the second one begins when a second record comes, and not when
// the first one is ready.
func TestWorkersLoadAtOnce(t *testing.T) {
	t.Parallel()
	b := newBench(t, nil)
	gate := b.path("gate")
	if err := unix.Mkfifo(gate, 0o600); err != nil {
		t.Fatal(err)
	}
	b.command.Args = []string{"/bin/sh", "-c", `read loaded <"$0"; echo '{"type":"ready","protocol":1}' >&4
		while read line <&3; do case $line in *bye*) exit;; esac
		id=${line#*'"id":'}; echo '{"type":"result","id":'${id%%,*}',"outcomes":[1]}' >&4; done`, gate}
	in, records := io.Pipe()
	b.opt.Input = record.Spec{Stream: in, Format: record.JSONL, Cost: record.Cost{By: record.ByNothing}}
	b.opt.Batch, b.opt.Shape = 1, outcome.Shape{}
	first, both := make(chan struct{}), make(chan struct{})
	b.on(EventStarted, 0, func() { close(first) })
	b.on(EventStarted, 1, func() { close(both) })
	go func() {
		_, _ = io.WriteString(records, "{\"id\":0}\n")
		<-first
		_, _ = io.WriteString(records, "{\"id\":1}\n")
		<-both
		loaded, err := os.OpenFile(gate, os.O_RDWR, 0)
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = loaded.Close() })
		_, _ = loaded.WriteString("yes\nyes\n")
		_ = records.Close()
	}()
	if s := b.mustRun(); s.Records != 2 {
		t.Errorf("%+v", s)
	}
}

// Records of which parts failed wait within the window too: memory does not grow with the
// input, though nothing succeeds.
func TestSuspectsFillTheWindow(t *testing.T) {
	o := Options{Window: 10}.withDefaults()
	s := newStock(o)
	rec := record.Record{Data: make([]byte, 1000), Weight: 1}
	for range 4 {
		s.put(rec)
	}
	all := s.bytes
	g := s.take(chunk.Model{}, chunk.Budget{AtLeast: 4, Records: 4}, 1<<20)
	if len(g.records) != 4 || s.bytes != 0 {
		t.Fatalf("%d records, %d bytes are left", len(g.records), s.bytes)
	}
	s.suspect(g.parts(chunk.Refused, "GPU-0")...)
	if s.bytes != all {
		t.Errorf("%d bytes wait, want %d", s.bytes, all)
	}
	for s.pending > 0 {
		s.takeSuspect(func(*group) bool { return true }, 1)
	}
	if s.bytes != 0 {
		t.Errorf("%d bytes are left", s.bytes)
	}
}

// A probe is a small record if one succeeded, and a large one otherwise.
func TestRecordForProbes(t *testing.T) {
	var s stock
	for _, step := range []struct{ size, want int }{{300 << 10, 300 << 10}, {400 << 10, 300 << 10}, {200 << 10, 200 << 10}, {50, 50}, {20, 50}} {
		s.keepGood(&record.Record{Data: make([]byte, step.size)})
		if got := len(s.good.Data); got != step.want {
			t.Errorf("after a record of %d bytes, the probe has %d, want %d", step.size, got, step.want)
		}
	}
}
