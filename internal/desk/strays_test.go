package desk

import (
	"testing"
	"testing/synctest"
	"time"
)

// However often somebody asks who has a device open, that takes a tenth of a processor.
func TestALookAtOpenFilesRests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d, looks := &Strays{}, 0
		look := func(names []string) map[string][]int {
			looks++
			time.Sleep(time.Second)
			return map[string][]int{names[0]: {looks}}
		}
		for _, c := range []struct {
			name  string
			after time.Duration
			looks int
		}{{"a", 0, 1}, {"a", 0, 1}, {"a", 9 * time.Second, 1}, {"b", 0, 2}, {"b", 9 * time.Second, 2}, {"b", 2 * time.Second, 3}} {
			time.Sleep(c.after)
			if found := d.whoOpened([]string{c.name}, look); looks != c.looks || found[c.name][0] != looks {
				t.Errorf("after %v: %d looks, want %d; %v", c.after, looks, c.looks, found)
			}
		}
	})
}
