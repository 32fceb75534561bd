package pace

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// TestMain makes the test binary the guardian where a test asks for one.
func TestMain(m *testing.M) {
	switch os.Getenv("PACER_TEST") {
	case "guardian":
		var in io.Reader = os.Stdin
		if path := os.Getenv("PACER_ORDERS"); path != "" { // keeps the orders that it gets
			file, err := os.Create(path)
			if err != nil {
				panic(err)
			}
			in = io.TeeReader(in, file)
		}
		if err := Guard(in, os.Stdout); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	case "daemon":
		daemon()
		return
	}
	os.Exit(m.Run())
}

// guardianCommand runs this test binary as the guardian.
func guardianCommand() []string {
	self, err := os.Executable()
	if err != nil {
		panic(err)
	}
	return []string{"/usr/bin/env", "PACER_TEST=guardian", self}
}

// book has one lease, whose processes a test chooses.
type book struct {
	mu      sync.Mutex
	lease   *lease.Lease
	members []process.ID
	renewed int
}

func (b *book) Lease(k lease.Key, fence uint64) *lease.Lease {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.lease == nil || b.lease.Key() != k || b.lease.Fence != fence {
		return nil
	}
	return b.lease
}

func (b *book) Family(lease.Key, uint64) []process.ID {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.members)
}

func (b *book) Renew(context.Context, lease.Name, uint64, time.Duration, access.Actor, *lease.Limits) (*lease.Lease, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.renewed++
	return b.lease, nil
}

// noDevices has nothing to measure.
type noDevices struct{}

func (noDevices) Do(context.Context, string, func(context.Context, device.Device) error) error {
	return device.ErrUnsupported
}

func someLease() *lease.Lease {
	return &lease.Lease{ID: "train", Fence: 7, Holder: lease.Holder{User: "ada", UID: os.Getuid()}, Binding: lease.ByProcess, State: lease.Active, Parts: []lease.Part{{GPU: "GPU-a"}}}
}

// program is a process that a test paces.
type program struct {
	cmd *exec.Cmd
	id  process.ID
	out *bufio.Reader
	in  io.WriteCloser
}

// start starts a shell.
func start(t *testing.T, script string, attr *syscall.SysProcAttr) *program {
	t.Helper()
	cmd := exec.Command("sh", "-c", script)
	cmd.SysProcAttr = attr
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = in.Close()
		_ = cmd.Wait()
	})
	id, err := process.Proc().Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	return &program{cmd: cmd, id: id, out: bufio.NewReader(out), in: in}
}

// spin runs until it is ended.
func spin(t *testing.T) *program {
	t.Helper()
	p := start(t, "echo up; read line", &syscall.SysProcAttr{Setsid: true})
	if _, err := p.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	return p
}

func stopped(t *testing.T, id process.ID) bool {
	t.Helper()
	c, err := process.Proc().Control(id)
	if err != nil {
		t.Fatal(err)
	}
	return c.Stopped
}

// until waits for something to become true; the test binary's own limit ends a
// wait for nothing.
func until(t *testing.T, what string, is func() bool) {
	t.Helper()
	for deadline := time.Now().Add(5 * time.Minute); !is(); {
		if time.Now().After(deadline) {
			t.Fatalf("never: %s", what)
		}
		time.Sleep(time.Millisecond)
	}
}

type rig struct {
	*Pacer
	book   *book
	events chan gpu.Event
	path   string
	damage *file.Damage
	end    func()
}

func newRig(t *testing.T, b *book, path string) *rig {
	t.Helper()
	r := &rig{book: b, events: make(chan gpu.Event, 100), path: path}
	r.Pacer, r.damage = New(Options{
		Leases: b, Devices: noDevices{}, Event: func(e gpu.Event) { r.events <- e }, Log: slog.New(slog.DiscardHandler),
		Guardian: guardianCommand(), Path: path, Boot: "this",
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); r.Run(ctx) }()
	r.end = func() { cancel(); <-done }
	t.Cleanup(r.end)
	return r
}

func (r *rig) hold(share float64) error {
	l := r.book.lease
	return r.Hold(Hold{Key: l.Key(), Fence: l.Fence, Share: share, Source: ByOperator})
}

