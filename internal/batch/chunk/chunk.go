// Package chunk decides how to hand records to workers: what a batch will cost,
// which records go first, how many go together, and what to do with a batch
// that a worker did not finish.
//
// It holds numbers, not records, and has no effects; package batch carries out
// its decisions.
//
// Pure: no clock, no I/O.
package chunk
