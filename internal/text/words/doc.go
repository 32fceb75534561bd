// Package words writes for people: numbers with their nouns, lists, lengths of time, and
// suggestions for mistyped names.
//
// Every message of berth takes its wording from here, so that the same thing
// reads the same everywhere. The package imports nothing of berth. Amounts of
// memory are gpu.MiB, which writes itself.
//
// Pure: no clock, no I/O.
package words
