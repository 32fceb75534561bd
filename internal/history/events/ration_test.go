package events

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
)

// told collects what a ration tells.
type told struct {
	mu     sync.Mutex
	events []gpu.Event
}

func (o *told) add(e gpu.Event) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.events = append(o.events, e)
}

func (o *told) texts() (list []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, e := range o.events {
		list = append(list, e.User+": "+e.Text)
	}
	return list
}

func admitted(r *Ration, n int, e gpu.Event) (count int) {
	for range n {
		if r.Admit(&e) {
			count++
		}
	}
	return count
}

func TestRationIsPerUserAndMinute(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out told
		r := NewRation(out.add)
		defer r.Close()
		eve := gpu.Event{Code: gpu.EventExpired, Severity: gpu.Warning, User: "eve"}
		for _, c := range []struct {
			name string
			e    gpu.Event
			want int
		}{
			{"the user who causes them", eve, PerMinute},
			{"another user", gpu.Event{Code: gpu.EventExpired, Severity: gpu.Warning, User: "ada"}, PerMinute},
			{"a user who is not known", gpu.Event{Code: gpu.EventForeignUse, Severity: gpu.Serious}, PerMinute},
			{"a device", gpu.Event{Code: gpu.EventDeviceLost, Severity: gpu.Serious, GPU: "GPU-a"}, 1000},
			{"the daemon", gpu.Event{Code: gpu.EventJournal, Severity: gpu.Warning}, 1000},
			{"a holder that must stop", gpu.Event{Code: gpu.EventStop, Severity: gpu.Serious, User: "eve"}, 1000},
			{"notes", gpu.Event{Code: gpu.EventGranted, Severity: gpu.Note, User: "eve"}, 1000},
		} {
			if got := admitted(r, 1000, c.e); got != c.want {
				t.Errorf("%s: %d of 1000 admitted, want %d", c.name, got, c.want)
			}
		}
		time.Sleep(period)
		synctest.Wait()
		if len(out.texts()) != 3 {
			t.Errorf("told %q", out.texts())
		}
		for _, e := range out.events {
			if e.Code != gpu.EventRationed || e.Severity != gpu.Warning || e.Data["left_out"] != 940 || !r.Admit(&e) {
				t.Errorf("told %+v", e)
			}
		}
		if got := admitted(r, 100, eve); got != PerMinute {
			t.Errorf("%d admitted in the next minute", got)
		}
	})
}

// The event that says how many comes by itself, and not only with the next
// warning.
func TestRationSaysHowManyMore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out told
		r := NewRation(out.add)
		defer r.Close()
		admitted(r, PerMinute+1, gpu.Event{Code: gpu.EventExpired, Severity: gpu.Warning, User: "eve"})
		time.Sleep(2 * period)
		want := []string{"eve: 1 more warning about eve within a minute: only 60 are published"}
		if diff := cmp.Diff(want, out.texts()); diff != "" {
			t.Errorf("told (-want +got):\n%s", diff)
		}
		admitted(r, PerMinute, gpu.Event{Code: gpu.EventExpired, Severity: gpu.Warning, User: "ada"})
		time.Sleep(2 * period)
		if len(out.texts()) != 1 {
			t.Errorf("told of a user within the ration: %q", out.texts())
		}
	})
}

// A user who can act under thousands of user ids has one ration more, and not
// thousands.
func TestManyUsersShareARation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := NewRation(func(gpu.Event) {})
		defer r.Close()
		count := 0
		for i := range 10 * rationed {
			count += admitted(r, 1, gpu.Event{Severity: gpu.Warning, User: fmt.Sprint(100000 + i)})
		}
		if count > rationed+PerMinute {
			t.Errorf("%d admitted", count)
		}
		if got := admitted(r, 5, gpu.Event{Severity: gpu.Warning, User: "ada"}); got != 5 {
			t.Errorf("%d of 5 warnings about a user with a name are admitted beside them", got)
		}
	})
}

