package placement

// pack takes the device with the largest share of its slots in use, then the
// one with the least memory to lease, so that idle devices stay idle: free for
// requests that need all of one, or cool. It ignores what was measured: the
// device that it fills is the busiest and the hottest.
func pack(u *Use) Key { return loadFirst(mostLoad-share(u), 0, memory(u)) }
