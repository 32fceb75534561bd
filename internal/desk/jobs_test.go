package desk

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/desk/tokens"
	"github.com/berth-gpu/berth/internal/file/journal"
	"github.com/berth-gpu/berth/internal/job/keeper"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/minder"
	"github.com/berth-gpu/berth/internal/process/runs"
)

// workshop is an office that runs jobs. Its minders never come, so that jobs that have
// their lease remain starting.
type workshop struct {
	*office
	runs *runRecords
}

// openWorkshop returns an office with two devices that runs jobs.
func openWorkshop(t *testing.T) *workshop {
	t.Helper()
	if me, err := process.Proc().Identify(os.Getpid()); err != nil || !process.Proc().SeesOurFiles(me) {
		t.Skip("the test is in a mount namespace of its own")
	}
	w := &workshop{office: open(t, "2xrtx-4060"), runs: &runRecords{records: map[string]runs.Record{}, started: make(chan string, 64)}}
	number := int64(0)
	k, err := keeper.Open(keeper.Options{
		Folder: filepath.Join(t.TempDir(), "environments"), Boot: "boot", Minders: w.runs,
		Numbers: func() (int64, error) { number++; return number, nil },
		Limits:  func(int, string) keeper.Limits { return keeper.Limits{} },
		Account: func(string, int) (api.MinderAccount, error) { return api.MinderAccount{}, nil },
		Publish: func(gpu.Event) {}, Log: slog.New(slog.DiscardHandler),
		Open: func(func(journal.Entry) error) (journal.Journal, error) { return journal.Forgetful(), nil },
	})
	if err != nil {
		t.Fatal(err)
	}
	w.parts.Jobs, w.parts.Logs = k, noLogs{}
	w.remake()
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	run := w.Jobs.Run
	go func() { defer close(done); _ = run(ctx) }()
	t.Cleanup(func() { stop(); w.stop(); <-done }) // a task leaves the queue when the ledger stops, so that the next daemon finds it there
	return w
}

// runRecords is what minders wrote, which is what a test says.
type runRecords struct {
	started chan string // names of the runs for which a minder was to be started

	mu      sync.Mutex // guards what follows
	records map[string]runs.Record
}

func (r *runRecords) Start(_ context.Context, run string, _ runs.Limits) (process.ID, error) {
	r.started <- run
	return process.ID{}, nil
}

func (r *runRecords) Read(run string) (runs.Record, bool, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	record, alive := r.records[run]
	return record, alive, nil
}

func (r *runRecords) Remove(string) error                      { return nil }
func (r *runRecords) Kill(process.ID) error                    { return nil }
func (r *runRecords) List() ([]string, error)                  { return nil, nil }
func (r *runRecords) Watch(process.ID, func()) (func(), error) { return func() {}, nil }
func (r *runRecords) lock(run string, record runs.Record) {
	r.mu.Lock()
	r.records[run] = record
	r.mu.Unlock()
}

// noLogs has no logs, and cannot limit runs.
type noLogs struct{}

func (noLogs) ReadLog(context.Context, minder.Reading, <-chan struct{}, func(int64), io.Writer) error {
	return errors.New("there is no log")
}
func (noLogs) CanLimit() error { return errors.New("there is no control group to limit it with") }

// local returns a user of this machine on the socket, who is this process.
func local(t *testing.T, uid int, name string, role access.Role) Caller {
	t.Helper()
	c := self(t)
	c.UID, c.User, c.Role, c.Certain = uid, name, role, true
	c.Holder.UID, c.Holder.User = uid, name
	return c
}

// held is a job that changes nothing but the list of jobs.
func held() api.JobRequest {
	return api.JobRequest{Command: []string{"true", "secret-word"}, Name: "train", Directory: "/home/ada/secret-folder", Environment: []string{"TOKEN=secret-variable"}, Hold: true}
}

