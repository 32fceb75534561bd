// Package front is the HTTP door before the services.
//
// A front is a process of its own, without rights. It takes requests for all services on
// one address, tells the service of each, has the daemon bring it, holds the request
// meanwhile and then passes it on. What it knows about services the daemon tells it, and
// the daemon alone decides which are open; package api has the protocol.
//
// If the daemon goes away, the front keeps its table, passes requests on to the services
// that were open, and asks for orders until a daemon answers.
package front

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httputil"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sync/singleflight"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/internal/access"
	"github.com/berth-gpu/berth/internal/door/peercred"
	"github.com/berth-gpu/berth/internal/process"
	"github.com/berth-gpu/berth/internal/when"
)

// Options say where a front listens, and how much it takes.
type Options struct {
	Daemon *client.Client
	Log    *slog.Logger

	// Settings replace those of the daemon, where they are set.
	Settings api.FrontSettings
	// Spool is the folder for uploads whose model is not known yet; empty means the
	// usual folder for temporary files.
	Spool string
	// Listening is called with the address, once the front listens. It may be nil.
	Listening func(net.Addr)
}

const (
	// uploadLimit is how much of an upload is kept on disk before its model is known.
	uploadLimit = 512 << 20
	// spoolLimit is how much all of them may have there.
	spoolLimit = 4 << 30

	// headerPatience is how long a caller may take to send the header of a request.
	headerPatience = 10 * time.Second
	// idlePatience is how long a connection is kept without a request.
	idlePatience = 2 * time.Minute
	// memoryAll is how much of bodies is in memory; what does not fit goes to the disk.
	memoryAll = 128 << 20
	// longestHeader is how long the header of a request may be, in bytes. Each connection
	// may have one in memory.
	longestHeader = 16 << 10
	// listenPatience is how long a front waits for its address: an old one may have it.
	listenPatience = 10 * time.Second
)

// limits returns how many connections there may be. A request has one more, to its
// server.
func limits() peercred.Limits {
	return peercred.Limits{User: 2048, Unknown: 4096, All: 8192, First: 512, Few: 8}
}

// Front takes requests for services.
type Front struct {
	name   string // made up for the daemon
	daemon *client.Client
	log    *slog.Logger
	owner  owner
	since  time.Time
	hosts  []string // the names of this machine, in small letters

	limits   peercred.Limits
	patience time.Duration // with callers who send a body
	pause    time.Duration // between two reports of counts, at least
	usePause time.Duration // between two reports of who used services
	alone    time.Duration // that it stays without a daemon if it has nothing to do

	table   *table
	callers *callers
	reasons singleflight.Group // by service, why it did not come
	probes  probes
	memory  *spool
	spool   *spool
	pieces  buffers
	proxy   *httputil.ReverseProxy
}

// Run takes requests until ctx ends. Then it takes no more, and returns when the requests
// that it has are over, or hurry ends.
func Run(ctx, hurry context.Context, o Options) error {
	if os.Geteuid() == 0 {
		return errors.New("the front must not run as root: it talks to strangers. Start it as a user of its own")
	}
	return newFront(o, peercred.New(process.Proc())).run(ctx, hurry, o)
}

func newFront(o Options, kernel *peercred.Kernel) *Front {
	f := &Front{
		name: strings.ToLower(rand.Text()), daemon: o.Daemon, log: o.Log, owner: kernel.Listening, since: time.Now(),
		limits: limits(), patience: bodyPatience, pause: reportPause, usePause: usePause, alone: aloneLimit,
		table: newTable(), callers: newCallers(o.Daemon), probes: probes{},
		memory: &spool{all: memoryAll, byUser: map[string]int64{}},
		spool:  &spool{folder: o.Spool, one: uploadLimit, all: spoolLimit, byUser: map[string]int64{}},
	}
	f.proxy = newProxy(&f.pieces)
	f.proxy.ErrorLog = slog.NewLogLogger(o.Log.Handler(), slog.LevelDebug)
	return f
}

