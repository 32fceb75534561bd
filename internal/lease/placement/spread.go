package placement

// spread takes the device with the fewest slots in use, however many it has, then the one
// that worked least lately, then the coolest, then the one with the most memory to lease.
// It keeps the leases of a service apart even if the service wants them together: a user
// who asks for spread wants to lose little when one device fails.
func spread(u *Use) Key { return loadFirst(count(u.Active), measured(u), most(memory(u))) }
