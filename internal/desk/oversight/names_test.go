package oversight

import (
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/berth-gpu/berth/internal/access/users"
	"github.com/berth-gpu/berth/internal/process"
)

// The user of a stranger on a device is looked up aside: while the user
// database hangs, the device is sampled all the same.
func TestSamplingDoesNotWaitForUserNames(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	names := users.New(func(int) (string, error) { <-hang; return "late", nil }, time.Hour)
	o := New(Options{Processes: process.Proc(), Names: names})
	if got, want := o.userOf(os.Getpid()), strconv.Itoa(os.Geteuid()); got != want {
		t.Errorf("the user is %q, want %q", got, want)
	}
	if got := o.userOf(-1); got != "" {
		t.Errorf("the user of no process is %q", got)
	}
}
