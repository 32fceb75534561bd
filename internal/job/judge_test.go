package job

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
)

var noon = time.Date(2026, 11, 17, 12, 0, 0, 0, time.UTC)

func TestJudge(t *testing.T) {
	began := Task{State: Running, Try: 1, Started: noon.Add(-45 * time.Minute)}
	ended := func(change func(*Outcome)) Outcome {
		o := Outcome{Time: noon, Known: true, Began: true, Exit: gpu.Some(1)}
		change(&o)
		return o
	}
	gone := Outcome{Time: noon, Began: true}
	limit := Spec{Lease: api.LeaseRequest{TimeLimit: gpu.Some(7200.0)}}
	overran := began
	overran.Overran = true
	for _, c := range []struct {
		name  string
		spec  Spec
		task  Task
		o     Outcome
		want  Event
		code  Code
		words string
	}{
		{"success", Spec{Retry: 3}, began, ended(func(o *Outcome) { o.Exit = gpu.Some(0) }), Succeed, "", ""},
		{"exit code", Spec{}, began, ended(func(o *Outcome) { o.Exit = gpu.Some(3) }), Fail, ByExitCode, "exit code 3 after 45 min"},
		{"signal", Spec{}, began, ended(func(o *Outcome) { o.Exit, o.Signal = gpu.Some(139), "SEGV" }), Fail, BySignal, "ended by signal SEGV after 45 min"},
		{"it began at last", Spec{}, Task{State: Running, Vain: 3}, ended(func(*Outcome) {}), Fail, ByExitCode, "exit code 1"},
		{"retry", Spec{Retry: 2}, began, ended(func(*Outcome) {}), Retry, ByExitCode, "exit code 1 after 45 min; retry 1 of 2"},
		{"the last retry", Spec{Retry: 2}, Task{State: Running, Failures: 1}, ended(func(*Outcome) {}), Retry, ByExitCode, "exit code 1; retry 2 of 2"},
		{"no retry left", Spec{Retry: 2}, Task{State: Running, Failures: 2}, ended(func(*Outcome) {}), Fail, ByExitCode, "exit code 1"},
		{"memory", Spec{}, began, ended(func(o *Outcome) { o.OutOfMemory = "99 % of the memory of GPU 0 was in use" }), Fail, OutOfMemory,
			"probably out of GPU memory after 45 min: exit code 1 while 99 % of the memory of GPU 0 was in use"},
		{"memory is retried", Spec{Retry: 1}, began, ended(func(o *Outcome) { o.OutOfMemory, o.Signal = "it was full", "ABRT" }), Retry, OutOfMemory,
			"probably out of GPU memory after 45 min: ended by signal ABRT while it was full; retry 1 of 1"},
		{"more than leased", Spec{}, began, ended(func(o *Outcome) { o.OverLimit, o.Signal = "it used 2 GiB", "TERM" }), Fail, OverLimit, "berth ended it after 45 min: it used 2 GiB"},
		{"more than leased is retried", Spec{Retry: 1}, began, ended(func(o *Outcome) { o.OverLimit = "it used 2 GiB" }), Retry, OverLimit, "berth ended it after 45 min: it used 2 GiB; retry 1 of 1"},
		{"heat", Spec{}, began, ended(func(o *Outcome) { o.Revoked, o.Signal = "its GPU was too hot", "TERM" }), Fail, ByBerth, "berth ended it after 45 min: its GPU was too hot"},
		{"heat is no try", Spec{Retry: 1}, Task{State: Running, Failures: 1}, ended(func(o *Outcome) { o.Revoked = "its GPU was too hot" }), Retry, ByBerth, "berth ended it: its GPU was too hot"},
		{"heat, minder killed", Spec{Requeue: OnMachine}, began, Outcome{Time: noon, Began: true, Revoked: "its GPU was too hot"}, Requeue, ByBerth, "berth ended it after 45 min: its GPU was too hot; queued again, 1 of 10"},
		{"over its limit, minder killed", Spec{Retry: 1}, began, Outcome{Time: noon, Began: true, OverLimit: "it used 2 GiB"}, Retry, OverLimit, "berth ended it after 45 min: it used 2 GiB; retry 1 of 1"},
		{"heat, requeue", Spec{Requeue: OnMachine}, began, ended(func(o *Outcome) { o.Revoked = "its GPU was too hot" }), Requeue, ByBerth, "berth ended it after 45 min: its GPU was too hot; queued again, 1 of 10"},
		{"host memory", Spec{Host: 4096}, began, ended(func(o *Outcome) { o.OutOfHost, o.Signal = true, "KILL" }), Fail, OutOfHost, "out of memory of the machine after 45 min; its limit was 4 GiB"},
		{"device fault", Spec{}, began, ended(func(o *Outcome) { o.Fault = "XID 79" }), Fail, DeviceFault, "its device failed after 45 min: XID 79"},
		{"device fault, retry", Spec{Retry: 1}, began, ended(func(o *Outcome) { o.Fault = "XID 79" }), Retry, DeviceFault, "its device failed after 45 min: XID 79"},
		{"device fault, requeue", Spec{Requeue: OnMachine}, began, ended(func(o *Outcome) { o.Fault = "XID 79" }), Requeue, DeviceFault, "its device failed after 45 min: XID 79; queued again, 1 of 10"},
		{"time", limit, overran, ended(func(o *Outcome) { o.Signal = "TERM" }), Expire, ByTimeLimit, "it reached its time limit of 2 h"},
		{"time is not retried", Spec{Retry: 5, Requeue: OnMachine}, overran, ended(func(*Outcome) {}), Expire, ByTimeLimit, "it reached its time limit"},
		{"time, and exit code 0", limit, overran, ended(func(o *Outcome) { o.Exit = gpu.Some(0) }), Expire, ByTimeLimit, "it reached its time limit of 2 h"},
		{"time, requeue", Spec{Requeue: OnTime}, overran, ended(func(*Outcome) {}), Requeue, ByTimeLimit, "it reached its time limit; queued again, 1 of 10"},
		{"time, before it began", limit, Task{State: Starting, Overran: true}, Outcome{Time: noon, Known: true, Failure: "There is no order."},
			Again, NotStarted, "its time limit was over before its command could begin"},
		{"minder killed", Spec{Retry: 3, Requeue: OnTime}, began, gone, Lose, MinderGone, "the process that minded it was ended after 45 min, and its programs with it; nobody knows their exit code"},
		{"reboot", Spec{Retry: 3}, began, Outcome{Time: noon, Began: true, Rebooted: true}, Lose, ByReboot, "the machine was started again while it ran"},
		{"reboot, requeue", Spec{Requeue: OnMachine}, began, Outcome{Time: noon, Began: true, Rebooted: true}, Requeue, ByReboot, "the machine was started again while it ran; queued again, 1 of 10"},
		{"reboot before the start", Spec{}, Task{State: Starting, Vain: MostVain}, Outcome{Time: noon, Rebooted: true}, Again, ByReboot, "the machine was started again before its command was"},
		{"end known after a reboot", Spec{Requeue: OnMachine}, began, ended(func(o *Outcome) { o.Rebooted = true }), Fail, ByExitCode, "exit code 1 after 45 min"},
		{"shutdown", Spec{Retry: 3}, began, ended(func(o *Outcome) { o.Shutdown, o.Signal = true, "TERM" }), Fail, ByShutdown, "the machine was shut down after 45 min"},
		{"shutdown, requeue", Spec{Requeue: OnMachine}, began, ended(func(o *Outcome) { o.Shutdown, o.Signal = true, "TERM" }), Requeue, ByShutdown, "the machine was shut down after 45 min; queued again, 1 of 10"},
		{"done at the shutdown", Spec{}, began, ended(func(o *Outcome) { o.Shutdown, o.Exit = true, gpu.Some(0) }), Succeed, "", ""},
		{"too many requeues", Spec{Requeue: OnMachine}, Task{State: Running, Requeues: MostRequeues}, Outcome{Time: noon, Began: true, Rebooted: true}, Exhaust, TooManyFaults,
			"the machine was started again while it ran; it was queued again 10 times, so it is held; let it go with berth unhold"},
		{"not started", Spec{Retry: 9}, Task{State: Starting}, ended(func(o *Outcome) { o.Failure, o.Exit = "the user ada is gone", gpu.Opt[int]{} }), Fail, NotStarted, "its command could not be started: the user ada is gone"},
		{"minder killed before", Spec{}, Task{State: Starting}, Outcome{Time: noon}, Again, NotStarted, "the process that was to start its command ended before that"},
		{"no minder", Spec{}, Task{State: Starting}, Outcome{Time: noon, Trouble: "limit the run: no"}, Again, NotStarted, "limit the run: no"},
		{"never a minder", Spec{Retry: 9}, Task{State: Starting, Vain: MostVain}, Outcome{Time: noon, Trouble: "limit the run: no"}, Exhaust, NotStarted, "tried 6 times: limit the run: no; it is held: let it go with berth unhold"},
		{"minder killed too often", Spec{}, Task{State: Starting, Vain: MostVain}, Outcome{Time: noon}, Exhaust, NotStarted, "the process that was to start its command ended 6 times before that; berth doctor may know why; it is held: let it go with berth unhold"},
	} {
		event, after := Judge(&c.spec, c.task, c.o)
		if event != c.want || after.Code != c.code || after.Cause != c.words {
			t.Errorf("%s: %s because of %s: %s\nwant %s because of %s: %s", c.name, event, after.Code, after.Cause, c.want, c.code, c.words)
		}
		if c.o.Known && after.Exit != c.o.Exit || c.o.Began && after.Vain != 0 {
			t.Errorf("%s: it has exit code %v and began in vain %d times", c.name, after.Exit, after.Vain)
		}
		to, _, changes := Next(c.task.State, event)
		if !changes {
			t.Errorf("%s: a task that is %s does not take %s", c.name, c.task.State, event)
		}
		if repeats := to == Waiting; repeats != after.Ended.IsZero() && to != Held {
			t.Errorf("%s: it becomes %s and ended at %v", c.name, to, after.Ended)
		}
		if to == Waiting && !after.NotBefore.After(noon) {
			t.Errorf("%s: it runs again without a pause", c.name)
		}
	}
}