func (w *workshop) submit(t *testing.T, by Caller, q api.JobRequest) api.Job {
	t.Helper()
	j, err := w.Jobs.Submit(t.Context(), by, q)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

// everything returns all jobs with their tasks, as an operator sees them.
func (w *workshop) everything() []api.Job {
	root := access.Actor{Role: access.Admin}
	found, _ := w.Jobs.List(root, keeper.Query{Most: 1000})
	all := slices.Collect(found)
	for i := range all {
		all[i].List = slices.Collect(w.Jobs.Tasks(root, all[i].ID))
	}
	return all
}

// refused asserts that an error refuses with a code, tells what to do, and that nothing
// has changed.
func (w *workshop) refused(t *testing.T, what string, before []api.Job, err error, code string) {
	t.Helper()
	r := (*Refusal)(nil)
	if !errors.As(err, &r) || r.Code != code {
		t.Errorf("%s: %v, want %s", what, err, code)
	}
	if now := w.everything(); !reflect.DeepEqual(now, before) {
		t.Errorf("%s has changed something:\n%+v\n%+v", what, before, now)
	}
}

// The users of this machine.
const adaUID, eveUID, olgaUID = 70001, 70002, 70003

// Whoever the kernel does not name, or sees other files, runs nothing.
func TestWhoMayRunPrograms(t *testing.T) {
	t.Parallel()
	sees := func(id process.ID) bool { return id == process.ID{PID: 7, Start: 70} }
	socket := func(uid, pid int, certain bool) *Caller {
		return &Caller{Actor: access.Actor{UID: uid, Door: access.Socket, Role: access.User}, Holder: lease.Holder{UID: uid, PID: pid, Start: 70}, Certain: certain}
	}
	session := &Caller{Actor: access.Actor{UID: adaUID, Door: access.TCP, Role: access.User}, Certain: true}
	bound := func(door access.Door) *Caller {
		return &Caller{Actor: access.Actor{UID: adaUID, Door: door, Role: access.User, Token: "ci"}, Holder: lease.Holder{UID: adaUID}, Certain: true}
	}
	for _, c := range []struct {
		what   string
		off    bool
		daemon int
		by     *Caller
		code   string // empty: it may
		says   string
	}{
		{"a user on the socket", false, 0, socket(adaUID, 7, true), "", ""},
		{"root on the socket", false, 0, socket(0, 7, true), "", ""},
		{"the session of a user", false, 0, session, "", ""},
		{"somebody who is not certain", false, 0, socket(adaUID, 7, false), "cannot_run", "Unix socket"},
		{"somebody without a uid", false, 0, socket(access.NoUID, 7, true), "cannot_run", "Unix socket"},
		{"another mount namespace", false, 0, socket(adaUID, 8, true), "cannot_run", "mount namespace"},
		{"a process that is not known", false, 0, socket(adaUID, 0, true), "cannot_run", "mount namespace"},
		{"jobs: off", true, 0, socket(adaUID, 7, true), "jobs_off", "berth exec"},
		{"jobs: off, and root", true, 0, socket(0, 7, true), "jobs_off", "berth exec"},
		{"a bound token over TCP", false, 0, bound(access.TCP), "", ""},
		{"a bound token from whatever namespace", false, 0, bound(access.Socket), "", ""},
		{"a bound token, and jobs: off", true, 0, bound(access.Socket), "jobs_off", "berth exec"},
		{"a daemon of ada, and a token of ada", false, adaUID, bound(access.TCP), "", ""},
		{"a daemon of eve, and a token of ada", false, eveUID, bound(access.TCP), "cannot_run", "daemon of your own"},
		{"a daemon of ada, and ada", false, adaUID, socket(adaUID, 7, true), "", ""},
		{"a daemon of ada, and eve", false, adaUID, socket(eveUID, 7, true), "cannot_run", "daemon of your own"},
		{"a daemon of ada, and root", false, adaUID, socket(0, 7, true), "cannot_run", "daemon of your own"},
	} {
		err := refuseRun(c.by, c.off, c.daemon, sees)
		r := (*Refusal)(nil)
		switch {
		case c.code == "" && err != nil:
			t.Errorf("%s: %v", c.what, err)
		case c.code != "" && (!errors.As(err, &r) || r.Code != c.code || !strings.Contains(r.Detail, c.says) || !strings.Contains(r.Detail, "Nothing was changed")):
			t.Errorf("%s: %v, want %s with %q", c.what, err, c.code, c.says)
		}
	}
}

// A job waits for the name of its user: by the number it would have other limits.
func TestAJobNeedsTheNameOfItsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a daemon of root runs programs of others")
	}
	w := openWorkshop(t)
	answers := make(chan error)
	w.parts.Users = users.New(func(int) (string, error) { return "ada", <-answers }, time.Millisecond)
	w.remake()
	before, number := w.everything(), strconv.Itoa(adaUID)
	_, err := w.Jobs.Submit(t.Context(), local(t, adaUID, number, access.User), held())
	w.refused(t, "without an answer of the user database", before, err, "no_answer")
	close(answers)
	for !w.parts.Users.Settled(adaUID) {
		w.parts.Users.Now(adaUID)
		runtime.Gosched()
	}
	if j := w.submit(t, local(t, adaUID, number, access.User), held()); j.User != "ada" {
		t.Errorf("the user of the job is %s", j.User)
	}
}

// What a caller who may run nothing asks for is refused at each door to a program.
func TestUncertainCallersRunNothing(t *testing.T) {
	w := openWorkshop(t)
	ada := local(t, os.Geteuid(), "ada", access.User)
	j := w.submit(t, ada, held())
	before := w.everything()
	token := Caller{Actor: access.Actor{UID: access.NoUID, User: "token:ci", Token: "ci", Door: access.Socket, Role: access.Admin}}
	ghost := ada
	ghost.Certain = false
	for who, by := range map[string]Caller{"a token": token, "somebody who is not certain": ghost} {
		_, err := w.Jobs.Submit(t.Context(), by, held())
		w.refused(t, who+" submits", before, err, "cannot_run")
		_, err = w.Jobs.Redo(t.Context(), by, j.ID, api.JobRedo{})
		w.refused(t, who+" redoes", before, err, "cannot_run")
		_, err = w.Jobs.Change(t.Context(), by, j.ID, UnholdJob, "")
		w.refused(t, who+" unholds", before, err, "cannot_run")
	}
	w.parts.Config = func() *config.Config { return &config.Config{Jobs: "off"} }
	w.remake()
	_, err := w.Jobs.Submit(t.Context(), ada, held())
	w.refused(t, "submit where jobs are off", before, err, "jobs_off")
	_, err = w.Jobs.Redo(t.Context(), ada, j.ID, api.JobRedo{})
	w.refused(t, "redo where jobs are off", before, err, "jobs_off")
	_, err = w.Jobs.Change(t.Context(), ada, j.ID, UnholdJob, "")
	w.refused(t, "unhold where jobs are off", before, err, "jobs_off")
	if cancelled, err := w.Jobs.Change(t.Context(), token, j.ID, CancelJob, ""); err != nil || cancelled.State != "cancelled" {
		t.Errorf("a token of an administrator cancels: %+v, %v", cancelled, err)
	}
}

