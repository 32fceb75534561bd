package ledger

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/sim"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/placement"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// What can be leased is the formula of the documentation over what the devices
// really use, whatever happened before: processes that hold leases, that work for
// holders, that are started as always beside an allocation, or that nobody knows;
// processes that crash; leases that are released, resized and shared out; and a
// ledger that is stopped, or killed, and started again. Processes are real, the
// devices are those of the simulator, and the model beside the ledger knows whose
// a process is because it started it.
func TestAvailableIsWhatTheDevicesHaveLeft(t *testing.T) {
	guests := t.TempDir()
	backend, err := sim.Open("2xrtx-4060", sim.Options{Guests: guests})
	if err != nil {
		t.Fatal(err)
	}
	defer backend.Close()
	cards, err := backend.Scan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range *accountHundreds { // of histories
		rapid.Check(t, func(t *rapid.T) {
			a := openAccount(t, guests, cards)
			for range a.draw("steps", 5, 15) {
				a.step()
				a.check()
			}
		})
	}
}

// A process that may be charged to several leases takes the room that those leave
// which can be charged to one only, in whichever order the driver lists them.
func TestProcessOfOneLeaseIsChargedFirst(t *testing.T) {
	w := newWorld()
	w.cast = cast{first: runs(1, "embedder"), second: runs(1, "python3")}
	k := w.start(t)
	k.device(0, 100)
	one := k.grant(want("one", 10, service("embedder"), at(dev(0))))
	k.grant(want("two", 60, service("embedder"), at(dev(0))))
	w.cast[second] = kinship.Facts{UID: access.KnownUID(1), Origin: kinship.Origin{Lease: one.ID, Fence: one.Fence, UID: 1}}
	for _, order := range [][]int{{first, second}, {second, first}} {
		uses := map[int]gpu.MiB{first: 10, second: 30}
		k.device(0, 100, used(order[0], uses[order[0]]), used(order[1], uses[order[1]]))
		if sum := k.Sum(dev(0)); sum.Available() != 100-30-60 {
			t.Errorf("listed as %v: %+v", order, sum.Sum)
		}
	}
}

var accountHundreds = flag.Int("account.hundreds", 2, "hundreds of histories of a machine whose memory is counted")

// tolerance is how far what can be leased may be from the formula.
const tolerance = gpu.MiB(64)

const (
	accountReserve = gpu.MiB(500)
	accountLimit   = gpu.MiB(7000) // of the second device
)

// account is a machine with two simulated GPUs, a ledger, and processes.
type account struct {
	*rapid.T
	world  *world
	keeper *keeper
	guests string // where processes say what they use
	cards  []device.Device
	driver map[string]gpu.MiB // what each device uses for itself
	apps   []*application
	count  int // of names
}

// application is a process that may use devices.
type application struct {
	pid    int
	id     process.ID
	owners []string           // whose it is, nearest first: the first that has a lease on a device is charged
	uses   map[string]gpu.MiB // by device
	seen   map[string]gpu.MiB // what it used when the ledger last looked
}

func openAccount(t *rapid.T, guests string, cards []device.Device) *account {
	a := &account{T: t, world: newWorld(), guests: guests, cards: cards, driver: map[string]gpu.MiB{}}
	t.Cleanup(func() {
		for len(a.apps) > 0 {
			a.kill(a.apps[0])
		}
		a.keeper.stop()
		for _, card := range cards {
			_ = os.RemoveAll(filepath.Join(guests, card.Describe().UUID)) // else the folder grows
		}
	})
	a.world.settings.Device = func(uuid string) quota.DeviceSettings {
		s := quota.DeviceSettings{MaxPipelines: 4, Reserve: accountReserve}
		if uuid == a.uuid(1) {
			s.Limit = accountLimit
		}
		return s
	}
	a.keeper = a.world.start(t)
	for _, card := range a.cards {
		a.driver[card.Describe().UUID] = a.sample(card).MemoryUsed.Or(0)
	}
	a.observe()
	return a
}

func (a *account) uuid(i int) string { return a.cards[i].Describe().UUID }

func (a *account) draw(name string, least, most int) int {
	return rapid.IntRange(least, most).Draw(a.T, name)
}

func (a *account) drawDevice() string { return a.uuid(a.draw("device", 0, len(a.cards)-1)) }

