package gpu

// The causes of the state of a device. Only the first two follow from what is
// measured.
const (
	CauseTemperature = "temperature" // it is above a threshold, or was a moment ago
	CauseMemory      = "memory"      // the share of memory in use is above a threshold, or was a moment ago
	CauseFault       = "fault"       // the device, or the one that it is part of, is in quarantine
	CauseLost        = "lost"        // it is not on the bus any more
	CauseSilent      = "silent"      // it does not answer, or was not asked yet
)
