package daemon

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/door/doorkeeper"
	"github.com/berth-gpu/berth/internal/door/httpapi"
	"github.com/berth-gpu/berth/internal/door/peercred"
	"github.com/berth-gpu/berth/internal/lease"
	"github.com/berth-gpu/berth/internal/lease/quota"
)

// doors are the listeners of a daemon, each with its own server.
type doors struct {
	servers   []*http.Server
	listeners []net.Listener
}

// guestLimits bounds the number of connections, so that one user can take neither the
// file descriptors of the daemon nor anybody else's place. A program needs one or two.
var guestLimits = peercred.Limits{User: quota.Connections, Unknown: 64, All: 1536, Admin: 512, First: 512, Few: 8}

// frontConnections is how many connections the front may have: it asks once for each user
// and service that others wait for.
const frontConnections = 768

// openDoors listens on the socket and, if configured, on TCP, with TLS if there is a
// certificate. The context of every request ends with ctx, so that streams end when the
// daemon stops.
func openDoors(ctx context.Context, c config.Daemon, h http.Handler, keeper doorkeeper.Doorkeeper, kernel *peercred.Kernel, shown *certificate, front *frontDoor, turnedAway func()) (*doors, error) {
	d := &doors{}
	most := guestLimits
	most.Of = func(c *access.Caller) int {
		if uid, runs := front.User(); runs && c.UID == access.KnownUID(uid) {
			return frontConnections
		}
		return keeper.Limits().MostConnections(lease.Subject{Owner: lease.Owner{UID: c.UID.Or(lease.NoUID)}, Groups: c.Groups, Sure: c.Groups != nil})
	}
	guests := peercred.NewGuests(most, keeper.Rules)
	add := func(l net.Listener, h http.Handler, secure bool) {
		l = &peercred.Listener{Listener: l, Kernel: kernel, Guests: guests, TurnedAway: turnedAway}
		connContext := keeper.ConnContext()
		switch {
		case secure:
			l = tls.NewListener(l, shown.config())
		case l.Addr().Network() == "unix":
			express := &httpapi.Express{Listener: l, Handler: h}
			l, connContext = express, express.ConnContext(connContext)
		}
		d.listeners = append(d.listeners, l)
		d.servers = append(d.servers, &http.Server{
			Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
			// The time to read a whole request. The time to answer is not limited, and
			// streams may stay open.
			ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
			BaseContext: func(net.Listener) context.Context { return ctx },
			ConnContext: connContext,
			ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // drops errors that callers cause
		})
	}
	socket, err := listenSocket(c)
	if err != nil {
		return nil, err
	}
	add(socket, keeper.ForSocket(h), false)
	if c.Listen == "" {
		return d, nil
	}
	tcp, err := listenTCP(c.Listen)
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	add(tcp, keeper.ForTCP(h), shown.current.Load() != nil)
	return d, nil
}

// tcp returns the address on TCP, which the system may have chosen.
func (d *doors) tcp() string {
	if len(d.listeners) < 2 {
		return "none"
	}
	return d.listeners[1].Addr().String()
}

// serve answers until every server is shut down.
func (d *doors) serve() error {
	failed := make(chan error, len(d.servers))
	for i, s := range d.servers {
		go func() { failed <- s.Serve(d.listeners[i]) }()
	}
	var errs []error
	for range d.servers {
		if err := <-failed; !errors.Is(err, http.ErrServerClosed) {
			errs = append(errs, err)
			d.close()
		}
	}
	return errors.Join(errs...)
}

// close gives requests in flight a moment to finish.
func (d *doors) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for _, s := range d.servers {
		if err := s.Shutdown(ctx); err != nil {
			_ = s.Close() // what did not finish in time is cut off
		}
	}
}

// listenSocket takes over the socket of a daemon that is gone, and refuses if a daemon
// still uses it.
func listenSocket(c config.Daemon) (net.Listener, error) {
	path := c.Socket
	group, err := socketGroup(c.SocketGroup)
	if err != nil {
		return nil, err
	}
	if err := makePassable(filepath.Dir(path)); err != nil {
		return nil, fmt.Errorf("make the folder of the socket: %w (choose another with --socket)", err)
	}
	conn, err := net.Dial("unix", path)
	if err == nil {
		_ = conn.Close()
	}
	if err == nil || errors.Is(err, syscall.EAGAIN) { // it has no room for more callers
		return nil, fmt.Errorf("a daemon already answers on %s: stop it first, or give this one another --socket and --state-dir", path)
	}
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
	if group >= 0 {
		if err := os.Lchown(path, -1, group); err != nil {
			return nil, errors.Join(fmt.Errorf("give the socket to the group %s: %w (a daemon that root does not run can take only a group of its own user)", c.SocketGroup, err), l.Close())
		}
	}
	if err := os.Chmod(path, socketMode(c)); err != nil {
		return nil, errors.Join(fmt.Errorf("set the mode of the socket: %w", err), l.Close())
	}
	return l, nil
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

// socketGroup returns the id of the group that gets the socket, or -1 if none does.
func socketGroup(name string) (int, error) {
	if name == "" {
		return -1, nil
	}
	if id, err := strconv.Atoi(name); err == nil {
		return id, nil
	}
	group, err := user.LookupGroup(name)
	if err != nil {
		return 0, fmt.Errorf("daemon.socket_group: there is no group %q here: %w. Make it with: groupadd --system %s", name, err, name)
	}
	return strconv.Atoi(group.Gid)
}

func listenTCP(address string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w (write it as 127.0.0.1:8000, or empty for none)", address, err)
	}
	// Callers from this machine end with their processes, so the kernel need not check
	// whether they are still there.
	keepAlive := net.KeepAliveConfig{Enable: !loopback(host)}
	l, err := (&net.ListenConfig{KeepAlive: -1, KeepAliveConfig: keepAlive}).Listen(context.Background(), "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("listen on %s: another program has that port. Give another with --listen 127.0.0.1:PORT, or none with --listen ''", address)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", address, err)
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
