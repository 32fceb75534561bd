package amd_test

import (
	"context"
	"encoding/binary"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/amd"
	"github.com/berth-gpu/berth/internal/device/devicetest"
	"github.com/berth-gpu/berth/internal/device/drm"
	"github.com/berth-gpu/berth/internal/device/drm/drmtest"
)

var devices, fast = devicetest.Scan, devicetest.Fast

const (
	server  = "testdata/server.txtar"
	desktop = "testdata/desktop.txtar"
	first   = "sys/class/drm/card1/device/" // of the first board in both
)

func TestConformance(t *testing.T) {
	for name, archives := range map[string][]string{"no GPU": nil, "a server": {server}, "a desktop": {desktop}} {
		t.Run(name, func(t *testing.T) {
			devicetest.Run(t, func(t *testing.T) device.Backend {
				tree := drmtest.Lay(t, archives...)
				tree.Log()
				return drm.New(&amd.Table, drm.Options{Root: tree.Root(), All: true})
			})
		})
	}
}

func TestServer(t *testing.T) {
	list := devices(t, drm.New(&amd.Table, drm.Options{Root: drmtest.Lay(t, server).Root()}))
	if len(list) != 2 {
		t.Fatalf("found %d", len(list))
	}
	want := gpu.Device{
		UUID: "GPU-a7c5fd4b7a1e9c31", Index: 0, Name: "AMD Instinct MI210", Vendor: gpu.AMD, Backend: "amd", Driver: "6.10.5",
		Ordinal: gpu.Some(1), // ROCm's driver has it as node 10, after node 2
		PCI:     "0000:83:00.0", Path: "/dev/dri/renderD128", MemoryTotal: 65520, NUMANode: gpu.Some(1),
		PowerLimit: gpu.Some(gpu.Watts(300)), TempMax: gpu.Some(gpu.Celsius(100)), TempShutdown: gpu.Some(gpu.Celsius(105)),
	}
	if got := list[0].Describe(); !cmp.Equal(got, want, cmp.AllowUnexported(gpu.Opt[int]{}, gpu.Opt[gpu.Watts]{}, gpu.Opt[gpu.Celsius]{})) {
		t.Errorf("the first is %+v, want %+v", got, want)
	}
	if d := list[1].Describe(); d.UUID != "GPU-001e9c31a7c5fd4b" || d.Ordinal != gpu.Some(0) || d.PCI != "0000:c3:00.0" || d.Name != want.Name {
		t.Errorf("the second is %+v", d)
	}

	s := fast(t, list[0])
	if s.Utilization != gpu.Some(gpu.Percent(97)) || s.MemoryBusy != gpu.Some(gpu.Percent(41)) || s.MemoryUsed != gpu.Some(gpu.MiB(12288)) ||
		s.MemoryFree != gpu.Some(gpu.MiB(65520-12288)) || s.Temperature != gpu.Some(gpu.Celsius(52)) || s.MemoryTemperature != gpu.Some(gpu.Celsius(58)) ||
		s.Power != gpu.Some(gpu.Watts(243)) || s.ClockSM != gpu.Some(gpu.MHz(1700)) || s.ClockMemory != gpu.Some(gpu.MHz(1600)) || s.Throttle != nil {
		t.Errorf("the first measures %+v", s)
	}
	if p := s.Processes; len(p) != 1 || p[0] != (gpu.Process{PID: 4242, Name: "python3", Kind: gpu.Compute, Memory: gpu.Some(gpu.MiB(12288))}) {
		t.Errorf("on the first run %+v", p)
	}
	s = fast(t, list[1])
	if s.Temperature != gpu.Some(gpu.Celsius(38)) || s.Power != gpu.Some(gpu.Watts(41)) || s.MemoryBusy.Known() || s.ClockSM.Known() || s.MemoryTemperature.Known() {
		t.Errorf("the second measures %+v", s)
	}
	if p := s.Processes; len(p) != 1 || p[0] != (gpu.Process{PID: 990, Name: "Xorg", Kind: gpu.Graphics, Memory: gpu.Some(gpu.MiB(8))}) {
		t.Errorf("on the second run %+v", p)
	}
	var slow gpu.Slow
	if err := list[0].Slow(t.Context(), &slow); err != nil || slow.ECCCorrected != gpu.Some(int64(4)) || slow.ECCUncorrected != gpu.Some(int64(0)) ||
		slow.Fan.Known() || slow.Energy.Known() {
		t.Errorf("the slow part is %+v, %v", slow, err)
	}
	if err := list[1].Slow(t.Context(), &slow); err != nil || slow.ECCCorrected.Known() {
		t.Errorf("a GPU that counts no errors has %+v, %v", slow, err)
	}
}

