package placement

// leastLoaded takes the device with the smallest active / max_pipelines, then
// the one with the most memory to lease. Leases without slots do not load a
// device; among such devices it is the memory that decides.
func leastLoaded(u *Use) Key { return loadFirst(share(u), most(memory(u))) }
