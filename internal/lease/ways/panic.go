package ways

import (
	"fmt"
	"runtime/debug"
)

// CrashOnPanic ends the daemon if the function that defers it panics. It is for
// work on a state that others rely on: the work may have changed the state in part,
// and its caller might recover and go on.
func CrashOnPanic() {
	if cause := recover(); cause != nil {
		text := fmt.Sprintf("%v\n\n%s", cause, debug.Stack())
		go func() { panic(text) }()
		select {} // until the panic ends the process
	}
}