// Of the processes of other users, KFD tells what they have, although their open
// files are hidden.
func TestProcessesOfOthers(t *testing.T) {
	tree := drmtest.Lay(t, server)
	tree.Remove("proc/4242/fd", "proc/4242/fdinfo")
	s := fast(t, devices(t, drm.New(&amd.Table, drm.Options{Root: tree.Root()}))[0])
	if p := s.Processes; len(p) != 1 || p[0].PID != 4242 || p[0].Memory != gpu.Some(gpu.MiB(12288)) || p[0].Name != "python3" {
		t.Errorf("%+v", p)
	}
}

func TestDesktop(t *testing.T) {
	tree := drmtest.Lay(t, desktop)
	list := devices(t, drm.New(&amd.Table, drm.Options{Root: tree.Root()}))
	if len(list) != 1 {
		t.Fatalf("found %d devices; the one in the processor is only for those who ask for it", len(list))
	}
	d := list[0].Describe()
	if d.UUID != "GPU-4f2a6c0d91e73b58" || d.Name != "Radeon RX 6800/6800 XT / 6900 XT" || d.NUMANode.Known() || d.Driver != "Linux 6.12.0" || d.Ordinal != gpu.Some(0) {
		t.Errorf("%+v", d)
	}
	var slow gpu.Slow
	if err := list[0].Slow(t.Context(), &slow); err != nil || slow.Fan != gpu.Some(gpu.Percent(40)) {
		t.Errorf("%+v, %v", slow, err)
	}
	all := devices(t, drm.New(&amd.Table, drm.Options{Root: tree.Root(), All: true}))
	if len(all) != 2 || all[1].Describe().UUID != "GPU-1002-164e-at-0000-0e-00.0" || all[1].Describe().Name != "Raphael" || all[1].Describe().Ordinal != gpu.Some(1) {
		t.Errorf("with the one in the processor: %+v", all)
	}
}

func TestOpen(t *testing.T) {
	if _, err := drm.Open(&amd.Table, drm.Options{Root: drmtest.Lay(t).Root()}); !errors.Is(err, device.ErrNoDriver) || device.Hint(err) == "" {
		t.Errorf("without a GPU: %v", err)
	}
	if b, err := drm.Open(&amd.Table, drm.Options{Root: drmtest.Lay(t, server).Root()}); err != nil || b.Name() != "amd" {
		t.Errorf("with two: %v", err)
	}
}

// A card keeps what it is when it comes back somewhere else.
func TestLostAndFound(t *testing.T) {
	tree := drmtest.Lay(t, server)
	b := drm.New(&amd.Table, drm.Options{Root: tree.Root()})
	d := devices(t, b)[0]
	tree.Write(first+"config", "hex: ff ff ff ff")
	tree.Remove(first+"mem_info_vram_used", first+"gpu_busy_percent", first+"mem_busy_percent", first+"hwmon")
	var s gpu.Sample
	if err := d.Fast(t.Context(), &s); !errors.Is(err, device.ErrLost) || device.Hint(err) == "" {
		t.Errorf("a card that reads as ones: %v", err)
	}
	if err := os.Rename(tree.Path("sys/class/drm/card1"), tree.Path("sys/class/drm/card7")); err != nil {
		t.Fatal(err)
	}
	if err := d.Fast(t.Context(), &s); !errors.Is(err, device.ErrLost) {
		t.Errorf("a card that is gone: %v", err)
	}
	var slow gpu.Slow
	if err := d.Slow(t.Context(), &slow); !errors.Is(err, device.ErrLost) {
		t.Errorf("its slow part: %v", err)
	}
	if _, err := d.(device.Meter).Busy(t.Context(), time.Time{}); !errors.Is(err, device.ErrLost) {
		t.Errorf("its shares: %v", err)
	}
	if err := d.(device.Governor).SetPowerLimit(t.Context(), 200); !errors.Is(err, device.ErrLost) {
		t.Errorf("its power limit: %v", err)
	}
	tree.Write("sys/class/drm/card7/device/config", "hex: 02 10")
	tree.Write("sys/class/drm/card7/device/gpu_busy_percent", "5\n")
	if again := devices(t, b); again[0] != d || fast(t, d).Utilization != gpu.Some(gpu.Percent(5)) {
		t.Error("the card that came back is another device")
	}
}

