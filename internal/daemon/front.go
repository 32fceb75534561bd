package daemon

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/process/units"
	"github.com/berth-gpu/berth/internal/process/ward"
)

const (
	// frontUser is the user that the front of a daemon of root runs as, unless front.user
	// names another one.
	frontUser = "berth-front"
	// frontUnit is the unit of systemd that runs the front, where it is installed.
	frontUnit = "berth-front.service"
	// frontPatience is how long the daemon waits for the front before it says that it is
	// up.
	frontPatience = 10 * time.Second
	// frontTrouble is how often the front must end soon after its start until somebody has
	// to look at it.
	frontTrouble = 3
	// frontAgain is how long after a failure the front is tried again.
	frontAgain = time.Minute
)

// wantsFront reports whether a front has to run: it takes requests, and it asks the
// servers of services whether they are ready.
func wantsFront(c config.Config) bool {
	if c.Front.Listen != "" {
		return true
	}
	for _, s := range c.Services {
		if s.Runs() {
			return true
		}
	}
	return false
}

// unitManager tells systemd about units, see units.Manager.
type unitManager interface {
	Do(ctx context.Context, act units.Act, unit string) error
}

// frontDoor keeps the front of the daemon running: as a child, or by the unit of systemd
// that is there for it.
type frontDoor struct {
	daemon  *Daemon
	socket  string // of the daemon
	program string // that becomes the front
	version string
	ward    *ward.Ward
	systemd unitManager // nil: no unit runs the front
	noted   string      // file with the version and the settings that the unit was last told to run with

	changed chan struct{} // has room for one; the settings have changed

	connected func(name string) bool // whether a front gets orders

	mu      sync.Mutex // guards what follows
	config  config.Config
	uid     int               // that the front runs as
	runs    bool              // a front may run
	listens map[string]string // where each front takes requests, by the name that it has made up; some may be gone
	heard   chan struct{}     // closed when one takes requests, or none will
	why     string            // why none runs
	told    string            // the trouble that was told
}

func newFrontDoor(d *Daemon, folder, socket, program, version string) *frontDoor {
	f := &frontDoor{daemon: d, socket: socket, program: program, version: version, changed: make(chan struct{}, 1), listens: map[string]string{}, heard: make(chan struct{})}
	f.connected = func(name string) bool { return d.services.Connected(name) }
	f.ward = ward.New(ward.Options{Folder: folder, Name: "front", Changed: f.wardChanged})
	if found := units.Find(); os.Geteuid() == 0 && process.HasUnitFile(frontUnit) && found != nil {
		f.systemd, f.noted = found, filepath.Join(folder, "front.unit")
	}
	return f
}

// configure takes over the settings.
func (f *frontDoor) configure(c config.Config) {
	f.mu.Lock()
	defer f.mu.Unlock()
	uid, why, runs := f.find(&c)
	if !f.runs || !runs || c.Front.Listen == "" { // else whatever the trouble is, it lasts until a front takes requests
		f.why = why
	}
	f.config, f.uid, f.runs = c, uid, runs
	select {
	case f.changed <- struct{}{}:
	default:
	}
}

// find returns the user that the front runs as, or why none may run.
func (f *frontDoor) find(c *config.Config) (uid int, why string, runs bool) {
	if !wantsFront(*c) {
		return 0, "", false
	}
	if own := os.Geteuid(); own != 0 {
		return own, "", true
	}
	name := cmp.Or(c.Front.User, frontUser)
	uid, known := f.daemon.numbers.User(name)
	switch {
	case !known && c.Front.User == "":
		return 0, fmt.Sprintf("there is no user %s, and the front never runs as root. Make one with: useradd --system --user-group --no-create-home --shell /usr/sbin/nologin %s, and reload the configuration; or set front.user", name, name), false
	case !known:
		return 0, fmt.Sprintf("there is no user %s (front.user), or the user database does not answer", name), false
	case uid == 0:
		return 0, fmt.Sprintf("the user %s is root, and the front never runs as root. Set front.user to another one", name), false
	}
	return uid, "", true
}

// byUnit reports whether the unit of systemd runs the front.
func (f *frontDoor) byUnit(c *config.Config) bool {
	return f.systemd != nil && (c.Front.User == "" || c.Front.User == frontUser)
}

// run keeps the front running until ctx ends. It leaves the front alone then: it serves
// those who are there, and the next daemon finds it.
func (f *frontDoor) run(ctx context.Context) {
	var done sync.WaitGroup
	defer done.Wait()
	done.Go(func() { f.ward.Run(ctx) })
	told := "" // what the unit was told last, perhaps by an earlier daemon
	if f.systemd != nil {
		text, _ := os.ReadFile(f.noted) // without it, the unit keeps what it has
		told = string(text)
	}
	for begins, retries := true, false; ; {
		f.mu.Lock()
		c, uid, why, runs := f.config, f.uid, f.why, f.runs
		f.mu.Unlock()
		if (why != "" || !retries) && (!runs || c.Front.Listen == "") { // else the trouble that was told lasts until a front comes
			f.tell(why)
		}
		unit := runs && f.byUnit(&c)
		var again <-chan time.Time
		switch {
		case runs && !unit:
			child, err := f.child(&c, uid)
			if err != nil { // the one that runs is left alone
				f.tell(err.Error())
				again = time.After(frontAgain)
			} else {
				f.ward.Want(child)
			}
		case unit || !wantsFront(c): // else its user is not known at present, and the one that runs is left alone
			f.ward.Want(nil)
		}
		if unit || told != "" && (runs || !wantsFront(c)) {
			var err error
			if told, err = f.order(ctx, &c, unit, told, begins); err != nil {
				f.tell(err.Error())
				again = time.After(frontAgain)
			}
		}
		if !runs || c.Front.Listen == "" {
			f.hear()
		}
		select {
		case <-ctx.Done():
			return
		case <-f.changed:
			begins, retries = again != nil, false
		case <-again:
			begins, retries = true, true
		}
	}
}

