package daemon

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/file/fault"
	"github.com/berth-gpu/berth/internal/file/inventory"
	"github.com/berth-gpu/berth/internal/job/owner"
	"github.com/berth-gpu/berth/internal/job/service"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/process/minder"
)

// openServices opens the programs of services, and the front before them. A daemon that
// only looks has none, and neither has one that cannot start minders.
func (d *Daemon) openServices(o Options) error {
	if o.ReadOnly || o.Program == "" {
		return nil
	}
	if err := d.checkPrograms(o.Settings); err != nil {
		return err
	}
	p, err := d.openPrograms(o, inventory.Services)
	if err != nil {
		return err
	}
	logs := serviceLogs{p.minders, d.faults}
	d.front = newFrontDoor(d, p.folder, p.socket, o.Program, o.Version)
	services, damage := owner.Open(owner.Options{
		Folder: p.folder, Boot: p.boot, Minders: p.minders, Numbers: d.serial.Next, Account: d.accountOfService, FreePort: d.freePort,
		LastLines: logs.last, Follow: logs.follow, Publish: d.publish, Log: o.Log, Front: d.frontSettings, Nudge: d.parking.Nudge,
	})
	d.tellDamage(damage)
	d.services = services
	d.serial.Given(services.Newest(), time.Now())
	d.serve(o.Settings.Config)
	d.parking.Serve(services)
	return nil
}

// serve tells the owner of services, and the front, what the settings say.
func (d *Daemon) serve(c config.Config) {
	if d.services == nil {
		return
	}
	d.served = d.programUIDs(c)
	d.services.Configure(d.programs(c))
	d.front.configure(c)
}

// deviceEvent publishes an event about a device. Services leave one that berth trusts no
// more, or that is gone, if they can come to another.
func (d *Daemon) deviceEvent(e gpu.Event) {
	d.publish(d.oversight.Charge(e))
	if d.services == nil || e.Code != gpu.EventDeviceQuarantined && e.Code != gpu.EventDeviceLost {
		return
	}
	d.services.Vacate(e.GPU, "its device is in quarantine", func() (others []string) {
		for _, r := range d.monitor.Readings() {
			if r.Device.UUID != e.GPU && r.State != gpu.Unavailable {
				others = append(others, r.Device.UUID)
			}
		}
		return others
	})
}

// programOf returns the service whose program has a lease, see reclaim.Options.
func (d *Daemon) programOf(k lease.Key) (service string, takes time.Duration) {
	if d.services == nil {
		return "", 0
	}
	return d.services.Moving(k)
}

// frontSettings returns what the settings say about the front.
func (d *Daemon) frontSettings() api.FrontSettings {
	f := d.settings.config().Front
	return api.FrontSettings{Listen: f.Listen, TLSCert: f.TLSCert, TLSKey: f.TLSKey}
}

// accountOfService looks up the user of a service, for its minder. Nothing runs as root.
func (d *Daemon) accountOfService(user string, uid int) (api.MinderAccount, error) {
	switch {
	case uid == 0:
		return api.MinderAccount{}, errors.New("the program of a service does not run as root")
	case uid < 0:
		return api.MinderAccount{}, fmt.Errorf("there is no user %s here, or the user database does not answer", user)
	}
	return d.accountOf(user, uid)
}

// The defaults of settings of programs that are not set.
const defaultStartTimeout = 10 * time.Minute

// programs translates the settings of services whose programs berth runs.
func (d *Daemon) programs(c config.Config) []service.Spec {
	var list []service.Spec
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		s := c.Services[name]
		if !s.Runs() {
			continue
		}
		user, uid := d.runsAs(s.User)
		spec := service.Spec{
			Name: name, Command: s.Command, User: user, UID: uid, Directory: s.Directory, Port: s.Port.Or(0),
			Memory: s.Memory, GPUs: s.GPUs.Or(0),
			Ready: service.Ready{Path: s.Ready.Path, Log: s.Ready.Log}, StartTimeout: s.StartTimeout.Or(defaultStartTimeout),
			Start: service.Start(cmp.Or(s.Start, string(service.OnDemand))), Restart: s.Restart != "false",
			IdleAfter: s.IdleAfter, Away: service.Way(cmp.Or(s.Away, string(service.Auto))), Sleep: callsOf(s.Sleep), Wake: callsOf(s.Wake), Default: s.Default == "true", Slice: c.Optimization.For(s).TimeSlice,
			Models: s.Models, Hosts: s.Hosts, Ignore: s.Ignore, Users: s.Users, MaxOpen: s.MaxOpen.Or(0),
		}
		for _, variable := range slices.Sorted(maps.Keys(s.Env)) {
			spec.Environment = append(spec.Environment, variable+"="+s.Env[variable])
		}
		list = append(list, spec)
	}
	return list
}

func callsOf(calls []config.Call) []api.FrontHTTPCall {
	var list []api.FrontHTTPCall
	for _, c := range calls {
		list = append(list, api.FrontHTTPCall{Method: c.Method, Path: c.Path, Body: c.Body})
	}
	return list
}

// runsAs returns the user that a program runs as, given the name in the settings. The uid
// is negative if nobody knows the user.
func (d *Daemon) runsAs(name string) (user string, uid int) {
	if own := os.Geteuid(); own != 0 {
		return d.users.Of(own), own
	}
	if uid, known := d.numbers.User(name); known {
		return name, uid
	}
	return name, access.NoUID
}

// programUsers returns the users whom the settings run programs as, who are not the user
// of the daemon.
func programUsers(c config.Config) (list []string) {
	if os.Geteuid() != 0 {
		return nil
	}
	for _, s := range c.Services {
		if s.Runs() && s.User != "" {
			list = append(list, s.User)
		}
	}
	if wantsFront(c) {
		list = append(list, cmp.Or(c.Front.User, frontUser))
	}
	return list
}

