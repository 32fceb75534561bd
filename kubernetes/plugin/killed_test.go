package plugin_test

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/plugin"
	"github.com/berth-gpu/berth/kubernetes/words"
)

var (
	rounds = flag.Int("rounds", 200, "rounds of TestKilled")
	seed   = flag.Uint64("seed", 0, "seed of TestKilled; 0: a new one")
)

// victims are what is killed at a step.
var victims = []string{"driver", "daemon", "both"}

// world is a node on which pods come and go, and things are killed.
type world struct {
	*machine
	rand  *rand.Rand
	next  int
	pods  []*resourcev1.ResourceClaim // with prepared claims
	fence map[string]uint64
	kills map[string]int // by step and victim
}

// A driver or a daemon that is killed at any step of Prepare or Unprepare leaves
// nothing that the retry of kubelet or reconcile does not put right: after each round
// the leases are those of the allocated claims, and at the end nothing is left.
func TestKilled(t *testing.T) {
	if *seed == 0 {
		*seed = uint64(time.Now().UnixNano())
	}
	w := &world{machine: newMachine(t, "sim:2"), rand: rand.New(rand.NewPCG(*seed, 16)), fence: map[string]uint64{}, kills: map[string]int{}}
	t.Logf("-rounds %d -seed %d", *rounds, *seed)
	steps := plugin.Steps()
	for i := range *rounds {
		step, victim := steps[i%len(steps)], victims[i/len(steps)%len(victims)]
		what := w.round(step, victim)
		w.settled(fmt.Sprintf("round %d, %s killed at %q, %s", i, victim, step, what))
		if i%20 == 19 {
			t.Logf("%d rounds, %d pods now", i+1, len(w.pods))
		}
	}
	for len(w.pods) > 0 {
		w.end(w.pods[0])
	}
	w.settled("the end")
	w.nothingLeft()
	for _, step := range steps {
		for _, victim := range victims {
			if w.kills[step+" "+victim] == 0 && *rounds >= 2*len(steps)*len(victims) {
				t.Errorf("nobody was killed: %s at %s", victim, step)
			}
		}
	}
	t.Log(w.kills)
}

// round lets one pod come or go while something is killed at a step, and then perhaps
// something else happens.
func (w *world) round(step, victim string) string {
	w.killAt(step, victim)
	defer w.at(nil)
	if strings.HasPrefix(step, "unprepare") {
		if len(w.pods) == 0 {
			w.begin()
		}
		gone := w.pods[w.rand.IntN(len(w.pods))]
		w.end(gone)
	} else {
		for len(w.pods) >= 4 { // as many slots as one device has
			w.end(w.pods[w.rand.IntN(len(w.pods))])
			w.killAt(step, victim)
		}
		w.begin()
	}
	w.at(nil)
	return w.disturb()
}

// killAt kills a victim the next time a step is reached.
func (w *world) killAt(step, victim string) {
	done := false
	w.at(func(reached string) {
		if reached != step || done {
			return
		}
		done = true
		w.kills[step+" "+victim]++
		if victim != "driver" {
			w.kill(&w.daemon)
		}
		if victim != "daemon" {
			_ = w.driver.Process.Kill()
		}
	})
}

// begin lets a pod come: the scheduler allocates its claim, and kubelet prepares it
// until that succeeds. Sometimes it is deleted before.
func (w *world) begin() {
	w.next++
	c := claimOf(fmt.Sprintf("pod-%d", w.next), []string{gpu0, gpu1}[w.rand.IntN(2)], gpu.MiB(1+w.rand.IntN(20))<<10, 1)
	w.cluster.put(c)
	impatient := w.rand.IntN(8) == 0
	for try := 0; ; try++ {
		if try == 20 {
			w.t.Fatalf("claim %s cannot be prepared", c.Name)
		}
		_, err := w.prepare(c)
		w.revive()
		if err == nil {
			break
		}
		if impatient { // the pod is deleted while it waits
			w.pods = append(w.pods, c)
			w.end(c)
			return
		}
	}
	w.pods = append(w.pods, c)
}

// end lets a pod go: kubelet unprepares its claim until that succeeds, and then the
// claim goes.
func (w *world) end(c *resourcev1.ResourceClaim) {
	for try := 0; ; try++ {
		if try == 20 {
			w.t.Fatalf("claim %s cannot be unprepared", c.Name)
		}
		err := w.unprepare(c)
		w.revive()
		if err == nil {
			break
		}
	}
	w.cluster.remove(c)
	w.pods = slices.DeleteFunc(w.pods, func(p *resourcev1.ResourceClaim) bool { return p == c })
	delete(w.fence, string(c.UID))
}