// With a bound token, jobs are those of its user and of nobody else.
func TestABoundTokenRunsAsItsUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a daemon of root runs the jobs of several users")
	}
	w := openWorkshop(t)
	eves := w.submit(t, local(t, eveUID, "eve", access.User), held())
	adas := w.submit(t, local(t, adaUID, "ada", access.User), held())
	token := Caller{Actor: access.Actor{UID: adaUID, User: "ada", Token: "ci", Door: access.TCP, Role: access.User}, Holder: lease.Holder{UID: adaUID, User: "ada"}, Certain: true}
	before := w.everything()
	_, err := w.Jobs.Redo(t.Context(), token, eves.ID, api.JobRedo{})
	w.refused(t, "redo a job of eve", before, err, "not_yours")
	for what, act := range map[string]JobChange{"unhold": UnholdJob, "cancel": CancelJob} {
		_, err = w.Jobs.Change(t.Context(), token, eves.ID, act, "")
		w.refused(t, what+" a job of eve", before, err, "not_yours")
	}
	if seen, err := w.Jobs.Show(token.Actor, eves.ID); err != nil || strings.Contains(fmt.Sprint(seen), "secret") {
		t.Errorf("it sees of a job of eve: %+v, %v", seen, err)
	}
	j := w.submit(t, token, held())
	again, err := w.Jobs.Redo(t.Context(), token, adas.ID, api.JobRedo{})
	if err != nil {
		t.Fatal(err)
	}
	for _, id := range []string{j.ID, again.ID} {
		if _, s, err := w.parts.Jobs.Seek(id); err != nil || s.UID != adaUID || s.User != "ada" {
			t.Errorf("%s is %+v, %v", id, s, err)
		}
	}
	ada := local(t, adaUID, "ada", access.User)
	if _, err := w.Jobs.Change(t.Context(), ada, j.ID, CancelJob, ""); err != nil {
		t.Errorf("ada cancels what the token has submitted: %v", err)
	}
	if _, err := w.Jobs.Change(t.Context(), token, adas.ID, UnholdJob, ""); err != nil {
		t.Errorf("the token lets a job of ada go: %v", err)
	}
}

// Only an administrator whom the kernel names binds a token to a user, and never to root.
func TestWhoBindsTokens(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a daemon of root runs the jobs of several users")
	}
	nobody, err := user.Lookup("nobody")
	if err != nil {
		t.Skip(err)
	}
	w := openWorkshop(t)
	w.parts.Users, w.parts.Tokens = users.New(users.Lookup, time.Minute), tokens.New()
	w.remake()
	var recorded []api.AuditEntry
	w.parts.Record = func(e api.AuditEntry) error { recorded = append(recorded, e); return nil }
	w.remake()
	root := local(t, 0, "root", access.Admin)
	changed := func(change func(*Caller)) Caller { c := root; change(&c); return c }
	request := api.TokenRequest{Name: "ci", Role: "user", As: "nobody"}
	for what, by := range map[string]Caller{
		"a token":                     changed(func(c *Caller) { c.UID, c.User, c.Token, c.Certain = access.NoUID, "token:boss", "boss", false }),
		"a bound token":               changed(func(c *Caller) { c.UID, c.User, c.Token = adaUID, "ada", "boss" }),
		"the session of root":         changed(func(c *Caller) { c.Door, c.Certain = access.TCP, false }),
		"a certificate":               changed(func(c *Caller) { c.Door, c.UID, c.User, c.Certain = access.TCP, access.NoUID, "cert:boss", false }),
		"another mount namespace":     changed(func(c *Caller) { c.Holder.PID = 0 }),
		"somebody who is not certain": changed(func(c *Caller) { c.Certain = false }),
	} {
		refusal := (*Refusal)(nil)
		if _, err := w.People.CreateToken(by, request); !errors.As(err, &refusal) || refusal.Code != "cannot_bind" {
			t.Errorf("%s binds a token: %v", what, err)
		}
	}
	for _, role := range []access.Role{access.User, access.Operator} {
		if _, err := w.People.CreateToken(local(t, adaUID, "ada", role), request); err == nil {
			t.Errorf("a %v binds a token", role)
		}
	}
	for what, c := range map[string]struct {
		request api.TokenRequest
		says    string
	}{
		"root":             {api.TokenRequest{Role: "user", As: "root"}, "root"},
		"nobody there":     {api.TokenRequest{Role: "user", As: "no-such-user"}, "no user of that name"},
		"a number":         {api.TokenRequest{Role: "user", As: nobody.Uid}, "no user of that name"},
		"a NUL":            {api.TokenRequest{Role: "user", As: "nobody\x00x"}, "is"},
		"a viewer":         {api.TokenRequest{Role: "viewer", As: "nobody"}, "lower roles run nothing"},
		"a scraper":        {api.TokenRequest{Role: "scraper", As: "nobody"}, "lower roles run nothing"},
		"beside a service": {api.TokenRequest{Role: "user", As: "nobody", Service: "s"}, "any service"},
	} {
		c.request.Name = "ci"
		refusal := (*Refusal)(nil)
		if _, err := w.People.CreateToken(root, c.request); !errors.As(err, &refusal) || len(refusal.Fields) != 1 || refusal.Fields[0].Field != "as" || !strings.Contains(refusal.Fields[0].Detail, c.says) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if all := w.People.ListTokens(); len(all.Tokens) != 0 {
		t.Fatalf("there are %+v", all)
	}
	recorded = nil
	made, err := w.People.CreateToken(root, request)
	if err != nil || made.As != "nobody" || made.Role != "user" {
		t.Fatalf("made %+v, %v", made, err)
	}
	if len(recorded) != 1 || recorded[0].Who.User != "root" || recorded[0].Object.ID != "ci" || recorded[0].After["as"] != "nobody" || recorded[0].After["uid"] != nobody.Uid {
		t.Errorf("recorded %+v", recorded)
	}
}

