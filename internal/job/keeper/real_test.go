package keeper

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	osuser "os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
	"github.com/berth-gpu/berth/internal/file/journal/filelog/disktest"
	"github.com/berth-gpu/berth/internal/job"
	"github.com/berth-gpu/berth/internal/job/run"
	"github.com/berth-gpu/berth/internal/job/run/runtest"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/minder"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// TestMain makes this binary the minder that the keeper of a test starts.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == minder.Verb {
		var at minder.Post
		flags := flag.NewFlagSet("", flag.ExitOnError)
		flags.StringVar(&at.Runs, "runs", "", "")
		flags.StringVar(&at.Run, "run", "", "")
		flags.Func("group", "", func(folder string) error { at.Groups = append(at.Groups, folder); return nil })
		socket := flags.String("socket", "", "")
		_ = flags.Parse(os.Args[2:])
		if err := minder.Mind(context.Background(), at, func(ctx context.Context, run string) (api.MinderOrder, error) { return askAt(ctx, *socket, run) }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		unix.RawSyscall(unix.SYS_EXIT_GROUP, 0, 0, 0) // the race detector waits a second in os.Exit
	}
	os.Exit(m.Run())
}

// askAt asks a house for the order of a run.
func askAt(ctx context.Context, socket, run string) (order api.MinderOrder, err error) {
	way := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}}}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://house/"+run, nil)
	if err != nil {
		return order, err
	}
	said, err := way.Do(request)
	if err != nil {
		return order, err
	}
	defer said.Body.Close()
	switch said.StatusCode {
	case http.StatusOK:
		return order, json.NewDecoder(said.Body).Decode(&order)
	case http.StatusConflict:
		return order, minder.ErrRefused
	}
	return order, errors.New(said.Status)
}

// house is what outlives a keeper, where the journal and the minders are the real ones.
// Every effect of a keeper is a step, and so is every operation on the disk of the
// journal; the keeper is killed at one of them.
type house struct {
	t       *testing.T
	folder  string
	disk    *disktest.Disk
	starter *minder.Starter
	boot    string
	user    *osuser.User

	mu     sync.Mutex // guards what follows
	number int64
	lease  lease.Key // the only one; without an id nobody has it
	freed  chan struct{}
	life   *life
	steps  int
	killAt int // half-step, as in world
}

// life is one keeper.
type life struct {
	*Keeper
	h    *house
	ctx  context.Context
	stop context.CancelFunc
	over chan struct{}
	once sync.Once
	dead chan struct{}
}

func newHouse(t *testing.T) *house {
	t.Helper()
	h := &house{t: t, folder: t.TempDir(), disk: disktest.New(), freed: make(chan struct{})}
	var err error
	if h.user, err = osuser.Current(); err != nil {
		t.Skip(err)
	}
	if h.boot, err = process.Proc().Boot(); err != nil {
		t.Fatal(err)
	}
	opened, err := minder.Open(filepath.Join(h.folder, "runs"))
	if err != nil {
		t.Fatal(err)
	}
	short, err := os.MkdirTemp("", "h") // the path of a socket is limited
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(short) })
	h.starter = minder.NewStarter(opened, minder.Options{Program: os.Args[0], Socket: filepath.Join(short, "s")})
	listener, err := net.Listen("unix", h.starter.Socket)
	if err != nil {
		t.Fatal(err)
	}
	type peer struct{}
	server := &http.Server{
		ConnContext: func(ctx context.Context, c net.Conn) context.Context {
			id := process.ID{}
			if raw, err := c.(*net.UnixConn).SyscallConn(); err == nil {
				_ = raw.Control(func(fd uintptr) {
					if who, err := unix.GetsockoptUcred(int(fd), unix.SOL_SOCKET, unix.SO_PEERCRED); err == nil {
						id, _ = process.Proc().Identify(int(who.Pid))
					}
				})
			}
			return context.WithValue(ctx, peer{}, id)
		},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			h.mu.Lock()
			l := h.life
			h.mu.Unlock()
			id, _ := r.Context().Value(peer{}).(process.ID)
			order, err := l.Runs().Order(strings.TrimPrefix(r.URL.Path, "/"), id)
			switch {
			case l.isDead(): // nobody hears of it
				w.WriteHeader(http.StatusServiceUnavailable)
			case errors.Is(err, runs.ErrNoOrder):
				w.WriteHeader(http.StatusConflict)
			case err != nil:
				w.WriteHeader(http.StatusServiceUnavailable)
			default:
				_ = json.NewEncoder(w).Encode(order)
			}
		}),
	}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return h
}

