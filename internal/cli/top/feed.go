package top

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/cli/console"
	"github.com/berth-gpu/berth/internal/cli/tui"
)

// past is how far back the first samples go.
const past = 5 * time.Minute

// rarely is how often the feed asks for data that changes seldom or costs more.
const rarely = 5 * time.Second

// lately is how long a job is shown after its end, and mostJobs how many jobs are.
const (
	lately   = time.Hour
	mostJobs = 1000
)

// feed asks the daemon for the content of a screen.
type feed struct {
	from *console.Source
	gpu  string // index or UUID of the only device to show; empty for all
	now  func() time.Time

	programs  *programs       // of this machine; nil if the processes of the daemon are elsewhere
	known     map[string]bool // devices whose samples were asked for
	leasesAt  time.Time       // when the leases were last asked for
	jobsAt    time.Time
	strayedAt time.Time
	explained time.Time
}

// watch says which processes the screen shows, by their numbers, with the names that the
// daemon has for them.
func (f *feed) watch(list map[int]string) {
	if f.programs != nil {
		f.programs.watch(list)
	}
}

// ask returns new facts. The flag stirred says that leases changed since the last call;
// nil means to ask for everything.
func (f *feed) ask(ctx context.Context, stirred *bool) (tui.Facts, error) {
	facts := tui.Facts{At: f.now()}
	all, err := f.from.StatusAll(ctx)
	if err == nil {
		all.GPUs, err = f.only(all.GPUs)
	}
	if err != nil {
		clear(f.known)
		f.leasesAt, f.jobsAt, f.strayedAt = time.Time{}, time.Time{}, time.Time{} // ask again for what was missed
		return facts, err
	}
	all.Needs = slices.DeleteFunc(all.Needs, func(n api.Need) bool { return f.gpu != "" && n.GPU != "" && !holds(all.GPUs, n.GPU) })
	facts.Status = &all
	var asking sync.WaitGroup
	asking.Go(func() {
		if available, err := f.from.Available(ctx); err == nil {
			facts.Available = &available
		}
	})
	if stirred == nil || *stirred || facts.At.Sub(f.leasesAt) >= rarely {
		f.leasesAt = facts.At
		asking.Go(func() {
			leases, err := f.from.Leases(ctx)
			if problem := (*api.Problem)(nil); errors.As(err, &problem) {
				facts.Refused = problem.Detail
			} else if err == nil {
				leases = onDevices(leases, all.GPUs, f.gpu != "")
				facts.Leases = &leases
			}
		})
	}
	asking.Go(func() {
		if services, err := f.from.Services(ctx); err == nil { // an older daemon has none
			facts.Services = &services
		}
	})
	if stirred == nil || *stirred || facts.At.Sub(f.jobsAt) >= rarely {
		f.jobsAt = facts.At
		asking.Go(func() {
			if jobs, err := f.from.Jobs(ctx, client.JobQuery{Since: facts.At.Add(-lately), Limit: mostJobs}); err == nil { // an older daemon has none
				facts.Jobs = &jobs
			}
		})
	}
	if f.programs != nil {
		facts.Programs = f.programs.look(facts.At)
	}
	if facts.At.Sub(f.strayedAt) >= rarely {
		f.strayedAt = facts.At
		asking.Go(func() {
			if strays, err := f.from.Orphans(ctx); err == nil {
				facts.Strays = &strays
			}
		})
	}
	f.samples(ctx, &facts, &asking)
	asking.Wait()
	return facts, nil
}

// only returns the device that the user asked for, or all devices.
func (f *feed) only(all []api.Status) ([]api.Status, error) {
	if f.gpu == "" {
		return all, nil
	}
	for _, d := range all {
		if d.Device.UUID == f.gpu || fmt.Sprint(d.Device.Index) == f.gpu {
			return []api.Status{d}, nil
		}
	}
	if f.known != nil {
		return nil, nil // the device was present, and may come back
	}
	return nil, console.Usage("there is no GPU %q here", f.gpu)
}

// holds reports whether a device is among others.
func holds(devices []api.Status, uuid string) bool {
	return slices.ContainsFunc(devices, func(d api.Status) bool { return d.Device.UUID == uuid })
}

// onDevices omits leases on other devices.
func onDevices(all api.Leases, devices []api.Status, some bool) api.Leases {
	if !some {
		return all
	}
	var kept []api.Lease
	for _, l := range all.Leases {
		if slices.ContainsFunc(l.Parts, func(p api.LeasePart) bool { return holds(devices, p.GPU) }) {
			kept = append(kept, l)
		}
	}
	all.Leases = kept
	return all
}

// samples asks for the past samples of devices, once each: later samples come with the
// status.
func (f *feed) samples(ctx context.Context, facts *tui.Facts, asking *sync.WaitGroup) {
	if f.known == nil {
		f.known = map[string]bool{}
	}
	facts.Samples = map[string][]gpu.Sample{}
	var lock sync.Mutex
	for _, d := range facts.Status.GPUs {
		uuid := d.Device.UUID
		if f.known[uuid] {
			continue
		}
		f.known[uuid] = true
		asking.Go(func() {
			history, err := f.from.History(ctx, client.HistoryQuery{GPU: uuid, Since: facts.At.Add(-past)})
			if err != nil {
				return // the curve begins now
			}
			lock.Lock()
			defer lock.Unlock()
			facts.Samples[uuid] = history.Samples
		})
	}
}

// explain asks why requests wait.
func (f *feed) explain(ctx context.Context, list []tui.Request) tui.Facts {
	facts := tui.Facts{Reasons: map[string]api.Explanation{}}
	for _, r := range list {
		e, err := f.from.Of(r.User).ExplainWaiting(ctx, r.ID)
		if problem := (*api.Problem)(nil); errors.As(err, &problem) {
			facts.Reasons[r.Key()] = api.Explanation{Text: problem.Detail}
		} else if err == nil {
			facts.Reasons[r.Key()] = e
		}
	}
	return facts
}
