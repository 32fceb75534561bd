// Package batch pushes records through worker processes, several per GPU if asked, so
// that every record has exactly one outcome, whatever dies.
//
// A Run reads records (package record) into a bounded pool, hands them out in chunks as
// workers ask for them (package chunk decides how many and which first), and commits the
// outcomes in groups (package outcome keeps them through kill -9). Workers are processes
// of their own, each under a lease that a Leaser grants; docs/reference/batch-protocol.md
// specifies the protocol on their pipes.
//
// A record belongs to exactly one holder at any time: the pool, the list of suspects, one
// worker, or the sink on its way to the disk. The records of a worker go back when its
// process is gone, never before.
package batch
