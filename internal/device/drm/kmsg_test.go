package drm_test

import (
	"context"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-gpu/berth/internal/device/drm"
	"github.com/berth-gpu/berth/internal/device/drm/drmtest"
)

func TestParseMessages(t *testing.T) {
	got := drm.ParseMessages("3,1200,5140900,-;amdgpu 0000:03:00.0: amdgpu: GPU reset begin!\n SUBSYSTEM=pci\n DEVICE=+pci:0000:03:00.0\n" +
		"6,1201,5140901,-;[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout\n" +
		"6,1202,5140902,c;usb 1-2: new device\n DEVICE=+usb:1-2\nrubbish\n")
	want := []drm.Message{
		{Text: "amdgpu 0000:03:00.0: amdgpu: GPU reset begin!", PCI: "0000:03:00.0"},
		{Text: "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring gfx timeout"},
		{Text: "usb 1-2: new device"},
	}
	if !cmp.Equal(got, want) {
		t.Error(cmp.Diff(want, got))
	}
}

func FuzzParseMessages(f *testing.F) {
	f.Add("3,1200,5140900,-;amdgpu 0000:03:00.0: x\n DEVICE=+pci:0000:03:00.0\n")
	f.Add(" DEVICE=+pci:0000:03:00.0\n;\n;;")
	f.Fuzz(func(t *testing.T, text string) {
		for _, m := range drm.ParseMessages(text) {
			if m.PCI != "" && len(m.PCI) < len("0000:00:00.0") {
				t.Errorf("%+v", m)
			}
		}
	})
}

func TestFollow(t *testing.T) {
	tree := drmtest.Lay(t)
	write := tree.Log()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	heard := make(chan drm.Message)
	ended := make(chan error, 1)
	go func() {
		ended <- drm.Follow(ctx, tree.Root().Log(), func(m drm.Message) { heard <- m })
	}()
	write("6,1,1,-;one\n")
	if m := <-heard; m.Text != "one" {
		t.Errorf("heard %+v", m)
	}
	write("6,1,1,-;two\n")
	if m := <-heard; m.Text != "two" {
		t.Errorf("heard %+v", m)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("at the end: %v", err)
	}
	if err := drm.Follow(ctx, tree.Root().Log(), nil); err != nil {
		t.Errorf("after the end: %v", err)
	}
	if err := drm.Follow(t.Context(), tree.Path("nothing"), nil); !os.IsNotExist(err) {
		t.Errorf("without a log: %v", err)
	}
}
