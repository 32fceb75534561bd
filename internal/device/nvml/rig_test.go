package nvml_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/devicetest"
	backend "github.com/berth-gpu/berth/internal/device/nvml"
)

var devices, fast = devicetest.Scan, devicetest.Fast

// rig is a machine with H200s, on the mock that comes with go-nvml. As with
// the real library, handles are void once it has been initialised again, and
// only then does it see a GPU that has come back to the bus.
type rig struct {
	mock.Interface
	symbols mock.ExtendedInterface
	gpus    []*fake
	roots   backend.Roots

	mu      sync.Mutex
	init    nvml.Return // what Init answers
	epoch   int
	missing map[string]bool // symbols that the library is too old for
}

// fake is one GPU of the rig, or an instance in one.
type fake struct {
	rig   *rig
	uuid  string
	index int                // also its place on the bus
	tune  func(*mock.Device) // changes what a new handle answers

	// rig.mu guards the rest.
	broken nvml.Return // SUCCESS, or what every call answers
	unseen bool        // fell off, and the library has not looked since it is back
	asked  map[string]int
	events chan nvml.EventData
	parts  []*fake // MIG instances
	limit  uint32  // power limit in mW; 0: as it came
	fans   []int   // speed of each; -1: the driver's own
}

func newRig(t *testing.T, gpus int) *rig {
	t.Helper()
	r := &rig{roots: backend.Roots{Sys: t.TempDir(), Proc: t.TempDir()}, missing: map[string]bool{}}
	for i := range gpus {
		r.gpus = append(r.gpus, r.newFake(fmt.Sprintf("GPU-%d", i), i))
		r.plug(t, i, "0")
	}
	r.symbols.LookupSymbolFunc = func(name string) error {
		if r.missing[name] {
			return errors.New("no such symbol")
		}
		return nil
	}
	r.ExtensionsFunc = func() nvml.ExtendedInterface { return &r.symbols }
	r.InitFunc = r.start
	r.ShutdownFunc = func() nvml.Return { return nvml.SUCCESS }
	r.SystemGetDriverVersionFunc = func() (string, nvml.Return) { return "580.65.06", nvml.SUCCESS }
	r.SystemGetConfComputeStateFunc = func() (nvml.ConfComputeSystemState, nvml.Return) {
		return nvml.ConfComputeSystemState{}, nvml.SUCCESS
	}
	r.DeviceGetCountFunc = func() (int, nvml.Return) { return len(r.gpus), nvml.SUCCESS }
	r.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) { return r.gpus[i].open() }
	r.DeviceGetHandleByUUIDFunc = r.byUUID
	r.DeviceGetHandleByPciBusIdFunc = func(id string) (nvml.Device, nvml.Return) {
		for _, g := range r.gpus {
			if id == pciText(g.index) {
				return g.open()
			}
		}
		return nil, nvml.ERROR_NOT_FOUND
	}
	r.EventSetCreateFunc = func() (nvml.EventSet, nvml.Return) {
		set := &eventSet{}
		set.FreeFunc = func() nvml.Return { return nvml.SUCCESS }
		return set, nvml.SUCCESS
	}
	return r
}

func (r *rig) newFake(uuid string, index int) *fake {
	return &fake{rig: r, uuid: uuid, index: index, asked: map[string]int{}, events: make(chan nvml.EventData, 8)}
}

