package check

import "github.com/berth-gpu/berth/internal/device/proof"

// Park is the verb of a helper process that proves nothing: it moves the memory of other
// processes off their devices and back, as the lines after the first say. See package
// move.
const Park proof.Verb = "park"

// Line is one line that the helper process writes, as JSON. It reads its Ask as
// one line from its standard input, and ends when that input ends.
type Line struct {
	// Opened means that the driver has opened the device. From here on, a crash or a hang
	// of the helper process counts against the device.
	Opened bool `json:"opened,omitempty"`
	// Step is a finished step, or the progress of one.
	Step *proof.Step `json:"step,omitempty"`
	// Unable says why the device cannot be asked. It is the last line.
	Unable string `json:"unable,omitempty"`
	// Done is the last line of a helper process that has taken every step.
	Done bool `json:"done,omitempty"`
}

const (
	mostLine  = 4096   // bytes of a line
	mostLines = 10_000 // most lines of a helper process
)
