package labels

import (
	"fmt"
	"slices"
	"testing"
)

func TestNamesKeepTheirLabels(t *testing.T) {
	var k Keeper
	for i := range 2 * most {
		name := fmt.Sprintf("user%02d", i)
		want := name
		if i >= most {
			want = Other
		}
		if got := k.User(name); got != want {
			t.Fatalf("the label of user %d is %q, want %q", i, got, want)
		}
	}
	if got := k.User("user00"); got != "user00" {
		t.Errorf("the first user is called %q now", got)
	}
	if got := len(k.Users()); got != most {
		t.Errorf("%d users have a label, want %d", got, most)
	}
}

func TestOneUserCannotTakeAllLabels(t *testing.T) {
	var k Keeper
	for i := range 1000 {
		k.Service(fmt.Sprintf("junk%d", i), "mallory")
	}
	if got := len(k.Services()); got != mostInvented {
		t.Errorf("one user took %d labels, want %d", got, mostInvented)
	}
	if got := k.Service("embedder", "anna"); got != "embedder" {
		t.Errorf("the service of another user is called %q", got)
	}
	if got := k.Service("junk0", "anna"); got != "junk0" {
		t.Errorf("a service with a label is called %q for another user", got)
	}
}

func TestConfiguredServicesComeFirst(t *testing.T) {
	var k Keeper
	var configured []string
	for i := range most + 5 {
		configured = append(configured, fmt.Sprintf("service%02d", i))
	}
	slices.Reverse(configured)
	k.Reserve(configured)
	k.Reserve(configured) // as after a reload
	if got := k.Services(); len(got) != most || got[0] != "service00" {
		t.Errorf("%d services have a label, the first is %q", len(got), got[0])
	}
	if got := k.Service("service00", "anna"); got != "service00" {
		t.Errorf("a configured service is called %q", got)
	}
	if got := k.Service("service54", "anna"); got != Other {
		t.Errorf("a service beyond the limit is called %q", got)
	}
	if got := k.Service("", "anna"); got != "" {
		t.Errorf("work under no service is called %q", got)
	}
}
