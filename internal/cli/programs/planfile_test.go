package programs

import "testing"

// A child whose parent is killed before it could open the plan never becomes
// anything.
func TestPlanOfAParentThatIsGone(t *testing.T) {
	o := runOrder{Plan: "/proc/0/fd/9"}
	if err := o.takePlan(); err != ErrNoOrder {
		t.Error(err)
	}
}
