package world

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/process"
)

// promise is what a caller was told about a lease or a job.
type promise struct {
	w       *World
	kind    string // exec, allocation, pool, part or job
	uid     int
	process process.ID
	binding string
	ttl     time.Duration
	limited bool // it has a time limit
	limit   time.Duration
	parent  *promise
	job     bool

	mu      sync.Mutex // guards what follows
	id      string
	state   promised
	lease   api.Lease
	granted time.Time
	why     []string  // what may have ended it
	sure    time.Time // when a cancel was acknowledged
	final   string    // how a job has ended
	ended   time.Time // when its process was first seen to have ended
	changes int
}

// promised is what a caller knows.
type promised string

const (
	asked   promised = "asked"   // it waits for an answer
	unknown promised = "unknown" // its connection broke
	refused promised = "refused"
	given   promised = "given"
	gone    promised = "gone" // the caller was told that it has ended
)

// promise begins a promise.
func (w *World) promise(kind string, uid int, id string, of process.ID) *promise {
	p := &promise{w: w, kind: kind, uid: uid, id: id, process: of, state: asked, job: kind == "job"}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.promises = append(w.promises, p)
	if w.ending[fmt.Sprintf("%d/%s", uid, id)] > 0 {
		p.why = append(p.why, "somebody means the id")
	}
	return p
}

func (p *promise) is() promised {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

func (p *promise) stands() bool { return p.is() == given }
func (p *promise) over() bool   { s := p.is(); return s == refused || s == gone }

func (p *promise) fence() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.lease.Fence
}

// mayEnd notes why the promise need not be kept from now on.
func (p *promise) mayEnd(why string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.why = append(p.why, why)
	p.changes++
}

func (p *promise) set(s promised) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.state = s
	p.changes++
}

func (p *promise) cancelled() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.sure = time.Now()
	p.changes++
}

// answered notes what became of a submit.
func (p *promise) answered(id string, err error) {
	var problem *api.Problem
	p.mu.Lock()
	defer p.mu.Unlock()
	p.changes++
	switch {
	case err == nil:
		p.id, p.state, p.granted = id, given, time.Now()
	case errors.As(err, &problem):
		p.state = refused
	default:
		p.state = unknown
	}
}

// ask asks for a lease, and notes the answer.
func (w *World) ask(p *promise, call func(context.Context) (api.Lease, error)) {
	newest := w.newestFence()
	var l api.Lease
	err := w.asking("lease "+p.id, longCall, func(ctx context.Context) (err error) {
		if w.one(10) { // the caller does not wait for long
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, w.chance(time.Minute))
			defer cancel()
		}
		l, err = call(ctx)
		return err
	})
	var problem *api.Problem
	switch {
	case err == nil:
		p.mu.Lock()
		p.lease, p.state, p.granted = l, given, time.Now()
		p.changes++
		p.mu.Unlock()
		if !l.Stood && l.Fence <= newest && l.Granted.After(w.began) && !w.repeated(p, l) {
			w.wrong("fences", "%s of %s was granted with fence %d, and %d was granted before", p.id, nameOf(p.uid), l.Fence, newest)
		}
		if l.State != "active" || l.Cancelled != nil {
			w.wrong("kept", "%s of %s is answered with a lease that is %s (cancelled: %v)", p.id, nameOf(p.uid), l.State, l.Cancelled)
		}
		w.noteFence(p, l.Fence)
		w.note("%s %s of %s is granted to process %d: fence %d, %s, %v", p.kind, p.id, nameOf(p.uid), p.process.PID, l.Fence, l.Binding, l.Parts)
		w.reached(p.kind + " is granted")
	case errors.As(err, &problem):
		p.set(refused)
	default:
		p.set(unknown)
		w.reached(p.kind + ": the caller has no answer")
	}
}

// repeated reports whether a lease was granted to this promise before its caller heard of it.
func (w *World) repeated(p *promise, l api.Lease) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	_, known := w.fences[l.Fence]
	return !known
}

func (w *World) newestFence() (newest uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for f := range w.fences {
		newest = max(newest, f)
	}
	return newest
}

func asProblem(err error, problem **api.Problem) bool { return errors.As(err, problem) }