// A lease that is held to a share is stopped and continued, and runs on when it
// is let go.
func TestTurns(t *testing.T) {
	p := spin(t)
	r := newRig(t, &book{lease: someLease(), members: []process.ID{p.id}}, filepath.Join(t.TempDir(), FileName))
	if err := r.hold(0.5); err != nil {
		t.Fatal(err)
	}
	if e := <-r.events; e.Code != gpu.EventPaced || !strings.Contains(e.Text, "50 %") || e.User != "ada" {
		t.Errorf("the event is %+v", e)
	}
	for range 2 {
		until(t, "it is stopped", func() bool { return stopped(t, p.id) })
		until(t, "it runs", func() bool { return !stopped(t, p.id) })
	}
	// A guardian that gets no processor for a second counts as one that does not
	// answer, until it does.
	until(t, "it is held to half", func() bool {
		told, held := r.Of(7)
		return held && told.Share() == 0.5 && told.Refused == ""
	})
	until(t, "it is stopped", func() bool { return stopped(t, p.id) })
	if !r.Let(7, gpu.By{User: "root"}, ByOperator, ByOwner) {
		t.Error("there was nothing to let go")
	}
	e := <-r.events
	for e.Data["refused"] == true {
		e = <-r.events
	}
	if e.Severity != gpu.Note || e.By.User != "root" {
		t.Errorf("the event is %+v", e)
	}
	until(t, "it runs", func() bool { return !stopped(t, p.id) })
	if list := r.Held(); len(list) != 0 {
		t.Errorf("held: %+v", list)
	}
}

// The least share of several counts, and an owner cannot undo what an operator
// set.
func TestTheLeastShareCounts(t *testing.T) {
	p := spin(t)
	r := newRig(t, &book{lease: someLease(), members: []process.ID{p.id}}, "")
	for source, share := range map[Source]float64{ByOwner: 0.8, ByOperator: 0.3, ByThrottle: 0.5} {
		if err := r.Hold(Hold{Key: r.book.lease.Key(), Fence: 7, Share: share, Source: source}); err != nil {
			t.Fatal(err)
		}
	}
	share := func() float64 { told, _ := r.Of(7); return told.Share() }
	if share() != 0.3 {
		t.Errorf("the share is %v", share())
	}
	r.Let(7, gpu.By{}, ByOwner)
	if share() != 0.3 {
		t.Errorf("without the owner's the share is %v", share())
	}
	r.Let(7, gpu.By{}, ByOperator)
	if share() != 0.5 {
		t.Errorf("without the operator's the share is %v", share())
	}
}

// A process that its user stopped stays stopped, and a traced one is left alone.
func TestWhatOthersStoppedIsLeft(t *testing.T) {
	left, paced := spin(t), spin(t)
	if err := process.Proc().Signal(kinship.Authority(), left.id, process.Stop); err != nil {
		t.Fatal(err)
	}
	until(t, "its user has stopped it", func() bool { return stopped(t, left.id) })
	r := newRig(t, &book{lease: someLease(), members: []process.ID{left.id, paced.id}}, "")
	if err := r.hold(0.5); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		until(t, "the other one is stopped", func() bool { return stopped(t, paced.id) })
		until(t, "the other one runs", func() bool { return !stopped(t, paced.id) })
		if !stopped(t, left.id) {
			t.Fatal("berth continued what its user had stopped")
		}
	}
	r.end()
	if !stopped(t, left.id) {
		t.Error("at its end berth continued what its user had stopped")
	}
	_ = process.Proc().Signal(kinship.Authority(), left.id, process.Continue)
}

