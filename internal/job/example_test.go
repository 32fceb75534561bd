package job_test

import (
	"fmt"

	"github.com/berth-gpu/berth/internal/job"
)

// A task that fails and has tries left waits again, and what it had is given back.
func ExampleNext() {
	to, acts, _ := job.Next(job.Running, job.Retry)
	fmt.Println(to, acts)

	_, _, changes := job.Next(job.Done, job.Cancel)
	fmt.Println("cancelling what is done changes something:", changes)
	// Output:
	// waiting [release feed]
	// cancelling what is done changes something: false
}
