package device

// Specs returns the texts that name devices, for help and errors. MODEL and FILE stand
// for the user's text.
func Specs() []string {
	return []string{"auto", "nvml", "amd", "intel", "sim:4", "sim:MODEL", "sim:FILE", "sim:trace=FILE"}
}

// SpecExamples returns texts that name devices, for a user to choose from.
func SpecExamples() []string {
	return []string{"auto", "nvml", "amd", "intel", "sim:4", "sim:rtx-4060", "sim:dgx-h200"}
}

// SpecError says that a text such as sim:4 names no devices.
type SpecError struct{ Err error }

func (e *SpecError) Error() string { return e.Err.Error() }
func (e *SpecError) Unwrap() error { return e.Err }