// Others see who has what, and nothing of what the owner wrote.
func TestWhoSeesAJob(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a daemon of root runs the jobs of several users")
	}
	w := openWorkshop(t)
	q := held()
	q.Params, q.Lease.Comment = []api.JobParam{{Name: "lr", Values: []string{"secret-1", "secret-2"}}}, "secret comment"
	j := w.submit(t, local(t, adaUID, "ada", access.User), q)
	actor := func(uid int, name string, role access.Role) access.Actor {
		return access.Actor{UID: uid, User: name, Door: access.Socket, Role: role}
	}
	for _, c := range []struct {
		who  access.Actor
		all  bool
		user string
	}{
		{actor(adaUID, "ada", access.User), true, "ada"},
		{actor(adaUID, "ada", access.Viewer), true, "ada"},
		{actor(olgaUID, "olga", access.Operator), true, "ada"},
		{actor(eveUID, "eve", access.User), false, "ada"},
		{actor(eveUID, "ada", access.User), false, "ada"}, // a uid is who somebody is
		{actor(access.NoUID, "ada", access.User), false, "ada"},
		{actor(eveUID, "eve", access.Viewer), false, "another user"},
		{actor(access.NoUID, "unknown", access.Viewer), false, "another user"},
	} {
		shown, err := w.Jobs.Show(c.who, j.ID)
		if err != nil {
			t.Fatal(err)
		}
		listed, _ := w.Jobs.List(c.who, keeper.Query{Most: 10})
		for _, each := range slices.Concat([]api.Job{shown}, slices.Collect(listed), slices.Collect(w.Jobs.Tasks(c.who, j.ID))) {
			if each.User != c.user || each.State != "held" || each.GPUs != 1 {
				t.Errorf("%+v sees %+v", c.who, each)
			}
			if all := len(each.Command) > 0 && each.Directory != "" && each.Comment != ""; all != c.all {
				t.Errorf("%+v sees %+v", c.who, each)
			}
			if text := jsonOf(t, each); !c.all && strings.Contains(text, "secret") || strings.Contains(text, "secret-variable") {
				t.Errorf("%+v sees %s", c.who, text)
			}
		}
		err = w.Jobs.Log(t.Context(), Caller{Actor: c.who}, j.ID+".1", LogQuery{}, func(int64) {}, io.Discard)
		r := (*Refusal)(nil)
		if want := map[bool]string{true: "no_log", false: "not_yours"}[c.all]; !errors.As(err, &r) || r.Code != want || c.user == "another user" && strings.Contains(r.Detail, "ada") {
			t.Errorf("%+v asks for the log: %v, want %s", c.who, err, want)
		}
		found, _ := w.Jobs.List(c.who, keeper.Query{Users: []string{"eve", "ada"}, Most: 10})
		if hidden := c.user == "another user"; len(slices.Collect(found)) == 0 != hidden {
			t.Errorf("%+v asks for the jobs of ada, and gets them: %v", c.who, !hidden)
		}
	}
}

