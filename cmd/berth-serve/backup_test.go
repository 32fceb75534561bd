package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/desk/backup"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/file/journal/filelog"
)

// site is a place for daemons, one at a time.
type site struct {
	*client.Client
	t      *testing.T
	dir    string
	notify *net.UnixConn
	daemon *exec.Cmd
}

func newSite(t *testing.T) *site {
	s := &site{t: t, dir: shortDir(t)}
	if err := os.Chmod(s.dir, 0o755); err != nil { // for the user of the service
		t.Fatal(err)
	}
	s.notify = notifyIn(t, s.dir)
	var err error
	if s.Client, err = client.New(client.Options{Socket: s.path("s")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close(); s.stop() })
	return s
}

func (s *site) path(name string) string { return filepath.Join(s.dir, name) }

// serve starts a daemon with a state folder, and waits until it is ready.
func (s *site) serve(state string) {
	s.t.Helper()
	s.stop()
	s.daemon = exec.Command("berth", "serve", "--config", s.path("berth.yaml"), "--devices", "sim:2", "--listen", "", "--state-dir", state, "--socket", s.path("s"))
	s.daemon.Env = append(os.Environ(), "NOTIFY_SOCKET="+s.path("n"), "HOME="+s.dir, "GORACE=atexit_sleep_ms=0")
	if err := s.daemon.Start(); err != nil {
		s.t.Fatal(err)
	}
	if _, err := s.notify.Read(make([]byte, 4096)); err != nil {
		s.t.Fatal(err)
	}
}

// stop kills the daemon.
func (s *site) stop() {
	if s.daemon != nil {
		_ = s.daemon.Process.Kill()
		_ = s.daemon.Wait()
		s.daemon = nil
	}
}

// until waits for a condition.
func (s *site) until(what string, is func() bool) {
	s.t.Helper()
	for late := time.Now().Add(patience); !is(); {
		if time.Now().After(late) {
			s.t.Fatalf("never seen: %s", what)
		}
	}
}

// jobStates returns the states of all jobs by name.
func (s *site) jobStates() map[string]string {
	s.t.Helper()
	all, err := s.Jobs(s.t.Context(), client.JobQuery{})
	if err != nil {
		s.t.Fatal(err)
	}
	states := map[string]string{}
	for _, j := range all.Jobs {
		states[j.Name] = j.State
	}
	return states
}

