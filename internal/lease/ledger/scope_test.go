package ledger

import (
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/kinship"
)

// childOf starts a process of a user, which lives until the test ends.
func childOf(t *testing.T, uid uint32) *exec.Cmd {
	t.Helper()
	cmd := exec.Command("sleep", "600")
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd
}

// The members of a lease are what its scope may reach at this moment: also for a
// scope of an older journal, and when other processes run in a unit than before.
func TestScopeReaches(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can start processes of other users")
	}
	const ada, bob = 65533, 65534
	for _, c := range []struct {
		name    string
		scope   string
		path    string
		users   []uint32
		members bool
		refused string // when it is set; empty: it is allowed
	}{
		{"a service of one user", "embed.service", "/system.slice/embed.service", []uint32{ada, ada}, true, ""},
		{"a service of two users", "embed.service", "/system.slice/embed.service", []uint32{ada, bob}, false, "of several users"},
		{"a service with a process of root", "embed.service", "/system.slice/embed.service", []uint32{ada, 0}, false, "processes of root"},
		{"a service of root", "cron.service", "/system.slice/cron.service", []uint32{0}, false, "processes of root"},
		{"a pod of many users", "pod0d9f7e4c-4f3e-4b0f-9d77-000000000012", "/kubepods/pod0d9f7e4c-4f3e-4b0f-9d77-000000000012/c", []uint32{ada, bob, 0}, true, ""},
		{"a slice", "system.slice", "/system.slice/cron.service", []uint32{ada}, false, "name a pod"},
		{"a twin of a slice", "system.scope", "/system.slice/cron.service", []uint32{ada}, false, ""},
		{"a login session", "session-3.scope", "/user.slice/session-3.scope", []uint32{ada}, false, "name a pod"},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newWorld()
			w.cast = cast{}
			for _, uid := range c.users {
				w.cast[childOf(t, uid).Process.Pid] = in(c.path, kinship.Facts{})
			}
			k := w.start(t)
			k.device(0, 100)
			if wrong := k.ScopeProblem([]string{c.scope}); (wrong == "") != (c.refused == "") || !strings.Contains(wrong, c.refused) {
				t.Errorf("setting it is refused with %q, want %q", wrong, c.refused)
			}
			granted := k.grant(want("a", 40, scope(c.scope))) // as a replayed journal does
			members, barred := k.Scoped(k.only("a"), granted.Fence)
			barred = slices.DeleteFunc(barred, func(id process.ID) bool { // the machine may have such a slice itself
				_, mine := w.cast[id.PID]
				return !mine
			})
			if c.members != (len(members) == len(c.users)) || len(members)+len(barred) != len(c.users) {
				t.Errorf("members are %v, barred are %v", members, barred)
			}
		})
	}
}

// What the daemon runs in is no scope.
func TestOwnScope(t *testing.T) {
	w := newWorld()
	w.cast = cast{os.Getpid(): in("/system.slice/berth.service/x", kinship.Facts{}), first: in("/system.slice/berth.service", runs(3, "x"))}
	k := w.start(t)
	k.device(0, 100)
	if wrong := k.ScopeProblem([]string{"berth.service"}); !strings.Contains(wrong, "the daemon itself runs in") {
		t.Errorf("setting it is refused with %q", wrong)
	}
	granted := k.grant(want("a", 40, scope("berth.service")))
	if members, _ := k.Scoped(k.only("a"), granted.Fence); len(members) > 0 {
		t.Errorf("berth would act on %v", members)
	}
}

// Whose time limit it is decides what it reaches, also after a restart.
func TestImposedTimeLimit(t *testing.T) {
	w := newWorld()
	k := w.start(t)
	k.device(0, 100)
	limited := func(r *lease.Request) { r.TimeLimit = lease.MaxTime }
	operator := func(r *lease.Request) {
		r.By = access.Actor{User: "ops", UID: access.NoUID, Token: "ops", Door: access.TCP, Role: access.Operator}
	}
	for _, c := range []struct {
		id   string
		how  []func(*lease.Request)
		want bool
	}{
		{"own", []func(*lease.Request){limited}, false},
		{"unlimited", nil, false},
		{"operators", []func(*lease.Request){limited, operator}, true},
		{"claimed", []func(*lease.Request){limited, func(r *lease.Request) { r.Imposed = true }}, false},
	} {
		k.grant(want(c.id, 10, c.how...))
		if held, found := k.Find(k.only(c.id)); !found || held.Imposed != c.want {
			t.Errorf("%s: imposed is %v", c.id, held.Imposed)
		}
	}
	k.stop()
	k = w.start(t)
	for id, want := range map[string]bool{"own": false, "operators": true} {
		if held, found := k.Find(k.only(id)); !found || held.Imposed != want {
			t.Errorf("%s after a restart: imposed is %v", id, held.Imposed)
		}
	}
}

// What berth parks by itself reaches every process only if the settings of the
// service say so; the word of the user reaches what is the user's.
func TestParkMandate(t *testing.T) {
	w := newWorld()
	w.settings.Services = map[string]quota.Served{"pool": {Service: quota.Service{Name: "pool", Parkable: gpu.Some(true)}}}
	k := w.start(t)
	k.device(0, 100)
	parkable := func(r *lease.Request) { r.Parkable = true }
	k.grant(want("own", 10, parkable))
	k.grant(want("pooled", 10, service("pool")))
	user := kinship.OfUser(by(1).UID)
	for _, c := range []struct {
		id   string
		by   access.Actor
		want kinship.Mandate
	}{
		{"own", by(1), user}, {"own", access.Daemon(), user}, {"own", admin(0), kinship.Authority()},
		{"pooled", by(1), user}, {"pooled", access.Daemon(), kinship.Authority()}, {"pooled", admin(0), kinship.Authority()},
		{"nobody's", admin(0), kinship.Mandate{}},
	} {
		if got := k.ParkMandate(k.only(c.id), c.by); got != c.want {
			t.Errorf("%s is parked by %s with %+v, want %+v", c.id, c.by.User, got, c.want)
		}
	}
}