// A card is one device, whatever its serial number reads as at some moment. One that was
// never read is not listed under another name: it could be leased twice.
func TestSerialThatCannotBeRead(t *testing.T) {
	for name, spoil := range map[string]func(*drmtest.Tree, string){
		"an error": func(tree *drmtest.Tree, file string) { tree.Remove(file); tree.Folder(file) },
		"gone":     func(tree *drmtest.Tree, file string) { tree.Remove(file) },
		"zero":     func(tree *drmtest.Tree, file string) { tree.Write(file, "0\n") },
		"garbage":  func(tree *drmtest.Tree, file string) { tree.Write(file, "reset\n") },
	} {
		tree := drmtest.Lay(t, server)
		serial := tree.Text(first + "unique_id")
		b := drm.New(&amd.Table, drm.Options{Root: tree.Root()})
		before := devices(t, b)
		spoil(tree, first+"unique_id")
		if again := devices(t, b); !slices.Equal(again, before) || again[0].Describe().UUID != before[0].Describe().UUID {
			t.Errorf("%s: %v is another device", name, again[0].Describe())
		}
		late := drm.New(&amd.Table, drm.Options{Root: tree.Root()})
		found := devices(t, late)
		if want := map[bool]int{true: len(before) - 1, false: len(before)}[name == "an error"]; len(found) != want {
			t.Errorf("%s: found %d devices, want %d", name, len(found), want)
		}
		tree.Remove(first + "unique_id")
		tree.Write(first+"unique_id", serial)
		if again := devices(t, late); len(again) != len(before) || name != "an error" && again[0] != found[0] {
			t.Errorf("%s, and then read: %d devices, %v", name, len(again), again[0].Describe())
		}
	}
}

// Whatever is in a file, the others count.
func TestBadFiles(t *testing.T) {
	for name, spoil := range map[string]func(*drmtest.Tree, string){
		"gone":      func(tree *drmtest.Tree, file string) { tree.Remove(file) },
		"a folder":  func(tree *drmtest.Tree, file string) { tree.Folder(file) },
		"garbage":   func(tree *drmtest.Tree, file string) { tree.Write(file, "\x00\xff nonsense") },
		"empty":     func(tree *drmtest.Tree, file string) { tree.Write(file, "") },
		"negative":  func(tree *drmtest.Tree, file string) { tree.Write(file, "-9223372036854775808\n") },
		"too large": func(tree *drmtest.Tree, file string) { tree.Write(file, "9223372036854775807\n") },
		"huge":      func(tree *drmtest.Tree, file string) { tree.Write(file, strings.Repeat("1", 1<<20)) },
		"I/O error": func(tree *drmtest.Tree, file string) { tree.Write(file, "-> /proc/self/mem") },
	} {
		t.Run(name, func(t *testing.T) {
			tree := drmtest.Lay(t, server)
			for _, file := range []string{
				first + "gpu_busy_percent", first + "mem_busy_percent", first + "mem_info_vram_used", first + "mem_info_vram_total",
				first + "unique_id", first + "product_name", first + "numa_node", first + "revision",
				first + "hwmon/hwmon4/name", first + "hwmon/hwmon4/temp1_input", first + "hwmon/hwmon4/temp1_label", first + "hwmon/hwmon4/temp1_crit",
				first + "hwmon/hwmon4/power1_average", first + "hwmon/hwmon4/power1_cap", first + "hwmon/hwmon4/freq1_input", first + "ras/umc_err_count",
				"proc/4242/fdinfo/8", "sys/class/kfd/kfd/proc/4242/vram_51140", "sys/class/kfd/kfd/topology/nodes/10/properties",
			} {
				before := tree.Text(file)
				spoil(tree, file)
				spoil(tree, first+"gpu_metrics")
				devicetest.Readings(t, drm.New(&amd.Table, drm.Options{Root: tree.Root(), All: true}))
				tree.Write(file, before)
			}
		})
	}
}

