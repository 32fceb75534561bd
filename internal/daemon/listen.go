package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/door/peercred"
	"github.com/berth-gpu/berth/internal/file"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
	"github.com/berth-gpu/berth/internal/when"
	"github.com/berth-gpu/berth/internal/when/later"
)

// doors are the ways in to a daemon. Nothing that becomes of TCP closes the socket.
type doors struct {
	socket  net.Listener
	servers []*http.Server // of the socket, and of TCP if an address is configured
	tell    func(have string, trouble error)

	address string       // to listen on
	tcp     net.Listener // nil while the address cannot be had
	wrap    func(net.Listener) net.Listener
	closing context.Context // ends when the doors close
	stop    func()
}

// portAgain is how long after a failure the daemon tries again to have its port.
const portAgain = time.Second

// guestLimits bounds the number of connections, so that one user can take neither the
// file descriptors of the daemon nor anybody else's place. A program needs one or two.
var guestLimits = peercred.Limits{User: quota.Connections, Unknown: 64, All: 1536, Admin: 512, First: 512, Few: 8}

// frontConnections is how many connections the front may have: it asks once for each user
// and service that others wait for, and from some number on once for each service.
const frontConnections = 768

// openDoors serves on the socket raw and, if configured, on TCP, with TLS if there is a
// certificate. After an error, raw is closed. The context of every request ends with ctx, so that streams end when the
// daemon stops. tell hears which address the daemon has, or why it has none, whenever
// that changes.
func openDoors(ctx context.Context, c config.Daemon, h http.Handler, keeper doorkeeper.Doorkeeper, kernel *peercred.Kernel, shown *certificate, front *frontDoor, turnedAway func(), raw net.Listener, tell func(have string, trouble error)) (*doors, error) {
	d := &doors{address: c.Listen, tell: tell}
	d.closing, d.stop = context.WithCancel(context.Background())
	most := guestLimits
	most.Of = func(c *access.Caller) int {
		if uid, runs := front.User(); runs && c.UID == access.KnownUID(uid) {
			return frontConnections
		}
		return keeper.Limits().MostConnections(lease.Subject{Owner: lease.Owner{UID: c.UID.Or(lease.NoUID)}, Groups: c.Groups, Sure: c.Groups != nil})
	}
	guests := peercred.NewGuests(most, keeper.Rules)
	guarded := func(l net.Listener) net.Listener {
		return &peercred.Listener{Listener: l, Kernel: kernel, Guests: guests, TurnedAway: turnedAway}
	}
	d.socket = guarded(raw)
	d.servers = []*http.Server{newServer(ctx, keeper.ForSocket(h), keeper.ConnContext())}
	if c.Listen == "" {
		return d, nil
	}
	secure := shown.current.Load() != nil
	d.wrap = func(l net.Listener) net.Listener {
		if l = guarded(l); secure {
			l = tls.NewListener(l, shown.config())
		}
		return l
	}
	d.servers = append(d.servers, newServer(ctx, keeper.ForTCP(h), keeper.ConnContext()))
	if err := d.listen(); err != nil && !later.Passes(err) {
		return nil, errors.Join(err, raw.Close())
	}
	return d, nil
}

// newServer returns a server whose requests have a context that ends with ctx.
func newServer(ctx context.Context, h http.Handler, connContext func(context.Context, net.Conn) context.Context) *http.Server {
	return &http.Server{
		Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
		// The time to read a whole request. The time to answer is not limited, and
		// streams may stay open.
		ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
		BaseContext: func(net.Listener) context.Context { return ctx },
		ConnContext: connContext,
		ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // drops errors that callers cause
	}
}

// listen tries to have the address on TCP, and tells how that went.
func (d *doors) listen() error {
	l, err := listenTCP(d.address)
	if err != nil {
		d.tell("", err)
		return err
	}
	d.tcp = d.wrap(l)
	d.tell(l.Addr().String(), nil)
	return nil
}