// connect returns the way to the server of a service.
func (f *Front) connect(told api.FrontService) *server {
	return &server{port: told.Port, uid: told.UID, owner: f.owner}
}

// run does the work of Run.
func (f *Front) run(ctx, hurry context.Context, o Options) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	// The daemon goes on giving orders while the last requests end.
	working, stop := context.WithCancel(context.Background())
	var done sync.WaitGroup
	defer done.Wait()
	defer stop()
	settings := make(chan api.FrontSettings, 1)
	done.Go(func() {
		f.obey(working, leave, func(told *api.FrontSettings) {
			if told == nil {
				told = &api.FrontSettings{}
			}
			select {
			case settings <- *told:
			default: // only the first counts
			}
		})
	})
	done.Go(func() { f.reporter(working) })
	select {
	case <-ctx.Done():
		return nil
	case told := <-settings:
		return f.listen(ctx, hurry, o, merge(o.Settings, told))
	}
}

// merge returns the settings of the command line, or else those of the daemon.
func merge(own, told api.FrontSettings) api.FrontSettings {
	if own.TLSCert == "" && own.TLSKey == "" {
		own.TLSCert, own.TLSKey = told.TLSCert, told.TLSKey
	}
	own.Listen = cmp.Or(own.Listen, told.Listen)
	return own
}

// listen serves until ctx ends, and then until the last request does, or hurry.
func (f *Front) listen(ctx, hurry context.Context, o Options, s api.FrontSettings) error {
	if s.Listen == "" {
		f.log.Info("the front has no address, and only asks the servers of services whether they are ready: set front.listen in the configuration of the daemon, as in 127.0.0.1:8080")
		<-ctx.Done()
		return nil
	}
	f.hosts = hostsOf(s.Listen)
	secure, err := newCertificate(s, f.log)
	if err != nil {
		return err
	}
	raw, err := take(ctx, s.Listen)
	if err != nil {
		return err
	}
	guests := peercred.NewGuests(f.limits, func() *access.Rules { return &access.Rules{} })
	door := net.Listener(&peercred.Listener{Listener: raw, Kernel: peercred.New(process.Proc()), Guests: guests})
	if secure != nil {
		door = secure.listener(door)
	} else if !loopbackOnly(raw.Addr()) {
		f.log.Warn("the front listens for other machines without TLS: their tokens can be read on the way; set front.tls_cert and front.tls_key", "address", raw.Addr().String())
	}
	web := &http.Server{
		Handler: f, ConnContext: withConn, ErrorLog: slog.NewLogLogger(f.log.Handler(), slog.LevelDebug),
		ReadHeaderTimeout: headerPatience, IdleTimeout: idlePatience, MaxHeaderBytes: longestHeader,
	}
	f.log.Info("the front listens", "address", raw.Addr().String(), "tls", secure != nil)
	f.table.listens(raw.Addr().String())
	if o.Listening != nil {
		o.Listening(raw.Addr())
	}
	failed := make(chan error, 1)
	go func() { failed <- web.Serve(door) }()
	select {
	case err := <-failed:
		return fmt.Errorf("take requests: %w", err)
	case <-ctx.Done():
	}
	f.log.Info("the front takes no more requests, and ends with the last one")
	f.table.listens("")
	if err := web.Shutdown(hurry); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return web.Close()
}

// take listens on an address. An older front may still have it for a moment.
func take(ctx context.Context, address string) (net.Listener, error) {
	limited, cancel := context.WithTimeout(ctx, listenPatience)
	defer cancel()
	for {
		l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
		if err == nil || !errors.Is(err, syscall.EADDRINUSE) || limited.Err() != nil {
			return l, err
		}
		when.Pause(limited, again)
	}
}

// loopbackOnly reports whether only this machine reaches an address.
func loopbackOnly(a net.Addr) bool {
	tcp, ok := a.(*net.TCPAddr)
	return ok && tcp.IP.IsLoopback()
}
