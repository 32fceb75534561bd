package cuda

// #include "driver.h"
import "C"

import (
	"fmt"
	"slices"
)

// Error is a call that the driver refused.
type Error struct {
	Call string
	Code int
	Text string // the driver's text for the code
}

func (e *Error) Error() string { return fmt.Sprintf("%s: %s (code %d)", e.Call, e.Text, e.Code) }

// broken lists the codes that speak against the device: memory that could not be
// corrected, a link that broke, and a program that went astray or did not end,
// although the same program is right on every other device.
var broken = []int{
	214, // uncorrectable memory error
	220, // uncorrectable error of a link between devices
	226, // contained error
	700, // illegal address
	702, // the program did not end in time
	714, // hardware stack error
	715, // illegal instruction
	716, // misaligned address
	717, // address space
	718, // program counter
	719, // the program failed
}

// Broken reports whether the error speaks against the device.
func (e *Error) Broken() bool { return slices.Contains(broken, e.Code) }

// Full reports whether the device ran out of memory.
func (e *Error) Full() bool { return e.Code == 2 }

// uncompiled lists the codes for programs that the driver cannot compile for the
// device.
var uncompiled = []int{
	209, // no program for this device
	218, // the program is not valid PTX
	221, // there is no compiler
	222, // the version of PTX is not supported
}

// Uncompiled reports whether the driver cannot compile the program.
func (e *Error) Uncompiled() bool { return slices.Contains(uncompiled, e.Code) }

// failure returns the error for the result of a call, or nil for success.
func failure(call string, code C.int) error {
	if code == 0 {
		return nil
	}
	e := &Error{Call: call, Code: int(code), Text: "unknown error"}
	var text *C.char
	if C.berth_cuGetErrorString(code, &text) == 0 && text != nil {
		e.Text = C.GoString(text)
	}
	return e
}
