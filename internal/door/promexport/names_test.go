package promexport

import (
	"fmt"
	"slices"
	"testing"
)

func TestNamesKeepTheirLabels(t *testing.T) {
	var n Names
	for i := range 2 * mostNames {
		name := fmt.Sprintf("user%02d", i)
		want := name
		if i >= mostNames {
			want = otherName
		}
		if got := n.User(name); got != want {
			t.Fatalf("the label of user %d is %q, want %q", i, got, want)
		}
	}
	if got := n.User("user00"); got != "user00" {
		t.Errorf("the first user is called %q now", got)
	}
	if got := len(n.Users()); got != mostNames {
		t.Errorf("%d users have a label, want %d", got, mostNames)
	}
}

func TestOneUserCannotTakeAllLabels(t *testing.T) {
	var n Names
	for i := range 1000 {
		n.Service(fmt.Sprintf("junk%d", i), "mallory")
	}
	if got := len(n.Services()); got != mostInvented {
		t.Errorf("one user took %d labels, want %d", got, mostInvented)
	}
	if got := n.Service("embedder", "anna"); got != "embedder" {
		t.Errorf("the service of another user is called %q", got)
	}
	if got := n.Service("junk0", "anna"); got != "junk0" {
		t.Errorf("a service with a label is called %q for another user", got)
	}
}

func TestConfiguredServicesComeFirst(t *testing.T) {
	var n Names
	var configured []string
	for i := range mostNames + 5 {
		configured = append(configured, fmt.Sprintf("service%02d", i))
	}
	slices.Reverse(configured)
	n.Reserve(configured)
	n.Reserve(configured) // as after a reload
	if got := n.Services(); len(got) != mostNames || got[0] != "service00" {
		t.Errorf("%d services have a label, the first is %q", len(got), got[0])
	}
	if got := n.Service("service00", "anna"); got != "service00" {
		t.Errorf("a configured service is called %q", got)
	}
	if got := n.Service("service54", "anna"); got != otherName {
		t.Errorf("a service beyond the limit is called %q", got)
	}
	if got := n.Service("", "anna"); got != "" {
		t.Errorf("work under no service is called %q", got)
	}
}