// plug puts a GPU into the captured /sys.
func (r *rig) plug(t *testing.T, index int, numa string) {
	t.Helper()
	dir := filepath.Join(r.roots.Sys, "bus/pci/devices", pciText(index))
	write(t, filepath.Join(dir, "numa_node"), numa+"\n")
	write(t, filepath.Join(dir, "config"), "\xde\x10\x35\x23")
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

func (r *rig) start() nvml.Return {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.init == nvml.SUCCESS {
		r.epoch++
		for _, g := range r.gpus {
			g.unseen = false
		}
	}
	return r.init
}

func (r *rig) byUUID(uuid string) (nvml.Device, nvml.Return) {
	for _, g := range r.gpus {
		for _, f := range append([]*fake{g}, g.instances()...) {
			if f != nil && f.uuid == uuid {
				return f.open()
			}
		}
	}
	return nil, nvml.ERROR_NOT_FOUND
}

func (f *fake) instances() []*fake {
	f.rig.mu.Lock()
	defer f.rig.mu.Unlock()
	return f.parts
}

// cut replaces the MIG instances of a GPU.
func (f *fake) cut(parts ...*fake) {
	f.rig.mu.Lock()
	defer f.rig.mu.Unlock()
	f.parts = parts
}

// breakWith makes every call answer ret.
func (f *fake) breakWith(ret nvml.Return) {
	f.rig.mu.Lock()
	defer f.rig.mu.Unlock()
	f.broken = ret
}

// fallOff takes the GPU from the bus; comeBack puts it there again, which the
// library sees only after it was initialised again.
func (f *fake) fallOff() { f.breakWith(nvml.ERROR_GPU_IS_LOST) }

func (f *fake) comeBack() {
	f.rig.mu.Lock()
	defer f.rig.mu.Unlock()
	f.broken, f.unseen = nvml.SUCCESS, true
}

func (f *fake) timesAsked(what string) int {
	f.rig.mu.Lock()
	defer f.rig.mu.Unlock()
	return f.asked[what]
}

// status counts a call and says what it answers.
func (f *fake) status(what string, epoch int) nvml.Return {
	f.rig.mu.Lock()
	defer f.rig.mu.Unlock()
	f.asked[what]++
	switch {
	case f.broken != nvml.SUCCESS:
		return f.broken
	case f.unseen:
		return nvml.ERROR_GPU_IS_LOST
	case epoch != f.rig.epoch:
		return nvml.ERROR_INVALID_ARGUMENT
	}
	return nvml.SUCCESS
}

func (f *fake) open() (nvml.Device, nvml.Return) {
	f.rig.mu.Lock()
	epoch := f.rig.epoch
	f.rig.mu.Unlock()
	if ret := f.status("open", epoch); ret != nvml.SUCCESS {
		return nil, ret
	}
	h := &mock.Device{}
	f.answerIdentity(h, epoch)
	f.answerReadings(h, epoch)
	f.answerEvents(h, epoch)
	f.answerGovern(h, epoch)
	if f.tune != nil {
		f.tune(h)
	}
	return h, nvml.SUCCESS
}

// says makes a mock function that answers v while the GPU is well.
func says[T any](f *fake, epoch int, what string, v T) func() (T, nvml.Return) {
	return func() (T, nvml.Return) {
		ret := f.status(what, epoch)
		if ret != nvml.SUCCESS {
			var none T
			return none, ret
		}
		return v, ret
	}
}

// not is for mock functions of things that a device does not have.
func not[T any](f *fake, epoch int, what string) func() (T, nvml.Return) {
	return func() (T, nvml.Return) {
		var none T
		if ret := f.status(what, epoch); ret != nvml.SUCCESS {
			return none, ret
		}
		return none, nvml.ERROR_NOT_SUPPORTED
	}
}

func pciText(index int) string { return fmt.Sprintf("0000:%02x:00.0", 0x18+index) }

func pciOf(index int) nvml.PciInfo {
	var p nvml.PciInfo
	for i, c := range fmt.Sprintf("00000000:%02X:00.0", 0x18+index) {
		p.BusId[i] = int8(c)
	}
	return p
}

func (f *fake) answerIdentity(h *mock.Device, epoch int) {
	h.GetUUIDFunc = says(f, epoch, "uuid", f.uuid)
	h.GetNameFunc = says(f, epoch, "name", "NVIDIA H200")
	h.GetPciInfoFunc = says(f, epoch, "pci", pciOf(f.index))
	h.GetMinorNumberFunc = says(f, epoch, "minor", f.index)
	h.GetCudaComputeCapabilityFunc = func() (int, int, nvml.Return) { return 9, 0, f.status("capability", epoch) }
	h.GetEnforcedPowerLimitFunc = says(f, epoch, "limit", uint32(700_000))
	h.GetTemperatureThresholdFunc = func(which nvml.TemperatureThresholds) (uint32, nvml.Return) {
		return map[nvml.TemperatureThresholds]uint32{
			nvml.TEMPERATURE_THRESHOLD_SLOWDOWN: 89,
			nvml.TEMPERATURE_THRESHOLD_GPU_MAX:  87,
			nvml.TEMPERATURE_THRESHOLD_SHUTDOWN: 95,
		}[which], f.status("threshold", epoch)
	}
	h.GetNvLinkStateFunc = func(int) (nvml.EnableState, nvml.Return) { return 0, nvml.ERROR_NOT_SUPPORTED }
	h.GetTopologyCommonAncestorFunc = func(nvml.Device) (nvml.GpuTopologyLevel, nvml.Return) {
		return nvml.TOPOLOGY_NODE, f.status("topology", epoch)
	}
	h.GetMigModeFunc = func() (int, int, nvml.Return) {
		mode := 0
		if len(f.instances()) > 0 {
			mode = nvml.DEVICE_MIG_ENABLE
		}
		return mode, mode, f.status("mig", epoch)
	}
	h.GetMaxMigDeviceCountFunc = says(f, epoch, "most", 7)
	h.GetMigDeviceHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		parts := f.instances()
		if i >= len(parts) || parts[i] == nil {
			return nil, nvml.ERROR_NOT_FOUND
		}
		return parts[i].open()
	}
}