// start starts a keeper, another one if the journal crashes while it is opened.
func (h *house) start() {
	h.t.Helper()
	for {
		ctx, stop := context.WithCancel(context.Background())
		l := &life{h: h, ctx: ctx, stop: stop, over: make(chan struct{}), dead: make(chan struct{})}
		k, err := Open(Options{
			Folder: filepath.Join(h.folder, "environments"), Boot: h.boot, Minders: realMinders{h.starter, l}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
			Numbers: func() (int64, error) { h.mu.Lock(); defer h.mu.Unlock(); h.number++; return h.number, nil },
			Limits:  func(int, string) Limits { return Limits{} }, Account: minder.Account, Publish: func(gpu.Event) {},
			Open: func(replay func(journal.Entry) error) (journal.Journal, error) {
				log, _, err := filelog.Open(h.disk, filelog.Options{}, replay)
				return mortalJournal{log, l}, err
			},
		})
		if errors.Is(err, disktest.ErrDown) {
			stop()
			h.disk.Kill()
			continue
		}
		if err != nil {
			h.t.Fatal(err)
		}
		l.Keeper = k
		h.mu.Lock()
		h.life = l
		h.mu.Unlock()
		go func() {
			defer close(l.over)
			_ = k.Run(ctx, oneLease{l})
		}()
		return
	}
}

// revive returns a keeper that lives.
func (h *house) revive() *life {
	if h.life.isDead() {
		<-h.life.over
		h.disk.Kill()
		h.start()
	}
	return h.life
}

func (l *life) isDead() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

func (l *life) kill() { l.once.Do(func() { close(l.dead); l.stop() }) }

// step does an effect of a keeper, unless the keeper is dead or dies of it.
func (l *life) step(do func() error) error {
	l.h.mu.Lock()
	l.h.steps++
	before, after := l.h.killAt == 2*l.h.steps-1, l.h.killAt == 2*l.h.steps
	l.h.mu.Unlock()
	if before {
		l.kill()
	}
	if l.isDead() {
		return runtest.ErrKilled
	}
	err := do()
	if after || errors.Is(err, disktest.ErrDown) {
		l.kill()
		return runtest.ErrKilled
	}
	return err
}

// mortalJournal is the real journal of one keeper.
type mortalJournal struct {
	journal.Journal
	l *life
}

func (j mortalJournal) Append(group [][]byte, care journal.Care) error {
	return j.l.step(func() error { return j.Journal.Append(group, care) })
}

// realMinders starts the real minders of one keeper.
type realMinders struct {
	*minder.Starter
	l *life
}

func (m realMinders) Start(ctx context.Context, run string, most runs.Limits) (id process.ID, err error) {
	err = m.l.step(func() error { id, err = m.Starter.Start(ctx, run, most); return err })
	return id, err
}

func (m realMinders) Remove(run string) error {
	return m.l.step(func() error { return m.Starter.Remove(run) })
}

// oneLease gives out the only lease of a house.
type oneLease struct{ l *life }

func (o oneLease) Acquire(ctx context.Context, a run.Ask) (api.Lease, error) {
	h := o.l.h
	for {
		h.mu.Lock()
		mine, freed := h.lease.ID == "" || h.lease == a.Key, h.freed
		h.mu.Unlock()
		if mine {
			err := o.l.step(func() error {
				h.mu.Lock()
				defer h.mu.Unlock()
				if mine = h.lease.ID == "" || h.lease == a.Key; mine {
					h.lease = a.Key
				}
				return nil
			})
			if err != nil || mine {
				return api.Lease{ID: a.Key.ID, Fence: 1, Granted: time.Now()}, err
			}
			continue
		}
		select {
		case <-freed:
		case <-ctx.Done():
			return api.Lease{}, ctx.Err()
		case <-o.l.dead:
			return api.Lease{}, runtest.ErrKilled
		case <-o.l.ctx.Done():
			return api.Lease{}, o.l.ctx.Err()
		}
	}
}

func (o oneLease) Hand(_ context.Context, a run.Ask, _ uint64, _ process.ID) (api.Lease, error) {
	return api.Lease{ID: a.Key.ID, Fence: 1}, o.l.step(func() error { return nil })
}

func (o oneLease) Release(k lease.Key, _ uint64, _ string) {
	h := o.l.h
	_ = o.l.step(func() error {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.lease == k {
			h.lease = lease.Key{}
			close(h.freed)
			h.freed = make(chan struct{})
		}
		return nil
	})
}

func (o oneLease) End(lease.Key, uint64, access.Actor, string) error     { return nil }
func (o oneLease) Claim(lease.Key, uint64) bool                          { return true }
func (o oneLease) Signal(lease.Key, uint64, int, string)                 {}
func (o oneLease) Ends(lease.Key, uint64) (time.Time, bool)              { return time.Time{}, false }
func (o oneLease) Learn(*job.Spec, string, *job.Outcome, *job.Task) bool { return true }

func (o oneLease) Taken(*job.Spec) bool { return false }

func (o oneLease) List(lease.RunKind) []run.Held {
	h := o.l.h
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.lease.ID == "" {
		return nil
	}
	return []run.Held{{Key: h.lease, Fence: 1}}
}