// holds returns the ids of leases that do not end with a process.
func (s *site) holds() (ids []string) {
	s.t.Helper()
	all, err := s.Leases(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for _, l := range all.Leases {
		if l.Binding != "process" && !strings.HasPrefix(l.ID, "load-") {
			ids = append(ids, l.ID)
		}
	}
	slices.Sort(ids)
	return ids
}

// backUp returns an archive of the daemon.
func (s *site) backUp(secrets bool) []byte {
	s.t.Helper()
	var b bytes.Buffer
	if err := s.Backup(s.t.Context(), client.BackupQuery{Secrets: secrets}, &b); err != nil {
		s.t.Fatal(err)
	}
	return b.Bytes()
}

// elsewhere restores an archive as on another machine.
func (s *site) elsewhere(archive []byte, folder string) backup.Report {
	s.t.Helper()
	did, err := backup.Restore(bytes.NewReader(archive), backup.Options{Folder: folder, Machine: backup.Machine{ID: "another", Boot: "another"}, Now: time.Now()})
	if err != nil {
		s.t.Fatal(err)
	}
	if len(did.Problems) > 0 {
		s.t.Errorf("%+v", did.Problems)
	}
	rebooted(s.t, filepath.Join(folder, inventory.Leases))
	rebooted(s.t, filepath.Join(folder, inventory.Waiting))
	return did
}

// rebooted makes the entries of a journal those of another boot, as on another machine.
func rebooted(t *testing.T, folder string) {
	t.Helper()
	var entries [][]byte
	now := backup.Here().Boot
	_, err := filelog.Read(file.PrivateDir(folder), func(e journal.Entry) error {
		entries = append(entries, bytes.ReplaceAll(bytes.Clone(e.Data), []byte(now), []byte("another-boot")))
		return nil
	})
	if err == nil {
		err = os.RemoveAll(folder)
	}
	var log *filelog.Log
	if err == nil {
		log, _, err = filelog.Open(file.PrivateDir(folder), filelog.Options{}, func(journal.Entry) error { return nil })
	}
	for _, e := range entries {
		if err == nil {
			err = log.Append([][]byte{e}, journal.Care{})
		}
	}
	if err == nil {
		err = log.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// A daemon with everything that it can have is backed up while leases, jobs and settings
// change. A daemon on another machine that starts with the copy has the ledger, the queue,
// the jobs, the limits and the past of the first one, as far as they can be true there.
func TestBackupUnderLoad(t *testing.T) {
	s := newSite(t)
	runner := "nobody"
	if me, err := user.Current(); err == nil && me.Uid != "0" {
		runner = me.Username
	}
	configure := func(text string) {
		t.Helper()
		if err := os.WriteFile(s.path("berth.yaml"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	config := fmt.Sprintf("services:\n  web:\n    command: [sleep, \"1000\"]\n    user: %s\n    directory: /\n    start: always\n    memory: 1GiB\n    env: {KEY: service-secret-value}\n", runner)
	configure(config)
	s.serve(s.path("state"))
	ctx := t.Context()
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	acquire := func(r api.LeaseRequest) {
		t.Helper()
		_, err := s.Acquire(ctx, r)
		must(err)
	}
	submit := func(name, hold string, memory gpu.MiB, gpus int, command ...string) string {
		t.Helper()
		j, err := s.Submit(ctx, api.JobRequest{
			Name: name, Command: command, Directory: s.dir, Hold: hold != "", Environment: []string{"PATH=/usr/bin:/bin", "KEY=job-secret-value"},
			Lease: api.LeaseRequest{Memory: memory, GPUs: gpus},
		})
		must(err)
		return j.ID
	}
	acquire(api.LeaseRequest{ID: "named", Memory: 2048, Slots: gpu.Some(0), Binding: "named"})
	acquire(api.LeaseRequest{ID: "timed", Memory: 1024, Slots: gpu.Some(0), TTL: gpu.Some(36000.0)})
	acquire(api.LeaseRequest{ID: "bound", Memory: 1024, Slots: gpu.Some(0), Binding: "process"})
	_, err := s.WaitJob(ctx, submit("done", "", 1024, 1, "true"))
	must(err)
	running := submit("running", "", 1024, 1, "sleep", "1000")
	s.until("a job runs", func() bool { return s.jobStates()["running"] == "running" })
	submit("waiting", "", 100<<10, 2, "true")
	submit("held", "yes", 1024, 1, "true")
	_, err = s.SetConfig(ctx, []byte(`{"temp_optimal": 61, "users": {"nobody": {"running_jobs": 3}}, "hooks": {"pager": {"url": "https://hooks.example/hook-address", "secret": "hook-secret-value-and-more"}}}`))
	must(err)
	token, err := s.CreateToken(ctx, api.TokenRequest{Name: "ci", Role: "viewer"})
	must(err)
	devices, err := s.StatusAll(ctx)
	must(err)
	drained := devices.GPUs[1].Device.UUID
	_, err = s.Drain(ctx, api.DrainRequest{GPU: gpu.Ref(drained)})
	must(err)
	s.until("something was measured", func() bool {
		r, err := s.Query(ctx, "count(gpu_temperature_celsius)", time.Time{})
		return err == nil && strings.Contains(fmt.Sprint(r), "2")
	})
	want := s.holds()

	// The load: leases come and go, jobs are held and let go, settings change.
	load, calm := context.WithCancel(ctx)
	var busy sync.WaitGroup
	for n := range 3 {
		busy.Go(func() {
			for i := 0; load.Err() == nil; i++ {
				id := fmt.Sprintf("load-%d-%d", n, i)
				if _, err := s.Acquire(load, api.LeaseRequest{ID: id, Memory: 64, Slots: gpu.Some(0), TTL: gpu.Some(600.0)}); err == nil {
					_, _ = s.Release(load, id, 0)
				}
			}
		})
	}
	busy.Go(func() {
		for i := 0; load.Err() == nil; i++ {
			j, err := s.Submit(load, api.JobRequest{Name: "load", Command: []string{"true"}, Hold: true, Environment: []string{fmt.Sprint("N=", i)}, Lease: api.LeaseRequest{Memory: 1}})
			if err == nil {
				_, _ = s.CancelJob(load, j.ID, "")
			}
			_, _ = s.SetConfig(load, fmt.Appendf(nil, `{"history_size": %d}`, 300+i%100))
		}
	})
	secrets := []string{"job-secret-value", "service-secret-value", "hook-secret-value", "hook-address"}
	var archive []byte
	for n := range 5 {
		archive = s.backUp(n%2 == 0)
		folder := s.path(fmt.Sprint("copy-", n))
		did := s.elsewhere(archive, folder)
		if did.Jobs.Lost < 1 || did.Leases < 3 {
			t.Errorf("%+v", did)
		}
		for _, f := range backup.Problems(backup.Check(folder)) {
			t.Errorf("copy %d: %+v", n, f)
		}
		if n%2 == 0 {
			continue
		}
		for _, secret := range secrets {
			if found, _ := exec.Command("grep", "-rlF", secret, folder).Output(); len(found) > 0 {
				t.Errorf("an archive without secrets has %q: %s", secret, found)
			}
		}
	}
	calm()
	busy.Wait()
	for _, f := range backup.Check(s.path("state")) {
		if i, known := inventory.Find(f.File); !known || f.Grade != backup.Sound || f.Version != i.Version {
			t.Errorf("%+v; the table says version %d", f, i.Version)
		}
	}

	book, err := s.Leases(ctx)
	must(err)
	highest := uint64(0)
	for _, l := range book.Leases {
		highest = max(highest, l.Fence)
	}
	configure("") // the other machine has no such service
	s.serve(s.path("copy-4"))
	if got := s.holds(); !slices.Equal(got, want) {
		t.Errorf("the leases are %v, and were %v", got, want)
	}
	fresh, err := s.Acquire(ctx, api.LeaseRequest{ID: "fresh", Memory: 64, Slots: gpu.Some(0), TTL: gpu.Some(60.0)})
	if err != nil || fresh.Fence <= highest {
		t.Errorf("the fence of a new lease is %d, and the highest was %d: %v", fresh.Fence, highest, err)
	}
	states := s.jobStates()
	delete(states, "load")
	if wanted := map[string]string{"done": "done", "running": "lost", "waiting": "waiting", "held": "held"}; !maps.Equal(states, wanted) {
		t.Errorf("the jobs are %v, want %v", states, wanted)
	}
	quota, err := s.Quota(ctx, "nobody")
	if text, _ := json.Marshal(quota); err != nil || !strings.Contains(string(text), `3`) {
		t.Errorf("%s, %v", text, err)
	}
	devices, err = s.StatusAll(ctx)
	if err != nil || devices.GPUs[1].Drain == nil {
		t.Errorf("the second device is not drained: %v", err)
	}
	if asToken, err := client.New(client.Options{Socket: s.path("s"), Token: token.Secret}); err != nil {
		t.Error(err)
	} else if who, err := asToken.Whoami(ctx); err != nil || who.User != "token:ci" {
		t.Errorf("the token opens no door: %+v, %v", who, err)
	}
	s.until("the past is open", func() bool {
		r, err := s.Query(ctx, "count(count_over_time(gpu_temperature_celsius[1h]))", time.Time{})
		return err == nil && strings.Contains(fmt.Sprint(r), "2")
	})
	j, err := s.Job(ctx, running)
	if err != nil || j.Code != "restored" || j.Cause == "" {
		t.Errorf("%+v, %v", j, err)
	}

	// Without secrets, jobs that wait are held, and say what to do. Nobody lets them go.
	s.serve(s.path("copy-3"))
	states = s.jobStates()
	if states["waiting"] != "held" || states["held"] != "held" || states["done"] != "done" {
		t.Errorf("without environments, the jobs are %v", states)
	}
	all, err := s.Jobs(ctx, client.JobQuery{})
	must(err)
	for _, j := range all.Jobs {
		if j.Name != "waiting" {
			continue
		}
		if j.Code != "no_environment" || !strings.Contains(j.Cause, "submit it again") {
			t.Errorf("%+v", j)
		}
		if _, err := s.UnholdJob(ctx, j.ID); err == nil || !strings.Contains(err.Error(), "submit it again") {
			t.Errorf("it was let go: %v", err)
		}
	}
	if list, err := s.Tokens(ctx); err != nil || len(list.Tokens) != 0 {
		t.Errorf("%+v, %v", list, err)
	}

	// The first daemon goes on with its state. Its programs end.
	configure(config)
	s.serve(s.path("state"))
	_, err = s.CancelJob(ctx, running, "")
	must(err)
	_, err = s.WaitJob(ctx, running)
	must(err)
	_, err = s.StopService(ctx, "web", "")
	must(err)
	s.until("the service is stopped", func() bool {
		web, err := s.Service(ctx, "web")
		return err == nil && web.State == "stopped"
	})
}

// Today's daemon starts with the state folders of earlier ones, and has what they had.
func TestEarlierStates(t *testing.T) {
	states := filepath.Join("..", "..", "internal", "desk", "backup", "testdata", "states")
	for name, want := range map[string]struct {
		jobs    map[string]string
		drained bool
		tokens  int
	}{
		"entries-2-5d0e9f60":         {},
		"without-checksums-e6ccefbf": {nil, true, 1},
		"without-services-dc232d0b":  {map[string]string{"done": "done", "run": "lost", "wait": "waiting", "held": "held", "sweep": "held"}, true, 1},
		"0.1.0":                      {map[string]string{"done": "done", "run": "lost", "wait": "waiting", "held": "held", "sweep": "held"}, true, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if err := os.CopyFS(s.path("state"), os.DirFS(filepath.Join(states, name))); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(s.path("berth.yaml"), nil, 0o600); err != nil {
				t.Fatal(err)
			}
			if found := backup.Problems(backup.Check(s.path("state"))); len(found) > 0 {
				t.Errorf("%+v", found)
			}
			s.serve(s.path("state"))
			if got := s.holds(); !slices.Equal(got, []string{"fix"}) {
				t.Errorf("the leases are %v", got)
			}
			s.until("the jobs are as they were", func() bool {
				return maps.Equal(s.jobStates(), want.jobs) || want.jobs == nil && len(s.jobStates()) == 0
			})
			config, err := s.Config(t.Context())
			if err != nil || !strings.Contains(string(config), `"temp_optimal":61`) {
				t.Errorf("%s, %v", config, err)
			}
			devices, err := s.StatusAll(t.Context())
			if err != nil || (devices.GPUs[1].Drain != nil) != want.drained {
				t.Errorf("the second device is drained: %v, %v", !want.drained, err)
			}
			if list, err := s.Tokens(t.Context()); err != nil || len(list.Tokens) != want.tokens {
				t.Errorf("%+v, %v", list, err)
			}
			for _, f := range file.Asides(s.path("state")) {
				t.Errorf("%s was set aside", f)
			}
		})
	}
}