func TestNothingToRead(t *testing.T) {
	tree := drmtest.Lay(t, server)
	d := devices(t, drm.New(&amd.Table, drm.Options{Root: tree.Root()}))[0]
	tree.Remove(first+"mem_info_vram_used", first+"gpu_busy_percent", first+"mem_busy_percent", first+"hwmon")
	var s gpu.Sample
	err := d.Fast(t.Context(), &s)
	if err == nil || errors.Is(err, device.ErrLost) || device.Hint(err) == "" {
		t.Errorf("a card that is there and tells nothing: %v", err)
	}
}

// metrics is a table of revision 1.3 with some throttle bits.
func metrics(bits uint64) []byte {
	table := make([]byte, 120)
	binary.NativeEndian.PutUint16(table, 120)
	table[2], table[3] = 1, 3
	binary.NativeEndian.PutUint64(table[112:], bits)
	return table
}

func TestThrottle(t *testing.T) {
	other := metrics(1)
	other[3] = 4
	for _, c := range []struct {
		name  string
		table []byte
		want  []gpu.ThrottleReason
	}{
		{"nothing", metrics(0), []gpu.ThrottleReason{}},
		{"package power", metrics(1 << 0), []gpu.ThrottleReason{gpu.ThrottlePowerCap}},
		{"hottest spot", metrics(1 << 36), []gpu.ThrottleReason{gpu.ThrottleThermal}},
		{"many", metrics(1<<1 | 1<<16 | 1<<34 | 1<<47 | 1<<57), []gpu.ThrottleReason{
			gpu.ThrottlePowerCap, gpu.ThrottlePowerBrake, gpu.ThrottleThermal, gpu.ThrottleThermalHW, gpu.ThrottleHardware}},
		{"not known", metrics(^uint64(0)), nil},
		{"another revision", other, nil},
		{"cut short", metrics(1)[:119], nil},
		{"empty", nil, nil},
	} {
		if got := amd.ThrottleReasons(c.table); !cmp.Equal(got, c.want) {
			t.Errorf("%s: %#v, want %#v", c.name, got, c.want)
		}
	}
	tree := drmtest.Lay(t, server)
	tree.Write(first+"gpu_metrics", string(metrics(1<<35)))
	if s := fast(t, devices(t, drm.New(&amd.Table, drm.Options{Root: tree.Root()}))[0]); !cmp.Equal(s.Throttle, []gpu.ThrottleReason{gpu.ThrottleThermal}) {
		t.Errorf("a sample has %v", s.Throttle)
	}
}

func FuzzThrottle(f *testing.F) {
	f.Add(metrics(1 << 36))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, table []byte) {
		if reasons := amd.ThrottleReasons(table); len(reasons) > 5 || len(table) < 120 && reasons != nil {
			t.Errorf("%v", reasons)
		}
	})
}