// noteFence notes that a fence was granted, once.
func (w *World) noteFence(p *promise, fence uint64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := fmt.Sprintf("%d/%s", p.uid, p.id)
	switch was, known := w.fences[fence]; {
	case known && was != of:
		w.found("fences", "the fence %d is that of %s and of %s", fence, was, of)
	case known: // a request that was made again is answered with what another one of the user has under the id, on its terms
		p.mu.Lock()
		p.why = append(p.why, "the lease is that of another request")
		p.mu.Unlock()
	}
	w.fences[fence] = of
}

// end asks for the end of a lease.
func (w *World) end(p *promise, what string, call func(context.Context) error) {
	meant := w.meant(p, what)
	defer func() { time.AfterFunc(time.Minute, meant) }()
	err := w.asking(what+" "+p.id, 30*time.Minute, call)
	w.note("%s of %s %s of %s (fence %d): %v", what, p.kind, p.id, nameOf(p.uid), p.fence(), err)
	if err == nil && what == "release" && p.stands() {
		p.set(gone)
	}
}

// meant notes that whatever a user has under an id may end: a request without a fence means
// any of it, and so does one with the fence of a lease that has ended.
// Whatever is granted under the id until over is called may end, too.
func (w *World) meant(p *promise, what string) (over func()) {
	of := fmt.Sprintf("%d/%s", p.uid, p.named())
	w.mu.Lock()
	w.ending[of]++
	all := append([]*promise{}, w.promises...)
	w.mu.Unlock()
	for _, other := range all {
		if other.uid == p.uid && other.named() == p.id {
			other.mayEnd(what)
		}
	}
	above := func() {}
	if p.parent != nil && p.parent.kind != "pool" { // to cancel a part means its launcher
		above = w.meant(p.parent, what)
	}
	return func() {
		above()
		w.mu.Lock()
		defer w.mu.Unlock()
		w.ending[of]--
	}
}

func (p *promise) named() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.id
}

// pick returns one of the promises about leases.
func (w *World) pick(suits func(*promise) bool) *promise {
	return w.pickOf(func(p *promise) bool { return !p.job && suits(p) })
}

func (w *World) pickJob(suits func(*promise) bool) *promise {
	return w.pickOf(func(p *promise) bool { return p.job && suits(p) })
}

func (w *World) pickOf(suits func(*promise) bool) *promise {
	w.mu.Lock()
	all := w.promises[max(0, len(w.promises)-60):]
	w.mu.Unlock()
	var list []*promise
	for _, p := range all {
		if suits(p) {
			list = append(list, p)
		}
	}
	if len(list) == 0 {
		return nil
	}
	return list[w.intn(len(list))]
}

// kept is one promise as it was at a moment.
type kept struct {
	p       *promise
	changes int
	stands  bool
	why     bool
	fence   uint64
}

// look compares what callers were told with what is so.
func (w *World) look() {
	if w.disk.troubled() || w.life() == nil {
		return
	}
	w.mu.Lock()
	all := append([]*promise{}, w.promises...)
	w.mu.Unlock()
	var before []kept
	for _, p := range all {
		p.mu.Lock()
		before = append(before, kept{p, p.changes, p.state == given, len(p.why) > 0, p.lease.Fence})
		p.mu.Unlock()
	}
	l := w.life()
	root := w.client(0, w.rootProcess(), false)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	leases, err := root.Leases(ctx)
	if err != nil || w.life() != l {
		return // no daemon has answered: the next look will
	}
	w.checkSums(leases)
	w.checkLimits(leases)
	for _, one := range leases.Leases {
		w.reached("a lease is " + one.State)
	}
	if len(leases.Waiting) > 0 {
		w.reached("a lease is waiting")
	}
	if all, err := root.Services(ctx); err == nil {
		for _, s := range all.Services {
			w.reached("a service is " + s.State)
			if s.State == "parked" {
				w.reached("service × park")
			}
		}
	}
	there := map[string]api.Lease{}
	for _, one := range leases.Leases {
		there[fmt.Sprintf("%d/%s/%d", one.Holder.UID.Or(-1), one.ID, one.Fence)] = one
	}
	for _, k := range before {
		p := k.p
		if w.settling || p.job || !k.stands || k.why || p.excused() {
			continue
		}
		p.mu.Lock()
		same := p.changes == k.changes
		p.mu.Unlock()
		if _, stands := there[fmt.Sprintf("%d/%s/%d", p.uid, p.id, k.fence)]; !stands && same && !p.excused() {
			w.wrong("kept", "the %s %s of %s with fence %d (%s) was granted, and does not stand any more: %s", p.kind, p.id, nameOf(p.uid), k.fence, p.binding, w.ended(ctx, root, p, k.fence))
		}
	}
	w.lookAtEnds(there, before)
	w.lookAtJobs(ctx, root, all)
}

