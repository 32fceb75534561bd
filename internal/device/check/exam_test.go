package check

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-gpu/berth/gpu"
	"github.com/berth-gpu/berth/internal/device/cuda"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// bench is a device of Go: its memory is a slice, and its faults are fields.
type bench struct {
	words []uint32 // from address 0 on
	taken uint64   // bytes
	free  uint64   // bytes at the start

	stuck   func(words []uint32)           // spoils memory after each filling
	wrongIn func(words []uint32)           // spoils what is copied in
	wrong   func(words []uint32)           // spoils what is copied out
	astray  func(thread, block int) uint32 // is added to a result of the computation
	fails   map[string]error               // by method
	asked   map[string]int                 // by method
	takes   map[string]time.Duration       // by method, in simulated time
}

func newBench(free gpu.MiB) *bench {
	return &bench{free: uint64(free) << 20, fails: map[string]error{}, asked: map[string]int{}, takes: map[string]time.Duration{
		"fill": time.Second, "wait": time.Second, "copy": 250 * time.Microsecond,
	}}
}

func (b *bench) call(name string) error {
	b.asked[name]++
	time.Sleep(b.takes[name])
	return b.fails[name]
}

func (b *bench) Units() (int, error)   { return 2, b.call("units") }
func (b *bench) Free() (uint64, error) { return b.free - b.taken, b.call("free") }
func (b *bench) Wait() error           { return b.call("wait") }

func (b *bench) Take(bytes uint64) (cuda.Address, error) {
	if err := b.call("take"); err != nil {
		return 0, err
	}
	if b.taken+bytes > b.free {
		return 0, &cuda.Error{Call: "cuMemAlloc", Code: 2, Text: "out of memory"}
	}
	at := b.taken
	b.taken += bytes
	b.words = append(b.words, make([]uint32, bytes/4)...)
	return cuda.Address(at), nil
}

func (b *bench) HostMemory(words int) ([]uint32, error) {
	return make([]uint32, words), b.call("host")
}

func (b *bench) CopyIn(to cuda.Address, from []uint32) error {
	on := b.words[to/4:][:len(from)]
	copy(on, from)
	if b.wrongIn != nil && len(from) > 1 {
		b.wrongIn(on)
	}
	return b.call("copy")
}

func (b *bench) CopyOut(to []uint32, from cuda.Address) error {
	copy(to, b.words[from/4:])
	if b.wrong != nil && len(to) > 1 {
		b.wrong(to)
	}
	return b.call("copy")
}

// write writes a pattern. The race detector would take minutes for all words.
//
//go:norace
func write(words []uint32, first uint64, p pattern) {
	for i := range words {
		words[i] = (uint32(first+uint64(i))+uint32((first+uint64(i))>>32))*p.factor ^ p.mask
	}
}

// read counts the words that do not follow a pattern.
//
//go:norace
func read(words []uint32, first uint64, p pattern) (wrong proof.Wrong) {
	for i, found := range words {
		want := (uint32(first+uint64(i))+uint32((first+uint64(i))>>32))*p.factor ^ p.mask
		if found == want {
			continue
		}
		if wrong.Count == 0 {
			wrong.At, wrong.Expected, wrong.Found = 4*uint64(i), want, found
		}
		wrong.Count++
	}
	return wrong
}

func (b *bench) fill(all []piece, p pattern) error {
	for _, one := range all {
		write(b.words[one.at/4:][:one.words], one.first, p)
	}
	if b.stuck != nil {
		b.stuck(b.words)
	}
	return b.call("fill")
}

func (b *bench) check(all []piece, p pattern) (wrong proof.Wrong, err error) {
	for _, one := range all {
		part := read(b.words[one.at/4:][:one.words], one.first, p)
		if wrong.Count == 0 {
			wrong, wrong.Count = part, 0
			wrong.At += 4 * one.first
		}
		wrong.Count += part.Count
	}
	return wrong, b.call("check")
}

// known holds the results of the computation by seed.
var known = map[uint32][threads]uint32{}

