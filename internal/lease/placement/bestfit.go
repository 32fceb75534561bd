package placement

// bestFit takes the device that would have the least memory left over, so that large
// holes stay for large requests, then the one with the smallest share of its slots in
// use. A request takes the same memory on every device, so the available memory alone
// gives the order. bestFit fills devices and ignores what was measured on them.
func bestFit(u *Use) Key { return memoryFirst(memory(u), share(u), 0) }