// tellListening publishes why the daemon does not have its address on TCP, once, and that it
// has it again.
func (d *Daemon) tellListening(have string, trouble error) {
	e := gpu.Event{Time: when.Now(), Code: gpu.EventListen}
	if trouble == nil {
		d.listening.Store(&have)
		if d.unheard.Swap(nil) == nil {
			return
		}
		e.Severity, e.Text = gpu.Note, "The daemon listens on "+have+" now."
	} else {
		d.listening.Store(nil)
		const taken = " has that port"
		told, why := d.unheard.Load(), trouble.Error()
		if errors.Is(trouble, syscall.EADDRINUSE) {
			if told != nil && strings.HasSuffix(*told, taken) { // nobody looks every second for who has it
				return
			}
			why = fmt.Sprintf("listen on %s: %s%s", d.settings.load().Config.Daemon.Listen, d.holderOfPort(), taken)
		}
		if d.unheard.Store(&why); told != nil {
			return
		}
		e.Severity = gpu.Warning
		e.Text = gpu.Printable(why, 1024) + ". The Unix socket serves, and the daemon tries again until it listens there, too. Choose another address with daemon.listen, or none."
		e.Public = "The daemon does not have its address on TCP. The Unix socket serves."
	}
	d.publish(e)
}

// holderOfPort says whose program has the port of the daemon, if the kernel does.
func (d *Daemon) holderOfPort() string {
	_, port, _ := net.SplitHostPort(d.settings.load().Config.Daemon.Listen)
	number, _ := strconv.Atoi(port)
	if uid, err := d.kernel.Listening(number); err == nil && uid.Known() {
		return "a program of the user " + d.users.Of(uid.Or(lease.NoUID))
	}
	return "another program"
}

// serve answers until every server is shut down.
func (d *doors) serve() error {
	var tcp sync.WaitGroup
	if len(d.servers) > 1 {
		tcp.Go(d.serveTCP)
	}
	err := d.servers[0].Serve(d.socket)
	if errors.Is(err, http.ErrServerClosed) {
		err = nil
	} else {
		d.close()
	}
	tcp.Wait()
	return err
}

// serveTCP answers on TCP until the server is shut down. As long as the address cannot be
// had, it tries again.
func (d *doors) serveTCP() {
	for {
		if d.tcp != nil {
			err := d.servers[1].Serve(d.tcp)
			if errors.Is(err, http.ErrServerClosed) {
				return
			}
			d.tcp = nil
			d.tell("", fmt.Errorf("listen on %s: %w", d.address, err))
		}
		select {
		case <-d.closing.Done():
			return
		case <-time.After(portAgain):
			_ = d.listen() // it has told
		}
	}
}

// close gives requests in flight a moment to finish, those of the socket and of TCP at the
// same time.
func (d *doors) close() {
	d.stop()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	var closing sync.WaitGroup
	for _, s := range d.servers {
		closing.Go(func() {
			if err := s.Shutdown(ctx); err != nil {
				_ = s.Close() // what did not finish in time is cut off
			}
		})
	}
	closing.Wait()
}

// ownSocket is the socket of the daemon. Its file goes with it, unless another daemon has
// its own there by then.
type ownSocket struct {
	net.Listener
	path string
	made fs.FileInfo
	mark func() // says beside the socket that the daemon begins or ends

	group int    // that has it; negative: that of the daemon
	told  string // why it could not be given last
}

// Close closes the socket and removes its file.
func (s *ownSocket) Close() error {
	if now, err := os.Lstat(s.path); err == nil && os.SameFile(s.made, now) {
		s.mark()
		_ = os.Remove(s.path) // the next daemon takes over what stays
	}
	return s.Listener.Close()
}

// give gives the socket to a group, unless that has it. A negative group means that of the
// daemon.
func (s *ownSocket) give(group int) error {
	if group == s.group {
		return nil
	}
	id := group
	if id < 0 {
		id = os.Getegid()
	}
	if err := os.Lchown(s.path, -1, id); err != nil {
		return fmt.Errorf("give the socket to the group %d (daemon.socket_group): %w (a daemon that root does not run can take only a group of its own user)", id, err)
	}
	s.group = group
	return nil
}

