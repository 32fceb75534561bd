package check

import (
	_ "embed"
	"errors"

	"github.com/berth-gpu/berth/internal/device/cuda"
	"github.com/berth-gpu/berth/internal/device/proof"
)

// Card is a device under exam.
type Card interface {
	// Units returns the number of multiprocessors.
	Units() (int, error)
	// Free returns how much of its memory is free, in bytes.
	Free() (uint64, error)
	// Take takes memory of the device.
	Take(bytes uint64) (cuda.Address, error)
	// HostMemory returns memory of the machine that the device accesses by itself.
	HostMemory(words int) ([]uint32, error)
	// CopyIn copies words to the device, and CopyOut from it.
	CopyIn(to cuda.Address, from []uint32) error
	CopyOut(to []uint32, from cuda.Address) error

	// fill writes a pattern, and check counts the words that do not follow it.
	fill(all []piece, p pattern) error
	check(all []piece, p pattern) (proof.Wrong, error)
	// chain starts the computation in that number of blocks, and returns at once.
	chain(at cuda.Address, blocks, rounds int, seed uint32) error
	// Wait waits until the device has done everything.
	Wait() error
}

// piece is memory of a device from one call of Take.
type piece struct {
	at    cuda.Address
	words uint64
	first uint64 // index of its first word in all memory taken
}

// threads is the number of threads in a block.
const threads = 256

// blocksPerUnit is the number of blocks for each multiprocessor: enough to keep it busy.
const blocksPerUnit = 8

// nvidia is a device under NVIDIA's driver.
type nvidia struct {
	*cuda.Device
	blocks                int
	filler, checker, hash cuda.Function
	report                cuda.Address
}

// OpenCard opens the device that this process may see, and compiles the programs for
// it. The goroutine must be locked to its thread.
func OpenCard() (Card, error) {
	if err := cuda.Load(cuda.Library); err != nil {
		return nil, err
	}
	d, err := cuda.Open()
	if err != nil {
		return nil, err
	}
	functions, err := compile(d)
	if err != nil {
		return nil, err
	}
	c := &nvidia{Device: d, filler: functions[0], checker: functions[1], hash: functions[2]}
	units, err := d.Units()
	if err != nil {
		return nil, err
	}
	c.blocks = units * blocksPerUnit
	c.report, err = d.Take(reportWords * 4)
	return c, err
}

// compile compiles the programs under the first header that the driver accepts.
func compile(d *cuda.Device) ([]cuda.Function, error) {
	var first error
	for _, header := range headers {
		functions, err := d.Compile(header+kernels, names...)
		if err == nil {
			return functions, nil
		}
		if first == nil {
			first = err
		}
		if refused := (*cuda.Error)(nil); !errors.As(err, &refused) || !refused.Uncompiled() {
			break
		}
	}
	return nil, first
}

// reportWords is the size of the report of the program check: a count, an index, and the
// expected and the found word.
const reportWords = 6

func (c *nvidia) fill(all []piece, p pattern) error {
	for _, one := range all {
		if err := c.Start(c.filler, c.blocks, threads, uint64(one.at), one.words, one.first, uint64(p.factor), uint64(p.mask)); err != nil {
			return err
		}
	}
	return c.Wait()
}

func (c *nvidia) check(all []piece, p pattern) (proof.Wrong, error) {
	report := make([]uint32, reportWords)
	if err := c.CopyIn(c.report, report); err != nil {
		return proof.Wrong{}, err
	}
	for _, one := range all {
		if err := c.Start(c.checker, c.blocks, threads, uint64(one.at), one.words, one.first, uint64(p.factor), uint64(p.mask), uint64(c.report)); err != nil {
			return proof.Wrong{}, err
		}
	}
	if err := errors.Join(c.Wait(), c.CopyOut(report, c.report)); err != nil {
		return proof.Wrong{}, err
	}
	return readReport(report), nil
}

// readReport reads the report of the program check.
func readReport(report []uint32) proof.Wrong {
	long := func(i int) uint64 { return uint64(report[i]) | uint64(report[i+1])<<32 }
	return proof.Wrong{Count: long(0), At: 4 * long(2), Expected: report[4], Found: report[5]}
}

func (c *nvidia) chain(at cuda.Address, blocks, rounds int, seed uint32) error {
	return c.Start(c.hash, blocks, threads, uint64(at), uint64(rounds), uint64(seed))
}

// The programs for the device are written in PTX, which the driver compiles when
// they are loaded. They use nothing that a GPU of 2014 or a driver of 2020 does
// not have, and all their arguments are 64 bits wide.
//
// fill writes a pattern: the word at a distance is (low half + high half of its
// index in all that is tested) × factor, xor mask.
//
//	fill(base, words, first, factor, mask)
//
// check reads it again. It counts the words that are wrong in report[0], and puts
// the index of the first that it meets in report[1], and what was expected and
// found in the halves of report[2].
//
//	check(base, words, first, factor, mask, report)
//
// chain computes a value for each thread that depends on every step before it, in
// integers and in both precisions. Threads at the same place in their blocks
// compute the same.
//
//	chain(out, rounds, seed)
//
//go:embed kernels.ptx
var kernels string

// headers begin the programs. The driver compiles the first one for every GPU that berth
// supports; the second is for a driver that no longer does.
var headers = []string{
	".version 6.0\n.target sm_50\n",
	".version 6.4\n.target sm_75\n",
}

// names are the names of the programs.
var names = []string{"berth_fill", "berth_check", "berth_chain"}