// A long list has every job once, the newest first, however long its pages are.
func TestALongListOfJobs(t *testing.T) {
	w := openWorkshop(t)
	const at, sum = 64, 2*64 + 10
	var want []string
	me := local(t, os.Getuid(), "me", access.Admin)
	for range sum {
		want = append(want, w.submit(t, me, held()).ID)
	}
	slices.Reverse(want)
	for _, most := range []int{1, at - 1, at, at + 1, 2 * at, sum, sum + 1} {
		var got []string
		for q := (keeper.Query{Most: most}); ; {
			found, next := w.Jobs.List(me.Actor, q)
			page := slices.Collect(found)
			for _, j := range page {
				got = append(got, j.ID)
			}
			if q.Before = next; len(page) != most && next != 0 {
				t.Fatalf("%d of %d, and more", len(page), most)
			}
			if next == 0 {
				break
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("by %d: %v", most, got)
		}
	}
}

// swells gives a job a command of 80 MB.
func swells(q *api.JobRequest) {
	q.Command = []string{"echo", strings.Repeat("{a}", 20_000)}
	q.Params = []api.JobParam{{Name: "a", Values: []string{strings.Repeat("x", 4096)}}}
}

// Owners do what they like to their jobs but go before others; operators do everything
// but run them again as themselves.
func TestWhoChangesAJob(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only a daemon of root runs the jobs of several users")
	}
	w := openWorkshop(t)
	ada, eve, olga := local(t, adaUID, "ada", access.User), local(t, eveUID, "eve", access.User), local(t, olgaUID, "olga", access.Operator)
	j := w.submit(t, ada, held())
	before := w.everything()
	for _, what := range []JobChange{CancelJob, HoldJob, UnholdJob} {
		_, err := w.Jobs.Change(t.Context(), eve, j.ID, what, "")
		w.refused(t, "eve: "+string(what), before, err, "not_yours")
		_, err = w.Jobs.Change(t.Context(), eve, "train-99", what, "")
		w.refused(t, "an unknown job: "+string(what), before, err, "unknown_job")
		_, err = w.Jobs.Change(t.Context(), ada, "other-1", what, "")
		w.refused(t, "the right number with another name: "+string(what), before, err, "unknown_job")
		_, err = w.Jobs.Change(t.Context(), ada, j.ID+".0", what, "")
		w.refused(t, "the task of a job without tasks: "+string(what), before, err, "unknown_job")
	}
	set := func(n int) api.JobChange { return api.JobChange{Priority: gpu.Some(n)} }
	_, err := w.Jobs.Prioritize(t.Context(), eve, j.ID, set(-1))
	w.refused(t, "eve: priority", before, err, "not_yours")
	_, err = w.Jobs.Prioritize(t.Context(), ada, j.ID, set(1))
	w.refused(t, "ada raises her job", before, err, "not_allowed")
	_, err = w.Jobs.Prioritize(t.Context(), ada, j.ID, api.JobChange{})
	w.refused(t, "no priority", before, err, "invalid_request")
	_, err = w.Jobs.Prioritize(t.Context(), olga, j.ID, set(lease.MaxPriority+1))
	w.refused(t, "too high a priority", before, err, "invalid_request")
	for _, by := range []Caller{eve, olga} {
		_, err = w.Jobs.Redo(t.Context(), by, j.ID, api.JobRedo{})
		w.refused(t, by.User+": redo", before, err, "not_yours")
	}
	priority := func(by Caller, to int) {
		t.Helper()
		if got, err := w.Jobs.Prioritize(t.Context(), by, j.ID, set(to)); err != nil || got.Priority != to {
			t.Errorf("%s: %+v, %v", by.User, got, err)
		}
	}
	priority(ada, -5)
	before = w.everything()
	_, err = w.Jobs.Prioritize(t.Context(), ada, j.ID, set(-4))
	w.refused(t, "ada raises what she has lowered", before, err, "not_allowed")
	priority(olga, 5)
	priority(ada, 2)
	urgent := held()
	urgent.Lease.Priority = gpu.Some(1)
	before = w.everything()
	_, err = w.Jobs.Submit(t.Context(), ada, urgent)
	w.refused(t, "ada submits before others", before, err, "invalid_request")
	mine := w.submit(t, olga, urgent)
	if mine.Priority != 1 {
		t.Errorf("an operator submits before others: %+v", mine)
	}
	if got, err := w.Jobs.Change(t.Context(), ada, j.ID, CancelJob, "a\x1b[31m reason"); err != nil || got.State != "cancelled" || strings.Contains(got.Cause, "\x1b") {
		t.Errorf("ada: %+v, %v", got, err)
	}
	before = w.everything()
	_, err = w.Jobs.Change(t.Context(), ada, j.ID, CancelJob, "")
	w.refused(t, "cancel what has ended", before, err, "wrong_state")
	_, err = w.Jobs.Change(t.Context(), ada, j.ID, HoldJob, "")
	w.refused(t, "hold what has ended", before, err, "wrong_state")
	olga.Role = access.User
	if again, err := w.Jobs.Redo(t.Context(), olga, mine.ID, api.JobRedo{}); err != nil || again.Priority != 0 {
		t.Errorf("olga, no longer an operator, redoes it: %+v, %v", again, err)
	}
}