func TestGovernor(t *testing.T) {
	tree := drmtest.Lay(t, desktop)
	d := devices(t, drm.New(&amd.Table, drm.Options{Root: tree.Root()}))[0]
	g := d.(device.Governor)
	limits, err := g.PowerLimits(t.Context())
	if want := (device.PowerLimits{Now: 255, Default: 255, Least: 73.25, Most: 293}); limits != want || err != nil {
		t.Errorf("limits are %+v, %v", limits, err)
	}
	if err := g.SetPowerLimit(t.Context(), 180.5); err != nil || tree.Text(first+"hwmon/hwmon2/power1_cap") != "180500000" {
		t.Errorf("%v: %s", err, tree.Text(first+"hwmon/hwmon2/power1_cap"))
	}
	for _, wrong := range []gpu.Watts{-1, 294} {
		if g.SetPowerLimit(t.Context(), wrong) == nil {
			t.Errorf("%v W were taken", wrong)
		}
	}
	if err := g.SetFan(t.Context(), 60); err != nil || tree.Text(first+"hwmon/hwmon2/pwm1") != "153" || tree.Text(first+"hwmon/hwmon2/pwm1_enable") != "1" {
		t.Errorf("the fan: %v", err)
	}
	if err := g.ReleaseFan(t.Context()); err != nil || tree.Text(first+"hwmon/hwmon2/pwm1_enable") != "2" {
		t.Errorf("the fan is not released: %v", err)
	}
	if g.SetFan(t.Context(), 101) == nil {
		t.Error("a fan runs at 101 %")
	}
	tree.Remove(first+"hwmon/hwmon2/pwm1", first+"hwmon/hwmon2/power1_cap")
	if err := g.SetFan(t.Context(), 60); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("without a fan: %v", err)
	}
	if _, err := g.PowerLimits(t.Context()); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("without a limit: %v", err)
	}
	if os.Geteuid() != 0 {
		tree.Write(first+"hwmon/hwmon2/power1_cap", "1")
		_ = os.Chmod(tree.Path(first+"hwmon/hwmon2/power1_cap"), 0o444)
		if err := g.SetPowerLimit(t.Context(), 200); !errors.Is(err, device.ErrNoPermission) {
			t.Errorf("without permission: %v", err)
		}
	}
}

func TestMeter(t *testing.T) {
	tree := drmtest.Lay(t, server)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	start := now
	d := devices(t, drm.New(&amd.Table, drm.Options{Root: tree.Root(), Now: func() time.Time { return now }}))[1]
	fast(t, d)
	now = now.Add(2 * time.Second)
	for _, fd := range []string{"14", "15"} {
		tree.Write("proc/990/fdinfo/"+fd, "drm-driver: amdgpu\ndrm-client-id: 12\ndrm-pdev: 0000:c3:00.0\ndrm-engine-gfx: 1500000000 ns\n")
	}
	busy, err := d.(device.Meter).Busy(t.Context(), start)
	if err != nil || !busy.From.Equal(start) || !busy.Until.Equal(now) || len(busy.Shares) != 1 || busy.Shares[990] != 25 {
		t.Errorf("%+v, %v", busy, err)
	}
	var slow gpu.Slow
	if err := d.Slow(t.Context(), &slow); err != nil || slow.ProcessUtilization[990] != 25 {
		t.Errorf("%+v, %v", slow, err)
	}
}