// All pods of a node belong to one driver, and none silences another.
func TestPodsHaveRationsOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out told
		r := NewRation(out.add)
		defer r.Close()
		about := func(lease string) gpu.Event {
			return gpu.Event{Code: gpu.EventOverLimit, Severity: gpu.Warning, User: "token:kubernetes", Lease: lease}
		}
		if got := admitted(r, 1000, about("noisy")); got != PerPod {
			t.Errorf("%d of 1000 about a pod are admitted", got)
		}
		if got := admitted(r, PerPod, about("calm")); got != PerPod {
			t.Errorf("%d about another pod are admitted beside it", got)
		}
		if got := admitted(r, 100, gpu.Event{Code: gpu.EventOverLimit, Severity: gpu.Warning, User: "ada", Lease: "noisy"}); got != PerMinute {
			t.Errorf("%d about the lease of a user are admitted", got)
		}
		count := 0
		for i := range 10 * rationed { // claims that come and go
			count += admitted(r, 1, about(fmt.Sprint("pod", i)))
		}
		if count > rationed+PerMinute || len(r.used) > 2*rationed+2 {
			t.Errorf("%d about ten thousand pods are admitted, and %d are remembered", count, len(r.used))
		}
		if got := admitted(r, 5, gpu.Event{Severity: gpu.Warning, User: "eve"}); got != 5 {
			t.Errorf("%d of 5 warnings about a user are admitted beside them", got)
		}
		time.Sleep(period)
		synctest.Wait()
		noisy := ""
		for _, e := range out.events {
			if e.Lease == "noisy" && e.User == "token:kubernetes" {
				noisy = e.Text
			}
		}
		if noisy != "988 more warnings about the lease noisy within a minute: only 12 are published" {
			t.Errorf("told %q", noisy)
		}
	})
}

func TestClosedRationTellsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out told
		r := NewRation(out.add)
		admitted(r, 1000, gpu.Event{Severity: gpu.Warning, User: "eve"})
		r.Close()
		time.Sleep(2 * period)
		if len(out.texts()) != 0 {
			t.Errorf("told %q", out.texts())
		}
	})
}

// A program that faults in a loop displaces no warnings about devices, also where nobody
// knows whose it is, and hides nothing about another device.
func TestFaultsOfProgramsAreRationed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out told
		r := NewRation(out.add)
		defer r.Close()
		fault := func(gpuID, class string) gpu.Event {
			return gpu.Event{Code: gpu.EventDeviceFault, Severity: gpu.Warning, GPU: gpuID, Data: map[string]any{"class": class}}
		}
		for _, c := range []struct {
			e    gpu.Event
			want int
		}{
			{fault("GPU-a", string(gpu.FaultProgram)), PerPod}, {fault("GPU-b", string(gpu.FaultProgram)), PerPod},
			{fault("GPU-a", string(gpu.FaultDevice)), 1000}, {gpu.Event{Code: gpu.EventForeignUse, Severity: gpu.Warning}, PerMinute},
		} {
			if got := admitted(r, 1000, c.e); got != c.want {
				t.Errorf("%+v: %d of 1000 admitted, want %d", c.e, got, c.want)
			}
		}
		time.Sleep(period)
		synctest.Wait()
		if list := out.texts(); len(list) != 3 {
			t.Errorf("told %q", list)
		}
	})
	log := New(16, time.Now())
	quarantine := gpu.Event{Code: gpu.EventDeviceQuarantined, Severity: gpu.Serious, GPU: "GPU-a"}
	log.Publish(quarantine)
	for range 1000 {
		log.Publish(gpu.Event{Code: gpu.EventDeviceFault, Severity: gpu.Warning, GPU: "GPU-a", Data: map[string]any{"class": string(gpu.FaultProgram)}})
	}
	kept := false
	list, _ := log.Kept(0)
	for _, e := range list {
		kept = kept || e.Code == gpu.EventDeviceQuarantined
	}
	if !kept {
		t.Error("faults of programs have displaced a quarantine")
	}
}

// A user who causes warnings hides no alert about himself.
func TestAlertsHaveARationOfTheirOwn(t *testing.T) {
	r := NewRation(func(gpu.Event) {})
	defer r.Close()
	admitted(r, 1000, gpu.Event{Code: gpu.EventExpired, Severity: gpu.Warning, User: "eve"})
	if got := admitted(r, 1000, gpu.Event{Code: gpu.EventAlert, Severity: gpu.Warning, User: "eve"}); got != PerMinute {
		t.Errorf("%d alerts admitted", got)
	}
}
