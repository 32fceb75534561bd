package journal

import "iter"

// Forgetful is a journal that keeps nothing, for a ledger that lives only for
// one look.
func Forgetful() Journal { return forgetful{} }

type forgetful struct{}

func (forgetful) Append([][]byte, Care) error            { return nil }
func (forgetful) Compact(uint64, iter.Seq[[]byte]) error { return nil }
func (forgetful) Stats() Stats                           { return Stats{} }
func (forgetful) Close() error                           { return nil }
