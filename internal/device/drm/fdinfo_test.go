package drm_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/drm"
)

func TestParseClient(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       drm.Client
		no         bool
	}{
		{"amdgpu, an older kernel", "pos:\t0\ndrm-driver:\tamdgpu\ndrm-client-id:\t3\ndrm-pdev:\t0000:0A:00.0\ndrm-memory-vram:\t2048 KiB\ndrm-engine-gfx:\t17 ns\n",
			drm.Client{ID: 3, Driver: "amdgpu", PCI: "0000:0a:00.0", Memory: 2 << 20, Counted: true, Engines: map[string]drm.Engine{"gfx": {Busy: 17}}}, false},
		{"resident before total", "drm-driver: amdgpu\ndrm-client-id: 3\ndrm-total-vram: 9 MiB\ndrm-resident-vram: 4 MiB\ndrm-memory-vram: 5 MiB\n",
			drm.Client{ID: 3, Driver: "amdgpu", Memory: 4 << 20, Counted: true}, false},
		{"regions add up, without a unit it is bytes", "drm-driver: i915\ndrm-client-id: 3\ndrm-total-local0: 1024\ndrm-total-local1: 1024\ndrm-total-system0: 7 MiB\n",
			drm.Client{ID: 3, Driver: "i915", Memory: 2048, Counted: true}, false},
		{"cycles", "drm-driver: xe\ndrm-client-id: 3\ndrm-cycles-ccs: 5\ndrm-total-cycles-ccs: 10\ndrm-engine-capacity-ccs: 2\n",
			drm.Client{ID: 3, Driver: "xe", Engines: map[string]drm.Engine{"ccs": {Busy: 5, Total: 10, Capacity: 2}}}, false},
		{"not counted is not nothing", "drm-driver: xe\ndrm-client-id: 3\n", drm.Client{ID: 3, Driver: "xe"}, false},
		{"garbage in numbers", "drm-driver: xe\ndrm-client-id: 3\ndrm-total-vram0: -4 KiB\ndrm-resident-vram0: many\ndrm-memory-vram0: 1 PiB\ndrm-engine-rcs: x\n",
			drm.Client{ID: 3, Driver: "xe"}, false},
		{"too much", "drm-driver: xe\ndrm-client-id: 3\ndrm-total-vram0: 18446744073709551615 GiB\n", drm.Client{ID: 3, Driver: "xe"}, false},
		{"another file", "pos:\t0\nflags:\t02\neventfd-count: 0\n", drm.Client{}, true},
		{"no client", "drm-driver: amdgpu\ndrm-client-id: x\n", drm.Client{}, true},
		{"empty", "", drm.Client{}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := drm.ParseClient([]byte(c.text))
			if ok == c.no {
				t.Fatalf("is a client: %v", ok)
			}
			if c.want.Engines == nil {
				c.want.Engines = map[string]drm.Engine{}
			}
			if ok && !cmp.Equal(got, c.want) {
				t.Error(cmp.Diff(c.want, got))
			}
		})
	}
}

func TestWhoComputes(t *testing.T) {
	for engines, want := range map[string]bool{
		"": true, "gfx:5": false, "compute:5": true, "gfx:5 compute:5": true, "render:1": false, "ccs:1": true, "gfx:0 video:5": true,
	} {
		text := "drm-driver: x\ndrm-client-id: 1\n"
		for _, e := range strings.Fields(engines) {
			text += "drm-engine-" + strings.Replace(e, ":", ": ", 1) + " ns\n"
		}
		if c, _ := drm.ParseClient([]byte(text)); c.Computes() != want {
			t.Errorf("%q computes: %v, want %v", engines, !want, want)
		}
	}
}

func FuzzParseClient(f *testing.F) {
	f.Add([]byte("drm-driver:\tamdgpu\ndrm-client-id:\t3\ndrm-pdev:\t0000:0a:00.0\ndrm-memory-vram:\t2048 KiB\ndrm-engine-gfx:\t17 ns\n"))
	f.Add([]byte("drm-driver: xe\ndrm-client-id: 3\ndrm-cycles-ccs: 5\ndrm-total-cycles-ccs: 10\ndrm-total-vram0: 1 GiB\ndrm-total-vram1: 8589934591 GiB\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		c, ok := drm.ParseClient(text)
		if !ok {
			return
		}
		list := drm.Processes([]drm.Used{{PID: 1, Clients: []drm.Client{c, c}}})
		if memory, known := list[0].Memory.Get(); known != c.Counted || memory < 0 {
			t.Errorf("%+v of %+v", list, c)
		}
		if c.Driver == "" || list[0].Kind == gpu.ProcessKind("") {
			t.Errorf("a client without a driver or a kind: %+v", c)
		}
	})
}
