package chunk

import "time"

// Cause is why a worker did not finish a batch.
type Cause string

// The causes.
const (
	Withdrawn   Cause = "withdrawn"     // the worker was stopped for reasons of ours: not the fault of the batch
	Died        Cause = "died"          // its process ended
	Hung        Cause = "hung"          // it did not answer in time
	Nonsense    Cause = "nonsense"      // it answered something that is no answer
	OutOfMemory Cause = "out of memory" // it said so, and lives
	Refused     Cause = "refused"       // it said that it cannot do the batch, and lives
)

// Verdict is what becomes of a batch that was not finished.
type Verdict int

// The verdicts.
const (
	Again Verdict = iota // as if it had never been sent
	Split                // cut it into parts, each to be tried by itself
	Alone                // the single record is tried again by itself
	Mark                 // the single record is the culprit and is marked with an error
)

// Judge decides about a batch of so many records. failures counts how often
// the batch, being a single record, has failed, this time included. A record
// is found guilty only by itself, and where its worker did not live to tell,
// only after several tries: a worker may have been killed by somebody else.
func Judge(cause Cause, records, failures, tries int) Verdict {
	switch {
	case cause == Withdrawn:
		return Again
	case records > 1:
		return Split
	case cause == Refused, failures >= tries:
		return Mark
	}
	return Alone
}

// Parts cuts a batch of n records into parts to be tried one by one, as the
// ends of each. Halves find a culprit in the fewest runs. Where each run costs
// a whole time limit, eighths find it in fewer of those, one after the other.
func Parts(cause Cause, n int) []int {
	parts := 2
	if cause == Hung {
		parts = 8
	}
	parts = min(parts, n)
	ends := make([]int, parts)
	for i := range ends {
		ends[i] = n * (i + 1) / parts
	}
	return ends
}

// Backoff is how long to wait before a worker is started again after so many
// failures in a row: twice as long each time, up to a hundred times the first.
func Backoff(first time.Duration, failures int) time.Duration {
	if failures < 1 {
		return 0
	}
	return min(first<<min(failures-1, 16), 100*first)
}
