package world

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/daemon"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/move"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/process"

	"github.com/berth-gpu/berth/gpu"
)

var errKilled = errors.New("the daemon was killed")

// Life is one life of a daemon.
type Life struct {
	w      *World
	number int
	root   string          // its state folder
	ctx    context.Context // ends when it is killed or stopped
	stop   context.CancelFunc
	killed chan struct{}
	over   chan struct{} // closed when nothing of it runs any more
	up     bool          // it answers

	socket, tcp http.Handler
	keeper      doorkeeper.Doorkeeper
	driver      *driver
}

// dead reports whether the daemon was killed.
func (l *Life) dead() bool {
	select {
	case <-l.killed:
		return true
	default:
		return false
	}
}

// do does something outside of the daemon. The daemon can be killed before it, or after it and
// before it hears of it; nothing that it does then has an effect.
func (l *Life) do(what string, act func() error) error {
	w := l.w
	w.effects.Lock()
	defer w.effects.Unlock()
	if l.dead() {
		return errKilled
	}
	w.count.effects++
	if w.dueToKill() {
		l.die("before it could " + what)
		return errKilled
	}
	err := act()
	if w.dueToKill() {
		l.die("after it did " + what)
		return errKilled
	}
	return err
}

// dueToKill counts down to the next kill. The caller holds effects.
func (w *World) dueToKill() bool {
	if w.killIn == 0 {
		return false
	}
	w.killIn--
	return w.killIn == 0
}

// die kills the daemon: it has no effect from now on, and its files stay as they are. The
// caller holds effects.
func (l *Life) die(when string) {
	w := l.w
	if l.dead() {
		return
	}
	next := filepath.Join(w.folder, fmt.Sprint("state-", l.number+1))
	if err := os.CopyFS(next, os.DirFS(l.root)); err != nil && !errors.Is(err, os.ErrNotExist) {
		w.wrong("machine", "copy the files of a daemon that was killed: %v", err)
	}
	w.disk.lose(l.root, next, func(n int) int {
		if !w.dark { // the kernel has what a process wrote before it was killed
			return 2
		}
		return w.effectRand.IntN(n)
	})
	_ = os.Chmod(next, 0o700)
	w.root = next
	w.count.kills++
	w.note("the daemon is killed %s", when)
	close(l.killed)
	l.stop()
}

// begin starts a daemon. It returns false if that one was killed before it answers, or if
// the disk does not let it start.
func (w *World) begin() bool {
	w.lifeNumber++
	l := &Life{w: w, number: w.lifeNumber, root: w.root, killed: make(chan struct{}), over: make(chan struct{})}
	l.ctx, l.stop = context.WithCancel(context.Background())
	lives.Lock()
	lives.of[l.root] = l
	lives.Unlock()
	w.setLife(l)
	before := w.disk.count()
	settings := func() (from daemon.Sources) {
		return daemon.Sources{File: filepath.Join(w.folder, "berth.yaml"), Getenv: func(string) string { return "" }, Start: true, Flags: map[string]string{
			"daemon.state_dir": l.root, "daemon.socket": filepath.Join(w.folder, "berth.sock"), "daemon.listen": "", "daemon.devices": "sim:4",
		}}
	}
	give := func(err error) bool {
		l.stop()
		close(l.over)
		l.forget()
		if !l.dead() && w.disk.count() == before {
			w.wrong("starts", "a daemon does not start: %v", err)
		}
		return false
	}
	loaded, err := daemon.Load(settings())
	if err != nil {
		return give(err)
	}
	l.driver = newDriver(w.cards)
	d, err := daemon.Open(l.ctx, daemon.Options{
		Settings: loaded, Version: "1.0.0", Log: slog.New(slog.NewTextHandler(w.log(), &slog.HandlerOptions{Level: slog.LevelWarn})), Program: "/usr/bin/berth-serve",
		Load:   func() (*config, error) { return daemon.Load(settings()) },
		Passed: w.passed,
		Machine: &daemon.Machine{
			Devices: []device.Backend{&seen{l.driver, l}}, Processes: &table{w.processes, l}, Users: w.people.database(), Account: w.people.account,
			Minders: func(folder string) daemon.Minders {
				return &minders{l: l, kind: filepath.Base(filepath.Dir(folder))}
			},
			Wall: w.wall,
		},
	})
	if err != nil {
		return give(err)
	}
	l.socket, l.tcp, l.keeper = d.Doors()
	go func() {
		err := d.Run(l.ctx)
		err = errors.Join(err, d.Close())
		l.forget()
		if err != nil && !l.dead() && w.disk.count() == before {
			w.wrong("starts", "a daemon that was stopped says: %v", err)
		}
		close(l.over)
	}()
	w.mu.Lock()
	l.up, w.up = true, time.Now()
	w.mu.Unlock()
	return !l.dead()
}

func (l *Life) forget() {
	lives.Lock()
	defer lives.Unlock()
	if lives.of[l.root] == l {
		delete(lives.of, l.root)
	}
}

// table is the processes of the machine for one daemon.
type table struct {
	*processes
	l *Life
}

// Deliver implements process.World.
func (t *table) Deliver(pid int, signal process.Signal) {
	if signal == process.Probe {
		return
	}
	_ = t.l.do(fmt.Sprintf("send %v", signal), func() error { t.processes.Deliver(pid, signal); return nil })
}