func TestDescribeFaults(t *testing.T) {
	for text, want := range map[string]struct {
		class    gpu.FaultClass
		severity gpu.Severity
		pid      int
	}{
		"amdgpu 0000:83:00.0: amdgpu: GPU reset begin!":                                                                              {gpu.FaultDriver, gpu.Warning, 0},
		"amdgpu 0000:83:00.0: amdgpu: GPU reset begin!. Source: 1":                                                                   {gpu.FaultDriver, gpu.Warning, 0},
		"amdgpu 0000:83:00.0: amdgpu: GPU reset(2) succeeded!":                                                                       {gpu.FaultDriver, gpu.Note, 0},
		"amdgpu 0000:83:00.0: amdgpu: GPU reset(2) failed":                                                                           {gpu.FaultDevice, gpu.Serious, 0},
		"amdgpu 0000:83:00.0: amdgpu: GPU reset end with ret = -110":                                                                 {gpu.FaultDevice, gpu.Serious, 0},
		"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3":                           {gpu.FaultProgram, gpu.Warning, 0},
		"[drm:amdgpu_job_timedout [amdgpu]] *ERROR* Process information: process game pid 4711 thread game:cs0 pid 4720":             {gpu.FaultProgram, gpu.Warning, 4711},
		"amdgpu 0000:83:00.0: amdgpu:  for process python3 pid 4242 thread python3 pid 4242":                                         {gpu.FaultProgram, gpu.Warning, 4242},
		"amdgpu 0000:83:00.0: amdgpu: Process information: process GPU resetfailed pid 4711 thread x pid 1 y pid 4720":               {gpu.FaultProgram, gpu.Warning, 4711},
		"amdgpu 0000:83:00.0: amdgpu:  Process GPU reset pid 4711 thread failed pid 4712":                                            {gpu.FaultProgram, gpu.Warning, 4711},
		"amdgpu 0000:83:00.0: amdgpu:  process GPU reset pid 4711 thread failed pid 4712)":                                           {gpu.FaultProgram, gpu.Warning, 4711},
		"amdgpu 0000:83:00.0: amdgpu: Process information: process a pid 7 pid 4711 thread a pid 4711":                               {gpu.FaultProgram, gpu.Warning, 4711},
		"amdgpu 0000:83:00.0: amdgpu: 1 uncorrectable hardware errors detected in umc block":                                         {gpu.FaultDevice, gpu.Serious, 0},
		"amdgpu 0000:83:00.0: amdgpu: device lost from bus!":                                                                         {gpu.FaultDevice, gpu.Serious, 0},
		"amdgpu 0000:83:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block":                                         {},
		"amdgpu 0000:83:00.0: amdgpu: 3 correctable hardware errors detected in umc block, no user action is needed":                 {},
		"amdgpu 0000:83:00.0: amdgpu: ring comp_1.0.0 uses VM inv eng 1 on hub 0":                                                    {},
		"amdgpu 0000:83:00.0: [drm] Cannot find any crtc or sizes":                                                                   {},
		"amdgpu 0000:83:00.0: amdgpu: Fetched VBIOS from ROM BAR":                                                                    {},
		"amdgpu 0000:83:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32771, for process x pid 9 thread x pid 9)": {gpu.FaultProgram, gpu.Warning, 9},
	} {
		f, pid, ok := amd.DescribeFault(text)
		if ok != (want.class != "") || f.Class != want.class || f.Severity != want.severity || pid != want.pid {
			t.Errorf("%s\nis %+v of process %d, want %+v", text, f, pid, want)
		}
	}
}

func TestWatch(t *testing.T) {
	tree := drmtest.Lay(t, server)
	write := tree.Log()
	b := drm.New(&amd.Table, drm.Options{Root: tree.Root()})
	devices(t, b)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := make(chan device.Fault)
	ended := make(chan error, 1)
	go func() { ended <- b.Watch(ctx, func(f device.Fault) { heard <- f }) }()
	for _, entry := range []string{
		"6,1,1,-;usb 1-2: GPU reset begin!\n",
		"3,2,2,-;amdgpu 0000:99:00.0: amdgpu: GPU reset begin!\n DEVICE=+pci:0000:99:00.0\n",                        // a card that berth does not know
		"6,2,2,-;0000:c3:00.0 x[77]: segfault at 0 ip 0 sp 0 error 4 in amdgpu device lost from bus[400000+1000]\n", // a user chose these names
		"3,3,3,-;amdgpu 0000:c3:00.0: amdgpu: GPU reset begin!\n SUBSYSTEM=pci\n DEVICE=+pci:0000:c3:00.0\n",
	} {
		write(entry)
	}
	if f := <-heard; f.GPU != "GPU-001e9c31a7c5fd4b" || f.Class != gpu.FaultDriver || f.Detail["kind"] != "kernel_log" {
		t.Errorf("heard %+v", f)
	}
	write("3,4,4,-;[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout\n DEVICE=+pci:0000:c3:00.0\n")
	if f := <-heard; f.GPU != "GPU-001e9c31a7c5fd4b" || f.Class != gpu.FaultProgram {
		t.Errorf("heard %+v", f)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("at the end: %v", err)
	}
}

func BenchmarkFast(b *testing.B) {
	tree := drmtest.Lay(b, server)
	list, err := drm.New(&amd.Table, drm.Options{Root: tree.Root()}).Scan(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var s gpu.Sample
	b.ReportAllocs()
	for b.Loop() {
		if err := list[0].Fast(b.Context(), &s); err != nil {
			b.Fatal(err)
		}
	}
}
