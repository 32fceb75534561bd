// Package libprobe finds out which Python libraries an interpreter can import,
// and which physical GPUs they see.
//
// It imports every library in a child process of its own, with a time limit: a
// library that crashes, hangs or starts seventy threads does not affect the
// others.
//
// A probe runs code of the users who installed the libraries, as the user of
// this process. So it belongs in a process of the user who asks, such as the
// command line, and not in a daemon with more rights than that user.
package libprobe