func (a *account) drawMemory() gpu.MiB { return gpu.MiB(a.draw("memory", 1, 40) * 100) }

func (a *account) sample(card device.Device) *gpu.Sample {
	s := &gpu.Sample{GPU: card.Describe().UUID}
	if err := card.Fast(context.Background(), s); err != nil {
		a.Fatal(err)
	}
	return s
}

// observe shows the ledger what the devices measure now.
func (a *account) observe() {
	for _, app := range a.apps {
		app.seen = maps.Clone(app.uses)
	}
	for _, card := range a.cards {
		a.keeper.Observe(placement.Observation{Device: card.Describe(), Sample: a.sample(card), State: gpu.Optimal, Health: gpu.Healthy})
	}
	a.settle()
}

// settle returns when the clerk has done what was to do.
func (a *account) settle() {
	for range 2 { // the clerk may be about to look for more
		if err := a.keeper.submit(context.Background(), func(time.Time) error { return nil }); err != nil {
			a.Fatal(err)
		}
	}
}

func (a *account) step() {
	switch a.draw("step", 0, 15) {
	case 0, 1:
		a.allocate()
	case 2:
		a.startHolder(false)
	case 3:
		a.startHolder(true)
	case 4:
		a.startLauncher()
	case 5:
		a.startBatch()
	case 6:
		a.startService()
	case 7:
		a.startUnder()
	case 8:
		a.add(a.start("stranger", nil))
	case 9, 10, 11:
		a.use()
	case 12:
		if len(a.apps) > 0 {
			a.kill(rapid.SampledFrom(a.apps).Draw(a.T, "app"))
		}
	case 13:
		if held := a.drawLease(); held != nil {
			_, _ = a.keeper.Release(context.Background(), byID(held.ID), held.Fence, by(1))
		}
	case 14:
		if held := a.drawLease(); held != nil {
			_, _ = a.keeper.Resize(context.Background(), byID(held.ID), held.Fence, a.drawMemory(), by(1), nil, 0) // there may be no room
		}
	case 15:
		a.restart()
	}
	a.settle()
}

func (a *account) name(what string) string {
	a.count++
	return fmt.Sprintf("%s-%d", what, a.count)
}

// acquire asks for memory, and returns nil if there is no room.
func (a *account) acquire(id string, memory gpu.MiB, change ...func(*lease.Request)) *lease.Lease {
	r := want(id, memory, append(change, a.mine)...)
	granted, err := a.keeper.Acquire(context.Background(), r)
	if err != nil {
		return nil
	}
	return granted
}

// mine makes the user of this process the holder: its processes run as them.
func (a *account) mine(r *lease.Request) {
	r.Holder.UID = os.Getuid()
	r.By = access.Actor{User: r.Holder.User, UID: os.Getuid(), Door: access.Socket, Role: access.User}
}

var accountServices = []string{"embedder", "render-farm"}

// allocate leases memory for a service, as berth allocate does.
func (a *account) allocate() {
	name := rapid.SampledFrom(accountServices).Draw(a.T, "service")
	a.acquire(a.name("allocation"), a.drawMemory(), service(name), at(a.drawDevice()))
}

// startService starts a service as always: nothing says that it has a lease.
func (a *account) startService() {
	name := rapid.SampledFrom(accountServices).Draw(a.T, "service")
	a.add(a.start(strings.ReplaceAll(name, "-", "_"), nil), name)
}

// startHolder starts an application that leases memory for itself.
func (a *account) startHolder(implied bool) {
	app := a.start("holder", nil)
	a.add(app, held(app))
	id := a.name("app")
	for range a.draw("leases", 1, 2) {
		a.acquire(id, a.drawMemory(), at(a.drawDevice()), a.keeper.bound(app.pid), func(r *lease.Request) { r.Implied = implied })
		id = a.name("app")
	}
}

// startLauncher starts a program that holds a lease, and works in a child.
func (a *account) startLauncher() {
	launcher, worker := a.startPair(nil)
	a.add(launcher, held(launcher))
	a.add(worker, held(worker), held(launcher))
	a.acquire(a.name("launcher"), a.drawMemory(), slots(1), at(a.drawDevice()), a.keeper.bound(launcher.pid))
}

