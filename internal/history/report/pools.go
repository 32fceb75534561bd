package report

import "time"

// Pools knows when the leases of users stood, from which others may have their memory, and
// something of each. The memory of a lease from a pool is its own, and not the pool's too,
// as long as both stand; when the pool has ended, it is the lease's alone.
type Pools[T any] map[poolName][]stood[T]

type poolName struct{ user, id string }

type stood[T any] struct {
	granted, ended time.Time
	of             T
}

// Add adds a lease. One that stands ends later than now.
func (p Pools[T]) Add(user, id string, granted, ended time.Time, of T) {
	name := poolName{user, id}
	p[name] = append(p[name], stood[T]{granted, ended, of})
}

// Of returns the pool that a lease had its memory from, and when the pool ended; false if
// there is none.
func (p Pools[T]) Of(user, pool string, granted time.Time) (of T, ended time.Time, found bool) {
	for _, s := range p[poolName{user, pool}] {
		if pool != "" && !s.granted.After(granted) && s.ended.After(granted) {
			return s.of, s.ended, true
		}
	}
	return of, ended, false
}
