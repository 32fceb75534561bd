package words

import "testing"

func TestShell(t *testing.T) {
	for word, want := range map[string]string{"embedder-1": "embedder-1", "a b": "'a b'", "it's": `'it'\''s'`, "größe": "größe"} {
		if got := Shell(word); got != want {
			t.Errorf("%s is quoted as %s, want %s", word, got, want)
		}
	}
}
