package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	resourcev1 "k8s.io/api/resource/v1"

	"github.com/berth-gpu/berth/api"
	"github.com/berth-gpu/berth/client"
	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/kubernetes/cdi"
	"github.com/berth-gpu/berth/kubernetes/claim"
	"github.com/berth-gpu/berth/kubernetes/export"
	"github.com/berth-gpu/berth/kubernetes/slice"
)

// beat is the shortest time between two reads of the daemon, so that any number of events
// cause at most one publication a second. A daemon that does not answer is asked as
// often.
const beat = time.Second

// watch publishes the devices of the daemon whenever they change.
func (d *Driver) watch(ctx context.Context) {
	for ctx.Err() == nil {
		pause := d.o.Pace.Poll
		if err := d.look(ctx); err != nil {
			pause = beat
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(beat):
		}
		select {
		case <-ctx.Done():
		case <-d.wakeWatch:
		case <-time.After(pause - beat):
		}
	}
}

// look reads the daemon, and publishes its devices if they have changed since the last
// publication. Only one goroutine may call it.
func (d *Driver) look(ctx context.Context) error {
	err := d.refresh(ctx)
	if err != nil {
		err = errors.Join(err, d.inherit(ctx))
	}
	d.mu.Lock()
	devices, due := d.devicesNow, d.publishDue
	d.publishDue = false
	d.mu.Unlock()
	if !due {
		return err
	}
	if failed := d.publish(ctx, devices); failed != nil {
		d.mu.Lock()
		d.publishDue = true
		d.mu.Unlock()
		d.o.Log.Warn("devices not published", "err", failed)
		return errors.Join(err, failed)
	}
	d.o.Metrics.Published()
	d.o.Log.Info("devices published", "devices", len(devices))
	return err
}

// inherit taints the devices that an earlier driver has published, if the daemon has not
// answered since this driver began: the publisher knows none of them.
func (d *Driver) inherit(ctx context.Context) error {
	d.mu.Lock()
	due := d.status == nil && !d.inherited && d.shape.Taints && time.Since(d.began) >= slice.Patience
	d.mu.Unlock()
	if !due {
		return nil
	}
	left, err := d.cluster.published(ctx, d.o.Node)
	if err != nil {
		d.o.Metrics.ClusterFailed("list_devices", err)
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.inherited = true; d.status == nil && len(left) > 0 {
		d.devicesNow, d.publishDue = slice.Away(left), true
		d.taints = taintsOf(d.devicesNow)
	}
	return nil
}

// refresh reads the daemon and finds out whether its devices have to be published again.
func (d *Driver) refresh(ctx context.Context) error {
	err := d.read(ctx)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.status == nil {
		return err
	}
	now := time.Now()
	d.facts.Silent = 0
	if err != nil {
		d.facts.Silent = now.Sub(d.heard)
	}
	devices, changed := d.publisher.Next(now, d.facts, d.shape)
	d.devicesNow, d.publishDue = devices, d.publishDue || changed
	d.taints = taintsOf(devices)
	d.setHealth(d.publisher.Health())
	return err
}

// read reads the state of the daemon.
func (d *Driver) read(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, askTimeout/2)
	defer cancel()
	status, err := d.o.Daemon.StatusAllWithLeases(ctx)
	if err != nil {
		return d.unheard(err)
	}
	available, err := d.o.Daemon.Available(ctx)
	if err != nil {
		return d.unheard(err)
	}
	leases, err := d.o.Daemon.Leases(ctx)
	if err != nil {
		return d.unheard(err)
	}
	if err := d.checkVersion(ctx, status.Version); err != nil {
		return d.unheard(err)
	}
	config, err := d.o.Daemon.Config(ctx)
	if err != nil {
		return d.unheard(err)
	}
	vendor := d.missingVendor(status.GPUs)
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down != nil || d.status == nil {
		d.o.Log.Info("daemon answers", "version", status.Version, "devices", len(status.GPUs))
		wake(d.wakeReconcile)
	}
	d.status, d.heard, d.down = &status, time.Now(), nil
	d.facts = slice.Facts{
		Status: status.GPUs, Available: available.GPUs, Leases: leases.Leases,
		Context: contextOf(config), Roots: d.roots(status.GPUs), Held: d.held(),
	}
	d.vendor, d.services = vendor, servicesOf(config)
	return nil
}

