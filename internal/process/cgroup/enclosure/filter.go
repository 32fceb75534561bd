package enclosure

import (
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/cilium/ebpf"
	"github.com/cilium/ebpf/asm"
	"github.com/cilium/ebpf/link"
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

// filter returns a program that refuses to open NVIDIA's GPUs, or to make device files
// for them, except those with these minors. It allows everything else: the filters around
// it still apply.
func filter(minors []int) asm.Instructions {
	const verdict, context, value = asm.R0, asm.R1, asm.R2
	code := asm.Instructions{
		asm.LoadMem(value, context, accessField, asm.Word),
		asm.And.Imm(value, 0xffff),
		asm.JNE.Imm(value, charDevice, "allow"),
		asm.LoadMem(value, context, majorField, asm.Word),
		asm.JNE.Imm(value, nvidiaMajor, "allow"),
		asm.LoadMem(value, context, minorField, asm.Word),
		asm.JGT.Imm(value, lastGPU, "allow"),
	}
	for _, minor := range minors {
		code = append(code, asm.JEq.Imm(value, int32(minor), "allow"))
	}
	return append(code,
		asm.Mov.Imm(verdict, 0),
		asm.Return(),
		asm.Mov.Imm(verdict, 1).WithSymbol("allow"),
		asm.Return(),
	)
}

// load loads a filter for these minors into the kernel. The caller closes it; an attached
// program stays.
func load(minors []int) (*ebpf.Program, error) {
	program, err := ebpf.NewProgram(&ebpf.ProgramSpec{Name: "berth", Type: ebpf.CGroupDevice, Instructions: filter(minors), License: "Apache-2.0"})
	if err != nil {
		return nil, fmt.Errorf("load a device filter: %w", err)
	}
	return program, nil
}

// effective returns the ids of the programs that apply in a control group: its own and
// those of the groups around it.
func effective(group *os.File) ([]ebpf.ProgramID, error) {
	found, err := link.QueryPrograms(link.QueryOptions{Target: int(group.Fd()), Attach: ebpf.AttachCGroupDevice, QueryFlags: unix.BPF_F_QUERY_EFFECTIVE})
	if err != nil {
		return nil, fmt.Errorf("ask which device filters count: %w", err)
	}
	var ids []ebpf.ProgramID
	for _, p := range found.Programs {
		ids = append(ids, p.ID)
	}
	return ids, nil
}

// errLoosens means that a filter in a group would replace one around it. The kernel
// allows that if the outer filter was attached so.
var errLoosens = errors.New("the device filter around it would not count any more")

// attachTo loads a filter for these minors and attaches it to a group: the kernel runs it
// for every use of a device by a process in the group, beside the filters of the groups
// around it. attachTo ensures that every filter that applies in the group around it also
// applies in the group. The filter stays when this process ends, and goes with the group.
func attachTo(inner, outer string, minors []int) error {
	in, err := os.Open(inner)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Open(outer)
	if err != nil {
		return err
	}
	defer out.Close()
	program, err := load(minors)
	if err != nil {
		return err
	}
	defer program.Close()
	before, err := effective(out)
	if err != nil {
		return err
	}
	if err := link.RawAttachProgram(link.RawAttachProgramOptions{
		Target: int(in.Fd()), Program: program, Attach: ebpf.AttachCGroupDevice, Flags: unix.BPF_F_ALLOW_MULTI,
	}); err != nil {
		return fmt.Errorf("attach a device filter: %w", err)
	}
	after, err := effective(in)
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
