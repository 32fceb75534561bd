package desk

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/ledger"
	"github.com/berth-gpu/berth/internal/lease/peaks"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
)

func TestLasts(t *testing.T) {
	t.Parallel()
	known := peaks.New()
	add := func(user, name string, kind peaks.Kind, minutes int) {
		known.Add(peaks.Key{User: user, Name: name}, peaks.Run{Seconds: float64(60 * minutes), Kind: kind}, time.Unix(int64(minutes), 0))
	}
	for i := range 10 {
		add("ada", "train", "job", i+1)
	}
	add("ada", "notebook", "program", 480)
	add("bob", "train", "job", 1000)
	add("carol", "old", "", 1000) // an earlier berth did not note the kind
	runs := newEarlier(known)
	minutes := func(n int) time.Duration { return time.Duration(n) * time.Minute }
	job := func(user, name string, limit int, unchosen bool) lease.Lease {
		return lease.Lease{Holder: lease.Holder{User: user, Name: name}, Run: lease.Run{Kind: lease.OfJob}, TimeLimit: minutes(limit), Unchosen: unchosen}
	}
	program := func(l lease.Lease) lease.Lease { l.Run = lease.Run{}; return l }
	served := func(l lease.Lease) lease.Lease { l.Run.Kind = lease.OfService; return l }
	named := func(l lease.Lease) lease.Lease {
		l = program(l)
		l.Binding, l.Holder.PID = lease.ByName, 7
		return l
	}
	for i, c := range []struct {
		of           lease.Lease
		lasted       int
		likely, late int // -1 if not known
	}{
		{job("ada", "train", 0, false), 0, 5, 9},
		{job("ada", "train", 0, false), 4, 7 - 4, 10 - 4},
		{job("ada", "train", 0, false), 20, -1, -1}, // longer than ever before
		{job("ada", "train", 7, false), 0, 5, 7},
		{job("ada", "train", 30, false), 20, 10, 10},
		{job("ada", "train", 2880, true), 0, 5, 9}, // nobody chose the limit
		{job("ada", "train", 7, true), 0, 5, 7},
		{job("ada", "train", 2880, true), 20, -1, -1},
		{job("ada", "new", 30, false), 0, 30, 30},
		{job("ada", "new", 0, false), 0, 5, 9}, // as what she ran of the kind
		{job("ada", "new", 2880, true), 0, 5, 9},
		{job("ada", "new", 2880, true), 4, 7 - 4, 10 - 4},
		{job("ada", "new", 2880, true), 20, -1, -1},
		{program(job("ada", "new", 2880, true)), 0, 480, 480},
		{served(job("ada", "new", 2880, true)), 0, -1, -1},
		{named(job("ada", "train", 2880, true)), 0, -1, -1},
		{named(job("ada", "train", 30, false)), 0, 30, 30},
		{job("carol", "new", 2880, true), 0, -1, -1},
		{job("dora", "new", 0, false), 5, -1, -1},
	} {
		for share, want := range map[float64]int{likelyShare: c.likely, lateShare: c.late} {
			got, is := runs.lasts(share)(&c.of, minutes(c.lasted))
			if is != (want >= 0) || is && got != minutes(want) {
				t.Errorf("%d: with %g it lasts %v (%v), want %d min", i, share, got, is, want)
			}
		}
	}
}

