// Package api has the types of requests to the daemon and of its answers.
//
// They are the contract with programs in other languages, so a field here never
// changes its name or its meaning.
//
// Pure: no clock, no I/O.
package api
