package daemon

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/berth-gpu/berth/internal/config"
	"github.com/berth-gpu/berth/internal/httpapi"
	"github.com/berth-gpu/berth/internal/peer"
)

// doors are the listeners of a daemon, each with its own server.
type doors struct {
	servers   []*http.Server
	listeners []net.Listener
}

// guestLimits bounds how many connections there are, so that one user can take
// neither the file descriptors of the daemon nor anybody else's turn. A program
// needs one or two.
var guestLimits = peer.Limits{User: 256, Unknown: 64, All: 1536, Admin: 512, First: 512, Few: 8}

// openDoors listens on the socket and, if configured, on TCP. Requests see a
// context that ends with ctx, so that streams end when the daemon stops.
func openDoors(ctx context.Context, c config.Daemon, h http.Handler, keeper httpapi.Doorkeeper, kernel *peer.Kernel, turnedAway func()) (*doors, error) {
	d := &doors{}
	guests := peer.NewGuests(guestLimits, keeper.Rules)
	add := func(l net.Listener, h http.Handler) {
		d.listeners = append(d.listeners, &peer.Listener{Listener: l, Kernel: kernel, Guests: guests, TurnedAway: turnedAway})
		d.servers = append(d.servers, &http.Server{
			Handler: h, ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute,
			// Until a request is read whole; how long it takes to answer is not
			// limited, and streams may stay open.
			ReadTimeout: 10 * time.Second, MaxHeaderBytes: 16 << 10,
			BaseContext: func(net.Listener) context.Context { return ctx },
			ConnContext: keeper.ConnContext(),
			ErrorLog:    slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), // of what callers do wrong
		})
	}
	socket, err := listenSocket(c.Socket)
	if err != nil {
		return nil, err
	}
	add(socket, httpapi.ForSocket(h, c.Token))
	if c.Listen == "" {
		return d, nil
	}
	tcp, err := listenTCP(c.Listen, c.Token)
	if err != nil {
		return nil, errors.Join(err, socket.Close())
	}
	add(tcp, httpapi.ForTCP(h, c.Token))
	return d, nil
}

// tcp is the address on TCP, which may have been chosen by the system.
func (d *doors) tcp() string {
	if len(d.listeners) < 2 {
		return "none"
	}
	return d.listeners[1].Addr().String()
}

// serve answers until every server was shut down.
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

// close lets requests in flight finish, for a moment.
func (d *doors) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	for _, s := range d.servers {
		if err := s.Shutdown(ctx); err != nil {
			_ = s.Close() // what did not finish in time is cut off
		}
	}
}

// listenSocket takes over the socket of a daemon that is gone, and refuses if
// one is there.
func listenSocket(path string) (net.Listener, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make the folder of the socket: %w (choose another with --socket)", err)
	}
	if conn, err := net.Dial("unix", path); err == nil {
		_ = conn.Close()
		return nil, fmt.Errorf("a daemon already answers on %s: stop it first, or give this one another --socket and --state-dir", path)
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("remove the socket of an earlier daemon: %w", err)
	}
	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("listen on the socket: %w", err)
	}
	// A daemon of root serves every user of the machine and knows each by the
	// credentials of the connection; anyone else's is for its owner.
	mode := os.FileMode(0o600)
	if os.Geteuid() == 0 {
		mode = 0o666
	}
	if err := os.Chmod(path, mode); err != nil {
		return nil, errors.Join(fmt.Errorf("set the mode of the socket: %w", err), l.Close())
	}
	return l, nil
}

// listenTCP refuses to be reachable from elsewhere without a token.
func listenTCP(address, token string) (net.Listener, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, fmt.Errorf("listen on %q: %w (write it as 127.0.0.1:8000, or empty for none)", address, err)
	}
	if token == "" && !loopback(host) {
		return nil, fmt.Errorf("refusing to listen on %s without a token: anyone who reaches it could take the GPUs. Set daemon.token or BERTH_TOKEN, or listen on 127.0.0.1", address)
	}
	// Callers from this machine end with their processes, so the kernel need not
	// ask whether they are still there.
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