// Each repetition is counted as what it is, and all of them make the next pause longer.
func TestRepetitionsCount(t *testing.T) {
	for name, c := range map[string]struct {
		task           Task
		o              Outcome
		requeues, vain int
		pause          time.Duration
	}{
		"the second retry is for a device": {Task{State: Running, Failures: 1}, Outcome{Began: true, Known: true, Fault: "XID 79"}, 1, 0, 2 * time.Second},
		"the third start in vain":          {Task{State: Starting, Vain: 2}, Outcome{Trouble: "no"}, 0, 3, 4 * time.Second},
	} {
		c.o.Time = noon
		_, after := Judge(&Spec{Retry: 2}, c.task, c.o)
		if after.Requeues != c.requeues || after.Vain != c.vain || !after.NotBefore.Equal(noon.Add(c.pause)) {
			t.Errorf("%s: %+v, want %d requeues, %d in vain and a pause of %v", name, after, c.requeues, c.vain, c.pause)
		}
	}
}

func TestPausesGrow(t *testing.T) {
	var got []time.Duration
	for n := 1; n <= 7; n++ {
		got = append(got, pause(10*time.Second, 3*time.Minute, n))
	}
	s := time.Second
	if want := []time.Duration{10 * s, 20 * s, 40 * s, 80 * s, 160 * s, 180 * s, 180 * s}; !slices.Equal(got, want) {
		t.Errorf("the pauses are %v, want %v", got, want)
	}
}

