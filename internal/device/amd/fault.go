package amd

import (
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/berth-gpu/berth/gpu"
)

// catalogue says what messages of the driver mean. The first that matches
// counts. A reset that succeeds leaves a GPU that can be used; the programs on
// it have lost their work.
var catalogue = []struct {
	words []string // all of them are in the message
	fault gpu.Fault
}{
	// These name a program, which may be called as its user likes: first.
	{[]string{"Process information:", "pid "}, hang},
	{[]string{"for process ", "pid "}, gpu.Fault{
		Name: "access to memory that is not mapped", Class: gpu.FaultProgram, Severity: gpu.Warning,
		Remedy: "look for the mistake in the program."}},
	{[]string{"device lost from bus"}, gpu.Fault{
		Name: "the GPU fell off the bus", Class: gpu.FaultDevice, Severity: gpu.Serious,
		Remedy: "reboot the machine; if it comes back, check the seating, the power supply and the cooling of the GPU."}},
	{[]string{"uncorrectable hardware error"}, uncorrected},
	{[]string{"GPU reset end with ret = -"}, resetFailed},
	{[]string{"GPU reset", "failed"}, resetFailed},
	{[]string{"GPU Recovery Failed"}, resetFailed},
	{[]string{"GPU reset begin"}, gpu.Fault{
		Name: "the driver resets the GPU, and the programs on it fail", Class: gpu.FaultDriver, Severity: gpu.Warning,
		Remedy: "restart the programs; if it happens again and again, ask the vendor."}},
	{[]string{"GPU reset", "succeeded"}, gpu.Fault{
		Name: "the driver has reset the GPU, and it works again", Class: gpu.FaultDriver, Severity: gpu.Note}},
	{[]string{"ring ", " timeout"}, hang},
}

var (
	uncorrected = gpu.Fault{
		Name: "a hardware error could not be corrected", Class: gpu.FaultDevice, Severity: gpu.Serious,
		Remedy: "stop the work on this GPU and reset it, or reboot; if it comes back, have the GPU replaced."}
	resetFailed = gpu.Fault{
		Name: "the driver could not reset the GPU", Class: gpu.FaultDevice, Severity: gpu.Serious,
		Remedy: "stop the work on this GPU and reboot the machine."}
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
		if all && !strings.Contains(text, " 0 uncorrectable") {
			return entry.fault, pidIn(text), true
		}
	}
	return f, 0, false
}

// pidPattern is compiled when the first fault comes. A name has at most 15 bytes
// and may look like the rest of the message, so it is taken as long as it can be.
var pidPattern = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bprocess .{0,15} pid:? (\d+)`) })

// pidIn returns the process that a message names; 0: none.
func pidIn(text string) int {
	found := pidPattern().FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	pid, _ := strconv.Atoi(found[1])
	return pid
}
