package check

import (
	"encoding/binary"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

// machine runs the programs for the device one thread after the other, from their
// text: no compiler for them is needed to see that they compute what formula.go
// says. It knows the instructions that the programs use and no others.
type machine struct {
	t      *testing.T
	memory []byte // addresses are distances from its start
}

// run runs a program in so many blocks of so many threads.
func (m *machine) run(name string, blocks, size int, arguments ...uint64) {
	m.t.Helper()
	_, text, found := strings.Cut(kernels, ".entry "+name+"(")
	head, body, _ := strings.Cut(text, ")\n{\n")
	body, _, _ = strings.Cut(body, "\n}\n")
	if !found {
		m.t.Fatalf("there is no program %s", name)
	}
	parameters := map[string]uint64{}
	for i, line := range strings.Split(strings.TrimSpace(head), "\n") {
		word := strings.Fields(strings.TrimSuffix(strings.TrimSpace(line), ","))
		if len(word) != 3 || word[0] != ".param" || word[1] != ".u64" || i >= len(arguments) {
			m.t.Fatalf("parameter %d of %s is %q", i, name, line)
		}
		parameters["["+word[2]+"]"] = arguments[i]
	}
	if len(parameters) != len(arguments) {
		m.t.Fatalf("%s has %d parameters, and got %d", name, len(parameters), len(arguments))
	}
	code, labels, widths := m.parse(body)
	for block := range blocks {
		for thread := range size {
			th := &strand{machine: m, widths: widths, parameters: parameters, registers: map[string]uint64{
				"%ctaid.x": uint64(block), "%tid.x": uint64(thread), "%ntid.x": uint64(size), "%nctaid.x": uint64(blocks),
			}}
			th.run(code, labels)
		}
	}
}

// parse returns the instructions, where the labels point, and how wide each
// register is.
func (m *machine) parse(body string) (code [][]string, labels map[string]int, widths map[string]int) {
	labels, widths = map[string]int{}, map[string]int{"%ctaid.x": 32, "%tid.x": 32, "%ntid.x": 32, "%nctaid.x": 32}
	for _, line := range strings.Split(body, "\n") {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		if label, is := strings.CutSuffix(line, ":"); is {
			labels[label] = len(code)
			continue
		}
		line, ended := strings.CutSuffix(line, ";")
		if !ended {
			m.t.Fatalf("%q does not end with a semicolon", line)
		}
		word := strings.Fields(strings.ReplaceAll(line, ",", " "))
		if word[0] == ".reg" {
			width, ok := map[string]int{".pred": 1, ".b32": 32, ".f32": 32, ".b64": 64, ".f64": 64}[word[1]]
			for _, register := range word[2:] {
				if widths[register] != 0 || !ok {
					m.t.Fatalf("%q declares %s twice, or with a type that is not known", line, register)
				}
				widths[register] = width
			}
			continue
		}
		code = append(code, word)
	}
	return code, labels, widths
}

// strand is one thread.
type strand struct {
	*machine
	widths     map[string]int
	parameters map[string]uint64
	registers  map[string]uint64
}

func (s *strand) run(code [][]string, labels map[string]int) {
	for at, steps := 0, 0; ; steps++ {
		if at >= len(code) || steps > 1<<22 {
			s.t.Fatalf("the program does not end with ret")
		}
		word := code[at]
		at++
		if condition, is := strings.CutPrefix(word[0], "@"); is {
			if s.value(condition, 1) == 0 {
				continue
			}
			word = word[1:]
		}
		switch word[0] {
		case "ret":
			return
		case "bra":
			next, known := labels[word[1]]
			if !known {
				s.t.Fatalf("there is no label %s", word[1])
			}
			at = next
		default:
			s.step(word[0], word[1:])
		}
	}
}

// value returns an operand: a register of the width, or a number.
func (s *strand) value(text string, width int) uint64 {
	if strings.HasPrefix(text, "%") {
		if s.widths[text] != width {
			s.t.Fatalf("%s has %d bits, and the instruction takes %d", text, s.widths[text], width)
		}
		return s.registers[text]
	}
	base, digits := 10, text
	switch {
	case strings.HasPrefix(text, "0f") && len(text) == 10, strings.HasPrefix(text, "0d") && len(text) == 18, strings.HasPrefix(text, "0x"):
		base, digits = 16, text[2:]
	}
	number, err := strconv.ParseUint(digits, base, width)
	if err != nil {
		s.t.Fatalf("operand %s: %v", text, err)
	}
	return number
}

func (s *strand) set(register string, width int, value uint64) {
	if s.widths[register] != width {
		s.t.Fatalf("%s has %d bits, and the instruction gives %d", register, s.widths[register], width)
	}
	if width < 64 {
		value &= 1<<width - 1
	}
	s.registers[register] = value
}

// place returns the address in [%register+distance].
func (s *strand) place(text string) uint64 {
	text = strings.TrimSuffix(strings.TrimPrefix(text, "["), "]")
	register, distance, more := strings.Cut(text, "+")
	at := s.value(register, 64)
	if more {
		n, err := strconv.ParseUint(distance, 10, 32)
		if err != nil {
			s.t.Fatalf("address %s: %v", text, err)
		}
		at += n
	}
	return at
}

// step runs one instruction that does not jump.
func (s *strand) step(name string, o []string) {
	v := func(i, width int) uint64 { return s.value(o[i], width) }
	f := func(i int) float32 { return math.Float32frombits(uint32(v(i, 32))) }
	d := func(i int) float64 { return math.Float64frombits(v(i, 64)) }
	yes := func(b bool) uint64 {
		if b {
			return 1
		}
		return 0
	}
	switch name {
	case "ld.param.u64":
		value, known := s.parameters[o[1]]
		if !known {
			s.t.Fatalf("there is no parameter %s", o[1])
		}
		s.set(o[0], 64, value)
	case "ld.global.u32":
		s.set(o[0], 32, uint64(binary.LittleEndian.Uint32(s.memory[s.place(o[1]):])))
	case "st.global.u32":
		binary.LittleEndian.PutUint32(s.memory[s.place(o[0]):], uint32(v(1, 32)))
	case "st.global.u64":
		binary.LittleEndian.PutUint64(s.memory[s.place(o[0]):], v(1, 64))
	case "atom.global.add.u64":
		at := s.memory[s.place(o[1]):]
		before := binary.LittleEndian.Uint64(at)
		binary.LittleEndian.PutUint64(at, before+v(2, 64))
		s.set(o[0], 64, before)
	case "cvta.to.global.u64", "mov.u64", "mov.b64", "mov.f64":
		s.set(o[0], 64, v(1, 64))
	case "mov.u32", "mov.b32", "mov.f32":
		s.set(o[0], 32, v(1, 32))
	case "cvt.u32.u64":
		s.set(o[0], 32, v(1, 64))
	case "cvt.u64.u32":
		s.set(o[0], 64, v(1, 32))
	case "cvt.rn.f32.u32":
		s.set(o[0], 32, uint64(math.Float32bits(float32(v(1, 32)))))
	case "cvt.f64.f32":
		s.set(o[0], 64, math.Float64bits(float64(f(1))))
	case "mul.wide.u32":
		s.set(o[0], 64, v(1, 32)*v(2, 32))
	case "mul.lo.u32":
		s.set(o[0], 32, v(1, 32)*v(2, 32))
	case "mad.lo.u32":
		s.set(o[0], 32, v(1, 32)*v(2, 32)+v(3, 32))
	case "add.u32":
		s.set(o[0], 32, v(1, 32)+v(2, 32))
	case "add.u64":
		s.set(o[0], 64, v(1, 64)+v(2, 64))
	case "sub.u64":
		s.set(o[0], 64, v(1, 64)-v(2, 64))
	case "xor.b32":
		s.set(o[0], 32, v(1, 32)^v(2, 32))
	case "shr.u32":
		s.set(o[0], 32, v(1, 32)>>v(2, 32))
	case "shr.u64":
		s.set(o[0], 64, v(1, 64)>>v(2, 32))
	case "shl.b64":
		s.set(o[0], 64, v(1, 64)<<v(2, 32))
	case "setp.ge.u64":
		s.set(o[0], 1, yes(v(1, 64) >= v(2, 64)))
	case "setp.ne.u64":
		s.set(o[0], 1, yes(v(1, 64) != v(2, 64)))
	case "setp.eq.u32":
		s.set(o[0], 1, yes(v(1, 32) == v(2, 32)))
	case "mul.rn.f32":
		s.set(o[0], 32, uint64(math.Float32bits(f(1)*f(2))))
	case "fma.rn.f32":
		s.set(o[0], 32, uint64(math.Float32bits(fma32(f(1), f(2), f(3)))))
	case "fma.rn.f64":
		s.set(o[0], 64, math.Float64bits(math.FMA(d(1), d(2), d(3))))
	default:
		s.t.Fatalf("%s is not an instruction that this machine knows", name)
	}
}

func (m *machine) word(at int) uint32 { return binary.LittleEndian.Uint32(m.memory[at:]) }

const reportAt, areaAt = 0, 64 // in the memory of the machine

func TestProgramsFillAndCheck(t *testing.T) {
	for _, p := range append(longPatterns()[:8], pattern{spread, 0x1234}) {
		for _, first := range []uint64{0, 1 << 20, 1<<32 - 30} {
			t.Run(fmt.Sprintf("%x/%x/%x", p.factor, p.mask, first), func(t *testing.T) {
				const words = 100 // no multiple of the threads
				m := &machine{t: t, memory: make([]byte, areaAt+4*words+4)}
				arguments := []uint64{areaAt, words, first, uint64(p.factor), uint64(p.mask)}
				m.run("berth_fill", 3, 8, arguments...)
				for i := range words {
					if got, want := m.word(areaAt+4*i), p.at(first+uint64(i)); got != want {
						t.Fatalf("word %d is %#x; want %#x", i, got, want)
					}
				}
				if m.word(areaAt+4*words) != 0 {
					t.Error("it writes beyond the end")
				}
				report := func() []uint32 {
					m.run("berth_check", 3, 8, append(arguments, reportAt)...)
					var list []uint32
					for i := range reportWords {
						list = append(list, m.word(reportAt+4*i))
					}
					return list
				}
				if wrong := readReport(report()); wrong.Count != 0 {
					t.Errorf("right memory: %+v", wrong)
				}
				m.memory[areaAt+4*77+2] ^= 0x10
				wrong := readReport(report())
				want := p.at(first + 77)
				if wrong.Count != 1 || wrong.At != 4*(first+77) || wrong.Expected != want || wrong.Found != want^0x100000 {
					t.Errorf("one wrong bit: %+v", wrong)
				}
				m.memory[areaAt+4*3] ^= 1
				if again := readReport(report()); again.Count != 3 || again.At != wrong.At {
					t.Errorf("another one: %+v", again)
				}
			})
		}
	}
}

func TestProgramComputes(t *testing.T) {
	const blocks, size, rounds = 2, 16, 50
	for _, seed := range []uint32{1, 2, 0xFFFFFFFF} {
		m := &machine{t: t, memory: make([]byte, areaAt+4*blocks*size)}
		m.run("berth_chain", blocks, size, areaAt, rounds, uint64(seed))
		seen := map[uint32]bool{}
		for i := range blocks * size {
			got, want := m.word(areaAt+4*i), chainOf(uint32(i%size), rounds, seed)
			if got != want {
				t.Fatalf("seed %d, thread %d: %#x; want %#x", seed, i, got, want)
			}
			seen[got] = true
		}
		if len(seen) != size {
			t.Errorf("seed %d: %d values in %d threads", seed, len(seen), size)
		}
	}
}

// The text stays within what every driver since 2020 compiles: plain ASCII, and
// each program under its name.
func TestProgramText(t *testing.T) {
	for _, header := range headers {
		text := header + kernels
		if !strings.HasPrefix(text, ".version ") || !strings.Contains(text, "\n.target sm_") || !strings.Contains(text, "\n.address_size 64\n") {
			t.Errorf("it begins with %q", text[:60])
		}
		for _, r := range text {
			if r > 126 || r < 32 && r != '\n' && r != '\t' {
				t.Fatalf("it has the character %q", r)
			}
		}
		for _, name := range names {
			if strings.Count(text, ".visible .entry "+name+"(") != 1 {
				t.Errorf("%s is not there once", name)
			}
		}
	}
}