func (b *bench) chain(at cuda.Address, blocks, rounds int, seed uint32) error {
	results, done := known[seed]
	if !done {
		for i := range results {
			results[i] = chainOf(uint32(i), rounds, seed)
		}
		known[seed] = results
	}
	for block := range blocks {
		for thread := range threads {
			result := results[thread]
			if b.astray != nil {
				result += b.astray(thread, block)
			}
			b.words[int(at/4)+block*threads+thread] = result
		}
	}
	return b.call("chain")
}

// instruments are gauges that show what they are told to.
type instruments struct {
	link   proof.Link
	clocks proof.Clocks
	errors []proof.Errors // one reading after the other
}

func (i *instruments) Link() proof.Link     { return i.link }
func (i *instruments) Clocks() proof.Clocks { return i.clocks }
func (i *instruments) Errors() proof.Errors {
	e := i.errors[0]
	i.errors = i.errors[1:]
	return e
}

func goodGauges() *instruments {
	none := proof.Errors{Corrected: gpu.Some(int64(0)), Uncorrected: gpu.Some(int64(0)), Pending: gpu.Some(false)}
	return &instruments{
		// 4 MiB in a quarter of a simulated millisecond are 16.8 GB/s.
		link:   proof.Link{Generation: 3, Width: 16, MostGeneration: 3, MostWidth: 16},
		clocks: proof.Clocks{SM: gpu.Some(gpu.MHz(1900)), Most: gpu.Some(gpu.MHz(1980)), Reasons: []gpu.ThrottleReason{}},
		errors: []proof.Errors{none, none},
	}
}

// small is a check of as little memory as there can be.
func small(kind proof.Kind) proof.Ask {
	return proof.Ask{Verb: proof.Check, Kind: kind, GPU: "GPU-1", Memory: proof.Context + 4}
}

// try runs an exam in simulated time, and returns its result and all that it told.
func try(t *testing.T, b *bench, g Gauges, a proof.Ask) (result proof.Result, told []proof.Step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		started, steps := time.Now(), []proof.Step{}
		on := &examiner{card: b, gauges: g, ask: a, tell: func(s proof.Step) {
			told = append(told, s)
			if s.Verdict != "" {
				steps = append(steps, s)
			}
		}}
		on.run()
		result = proof.Judge(a, steps, time.Since(started))
	})
	return result, told
}

func verdicts(r proof.Result) string {
	var list []string
	for _, s := range r.Steps {
		list = append(list, fmt.Sprintf("%s %s", s.Name, s.Verdict))
	}
	return strings.Join(list, "; ")
}

const allPassed = "memory passed; copy_to_device passed; copy_from_device passed; compute passed; clocks passed; link passed; errors passed"

func TestGoodDevice(t *testing.T) {
	b := newBench(4096)
	r, told := try(t, b, goodGauges(), small(proof.Quick))
	if r.Verdict != proof.Passed || r.Memory != 4 || verdicts(r) != allPassed {
		t.Errorf("%+v", r)
	}
	if r.Took > 20 {
		t.Errorf("a quick check takes %v s", r.Took)
	}
	if b.taken != 4<<20 {
		t.Errorf("it took %d bytes", b.taken)
	}
	running := 0
	for _, s := range told {
		if s.Verdict == "" {
			running++
		}
	}
	if running < len(proof.Steps(proof.Check)) {
		t.Errorf("it told %d times how far it is", running)
	}
}

func TestLongCheck(t *testing.T) {
	b := newBench(4096)
	b.takes["wait"] = 10 * time.Second
	r, told := try(t, b, goodGauges(), small(proof.Long))
	if r.Verdict != proof.Passed || b.asked["fill"] < len(longPatterns()) {
		t.Errorf("%d fillings: %+v", b.asked["fill"], r)
	}
	if r.Took < (longMemory+longCompute).Seconds() || r.Took > small(proof.Long).Limit().Seconds() || len(told) > mostLines/2 {
		t.Errorf("it took %v s and told %d times", r.Took, len(told))
	}
}

// A slow device has fewer patterns in a quick check.
func TestSlowDeviceIsQuickToo(t *testing.T) {
	b := newBench(4096)
	b.takes["fill"] = 4 * time.Second
	r, _ := try(t, b, goodGauges(), small(proof.Quick))
	if r.Verdict != proof.Passed || r.Steps[0].Detail != "4 MiB, 3 patterns" || r.Took > 25 {
		t.Errorf("%+v", r)
	}
}