// startBatch starts a runner that holds a slot, and a worker that has a lease of
// its own.
func (a *account) startBatch() {
	runner, worker := a.startPair(nil)
	a.add(runner, held(runner))
	a.add(worker, held(worker), held(runner))
	memory, uuid := a.drawMemory(), a.drawDevice()
	slot := a.acquire(a.name("slot"), memory, slots(1), at(uuid), a.keeper.bound(runner.pid))
	if slot == nil {
		return
	}
	child := a.acquire(a.name("worker"), memory, under(slot.ID), a.keeper.bound(runner.pid))
	if child == nil {
		a.Fatalf("%s has no child", slot.ID)
	}
	if _, err := a.keeper.Bind(context.Background(), byID(child.ID), child.Fence, worker.pid, child.By); err != nil {
		a.Fatal(err)
	}
}

// startUnder starts a program with a lease in its environment that it does not
// hold.
func (a *account) startUnder() {
	held := a.drawLease()
	if held == nil || held.Binding == lease.ByProcess || held.Implied {
		return // the leases of one holder count together, also after it has exited: see TestOwnerByTheHolderOfAnOrigin in kinship
	}
	app := a.start("under", []string{"BERTH_LEASE=" + held.ID, "BERTH_FENCE=" + strconv.FormatUint(held.Fence, 10)})
	a.add(app, held.ID)
}

func (a *account) drawLease() *lease.Lease {
	if all := a.keeper.View().Leases; len(all) > 0 {
		return rapid.SampledFrom(all).Draw(a.T, "lease").Lease
	}
	return nil
}

// start starts a process that goes by a name.
func (a *account) start(name string, env []string) *application {
	cmd := exec.Command("sleep", "1000")
	cmd.Args[0] = name
	cmd.Env = append(os.Environ(), env...)
	if err := cmd.Start(); err != nil {
		a.Fatal(err)
	}
	go func() { _ = cmd.Wait() }() // it is killed
	for {                          // until it has its arguments and its environment, a moment after its start
		if line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", cmd.Process.Pid)); err != nil || strings.HasPrefix(string(line), name) {
			return a.known(cmd.Process.Pid)
		}
		runtime.Gosched()
	}
}

// startPair starts a process and a child of it.
func (a *account) startPair(env []string) (parent, child *application) {
	cmd := exec.Command("sh", "-c", "sleep 1000 & echo $!; wait; exec sleep 1000")
	cmd.Env = append(os.Environ(), env...)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		a.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		a.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		a.Fatal(err)
	}
	go func() { _ = cmd.Wait() }() // it is killed
	return a.known(cmd.Process.Pid), a.known(pid)
}

func (a *account) known(pid int) *application {
	id, err := process.Proc().Identify(pid)
	if err != nil {
		a.Fatal(err)
	}
	return &application{pid: pid, id: id, uses: map[string]gpu.MiB{}}
}

func (a *account) add(app *application, owners ...string) {
	app.owners = owners
	a.apps = append(a.apps, app)
}

// use lets a process use another amount of a device, if there is so much.
func (a *account) use() {
	if len(a.apps) == 0 {
		return
	}
	app, uuid, memory := rapid.SampledFrom(a.apps).Draw(a.T, "app"), a.drawDevice(), a.drawMemory()-100
	free := a.total(uuid) - a.driver[uuid]
	for _, other := range a.apps {
		if other != app {
			free -= other.uses[uuid]
		}
	}
	app.uses[uuid] = min(memory, free)
	file := filepath.Join(a.guests, uuid, strconv.Itoa(app.pid))
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		a.Fatal(err)
	}
	if err := os.WriteFile(file, fmt.Appendf(nil, `{"memory_mb":%d,"start_time":%d}`, app.uses[uuid], app.id.Start), 0o600); err != nil {
		a.Fatal(err)
	}
}

// kill ends a process the hard way. It returns when the ledger knows it.
func (a *account) kill(app *application) {
	ended := make(chan struct{})
	stop, err := process.Proc().Watch(app.id, func() { close(ended) })
	if err != nil {
		a.Fatal(err)
	}
	defer stop()
	if err := syscall.Kill(app.pid, syscall.SIGKILL); err != nil {
		a.Fatal(err)
	}
	<-ended
	for i, other := range a.apps {
		if other == app {
			a.apps = append(a.apps[:i], a.apps[i+1:]...)
			break
		}
	}
	a.keeper.holders.exited(app.id, true) // as its watch does, a moment later
}

