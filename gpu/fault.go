package gpu

// Fault describes an error of a device in words that all vendors share. The
// vendor's own code is for people; berth decides nothing by it.
type Fault struct {
	Name     string     // what happened, in a few words
	Class    FaultClass // whose fault it is
	Severity Severity   // Serious if the device must not be used until the fault is dealt with
	Remedy   string     // what to do, in one sentence; empty if there is nothing to do
	Code     string     // the vendor's name for it, such as "XID 79"; empty if it has none
}

// FaultClass says whose fault a fault is.
type FaultClass string

// The classes of faults.
const (
	FaultProgram FaultClass = "program" // a process did something wrong; the device is well
	FaultDevice  FaultClass = "device"  // the device itself
	FaultLink    FaultClass = "link"    // the connection to another device, or to the CPU
	FaultDriver  FaultClass = "driver"  // the driver or the firmware
)

// FaultClasses lists every class.
func FaultClasses() []FaultClass {
	return []FaultClass{FaultProgram, FaultDevice, FaultLink, FaultDriver}
}

// Cause returns what happened, with the vendor's code.
func (f Fault) Cause() string {
	switch {
	case f.Name == "":
		return "a fault that the driver does not describe"
	case f.Code != "":
		return f.Code + ", " + f.Name
	}
	return f.Name
}

// String returns what happened and what to do about it.
func (f Fault) String() string {
	if f.Remedy == "" {
		return f.Cause()
	}
	return f.Cause() + ": " + f.Remedy
}
