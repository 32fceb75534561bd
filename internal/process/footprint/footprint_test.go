package footprint

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

const lines = `55e000000000-55e000001000 r--p 00000000 fe:00 9 /usr/bin/berth-serve
55e000001000-55e000003000 r-xp 00001000 fe:00 9 /usr/bin/berth-serve
55e000003000-55e000004000 r--p 00003000 fe:00 9 /usr/bin/berth-serve
55e000004000-55e000005000 rw-p 00004000 fe:00 9 /usr/bin/berth-serve
7f0000000000-7f0000001000 r-xp 00000000 fe:00 3 /usr/lib/libc.so.6
7f0000002000-7f0000003000 r--p 00001000 fe:00 9 /usr/bin/berth-serve (deleted)
7f0000004000-7f0000004000 r--p 00001000 fe:00 9 /usr/bin/berth-serve
7f0000005000-7f0000006000 rw-p 00000000 00:00 0
`

// What the loader wrote to before it was read-only is not given back: the program would find
// the file there, without its addresses.
func TestOnlyConstantPartsAreGivenBack(t *testing.T) {
	parts := segments{{0, 0xff0}, {0x1000, 0x2f00}} // the rest may be written to
	var given []uint64
	for _, m := range mappings(lines, "/usr/bin/berth-serve") {
		if parts.have(m) {
			given = append(given, m.from)
		}
	}
	if want := []uint64{0x55e000000000, 0x55e000001000}; !slices.Equal(given, want) {
		t.Errorf("%x are given back, want %x", given, want)
	}
}

// A program works after it has given its code back, and twice is no mistake.
func TestShed(t *testing.T) {
	for range 2 {
		if err := Shed(); err != nil {
			t.Fatal(err)
		}
	}
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	parts, err := constant(program)
	if err != nil || len(parts) == 0 {
		t.Errorf("%v, %v", parts, err)
	}
}

func TestNoProgram(t *testing.T) {
	path := filepath.Join(t.TempDir(), "text")
	if err := os.WriteFile(path, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if parts, err := constant(file); err == nil {
		t.Errorf("%v", parts)
	}
}