// restart stops the ledger, in an orderly way or not, and opens it again.
func (a *account) restart() {
	if a.draw("killed", 0, 1) == 1 {
		a.keeper.die(a.world.disk.Kill)
	} else {
		a.keeper.stop()
	}
	a.keeper = a.world.start(a.T)
	a.observe()
}

func (a *account) total(uuid string) gpu.MiB {
	for _, card := range a.cards {
		if card.Describe().UUID == uuid {
			return card.Describe().MemoryTotal
		}
	}
	return 0
}

// An owner is a lease by its id, or all leases that one process holds, or that one
// service has. Where an owner has several leases, it makes no difference which of
// them a process is charged to.

func held(app *application) string { return fmt.Sprintf("process %d", app.pid) }

// ownerOf returns the owner of a lease together with others.
func ownerOf(l *lease.Lease) string {
	switch {
	case l.Binding == lease.ByProcess:
		return fmt.Sprintf("process %d", l.Holder.PID)
	case l.Holder.Service != "":
		return l.Holder.Service
	}
	return l.ID
}

// available is the formula: what can be leased is the ceiling of the device, less
// the larger of what each lease has and what its processes use, and less what
// everybody else uses, the driver included.
func (a *account) available(uuid string, standing []Held, used func(*application) map[string]gpu.MiB) gpu.MiB {
	left := a.total(uuid) - accountReserve - a.driver[uuid]
	if uuid == a.uuid(1) {
		left = accountLimit - accountReserve - a.driver[uuid]
	}
	has, owners := map[string]gpu.MiB{}, map[string]string{} // by lease
	here := map[string]bool{}                                // owners that have a lease on the device
	for _, l := range standing {
		for _, p := range l.Parts {
			if p.GPU == uuid {
				has[l.ID], owners[l.ID] = p.Memory, ownerOf(l.Lease)
				here[l.ID], here[ownerOf(l.Lease)] = true, true
			}
		}
	}
	uses := map[string]gpu.MiB{} // by owner
	for _, app := range a.apps {
		owner := ""
		for _, each := range slices.Backward(app.owners) {
			if here[each] {
				owner = each
			}
		}
		uses[owner] += used(app)[uuid]
	}
	left -= uses[""] // under no lease
	room := map[string]gpu.MiB{}
	for id, memory := range has {
		direct := gpu.MiB(0)
		if owners[id] != id {
			direct = uses[id]
		}
		left -= max(memory, direct)
		room[owners[id]] += max(memory-direct, 0)
	}
	for owner, more := range room {
		left -= max(uses[owner]-more, 0)
	}
	return left
}

// check holds what can be leased against the formula: what was measured is never
// leased to others before the devices are measured again, and then it is right.
func (a *account) check() {
	a.compare(func(app *application) map[string]gpu.MiB { return app.seen }, func(off gpu.MiB) bool { return off > tolerance })
	a.observe()
	a.compare(func(app *application) map[string]gpu.MiB { return app.uses }, func(off gpu.MiB) bool { return off > tolerance || off < -tolerance })
}

func (a *account) compare(used func(*application) map[string]gpu.MiB, wrong func(off gpu.MiB) bool) {
	standing := a.keeper.View().Leases
	for i := range a.cards {
		uuid := a.uuid(i)
		if sum, want := a.keeper.Sum(uuid), a.available(uuid, standing, used); wrong(sum.Available() - want) {
			a.Fatalf("%s of %s can be leased, and should be %s: %+v\n%s", sum.Available().Exact(), uuid, want.Exact(), sum.Sum, a.story(uuid, standing))
		}
	}
}

// story says who has and who uses what on a device.
func (a *account) story(uuid string, standing []Held) string {
	var text strings.Builder
	for _, held := range standing {
		fmt.Fprintf(&text, "%s (%s): %+v, measured %v\n", held.ID, ownerOf(held.Lease), held.Parts, held.Measured)
	}
	for _, app := range a.apps {
		fmt.Fprintf(&text, "process %d of %v uses %s\n", app.pid, app.owners, app.uses[uuid].Exact())
	}
	for _, p := range a.keeper.Processes(uuid) {
		fmt.Fprintf(&text, "the ledger has %+v\n", p)
	}
	return text.String()
}