func TestDepend(t *testing.T) {
	a, b := Ref{Number: 1}, Ref{Number: 2}
	for _, c := range []struct {
		name string
		spec Spec
		a, b Ending
		want Condition
		why  Ref
	}{
		{"nothing", Spec{}, NotYet, NotYet, Met, Ref{}},
		{"one is not over", Spec{After: []Ref{a, b}}, Well, NotYet, Open, Ref{}},
		{"both are", Spec{After: []Ref{a, b}}, Well, Well, Met, Ref{}},
		{"one failed", Spec{After: []Ref{a, b}}, NotYet, Badly, Never, b},
		{"any, one is not over", Spec{AfterAny: []Ref{a, b}}, Badly, NotYet, Open, Ref{}},
		{"any, both are", Spec{AfterAny: []Ref{a, b}}, Badly, Badly, Met, Ref{}},
		{"failed, one is not over", Spec{AfterFailed: []Ref{a, b}}, Badly, NotYet, Open, Ref{}},
		{"failed, one did", Spec{AfterFailed: []Ref{a, b}}, Badly, Well, Met, Ref{}},
		{"failed, none did", Spec{AfterFailed: []Ref{a, b}}, Well, Well, Never, Ref{}},
		{"both kinds", Spec{After: []Ref{a}, AfterFailed: []Ref{b}}, Well, Badly, Met, Ref{}},
		{"both kinds, one never", Spec{After: []Ref{a}, AfterFailed: []Ref{b}}, NotYet, Well, Never, Ref{}},
	} {
		got, why := Depend(&c.spec, func(r Ref) Ending { return map[Ref]Ending{a: c.a, b: c.b}[r] })
		if got != c.want || why != c.why {
			t.Errorf("%s: %v because of %v, want %v because of %v", c.name, got, why, c.want, c.why)
		}
	}
}

