// Package plugin is the driver of a node: it prepares claims for kubelet, publishes
// the devices of the daemon, and reports their health.
//
// A claim is a lease whose id is the UID of the claim, and the journal of the daemon
// is the only record of what is held. A state file says which claims this node has
// prepared, so that a driver that was killed at any line can go on:
//
//	prepare    read the claim · state file · lease · read the claim again · CDI file
//	unprepare  CDI file away · lease away · state file away
//	reconcile  each state file has its lease and its CDI file while its claim is
//	           allocated here; what belongs to no claim is released
//
// One lock file for all of it lets two drivers work side by side during a rollout.
package plugin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/kubernetes/cdi"
	"github.com/berth-gpu/berth/kubernetes/claim"
	"github.com/berth-gpu/berth/kubernetes/export"
	"github.com/berth-gpu/berth/kubernetes/slice"
	"github.com/berth-gpu/berth/kubernetes/words"
)

// Options configure a driver.
type Options struct {
	Node    string // name of the node, which is also the name of its pool
	PodUID  string // UID of the driver's own pod; empty if no second driver runs beside it
	Version string // of the driver

	Registry string // kubelet's folder for registration sockets
	Plugins  string // kubelet's folder for the data of plugins

	Daemon  Daemon
	Address string // address of the daemon, for people
	Kube    kubernetes.Interface

	CDI        cdi.Folder
	Isolation  string // vendor or env
	Socket     string // the daemon's socket on the host, for classes with socket: true
	Anybody    Anybody
	Quarantine resourcev1.DeviceTaintEffect

	Metrics *export.Metrics
	Log     *slog.Logger

	// Pace is how often the driver looks by itself. The zero value means DefaultPace.
	Pace Pace

	// Step, if not nil, is called between two steps of Prepare and Unprepare.
	Step func(step string)
}

// Pace says how often the driver does things that no event triggers.
type Pace struct {
	Poll      time.Duration // read the devices of the daemon
	Reconcile time.Duration // compare all claims, leases and files
	Join      time.Duration // read claims that other pods can join
	Grace     time.Duration // how long a claim must be gone before the driver ends its lease without kubelet
}

// DefaultPace is the pace of a driver in a cluster.
func DefaultPace() Pace {
	return Pace{Poll: 10 * time.Second, Reconcile: time.Minute, Join: 15 * time.Second, Grace: time.Minute}
}

// Driver prepares the claims of a node.
type Driver struct {
	o       Options
	began   time.Time
	cluster cluster
	states  states
	lock    *lock
	teller  *teller
	publish func(ctx context.Context, devices []resourcev1.Device) error

	serving chan struct{} // closed when kubelet can be served

	wakeWatch     chan struct{} // receives when the devices may have changed
	wakeReconcile chan struct{} // receives when a lease may be missing

	mu         sync.Mutex
	publisher  *slice.Publisher
	shape      slice.Shape
	facts      slice.Facts
	status     *api.StatusAll    // nil until the daemon was seen
	heard      time.Time         // when the daemon last answered
	down       error             // why it does not answer
	checked    string            // version of the daemon that was checked
	old        error             // why that version is too old
	root       map[string]string // PCIe root complex, by PCI address
	devicesNow []resourcev1.Device
	publishDue bool // whether the devices have to be published
	inherited  bool // whether the devices of an earlier driver were looked at; only watch has it
	health     []slice.Health
	healthNews chan struct{} // closed when health changes
	registered bool
	services   claim.Services
	vendor     error             // why a device lacks the vendor's CDI files
	known      map[string]*state // by claim, as last read
	gone       map[string]time.Time
	taints     []export.Taint
}

// dataDir returns the folder of the driver in kubelet's folder for plugins.
func (o *Options) dataDir() string { return filepath.Join(o.Plugins, words.Driver) }

// Run serves kubelet until ctx ends or the driver cannot go on.
func (d *Driver) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k, err := newKube(ctx, d.o.Kube)
	if err != nil {
		return err
	}
	d.cluster = k
	d.shape = k.keeps(ctx, d.o.Node, d.shape)
	if twice := k.soldTwice(ctx, d.o.Node); len(twice) > 0 {
		d.o.Log.Warn("a device plugin offers the GPUs of this node too, so they can be sold twice: remove it from the node", "resources", twice)
	}
	stop, err := d.serve(ctx, cancel)
	if err != nil {
		return fmt.Errorf("serve kubelet: %w", err)
	}
	var wait sync.WaitGroup
	for _, part := range []func(context.Context){d.watch, d.follow, d.reconcileLoop, d.teller.run} {
		wait.Go(func() { part(ctx) })
	}
	<-ctx.Done()
	stop()
	wait.Wait()
	if err := context.Cause(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// New returns a driver that does nothing until Run.
func New(o Options) (*Driver, error) {
	if o.Pace == (Pace{}) {
		o.Pace = DefaultPace()
	}
	if o.Step == nil {
		o.Step = func(string) {}
	}
	folder := states{filepath.Join(o.dataDir(), "state")}
	if err := os.MkdirAll(folder.dir, 0o700); err != nil {
		return nil, fmt.Errorf("make the state folder: %w", err)
	}
	d := &Driver{
		o: o, began: time.Now(), states: folder, lock: newLock(filepath.Join(o.dataDir(), "state.lock")),
		serving:   make(chan struct{}),
		wakeWatch: make(chan struct{}, 1), wakeReconcile: make(chan struct{}, 1),
		publisher: slice.New(o.Node), shape: slice.Shape{Consumable: true, Taints: true, Quarantine: o.Quarantine},
		healthNews: make(chan struct{}),
		root:       map[string]string{}, known: map[string]*state{}, gone: map[string]time.Time{},
	}
	d.teller = newTeller(d)
	return d, nil
}

// wake makes a loop look now, unless it is about to.
func wake(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
