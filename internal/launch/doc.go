// Package launch turns a lease into the environment of a program, and this
// process into that program.
//
// The environment is worked out by pure functions (environment.go, caps.go,
// merge.go): which devices the program sees, who it is under, and what keeps it
// to its memory, together with a receipt that says what that holds and what it
// does not. The rest finds programs and becomes them.
package launch
