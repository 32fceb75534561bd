package nvml

// Sampled sets the time of the newest process utilisation that was read.
func (c *card) Sampled(at uint64) { c.sampled = at }
