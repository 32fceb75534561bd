package placement

// leastLoaded takes the device with the smallest active / max_pipelines, then the one
// that worked least lately, then the coolest, then the one with the most memory to lease.
// Leases without slots do not load a device; between devices with only those, the
// measurements decide.
func leastLoaded(u *Use) Key { return loadFirst(share(u), measured(u), most(memory(u))) }
