package placement

// spread takes the device with the fewest slots in use, however many it has,
// then the one with the most memory to lease. Affinity is turned around: a
// device on which the service of the request runs less comes before one on
// which it runs more, because a service that asks to be spread wants to lose
// little when one device fails.
func spread(u *Use) Key { return loadFirst(count(u.Active), most(memory(u))) }