// However events come, a task keeps to what it promises: it has a lease exactly while it
// is busy, every start is followed by one end, what is over stays over, and it stops
// after as many repetitions as it may have.
func TestRandomLives(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(seed, 29))
		spec := Spec{Retry: random.IntN(4), Requeue: []Repeat{"", OnMachine, OnTime}[random.IntN(3)]}
		task := Task{State: []State{Held, Waiting}[random.IntN(2)]}
		leased, queued, starts, told, cancelled := false, task.State == Waiting, 0, 0, false
		for range 400 {
			before := task
			event := events[random.IntN(int(6))] // up to Order
			if task.State.Busy() && random.IntN(3) > 0 {
				o := Outcome{Time: noon, Began: random.IntN(4) > 0, Rebooted: random.IntN(4) == 0, Shutdown: random.IntN(6) == 0}
				if o.Known = o.Began && random.IntN(4) > 0; o.Known {
					o.Exit = gpu.Some(min(random.IntN(12), 1))
				}
				if random.IntN(5) == 0 {
					o.Fault = "XID 79"
				}
				task.Overran = random.IntN(6) == 0
				event, task = Judge(&spec, task, o)
			}
			to, acts, changes := Next(task.State, event)
			if !changes {
				if task.State.Busy() && !slices.Contains(events[:6], event) {
					t.Fatalf("seed %d: a task that is %s does not take %s", seed, task.State, event)
				}
				task = before
				continue
			}
			cancelled = cancelled || event == Cancel
			task.State = to
			if event == Grant {
				leased, queued = true, false
				starts++
				task.Try++
			}
			for _, act := range acts {
				switch act {
				case Release:
					if !leased {
						t.Fatalf("seed %d: %s in %s releases what it has not", seed, event, before.State)
					}
					leased = false
				case Feed:
					queued = true
				case Withdraw:
					queued = false
				case Tell:
					told++
				case Launch, Kill:
					if !leased {
						t.Fatalf("seed %d: %s in %s does %s without a lease", seed, event, before.State, act)
					}
				}
			}
			if leased != task.State.Busy() || queued != (task.State == Waiting) || told > 1 || (told == 1) != task.State.Over() {
				t.Fatalf("seed %d: after %s in %s it is %s: leased %v, queued %v, told %d times", seed, event, before.State, task.State, leased, queued, told)
			}
			if before.State == Stopping && task.State != Stopping && task.State != Cancelled {
				t.Fatalf("seed %d: it was cancelled and is %s", seed, task.State)
			}
			if task.Failures > spec.Retry || task.Requeues > MostRequeues || task.Vain > MostVain && !before.State.Busy() {
				t.Fatalf("seed %d: %d failures, %d requeues, %d in vain", seed, task.Failures, task.Requeues, task.Vain)
			}
		}
		if told == 0 && cancelled && !task.State.Busy() && task.State.Over() {
			t.Fatalf("seed %d: nobody was told", seed)
		}
	}
}

func TestExitOfAJob(t *testing.T) {
	tasks := []*Task{{State: Done, Exit: gpu.Some(0)}, {State: Failed, Exit: gpu.Some(7)}, {State: Lost}}
	of := func(i int) *Task { return tasks[i] }
	if got := Exit(of, 1); got != gpu.Some(0) {
		t.Errorf("all are done: %v", got)
	}
	if got := Exit(of, 3); got != gpu.Some(7) {
		t.Errorf("one failed: %v", got)
	}
	tasks[1] = &Task{State: Cancelled, Exit: gpu.Some(0)}
	if got := Exit(of, 3); got != gpu.Some(1) {
		t.Errorf("one was cancelled: %v", got)
	}
	tasks[2] = &Task{State: Running}
	if got := Exit(of, 3); got.Known() {
		t.Errorf("one runs: %v", got)
	}
}