// Bad requests are refused with the field that is wrong, and leave nothing behind.
func TestJobInput(t *testing.T) {
	w := openWorkshop(t)
	ada := local(t, os.Geteuid(), "ada", access.User)
	w.submit(t, ada, held())
	many := make([]string, 400)
	for i := range many {
		many[i] = strings.Repeat("x", 3)
	}
	long := time.Now().Add(400 * 24 * time.Hour)
	before := w.everything()
	for _, c := range []struct {
		field  string
		change func(*api.JobRequest)
	}{
		{"command", func(q *api.JobRequest) { q.Command = nil }},
		{"command", func(q *api.JobRequest) { q.Command = []string{""} }},
		{"command", func(q *api.JobRequest) { q.Command = []string{"true", "a\x00b"} }},
		{"name", func(q *api.JobRequest) { q.Name = "../x" }},
		{"name", func(q *api.JobRequest) { q.Name = "-x" }},
		{"name", func(q *api.JobRequest) { q.Name = strings.Repeat("x", 65) }},
		{"name", func(q *api.JobRequest) { q.Name = "a b" }},
		{"directory", func(q *api.JobRequest) { q.Directory = "data" }},
		{"directory", func(q *api.JobRequest) { q.Directory = "/data/../etc" }},
		{"directory", func(q *api.JobRequest) { q.Directory = "/data\x00" }},
		{"environment", func(q *api.JobRequest) { q.Environment = []string{"NAME"} }},
		{"environment", func(q *api.JobRequest) { q.Environment = []string{"=x"} }},
		{"environment", func(q *api.JobRequest) { q.Environment = []string{"A=a\x00b"} }},
		{"environment", func(q *api.JobRequest) { q.Environment = []string{"A=" + strings.Repeat("x", keeper.MostEnvironment)} }},
		{"output", func(q *api.JobRequest) { q.Output = "log\x00" }},
		{"error", func(q *api.JobRequest) { q.Error = "log\x00" }},
		{"umask", func(q *api.JobRequest) { q.Umask = gpu.Some(0o1000) }},
		{"umask", func(q *api.JobRequest) { q.Umask = gpu.Some(-1) }},
		{"array", func(q *api.JobRequest) { q.Array = "1-100000000" }},
		{"array", func(q *api.JobRequest) { q.Array = "0-1000000000:1" }},
		{"array", func(q *api.JobRequest) { q.Array = "1-20%0" }},
		{"array", func(q *api.JobRequest) { q.Array = "1-20%" }},
		{"array", func(q *api.JobRequest) { q.Array = "%4" }},
		{"array", func(q *api.JobRequest) { q.Array = "5-1" }},
		{"array", func(q *api.JobRequest) { q.Array = "1-9:0" }},
		{"array", func(q *api.JobRequest) { q.Array = "-1" }},
		{"array", func(q *api.JobRequest) { q.Array = "1,1" }},
		{"array", func(q *api.JobRequest) { q.Array = "99999999999999999999" }},
		{"array", func(q *api.JobRequest) {
			q.Array, q.Params = "1-4", []api.JobParam{{Name: "a", Values: []string{"1"}}}
		}},
		{"array", func(q *api.JobRequest) {
			q.Array, q.Params = "%0", []api.JobParam{{Name: "a", Values: []string{"1"}}}
		}},
		{"params", func(q *api.JobRequest) {
			for _, name := range strings.Split("abcdefghijklmnopqrstuvwxyz", "") {
				q.Params = append(q.Params, api.JobParam{Name: name, Values: many})
			}
		}},
		{"params", func(q *api.JobRequest) { q.Params = []api.JobParam{{Name: "a"}} }},
		{"params", func(q *api.JobRequest) {
			q.Params = []api.JobParam{{Name: "a", Values: many[:1]}, {Name: "a", Values: many[:1]}}
		}},
		{"params", func(q *api.JobRequest) { q.Params = []api.JobParam{{Name: "a", Values: []string{"\x00"}}} }},
		{"after", func(q *api.JobRequest) { q.After = []string{"train-2"} }}, // its own id, if it could have it
		{"after_any", func(q *api.JobRequest) { q.AfterAny = []string{"nonsense"} }},
		{"after_failed", func(q *api.JobRequest) { q.AfterFailed = []string{"train-1.1"} }},
		{"begin", func(q *api.JobRequest) { q.Begin = &long }},
		{"retry", func(q *api.JobRequest) { q.Retry = -1 }},
		{"retry", func(q *api.JobRequest) { q.Retry = 1001 }},
		{"requeue", func(q *api.JobRequest) { q.Requeue = "time" }},
		{"signal", func(q *api.JobRequest) { q.Signal = "USR1" }},
		{"signal", func(q *api.JobRequest) { q.Signal, q.Lease.TimeLimit = "NONE", gpu.Some(60.0) }},
		{"signal_seconds", func(q *api.JobRequest) { q.Warning = gpu.Some(1.0) }},
		{"signal_seconds", func(q *api.JobRequest) {
			q.Signal, q.Warning, q.Lease.TimeLimit = "USR1", gpu.Some(-1.0), gpu.Some(60.0)
		}},
		{"lease.id", func(q *api.JobRequest) { q.Lease.ID = "mine" }},
		{"lease.parent", func(q *api.JobRequest) { q.Lease.Parent = "mine" }},
		{"lease.binding", func(q *api.JobRequest) { q.Lease.Binding = "named" }},
		{"lease.pid", func(q *api.JobRequest) { q.Lease.PID = 1 }},
		{"lease.ttl_seconds", func(q *api.JobRequest) { q.Lease.TTL = gpu.Some(5.0) }},
		{"lease.unit", func(q *api.JobRequest) { q.Lease.Unit = "ssh.service" }},
		{"lease.scope", func(q *api.JobRequest) { q.Lease.Scope = []string{"ssh.service"} }},
		{"lease.admitted", func(q *api.JobRequest) { q.Lease.Admitted = true }},
		{"lease.timeout_seconds", func(q *api.JobRequest) { q.Lease.Timeout = gpu.Some(-1.0) }},
		{"lease.priority", func(q *api.JobRequest) { q.Lease.Priority = gpu.Some(1) }},
		{"priority", func(q *api.JobRequest) { q.Lease.Priority = gpu.Some(-lease.MaxPriority - 1) }},
		{"time_limit_seconds", func(q *api.JobRequest) { q.Lease.TimeLimit = gpu.Some(-1.0) }},
		{"memory_mb", func(q *api.JobRequest) { q.Lease.Memory = -1 }},
		{"comment", func(q *api.JobRequest) { q.Lease.Comment = "two\nlines" }},
	} {
		q := held()
		c.change(&q)
		_, err := w.Jobs.Submit(t.Context(), ada, q)
		w.refused(t, c.field, before, err, "invalid_request")
		r := (*Refusal)(nil)
		if errors.As(err, &r) && !slices.ContainsFunc(r.Fields, func(f api.FieldProblem) bool { return f.Field == c.field && !strings.Contains(f.Detail, "\x00") }) {
			t.Errorf("%s: %+v", c.field, r.Fields)
		}
	}
	for code, change := range map[string]func(*api.JobRequest){
		"cannot_limit":        func(q *api.JobRequest) { q.CPUs = 2 },
		"unknown_device":      func(q *api.JobRequest) { q.Lease.GPU = "17" },
		"insufficient_memory": func(q *api.JobRequest) { q.Lease.Memory = 1 << 30 },
		"too_many_jobs":       func(q *api.JobRequest) { q.Command = []string{strings.Repeat("x", keeper.MostSpec)} },
		"too_many_jobs ":      swells, // a short request whose tasks have long commands
		"too_many_jobs  ":     func(q *api.JobRequest) { swells(q); q.DryRun = true },
	} {
		code = strings.TrimSpace(code)
		q := held()
		change(&q)
		_, err := w.Jobs.Submit(t.Context(), ada, q)
		w.refused(t, code, before, err, code)
	}
	past := time.Now().Add(-time.Hour)
	q := held()
	q.Begin, q.Output = &past, "../logs/%j"
	j := w.submit(t, ada, q)
	if _, err := w.Jobs.Change(t.Context(), ada, j.ID, CancelJob, ""); err != nil {
		t.Fatal(err)
	}
	q.Hold, q.After = false, []string{j.ID, j.ID}
	if behind := w.submit(t, ada, q); behind.State != "cancelled" || behind.Code != "dependency_failed" || len(behind.After) != 1 {
		t.Errorf("a job behind one that was cancelled: %+v", behind)
	}
}

