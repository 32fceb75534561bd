// Package view says how answers look on a terminal: those of the daemon, and
// what a command found out by itself.
//
// A value goes in, mostly of package api, and lines come out: for a width, a
// choice of colours and a time that the caller gives. Every command prints with
// it, so that a lease or a device looks the same everywhere.
//
// What other machines say is not trusted: each name of theirs is cleaned and
// cut.
//
// Pure: no clock, no I/O.
package view
