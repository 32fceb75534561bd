package chunk

import "time"

// Cause says why a worker did not finish a batch.
type Cause string

// The causes.
const (
	Withdrawn   Cause = "withdrawn"     // the run stopped the worker: the batch is not at fault
	Died        Cause = "died"          // its process ended
	Hung        Cause = "hung"          // it did not answer in time
	Nonsense    Cause = "nonsense"      // its answer was not valid
	OutOfMemory Cause = "out of memory" // it reported that, and is alive
	Refused     Cause = "refused"       // it reported that it cannot do the batch, and is alive
)

// Verdict is the decision about a batch that was not finished.
type Verdict int

// The verdicts.
const (
	Again Verdict = iota // send it again as if for the first time
	Split                // cut it into parts, each to be tried by itself
	Alone                // the single record is tried again by itself
	Mark                 // the single record is the culprit and is marked with an error
)

// Judge decides about a batch of this many records. failures counts how often the batch,
// as a single record, has failed, this time included. Judge blames a record only if it
// was alone, and, if its worker died, only after several tries, because somebody else may
// have killed the worker.
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

// Parts cuts a batch of n records into parts to be tried one by one, and
// returns where each ends. Halves find a culprit in the fewest runs. If each
// run costs a whole time limit, eighths need fewer of those in a row.
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

// Backoff returns how long to wait before a worker starts again after a number
// of failures in a row: twice as long each time, up to a hundred times the
// first.
func Backoff(first time.Duration, failures int) time.Duration {
	if failures < 1 {
		return 0
	}
	return min(first<<min(failures-1, 16), 100*first)
}