func TestFaults(t *testing.T) {
	const kept = 1234
	for name, c := range map[string]struct {
		spoil  func(*bench, *instruments, *proof.Ask)
		wants  string // steps that are not as they should be
		reason string
	}{
		"planted": {
			func(_ *bench, _ *instruments, a *proof.Ask) { a.Plant = true }, "memory failed",
			"memory: 1 word of 4 MiB is wrong, the first at byte 0x200000: expected 0x00000000, found 0x00020000",
		},
		"stuck bit": {
			func(b *bench, _ *instruments, _ *proof.Ask) { b.stuck = func(w []uint32) { w[kept] |= 8 } }, "memory failed; copy_from_device failed", "memory: 1 word of 4 MiB is wrong, the first at byte 0x1348: expected 0x00000000, found 0x00000008",
		},
		"an address line": {
			func(b *bench, _ *instruments, _ *proof.Ask) {
				b.stuck = func(w []uint32) { copy(w[len(w)/2:], w[:len(w)/2]) }
			}, "memory failed; copy_from_device failed", "524288 words of 4 MiB are wrong, the first at byte 0x200000",
		},
		"copies in": {
			func(b *bench, _ *instruments, _ *proof.Ask) { b.wrongIn = func(w []uint32) { w[7] ^= 1 } }, "copy_to_device failed", "copy to the device: 1 word is wrong, the first at byte 0x1c",
		},
		"copies out": {
			func(b *bench, _ *instruments, _ *proof.Ask) { b.wrong = func(w []uint32) { w[7] ^= 1 } }, "copy_from_device failed; compute failed; clocks could_not_be_asked", "copy from the device: 1 word is wrong, the first at byte 0x1c",
		},
		"slow link": {
			func(b *bench, _ *instruments, _ *proof.Ask) { b.takes["copy"] = 2500 * time.Microsecond }, "copy_to_device failed; copy_from_device failed", "slow link: 1.7 GB/s of 15.8",
		},
		"narrow link": {
			func(_ *bench, g *instruments, _ *proof.Ask) { g.link.Width = 4 }, "link failed", "link: PCIe generation 3 with 4 lanes; 3 with 16 are possible",
		},
		"one multiprocessor": {
			func(b *bench, _ *instruments, _ *proof.Ask) {
				b.astray = func(thread, block int) uint32 {
					if block == 5 && thread == 3 {
						return 1
					}
					return 0
				}
			}, "compute failed; clocks could_not_be_asked", "compute: 16 results of 65536 are wrong",
		},
		"stuck clock": {
			func(_ *bench, g *instruments, _ *proof.Ask) { g.clocks.SM = gpu.Some(gpu.MHz(210)) }, "clocks failed", "clocks: the clock is stuck: 210 of 1980 MHz",
		},
		"error counters": {
			func(_ *bench, g *instruments, _ *proof.Ask) { g.errors[1].Uncorrected = gpu.Some(int64(2)) }, "errors failed", "memory errors: 2 uncorrected errors came during the check",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b, g, a := newBench(4096), goodGauges(), small(proof.Quick)
			c.spoil(b, g, &a)
			r, _ := try(t, b, g, a)
			if r.Verdict != proof.Failed || !strings.Contains(r.Reason, c.reason) {
				t.Errorf("%s: %s; want %s", r.Verdict, r.Reason, c.reason)
			}
			var not []string
			for _, s := range strings.Split(verdicts(r), "; ") {
				if !strings.HasSuffix(s, " passed") {
					not = append(not, s)
				}
			}
			if got := strings.Join(not, "; "); got != c.wants {
				t.Errorf("%s; want %s", got, c.wants)
			}
		})
	}
}

