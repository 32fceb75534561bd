// Package footprint gives back memory of this process that only its start needed.
package footprint

import (
	"debug/elf"
	"errors"
	"fmt"
	"os"
	"runtime/debug"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Shed gives the garbage of the start back to the kernel, and the pages of the program's file
// that are mapped: the code and the tables of what ran once. What runs again is mapped again,
// from memory, at the price of a few faults.
//
// Memory that differs from the file stays: the kernel would read it from the file again.
func Shed() error {
	debug.FreeOSMemory()
	program, err := os.Open("/proc/self/exe")
	if err != nil {
		return err
	}
	defer program.Close()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return err
	}
	parts, err := constant(program)
	if err != nil {
		return err
	}
	name, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	for _, m := range mappings(string(maps), name) {
		if parts.have(m) {
			err = errors.Join(err, drop(m))
		}
	}
	return err
}

// segment is a part of the file that is loaded and that no loader and no program writes to.
type segment struct{ from, to uint64 }

type segments []segment

// constant returns the segments of a program that are loaded without the right to write.
// Segments that become read-only once the loader has filled in addresses are not among them.
func constant(program *os.File) (found segments, err error) {
	file, err := elf.NewFile(program)
	if err != nil {
		return nil, fmt.Errorf("read the program's own file: %w", err)
	}
	for _, p := range file.Progs {
		if p.Type == elf.PT_LOAD && p.Flags&elf.PF_W == 0 {
			found = append(found, segment{p.Off, p.Off + p.Filesz})
		}
	}
	return found, nil
}

// have reports whether a mapping shows nothing but such a segment.
func (s segments) have(m mapping) bool {
	page := uint64(os.Getpagesize())
	for _, one := range s {
		if m.offset >= one.from/page*page && m.offset+(m.to-m.from) <= (one.to+page-1)/page*page {
			return true
		}
	}
	return false
}

// mapping is a line of /proc/self/maps: where a part of a file is in memory.
type mapping struct {
	from, to uint64
	offset   uint64 // in the file
}

// mappings returns where the file of a name is mapped without the right to write.
func mappings(maps, name string) (found []mapping) {
	for line := range strings.Lines(maps) {
		words := strings.Fields(line)
		if !strings.HasSuffix(line, " "+name+"\n") || len(words) < 6 || strings.Contains(words[1], "w") {
			continue
		}
		from, to, _ := strings.Cut(words[0], "-")
		start, first := strconv.ParseUint(from, 16, 64)
		end, second := strconv.ParseUint(to, 16, 64)
		offset, third := strconv.ParseUint(words[2], 16, 64)
		if errors.Join(first, second, third) == nil && start < end {
			found = append(found, mapping{start, end, offset})
		}
	}
	return found
}

// drop tells the kernel that a mapping is not needed now.
func drop(m mapping) error {
	_, _, errno := unix.Syscall(unix.SYS_MADVISE, uintptr(m.from), uintptr(m.to-m.from), unix.MADV_DONTNEED)
	if errno != 0 {
		return fmt.Errorf("give code back to the kernel: %w", errno)
	}
	return nil
}