// revive starts what was killed.
func (w *world) revive() {
	w.mu.Lock()   // until a step that kills has done so
	w.mu.Unlock() //nolint:staticcheck // nothing has to be done meanwhile
	if w.daemon == nil {
		w.startDaemon()
	}
	if w.driver != nil && gone(w.driver.Process) {
		w.killDriver()
	}
	if w.driver == nil {
		w.startDriver()
	}
}

// gone reports whether a child has ended, and has not been waited for.
func gone(p *os.Process) bool {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.Pid))
	if errors.Is(err, os.ErrNotExist) {
		return true
	}
	_, after, _ := strings.Cut(string(text), ") ")
	return strings.HasPrefix(after, "Z") || strings.HasPrefix(after, "X")
}

// disturb does something that kubelet does not tell the driver.
func (w *world) disturb() string {
	if len(w.pods) == 0 {
		return "nothing else"
	}
	c := w.pods[w.rand.IntN(len(w.pods))]
	switch w.rand.IntN(12) {
	case 0: // kubelet has forgotten the claim, and it is deleted
		w.cluster.remove(c)
		w.pods = slices.DeleteFunc(w.pods, func(p *resourcev1.ResourceClaim) bool { return p == c })
		delete(w.fence, string(c.UID))
		return "a claim deleted without Unprepare"
	case 1:
		w.killDriver()
		if err := os.RemoveAll(w.path("cdi")); err != nil {
			w.t.Fatal(err)
		}
		w.startDriver()
		return "a reboot"
	case 2:
		if _, err := w.admin.Release(w.t.Context(), string(c.UID), 0); err != nil {
			w.t.Fatal(err)
		}
		delete(w.fence, string(c.UID))
		return "a lease released by hand"
	case 3:
		w.killDriver()
		if err := os.RemoveAll(w.path("p/" + words.Driver + "/state")); err != nil {
			w.t.Fatal(err)
		}
		w.startDriver()
		return "the state folder lost"
	}
	return "nothing else"
}

// settled waits until leases and files are as the claims are, and checks that no lease
// has lost its fence.
func (w *world) settled(when string) {
	w.t.Helper()
	want := map[string]string{}
	for _, c := range w.pods {
		r := c.Status.Allocation.Devices.Results[0]
		memory, slots := r.ConsumedCapacity[words.Memory], r.ConsumedCapacity[words.Slots]
		want[string(c.UID)] = fmt.Sprint(r.Device, " ", memory.Value()>>20, " ", slots.Value())
	}
	w.eventually(when, func() string {
		have := map[string]string{}
		fences := map[string]uint64{}
		for id, l := range w.leases() {
			have[id] = fmt.Sprint(strings.ToLower(l.Parts[0].GPU), " ", int64(l.Parts[0].Memory), " ", l.Parts[0].Slots)
			fences[id] = l.Fence
		}
		if !maps.Equal(have, want) {
			return fmt.Sprintf("the leases are %v, and the claims are %v", have, want)
		}
		for _, uid := range slices.Sorted(maps.Keys(want)) {
			if !slices.Contains(w.files("cdi"), "berth.dev-lease_"+uid+".json") || !slices.Contains(w.files("p/"+words.Driver+"/state"), uid+".json") {
				return "claim " + uid + " has no file"
			}
		}
		if n := len(w.files("cdi")); n != len(want) {
			return fmt.Sprintf("there are %d CDI files for %d claims", n, len(want))
		}
		if n := len(w.files("p/" + words.Driver + "/state")); n != len(want) {
			return fmt.Sprintf("there are %d state files for %d claims", n, len(want))
		}
		for id, fence := range fences {
			if before := w.fence[id]; before != 0 && before != fence {
				w.t.Fatalf("%s: the lease %s had the fence %d and has %d", when, id, before, fence)
			}
			w.fence[id] = fence
		}
		for _, c := range w.pods {
			if want := fmt.Sprintf("BERTH_FENCE=%d", fences[string(c.UID)]); !slices.Contains(w.environment(c), want) {
				return "the CDI file of " + c.Name + " has another fence"
			}
		}
		return ""
	})
}