// What a user ran of a kind is looked at once, however many new names the user has: four
// times as many take about four times the memory, and not sixteen times.
func TestEarlierRunsAreLookedAtOnce(t *testing.T) {
	allocated := func(names int) uint64 {
		known := peaks.New()
		leases := make([]lease.Lease, names)
		for i := range names {
			for n := range 10 {
				known.Add(peaks.Key{User: "ada", Name: fmt.Sprint("old-", i)}, peaks.Run{Seconds: float64(60 + n), Kind: "job"}, time.Unix(int64(i), 0))
			}
			leases[i] = lease.Lease{Holder: lease.Holder{User: "ada", Name: fmt.Sprint("new-", i)}, Run: lease.Run{Kind: lease.OfJob}}
		}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		runs := newEarlier(known)
		for _, share := range []float64{likelyShare, lateShare} {
			lasts := runs.lasts(share)
			for i := range leases {
				if more, is := lasts(&leases[i], 0); !is || more < time.Minute {
					t.Fatalf("%s lasts %v (%v)", leases[i].Holder.Name, more, is)
				}
			}
		}
		for i := range leases {
			if text := runs.endUnknown(&leases[i]); !strings.Contains(text, "longer than before") {
				t.Fatalf("%s: %s", leases[i].Holder.Name, text)
			}
		}
		runtime.ReadMemStats(&after)
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := allocated(100), allocated(400); many > 7*few {
		t.Errorf("100 names take %d bytes, and 400 take %d", few, many)
	}
}

// foretold is what was said when a request had begun to wait, and what came.
type foretold struct {
	asked, granted time.Time
	said           api.Estimate
}

// replay plays a week of jobs on four devices, in which nobody chose a time limit, and
// returns what was foretold to those who waited. who returns a user, and how many GiB that
// user asks for.
func replay(t *testing.T, seed uint64, who func(*rand.Rand) (string, gpu.MiB)) (all []foretold) {
	const card = 24 << 10
	known := peaks.New()
	book, err := ledger.Open(ledger.Options{
		Settings: quota.Settings{
			Pass: true, Wait: lease.MaxWait,
			Device: func(string) quota.DeviceSettings { return quota.DeviceSettings{MaxPipelines: 4} },
		},
		Processes: process.Proc(),
		Open:      func(func(journal.Entry) error) (journal.Journal, error) { return journal.Forgetful(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- book.Run(ctx) }()
	for i := range 4 {
		uuid := fmt.Sprint("GPU-", i)
		book.Observe(placement.Observation{
			Device: gpu.Device{UUID: uuid, Index: i, Name: "Simulated", Vendor: gpu.Simulated, MemoryTotal: card},
			Sample: &gpu.Sample{GPU: uuid, MemoryUsed: gpu.Some(gpu.MiB(0)), Processes: []gpu.Process{}}, State: gpu.Optimal, Health: gpu.Healthy,
		})
	}
	d := New(Parts{Ledger: book, Peaks: known, Config: gpuConfig(config.GPU{})})
	random := rand.New(rand.NewPCG(seed, 49))
	const requests = 250
	results := make(chan foretold, requests)
	for n := range requests {
		user, memory := who(random)
		name := []string{"train", "render", "eval", "fit", fmt.Sprint("new-", n)}[random.IntN(5)]
		usual := time.Duration(5+len(user)*len(name)) * time.Minute
		takes := time.Duration(float64(usual) * (0.5 + random.Float64()))
		r := lease.Request{
			ID: fmt.Sprintf("%s-%d", name, n), Holder: lease.Holder{User: user, UID: 1000 + len(user)*10 + int(user[0]), Name: name},
			Run: lease.Run{Kind: lease.OfJob, Number: int64(n + 1)}, Binding: lease.ByName, Memory: memory << 10, Slots: 1,
			Wait: gpu.Some(lease.MaxWait),
		}
		r.By = access.Actor{UID: r.Holder.UID, User: user, Door: access.Socket, Role: access.User}
		r.Limits = &lease.Limits{
			Subject:     lease.Subject{Owner: r.Holder.Owner()},
			LongestTime: lease.Limit[time.Duration]{Opt: gpu.Some(48 * time.Hour), Source: "users.default"},
		}
		time.Sleep(time.Duration(1+random.IntN(7)) * time.Minute) // simulated
		asked := time.Now()
		waits := make(chan struct{})
		granted := make(chan time.Time, 1)
		go func() {
			found, err := book.Acquire(ctx, r)
			close(waits)
			if err != nil {
				t.Error(err)
				return
			}
			granted <- time.Now()
			time.Sleep(takes) // simulated
			if err := book.GiveBack(found.Key(), found.Fence, "it is done"); err != nil {
				t.Error(err)
			}
			known.Add(peaks.KeyOf(found.Holder), peaks.Run{Seconds: takes.Seconds(), Kind: peaks.KindOf(found.Lease)}, time.Now())
		}()
		synctest.Wait()
		said := d.Foresight.Estimate(r.Key())
		go func() {
			<-waits
			one := foretold{asked: asked, granted: <-granted}
			if said != nil {
				one.said = *said
			}
			results <- one
		}()
	}
	for range requests {
		one := <-results
		if one.granted.After(one.asked) {
			all = append(all, one)
		}
	}
	time.Sleep(24 * time.Hour) // simulated: until the last one has ended
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	return all
}

// Behind limits that nobody chose, what is said to be likely is about what comes, nine of ten
// begin by what is said to be late, or almost, and nobody is told of days who waits for
// minutes: also where those who come later go first.
func TestAWeekBehindLimitsThatNobodyChose(t *testing.T) {
	five := []string{"ada", "bob", "carol", "dmitri", "erin"}
	for name, who := range map[string]func(*rand.Rand) (string, gpu.MiB){
		"five alike": func(r *rand.Rand) (string, gpu.MiB) { return five[r.IntN(5)], gpu.MiB(2 + r.IntN(20)) },
		"one asks for little": func(r *rand.Rand) (string, gpu.MiB) {
			if r.IntN(13) == 0 {
				return "erin", gpu.MiB(2 + r.IntN(4))
			}
			return five[r.IntN(4)], gpu.MiB(2 + r.IntN(20))
		},
	} {
		t.Run(name, func(t *testing.T) {
			var all []foretold
			for seed := range uint64(2) {
				synctest.Test(t, func(t *testing.T) { all = append(all, replay(t, 49+seed, who)...) })
			}
			var off, waited []time.Duration
			unknown, open, late := 0, 0, 0
			for _, one := range all {
				wait := one.granted.Sub(one.asked)
				waited = append(waited, wait)
				e := one.said
				if e.Likely == nil {
					unknown++
					if e.Unknown == "" || e.Latest == nil || e.Latest.Before(one.granted) && !e.Passable || !strings.Contains(e.Unknown, "nobody chose its time limit") {
						t.Errorf("who began after %v was told %+v", wait, e)
					}
					continue
				}
				if e.Latest != nil || e.Passable {
					t.Errorf("a likely start has a latest one: %+v", e)
				}
				off = append(off, one.granted.Sub(*e.Likely).Abs())
				said := []*time.Time{e.Likely}
				if e.Late == nil {
					open++
				} else if said = append(said, e.Late); one.granted.After(*e.Late) {
					late++
				}
				for _, at := range said {
					if until := at.Sub(one.asked); until > 24*time.Hour || at == e.Likely && until > 4*max(wait, time.Hour) {
						t.Errorf("who began after %v was told %v", wait, until)
					}
				}
			}
			slices.SortFunc(off, cmp.Compare)
			slices.SortFunc(waited, cmp.Compare)
			if len(all) < 160 || len(off)-open < len(all)*3/4 {
				t.Fatalf("%d waited, %d were told when they probably start, and %d of them not how late that may be", len(all), len(off), open)
			}
			t.Logf("%d waited, %v in the median, %v at most; %d were told a likely time, which was off by %v in the median; %d of them began later than late, and %d were told of none; %d were told that it is not known",
				len(all), waited[len(waited)/2], waited[len(waited)-1], len(off), off[len(off)/2], late, open, unknown)
			if median := off[len(off)/2]; median > waited[len(waited)/2]*2/3 {
				t.Errorf("the median error is %v", median)
			}
			if late > len(off)/5 {
				t.Errorf("%d of %d began later than late", late, len(off))
			}
		})
	}
}