// Only the process that has locked the record of a run gets its order.
func TestWhoGetsAnOrder(t *testing.T) {
	w := openWorkshop(t)
	ada := local(t, os.Geteuid(), "ada", access.User)
	q := held()
	q.Hold = false
	w.submit(t, ada, q)
	run := <-w.runs.started
	me := local(t, os.Geteuid(), "root", access.Admin)
	record := runs.Record{PID: me.Holder.PID, Start: me.Holder.Start, Boot: "boot"}
	no := func(what string, by Caller, code string) {
		t.Helper()
		order, err := w.Order(by, api.MinderRequest{Run: run})
		r := (*Refusal)(nil)
		if !errors.As(err, &r) || r.Code != code || len(order.Command) > 0 || len(order.Environment) > 0 {
			t.Errorf("%s: %+v, %v, want %s", what, order, err, code)
		}
	}
	no("nobody has locked it", me, "no_order")
	other := record
	other.Start++
	w.runs.lock(run, other)
	no("another process with this pid has", me, "no_order")
	other = record
	other.Boot = "before"
	w.runs.lock(run, other)
	no("a process before the reboot has", me, "no_order")
	other = record
	other.Started = time.Now()
	w.runs.lock(run, other)
	no("its command was started", me, "no_order")
	w.runs.lock(run, record)
	for what, change := range map[string]func(*Caller){
		"another user": func(c *Caller) { c.UID = eveUID },
		"over TCP":     func(c *Caller) { c.Door = access.TCP },
		"with a token": func(c *Caller) { c.Token = "ci" },
	} {
		by := me
		change(&by)
		no(what, by, "no_minder")
	}
	unread := me
	unread.Holder.PID = 0
	no("a process that cannot be read now", unread, "no_process")
	order, err := w.Order(me, api.MinderRequest{Run: run})
	if err != nil || !slices.Equal(order.Command, q.Command) || !slices.Equal(order.Environment, q.Environment) || order.UID != ada.UID {
		t.Errorf("the minder: %+v, %v", order, err)
	}
}

