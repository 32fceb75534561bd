package launch

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestReadQuestion(t *testing.T) {
	for text, want := range map[string]*Question{
		"f--memory\x00f4GiB\x00cpython\x00cx.py\x00eA=b\x00eC=\x00t2.11.0\x00": {
			Flags: []string{"--memory", "4GiB"}, Command: []string{"python", "x.py"}, Environ: []string{"A=b", "C="}, Torch: "2.11.0",
		},
		"ctrue\x00t\x00":              {Command: []string{"true"}},
		"f\x00ctrue\x00":              {Flags: []string{""}, Command: []string{"true"}},
		"":                            nil,
		"\x00":                        nil,
		"ctrue":                       nil, // cut off
		"ctrue\x00\x00":               nil,
		"f--memory\x00":               nil, // no command
		"ctrue\x00xsomething new\x00": nil,
	} {
		got, ok := ReadQuestion([]byte(text))
		switch {
		case ok != (want != nil):
			t.Errorf("%q is a question: %v", text, ok)
		case ok:
			if diff := cmp.Diff(*want, got); diff != "" {
				t.Errorf("%q: %s", text, diff)
			}
		}
	}
}

func TestAnswer(t *testing.T) {
	got := string(Answer("as learned", []string{"A=b=c", "GONE", "ODD=x\x00y"}))
	if want := "mas learned\x00sA=b=c\x00uGONE\x00sODD=xy\x00.\x00"; got != want {
		t.Errorf("the answer is %q, want %q", got, want)
	}
	if got := string(Answer("", nil)); got != ".\x00" {
		t.Errorf("the empty answer is %q", got)
	}
}
