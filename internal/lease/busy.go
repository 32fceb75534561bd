package lease

// BusyError says that an optimization of leases is under way.
type BusyError struct{ Why string }

func (e *BusyError) Error() string { return e.Why }