func (f *fake) answerReadings(h *mock.Device, epoch int) {
	h.GetMemoryInfoFunc = says(f, epoch, "memory", nvml.Memory{Total: 143771 << 20, Free: 143001<<20 + 5, Used: 770 << 20})
	h.GetUtilizationRatesFunc = says(f, epoch, "utilization", nvml.Utilization{Gpu: 42, Memory: 7})
	h.GetTemperatureFunc = func(nvml.TemperatureSensors) (uint32, nvml.Return) { return 61, f.status("temperature", epoch) }
	h.GetFieldValuesFunc = func(values []nvml.FieldValue) nvml.Return {
		values[0].ValueType = uint32(nvml.VALUE_TYPE_UNSIGNED_INT)
		binary.NativeEndian.PutUint32(values[0].Value[:], 55)
		return f.status("memory temperature", epoch)
	}
	h.GetPowerUsageFunc = says(f, epoch, "power", uint32(412_345))
	h.GetClockInfoFunc = func(which nvml.ClockType) (uint32, nvml.Return) {
		return map[nvml.ClockType]uint32{nvml.CLOCK_SM: 1980, nvml.CLOCK_MEM: 3201}[which], f.status("clock", epoch)
	}
	h.GetCurrentClocksEventReasonsFunc = says(f, epoch, "reasons",
		uint64(nvml.ClocksEventReasonSwPowerCap|nvml.ClocksThrottleReasonHwThermalSlowdown))
	none := []nvml.ProcessInfo{}
	h.GetComputeRunningProcessesFunc = says(f, epoch, "compute", none)
	h.GetMPSComputeRunningProcessesFunc = says(f, epoch, "mps", none)
	h.GetGraphicsRunningProcessesFunc = says(f, epoch, "graphics", none)
	h.GetTotalEnergyConsumptionFunc = says(f, epoch, "energy", uint64(1_234_500))
	h.GetFanSpeedFunc = not[uint32](f, epoch, "fan")
	h.GetPcieThroughputFunc = func(which nvml.PcieUtilCounter) (uint32, nvml.Return) {
		return 2048 * (1 + uint32(which)), f.status("pcie", epoch)
	}
	h.GetTotalEccErrorsFunc = func(kind nvml.MemoryErrorType, _ nvml.EccCounterType) (uint64, nvml.Return) {
		return 3 - uint64(kind), f.status("ecc", epoch)
	}
	h.GetProcessUtilizationFunc = func(uint64) ([]nvml.ProcessUtilizationSample, nvml.Return) {
		return nil, nvml.ERROR_NOT_FOUND
	}
}

func (f *fake) answerEvents(h *mock.Device, epoch int) {
	h.GetSupportedEventTypesFunc = says(f, epoch, "event types", uint64(nvml.EventTypeAll))
	h.RegisterEventsFunc = func(_ uint64, set nvml.EventSet) nvml.Return {
		set.(*eventSet).from(f, epoch)
		return f.status("register", epoch)
	}
}

// eventSet hands out the events of the GPU that was registered with it.
type eventSet struct{ mock.EventSet }

func (e *eventSet) from(f *fake, epoch int) {
	e.WaitFunc = func(millis uint32) (nvml.EventData, nvml.Return) {
		if ret := f.status("wait", epoch); ret != nvml.SUCCESS {
			return nvml.EventData{}, ret
		}
		select {
		case event := <-f.events:
			return event, nvml.SUCCESS
		case <-time.After(time.Millisecond):
			return nvml.EventData{}, nvml.ERROR_TIMEOUT
		}
	}
}

func (r *rig) backend() *backend.Backend { return backend.New(r, r.roots) }

func uuids(list []device.Device) []string {
	var uuids []string
	for _, d := range list {
		uuids = append(uuids, d.Describe().UUID)
	}
	return uuids
}

// wantErr checks that err is one of berth's, with something to do about it.
func wantErr(t *testing.T, err, want error) {
	t.Helper()
	var e *device.Error
	if !errors.Is(err, want) || !errors.As(err, &e) || e.Op == "" || e.Hint == "" {
		t.Errorf("got %v, want an error with a hint that is %q", err, want)
	}
}
