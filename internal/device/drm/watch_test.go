package drm_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/amd"
	"github.com/berth-gpu/berth/internal/device/drm"
	"github.com/berth-gpu/berth/internal/device/drm/drmtest"
)

// Without the log, the counters of errors are left to watch.
func TestWatchWithoutALog(t *testing.T) {
	b := drm.New(&amd.Table, drm.Options{Root: drmtest.Lay(t, "../amd/testdata/desktop.txtar").Root()})
	if _, err := b.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := b.Watch(t.Context(), nil); !errors.Is(err, device.ErrUnsupported) {
		t.Errorf("without a log and counters: %v", err)
	}
	tree := drmtest.Lay(t, "../amd/testdata/server.txtar")
	b = drm.New(&amd.Table, drm.Options{Root: tree.Root()})
	if _, err := b.Scan(t.Context()); err != nil {
		t.Fatal(err)
	}
	counts := map[string]int64{}
	var heard []device.Fault
	tell := func(f device.Fault) { heard = append(heard, f) }
	b.Count(counts, tell)
	tree.Write("sys/class/drm/card1/device/ras/umc_err_count", "ue: 2\nce: 3\nde: 0\n")
	b.Count(counts, tell)
	b.Count(counts, tell)
	if len(heard) != 1 || heard[0].GPU != "GPU-a7c5fd4b7a1e9c31" || heard[0].Severity != gpu.Serious || heard[0].Detail["count"] != int64(2) {
		t.Errorf("heard %+v", heard)
	}
}

// A watch may begin before the first card is found. It reads the counters of cards that are
// found later.
func TestWatchBeginsEarly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := drmtest.Lay(t, "../amd/testdata/server.txtar")
		b := drm.New(&amd.Table, drm.Options{Root: tree.Root()})
		ctx, cancel := context.WithCancel(t.Context())
		heard, ended := 0, make(chan error, 1)
		go func() { ended <- b.Watch(ctx, func(device.Fault) { heard++ }) }()
		time.Sleep(time.Minute)
		if _, err := b.Scan(t.Context()); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute)
		tree.Write("sys/class/drm/card1/device/ras/umc_err_count", "ue: 2\nce: 3\nde: 0\n")
		time.Sleep(time.Minute)
		cancel()
		if err := <-ended; heard != 1 || err != nil {
			t.Errorf("heard %d faults, %v", heard, err)
		}
	})
}