// A device that breaks is not asked any further; a driver that refuses is.
func TestErrorsOfTheDriver(t *testing.T) {
	broken := &cuda.Error{Call: "cuCtxSynchronize", Code: 719, Text: "unspecified launch failure"}
	refused := &cuda.Error{Call: "cuMemHostAlloc", Code: 801, Text: "operation not supported"}
	for name, c := range map[string]struct {
		method   string
		err      error
		verdict  proof.Verdict
		verdicts string
		reason   string
	}{
		"memory breaks": {"check", broken, proof.Failed, "memory failed", "memory: cuCtxSynchronize: unspecified launch failure (code 719)"},
		"computation breaks": {
			"chain", broken, proof.Failed, "memory passed; copy_to_device passed; copy_from_device passed; compute failed", "compute: cuCtxSynchronize: unspecified launch failure (code 719)",
		},
		"no host memory": {
			"host", refused, proof.Passed,
			"memory passed; copy_to_device could_not_be_asked; copy_from_device could_not_be_asked; compute passed; clocks passed; link could_not_be_asked; errors passed",
			"4 MiB of memory and the computation are right; not asked: copy to the device, copy from the device and link",
		},
		"taking memory breaks": {"take", broken, proof.Failed, "memory failed", "memory: cuCtxSynchronize: unspecified launch failure (code 719)"},
		"nobody says what is free": {
			"free", refused, proof.Unasked,
			"memory could_not_be_asked; copy_to_device could_not_be_asked; copy_from_device could_not_be_asked; compute could_not_be_asked; clocks could_not_be_asked; link could_not_be_asked; errors passed",
			"memory: cuMemHostAlloc: operation not supported (code 801) and compute: cuMemHostAlloc: operation not supported (code 801)",
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(4096)
			b.fails[c.method] = c.err
			r, _ := try(t, b, goodGauges(), small(proof.Quick))
			if r.Verdict != c.verdict || verdicts(r) != c.verdicts || r.Reason != c.reason {
				t.Errorf("%s: %s\n%s", r.Verdict, r.Reason, verdicts(r))
			}
		})
	}
}

func TestHowMuchMemoryItTakes(t *testing.T) {
	for name, c := range map[string]struct {
		free, allowed, takes gpu.MiB
	}{
		"all but the spare part":        {free: 560, takes: 48},
		"no more than it may":           {free: 1024, allowed: proof.Context + 48, takes: 48},
		"no more than is free":          {free: 536, allowed: 100_000, takes: 24},
		"nothing is free":               {free: 500},
		"as good as nothing":            {free: 514},
		"the driver's own part is more": {free: 4096, allowed: 100},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(c.free)
			r, _ := try(t, b, nil, proof.Ask{Verb: proof.Residue, Memory: c.allowed})
			if r.Memory != c.takes || b.taken != uint64(c.takes)<<20 || (r.Verdict == proof.Passed) != (c.takes > 0) {
				t.Errorf("it looked at %s: %s: %s", r.Memory, r.Verdict, r.Reason)
			}
		})
	}
}

// pitted is a device that has no large pieces.
type pitted struct{ *bench }

func (p pitted) Take(bytes uint64) (cuda.Address, error) {
	if bytes > 24<<20 {
		return 0, &cuda.Error{Call: "cuMemAlloc", Code: 2, Text: "out of memory"}
	}
	return p.bench.Take(bytes)
}

func TestMemoryInPieces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(4096)
		on := &examiner{card: pitted{b}, ask: proof.Ask{Verb: proof.Scrub, Memory: proof.Context + 40, Plant: true}, tell: func(proof.Step) {}}
		if err := on.take(); err != nil || on.memory != 40 || len(on.pieces) != 2 {
			t.Fatalf("%d pieces, %s: %v", len(on.pieces), on.memory, err)
		}
		wrong, err := on.pass(pattern{factor: spread}, true)
		if err != nil || wrong.Count != 1 || wrong.At != 20<<20 {
			t.Errorf("planted in the middle of the pieces: %+v, %v", wrong, err)
		}
	})
}

