package drm

import (
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-gpu/berth/gpu"
)

// Table says what the driver of a vendor tells, and where. Files lie below the folder of
// a card in /sys/class/drm, and sensors are files of its hardware monitoring. Of several
// names, the first that exists counts. What the driver does not tell is left empty.
type Table struct {
	Name    string // of the backend
	Vendor  gpu.Vendor
	Label   string   // what people call the vendor
	Drivers []string // of the kernel
	Missing string   // what to do if there is no GPU

	Serial  string // file; without a serial number, the place of a card identifies it
	Product string // file with the name of the board

	MemoryTotal []string // patterns of files that add up
	LeastMemory gpu.MiB  // a card with less is part of a processor; 0: its place says whether it is
	MemoryUsed  string   // file; without it, the memory of the processes adds up
	Busy        string   // file; without it, the work of the processes adds up
	MemoryBusy  string   // file
	Clock       []string // files, in MHz

	Core              []string // labels of the temperature of the chip
	MemoryTemperature []string // labels
	Power             []string // sensors; without them, the energy says how much it was
	Energy            []string // sensors
	ClockCore         string   // sensor, in Hz
	ClockMemory       string   // sensor, in Hz
	Limits            []Limit
	Fan               bool // whether the speed of the fan can be set

	// Quiet means that the driver may tell nothing about a card that works. Then a card
	// has failed only if it is not on the bus.
	Quiet bool

	// Computing is the folder of a driver for computing, below the root. Without one, the
	// vendor's runtime counts cards by their addresses.
	Computing string

	Errors      string    // pattern of files that count errors
	Uncorrected gpu.Fault // what it means if they count an error that was not corrected
	Faults      Catalogue

	// Throttle returns why a card is slowed down. It returns nil if the driver does not
	// say, and an empty list if nothing slows the card down.
	Throttle func(*Card) []gpu.ThrottleReason
}

// Limit names the sensors of a power limit. A driver that has no sensor for the highest one
// decides itself what it takes.
type Limit struct{ Now, Default, Least, Most string }

// Catalogue says what messages of a driver mean.
type Catalogue struct {
	Entries []Entry // the first match counts
	Not     string  // a message with this text is about no fault; empty excludes none
	PID     string  // pattern whose first group is the process that a message names
	Names   string  // pattern of what users choose in a message: it counts for no entry

	// Anywhere means that the name of the driver may stand anywhere in its messages.
	// Otherwise they begin with it.
	Anywhere bool
}

// Entry is a kind of message.
type Entry struct {
	Words []string // the message has all of them
	Fault gpu.Fault
}

// Faults that drivers of several vendors report.
var (
	Reset = gpu.Fault{
		Name: "the driver resets the GPU, and the programs on it fail", Class: gpu.FaultDriver, Severity: gpu.Warning,
		Remedy: "restart the programs; if it happens again and again, ask the vendor."}
	Hang = gpu.Fault{
		Name: "the GPU did not finish the work of a program in time", Class: gpu.FaultProgram, Severity: gpu.Warning,
		Remedy: "restart the program; if other programs fail in the same way, ask the vendor."}
)

// from reports whether a message comes from one of the drivers.
func (c *Catalogue) from(drivers []string, text string) bool {
	first, _, _ := strings.Cut(text, " ")
	return slices.ContainsFunc(drivers, func(driver string) bool {
		return first == driver || c.Anywhere && strings.Contains(text, driver)
	})
}

// Describe returns the fault that a message reports, and the process that it names, or 0.
// It reports false for a message that is about no fault.
func (c *Catalogue) Describe(text string) (f gpu.Fault, pid int, ok bool) {
	if c.Not != "" && strings.Contains(text, c.Not) {
		return f, 0, false
	}
	said := text
	if c.Names != "" {
		said = regexp.MustCompile(c.Names).ReplaceAllString(text, "$1$2$3") // faults are rare
	}
	for _, e := range c.Entries {
		all := true
		for _, word := range e.Words {
			all = all && strings.Contains(said, word)
		}
		if all {
			return e.Fault, c.pidIn(text), true
		}
	}
	return f, 0, false
}

func (c *Catalogue) pidIn(text string) int {
	found := regexp.MustCompile(c.PID).FindStringSubmatch(text) // faults are rare
	if found == nil {
		return 0
	}
	pid, _ := strconv.Atoi(found[1])
	return pid
}
