package sim_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// examine asks a device, and judges what it says.
func examine(t *testing.T, d device.Device, a proof.Ask) proof.Result {
	t.Helper()
	steps, unable, err := d.(device.Examinee).Examine(t.Context(), a)
	switch {
	case err != nil:
		t.Fatal(err)
	case unable != "":
		return proof.Unable(a, steps, unable, 0)
	}
	return proof.Judge(a, steps, 0)
}

func TestExamine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		devices := scan(t, open(t, scenario(t, `
devices: [{model: h200}, {model: rtx-4060}]
speed: 10
timeline:
  - {at: 100s, for: 100s, device: 0, check: {fails: memory, takes: 70s}}
  - {at: 200s, for: 100s, device: 0, check: {fails: [copy_to_device, copy_from_device, compute, clocks, link, errors]}}
  - {at: 300s, for: 100s, device: 0, check: {unable: nobody answers}}
  - {device: 0, process: {pid: 5000000, memory_mb: 100GiB}}
`)))
		check, small := proof.Ask{Verb: proof.Check}, proof.Ask{Verb: proof.Check, Memory: proof.Context + 1024}
		good := examine(t, devices[0], check)
		if free := fast(t, devices[0]).MemoryFree.Or(0); good.Verdict != proof.Passed || good.Memory != free-proof.Spare {
			t.Errorf("%+v with %s free", good, free)
		}
		if r := examine(t, devices[0], small); r.Memory != 1024 {
			t.Errorf("it tests %s", r.Memory)
		}
		if r := examine(t, devices[1], check); r.Verdict != proof.Passed || !strings.HasSuffix(r.Reason, "not asked: memory errors") {
			t.Errorf("without ECC: %+v", r)
		}
		if r := examine(t, devices[0], proof.Ask{Verb: proof.Check, Plant: true}); r.Verdict != proof.Failed {
			t.Errorf("planted: %+v", r)
		}

		time.Sleep(10 * time.Second)
		bad := examine(t, devices[0], check)
		if bad.Verdict != proof.Failed || !strings.HasPrefix(bad.Reason, "memory: 1 word of ") {
			t.Errorf("%+v", bad)
		}
		took := 0.0
		for _, s := range bad.Steps {
			took += s.Took
		}
		if took < 6.99 || took > 7.01 {
			t.Errorf("it takes %v s at ten times the speed", took)
		}
		time.Sleep(10 * time.Second)
		failed := 0
		for _, s := range examine(t, devices[0], check).Steps {
			if s.Verdict == proof.Failed {
				failed++
			}
		}
		if failed != 6 {
			t.Errorf("%d steps fail", failed)
		}
		time.Sleep(10 * time.Second)
		if r := examine(t, devices[0], check); r.Verdict != proof.Unasked || r.Reason != "nobody answers" {
			t.Errorf("%+v", r)
		}
		time.Sleep(10 * time.Second)
		if r := examine(t, devices[0], check); r.Verdict != proof.Passed {
			t.Errorf("afterwards: %+v", r)
		}
	})
}

func TestResidueIsScrubbed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		devices := scan(t, open(t, scenario(t, `
devices: h200
timeline:
  - {at: 10s, for: 10s, repeat: 60s, device: 0, check: {residue_mb: 3}}
  - {at: 200s, device: 0, lost: true}
`)))
		left := func() int64 { return examine(t, devices[0], proof.Ask{Verb: proof.Residue}).Left }
		scrub := func() proof.Result { return examine(t, devices[0], proof.Ask{Verb: proof.Scrub}) }
		if r := scrub(); r.Verdict != proof.Passed || r.Memory < 100*1024 || left() != 0 {
			t.Errorf("%+v", r)
		}
		time.Sleep(10 * time.Second)
		if left() != int64(gpu.MiB(3))<<20 {
			t.Errorf("%d bytes are left", left())
		}
		if r := scrub(); r.Verdict != proof.Passed || left() != 0 {
			t.Errorf("%+v, %d bytes are left", r, left())
		}
		time.Sleep(60 * time.Second)
		if left() == 0 {
			t.Error("nothing is left by the next program")
		}
		time.Sleep(200 * time.Second)
		if _, _, err := devices[0].(device.Examinee).Examine(t.Context(), proof.Ask{Verb: proof.Check}); !errors.Is(err, device.ErrLost) {
			t.Errorf("a lost device: %v", err)
		}
	})
}