// Watch implements process.World.
func (t *table) Watch(pid int, ended func(killed bool)) (stop func()) {
	return t.processes.Watch(pid, func(killed bool) {
		if !t.l.dead() {
			ended(killed)
		}
	})
}

// seen is the GPUs of the machine for one daemon.
type seen struct {
	*driver
	l *Life
}

// Scan implements device.Backend.
func (s *seen) Scan(ctx context.Context) (list []device.Device, err error) {
	found, err := s.driver.Scan(ctx)
	for _, one := range found {
		list = append(list, &seenCard{one.(*card), s.l})
	}
	return list, err
}

type seenCard struct {
	*card
	l *Life
}

// SetPowerLimit implements device.Governor.
func (c *seenCard) SetPowerLimit(ctx context.Context, limit gpu.Watts) error {
	return c.l.do("set a power limit", func() error { return c.card.SetPowerLimit(ctx, limit) })
}

// SetFan implements device.Governor.
func (c *seenCard) SetFan(ctx context.Context, speed gpu.Percent) error {
	return c.l.do("set a fan", func() error { return c.card.SetFan(ctx, speed) })
}

// Move implements device.Parkable.
func (c *seenCard) Move(ctx context.Context, step move.Step, ids []move.Process) (all []move.Outcome, err error) {
	if step == move.Ask {
		return c.card.Move(ctx, step, ids)
	}
	err = c.l.do(string(step)+" memory", func() (err error) { all, err = c.card.Move(ctx, step, ids); return err })
	return all, err
}

// way is the way of one caller to whichever daemon lives.
type way struct {
	w     *World
	peer  access.Peer
	shaky bool // the connection may break
	of    *Life
	conn  context.Context // of a connection to that daemon
	mu    sync.Mutex
}

// end is the end of a connection that a caller has.
type end struct {
	net.Conn
	peer access.Peer
}

func (e *end) Peer() access.Peer    { return e.peer }
func (e *end) RemoteAddr() net.Addr { return &net.UnixAddr{Net: "unix"} }

// RoundTrip implements http.RoundTripper.
func (v *way) RoundTrip(r *http.Request) (*http.Response, error) {
	w := v.w
	l := w.life()
	if l == nil || l.dead() || l.ctx.Err() != nil {
		return nil, &client.NoDaemonError{Attempts: []client.Attempt{{Network: "unix", Address: filepath.Join(w.folder, "berth.sock"), Err: syscall.ECONNREFUSED}}}
	}
	v.mu.Lock()
	if v.of != l {
		v.of, v.conn = l, l.keeper.ConnContext()(context.Background(), &end{peer: v.peer})
	}
	conn := v.conn
	v.mu.Unlock()
	ctx, cancel := context.WithCancel(r.Context())
	ctx = doorkeeper.With(ctx, doorkeeper.Of(conn))
	handler := l.socket
	if v.peer.Door == access.TCP {
		handler = l.tcp
	}
	type answer struct {
		*http.Response
		error
	}
	answered := make(chan answer, 1)
	go func() {
		resp, err := client.Through(handler).RoundTrip(r.WithContext(ctx))
		answered <- answer{resp, err}
	}()
	breaks := (<-chan time.Time)(nil)
	if v.shaky {
		breaks = time.After(w.chance(5 * time.Second))
	}
	select {
	case a := <-answered:
		if a.error != nil {
			cancel()
			return a.Response, a.error
		}
		if l.dead() || v.shaky && w.one(3) { // the answer is lost on its way
			cancel()
			_ = a.Body.Close()
			return nil, io.EOF
		}
		a.Body = &untilKilled{a.Body, l, cancel, context.AfterFunc(l.deathContext(), cancel)}
		return a.Response, nil
	case <-l.killed:
		cancel()
		return nil, io.EOF
	case <-breaks:
		cancel()
		return nil, syscall.ECONNRESET
	}
}

// deathContext ends when the daemon is killed.
func (l *Life) deathContext() context.Context { return death{l} }

type death struct{ l *Life }

func (d death) Deadline() (time.Time, bool) { return time.Time{}, false }
func (d death) Done() <-chan struct{}       { return d.l.killed }
func (d death) Value(any) any               { return nil }
func (d death) Err() error {
	if d.l.dead() {
		return context.Canceled
	}
	return nil
}

// untilKilled is a body that breaks off when the daemon is killed.
type untilKilled struct {
	io.ReadCloser
	l      *Life
	cancel context.CancelFunc
	stop   func() bool
}

func (u *untilKilled) Read(b []byte) (int, error) {
	n, err := u.ReadCloser.Read(b)
	if err != nil && err != io.EOF && u.l.dead() {
		err = io.ErrUnexpectedEOF
	}
	return n, err
}

func (u *untilKilled) Close() error {
	u.stop()
	u.cancel()
	return u.ReadCloser.Close()
}

// account looks up a user for a minder.
func (p *people) account(name string, uid int) (api.MinderAccount, error) {
	found, groups, err := p.lookUp(name)
	if err == nil && found != uid {
		err = fmt.Errorf("the user %s has another uid now", name)
	}
	return api.MinderAccount{Name: name, GID: uid, Groups: groups, Home: "/home/" + name}, err
}
