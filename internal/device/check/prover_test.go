package check

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device"
	"github.com/berth-gpu/berth/internal/device/proof"
	"github.com/berth-gpu/berth/internal/process"
)

// The test program is its own helper process.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "fake" && os.Args[2] == "parking" {
		helperForParking()
		os.Exit(0)
	}
	if len(os.Args) > 5 && os.Args[2] == "daemon" {
		daemonForParking(os.Args[3], os.Args[4], os.Args[5])
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == "fake" {
		fake(os.Args[2])
		os.Exit(0)
	}
	os.Exit(run(m))
}

func run(m *testing.M) int {
	var err error
	if libraries, err = os.MkdirTemp("", "libraries"); err == nil {
		defer os.RemoveAll(libraries)
		err = buildLibraries()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

const opened = `{"opened":true}` + "\n"

// passes are the lines of a check that passes.
const passes = opened + `{"step":{"name":"memory"}}
{"step":{"name":"memory","verdict":"passed","memory_mb":1024,"took_seconds":1}}
{"step":{"name":"compute","verdict":"passed"}}
{"done":true}
`

// fake behaves as a helper process might.
func fake(how string) {
	var ask proof.Ask
	in := bufio.NewReader(os.Stdin)
	line, _ := in.ReadBytes('\n')
	if err := json.Unmarshal(line, &ask); err != nil {
		fmt.Println(`{"unable":"the ask cannot be read"}`)
		return
	}
	say := func(text string) { _, _ = os.Stdout.WriteString(text) }
	untilEnd := func() { _, _ = in.ReadBytes(0) } // the input ends when the daemon is done with us
	die := func(s syscall.Signal) {
		_ = syscall.Kill(os.Getpid(), s)
		select {}
	}
	if strings.HasPrefix(how, "park ") {
		fakeParking(how, in, say)
		return
	}
	switch how {
	case "good":
		say(passes)
		untilEnd()
	case "echo": // tells what it was given
		sid, _, _ := syscall.Syscall(syscall.SYS_GETSID, 0, 0, 0)
		environ := os.Environ()
		slices.Sort(environ)
		detail, _ := json.Marshal(fmt.Sprintf("%+v %t %s", ask, int(sid) == os.Getpid(), strings.Join(environ, " ")))
		say(`{"step":{"name":"memory","verdict":"failed","detail":` + string(detail) + `}}` + "\n" + `{"done":true}` + "\n")
	case "hangs":
		select {}
	case "hangs open":
		say(opened + `{"step":{"name":"memory"}}` + "\n")
		select {}
	case "crashes":
		_, _ = os.Stderr.WriteString("fatal error: unexpected signal\n")
		os.Exit(2)
	case "crashes open":
		say(opened)
		_, _ = os.Stderr.WriteString("fatal error: unexpected signal\n")
		os.Exit(2)
	case "dies open":
		say(opened)
		die(syscall.SIGABRT)
	case "is killed":
		say(opened + `{"step":{"name":"memory","verdict":"passed"}}` + "\n")
		die(syscall.SIGKILL)
	case "finds an error and crashes":
		say(opened + `{"step":{"name":"memory","verdict":"failed","detail":"1 word is wrong"}}` + "\n")
		os.Exit(2)
	case "nonsense":
		say(opened + "all is well\n")
		untilEnd()
	case "floods":
		for {
			if _, err := os.Stdout.WriteString(`{"step":{"name":"memory","done":5}}` + "\n"); err != nil {
				return
			}
		}
	case "one long line":
		say(strings.Repeat("x", 1<<20))
		untilEnd()
	case "unable":
		say(`{"unable":"there is no driver\u001b[31m"}` + "\n")
	case "leaves early":
		say(opened + `{"step":{"name":"memory","verdict":"passed"}}` + "\n")
	case "other steps":
		say(opened + `{"step":{"name":"weather","verdict":"passed"}}` + "\n" + `{"step":{"name":"memory","verdict":"splendid"}}` + "\n" + `{"park":true}` + "\n" + `{"done":true}` + "\n")
	case "stays":
		say(passes)
		select {}
	}
}

var card = gpu.Device{UUID: "GPU-1", Vendor: gpu.NVIDIA}

func fakes(how string) *Prover { return &Prover{Command: []string{"fake helper", "fake", how}} }

func TestHelperProcesses(t *testing.T) {
	t.Parallel()
	for how, c := range map[string]struct {
		verdict proof.Verdict
		reason  string
		steps   int
	}{
		"good":                       {proof.Passed, "1 GiB of memory and the computation are right", 2},
		"crashes":                    {proof.Unasked, "the helper process ended: exit status 2: fatal error: unexpected signal", 0},
		"crashes open":               {proof.Failed, "the helper process ended: exit status 2: fatal error: unexpected signal", 0},
		"dies open":                  {proof.Failed, "the helper process ended: exit status 2: SIGABRT: abort", 0},
		"is killed":                  {proof.Unasked, "the helper process ended: signal: killed", 1},
		"finds an error and crashes": {proof.Failed, "memory: 1 word is wrong; then the helper process ended: exit status 2", 1},
		"nonsense":                   {proof.Unasked, "the helper process failed: it wrote what is no answer: all is well", 0},
		"floods":                     {proof.Unasked, "the helper process failed: it wrote without end", 0},
		"one long line":              {proof.Unasked, "the helper process failed: it wrote what is no answer: xxxx", 0},
		"unable":                     {proof.Unasked, "there is no driver\uFFFD[31m", 0},
		"leaves early":               {proof.Failed, "the helper process ended: exit status 0", 1},
		"other steps":                {proof.Unasked, "memory: not tried and compute: not tried", 0},
	} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := fakes(how)
			var r proof.Result
			var err error
			for range 2 { // the device is free again
				r, err = p.Prove(t.Context(), card, proof.Ask{Verb: proof.Check, Kind: proof.Quick}, func(proof.Step) {})
			}
			if err != nil || r.Verdict != c.verdict || !strings.HasPrefix(r.Reason, c.reason) || len(r.Steps) != c.steps || r.GPU != "GPU-1" {
				t.Errorf("%+v, %v; want %s: %s", r, err, c.verdict, c.reason)
			}
		})
	}
}