// submit submits a job whose command notes that it runs, until a keeper has taken it.
func (h *house) submit(name string, exit int, change ...func(*job.Spec)) job.Spec {
	h.t.Helper()
	s := spec(name, change...)
	s.UID, s.User, s.Directory = os.Geteuid(), h.user.Username, h.folder
	s.Command = []string{"/bin/sh", "-c", fmt.Sprintf("echo $BERTH_JOB.$BERTH_TASK >> ran; exit %d", exit)}
	for {
		l := h.revive()
		taken, err := l.Submit(s, []string{"PATH=/usr/bin:/bin"}, gpu.By{})
		if l.isDead() {
			continue
		}
		if err != nil {
			h.t.Fatal(err)
		}
		return taken
	}
}

// play submits jobs, one of which waits for another, and waits for all ends.
func (h *house) play() {
	h.t.Helper()
	h.start()
	born := h.life
	first := h.submit("first", 7)
	next := h.submit("next", 0, func(s *job.Spec) { s.AfterAny = []job.Ref{{Number: first.Number}} })
	many := h.submit("many", 3, array("1-2"))
	patience, enough := context.WithTimeout(h.t.Context(), 2*time.Minute)
	defer enough()
	for open := true; open; {
		l := h.revive()
		ctx, cancel := context.WithCancel(patience)
		context.AfterFunc(l.ctx, cancel)
		all := collected(l.Keeper, Query{Most: 100})
		open = false
		for _, s := range all {
			if patience.Err() != nil && !s.Over() {
				h.t.Fatalf("%s is %s (%s), and %q has the lease", s.ID, s.State, s.Cause, h.lease.ID)
			}
			open = open || !s.Over()
			l.Await(ctx, job.Ref{Number: s.Spec.Number})
		}
		cancel()
	}
	l := h.revive()
	for l.stop(); ; l.stop() { // as SIGTERM does: what has begun is done
		if <-l.over; !l.isDead() {
			break
		}
		l = h.revive() // it was killed meanwhile
	}
	ran, err := os.ReadFile(filepath.Join(h.folder, "ran"))
	if err != nil {
		h.t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(ran)), "\n")
	slices.Sort(lines)
	if twice := slices.Compact(slices.Clone(lines)); len(twice) != len(lines) {
		h.t.Errorf("a command ran twice: %q", lines)
	}
	for _, want := range []struct {
		spec job.Spec
		id   string
		task int
		exit int
	}{{first, first.ID() + ".", 0, 7}, {next, next.ID() + ".", 0, 0}, {many, many.ID() + ".1", 1, 3}, {many, many.ID() + ".2", 2, 3}} {
		shown, err := l.Show(job.Ref{Number: want.spec.Number, Task: want.task, One: want.task > 0})
		if err != nil || shown.Exit != gpu.Some(want.exit) || !slices.Contains(lines, want.id) {
			h.t.Errorf("%s: %s (%s), exit code %v, %v; these ran: %q", want.id, shown.State, shown.Cause, shown.Exit, err, lines)
		}
	}
	left, err := h.starter.List()
	if l != born && len(left) > 0 { // a minder of one that was killed came when its run was over
		h.start()
		for ; err == nil && len(left) > 0 && patience.Err() == nil; left, err = h.starter.List() {
			l := h.revive()
			<-l.begun
			l.Runs().Tidy()
			time.Sleep(10 * time.Millisecond)
		}
		h.life.stop()
		<-h.life.over
	}
	if err != nil || len(left) > 0 {
		h.t.Errorf("these records are left: %v, %v", left, err)
	}
	if h.lease.ID != "" {
		h.t.Errorf("the lease of %s is left", h.lease.ID)
	}
	if log, err := os.ReadFile(filepath.Join(h.folder, "berth-"+first.ID()+".log")); err != nil || len(bytes.TrimSpace(log)) > 0 {
		h.t.Errorf("the log of %s: %q, %v", first.ID(), log, err)
	}
}

// A keeper with the real journal and real minders that is killed at any step, or at any
// operation on the disk of its journal, loses no job, starts no command twice, and gets
// every exit code.
func TestEveryCrashPointOfTheRealThings(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts some hundred processes")
	}
	plain := newHouse(t)
	plain.play()
	if t.Failed() {
		return
	}
	steps, operations := plain.steps, plain.disk.Ops()
	t.Logf("%d steps, %d operations on the disk", steps, operations)
	for at := 1; at <= 2*steps; at++ {
		t.Run(fmt.Sprintf("step %d", at), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.killAt = at
			h.play()
		})
	}
	for at := range operations {
		t.Run(fmt.Sprintf("operation %d", at), func(t *testing.T) {
			t.Parallel()
			h := newHouse(t)
			h.disk.CrashAt(at, at%3*7)
			h.play()
		})
	}
}