func TestTracedProcessesAreLeft(t *testing.T) {
	done := make(chan error)
	go func() { // one thread traces from the beginning to the end
		cmd := exec.Command("sleep", "100")
		cmd.SysProcAttr = &syscall.SysProcAttr{Ptrace: true, Setsid: true}
		err := cmd.Start()
		if err == nil {
			var id process.ID
			if id, err = process.Proc().Identify(cmd.Process.Pid); err == nil {
				if c, _ := process.Proc().Control(id); c.Tracer == 0 {
					err = fmt.Errorf("its control is %+v", c)
				} else if got := stoppable(process.Proc(), id); got != errLeave {
					err = fmt.Errorf("stoppable: %v", got)
				}
			}
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
		done <- err
	}()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A child that is started between two cycles is stopped with the next one.
func TestNewProcessesAreStoppedToo(t *testing.T) {
	first, second := spin(t), spin(t)
	b := &book{lease: someLease(), members: []process.ID{first.id}}
	r := newRig(t, b, "")
	if err := r.hold(0.3); err != nil {
		t.Fatal(err)
	}
	until(t, "the first is stopped", func() bool { return stopped(t, first.id) })
	b.mu.Lock()
	b.members = append(b.members, second.id)
	b.mu.Unlock()
	until(t, "the second is stopped", func() bool { return stopped(t, second.id) })
	_ = second.cmd.Process.Kill() // while it is stopped
	_ = second.cmd.Wait()
	until(t, "the first runs", func() bool { return !stopped(t, first.id) })
	until(t, "the first is stopped again", func() bool { return stopped(t, first.id) })
}

// Leases that must not be paced are refused, with the reason.
func TestRefusals(t *testing.T) {
	for want, change := range map[string]func(*lease.Lease, *Pacer){
		"scope":    func(l *lease.Lease, _ *Pacer) { l.Scope = []string{"pod1"} },
		"MPS":      func(l *lease.Lease, _ *Pacer) { l.EnforcedBy = "mps" },
		"parked":   func(l *lease.Lease, _ *Pacer) { l.State = lease.Parked },
		"guardian": func(_ *lease.Lease, p *Pacer) { p.Guardian = nil },
		"other daemon": func(_ *lease.Lease, p *Pacer) {
			p.Denied = func(string) string { return "the other daemon paces" }
		},
		"no lease": func(l *lease.Lease, _ *Pacer) { l.Fence++ },
	} {
		b := &book{lease: someLease()}
		p, _ := New(Options{Leases: b, Devices: noDevices{}, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Guardian: guardianCommand()})
		key := b.lease.Key()
		change(b.lease, p)
		if err := p.Hold(Hold{Key: key, Fence: 7, Share: 0.5, Source: ByOperator}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", want, err)
		}
		if list := p.Held(); len(list) != 0 {
			t.Errorf("%s: held %+v", want, list)
		}
	}
}

// What stands in the way of a share that the settings say may pass. They do not ask again.
func TestSettingsAskOnce(t *testing.T) {
	for _, source := range []Source{ByService, ByThrottle} {
		program := spin(t)
		l := someLease()
		parked := *l
		parked.State = lease.Parked
		b := &book{lease: &parked, members: []process.ID{program.id}}
		r := newRig(t, b, "")
		if err := r.Hold(Hold{Key: l.Key(), Fence: l.Fence, Share: 0.3, Source: source}); err != nil {
			t.Fatalf("%s: %v", source, err)
		}
		for range 3 { // what a cycle does
			r.mu.Lock()
			paced := r.leases[l.Fence]
			r.mu.Unlock()
			if why := r.pause(t.Context(), paced, &parked, Cycle{Pause: LongestPause}); why != "" || stopped(t, program.id) {
				t.Fatalf("%s: parked, it is stopped, or refused: %q", source, why)
			}
		}
		b.mu.Lock()
		b.lease = l
		b.mu.Unlock()
		until(t, "it is stopped", func() bool { return stopped(t, program.id) })
		r.end()
	}
}

// A lease that gets a scope while it is paced runs on freely.
func TestScopeEndsPacing(t *testing.T) {
	program := spin(t)
	b := &book{lease: someLease(), members: []process.ID{program.id}}
	r := newRig(t, b, "")
	if err := r.hold(0.3); err != nil {
		t.Fatal(err)
	}
	until(t, "it is stopped", func() bool { return stopped(t, program.id) })
	b.mu.Lock()
	scoped := *b.lease
	scoped.Scope = []string{"pod1"}
	b.lease = &scoped
	b.mu.Unlock()
	until(t, "nobody holds it", func() bool { _, held := r.Of(scoped.Fence); return !held })
	until(t, "it runs", func() bool { return !stopped(t, program.id) })
}

// A daemon without rights over a process says so, and stops nothing.
func TestProcessesOfOthers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("starting a process of another user needs root")
	}
	ours := spin(t)
	theirs := start(t, "echo up; read line", &syscall.SysProcAttr{Setsid: true})
	if _, err := theirs.out.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	text, err := exec.Command("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", "sh", "-c", fmt.Sprintf("kill -0 %d", theirs.id.PID)).CombinedOutput()
	if err == nil {
		t.Skipf("setpriv does not take rights away: %s", text)
	}
	// The guardian runs as nobody, so root's processes are those of another user.
	cmd := exec.Command("setpriv", append([]string{"--reuid=65534", "--regid=65534", "--clear-groups"}, guardianCommand()...)...)
	in, _ := cmd.StdinPipe()
	out, _ := cmd.StdoutPipe()
	if err := cmd.Start(); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	_ = json.NewEncoder(in).Encode(order{Lease: 7, In: kinship.Authority(), Stop: []process.ID{ours.id, theirs.id}, Millis: 500})
	var said report
	if err := json.NewDecoder(out).Decode(&said); err != nil {
		t.Skipf("nobody cannot run this test: %v", err)
	}
	if !strings.Contains(said.Refused, ErrDenied.Error()) || said.Stopped != 0 || stopped(t, ours.id) || stopped(t, theirs.id) {
		t.Errorf("it says %+v", said)
	}
}

