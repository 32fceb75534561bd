package intel

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/berth-gpu/berth/gpu"
)

// catalogue says what messages of the drivers mean. The first that matches
// counts.
var catalogue = []struct {
	words []string // all of them are in the message
	fault gpu.Fault
}{
	{[]string{"declared device", "wedged"}, dead},
	{[]string{"Failed to reset chip"}, dead},
	{[]string{"device lost from bus"}, dead},
	{[]string{"GPU HANG"}, hang},
	{[]string{"Timedout job"}, hang},
	{[]string{"reset failed"}, dead},
	{[]string{"Resetting chip for"}, reset},
	{[]string{"reset started"}, reset},
}

var (
	dead = gpu.Fault{
		Name: "the driver has given the GPU up", Class: gpu.FaultDevice, Severity: gpu.Serious,
		Remedy: "stop the work on this GPU and reboot the machine."}
	reset = gpu.Fault{
		Name: "the driver resets the GPU, and the programs on it fail", Class: gpu.FaultDriver, Severity: gpu.Warning,
		Remedy: "restart the programs; if it happens again and again, ask the vendor."}
	hang = gpu.Fault{
		Name: "the GPU did not finish the work of a program in time", Class: gpu.FaultProgram, Severity: gpu.Warning,
		Remedy: "restart the program; if other programs fail in the same way, ask the vendor."}
)

// describe returns the fault that a message of the driver reports, and the
// process that the message names. It reports false for any other message.
func describe(text string) (f gpu.Fault, pid int, ok bool) {
	for _, entry := range catalogue {
		all := true
		for _, word := range entry.words {
			all = all && strings.Contains(text, word)
		}
		if all {
			return entry.fault, pidIn(text), true
		}
	}
	return f, 0, false
}

// pidPattern is compiled when the first fault comes. A message names a process
// as "in python3 [4711]".
var pidPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bin .* ?\[(\d+)\]`) })

// pidIn returns the process that a message names; 0: none.
func pidIn(text string) int {
	found := pidPattern().FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	pid, _ := strconv.Atoi(found[1])
	return pid
}