// A helper process that hangs is killed. Once it has opened the device, that
// counts against the device.
func TestHang(t *testing.T) {
	t.Parallel()
	for how, verdict := range map[string]proof.Verdict{"hangs": proof.Unasked, "hangs open": proof.Failed} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			p := fakes(how)
			enough := make(chan time.Time, 1)
			p.after = func(d time.Duration) <-chan time.Time {
				if d == quiet {
					return enough
				}
				return nil
			}
			if how == "hangs" {
				enough <- time.Time{}
			}
			r, err := p.Prove(t.Context(), card, proof.Ask{Verb: proof.Check}, func(proof.Step) { enough <- time.Time{} })
			if err != nil || r.Verdict != verdict || r.Reason != "the helper process hung: it said nothing for 60 s" {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
}

// A helper process that has said all and does not end is killed.
func TestStaying(t *testing.T) {
	t.Parallel()
	p := fakes("stays")
	p.after = func(d time.Duration) <-chan time.Time {
		enough := make(chan time.Time, 1)
		if d == teardown {
			enough <- time.Time{}
		}
		return enough
	}
	r, err := p.Prove(t.Context(), card, proof.Ask{Verb: proof.Check}, func(proof.Step) {})
	if err != nil || r.Verdict != proof.Passed {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestStop(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	p := fakes("hangs open")
	busy := make(chan error, 1)
	var seen process.ID
	r, err := p.Prove(ctx, card, proof.Ask{Verb: proof.Check}, func(proof.Step) {
		_, err := p.Prove(ctx, card, proof.Ask{Verb: proof.Check}, nil)
		busy <- err
		p.mu.Lock()
		seen = p.running["GPU-1"]
		p.mu.Unlock()
		if !p.Serves([]process.ID{{PID: 1}, seen}) || p.Serves([]process.ID{{PID: 1}, {}}) {
			t.Error("it does not know its helper process")
		}
		cancel()
	})
	if err != nil || r.Verdict != proof.Unasked || r.Reason != "it was stopped" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := <-busy; !errors.Is(err, ErrBusy) {
		t.Errorf("a second one on the same device: %v", err)
	}
	if process.Proc().Alive(seen) {
		t.Error("the helper process is alive")
	}
	if _, err := p.Prove(ctx, card, proof.Ask{}, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("after its end: %v", err)
	}
}

func TestHelperGetsWhatItNeeds(t *testing.T) {
	t.Setenv("BERTH_SECRET", "not for helpers")
	p := fakes("echo")
	r, err := p.Prove(t.Context(), card, proof.Ask{Verb: proof.Check, Memory: 4096, Lease: "check-1", Fence: 7}, func(proof.Step) {})
	if err != nil || len(r.Steps) != 1 {
		t.Fatalf("%+v, %v", r, err)
	}
	said := r.Steps[0].Detail
	if !strings.Contains(said, "GPU:GPU-1 Memory:4 GiB") || !strings.Contains(said, " true BERTH_FENCE=7 BERTH_LEASE=check-1 CUDA_CACHE_DISABLE=1") || strings.Contains(said, "SECRET") {
		t.Errorf("it was given %s", said)
	}
	list := strings.Join(environ(proof.Ask{GPU: "GPU-1"}), " ")
	if !strings.Contains(list, "CUDA_VISIBLE_DEVICES=GPU-1") || strings.Contains(list, "BERTH_LEASE") || strings.Contains(list, "SECRET") {
		t.Errorf("its environment is %s", list)
	}
}

func TestDevicesWithoutAHelper(t *testing.T) {
	p := &Prover{Command: []string{"never"}}
	for name, d := range map[string]gpu.Device{
		"berth has no check for devices of this vendor":     {UUID: "a", Vendor: gpu.AMD},
		"the device is cut into MIG instances; check those": {UUID: "b", Vendor: gpu.NVIDIA, Instances: []string{"MIG-1"}},
	} {
		for range 2 { // it is not busy afterwards
			r, err := p.Prove(t.Context(), d, proof.Ask{Verb: proof.Check}, nil)
			if err != nil || r.Verdict != proof.Unasked || r.Reason != name {
				t.Errorf("%+v, %v", r, err)
			}
		}
	}
}

// simulated is a device that answers by itself.
type simulated struct {
	device.Device
	steps  []proof.Step
	unable string
	err    error
}

func (s *simulated) Examine(context.Context, proof.Ask) ([]proof.Step, string, error) {
	return s.steps, s.unable, s.err
}

// rack has one device.
type rack struct{ device.Device }

func (r rack) Do(ctx context.Context, _ string, do func(context.Context, device.Device) error) error {
	return do(ctx, r.Device)
}

func TestSimulatedDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, ask := gpu.Device{UUID: "SIM-1", Vendor: gpu.Simulated}, proof.Ask{Verb: proof.Check}
		memory, compute := proof.Memory(1024, 6, proof.Wrong{}), proof.Compute(10, proof.Wrong{Count: 1})
		memory.Took, compute.Took = 30, 10
		p := &Prover{Devices: rack{&simulated{steps: []proof.Step{memory, compute}}}}
		started, told := time.Now(), 0
		r, err := p.Prove(t.Context(), d, ask, func(s proof.Step) {
			if told++; s.Name == proof.StepCompute && s.Verdict == "" && time.Since(started) != 30*time.Second {
				t.Errorf("after %v", time.Since(started))
			}
		})
		if err != nil || r.Verdict != proof.Failed || r.Took != 40 || told != 4 {
			t.Errorf("%+v, %v, told %d times", r, err, told)
		}

		ctx, cancel := context.WithTimeout(t.Context(), 35*time.Second)
		defer cancel()
		r, err = p.Prove(ctx, d, ask, func(proof.Step) {})
		if err != nil || r.Verdict != proof.Unasked || r.Reason != "it was stopped" || len(r.Steps) != 1 {
			t.Errorf("stopped: %+v, %v", r, err)
		}

		p.Devices = rack{&simulated{unable: "the scenario says so"}}
		if r, err := p.Prove(t.Context(), d, ask, nil); err != nil || r.Verdict != proof.Unasked || r.Reason != "the scenario says so" {
			t.Errorf("unable: %+v, %v", r, err)
		}
		p.Devices = rack{&simulated{err: device.ErrHung}}
		if r, err := p.Prove(t.Context(), d, ask, nil); err != nil || r.Verdict != proof.Unasked || r.Reason != device.ErrHung.Error() {
			t.Errorf("hung: %+v, %v", r, err)
		}
	})
}
