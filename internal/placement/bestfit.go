package placement

// bestFit takes the device on which the least memory is left over, so that
// large holes stay for large requests, then the least loaded one. What is left
// over is available minus asked, and asked is the same everywhere: the order is
// that of available.
func bestFit(u *Use) Key { return memoryFirst(memory(u), share(u)) }