// checkPrograms refuses settings by which this daemon would run programs as users that it
// must not, or cannot, become.
func (d *Daemon) checkPrograms(s *config.Settings) error {
	own := os.Geteuid()
	return checkPrograms(s, own, nameOf(d.users, own))
}

// nameOf returns the login name of a user, or "" while the user database has not said it.
func nameOf(names *users.Names, uid int) string {
	if name := names.Of(uid); names.Settled(uid) {
		return name
	}
	return ""
}

// checkPrograms refuses settings by which this daemon would run programs as root, or as
// users that it cannot become. If its own name is not known, any user but root may be its
// own: a daemon does not wait for the user database, and runs programs as itself anyway.
func checkPrograms(s *config.Settings, uid int, own string) error {
	var wrong []config.Complaint
	complain := func(field, format string, args ...any) {
		source := s.Source(field)
		if source == "default" || source == config.SavedAtRunTime {
			source = ""
		}
		wrong = append(wrong, config.Complaint{Source: source, Field: field, Reason: fmt.Sprintf(format, args...)})
	}
	mine := func(name string) bool { return own == "" || name == "" || name == own || name == strconv.Itoa(uid) }
	c := &s.Config
	for _, name := range slices.Sorted(maps.Keys(c.Services)) {
		p, path := c.Services[name].Program, "services."+name+"."
		switch {
		case !p.Runs():
		case uid == 0 && p.User == "":
			complain(path+"command", "the daemon runs as root: say in %suser whom the program runs as (not root)", path)
		case isRoot(p.User):
			complain(path+"user", "is root, and berth runs no program of a service as root: name another user")
		case uid != 0 && !mine(p.User):
			complain(path+"user", "is %s, and this daemon is not root: it runs programs only as %s. Leave it out, or let root run the daemon", p.User, own)
		}
	}
	switch user := c.Front.User; {
	case isRoot(user):
		complain("front.user", "is root, and the front talks to strangers: name a user without rights")
	case uid != 0 && !mine(user):
		complain("front.user", "is %s, and this daemon is not root: its front runs as %s. Leave it out, or let root run the daemon", user, own)
	}
	if wrong != nil {
		return &config.Error{Complaints: wrong}
	}
	return nil
}

func isRoot(user string) bool { return user == "root" || user != "" && strings.Trim(user, "0") == "" }

// The ports that berth gives to servers: below those that the kernel gives to connections,
// so that no connection takes one before its server listens.
const firstPort, lastPort = 20000, 32000

// freePort returns a port for a server. Somebody may have nearly all of those that berth
// gives: then the log says who.
func (d *Daemon) freePort() (int, error) {
	port, taken, err := freePort(firstPort, lastPort)
	if taken != 0 {
		holder, _ := d.kernel.Listening(taken)
		d.log.Warn("nearly all ports that berth gives to servers are taken, so one gets another", "from", firstPort, "to", lastPort, "one_of_them", taken, "taken_by", holder)
	}
	return port, err
}

// freePort returns a port of 127.0.0.1 that nobody listens on, between two others. If it
// finds none, it returns one of those that the kernel gives to connections, and one that is
// taken.
func freePort(first, last int) (port, taken int, err error) {
	for range 100 {
		port = first + rand.IntN(last-first)
		if l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return port, 0, l.Close()
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, port, fmt.Errorf("find a free port: %w", err)
	}
	return l.Addr().(*net.TCPAddr).Port, port, l.Close()
}

// serviceLogs reads the logs of services with the rights of their users.
type serviceLogs struct {
	minders Minders
	faults  *fault.Faults
}

// read reads the log of a service. A bug that it meets is an error: goroutines read.
func (l serviceLogs) read(ctx context.Context, s *service.Spec, what minder.Reading, until <-chan struct{}, to io.Writer) (err error) {
	defer l.faults.Confine(&err, s.User, "reading the log of "+s.Name)
	what.User, what.UID = s.User, s.UID
	return l.minders.ReadLog(ctx, what, until, nil, to)
}

// last returns the last lines of a log.
func (l serviceLogs) last(ctx context.Context, s *service.Spec, path string, n int) []string {
	var text bytes.Buffer
	until := make(chan struct{})
	close(until)
	if err := l.read(ctx, s, minder.Reading{Path: path, Lines: n, Most: 64 << 10}, until, &text); err != nil {
		return nil
	}
	lines := strings.Split(strings.TrimRight(text.String(), "\n"), "\n")
	if len(lines) == 1 && lines[0] == "" {
		return nil
	}
	return lines[max(len(lines)-n, 0):]
}

// follow hands every line of a log to a function, until it returns false or ctx ends.
func (l serviceLogs) follow(ctx context.Context, s *service.Spec, path string, line func(string) bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	from, to := io.Pipe()
	failed := make(chan error, 1)
	go func() {
		err := l.read(ctx, s, minder.Reading{Path: path, Most: 1 << 20, Follow: true}, ctx.Done(), to)
		_ = to.CloseWithError(cmp.Or(err, error(io.EOF)))
		failed <- err
	}()
	reader := bufio.NewReaderSize(from, 64<<10)
	for {
		text, err := reader.ReadSlice('\n') // a longer line comes in pieces
		if len(text) > 0 && !line(strings.TrimRight(string(text), "\r\n")) {
			_ = from.Close()
			cancel()
			<-failed
			return nil
		}
		if err != nil && !errors.Is(err, bufio.ErrBufferFull) {
			_ = from.Close()
			cancel()
			return errors.Join(<-failed, ctx.Err())
		}
	}
}
