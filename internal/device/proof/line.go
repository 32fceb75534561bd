package proof

// Line is one line that the helper process writes, as JSON. It reads its Ask as
// one line from its standard input, and ends when that input ends.
type Line struct {
	// Opened says that the driver has opened the device. From here on, a helper
	// process that crashes or hangs does so on the device's account.
	Opened bool `json:"opened,omitempty"`
	// Step is a step that is done, or how far one is.
	Step *Step `json:"step,omitempty"`
	// Unable says why the device cannot be asked. It is the last line.
	Unable string `json:"unable,omitempty"`
	// Done is the last line of a helper process that has taken every step.
	Done bool `json:"done,omitempty"`
}

// MostLine is how long a line may be, in bytes.
const MostLine = 4096

// MostLines is how many lines a helper process may write.
const MostLines = 10_000