func TestResidueAndScrub(t *testing.T) {
	b := newBench(544)
	b.stuck = func(w []uint32) { w[9] = 1 }
	empty := func() { b.words, b.taken = nil, 0 }
	r, _ := try(t, b, nil, proof.Ask{Verb: proof.Scrub})
	if r.Verdict != proof.Failed || r.Left != 4 {
		t.Errorf("memory that cannot be overwritten: %+v", r)
	}
	empty()
	b.stuck = nil
	left := &leaving{b}
	r, _ = tryCard(t, left, proof.Ask{Verb: proof.Residue})
	if r.Verdict != proof.Failed || r.Left != 12 || !strings.Contains(r.Reason, "12 bytes of 32 MiB") {
		t.Errorf("memory that holds something: %+v", r)
	}
	empty()
	if r, _ := tryCard(t, b, proof.Ask{Verb: proof.Residue, Plant: true}); r.Verdict != proof.Failed || r.Left != 4 {
		t.Errorf("planted: %+v", r)
	}
	empty()
	r, _ = tryCard(t, left, proof.Ask{Verb: proof.Scrub})
	if r.Verdict != proof.Passed || r.Left != 0 || r.Memory != 32 {
		t.Errorf("memory that is overwritten: %+v", r)
	}
}

// leaving is a device whose driver gives out memory as it was left.
type leaving struct{ *bench }

func (l *leaving) Take(bytes uint64) (cuda.Address, error) {
	at, err := l.bench.Take(bytes)
	if err == nil {
		copy(l.words[at/4:], []uint32{0xdead, 0, 0xbeef, 1})
	}
	return at, err
}

func tryCard(t *testing.T, c Card, a proof.Ask) (result proof.Result, steps []proof.Step) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		(&examiner{card: c, ask: a, tell: func(s proof.Step) {
			if s.Verdict != "" {
				steps = append(steps, s)
			}
		}}).run()
	})
	return proof.Judge(a, steps, 0), steps
}

// served runs a process of its own, but for the process, and returns its lines.
func served(t *testing.T, ask string, open func() (Card, error)) (lines []Line, err error) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		read, write := io.Pipe()
		go func() { _, _ = io.WriteString(write, ask) }()
		gone := make(chan struct{})
		var out bytes.Buffer
		err = Process{In: read, Out: &out, Gone: func() { close(gone) }, Open: open, Gauges: func(string) Gauges { return nil }}.Serve()
		_ = write.Close()
		if err == nil {
			<-gone // it sees that whoever asked has gone
		}
		for scan := bufio.NewScanner(&out); scan.Scan(); {
			var line Line
			if err := json.Unmarshal(scan.Bytes(), &line); err != nil || len(scan.Bytes()) > mostLine {
				t.Errorf("%s: %v", scan.Bytes(), err)
			}
			lines = append(lines, line)
		}
	})
	return lines, err
}

func TestServe(t *testing.T) {
	open := func() (Card, error) { return newBench(544), nil }
	lines, err := served(t, `{"verb":"residue","gpu":"GPU-1"}`+"\n", open)
	if err != nil || len(lines) != 4 || !lines[0].Opened || lines[2].Step.Verdict != proof.Passed || !lines[3].Done {
		t.Errorf("%+v, %v", lines, err)
	}
	lines, err = served(t, `{"verb":"dance","gpu":"GPU-1"}`+"\n", open)
	if err != nil || len(lines) != 1 || lines[0].Unable != "this version of berth does not know how to dance" {
		t.Errorf("%+v, %v", lines, err)
	}
	missing := fmt.Errorf("%w: libcuda.so.1: no such file", cuda.ErrNoLibrary)
	lines, err = served(t, `{"verb":"check"}`+"\n", func() (Card, error) { return nil, missing })
	if err != nil || len(lines) != 1 || lines[0].Unable != missing.Error() {
		t.Errorf("%+v, %v", lines, err)
	}
	for _, nonsense := range []string{"nonsense\n", strings.Repeat("x", 2*mostLine)} {
		if lines, err := served(t, nonsense, open); err == nil || len(lines) > 0 {
			t.Errorf("%.20q: %+v", nonsense, lines)
		}
	}
}

// Without a driver, opening a device is an error and not a crash.
func TestOpenWithoutADriver(t *testing.T) {
	if _, err := OpenCard(); err == nil {
		t.Skip("this machine has an NVIDIA driver")
	} else if !errors.Is(err, cuda.ErrNoLibrary) {
		t.Logf("there is a driver, and it says: %v", err)
	}
}