// stopper waits until a process is stopped, and returns the guardian. There is none for a
// moment when one did not answer in time.
func (r *rig) stopper(t *testing.T, id process.ID) (guardian *guarding) {
	t.Helper()
	until(t, "a guardian stops it", func() bool {
		guardian = r.guard.running()
		return guardian != nil && stopped(t, id)
	})
	return guardian
}

// A guardian that is killed leaves nothing stopped: the daemon notices, and
// starts another one.
func TestTheGuardianIsKilled(t *testing.T) {
	p := spin(t)
	r := newRig(t, &book{lease: someLease(), members: []process.ID{p.id}}, filepath.Join(t.TempDir(), FileName))
	if err := r.hold(0.1); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		guardian := r.stopper(t, p.id)
		killed := time.Now()
		_ = guardian.cmd.Process.Signal(unix.SIGKILL)
		until(t, "it runs again", func() bool { return !stopped(t, p.id) })
		t.Logf("it was stopped for another %s", time.Since(killed))
	}
	until(t, "another guardian stops it", func() bool { return stopped(t, p.id) })
}

// A guardian that somebody stops is as good as gone.
func TestTheGuardianIsStopped(t *testing.T) {
	p := spin(t)
	r := newRig(t, &book{lease: someLease(), members: []process.ID{p.id}}, "")
	if err := r.hold(0.3); err != nil {
		t.Fatal(err)
	}
	_ = r.stopper(t, p.id).cmd.Process.Signal(unix.SIGSTOP)
	until(t, "it runs again", func() bool { return !stopped(t, p.id) })
}

// daemon paces the processes that it reads from standard input, until it is
// killed.
func daemon() {
	var ids []process.ID
	if err := json.NewDecoder(os.Stdin).Decode(&ids); err != nil {
		panic(err)
	}
	b := &book{lease: someLease(), members: ids}
	p, _ := New(Options{
		Leases: b, Devices: noDevices{}, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler),
		Guardian: guardianCommand(), Path: os.Getenv("PACER_FILE"), Boot: "this",
	})
	if err := p.Hold(Hold{Key: b.lease.Key(), Fence: 7, Share: 0.1, Source: ByOperator}); err != nil {
		panic(err)
	}
	p.Run(context.Background())
}

func startDaemon(t *testing.T, path string, ids ...process.ID) *exec.Cmd {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), "PACER_TEST=daemon", "PACER_FILE="+path)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	text, _ := json.Marshal(ids)
	cmd.Stdin = strings.NewReader(string(text))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd
}

// A daemon that is killed with its whole process group leaves nothing stopped, and
// its shares hold when it is back. test/bench/gpu/pace.sh measures how soon.
func TestTheDaemonIsKilled(t *testing.T) {
	p, path := spin(t), filepath.Join(t.TempDir(), FileName)
	for range 3 {
		cmd := startDaemon(t, path, p.id)
		until(t, "it is stopped", func() bool { return stopped(t, p.id) })
		killed := time.Now()
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		_ = cmd.Wait()
		until(t, "it runs", func() bool { return !stopped(t, p.id) })
		t.Logf("it was stopped for another %s", time.Since(killed))
	}
	r := newRig(t, &book{lease: someLease(), members: []process.ID{p.id}}, path)
	if told, held := r.Of(7); !held || told.Share() != 0.1 {
		t.Errorf("the next daemon holds it to %+v, %v", told, held)
	}
	until(t, "the next daemon stops it", func() bool { return stopped(t, p.id) })
	r.end()
	if stopped(t, p.id) {
		t.Error("a daemon that ends leaves it stopped")
	}
}

