// Package gpu holds the words of berth: devices, samples, states, events and
// the units they are measured in.
//
// Everything else speaks in these words, so the package depends on nothing and
// decides nothing.
//
// Pure: no clock, no I/O.
package gpu
