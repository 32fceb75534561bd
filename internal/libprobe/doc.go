// Package libprobe finds out which Python libraries an interpreter can import,
// and which physical GPUs they see. Every library is imported in a child
// process of its own, with a time limit: a library that crashes, hangs or
// starts seventy threads takes nothing with it and hides no other.
//
// A probe runs code of whoever installed the libraries, as the user that this
// process runs as. It belongs into a process of the user who asks, such as the
// command line, and not into a daemon with more rights than that user.
package libprobe