// listenSocket takes over the socket of a daemon that is gone, and refuses if a daemon
// still uses it, or if somebody else could put a socket in its place. The socket belongs to
// group unless that is negative.
func listenSocket(c config.Daemon, group int, warn func(string)) (*ownSocket, error) {
	path := c.Socket
	if err := makePassable(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("make the folder of the socket: %w (choose another with --socket)", err)
	}
	if err := file.CheckFolder(filepath.Dir(path), warn); err != nil {
		return nil, fmt.Errorf("the folder of the socket: %w. Whoever can do that can answer in place of this daemon; choose another folder with --socket", err)
	}
	if info, err := os.Lstat(path); err == nil && info.Mode().Type() != fs.ModeSocket {
		return nil, fmt.Errorf("%s is no socket, and berth removes nothing else: move it away, or choose another path with --socket", path)
	}
	alone, err := startAlone(path)
	if err != nil {
		return nil, err
	}
	defer alone.Close()
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
	}
	if err == nil || errors.Is(err, syscall.EAGAIN) { // it has no room for more callers
		return nil, fmt.Errorf("a daemon already answers on %s: stop it first, or give this one another --socket and --state-dir", path)
	}
	mark := func() {
		if err := file.LeaveTrace(path, absolute(c.StateDir)); err != nil && warn != nil {
			warn(fmt.Sprintf("commands do not find the state folder by the socket, or wait for the next daemon: %v", err))
		}
	}
	mark() // before the socket goes, so that nobody takes this machine for one without berth
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier daemon: %w", err)
	}
	// The file of a socket takes over the mode that the socket has when it is
	// bound, so nobody connects before the owner and the mode are right.
	closed := net.ListenConfig{Control: func(_, _ string, raw syscall.RawConn) error {
		var failed error
		err := raw.Control(func(fd uintptr) { failed = syscall.Fchmod(int(fd), 0o600) })
		return errors.Join(err, failed)
	}}
	l, err := closed.Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on the socket: %w", err)
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false) // see ownSocket
	made, err := os.Lstat(path)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("look at the socket: %w", err), l.Close())
	}
	own := &ownSocket{Listener: l, path: path, made: made, mark: mark, group: -1}
	if err := own.give(group); err != nil {
		return nil, errors.Join(err, own.Close())
	}
	if err := os.Chmod(path, socketMode(c)); err != nil {
		return nil, errors.Join(fmt.Errorf("set the mode of the socket: %w", err), own.Close())
	}
	return own, nil
}

// startAlone keeps other daemons from taking a socket over until the lock is closed. Of two
// that start at the same time, the later would remove the socket that the other one has
// just made.
func startAlone(socket string) (io.Closer, error) {
	f, err := os.OpenFile(socket+".lock", os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, fmt.Errorf("lock the socket: %w", err)
	}
	switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
	case errors.Is(err, syscall.EWOULDBLOCK):
		return nil, errors.Join(fmt.Errorf("another daemon starts on %s just now: give this one another --socket and --state-dir", socket), f.Close())
	case err != nil:
		return nil, errors.Join(fmt.Errorf("lock %s: %w (choose a file system with locks with --socket)", f.Name(), err), f.Close())
	}
	return f, nil
}

// makePassable makes a folder and its parents, so that every user can enter them whatever
// the umask is: under systemd, the umask closes new folders to other users.
func makePassable(folder string) error {
	err := os.Mkdir(folder, 0o755)
	if errors.Is(err, fs.ErrNotExist) {
		if err := makePassable(filepath.Dir(folder)); err != nil {
			return err
		}
		err = os.Mkdir(folder, 0o755)
	}
	if info, there := os.Stat(folder); errors.Is(err, fs.ErrExist) && there == nil && info.IsDir() {
		return nil
	}
	if err != nil {
		return err
	}
	return os.Chmod(folder, 0o755)
}

// socketMode returns the permissions of the socket. A daemon of root serves every user of
// the machine and identifies each by the credentials of the connection; any other daemon
// serves only its owner.
func socketMode(c config.Daemon) os.FileMode {
	if mode, err := strconv.ParseUint(c.SocketMode, 8, 32); err == nil {
		return os.FileMode(mode)
	}
	if os.Geteuid() == 0 {
		return 0o666
	}
	return 0o600
}

// listenTCP listens on an address. The error passes if the address may be had later.
func listenTCP(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w (write it as 127.0.0.1:8000, or empty for none)", address, err)
	}
	// Callers from this machine end with their processes, so the kernel need not check
	// whether they are still there.
	keepAlive := net.KeepAliveConfig{Enable: !loopback(host)}
	l, err := (&net.ListenConfig{KeepAlive: -1, KeepAliveConfig: keepAlive}).Listen(context.Background(), "tcp", address)
	if err != nil {
		return nil, later.Because(fmt.Errorf("listen on %s: %w", address, err), portAgain)
	}
	return l, nil
}

func loopback(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	address, err := netip.ParseAddr(host)
	return err == nil && address.IsLoopback()
}