func jsonOf(t *testing.T, v any) string {
	t.Helper()
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// A job that waits in the queue says when it begins, an array when its first task does,
// one that waits for something else why that is not known; and so does one that is only
// asked about, which leaves nothing behind.
func TestWhenAJobBegins(t *testing.T) {
	w := openWorkshop(t)
	ada := local(t, os.Geteuid(), "ada", access.User)
	waits := make(chan string, 64)
	w.listen(func(e gpu.Event) {
		if e.Code == gpu.EventWaiting {
			waits <- e.Lease
		}
	})
	defer w.listen(nil)
	begun := time.Now()
	q := api.JobRequest{Command: []string{"true"}, Name: "train", Lease: api.LeaseRequest{GPUs: 2, Memory: 6000, TimeLimit: gpu.Some(3600.0)}}
	w.submit(t, ada, q)
	<-w.runs.started // it has its lease, and keeps it: no minder comes
	second := w.submit(t, ada, q)
	if id := <-waits; id != second.ID {
		t.Fatalf("%s waits, want %s", id, second.ID)
	}
	array := q
	array.Array = "1-3"
	third := w.submit(t, ada, array)
	for range 3 {
		<-waits
	}
	fourth := q
	fourth.After = []string{third.ID}
	last := w.submit(t, ada, fourth)
	hours := func(n int) time.Time { return begun.Add(time.Duration(n) * time.Hour) }
	for what, c := range map[string]struct {
		id      string
		least   time.Time
		unknown string
	}{
		"in the queue":    {second.ID, hours(1), ""},
		"an array":        {third.ID, hours(2), ""},
		"its second task": {third.ID + ".2", hours(3), ""},
		"after the array": {last.ID, time.Time{}, "waits for " + third.ID},
	} {
		shown, err := w.Jobs.Show(ada.Actor, c.id)
		if err != nil {
			t.Fatal(err)
		}
		checkEstimate(t, what, shown.Estimate, c.least, c.unknown)
	}
	for _, j := range w.everything() {
		if j.State == "waiting" && j.Estimate == nil {
			t.Errorf("the list says nothing about %s", j.ID)
		}
	}

	before := len(w.everything())
	q.DryRun = true
	night := time.Now().Add(48 * time.Hour)
	for what, c := range map[string]struct {
		change  func(*api.JobRequest)
		least   time.Time
		unknown string
	}{
		"behind them": {func(*api.JobRequest) {}, hours(5), ""},
		"many":        {func(q *api.JobRequest) { q.Array = "1-1000" }, hours(5), ""},
		"at night":    {func(q *api.JobRequest) { q.Begin = &night }, night, ""},
		"held":        {func(q *api.JobRequest) { q.Hold = true }, time.Time{}, "held"},
		"after it":    {func(q *api.JobRequest) { q.After = []string{second.ID} }, time.Time{}, "other jobs"},
	} {
		asked := q
		c.change(&asked)
		checkEstimate(t, "would, "+what, w.submit(t, ada, asked).Estimate, c.least, c.unknown)
		if now := len(w.everything()); now != before {
			t.Errorf("%s was submitted", what)
		}
	}
	e, err := w.Leases.Explain(ada, q.Lease)
	if err != nil {
		t.Fatal(err)
	}
	checkEstimate(t, "explained", e.Estimate, hours(5), "")
}

// checkEstimate asserts that an estimate is not before a time, or says why it is not known.
func checkEstimate(t *testing.T, what string, e *api.Estimate, least time.Time, unknown string) {
	t.Helper()
	switch {
	case e == nil:
		t.Errorf("%s: nothing is said", what)
	case unknown != "":
		if !strings.Contains(e.Unknown, unknown) || e.Likely != nil {
			t.Errorf("%s: %+v, want %q", what, e, unknown)
		}
	case e.Likely == nil || e.Likely.Before(least) || e.Late == nil || e.Late.Before(*e.Likely):
		t.Errorf("%s: %+v, want %v or later", what, e, least)
	}
}

// Whether it is known when a job starts says what stood before it, and not its own lease.
func TestAJobIsNotWarnedOfItself(t *testing.T) {
	w := openWorkshop(t)
	ada := local(t, os.Geteuid(), "ada", access.User)
	q := api.JobRequest{Command: []string{"true"}, Name: "train", Lease: api.LeaseRequest{GPUs: 2, Memory: 6000}}
	first := w.submit(t, ada, q)
	<-w.runs.started // it has its lease
	if second := w.submit(t, ada, q); first.Warning != "" || !strings.Contains(second.Warning, first.ID+" has no time limit") {
		t.Errorf("the first is told %q, and the second %q", first.Warning, second.Warning)
	}
}
