package placement

// bestFit takes the device on which the least memory is left over, so that
// large holes stay for large requests, then the one with the smallest share of
// its slots in use. What is left over is available minus asked, and asked is the
// same everywhere: the order is that of available. It fills devices and ignores
// what was measured on them.
func bestFit(u *Use) Key { return memoryFirst(memory(u), share(u), 0) }
