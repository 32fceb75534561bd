// Package chunk decides how records are handed to workers: what a batch will
// cost, which records go first, how many go together, and what becomes of a
// batch that a worker did not finish. It holds numbers, not records, and does
// nothing by itself; package batch does what it says.
package chunk