// ended returns why a lease has ended, as far as the daemon says so.
func (w *World) ended(ctx context.Context, root *client.Client, p *promise, fence uint64) string {
	past, err := root.PastLeases(ctx, client.PastQuery{})
	if err != nil {
		return err.Error()
	}
	for _, l := range past.Leases {
		if l.Fence == fence {
			return fmt.Sprintf("%+v", l)
		}
	}
	return "nobody knows why"
}

// lookAtEnds checks that leases are over that had to end some time ago.
func (w *World) lookAtEnds(there map[string]api.Lease, before []kept) {
	calm := time.Since(w.upSince()) > 5*time.Minute && time.Since(w.disk.lastRefused()) > 5*time.Minute
	for _, k := range before {
		p := k.p
		l, stands := there[fmt.Sprintf("%d/%s/%d", p.uid, p.id, k.fence)]
		if p.job || !k.stands {
			continue
		}
		p.mu.Lock()
		granted := p.granted
		p.mu.Unlock()
		late := p.limit > 0 && time.Since(granted) > p.limit+10*time.Minute
		switch {
		case !stands && p.limit > 0 && time.Since(granted) > p.limit:
			w.reached(p.kind + " × a limit")
		case !stands || !calm || w.processesStuck():
		case late && l.State == "active" && l.Parking == nil:
			w.wrong("ends", "the %s %s of %s with fence %d was granted %v ago, has a limit of %v, and stands", p.kind, p.id, nameOf(p.uid), k.fence, time.Since(granted), p.limit)
		case p.binding == "process" && l.State == "active" && l.Heir == 0 && p.endedFor() > 5*time.Minute && len(w.processes.of(p.id, k.fence, p.uid)) == 0:
			w.wrong("ends", "the %s %s of %s with fence %d stands, and its process ended %v ago", p.kind, p.id, nameOf(p.uid), k.fence, p.endedFor())
		}
	}
}

