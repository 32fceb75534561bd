package words

import "testing"

func TestUpperFirst(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "a": "A", "no device fits": "No device fits", "No": "No", "4 GiB": "4 GiB", "über": "Über", "\xff": "\xff",
	} {
		if got := UpperFirst(text); got != want {
			t.Errorf("UpperFirst(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestLowerFirst(t *testing.T) {
	for text, want := range map[string]string{"": "", "No device fits": "no device fits", "no": "no", "4 GiB": "4 GiB"} {
		if got := LowerFirst(text); got != want {
			t.Errorf("LowerFirst(%q) = %q, want %q", text, got, want)
		}
	}
}

func TestCut(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"", 0, ""}, {"abc", 3, "abc"}, {"abcd", 3, "abc…"}, {"äöü", 3, "äöü"}, {"äöü!", 3, "äöü…"}, {"abc", 0, "…"},
	} {
		if got := Cut(c.text, c.most); got != c.want {
			t.Errorf("Cut(%q, %d) = %q, want %q", c.text, c.most, got, c.want)
		}
	}
}
