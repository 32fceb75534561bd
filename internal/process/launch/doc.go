// Package launch prepares the launch of a program under a lease.
//
// Everything here is a pure function. The functions read the flags of berth exec
// (request.go), choose the name under which berth remembers a program (name.go), and make
// the environment of a program (environment.go, caps.go, isolation.go): which devices it
// sees, which lease it is under, and what limits its memory. A receipt (receipt.go) says
// what the environment enforces and what it does not.
//
// Pure: no clock, no I/O.
package launch
