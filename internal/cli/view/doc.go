// Package view formats answers for a terminal: those of the daemon, and the findings of
// the commands themselves.
//
// Its functions take a value, mostly of package api, and return lines for a width, a
// choice of colours and a time that the caller gives. Every command prints with it, so
// that a lease or a device looks the same everywhere.
//
// It does not trust other machines: it cleans and cuts each of their names.
//
// Pure: no clock, no I/O.
package view
