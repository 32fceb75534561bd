package words

import "testing"

func TestEnd(t *testing.T) {
	for text, want := range map[string]string{"": "", "größe": "größe", "a/long/path": "…path"} {
		if got := End(text, 5); got != want {
			t.Errorf("the end of %q is %q, want %q", text, got, want)
		}
	}
}
