package placement

// mostFree takes the device with the most memory to lease, then the least
// loaded one.
func mostFree(u *Use) Key { return memoryFirst(most(memory(u)), share(u), measured(u)) }
