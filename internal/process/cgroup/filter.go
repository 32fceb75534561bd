package cgroup

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// NVIDIA's device files have this major number. The minors up to lastGPU are GPUs; those
// above are control devices, which every program needs.
const (
	nvidiaMajor = 195
	lastGPU     = 247
)

// The offsets in struct bpf_cgroup_dev_ctx, which the kernel passes to a device filter.
const (
	accessField = 0 // the kind of device in its lower half
	majorField  = 4
	minorField  = 8
	charDevice  = 2
)

// instruction is one instruction of BPF, in the form of the kernel.
type instruction struct {
	code      uint8
	registers uint8 // the source in the upper half
	offset    int16
	immediate int32
}

// The instructions that a filter is made of.
const (
	loadWord    = unix.BPF_LDX | unix.BPF_MEM | unix.BPF_W
	and         = unix.BPF_ALU64 | unix.BPF_AND | unix.BPF_K
	move        = unix.BPF_ALU64 | unix.BPF_MOV | unix.BPF_K
	jumpUnless  = unix.BPF_JMP | unix.BPF_JNE | unix.BPF_K
	jumpIf      = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	jumpIfAbove = unix.BPF_JMP | unix.BPF_JGT | unix.BPF_K
	exit        = unix.BPF_JMP | unix.BPF_EXIT
)

// filter returns a program that refuses to open NVIDIA's GPUs, or to make device files
// for them, except those with these minors. It allows everything else: the filters around
// it still apply.
func filter(minors []int) []instruction {
	const verdict, context, value = 0, 1, 2
	field := func(at int16) instruction { return instruction{loadWord, context<<4 | value, at, 0} }
	code := []instruction{
		field(accessField),
		{and, value, 0, 0xffff},
		{jumpUnless, value, 0, charDevice},
		field(majorField),
		{jumpUnless, value, 0, nvidiaMajor},
		field(minorField),
		{jumpIfAbove, value, 0, lastGPU},
	}
	for _, minor := range minors {
		code = append(code, instruction{jumpIf, value, 0, int32(minor)})
	}
	code = append(code,
		instruction{move, verdict, 0, 0},
		instruction{exit, 0, 0, 0},
		instruction{move, verdict, 0, 1},
		instruction{exit, 0, 0, 0},
	)
	allow := len(code) - 2
	for i := range code {
		if c := &code[i]; c.code == jumpUnless || c.code == jumpIf || c.code == jumpIfAbove {
			c.offset = int16(allow - i - 1)
		}
	}
	return code
}

// bytesOf returns the program in the form of the kernel.
func bytesOf(code []instruction) []byte {
	text := make([]byte, 0, 8*len(code))
	for _, i := range code {
		text = append(text, i.code, i.registers)
		text = binary.NativeEndian.AppendUint16(text, uint16(i.offset))
		text = binary.NativeEndian.AppendUint32(text, uint32(i.immediate))
	}
	return text
}

// The commands and constants of bpf(2) that a filter needs.
const (
	bpfLoad, bpfAttach, bpfQuery = 5, 8, 16

	programCgroupDevice = 15
	attachCgroupDevice  = 6
	queryEffective      = 1
)

// bpf calls the kernel. The attributes must be a struct in the layout of the kernel for
// the command.
func bpf[T any](command uintptr, attributes *T) (int, error) {
	got, _, errno := unix.Syscall(unix.SYS_BPF, command, uintptr(unsafe.Pointer(attributes)), unsafe.Sizeof(*attributes))
	if errno != 0 {
		return -1, errno
	}
	return int(got), nil
}

// load loads a program into the kernel and returns its file descriptor. The caller closes
// it; an attached program stays.
func load(code []instruction) (int, error) {
	text, licence := bytesOf(code), []byte("Apache-2.0\x00")
	attributes := struct {
		kind, count    uint32
		text, licence  *byte
		level, size    uint32
		log            uint64
		version, flags uint32
		name           [16]byte
	}{kind: programCgroupDevice, count: uint32(len(code)), text: &text[0], licence: &licence[0], name: [16]byte{'b', 'e', 'r', 't', 'h'}}
	fd, err := bpf(bpfLoad, &attributes)
	if err != nil {
		return -1, fmt.Errorf("load a device filter: %w", err)
	}
	return fd, nil
}

// attach makes the kernel run a program for every use of a device by a process in a
// control group, beside the programs of the groups around it. The program stays when this
// process ends, and goes with the group.
func attach(program, group int) error {
	attributes := struct{ target, program, kind, flags uint32 }{uint32(group), uint32(program), attachCgroupDevice, unix.BPF_F_ALLOW_MULTI}
	if _, err := bpf(bpfAttach, &attributes); err != nil {
		return fmt.Errorf("attach a device filter: %w", err)
	}
	return nil
}

// effective returns the ids of the programs that apply in a control group: its own and
// those of the groups around it.
func effective(group int) ([]uint32, error) {
	ids := make([]uint32, 64) // the kernel allows no more on one level
	attributes := struct {
		target, kind, query, flags uint32
		ids                        *uint32
		count, _                   uint32
	}{target: uint32(group), kind: attachCgroupDevice, query: queryEffective, ids: &ids[0], count: uint32(len(ids))}
	if _, err := bpf(bpfQuery, &attributes); err != nil {
		return nil, fmt.Errorf("ask which device filters count: %w", err)
	}
	return ids[:attributes.count], nil
}

// errLoosens means that a filter in a group would replace one around it. The kernel
// allows that if the outer filter was attached so.
var errLoosens = errors.New("the device filter around it would not count any more")

// attachTo loads a filter for these minors and attaches it to a group. It ensures that
// every filter that applies in the group around it also applies in the group.
func attachTo(inner, outer *os.File, minors []int) error {
	program, err := load(filter(minors))
	if err != nil {
		return err
	}
	defer unix.Close(program)
	before, err := effective(int(outer.Fd()))
	if err != nil {
		return err
	}
	if err := attach(program, int(inner.Fd())); err != nil {
		return err
	}
	after, err := effective(int(inner.Fd()))
	if err != nil {
		return err
	}
	for _, id := range before {
		if !slices.Contains(after, id) {
			return errLoosens
		}
	}
	return nil
}