// knownServices returns the services of the daemon's configuration.
func (d *Driver) knownServices() claim.Services {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.services
}

// held returns the published names of the devices that prepared claims have. The caller
// holds d.mu.
func (d *Driver) held() []string {
	var names []string
	for _, st := range d.known {
		for _, r := range st.Results {
			names = append(names, r.Device)
		}
	}
	return names
}

// unheard records that the daemon does not answer, or refuses to.
func (d *Driver) unheard(err error) error {
	why := fmt.Errorf("the daemon at %s does not answer: %w", d.o.Address, err)
	if problemCode(err) != "" {
		why = fmt.Errorf("the daemon at %s refuses the driver: %w", d.o.Address, err)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down == nil {
		d.o.Log.Warn("no answer of the daemon", "err", why)
	}
	d.down = why
	return why
}

// checkVersion checks, once for each version of the daemon, that it has what the driver
// needs.
func (d *Driver) checkVersion(ctx context.Context, version string) error {
	d.mu.Lock()
	same := d.checked == version && d.checked != ""
	d.mu.Unlock()
	if same {
		return nil
	}
	page, err := d.o.Daemon.OpenAPI(ctx)
	if err != nil {
		return err
	}
	ok, err := exactLeases(page)
	if err != nil {
		return err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.checked, d.old = version, nil
	if !ok {
		d.old = &oldDaemonError{version, d.o.Address}
		d.o.Log.Error("daemon too old", "err", d.old)
	}
	return nil
}

// contextOf returns the memory of a CUDA context in a lease, from the daemon's
// configuration.
func contextOf(config json.RawMessage) gpu.MiB {
	var c struct {
		GPU struct {
			Context gpu.MiB `json:"context_mb"`
		} `json:"gpu"`
		Context gpu.MiB `json:"context_mb"`
	}
	if json.Unmarshal(config, &c) != nil {
		return 0
	}
	return max(c.GPU.Context, c.Context)
}

// servicesOf returns the services of the daemon's configuration, with the namespaces whose
// claims may name them.
func servicesOf(config json.RawMessage) claim.Services {
	var c struct {
		Services map[string]struct {
			Namespaces []string `json:"namespaces"`
		} `json:"services"`
	}
	_ = json.Unmarshal(config, &c) // what cannot be read has no services
	all := claim.Services{}
	for name, s := range c.Services {
		all[strings.ReplaceAll(name, "_", "-")] = s.Namespaces
	}
	return all
}

// roots returns the PCIe root complex of each device that the machine knows. The caller
// holds d.mu.
func (d *Driver) roots(all []api.Status) map[string]string {
	for i := range all {
		address := slice.Address(all[i].Device.PCI)
		if _, known := d.root[address]; address == "" || known || slice.Simulated(all[i].Device) {
			continue
		}
		d.root[address] = pcieRoot(address)
	}
	return d.root
}

// ready returns why the driver cannot prepare claims now, or nil. It asks the daemon if
// the daemon was not seen yet.
func (d *Driver) ready(ctx context.Context) error {
	d.mu.Lock()
	unseen := d.status == nil
	d.mu.Unlock()
	if unseen {
		if err := d.refresh(ctx); err != nil {
			return err
		}
		wake(d.wakeWatch)
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.old
}

// missingVendor returns why a device of the machine cannot be given to containers.
func (d *Driver) missingVendor(all []api.Status) error {
	for i := range all {
		device := all[i].Device
		if len(device.Instances) > 0 || d.isolation(device) == cdi.Env {
			continue
		}
		if _, err := d.o.CDI.Vendor(device); err != nil {
			return err
		}
	}
	return nil
}

// changes are the events that may change the published devices or the leases of claims.
var changes = []gpu.EventCode{
	gpu.EventStateChange, gpu.EventCritical, gpu.EventOverheat, gpu.EventDeviceFound, gpu.EventDeviceLost,
	gpu.EventDeviceRecovered, gpu.EventDeviceFault, gpu.EventDeviceQuarantined, gpu.EventDeviceProbation, gpu.EventSlots,
	gpu.EventDrained, gpu.EventUndrained, gpu.EventMonitoring, gpu.EventConfig, gpu.EventForeignUse,
	gpu.EventGranted, gpu.EventResized, gpu.EventReleased, gpu.EventExpired, gpu.EventRevoked,
	gpu.EventOverLimit, gpu.EventStop, gpu.EventStopped, gpu.EventParked, gpu.EventResumed, gpu.EventGap,
}

// follow reads the events of the daemon, and begins again when the daemon has gone away.
func (d *Driver) follow(ctx context.Context) {
	var after uint64
	for ctx.Err() == nil {
		query := client.EventQuery{After: after, Follow: true}
		for e, err := range d.o.Daemon.EventsWhere(ctx, query) {
			if err != nil {
				break
			}
			after = e.ID
			d.happened(e)
		}
		select {
		case <-ctx.Done():
		case <-time.After(beat):
		}
	}
}

// happened handles one event of the daemon.
func (d *Driver) happened(e gpu.Event) {
	if e.Time.Before(d.began) && e.Code != gpu.EventGap {
		return // the first look sees the result
	}
	if !e.Is(changes...) {
		return
	}
	wake(d.wakeWatch)
	d.mu.Lock()
	ours := d.known[e.Lease] != nil
	d.mu.Unlock()
	switch e.Code {
	case gpu.EventReleased, gpu.EventExpired, gpu.EventRevoked:
		if ours {
			wake(d.wakeReconcile)
		}
	case gpu.EventGap:
		wake(d.wakeReconcile)
	}
	d.teller.happened(e)
}

// find returns the share that a published device stands for.
func (d *Driver) find(device string) (slice.Share, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.publisher.Find(device)
}

func (d *Driver) share(device string) (uuid string, memory gpu.MiB, slots int, ok bool) {
	s, ok := d.find(device)
	return s.UUID, s.Memory, s.Slots, ok
}

// device returns a GPU of the machine as the daemon last described it.
func (d *Driver) device(uuid string) (gpu.Device, bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	i := slices.IndexFunc(d.facts.Status, func(s api.Status) bool { return s.Device.UUID == uuid })
	if i < 0 {
		return gpu.Device{}, false
	}
	return d.facts.Status[i].Device, true
}

// learn remembers the state of a claim, which must not change afterwards. forget forgets
// it.
func (d *Driver) learn(st *state) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.known[st.UID] = st
}

func (d *Driver) forget(uid string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.known, uid)
	delete(d.gone, uid)
	d.teller.forget(uid)
}

// knownBut returns the claims that the driver remembers, except some.
func (d *Driver) knownBut(uids []string) (others []string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for uid := range d.known {
		if !slices.Contains(uids, uid) {
			others = append(others, uid)
		}
	}
	return others
}

// drops records that the API server drops fields of published devices, and publishes
// devices that do without them.
func (d *Driver) drops(features []string) {
	d.mu.Lock()
	before := d.shape
	if slices.Contains(features, "DRAConsumableCapacity") {
		d.shape.Consumable = false
	}
	if slices.Contains(features, "DRADeviceTaints") {
		d.shape.Taints = false
	}
	changed := d.shape != before
	d.mu.Unlock()
	if changed {
		d.o.Log.Info("API server drops fields", "features", features)
		wake(d.wakeWatch)
	}
}

func taintsOf(devices []resourcev1.Device) []export.Taint {
	var all []export.Taint
	for _, d := range devices {
		for _, t := range d.Taints {
			all = append(all, export.Taint{Device: d.Name, Key: t.Key, Effect: string(t.Effect)})
		}
	}
	return all
}
