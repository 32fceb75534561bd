package cuda_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/device/cuda"
)

// A machine without a driver gets an error, and no crash.
func TestWithoutALibrary(t *testing.T) {
	err := cuda.Load("libberth-does-not-exist.so.1")
	if !errors.Is(err, cuda.ErrNoLibrary) || !strings.Contains(err.Error(), "libberth-does-not-exist.so.1") {
		t.Errorf("%v", err)
	}
	err = cuda.Load("libc.so.6")
	if !errors.Is(err, cuda.ErrNoLibrary) || !strings.Contains(err.Error(), "libc.so.6 has no function cuInit") {
		t.Errorf("with another library: %v", err)
	}
	refused := (*cuda.Error)(nil)
	if _, err := cuda.Open(); !errors.As(err, &refused) || refused.Broken() || refused.Full() {
		t.Errorf("opening a device without a library: %v", err)
	}
}

func TestErrors(t *testing.T) {
	for code, want := range map[int]struct{ broken, full, uncompiled bool }{
		2:   {full: true},
		46:  {}, // in use exclusively
		100: {}, // no device
		214: {broken: true},
		218: {uncompiled: true},
		222: {uncompiled: true},
		719: {broken: true},
		801: {}, // not supported
		999: {},
	} {
		e := &cuda.Error{Call: "cuCall", Code: code, Text: "words"}
		if e.Broken() != want.broken || e.Full() != want.full || e.Uncompiled() != want.uncompiled {
			t.Errorf("code %d: broken %t, full %t, uncompiled %t", code, e.Broken(), e.Full(), e.Uncompiled())
		}
	}
	if got := (&cuda.Error{Call: "cuInit", Code: 100, Text: "no device"}).Error(); got != "cuInit: no device (code 100)" {
		t.Error(got)
	}
}
