package spelling

import "testing"

func TestPrintable(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "out.jsonl": "out.jsonl", "größe 大 ✓": "größe 大 ✓",
		"a\nb\tc\x1b[31m": "a\uFFFDb\uFFFDc\uFFFD[31m",
		"\xff\xfe.":       "\uFFFD\uFFFD.", "\u202e\u200b\u00a0": "\uFFFD\uFFFD\uFFFD",
	} {
		if got := Printable(text); got != want {
			t.Errorf("Printable(%q) = %q, want %q", text, got, want)
		}
	}
}