// endedFor returns for how long the process of a promise has been known to have ended.
func (p *promise) endedFor() time.Duration {
	if p.w.processes.runs(p.process) {
		return 0
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ended.IsZero() {
		p.ended = time.Now()
	}
	return time.Since(p.ended)
}

// checkLimits checks that nobody has more than the settings allow, and that what is leased
// alone is.
func (w *World) checkLimits(leases api.Leases) {
	eve, alone, users := gpu.MiB(0), map[string]api.Lease{}, map[string][]api.Lease{}
	for _, l := range leases.Leases {
		for i, part := range l.Parts {
			if l.Holder.User == "eve" || l.Holder.UID.Or(0) == firstUID+4 {
				eve += l.Holds(i)
			}
			if l.State == "parked" {
				continue
			}
			if users[part.GPU] = append(users[part.GPU], l); l.Exclusive {
				alone[part.GPU] = l
			}
		}
	}
	if eve > 60000 && !w.people.wasSilent() { // until the database has said who eve is, her limits are not known
		w.wrong("limits", "eve has %d MiB, and may have 60000", eve)
	}
	for uuid, l := range alone {
		for _, other := range users[uuid] {
			if other.Fence != l.Fence && other.Parent != l.ID && len(other.Scope) == 0 && l.Parent != other.ID {
				w.wrong("alone", "%s is leased to %s of %s alone, and to %s of %s", uuid, l.ID, l.Holder.User, other.ID, other.Holder.User)
			}
		}
	}
}

// usable checks that the machine serves everybody as a new one does, now that nothing is
// wrong and nothing is left.
func (w *World) usable(root *client.Client) {
	ctx, cancel := context.WithTimeout(context.Background(), 6*time.Hour)
	defer cancel()
	for _, s := range services {
		_, _ = root.StartService(ctx, s, "once more") // refused if it is there
	}
	time.Sleep(time.Hour)
	if s, err := root.Service(ctx, "steady"); err != nil || s.State != "ready" {
		w.wrong("usable", "steady should always run, and is %s: %s (%v)", s.State, s.Why, err)
	}
	for _, s := range services {
		if !w.front.ask(s, "ada") {
			now, err := root.Service(ctx, s)
			w.wrong("usable", "%s does not answer: it is %s: %s (%v)", s, now.State, now.Why, err)
		}
	}
	id, _ := w.caller(firstUID)
	defer w.processes.end(id, 0)
	c := w.client(firstUID, id, false)
	l, err := c.Acquire(ctx, api.LeaseRequest{ID: "last", Memory: 30 << 10, Slots: gpu.Some(1), Binding: "process", Timeout: gpu.Some(3600.0)})
	if err == nil {
		_, err = c.Release(ctx, l.ID, l.Fence)
	}
	if err != nil {
		w.wrong("usable", "nobody has a lease, and ada gets none: %v", err)
	}
	j, err := c.Submit(ctx, api.JobRequest{Command: []string{"program"}, Lease: api.LeaseRequest{Memory: 10 << 10}})
	for try := 0; err == nil && !j.Over() && try < 24; try++ {
		time.Sleep(10 * time.Minute)
		j, err = c.Job(ctx, j.ID)
	}
	if err != nil || !j.Over() {
		w.wrong("usable", "the last job %s is %s: %s (%v)", j.ID, j.State, j.Cause, err)
	}
}

// excused reports whether a promise may be over because of what time or the machine did.
func (p *promise) excused() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.limited, p.ttl > 0: // the clock of the wall decides, which may have been set
		return true
	case p.binding == "process" && !p.w.processes.runs(p.process):
		return true
	case p.parent != nil:
		return true
	}
	return false
}

// checkSums checks that nothing is leased twice.
func (w *World) checkSums(leases api.Leases) {
	memory, slots := map[string]gpu.MiB{}, map[string]int{}
	for _, l := range leases.Leases {
		for i, part := range l.Parts {
			memory[part.GPU] += l.Holds(i)
			slots[part.GPU] += part.Slots
		}
	}
	for uuid, sum := range memory {
		if sum > cardMemory-512 {
			var list []string
			for _, l := range leases.Leases {
				list = append(list, fmt.Sprintf("%s of %s is %s: %v", l.ID, l.Holder.User, l.State, l.Parts))
			}
			w.wrong("sums", "%s has %d MiB leased of %d: %s", uuid, sum, cardMemory, strings.Join(list, "; "))
		}
	}
}

// rootProcess returns a process of root that looks.
func (w *World) rootProcess() process.ID {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.observer == (process.ID{}) || !w.processes.runs(w.observer) {
		w.observer = w.processes.begin(proc{uid: 0, parent: 1, name: "berth"})
	}
	return w.observer
}

// lookAtJobs checks that jobs are as their users were told.
func (w *World) lookAtJobs(ctx context.Context, root *client.Client, all []*promise) {
	for _, p := range all {
		p.mu.Lock()
		id, state, final, sure := p.id, p.state, p.final, p.sure
		p.mu.Unlock()
		if !p.job || state != given || final != "" && w.intn(20) > 0 {
			continue
		}
		j, err := root.Job(ctx, id)
		if err == nil {
			w.reached("a job is " + j.State)
			for _, task := range j.List {
				w.reached("a job is " + task.State)
			}
			if j.State == "parked" {
				w.reached("job × park")
			}
		}
		var problem *api.Problem
		switch {
		case errors.As(err, &problem) && problem.Status == 404:
			w.wrong("jobs", "the job %s was submitted, and nobody knows it", id)
			return
		case err != nil:
			return
		case final != "" && j.State != final:
			w.wrong("jobs", "the job %s was %s, and is %s", id, final, j.State)
		case j.Over():
			w.reached("a job is " + j.State)
			p.mu.Lock()
			p.final = j.State
			p.mu.Unlock()
		case !sure.IsZero() && time.Since(sure) > time.Hour && !w.processesStuck():
			w.wrong("rest", "the job %s was cancelled %v ago, and is %s: %s", id, time.Since(sure).Round(time.Second), j.State, j.Cause)
		}
	}
}

