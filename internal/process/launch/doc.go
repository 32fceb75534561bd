// Package launch works out what a program under a lease is told.
//
// Everything here is a pure function: what the flags of berth exec ask for
// (request.go), the name that a program is remembered under (name.go), and the
// environment of a program (environment.go, caps.go, isolation.go, merge.go): which
// devices it sees, which lease it is under, and what keeps it to its memory,
// together with a receipt (receipt.go) that says what that holds and what it does
// not.
//
// Pure: no clock, no I/O.
package launch
