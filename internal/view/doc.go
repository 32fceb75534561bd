// Package view says how answers of the daemon look on a terminal. A value of
// package api goes in, and lines come out: for a width, a choice of colours and
// a time that the caller gives. Every command prints with it, so that a lease
// or a device looks the same everywhere.
package view