// processesStuck reports whether something outside of berth may hold up the end of a job.
func (w *World) processesStuck() bool {
	for _, c := range w.cards {
		c.mu.Lock()
		hung := c.hung != nil
		c.mu.Unlock()
		if hung {
			return true
		}
	}
	return false
}

// settle mends the machine, lets everything end, and checks that it does.
func (w *World) settle() {
	w.note("everything is mended, and nobody asks for more")
	w.settling = true
	w.effects.Lock()
	w.killIn, w.dark = 0, false
	w.effects.Unlock()
	w.disk.set(func() { w.disk.full, w.disk.broken, w.disk.once = false, false, 0 })
	w.people.mend()
	for _, c := range w.cards {
		c.mend()
	}
	w.keepAlive()
	root := w.client(0, w.rootProcess(), false)
	for round := 0; ; round++ {
		time.Sleep(30 * time.Minute)
		w.keepAlive()
		left := w.rest(root, round)
		if len(left) == 0 {
			break
		}
		if round == 48 {
			w.wrong("rest", "after a day, these have not ended: %s", strings.Join(left, "; "))
			return
		}
	}
	w.look()
	w.usable(root)
	for round := range 10 {
		if time.Sleep(30 * time.Minute); len(w.rest(root, round)) == 0 {
			break
		}
	}
	time.Sleep(10 * time.Minute)
	w.processes.end(w.rootProcess(), 0)
	w.front.stop()
	w.stopHearing()
	w.processes.end(w.front.id, 0)
	time.Sleep(time.Minute)
	w.processes.mu.Lock()
	defer w.processes.mu.Unlock()
	for _, p := range w.processes.all {
		w.wrong("rest", "the process %d (%s of %s, %s) is left", p.pid, p.name, nameOf(p.uid), p.lease)
	}
}

// rest lists what has not ended, and ends what only its owner ends.
func (w *World) rest(root *client.Client, round int) (left []string) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	_, _ = root.SetConfig(ctx, []byte(`{"jobs": "on", "max_pipelines": 4, "memory_limit_mb": 81920, "users": {"bob": null}}`))
	for i := range w.cards {
		_, _ = root.Undrain(ctx, api.UndrainRequest{GPU: gpu.Ref(fmt.Sprint(i))})
	}
	jobs, err := root.Jobs(ctx, client.JobQuery{Limit: 1000})
	if err != nil {
		return []string{err.Error()}
	}
	for _, j := range jobs.Jobs {
		if j.Over() {
			continue
		}
		left = append(left, fmt.Sprintf("job %s is %s: %s", j.ID, j.State, j.Cause))
		if j.State == "held" || j.Tasks != nil && j.Tasks.Held > 0 || round > 4 {
			_, _ = root.CancelJob(ctx, j.ID, "the end")
		}
	}
	left = append(left, w.stopServices(ctx, root)...)
	leases, err := root.Leases(ctx)
	if err != nil {
		return []string{err.Error()}
	}
	for _, l := range leases.Leases {
		left = append(left, fmt.Sprintf("lease %s of %s is %s (%s)", l.ID, l.Holder.User, l.State, l.Binding))
		if l.Binding == "named" {
			_, err := root.Of(l.Holder.User).Release(ctx, l.ID, l.Fence)
			if l.State != "active" {
				_, err = root.Of(l.Holder.User).Cancel(ctx, l.ID, api.Cancel{Fence: l.Fence})
			}
			if err != nil {
				left[len(left)-1] += ": " + err.Error()
			}
		} else if round > 4 {
			_, _ = root.Of(l.Holder.User).Cancel(ctx, l.ID, api.Cancel{})
		}
	}
	return left
}