// child returns the front as a child of the daemon. It fails if the user database does not
// say which group it has.
func (f *frontDoor) child(c *config.Config, uid int) (*ward.Program, error) {
	p := &ward.Program{
		Command: []string{f.program, "front", "--socket", f.socket, "--daemon-uid", strconv.Itoa(os.Geteuid()), "--log-level", c.Daemon.LogLevel},
		Digest:  fmt.Sprintf("%s %+v", f.version, c.Front),
	}
	if os.Geteuid() != 0 {
		return p, nil
	}
	if socketMode(c.Daemon)&0o006 != 0o006 && c.Daemon.SocketGroup != "" { // only its members may connect
		group, known := f.daemon.socketGroup(c.Daemon)
		if !known {
			return nil, fmt.Errorf("there is no group %s (daemon.socket_group), or the user database does not answer", c.Daemon.SocketGroup)
		}
		p.User = &ward.User{UID: uid, GID: group}
		return p, nil
	}
	type found struct {
		user *user.User
		err  error
	}
	own, answered := users.Ask(f.daemon.users, accountsLimit, func() (f found) {
		f.user, f.err = user.LookupId(strconv.Itoa(uid))
		return f
	})
	if !answered {
		return nil, fmt.Errorf("the user database does not say which group user %d has", uid)
	}
	if own.err != nil {
		return nil, fmt.Errorf("find the group of user %d: %w", uid, own.err)
	}
	gid, err := strconv.Atoi(own.user.Gid)
	p.User = &ward.User{UID: uid, GID: gid}
	return p, err
}

// order tells systemd about the unit of the front, and returns what it was told. The unit
// is restarted if it runs with other settings or is of another version, and started if the
// daemon begins.
func (f *frontDoor) order(ctx context.Context, c *config.Config, wanted bool, told string, begins bool) (string, error) {
	now, act := "", units.Stop
	if wanted {
		if now, act = fmt.Sprintf("%s %+v", f.version, c.Front), units.Start; told == now && !begins {
			return told, nil
		}
		if told != "" && told != now {
			act = units.Restart
		}
	}
	if err := f.systemd.Do(ctx, act, frontUnit); err != nil {
		return told, err
	}
	if now != told {
		if err := file.ReplacePlain(f.noted, []byte(now)); err != nil {
			f.daemon.log.Warn("how the front runs could not be written down, so the next daemon tells its unit again", "error", err)
		}
	}
	return now, nil
}

// wardChanged takes notice of how the child is.
func (f *frontDoor) wardChanged(s ward.State) {
	switch {
	case s.Running:
		return // it tells when it takes requests
	case s.Failed >= frontTrouble:
		f.tell("it does not keep running: " + s.Why)
	case s.Why != "":
		f.daemon.log.Warn("the front has ended, and is started again", "reason", s.Why)
	}
	f.mu.Lock()
	f.why = s.Why
	f.mu.Unlock()
}

// tell publishes why no front runs, once, and that one does again.
func (f *frontDoor) tell(why string) {
	f.mu.Lock()
	was := f.told
	f.told = why
	if why != "" {
		f.why = why
	}
	f.mu.Unlock()
	switch {
	case why == "" || why == was:
		return
	case f.daemon.events == nil:
		return
	}
	f.daemon.publish(gpu.Event{
		Time: time.Now(), Code: gpu.EventFront, Severity: gpu.Serious, Text: "The front, which takes the requests for services, does not run: " + gpu.Printable(why, 1024) + ".",
		Public: "The front, which takes the requests for services, does not run.",
	})
	f.hear()
}

// hear lets those go on who wait for the front.
func (f *frontDoor) hear() {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-f.heard:
	default:
		close(f.heard)
	}
}

// await waits until a front takes requests, or none will, but not for long.
func (f *frontDoor) await(ctx context.Context) {
	if f == nil {
		return
	}
	timer := time.NewTimer(frontPatience)
	defer timer.Stop()
	select {
	case <-f.heard:
	case <-timer.C:
	case <-ctx.Done():
	}
}

// User implements desk.Front.
func (f *frontDoor) User() (uid int, runs bool) {
	if f == nil {
		return 0, false
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.uid, f.runs
}

// Seen implements desk.Front.
func (f *frontDoor) Seen(name, listen string) {
	if listen == "" {
		return
	}
	f.mu.Lock()
	maps.DeleteFunc(f.listens, func(other, _ string) bool { return other != name && !f.connected(other) })
	was, back := f.listens[name], f.told != ""
	f.listens[name], f.told, f.why = listen, "", ""
	f.mu.Unlock()
	if was == listen {
		return
	}
	f.hear()
	if back {
		f.daemon.publish(gpu.Event{Time: time.Now(), Code: gpu.EventFront, Severity: gpu.Note, Text: "The front takes requests for services again, on " + listen + ".", Data: map[string]any{"listen": listen}})
	}
}

// State implements desk.Front.
func (f *frontDoor) State() *api.FrontState {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.config.Front.Listen == "" && f.why == "" {
		return nil
	}
	s := &api.FrontState{Listen: f.config.Front.Listen}
	for _, name := range slices.Sorted(maps.Keys(f.listens)) {
		if f.connected(name) {
			s.Address = f.listens[name]
		}
	}
	if s.Address == "" {
		s.Why = cmp.Or(f.why, "it has not come yet")
	}
	return s
}
