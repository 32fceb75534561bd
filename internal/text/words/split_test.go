package words_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/berth-gpu/berth/internal/text/words"
)

func TestSplit(t *testing.T) {
	for written, want := range map[string][]string{
		"python3 server.py --port ${PORT}":      {"python3", "server.py", "--port", "${PORT}"},
		"  a\tb \n c ":                          {"a", "b", "c"},
		`llama-server -m "/models/a b.gguf" ''`: {"llama-server", "-m", "/models/a b.gguf", ""},
		"a \\\n  --flag 'it'\\''s'":             {"a", "--flag", "it's"},
		`"a\"b\n" \ c`:                          {`a"b\n`, " c"},
		"a # not this\nb#c":                     {"a", "b#c"},
		`sh -c "a | b; c > d"`:                  {"sh", "-c", "a | b; c > d"},
		`--json='{"a": [1, 2]}'`:                {`--json={"a": [1, 2]}`},
	} {
		if got, err := words.Split(written); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %q, %v, want %q", written, got, err, want)
		}
	}
	for written, why := range map[string]string{
		"": "is empty", " # only a comment": "is empty", "a | b": "only a shell", "a && b": "only a shell", "a > b": "only a shell", "a; b": "only a shell", "`a`": "only a shell",
		"a 'b": "without the one that ends it", `a "b\"`: "without the one that ends it", `a \`: "ends with a backslash",
	} {
		if got, err := words.Split(written); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%q is %q, %v; it must be refused: %s", written, got, err, why)
		}
	}
}

// What Shell quotes, Split reads as one word.
func FuzzSplit(f *testing.F) {
	for _, word := range []string{"a", "a b", "it's", `"`, `\`, "a\nb", "#", "|", "$x", ""} {
		f.Add(word)
	}
	f.Fuzz(func(t *testing.T, word string) {
		_, _ = words.Split(word) // whatever it is
		if word == "" || strings.ToValidUTF8(word, "") != word {
			return
		}
		if got, err := words.Split("a " + words.Shell(word)); err != nil || !slices.Equal(got, []string{"a", word}) {
			t.Errorf("%q becomes %q, %v", word, got, err)
		}
	})
}