// If the daemon and its guardian are killed together, the next daemon continues
// what they left.
func TestBothAreKilled(t *testing.T) {
	p, path := spin(t), filepath.Join(t.TempDir(), FileName)
	cmd := startDaemon(t, path, p.id)
	until(t, "it is stopped", func() bool { return stopped(t, p.id) })
	family := process.Proc().Family()
	daemon := family[cmd.Process.Pid].ID
	for _, id := range family.Tree([]process.ID{daemon}) {
		if id != daemon {
			_ = process.Proc().Signal(kinship.Authority(), id, process.Stop) // so that it cannot notice
		}
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for _, id := range family.Tree([]process.ID{daemon}) {
		_ = process.Proc().Signal(kinship.Authority(), id, process.Kill)
	}
	if !stopped(t, p.id) {
		t.Skip("the pause ended before the guardian was killed")
	}
	if n, err := Left(path, "this"); n != 1 || err != nil {
		t.Errorf("left: %d, %v", n, err)
	}
	if n, err := Left(path, "another boot"); n != 0 || err != nil {
		t.Errorf("left by another boot: %d, %v", n, err)
	}
	_, _ = New(Options{Leases: &book{}, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Path: path, Boot: "this"})
	until(t, "it runs", func() bool { return !stopped(t, p.id) })
	if n, err := Left(path, "this"); n != 0 || err != nil {
		t.Errorf("left to mend: %d, %v", n, err)
	}
}

// While the file cannot be written, no process may be stopped that is not in it, however
// often somebody tries.
func TestTheFileCannotBeWritten(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "state")
	p, _ := New(Options{Leases: &book{}, Event: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler), Path: filepath.Join(folder, FileName), Boot: "this"})
	id, err := process.Proc().Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if p.remember(7, []process.ID{id}) == nil {
			t.Error("it may be stopped, and is in no file")
		}
	}
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := p.remember(7, []process.ID{id}); err != nil {
		t.Error(err)
	}
	if text, err := os.ReadFile(p.Path); !strings.Contains(string(text), strconv.Itoa(id.PID)) {
		t.Errorf("the file is %s: %v", text, err)
	}
}

// The daemon hangs: the guardian continues everything by itself.
func TestTheDaemonIsSilent(t *testing.T) {
	p := spin(t)
	orders, in := io.Pipe()
	out, reports := io.Pipe()
	done := make(chan error, 1)
	go func() { done <- Guard(orders, reports) }()
	go func() {
		_ = json.NewEncoder(in).Encode(order{Lease: 7, In: kinship.Authority(), Stop: []process.ID{p.id}, Millis: 1 << 40})
	}()
	said := json.NewDecoder(out)
	var r report
	if err := said.Decode(&r); err != nil || r.Stopped != 1 {
		t.Fatalf("it says %+v, %v", r, err)
	}
	until(t, "it is stopped", func() bool { return stopped(t, p.id) })
	if err := said.Decode(&r); err != nil || r.Until <= r.From {
		t.Errorf("it says %+v, %v", r, err)
	}
	if err := <-done; err == nil {
		t.Error("it calls that nothing")
	}
	until(t, "it runs", func() bool { return !stopped(t, p.id) })
	_ = in.Close()
}

// An earlier owner of a pid is not this process.
func TestIdentity(t *testing.T) {
	p := spin(t)
	g := &guardian{table: process.Proc()}
	if _, err := g.halt(kinship.Authority(), process.ID{PID: p.id.PID, Start: p.id.Start + 1}); err != errLeave {
		t.Errorf("another process with its pid: %v", err)
	}
	if stopped(t, p.id) {
		t.Error("it was stopped")
	}
}

// A time to live stands still while its holder is stopped, and not for longer, also if
// renewals fail.
func TestTimeToLiveStandsStill(t *testing.T) {
	const ttl = time.Minute
	start := time.Unix(1_800_000_000, 0)
	var r renewal
	expires, lasted := start.Add(ttl), time.Duration(0)
	var ended time.Duration
	tries := 0
	for at := start; at.Before(start.Add(time.Hour)); at = at.Add(time.Second) {
		if !at.Before(expires) {
			ended = at.Sub(start)
			break
		}
		lasted += 500 * time.Millisecond // half of the time
		if r.due(expires, ttl, lasted, at) {
			if tries++; tries%2 == 0 { // every other renewal fails
				expires = at.Add(ttl)
				r.paid(ttl)
			}
		}
	}
	if ended < 110*time.Second || ended > 130*time.Second {
		t.Errorf("a holder that never renews and is stopped half of the time loses its lease of %s after %s", ttl, ended)
	}
	r = renewal{}
	if r.due(start.Add(time.Second), ttl, 0, start) {
		t.Error("a lease whose holder was not stopped is renewed")
	}
}
